"""What a measuring process loads, and how a stage's failure is reported."""

from __future__ import annotations

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
