"""Terraform ends by itself when it is interrupted: killed, it would leave the lock of its state."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import provision
from support.waiting import wait_for

SCRIPTS = Path(provision.__file__).parent
HOLDS_A_LOCK = (
    "sh",
    "-c",
    "trap 'kill $!; sleep 1; rm lock; exit 1' INT; touch lock; sleep 60 & wait",
)


def test_one_that_takes_too_long_releases_its_lock_and_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provision, "LIMIT_S", 5)
    with pytest.raises(OSError, match="terraform was interrupted: it took longer than 5 s"):
        provision._run(HOLDS_A_LOCK, tmp_path)
    assert not (tmp_path / "lock").exists()


def test_after_ctrl_c_its_end_is_awaited(tmp_path: Path) -> None:
    program = f"""
import pathlib, provision
provision._run({HOLDS_A_LOCK!r}, pathlib.Path({str(tmp_path)!r}))
"""
    terminal = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=SCRIPTS,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_for(tmp_path / "lock")
    os.killpg(terminal.pid, signal.SIGINT)
    terminal.wait(300)
    assert not (tmp_path / "lock").exists()


@pytest.mark.parametrize("is_quiet", [False, True])
def test_its_exit_code_is_returned_and_its_output_shown_where_it_fails(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], is_quiet: bool
) -> None:
    program = "import sys; print('why'); sys.exit(3)"
    assert provision._run([sys.executable, "-c", program], tmp_path, quiet=is_quiet) == 3
    assert "why" in "".join(capfd.readouterr())
    assert provision._run([sys.executable, "-c", "print('x')"], tmp_path, quiet=True) == 0
    assert "".join(capfd.readouterr()) == ""
