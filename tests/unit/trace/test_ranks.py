"""Traces of several ranks as one."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from benchorch.errors import TraceError
from benchorch.trace.analysis import analyze
from benchorch.trace.events import Events
from benchorch.trace.ranks import meetings, merged
from benchorch.trace.readers.open import read_events
from benchorch.trace.whatif.predict import predict
from benchorch.trace.whatif.reading import parse
from support.handmade_traces import Made, call, kernel, note, op, trace

US, MS = 1_000, 1_000_000
ALL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def rank(compute_ns: int, clock_ns: int, slowest_ns: int, steps: int = 5) -> Events:
    """Each step computes, then meets the other rank, which takes a millisecond."""
    made = []
    period = slowest_ns + MS
    for number in range(steps):
        at = clock_ns + number * period
        made += [
            note(f"ProfilerStep#{number}", at, at + period),
            call("cudaLaunchKernel", at + 10, at + 20, correlation=2 * number),
            call("cudaLaunchKernel", at + 30, at + 40, correlation=2 * number + 1),
            kernel("gemm", at + 100, at + compute_ns, 2 * number),
            kernel(ALL, at + compute_ns, at + period, 2 * number + 1),
            call("cudaDeviceSynchronize", at + 50, at + period),
            op("aten::mm", at, at + 45),
        ]
    return trace(made)


def both() -> Events:
    return merged([rank(2 * MS, 0, 5 * MS), rank(5 * MS, 77 * MS, 5 * MS)])


def test_what_was_mended_in_each_trace_is_added_up() -> None:
    several = [
        dataclasses.replace(rank(2 * MS, 0, 5 * MS), repairs={"truncated file": 1}),
        dataclasses.replace(rank(5 * MS, 0, 5 * MS), repairs={"truncated file": 1, "other": 2}),
    ]
    assert merged(several).repairs == {"truncated file": 2, "other": 2}


def test_clocks_are_aligned_by_what_ends_together() -> None:
    events = both()
    met = meetings(events)
    assert set(met.transfer_ns.tolist()) == {MS}
    assert (met.last_ns - met.usual_ns == 3 * MS).all()


@pytest.mark.parametrize("clock_ns", [0, 123 * MS])
@pytest.mark.parametrize("fewer", [0, 1])
def test_a_collective_that_one_recording_lacks_at_its_beginning_moves_no_other(
    fewer: int, clock_ns: int
) -> None:
    """Ranks come last by turns; the first collective had begun before one recording."""
    made: list[list[Made]] = [[], []]
    at = 0
    for number in range(20):
        begins = [at + MS, at + 5 * MS][:: -1 if number % 2 else 1]
        at = max(begins) + MS // 2 + 10_000 * (number % 7)
        for one, begin, clock in zip(made, begins, (0, clock_ns), strict=True):
            one.append(kernel(ALL, begin + clock, at + clock))
    made[fewer] = made[fewer][1:]
    found = merged([trace(*one) for one in made])
    met = meetings(found)
    assert len(met.event) == 2 * 19
    assert set((met.last_ns - met.usual_ns).tolist()) == {4 * MS}
    ends_ns = found.end_ns[met.event].reshape(-1, 2)
    assert (ends_ns[:, 0] == ends_ns[:, 1]).all()


@pytest.mark.parametrize("whole", [True, False], ids=["and all of them", "alone"])
def test_groups_of_ranks_meet_among_themselves(whole: bool) -> None:
    """Four ranks in two rows and two columns; nobody is late, and the rows are 1 ms apart."""
    several = []
    for number in range(4):
        made, (row, column) = [], divmod(number, 2)
        for step in range(6):
            at = 10 * MS * step + 9 * MS * number  # each on a clock of its own
            begin = at + MS * row
            made.append(kernel(ALL, begin, begin + MS, group=row))
            made.append(kernel(ALL, at + 4 * MS, at + 5 * MS, group=2 + column))
            if whole:
                made.append(kernel(ALL, at + 8 * MS, at + 9 * MS, group=4))
        several.append(trace(made))
    found = merged(several)
    met = meetings(found)
    of = np.bincount(met.meeting)
    assert np.bincount(of).tolist() == [0, 0, 24, 0, 6][: 5 if whole else 3]
    assert set((met.last_ns - met.usual_ns).tolist()) == {0}
    assert found.start_ns.min() == 0
    assert np.ptp(found.start_ns) == (58 if whole else 54) * MS


def stage(path: Path, number: int, ranks: int, whole: bool) -> Path:
    """One rank of a pipeline: receives for so many ms as it comes later, then sends."""
    group, step_us = str([*range(ranks)]), 10_000
    rows = []
    for at in range(0, 8 * step_us, step_us):
        sent = [("recv", 0, 1000 * number + 10)] * (number > 0)
        sent += [("send", 1000 * number + 500, 1000 * number + 1010)] * (number < ranks - 1)
        rows += [("SendRecv", name, at + begin, at + end) for name, begin, end in sent]
        rows += [("AllReduce", "allreduce", at + 9000, at + 9100)] * whole
    events = [
        {"cat": "kernel", "name": f"ncclDevKernel_{kernel}", "ph": "X", "pid": 0, "tid": 7}
        | {"ts": begin, "dur": end - begin}
        | {"args": {"stream": 7, "Process Group Ranks": group, "Collective name": name}}
        for kernel, name, begin, end in rows
    ]
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def test_a_send_or_receive_in_a_larger_group_aligns_no_clocks(tmp_path: Path) -> None:
    files = [stage(tmp_path / f"{rank}.json", rank, 4, whole=True) for rank in range(4)]
    several = [read_events(file) for file in files]
    found = merged(several)
    assert [int(one.end_ns.max()) for one in several] == [79_100_000] * 4
    assert found.end_ns[found.ranks[found.lane] == 3].max() == 79_100_000
    assert {found.names[code] for code in found.name[meetings(found).event]} == {
        "ncclDevKernel_AllReduce"
    }
    files = [stage(tmp_path / f"{rank}.json", rank, 4, whole=False) for rank in range(4)]
    with pytest.raises(TraceError, match="sends and receives"):
        merged([read_events(file) for file in files])


def test_a_send_and_its_receive_are_one_in_a_group_of_two(tmp_path: Path) -> None:
    files = [stage(tmp_path / f"{rank}.json", rank, 2, whole=False) for rank in range(2)]
    assert len(meetings(merged([read_events(file) for file in files])).event) == 16


def test_the_wait_for_the_slower_rank_is_not_communication() -> None:
    found = analyze(both())
    assert found.steps.period_ns == 6 * MS
    assert found.verdict.limit == "waiting for a straggler"
    assert found.verdict.shares["waiting for a straggler"] == pytest.approx(0.5, rel=0.02)
    assert found.verdict.shares["communication"] == pytest.approx(1 / 6, rel=0.02)
    assert "Rank 1 comes last to 5 of 5 collectives, 3 ms after" in " ".join(found.warnings)
    assert found.verdict.record == ()
    assert {one.rank for one in found.devices} == {0, 1}


def test_making_the_slower_rank_faster_helps_and_the_other_does_not() -> None:
    analysis = analyze(both())

    def asked(**change: object) -> float:
        return predict(analysis, parse({"changes": [change]}).changes).predicted_ns / MS

    assert asked(kernel="gemm", rank=1, speedup=2) == pytest.approx(3.5, rel=0.02)
    assert asked(kernel="gemm", rank=0, speedup=2) == pytest.approx(6, rel=0.02)
    assert asked(kernel=ALL, **{"class": "gpu_comm"}, speedup=2) == pytest.approx(5.5, rel=0.02)


def test_of_many_ranks_the_last_one_holds_up_all_others() -> None:
    late = 2
    several = [rank((5 if number == late else 2) * MS, 0, 5 * MS) for number in range(18)]
    found = analyze(merged(several))
    assert found.verdict.length["unknown"] == pytest.approx(0, abs=0.01)
    change = {"kernel": "gemm", "rank": late, "speedup": 2}
    predicted = predict(found, parse({"changes": [change]}).changes).predicted_ns / MS
    assert predicted == pytest.approx(3.5, rel=0.02)


def test_traces_that_share_nothing_are_refused() -> None:
    with pytest.raises(TraceError, match="share no collective"):
        merged([trace(op("aten::mm", 0, 5)), trace(op("aten::mm", 0, 5))])


def test_ranks_are_those_that_the_traces_name_not_their_places() -> None:
    slow, quick = (
        dataclasses.replace(rank(took * MS, 0, 5 * MS), rank=number)
        for took, number in ((5, 3), (2, 1))
    )
    found = analyze(merged([slow, quick]))
    assert "Rank 3 comes last to 5 of 5 collectives" in " ".join(found.warnings)
    assert {(one.rank, one.device) for one in found.devices} == {(1, 0), (3, 0)}
    assert {lane.label for lane in found.events.lanes if lane.on_device} == {
        "rank 1 stream 7",
        "rank 3 stream 7",
    }
    change = {"kernel": "gemm", "rank": 3, "speedup": 2}
    predicted = predict(found, parse({"changes": [change]}).changes).predicted_ns / MS
    assert predicted == pytest.approx(3.5, rel=0.02)


def test_files_that_name_no_ranks_are_listed_as_they_count(tmp_path: Path) -> None:
    begun = {"cat": "cpu_op", "name": "gloo:all_reduce", "ph": "X", "pid": 1, "tid": 1, "dur": 5}
    text = json.dumps({"traceEvents": [{**begun, "ts": at} for at in range(0, 50, 10)]})
    files = [tmp_path / name for name in ("b.json", "a.json")]
    for file in files:
        file.write_text(text)
    listed = f"count as given: 0 is {files[0]}, 1 is {files[1]}."
    assert listed in " ".join(analyze(files).warnings)
    for number, file in enumerate(files):
        file.write_text(f'{{"distributedInfo": {{"rank": {number}}}, {text[1:]}')
    assert listed not in " ".join(analyze(files).warnings)
    assert [read_events(file).rank for file in files] == [0, 1]
    for number, file in enumerate(files):  # as kineto's daemon writes them
        file.write_text(f'{text[:-1]}, "distributedInfo": {{"rank": {number + 2}}}}}')
    assert [read_events(file).rank for file in files] == [2, 3]
