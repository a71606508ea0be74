"""No library sends anything on a user's behalf while benchorch uses it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime")

_SEEN = """
import os
import benchorch, onnxruntime
print(len(os.listdir("/proc/self/task")))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_onnx_runtime_uploads_nothing_and_leaves_no_identifier(tmp_path: Path) -> None:
    # No variable of this process: ONNX Runtime sends nothing where it finds itself in a CI system.
    environment = {"HOME": str(tmp_path), "OPENBLAS_NUM_THREADS": "1"}
    found = subprocess.run(
        [sys.executable, "-c", _SEEN], env=environment, check=True, capture_output=True, text=True
    )
    assert found.stdout.split() == ["1"]  # its uploader would be a thread by now
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_user_may_allow_it(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "ORT_DISABLE_TELEMETRY": "0"}
    code = "import os, benchorch; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    found = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    )
    assert found.stdout.split() == ["0"]
