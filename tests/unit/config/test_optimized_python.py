"""Words of the command line where Python drops assertions."""

from __future__ import annotations

import subprocess
import sys

import pytest

READ = (
    "import sys; from benchorch.config.overrides import parse_override as p; print(p(sys.argv[1]))"
)


@pytest.mark.parametrize("word", ["model.inputs={x: {shape: [1]}}", "seed=range(1,4)"])
def test_what_hydra_cannot_read_then_is_refused_with_the_reason(word: str) -> None:
    done = subprocess.run(
        [sys.executable, "-O", "-c", READ, word], check=False, capture_output=True, text=True
    )
    assert "PYTHONOPTIMIZE drops assertions" in done.stderr.splitlines()[-1]
