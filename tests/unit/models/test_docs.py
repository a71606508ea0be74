"""The page about model configs does what it says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

PAGE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "models.md"
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


def run(command: list[str], folder: Path) -> None:
    words = [sys.executable if word == "python" else word for word in command]
    answer = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    assert answer.returncode == 0, f"{shlex.join(command)}\n{answer.stdout}{answer.stderr}"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_file_and_command_of_the_page_works_in_its_order(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)  # whoever follows the page owns it
    commands = 0
    for language, name, content in BLOCK.findall(PAGE.read_text()):
        if name:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(content)
        for line in content.splitlines() if language == "console" else ():
            run(shlex.split(line), tmp_path)
            commands += 1
    assert commands >= 9


def test_the_table_of_models_is_the_folder() -> None:
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", PAGE.read_text(), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    models = {path.stem for path in (PAGE.parents[2] / "conf" / "model").glob("*.yaml")}
    assert models <= named


def test_every_yaml_block_is_yaml() -> None:
    blocks = [block[2] for block in BLOCK.findall(PAGE.read_text()) if block[0] == "yaml"]
    assert all(isinstance(yaml.safe_load(block), dict) for block in blocks)
