"""The verdict on programs that really run; `make trace-programs` scores their predictions.

Their times are those of a quiet machine: on a loaded one, what runs between two waits is a limit.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchorch.trace.analysis import analyze

pytest.importorskip("torch")
HERE = Path(__file__).parent
NAMES = (
    "asyncio_producer",
    "polled_flag",
    "condition_wait",
    "workers_and_results",
    "semaphore_threads",
    "process_pool_map",
    "flushed_log",
    "gloo_pipeline",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_verdict_is_right(name: str, tmp_path: Path) -> None:
    command = [sys.executable, str(HERE / "more_programs.py"), name, str(tmp_path), "--quick"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    true = json.loads((tmp_path / f"{name}.truth.json").read_text())
    analysis = analyze([Path(file) for file in true["files"]], range_name=true["range"])
    assert analysis.verdict.limit in true["classes"]
