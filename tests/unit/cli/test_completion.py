"""Tab completion, in a real bash at a pseudo-terminal and as the other shells ask for it."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchorch.cli.completion import run_words

BIN = Path(sys.executable).parent


class Shell:
    """An interactive shell with benchorch's completion."""

    def __init__(self, home: Path, start: Sequence[str], prepare: str = "") -> None:
        environment = {
            "HOME": str(home),
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "TERM": "dumb",
            "PS1": "",
            "XDG_STATE_HOME": str(home / "state"),
        }
        self._here, there = pty.openpty()
        self._process = subprocess.Popen(
            start,
            stdin=there,
            stdout=there,
            stderr=there,
            env=environment,
            cwd=home,
            start_new_session=True,
        )
        os.close(there)
        self.type(f"{prepare}source <(benchorch completion {start[0]}); echo rea''dy\n", "ready")

    def type(self, text: str, awaited: str) -> str:
        """What the terminal shows, up to what is awaited."""
        os.write(self._here, text.encode())
        shown, until_s = "", time.monotonic() + 400
        while awaited not in shown and time.monotonic() < until_s:
            if select.select([self._here], [], [], 1)[0]:
                shown += os.read(self._here, 65536).decode(errors="replace")
        assert awaited in shown, shown
        return shown

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._here)


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_commands_keys_options_and_lists(tmp_path: Path) -> None:
    bash = Shell(tmp_path, ["bash", "--norc", "--noprofile", "-i"])
    try:
        bash.type("benchorch comp\t\t", "compare")
        for typed, completed in (
            ("benchorch model=ml\t", "model=mlp "),
            ("benchorch run model=mlp conversion=[eager,aot_ind\t\t\t", "aot_inductor_freezing"),
            ("benchorch plan recipes/ti\t", "recipes/tiny.yaml "),
            ("benchorch plan worklo\t\t\t", "workload.batch_size="),
            ("benchorch status --wa\t", "--watch "),
        ):
            bash.type("\x15", "")  # an empty line again
            bash.type(typed, completed)
    finally:
        bash.close()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_the_name_of_a_file_becomes_no_command_of_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("q$(touch PWN).yaml", "q;touch PWN.yaml", "q\ntouch PWN\n.yaml", "q*.yaml"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    assert run_words("q") == []
    (tmp_path / "qplain.yaml").touch()
    assert [one.value for one in run_words("q")] == ["qplain.yaml"]
    bash = Shell(tmp_path, ["bash", "--norc", "--noprofile", "-i"])
    try:
        bash.type("benchorch plan q\t", "qplain.yaml ")
    finally:
        bash.close()


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_completes_a_list_that_is_quoted_or_escaped(tmp_path: Path) -> None:
    zsh = Shell(tmp_path, ["zsh", "-f", "-i"], "PS1=; autoload -U compinit; compinit -u -D; ")
    try:
        for typed, completed in (
            ("benchorch run model=ml\t", "model=mlp "),
            ("benchorch run 'conversion=[eager,aot_ind\t", "'conversion=[eager,aot_inductor"),
            (r"benchorch run conversion=\[eager,aot_ind" "\t", r"=\[eager,aot_inductor"),
        ):
            zsh.type("\x15", "")
            zsh.type(typed, completed)
    finally:
        zsh.close()


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
@pytest.mark.parametrize(
    ("typed", "completed"),
    [("model=ml", "model=mlp"), ("conversion=[eager,aot_ind", "conversion=[eager,aot_inductor")],
)
def test_fish_completes_values_and_lists(typed: str, completed: str, tmp_path: Path) -> None:
    asked = f"benchorch completion fish | source; complete -C 'benchorch run {typed}'"
    path = f"{BIN}:{os.environ['PATH']}"
    done = subprocess.run(
        ["fish", "--no-config", "-c", asked],
        env={**os.environ, "HOME": str(tmp_path), "PATH": path},
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert completed in done.stdout.splitlines()


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_are_told_the_same(shell: str, tmp_path: Path) -> None:
    words = "benchorch run model=ml"
    asked = {"COMP_WORDS": words, "COMP_CWORD": "model=ml" if shell == "fish" else "2"}
    done = subprocess.run(
        [sys.executable, "-m", "benchorch"],
        env={**os.environ, **asked, "_BENCHORCH_COMPLETE": f"{shell}_complete"},
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert "model=mlp" in done.stdout
