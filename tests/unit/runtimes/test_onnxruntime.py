"""Which provider an ONNX graph runs on, and that it never quietly becomes another."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import onnxruntime
import pytest

from benchorch.domain.artifact import Format
from benchorch.errors import MeasureError
from benchorch.frameworks import onnx_files
from benchorch.runtimes import onnx_session
from benchorch.runtimes.onnx_session import PROVIDERS, assignment, open_session
from benchorch.runtimes.onnxruntime import OnnxExecutable, OnnxRuntime
from support import conversions as lab


class FakeSession:
    def __init__(self, *_: object, **__: object) -> None: ...

    def get_providers(self) -> list[str]:
        return ["CPUExecutionProvider"]


@pytest.mark.parametrize("name", ["cuda", "tensorrt", "openvino"])
def test_a_session_that_stepped_back_to_the_cpu_is_a_failure(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(onnxruntime, "InferenceSession", FakeSession)
    with pytest.raises(MeasureError, match=f"CPU.* instead of {PROVIDERS[name].name}") as caught:
        open_session(Path("model.onnx"), PROVIDERS[name], 1, tmp_path)
    assert caught.value.kind == "provider_fallback"


@pytest.mark.parametrize("name", ["cuda", "tensorrt"])
def test_providers_of_gpus_need_one(name: str) -> None:
    reason = OnnxRuntime(provider=name).unavailable("cpu")  # type: ignore[arg-type]
    assert reason is not None
    assert "NVIDIA GPU" in reason


@pytest.mark.parametrize(
    ("provider", "device", "installed", "missing"),
    [
        ("device", "cpu", {"onnxruntime"}, None),
        ("device", "cpu", {"onnxruntime-gpu"}, None),
        ("device", "cpu", set(), "onnxruntime"),
        ("device", "cuda", set(), "onnxruntime-gpu"),
        ("device", "cuda", {"onnxruntime-gpu"}, None),
        ("tensorrt", "cuda", set(), "onnxruntime-gpu"),
        ("openvino", "cpu", set(), "onnxruntime-openvino"),
        ("openvino", "cpu", {"onnxruntime-openvino"}, None),
    ],
)
def test_a_missing_package_is_named_with_what_installs_it(
    monkeypatch: pytest.MonkeyPatch,
    provider: str,
    device: str,
    installed: set[str],
    missing: str | None,
) -> None:
    pretend(monkeypatch, installed)
    reason = OnnxRuntime(provider=provider).unavailable(device)  # type: ignore[arg-type]
    assert reason == (missing and f"{missing} is not installed: pip install {missing}")


def test_distributions_that_cannot_stand_side_by_side_are_to_be_exchanged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pretend(monkeypatch, {"onnxruntime"})
    reason = OnnxRuntime().unavailable("cuda")
    assert reason is not None
    assert reason.endswith("pip uninstall onnxruntime && pip install onnxruntime-gpu")


def pretend(monkeypatch: pytest.MonkeyPatch, installed: set[str]) -> None:
    for module in (onnx_files, onnx_session):
        monkeypatch.setattr(module, "is_installed", installed.__contains__)


def part(provider: str, n_nodes: int) -> SimpleNamespace:
    return SimpleNamespace(ep_name=provider, get_nodes=lambda: [None] * n_nodes)


def test_nodes_that_another_provider_took_are_counted() -> None:
    cuda, cpu = "CUDAExecutionProvider", "CPUExecutionProvider"
    session = SimpleNamespace(
        get_provider_graph_assignment_info=lambda: [part(cuda, 3), part(cpu, 2), part(cuda, 1)],
        get_providers=lambda: [cuda, cpu],
    )
    assert assignment(session) == {"nodes": {cuda: 4, cpu: 2}, "fallback_nodes": 2}


def test_a_version_that_does_not_tell_who_took_which_node_leaves_it_unsaid() -> None:
    assert assignment(SimpleNamespace()) == {}


@pytest.mark.parametrize(
    ("provider", "device", "threads", "together"),
    [
        ("device", "cpu", 1, True),
        ("device", "cpu", 2, False),
        ("openvino", "cpu", 2, False),
        ("device", "cuda", 2, True),
        ("cuda", "cuda", 2, True),
    ],
)
def test_a_pool_of_threads_shares_no_process_with_another_runtime(
    provider: str, device: str, threads: int, together: bool
) -> None:
    runtime = OnnxRuntime(provider=provider)  # type: ignore[arg-type]
    assert runtime.cohabits(device, threads) is together


@pytest.mark.parametrize("spinning", [True, False])
def test_whether_waiting_threads_keep_processors_busy_is_as_asked_and_a_fact(
    spinning: bool, tmp_path: Path
) -> None:
    made = lab.built(lab.chain_of("onnxruntime_cpu"), tmp_path)
    model = made.sources[Format.ONNX] / onnx_files.MODEL_FILE
    session = open_session(model, PROVIDERS["cpu"], 2, tmp_path, spinning=spinning)
    assert OnnxExecutable(session=session, place="cpu").facts()["spinning"] is spinning
