"""What docs/guides/compare-and-gate.md states is so."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from benchorch.cli.commands import compare, duel, gate, gate_report, report, reproduce
from benchorch.results.compare.compatibility import FACTORS

PAGE = (Path(__file__).resolve().parents[4] / "docs" / "guides" / "compare-and-gate.md").read_text()
COMMANDS = [shlex.split(line) for line in re.findall(r"^python -m benchorch (.*)$", PAGE, re.M)]
COMMANDS_OF_IT = {
    "report": report.run,
    "compare": compare.run,
    "gate": gate.run,
    "duel": duel.run,
    "reproduce": reproduce.run,
}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_documented_command_is_one(words: list[str]) -> None:
    found = COMMANDS_OF_IT[words[0]].make_context(words[0], words[1:])
    if found.command is duel.run:
        duel._request(found.params["words"])


def test_every_option_and_every_factor_is_on_the_page() -> None:
    options = {
        option
        for command in COMMANDS_OF_IT.values()
        for parameter in command.params
        for option in parameter.opts
    }
    wanted = {option for option in options if option.startswith("--")} - {
        "--help",
        "--quiet",
        "--verbose",
        "--yes",
    }
    assert {option for option in wanted if option not in PAGE} == set()
    assert {factor for factor in FACTORS if f"`{factor}`" not in PAGE} == set()


def test_every_state_has_its_exit_code_on_the_page() -> None:
    for state, code in gate_report._EXIT_CODES.items():
        row = next(line for line in PAGE.splitlines() if line.lower().startswith(f"| {state} |"))
        assert row.rpartition("| ")[2].startswith(str(code))
