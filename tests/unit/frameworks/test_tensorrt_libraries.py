"""TensorRT's libraries are found, and those of another release are not taken for them.

The fake files have what the dynamic section of onnxruntime_gpu-1.31.1's provider has: the names
``libnvinfer.so.10`` and ``libcublas.so.13``. The wheel tensorrt_cu13_libs puts its files into the
package ``tensorrt_libs``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from benchorch.frameworks import onnx_files, tensorrt_libraries
from benchorch.frameworks.tensorrt_libraries import load_libraries, missing_libraries
from benchorch.runtimes import onnx_session
from benchorch.runtimes.onnxruntime import OnnxRuntime

PROVIDER = b"\\x7fELF..libcublas.so.13\\0libnvinfer.so.10\\0libnvonnxparser.so.10\\0"


@pytest.fixture(autouse=True)
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of packages, with onnxruntime-gpu in it."""

    def find_spec(package: str) -> ModuleSpec | None:
        if not (tmp_path / package).is_dir():
            return None
        spec = ModuleSpec(package, None, is_package=True)
        spec.submodule_search_locations = [str(tmp_path / package)]
        return spec

    capi = tmp_path / "onnxruntime" / "capi"
    capi.mkdir(parents=True)
    (capi / "libonnxruntime_providers_tensorrt.so").write_bytes(PROVIDER)
    monkeypatch.setattr(tensorrt_libraries, "find_spec", find_spec)
    monkeypatch.setattr(tensorrt_libraries, "_LOADERS_OWN", ())
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    for module in (onnx_files, onnx_session):
        monkeypatch.setattr(module, "is_installed", {"onnxruntime-gpu"}.__contains__)
    tensorrt_libraries.needed_release.cache_clear()
    yield tmp_path
    tensorrt_libraries.needed_release.cache_clear()


def install(folder: Path, release: int) -> None:
    folder.mkdir()
    for name in ("libnvinfer", "libnvinfer_plugin", "libnvonnxparser"):
        (folder / f"{name}.so.{release}").touch()


def test_a_machine_without_tensorrt_is_told_what_to_install_before_a_gpu_is_hired() -> None:
    reason = OnnxRuntime(provider="tensorrt").unavailable("cuda")
    assert reason is not None
    assert reason.startswith("libnvinfer.so.10 is not found")
    assert reason.endswith("pip install 'tensorrt-cu13==10.*'")
    assert OnnxRuntime(provider="cuda").unavailable("cuda") is None


def test_another_release_does_not_do(site: Path) -> None:
    install(site / "tensorrt_libs", 11)
    assert missing_libraries() is not None
    load_libraries()  # nothing to load, and no failure: the session says what is missing


def test_the_wheels_libraries_are_loaded_for_all_to_see(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(site / "tensorrt_libs", 10)
    seen: list[tuple[str, int]] = []
    monkeypatch.setattr(ctypes, "CDLL", lambda path, mode: seen.append((Path(path).name, mode)))
    assert OnnxRuntime(provider="tensorrt").unavailable("cuda") is None
    load_libraries()
    assert seen == [
        (f"{name}.so.10", ctypes.RTLD_GLOBAL)
        for name in ("libnvinfer", "libnvinfer_plugin", "libnvonnxparser")
    ]


def test_libraries_on_the_loaders_path_are_found(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(site / "anywhere", 10)
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere:{site / 'anywhere'}")
    assert missing_libraries() is None


def test_a_provider_that_names_no_release_is_left_to_the_session(site: Path) -> None:
    (site / "onnxruntime" / "capi" / "libonnxruntime_providers_tensorrt.so").write_bytes(b"")
    assert missing_libraries() is None
