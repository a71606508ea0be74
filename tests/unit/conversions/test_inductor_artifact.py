"""What torch.compile leaves for another process, and what it does to this one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from benchorch.conversions.inductor_cache import InductorCompile
from benchorch.domain.tensors import Example, TensorSpec
from benchorch.interfaces.conversion import BuildRequest
from benchorch.interfaces.runtime import LoadRequest
from benchorch.runtimes.inductor import Inductor


class Splits(torch.nn.Module):
    """Dynamo breaks its graph at the branch and compiles both parts."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x - 1


def surroundings() -> list[object]:
    names = sorted(name for name in os.environ if "CACHE_DIR" in name)
    return [{name: os.environ[name] for name in names}, torch._inductor.config.freezing]


def test_options_travel_and_the_process_is_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All tests compile into one cache, which makes this quick; the process has another one.
    scratch = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "elsewhere"))
    spec = TensorSpec(name="x", shape=(2, 4), dtype="float32")
    x = np.ones((2, 4), np.float32)
    example = Example(arrays={"x": x}, keywords={}, specs=(spec,))
    before = surroundings()

    InductorCompile(freezing=True, dynamic=False).build(
        BuildRequest(
            module=lambda: Splits().eval(),
            source=None,
            example=example,
            out_dir=tmp_path,
            scratch_dir=scratch,
            device="cpu",
        )
    )
    options = json.loads((tmp_path / "options.json").read_text())
    executable = Inductor().load(
        LoadRequest(
            module=lambda: Splits().eval(),
            source=tmp_path,
            example=example,
            device="cpu",
            threads=1,
            scratch_dir=scratch,
        )
    )
    outputs = executable.outputs(executable.bind({"x": x})())
    facts = dict(executable.facts())
    executable.close()

    assert options["compile"] == {"mode": "default", "fullgraph": False, "dynamic": False}
    assert options["inductor"]["freezing"] is True
    np.testing.assert_array_equal(outputs["0"], x * 2)
    assert facts["compiled_graphs"] == 2
    assert surroundings() == before
    assert not [path for path in (tmp_path / "elsewhere").rglob("*") if path.is_file()]
