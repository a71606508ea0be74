"""Which provider an ONNX graph runs on, and that it never quietly becomes another."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import onnxruntime
import pytest

from benchorch.errors import MeasureError
from benchorch.runtimes import onnxruntime as member
from benchorch.runtimes.onnxruntime import OnnxRuntime


class FakeSession:
    def __init__(self, *_: object, **__: object) -> None: ...

    def get_providers(self) -> list[str]:
        return ["CPUExecutionProvider"]


def test_a_session_that_stepped_back_to_the_cpu_is_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(onnxruntime, "InferenceSession", FakeSession)
    with pytest.raises(MeasureError, match=r"CPU.* instead of CUDA") as caught:
        member._session(Path("model.onnx"), "CUDAExecutionProvider", threads=1)
    assert caught.value.kind == "provider_fallback"


def test_the_cuda_provider_needs_a_gpu() -> None:
    reason = OnnxRuntime(provider="cuda").unavailable("cpu")
    assert reason is not None
    assert "NVIDIA GPU" in reason


@pytest.mark.parametrize(
    ("device", "installed", "missing"),
    [
        ("cpu", {"onnxruntime"}, None),
        ("cpu", {"onnxruntime-gpu"}, None),
        ("cpu", set(), "onnxruntime"),
        ("cuda", {"onnxruntime"}, "onnxruntime-gpu"),
        ("cuda", {"onnxruntime-gpu"}, None),
    ],
)
def test_a_missing_package_is_named_with_what_installs_it(
    monkeypatch: pytest.MonkeyPatch, device: str, installed: set[str], missing: str | None
) -> None:
    def version(name: str) -> str:
        if name not in installed:
            raise metadata.PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr(metadata, "version", version)
    reason = OnnxRuntime().unavailable(device)
    assert reason == (missing and f"{missing} is not installed: pip install {missing}")
