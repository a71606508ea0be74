"""ExecuTorch and TVM compute the same in a fresh process; TensorRT says where it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchorch.errors import BuildError
from support import conversions as lab

MODELS = ("Mlp", "Masked", "Convolution", "Transformer")


def needs(name: str) -> None:
    module = {"executorch": "executorch.exir", "tvm": "tvm"}[name]
    pytest.importorskip(module, reason=f"it comes with pip install 'benchorch[{name}]'")


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ["executorch", "tvm"])
def test_a_fresh_process_computes_what_eager_computes(
    name: str, model: str, tmp_path: Path
) -> None:
    needs(name)
    made = lab.built(lab.chain_of(name, model), tmp_path)

    outputs, facts, _ = lab.in_fresh_process(name, model, made, tmp_path)

    lab.assert_same(outputs, lab.reference_of(made), 1e-5)
    assert facts["threads"] == lab.THREADS
    assert facts["dtype"] == "float32"
    assert facts["device"] == "cpu"


@pytest.mark.slow
def test_executorch_tells_how_much_xnnpack_runs(tmp_path: Path) -> None:
    needs("executorch")
    facts = lab.converted(lab.chain_of("executorch"), tmp_path).facts()
    assert facts["provider"] == "ExecuTorch XNNPACK"
    assert facts["delegate_calls"] == 1
    assert facts["delegated_nodes"] == 2
    assert 0 < facts["delegated_share"] < 1


@pytest.mark.slow
def test_executorch_runs_half_precision(tmp_path: Path) -> None:
    needs("executorch")
    chain = lab.chain_of("fp16+executorch")
    made = lab.built(chain, tmp_path)
    executable = lab.loaded(chain, made)
    lab.assert_same(lab.outputs_of(chain, executable), lab.reference_of(made), 5e-3)
    assert executable.facts()["dtype"] == "float16"


@pytest.mark.slow
def test_tvm_refuses_half_precision_in_a_sentence(tmp_path: Path) -> None:
    needs("tvm")
    with pytest.raises(BuildError, match="TVM refused the exported program"):
        lab.built(lab.chain_of("fp16+tvm"), tmp_path)


@pytest.mark.parametrize("name", ["tensorrt", "torch_tensorrt", "torch_tensorrt_jit"])
def test_tensorrt_is_for_nvidia_gpus_alone(name: str) -> None:
    chain = lab.chain_of(name)
    for link in (*(step for _, step in chain.steps), chain.runtime):
        assert link.unavailable("cuda") is None
    assert "NVIDIA" in str(chain.runtime.unavailable("cpu"))
    assert "NVIDIA" in str(chain.unavailable)
