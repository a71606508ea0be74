"""Single stream on clocks that the test controls."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from benchorch.domain.measurement import Observations
from benchorch.scenarios.single_stream import SingleStream
from support.clocks import VirtualClock
from support.fakes import Blocks


def run(
    clock: VirtualClock, calls: Sequence[Callable[[], object]], blocks: int = 12, items: int = 1
) -> Observations:
    return SingleStream().run(
        calls,
        clock=clock,
        calibration=clock.calibrate(),
        stopping=Blocks(blocks),
        items_per_call=items,
    )


def test_every_block_is_kept_from_the_very_first() -> None:
    clock = VirtualClock()
    costs = iter([19e6, 13e6, *[11e6] * 50])

    def call() -> None:
        clock.spend(next(costs))

    observed = run(clock, [call])
    assert [round(d / 1e6) for d in observed.durations_ns[:3]] == [19, 13, 11]
    assert observed.started_ns[0] == 0
    assert list(observed.started_ns) == sorted(observed.started_ns)
    assert len(observed.started_ns) == len(observed.preempted) == 12


def test_the_calls_take_turns() -> None:
    clock, seen = VirtualClock(), []

    def bound(name: str) -> Callable[[], object]:
        def call() -> None:
            seen.append(name)
            clock.spend(5e6)

        return call

    run(clock, [bound("a"), bound("b"), bound("c")], blocks=7)
    assert "".join(seen) == "abcabca"


def test_a_block_in_which_the_thread_was_switched_out_is_marked() -> None:
    clock, turn = VirtualClock(), iter(range(100))

    def call() -> None:
        clock.spend(5e6)
        clock.happens(preemptions=next(turn) == 6)

    observed = run(clock, [call])
    assert [i for i, flag in enumerate(observed.preempted) if flag] == [6]


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_is_collected_before_and_not_during_the_run(
    enabled: bool, collector: list[int]
) -> None:
    was_enabled, states = gc.isenabled(), []
    clock = VirtualClock()

    def call() -> None:
        states.append((gc.isenabled(), *collector))
        clock.spend(5e6)

    try:
        (gc.enable if enabled else gc.disable)()
        run(clock, [call])
        assert gc.isenabled() is enabled
        assert gc.get_freeze_count() == 0
    finally:
        (gc.enable if was_enabled else gc.disable)()
    assert set(states) == {(False, 2)}  # all generations, once


def test_what_a_template_froze_stays_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """As all is that the worker had before this file's tests."""
    clock, changed = VirtualClock(), list[str]()
    for name in ("freeze", "unfreeze"):
        monkeypatch.setattr(gc, name, partial(changed.append, name))
    assert gc.get_freeze_count() > 0
    run(clock, [lambda: clock.spend(5e6)])
    assert changed == []


def test_the_heap_is_as_before_when_a_call_fails() -> None:
    def call() -> None:
        raise RuntimeError("the model's own")

    was_enabled = gc.isenabled()
    with pytest.raises(RuntimeError, match="own"):
        run(VirtualClock(), [call])
    assert gc.isenabled() is was_enabled
