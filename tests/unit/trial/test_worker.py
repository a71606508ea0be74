"""What a measuring process loads, and how a stage's failure is reported."""

from __future__ import annotations

import errno
import subprocess
import sys

import pytest

from benchorch.domain.result import Failure
from benchorch.errors import BuildError
from benchorch.trial import worker


def test_a_process_is_pinned_before_numpy_starts_its_threads() -> None:
    """Threads keep the processors they were born with; loading a model is what imports numpy."""
    code = "import sys, benchorch.trial.worker; print({'numpy', 'torch'} & sys.modules.keys())"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"


def raised_from(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (
            raised_from(
                BuildError("ONNX Runtime cannot run the graph: status of Conv"),
                RuntimeError("AllocateRawInternal Failed to allocate memory for requested buffer"),
            ),
            "oom",
        ),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"), "oom"),
        (RuntimeError("unable to mmap 99 bytes from file <x>: Cannot allocate memory (12)"), "oom"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "oom"),
        (
            ImportError("libgomp.so.1: cannot allocate memory in static TLS block"),
            "raised:ImportError",
        ),
    ],
)
def test_memory_that_ran_out_is_recognized_whoever_reports_it(error: Exception, kind: str) -> None:
    assert worker.failure_of("measure", error).kind == kind


@pytest.mark.parametrize(
    ("error", "kind", "remedy"),
    [
        (MemoryError(), "oom", "a smaller workload.batch_size, or a larger limits.memory_gib"),
        (
            ModuleNotFoundError("no", name="vllm_of_nobody.kernels"),
            "missing_package",
            "install the package that provides the module vllm_of_nobody.kernels",
        ),
        (
            ModuleNotFoundError("no", name="onnxscript._framework_apis.torch_3_0"),
            "missing_package",
            "pip install --upgrade onnxscript",
        ),
        (
            ModuleNotFoundError("no"),
            "missing_package",
            "the traceback in the trial's log shows where",
        ),
        (BuildError("no", kind="build_refused", remedy="less"), "build_refused", "less"),
        (BuildError("no"), "build_refused", "the traceback in the trial's log shows where"),
        (KeyError("x"), "raised:KeyError", "the traceback in the trial's log shows where"),
    ],
)
def test_an_exception_is_a_result_with_a_class_and_a_remedy(
    error: Exception, kind: str, remedy: str
) -> None:
    def request() -> object:
        raise error

    failure = worker.attempt("build", request, report=None)  # type: ignore[arg-type]
    assert isinstance(failure, Failure)
    assert (failure.stage, failure.kind, failure.remedy) == ("build", kind, remedy)
