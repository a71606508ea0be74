"""The graph replays every program whose makespan is known, however it was recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.graph_invariants import check
from support.trace_lab.analysing import analysed
from support.trace_lab.generator import Style, draw
from support.trace_lab.hand_cases import CASES, Case
from support.trace_lab.kineto import Recording, Stamps
from support.trace_lab.seeds import each_of

STYLES = {
    "device": Style(),
    "graphs": Style(graphs=True, jitter=0.3),
    "host": Style(device=False, workers=2),
    "workers": Style(workers=2),
    "unmarked": Style(workers=1, marked=False),
    "daemon": Style(workers=1, daemon=True),
    "unmarked daemon": Style(workers=1, daemon=True, marked=False),
}
RECORDINGS = {
    "as it should be": Recording(),
    "no waits": Recording(waits=False),
    "no synchronisations": Recording(syncs=0.0),
    "some synchronisations": Recording(syncs=0.5),
    "unresolved waits": Recording(resolved=False),
    "strings": Recording(strings=True, moved_syncs=True),
    "no arrows": Recording(flows=False),
    "microseconds": Recording(stamps=Stamps.MICROSECONDS),
    "epoch": Recording(stamps=Stamps.EPOCH),
    "device's clock behind": Recording(skew_ns=-9_000),
    "device's clock ahead": Recording(skew_ns=300_000),
    "main thread only": Recording(threads=False),
    "negative threads": Recording(numbers={"main": -5, "worker 0": -7}),
}
BLURRED_NS = 2_500  # two ends of a window in whole microseconds, or in quarters


def sound(program_seed: int, style: Style, recording: Recording, place: Path) -> tuple[int, int]:
    """Makespans by the analysis and in truth, once all invariants hold."""
    run, found = analysed(draw(program_seed, style), place, recording)
    assert {
        name
        for name, holds in check(
            found.dag, found.path, (int(found.dag.time_ns[0]), int(found.dag.time_ns[-1]))
        ).items()
        if not holds
    } == set()
    return found.dag.makespan_ns, run.makespan_ns


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_hand_cases_replay(case: Case, tmp_path: Path) -> None:
    _, found = analysed(case.program, tmp_path)
    assert all(
        check(
            found.dag, found.path, (int(found.dag.time_ns[0]), int(found.dag.time_ns[-1]))
        ).values()
    )
    assert found.dag.makespan_ns == case.makespan_ns


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
@pytest.mark.parametrize("seed", each_of(range(20), 7))
def test_a_program_of_any_kind_replays_to_the_nanosecond(
    seed: int, style: Style, tmp_path: Path
) -> None:
    said_ns, true_ns = sound(seed, style, Recording(), tmp_path)
    assert said_ns == true_ns


@pytest.mark.parametrize("recording", RECORDINGS.values(), ids=RECORDINGS)
@pytest.mark.parametrize("seed", each_of(range(10), 7))
def test_a_program_replays_however_it_was_recorded(
    seed: int, recording: Recording, tmp_path: Path
) -> None:
    style = list(STYLES.values())[seed % len(STYLES)]
    said_ns, true_ns = sound(100 + seed, style, recording, tmp_path)
    starts_with_a_wait = not style.marked and not recording.waits
    if recording.threads and not recording.skew_ns and not starts_with_a_wait:
        assert abs(said_ns - true_ns) <= (
            0 if recording.stamps is Stamps.NANOSECONDS else BLURRED_NS
        )


@pytest.mark.slow
@pytest.mark.parametrize("recording", RECORDINGS.values(), ids=RECORDINGS)
@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
@pytest.mark.parametrize("seed", range(1_000, 1_020))
def test_every_kind_recorded_every_way_replays(
    seed: int, style: Style, recording: Recording, tmp_path: Path
) -> None:
    sound(seed, style, recording, tmp_path)
