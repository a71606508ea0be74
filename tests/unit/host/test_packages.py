"""Commands that install what is absent, by benchorch's own extras."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata

import pytest

from benchorch.host import packages

LINES = [
    "click<9,>=8.2",
    "torch>=2.10; extra == 'local'",
    'onnx>=1.18; extra == "local"',
    "transformers>=5; extra == 'hf'",
    "ray[default]>=2.54; extra == 'ray'",
    "boto3>=1.40; extra == 'aws'",
    "benchorch[local,hf]; extra == 'all'",
    "moto>=5; extra == 'dev'",
    "torchao>=0.17; extra == 'quantization'",
]


@pytest.fixture(autouse=True)
def of_benchorch(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(metadata, "requires", lambda _: LINES)
    packages._extras.cache_clear()
    yield
    packages._extras.cache_clear()


@pytest.mark.parametrize(
    ("absent", "command"),
    [
        (["torch"], "pip install 'benchorch[local]'"),
        (["torch", "onnx"], "pip install 'benchorch[local]'"),
        (["torch", "transformers"], "pip install 'benchorch[local,hf]'"),
        (["torchao", "tensorrt"], "pip install 'benchorch[quantization]' tensorrt"),
        (["moto", "tensorrt"], "pip install moto tensorrt"),
    ],
)
def test_extras_are_named_where_they_bring_a_package(absent: list[str], command: str) -> None:
    assert packages.install_command(absent) == command


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("torch", "local"),
        ("botocore.exceptions", "aws"),
        ("ray", "ray"),
        ("google.protobuf", "local"),
    ],
)
def test_an_absent_module_has_its_extra(module: str, extra: str) -> None:
    found = packages.absence(ModuleNotFoundError("no", name=module))
    assert found is not None
    assert found.next == f"pip install 'benchorch[{extra}]'"


@pytest.mark.parametrize(
    ("module", "installed", "remedy"),
    [
        ("torch", False, "pip install 'benchorch[local]'"),
        ("botocore.exceptions", False, "pip install 'benchorch[aws]'"),
        ("sklearn", False, "pip install scikit-learn"),
        ("torch.of_a_later_release", True, "pip install --upgrade torch"),
        ("sklearn.of_a_later_release", True, "pip install --upgrade scikit-learn"),
    ],
)
def test_a_module_is_brought_by_a_distribution_that_is_known_to_have_it(
    monkeypatch: pytest.MonkeyPatch, module: str, installed: bool, remedy: str
) -> None:
    monkeypatch.setattr(packages, "is_installed", lambda _: installed)
    assert packages.module_remedy(module) == remedy


@pytest.mark.parametrize("installed", [False, True])
@pytest.mark.parametrize("module", ["a_package_that.nobody_has", "google.cloud.storage"])
def test_no_distribution_is_guessed_from_a_module_as_anyone_may_register_its_name(
    monkeypatch: pytest.MonkeyPatch, module: str, installed: bool
) -> None:
    monkeypatch.setattr(packages, "is_installed", lambda _: installed)
    remedy = packages.module_remedy(module)
    assert remedy == f"install the package that provides the module {module}"


@pytest.mark.parametrize("module", ["somebodys", "google.cloud", None])
def test_a_module_that_no_extra_brings_is_another_error(module: str | None) -> None:
    assert packages.absence(ModuleNotFoundError("no", name=module)) is None


def test_what_is_missing_is_counted() -> None:
    assert packages.needs(["onnx"]) == "needs onnx, which is not installed"
    assert packages.needs(["onnx", "torch"]) == "needs onnx, torch, which are not installed"
