"""What ONNX Runtime says it ran, and torch.compile in front of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchorch.errors import MeasureError
from benchorch.runtimes import compile_onnxruntime
from benchorch.runtimes import onnxruntime as member
from support import conversions as lab


def test_operators_are_counted_by_provider_and_by_type(tmp_path: Path) -> None:
    facts = lab.converted(lab.chain_of("onnxruntime_cpu"), tmp_path).facts()
    assert facts["provider"] == "CPUExecutionProvider"
    assert facts["fallback_nodes"] == 0
    # A linear layer, its activation and a norm: the activation is fused away.
    assert facts["nodes"] == {"CPUExecutionProvider": 3}
    assert facts["executed_nodes"] == 2
    assert facts["executed_dtypes"] == {"float32": 2}
    assert facts["quantized_share"] == 0


def test_half_precision_that_the_processor_widens_is_seen(tmp_path: Path) -> None:
    facts = lab.converted(lab.chain_of("onnxruntime_fp16"), tmp_path).facts()
    assert facts["output_dtype"] == "float16"
    assert "float32" in str(facts["dtype"])
    assert facts["executed_dtypes"]["float32"] > 0  # type: ignore[index,call-overload,operator]


def test_a_graph_that_is_too_large_is_not_loaded_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member, "_LARGEST_PROFILED_BYTES", 10)
    facts = lab.converted(lab.chain_of("onnxruntime_cpu"), tmp_path).facts()
    assert "executed_nodes" not in facts
    assert facts["nodes"]


def test_a_type_that_the_provider_has_not_is_a_failure_in_a_sentence(tmp_path: Path) -> None:
    chain = lab.chain_of("bf16+onnxruntime")
    made = lab.built(chain, tmp_path)
    with pytest.raises(MeasureError, match="ONNX Runtime cannot load the graph") as caught:
        lab.loaded(chain, made)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["compile_onnxruntime", "export+compile_onnxruntime"])
def test_weights_under_torch_compile_are_constants_of_the_session(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = []

    def opened(*args: Any, **options: Any) -> Any:
        sessions.append(open_session(*args, **options))
        return sessions[-1]

    open_session = compile_onnxruntime.open_session
    monkeypatch.setattr(compile_onnxruntime, "open_session", opened)
    chain = lab.chain_of(name, "Convolution")
    made = lab.built(chain, tmp_path)
    executable = lab.loaded(chain, made)
    lab.assert_same(lab.outputs_of(chain, executable), lab.reference_of(made), 1e-5)
    executable.close()
    (session,) = sessions
    assert [each.shape[1:] for each in session.get_inputs()] == [[3, 8, 8]]


def test_nodes_under_torch_compile_that_no_session_tells_are_not_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compile_onnxruntime, "assignment", lambda _: {})  # before 1.24
    facts = lab.converted(lab.chain_of("compile_onnxruntime"), tmp_path).facts()
    assert facts["sessions"] == 1
    assert facts.keys().isdisjoint({"nodes", "fallback_nodes"})


@pytest.mark.slow
@pytest.mark.parametrize("model", ["Mlp", "Masked", "Convolution", "Transformer"])
@pytest.mark.parametrize(
    "name", ["compile_onnxruntime", "export+compile_onnxruntime", "fp16+compile_onnxruntime"]
)
def test_torch_compile_hands_its_graphs_to_sessions(name: str, model: str, tmp_path: Path) -> None:
    chain = lab.chain_of(name, model)
    made = lab.built(chain, tmp_path)
    executable = lab.loaded(chain, made)
    for index in range(lab.INPUTS):
        found = lab.outputs_of(chain, executable, index)
        lab.assert_same(found, lab.reference_of(made, index), chain.tolerance_ratio)
    facts = executable.facts()
    executable.close()
    assert facts["sessions"] == 1
    assert facts["recompiles"] == 0
    assert facts["fallback_nodes"] == 0


@pytest.mark.slow
def test_what_a_session_refuses_is_said_without_dynamos_words(tmp_path: Path) -> None:
    chain = lab.chain_of("bf16+compile_onnxruntime")
    made = lab.built(chain, tmp_path)
    with pytest.raises(MeasureError, match="NOT_IMPLEMENTED") as caught:
        lab.loaded(chain, made)
    assert "_Backend" not in str(caught.value)
    assert "conversion=fp32+onnxruntime" in (caught.value.remedy or "")
