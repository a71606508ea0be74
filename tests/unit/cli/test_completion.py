"""Tab completion, in a real bash at a pseudo-terminal and as the other shells ask for it."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent


class Bash:
    """An interactive bash with benchorch's completion."""

    def __init__(self, home: Path) -> None:
        environment = {
            "HOME": str(home),
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "TERM": "dumb",
            "PS1": "",
            "XDG_STATE_HOME": str(home / "state"),
        }
        self._here, there = pty.openpty()
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"],
            stdin=there,
            stdout=there,
            stderr=there,
            env=environment,
            cwd=home,
            start_new_session=True,
        )
        os.close(there)
        self.type("source <(benchorch completion bash); echo rea''dy\n", "ready")

    def type(self, text: str, awaited: str) -> str:
        """What the terminal shows, up to what is awaited."""
        os.write(self._here, text.encode())
        shown, until_s = "", time.monotonic() + 60
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
    bash = Bash(tmp_path)
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
