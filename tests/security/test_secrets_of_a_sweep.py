"""What a sweep over Ray was told in confidence stands in nothing that it leaves behind."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

pytestmark = [pytest.mark.ray_cluster, pytest.mark.slow]

WORDS = (
    *("model=mlp", "conversion=eager", "executor=ray", "profiler=none", "hydra.run.dir=out"),
    *("stopping=fixed", "stopping.processes=1", "stopping.calls=5", "protocol.pairing=none"),
)
SECRETS: Mapping[str, str] = {
    "RAY_AUTH_TOKEN": "5ca1ab1e" * 8,
    "AWS_SECRET_ACCESS_KEY": "secret-of-aws-0123456789",
    "AWS_SESSION_TOKEN": "session-of-aws-0123456789",
    "HF_TOKEN": "hf_secret_0123456789",
    "MLFLOW_TRACKING_PASSWORD": "password-of-mlflow-0123456789",
}


@pytest.fixture
def short() -> Iterator[Path]:
    """Ray's sockets lie below it, and a socket's path may have 107 bytes."""
    with TemporaryDirectory(prefix="ray", dir="/tmp") as path:
        yield Path(path)


def command_lines(until: threading.Event, seen: set[bytes]) -> None:
    """Every command line of this machine, again and again."""
    while not until.wait(0.2):
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):  # gone meanwhile
                seen.add(path.read_bytes())


def test_no_secret_is_on_a_command_line_or_in_a_log_a_plan_a_result_or_the_tracker(
    tmp_path: Path, short: Path
) -> None:
    variables = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    over, seen = threading.Event(), set[bytes]()
    watching = threading.Thread(target=command_lines, args=(over, seen))
    watching.start()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "benchorch", *WORDS, f"recorder.uri=sqlite:///{tmp_path}/m.db"],
            cwd=tmp_path,
            env={
                **variables,
                **SECRETS,
                "RAY_TMPDIR": str(short),
                "BENCHORCH_CACHE_DIR": str(tmp_path / "store"),
                "XDG_STATE_HOME": str(tmp_path / "state"),
            },
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    finally:
        over.set()
        watching.join()
    assert done.returncode == 0, done.stderr
    files = [path for root in (tmp_path, short) for path in root.rglob("*") if path.is_file()]
    names = {path.name for path in files}
    assert {"plan.json", "results.jsonl", "log.txt", "environment.json", "m.db"} <= names
    assert "raylet.out" in names
    texts = [path.read_bytes() for path in files]
    for name, secret in SECRETS.items():
        needle = secret.encode()
        assert not [path for path, text in zip(files, texts, strict=True) if needle in text], name
        assert not [line for line in seen if needle in line], name
        assert secret not in done.stdout + done.stderr, name
