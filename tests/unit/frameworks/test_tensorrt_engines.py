"""Torch-TensorRT's engine cache under our key, in front of a stand-in: no GPU is needed."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from benchorch.frameworks.tensorrt_engines import engine_cache
from benchorch.runtimes.torch_tensorrt import TorchTensorRtJit
from support import conversions as lab

OPTIONS = {"min_block_size": 1}


class BaseEngineCache(ABC):
    """What upstream asks of a cache."""

    @abstractmethod
    def __init__(self) -> None: ...

    def insert(self, hash: str, entry: bytes) -> None:
        self.save(hash, b"packed " + entry)

    def check(self, hash: str) -> bytes | None:
        found = self.load(hash)
        return found.removeprefix(b"packed ") if found else None

    @abstractmethod
    def save(self, hash: str, blob: bytes) -> None: ...

    @abstractmethod
    def load(self, hash: str) -> bytes | None: ...


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("torch_tensorrt", "torch_tensorrt.dynamo", "torch_tensorrt.dynamo._engine_cache")
    for name in names:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setattr(sys.modules[names[2]], "BaseEngineCache", BaseEngineCache, raising=False)


def linear(size: int = 4) -> torch.nn.Module:
    return torch.nn.Linear(size, size)


def test_an_engine_is_found_by_the_next_process_alone_where_all_is_the_same(tmp_path: Path) -> None:
    engine_cache(tmp_path, linear(), OPTIONS).insert("h", b"engine")

    assert engine_cache(tmp_path, linear(), OPTIONS).check("h") == b"engine"
    assert engine_cache(tmp_path, linear(), OPTIONS).check("other") is None
    assert engine_cache(tmp_path / "other", linear(), OPTIONS).check("h") is None
    assert engine_cache(tmp_path, linear(5), OPTIONS).check("h") is None
    assert engine_cache(tmp_path, linear().half(), OPTIONS).check("h") is None
    assert engine_cache(tmp_path, linear(), {"min_block_size": 2}).check("h") is None


def test_a_newer_torch_tensorrt_finds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine_cache(tmp_path, linear(), OPTIONS).insert("h", b"engine")
    newer = {"torch-tensorrt": "99"}
    monkeypatch.setattr("benchorch.frameworks.tensorrt_engines.package_versions", lambda _: newer)
    assert engine_cache(tmp_path, linear(), OPTIONS).check("h") is None


def test_a_write_that_was_cut_short_is_no_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines = engine_cache(tmp_path, linear(), OPTIONS)

    def dies(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", dies)
    with pytest.raises(KeyboardInterrupt):
        engines.insert("h", b"engine")
    assert engine_cache(tmp_path, linear(), OPTIONS).check("h") is None


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a backend in place of TensorRT's did: it builds engines, or finds them."""
    did: list[str] = []

    def backend(graph: Any, inputs: Any, *, options: Any) -> Callable[..., object]:
        engines = options.get("custom_engine_cache")
        # dynamo/conversion/_conversion.py of torch_tensorrt-2.13.0 caches no other engines.
        assert options["immutable_weights"] is (engines is None)
        found = engines and engines.check("h")
        did.append("found" if found else "built")
        if engines and not found:
            engines.insert("h", b"engine")
        forward: Callable[..., object] = graph.forward
        return forward

    _fake, compiled = backend, torch.compile
    monkeypatch.setattr(
        torch,
        "compile",
        lambda module, *, backend, options, **more: compiled(
            module, backend=lambda g, i: _fake(g, i, options=options), **more
        ),
    )
    return did


def test_the_second_process_builds_no_engine_where_they_are_kept(
    tmp_path: Path, seen: list[str]
) -> None:
    made = replace(lab.built(lab.chain_of("eager"), tmp_path), scratch=tmp_path)
    kept = TorchTensorRtJit(keep_engines=True)
    for runtime in (kept, kept, TorchTensorRtJit()):
        chain = replace(lab.chain_of("eager"), runtime=runtime)
        executable = lab.loaded(chain, made)
        lab.assert_same(lab.outputs_of(chain, executable), lab.reference_of(made), 1e-6)
        assert executable.facts()["refittable"] is runtime.keep_engines
        executable.close()
    assert seen == ["built", "found", "built"]
