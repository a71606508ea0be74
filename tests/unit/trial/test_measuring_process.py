"""Two sides of one process: which is loaded first, and which is which afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from benchorch.trial import measuring_process
from benchorch.trial.interleave import Interleaved, InterleavedSide


class Executable:
    """An executable that notes what is done with it."""

    def __init__(self, name: str, done: list[str]) -> None:
        self._name, self._done = name, done
        done.append(f"load {name}")

    def bind(self, batch: object) -> Callable[[], object]:
        return lambda: self._done.append(f"call {self._name}")

    def calling(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def close(self) -> None:
        self._done.append(f"close {self._name}")


@pytest.mark.parametrize("candidate_first", [True, False])
def test_the_side_that_comes_first_is_loaded_and_called_before_the_other_is_loaded(
    monkeypatch: pytest.MonkeyPatch, candidate_first: bool
) -> None:
    """A fixed order made identical code 1 % slower on the side that was loaded first."""
    done: list[str] = []
    given: dict[str, Any] = {}

    def interleaved(own: Sequence[Any], other: Sequence[Any], **options: Any) -> Interleaved:
        given.update(options)
        own[0](), other[0]()
        sides = (InterleavedSide(together=name, start=1, alone=None) for name in ("own", "other"))  # type: ignore[arg-type]
        return Interleaved(candidate=next(sides), baseline=next(sides))

    setup = SimpleNamespace(
        runtime=None,
        scenario=None,
        hardware=SimpleNamespace(clock=lambda: None),
        protocol=SimpleNamespace(pair_window_s=1.0, slice_ms=20.0),
    )
    for name, fake in {
        "open_trial": lambda spec: setup,
        "load_request": lambda trial, each: trial,
        "load_executable": lambda each, runtime, trial: Executable(trial.name, done),
        "interleave": interleaved,
        "_items_per_call": lambda each, batches: 1,
    }.items():
        monkeypatch.setattr(measuring_process, name, fake)
    candidate, eager = (SimpleNamespace(name=n, spec={}) for n in ("candidate", "baseline"))
    request: Any = SimpleNamespace(trial=candidate, candidate_first=candidate_first, seed=7)
    baseline: Any = SimpleNamespace(trial=eager, trial_id="eager")
    found = measuring_process.measure_paired(request, baseline, [{}], lambda stage: None)
    first, second = ("candidate", "baseline")[:: 1 if candidate_first else -1]
    assert done[:4] == [f"load {first}", f"call {first}", f"load {second}", f"call {second}"]
    assert done[4:6] == ["call candidate", "call baseline"]
    assert (given["candidate_first"], given["seed"]) == (candidate_first, 7)
    assert found.candidate_first is candidate_first
    assert [str(found.ours), str(found.theirs)] == ["own", "other"]


@pytest.mark.parametrize(("servers", "bound"), [(1, ["a", "b"]), (5, ["a", "b", "a", "b", "a"])])
def test_each_call_that_runs_at_the_same_time_is_bound_for_itself(
    servers: int, bound: list[str]
) -> None:
    batches: Any = ["a", "b"]
    assert ["a", *measuring_process._further(batches, servers)] == bound
