from __future__ import annotations

import errno

import pytest
import torch

from benchorch.errors import BuildError, MeasureError
from benchorch.frameworks.upstream_errors import first_line, wrap_errors


def test_the_first_line_that_says_something_is_kept() -> None:
    assert first_line(RuntimeError("\n  \n  \x1b[96mcannot\x1b[0m trace  \nmore")) == "cannot trace"


def test_the_error_that_began_it_speaks() -> None:
    outer = RuntimeError("Failed to export. This is step 1/3")
    outer.__cause__ = KeyError("cannot trace")
    assert "cannot trace" in first_line(outer)


def test_an_error_without_words_is_named() -> None:
    assert first_line(AssertionError()) == "AssertionError"


def test_an_endless_line_is_cut() -> None:
    assert len(first_line(RuntimeError("x" * 10_000))) < 400


def test_a_path_does_not_fill_the_line_and_an_address_stays() -> None:
    said = f"Load model from {'/folder' * 100}/model.onnx failed, see https://pytorch.org/docs/x"
    short = "Load model from model.onnx failed, see https://pytorch.org/docs/x"
    assert first_line(RuntimeError(said)) == short


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("shape", [(), (3,), (4, 16), (2, 3, 4), (0,)])
def test_a_refused_trace_is_a_sentence_without_the_numbers(shape: tuple[int, ...]) -> None:
    kept = torch.randn(shape)
    with pytest.raises(RuntimeError, match="observable data") as caught:
        torch.jit.trace(lambda x: (x + 1, kept), torch.randn(shape), check_trace=False)
    assert first_line(caught.value).startswith(
        "output 1 of traced region did not have observable data dependence with trace inputs; "
    )


@pytest.mark.parametrize("kind", [BuildError, MeasureError])
def test_a_refusal_becomes_ours_and_keeps_its_cause(kind: type[Exception]) -> None:
    cause = TypeError("wrong")
    with pytest.raises(kind, match="it refused: wrong") as caught, wrap_errors(kind, "it refused"):
        raise cause
    assert caught.value.__cause__ is cause
    assert "benchorch conversions" in caught.value.remedy


def test_a_full_disk_is_not_the_models_fault() -> None:
    with pytest.raises(OSError, match="No space") as caught, wrap_errors(BuildError, "x"):
        raise RuntimeError("CppCompileError: fatal: No space left on device")
    assert caught.value.errno == errno.ENOSPC


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate"),
        MemoryError(),
        OSError("disk"),
        KeyboardInterrupt(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_has_a_class_of_its_own_keeps_it(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, wrap_errors(BuildError, "x"):
        raise error
    assert caught.value is error


def test_a_class_of_upstreams_own_can_be_named() -> None:
    class Strange(Exception): ...

    with pytest.raises(BuildError, match="x: odd"), wrap_errors(BuildError, "x", Strange):
        raise Strange("odd")
