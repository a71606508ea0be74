"""What every runtime named under conf/conversion promises, whatever it loads."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchorch.config.components import TARGET
from benchorch.domain.artifact import Format
from benchorch.errors import MeasureError
from benchorch.interfaces.runtime import Executable
from support import conversions as lab

COMPILED = (Format.AOTI_PACKAGE, Format.INDUCTOR_CACHE)
OF_THE_BASE = {"torch", "numpy", "onnx", "onnxscript", "onnxruntime"}
HEAVY = ("torch", "numpy", "onnx", "onnxruntime", "openvino", "executorch", "tvm", "tensorrt")
DAMAGED = b"not an artifact"


def n_steps(name: str) -> int:
    return len(lab.conversion(name)["steps"])


def by_runtime() -> Mapping[str, str]:
    """Each runtime's class with the shortest conversion that uses it."""
    first: dict[str, str] = {}
    for name in sorted(lab.NAMES, key=n_steps):
        first.setdefault(lab.conversion(name)["runtime"][TARGET], name)
    return dict(sorted(first.items()))


RUNTIMES = by_runtime()
"""By the dotted name of its class: a conversion that ends with it."""


def is_cheap(name: str) -> bool:
    """Whether it compiles nothing and needs no optional package."""
    chain = lab.chain_of(name)
    compiled = set(type(chain.runtime).consumes) & set(COMPILED) or "compile" in name
    return not compiled and set(chain.requires) <= OF_THE_BASE and lab.cannot_run(chain) is None


CHEAP = [
    pytest.param(name, marks=[pytest.mark.slow] * (not is_cheap(name)))
    for name in RUNTIMES.values()
]

Made = Callable[[str], lab.Built]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """What a conversion's build leaves, built once."""

    @cache
    def of(name: str) -> lab.Built:
        chain = lab.chain_of(name)
        reason = lab.cannot_run(chain)
        if reason:
            pytest.skip(f"{name}: {reason}")
        return lab.built(chain, tmp_path_factory.mktemp(name))

    return of


@pytest.fixture(params=CHEAP)
def loaded(request: pytest.FixtureRequest, made: Made) -> Iterator[Executable]:
    executable = lab.loaded(lab.chain_of(request.param), made(request.param))
    yield executable
    executable.close()


X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(2, 16)


@pytest.mark.parametrize("name", RUNTIMES.values())
def test_it_says_what_it_loads_and_which_packages_it_imports(name: str) -> None:
    chosen = lab.chain_of(name).runtime
    assert type(chosen).consumes
    assert all(isinstance(each, Format) for each in type(chosen).consumes)
    assert chosen.requires
    assert chosen.version >= 1


ASK_ALL = """
import json, sys
from benchorch.config.components import make
from benchorch.interfaces.conversion import Step
from benchorch.interfaces.runtime import Runtime
links = [make(node, Step, "step") for node in json.loads(sys.argv[1])]
links += [make(node, Runtime, "runtime") for node in json.loads(sys.argv[2])]
answers = [link.unavailable(device) for link in links for device in ("cpu", "cuda")]
heavy = [name for name in json.loads(sys.argv[3]) if name in sys.modules]
print(json.dumps([answers, heavy]))
"""


def test_asking_whether_a_link_is_available_imports_nothing_heavy() -> None:
    steps = [step for name in lab.NAMES for step in lab.conversion(name)["steps"].values()]
    runtimes = [lab.conversion(name)["runtime"] for name in lab.NAMES]
    command = [sys.executable, "-c", ASK_ALL, *map(json.dumps, (steps, runtimes, HEAVY))]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    answers, imported = json.loads(finished.stdout)
    assert imported == []
    assert all(answer is None or len(answer.split()) > 3 for answer in answers)


def test_a_bound_call_needs_no_arguments_and_gives_the_same_every_time(loaded: Executable) -> None:
    call = loaded.bind({"x": X})
    first = loaded.outputs(call())["0"].copy()
    np.testing.assert_array_equal(loaded.outputs(call())["0"], first)


def test_calls_made_in_its_own_surroundings_give_what_others_give(loaded: Executable) -> None:
    call = loaded.bind({"x": X})
    alone = loaded.outputs(call())["0"].copy()
    with loaded.calling(), loaded.calling():
        np.testing.assert_array_equal(loaded.outputs(call())["0"], alone)


def test_a_bound_call_keeps_its_inputs_when_the_arrays_change(loaded: Executable) -> None:
    mine = X.copy()
    call = loaded.bind({"x": mine})
    before = loaded.outputs(call())["0"].copy()
    mine[:] = 7
    np.testing.assert_array_equal(loaded.outputs(call())["0"], before)


def test_calls_bound_to_other_inputs_do_not_mix(loaded: Executable) -> None:
    zeros, ones = loaded.bind({"x": X * 0}), loaded.bind({"x": X})
    of_zeros = loaded.outputs(zeros())["0"].copy()
    ones()
    np.testing.assert_array_equal(loaded.outputs(zeros())["0"], of_zeros)


def test_it_reports_what_really_runs(loaded: Executable) -> None:
    facts = dict(loaded.facts())
    assert facts["dtype"]
    assert facts["threads"] == 1
    assert facts["device"] == "cpu"
    assert facts["provider"]
    json.dumps(facts)


@pytest.mark.parametrize("name", CHEAP)
def test_the_threads_asked_for_are_the_threads_reported(name: str, made: Made) -> None:
    chain = lab.chain_of(name)
    if Format.AOTI_PACKAGE in type(chain.runtime).consumes:
        pytest.skip("its number of threads is compiled in, and another one is refused")
    try:
        assert lab.loaded(chain, made(name), threads=2).facts()["threads"] == 2
    finally:
        torch.set_num_threads(1)


def of_files(name: str) -> bool:
    return Format.MODULE not in type(lab.chain_of(name).runtime).consumes


@pytest.mark.parametrize("name", [each for each in CHEAP if of_files(str(each.values[0]))])
def test_a_damaged_artifact_is_a_failed_measurement(name: str, made: Made, tmp_path: Path) -> None:
    sound: Any = made(name)
    assert sound.source is not None
    for path in sound.source.iterdir():
        (tmp_path / path.name).write_bytes(DAMAGED)
    sources = dict.fromkeys(sound.sources, tmp_path)
    damaged = replace(sound, source=tmp_path, sources=sources)
    with pytest.raises(MeasureError, match="cann") as caught:
        lab.loaded(lab.chain_of(name), damaged)
    assert caught.value.__cause__ is not None
