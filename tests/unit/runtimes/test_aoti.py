"""What the AOTInductor runtime makes of a package, with a loader that needs no compiler."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
import torch

from benchorch.domain.artifact import Format
from benchorch.domain.tensors import Example
from benchorch.errors import MeasureError
from benchorch.interfaces.runtime import LoadRequest
from benchorch.runtimes import aoti
from benchorch.runtimes.aoti import Aoti

HERE = {"AOTI_MACHINE": platform.machine(), "AOTI_DEVICE_KEY": "cpu", "benchorch_threads": ""}


class FakeLoader:
    """Speaks as torch's loader does; answers with its inputs as it got them."""

    def __init__(self, metadata: Mapping[str, str], order: Sequence[str]) -> None:
        self._metadata = dict(metadata)
        leaf = {"type": None, "context": None, "children_spec": []}
        keywords = {"context": json.dumps(list(order)), "children_spec": [leaf] * len(order)}
        self._spec = json.dumps([1, {"children_spec": [{"children_spec": []}, keywords]}])

    def get_metadata(self) -> dict[str, str]:
        return self._metadata

    def get_call_spec(self) -> list[str]:
        return [self._spec, "[]"]

    def run(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        return inputs


def request(threads: int = 1) -> LoadRequest:
    def module() -> torch.nn.Module:
        raise AssertionError("the package is enough")

    return LoadRequest(
        module=module,
        source=Path(),
        sources={Format.AOTI_PACKAGE: Path()},
        example=Example(arrays={}, keywords={}, specs=()),
        device="cpu",
        threads=threads,
        scratch_dir=Path(),
    )


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> object:
    def holding(metadata: Mapping[str, str], order: Sequence[str] = ("a", "b")) -> None:
        monkeypatch.setattr(aoti, "_loader", lambda _: FakeLoader(HERE | metadata, order))

    return holding


def test_inputs_go_in_the_packages_order_and_dtype(package) -> None:
    package({"benchorch_dtypes": "bfloat16"}, order=("b", "flag", "a"))
    executable = Aoti().load(request())
    ones, threes = np.ones(2, np.float32), np.full(2, 3)

    raw = executable.bind({"a": ones, "b": threes})()

    assert [each.dtype for each in raw] == [torch.int64, torch.bfloat16]
    outputs = executable.outputs(raw)
    np.testing.assert_array_equal(outputs["0"], threes)
    np.testing.assert_array_equal(outputs["1"], ones)
    assert outputs["1"].dtype == np.float32
    assert executable.facts()["dtype"] == "bfloat16"


@pytest.mark.parametrize(
    "metadata",
    [
        {"AOTI_MACHINE": "pdp11"},
        {"AOTI_DEVICE_KEY": "cuda"},
        {"benchorch_threads": "64"},
    ],
)
def test_a_package_for_another_machine_is_not_run(package, metadata: Mapping[str, str]) -> None:
    package(metadata)
    (wrong,) = metadata.values()
    with pytest.raises(MeasureError, match=f"'{wrong}' in the package") as caught:
        Aoti().load(request())
    assert caught.value.kind == "wrong_host"


def test_a_package_with_instructions_that_are_missing_here_is_not_run(
    package, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_supported", lambda: False)
    package({"AOTI_CPU_ISA": "AVX512 SOMETHING_NEW"})
    with pytest.raises(MeasureError, match="this processor has no AVX512\\."):
        Aoti().load(request())


def test_a_package_for_these_threads_is_run(package) -> None:
    package({"benchorch_threads": "1"})
    Aoti().load(request(threads=1))


def test_a_package_that_says_nothing_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aoti, "_loader", lambda _: FakeLoader({}, ("x",)))
    executable = Aoti().load(request())
    halves = executable.bind({"x": np.ones(1, np.float64)})()
    assert halves[0].dtype == torch.float64


def test_kernels_are_counted_in_the_source_that_is_packed_too(package, tmp_path: Path) -> None:
    source = "cpp_fused_relu_0(a); cpp_fused_add_1(b); cpp_fused_relu_0(c); aoti_torch_mm(d)"
    with ZipFile(tmp_path / "model.pt2", "w") as archive:
        archive.writestr("model/data/x.wrapper.cpp", source)
    package({})
    asked = replace(request(), sources={Format.AOTI_PACKAGE: tmp_path})
    assert Aoti().load(asked).facts()["fused_kernels"] == 2
    assert Aoti().load(request()).facts()["fused_kernels"] is None
