"""A pipe, a device or a folder in the place of benchorch's own files: no command waits for it."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from benchorch.journal import registry
from support.command_lines import Commands
from support.slices import one_in
from support.synthetic_runs import result, trial, write_run

PLAN = ["plan", "model=mlp", "conversion=[eager,onnxruntime]"]
OF_THE_USER = {
    "state/benchorch/invocations.jsonl": [["status"], PLAN],
    "state/benchorch/invocations.lock": [["status"], PLAN],
    f"state/benchorch/calibration-{socket.gethostname()}.json": [["status"], PLAN],
    f"state/benchorch/plans/{hashlib.sha256(b'plan-run').hexdigest()}": [["resume", "@D"]],
    "config/benchorch/settings.yaml": [["status"], PLAN],
    "config/benchorch/signing.key": [["cache", "key"], PLAN],
}
OF_A_RUN = {
    name: [["status"], ["report", "@D"]]
    for name in ("plan.json", "results.jsonl", "driver.json", "lock", "cost.json", "winner.json")
} | {
    "tracking.json": [["open", "@D", "--no-browser"]],
    "recorded.jsonl": [["record", "@D", "--uri", "sqlite:///own.db"]],
    "table.md": [["check", "@D"]],
    "driver.log": [["logs", "@D"]],
    "trials/@T/observations.jsonl": [["check", "@D"]],
    "trials/@T/log.txt": [["logs", "@D", "@T"]],
}
FILES = {f"home/{name}": lines for name, lines in OF_THE_USER.items()}
FILES |= {f"run/{name}": lines for name, lines in OF_A_RUN.items()}
KINDS: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "folder": lambda path: path.mkdir(),
}


@pytest.mark.parametrize("name", one_in(3, FILES))
def test_no_command_waits_for_what_is_no_file(
    name: str, commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, eager = tmp_path / "home", trial()
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setenv("BENCHORCH_CACHE_DIR", str(home / "store"))
    run = write_run(tmp_path / "run", (eager, result(eager)))
    registry.remember("plan-run", run)
    registry.remember_plan("plan-run", run)
    path = tmp_path / name.replace("@T", eager.trial_id)
    sound = path.read_bytes() if path.exists() else None
    for kind, make in KINDS.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        make(path)
        for line in FILES[name]:
            words = [word.replace("@D", str(run)).replace("@T", eager.trial_id) for word in line]
            done = commands.run(tmp_path, words, environment=dict(os.environ))
            case = f"{kind}: {' '.join(words)}: {done}"
            assert done.code in (0, 1, 2), case
            assert "Traceback" not in done.output, case
            assert done.output.strip(), case
        path.rmdir() if path.is_dir() else path.unlink()
        if sound is not None:
            path.write_bytes(sound)
