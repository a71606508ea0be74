"""The processes that a trial runs, with a stand-in for the processes themselves."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from benchorch.domain.measurement import (
    Calibration,
    Conditions,
    Observations,
    Paired,
    ProcessRecord,
)
from benchorch.domain.protocol import Protocol
from benchorch.domain.result import BuildRecord, Failure, ModelCounts, TrialResult
from benchorch.domain.verdict import Verdict
from benchorch.host.processes.template import is_possible
from benchorch.interfaces.stopping import Stopping
from benchorch.stopping.decide import Decide
from benchorch.stopping.fixed import Fixed
from benchorch.stopping.precision import Precision
from benchorch.trial import repetitions
from benchorch.trial.repetitions import Repetitions
from benchorch.trial.stage_runner import out_of_budget
from benchorch.trial.stages import (
    Baseline,
    Built,
    BuiltTrial,
    MeasureReply,
    MeasureRequest,
    StageFailed,
)

MS = 1_000_000
PASSED = Verdict(passed=True, reasons=(), outputs=(), tolerance_ratio=1e-4)
CRASH = Failure(stage="measure", kind="crash:SIGSEGV", message="it crashed")
BUILT = Built(
    record=BuildRecord(
        key="", cache="none", build_s=0, original_build_s=0, artifact_bytes=0, model_digest=""
    ),
    source=None,
    sources={},
    states={},
    reference=Path("reference"),
    scratch=Path("scratch"),
    counts=ModelCounts(parameters=1, parameter_bytes=4, macs=None, flops=None),
)


def trial_of(conversion: str) -> BuiltTrial:
    return BuiltTrial(spec={"conversion": conversion}, built=BUILT, threads=1, pin=False)


BASELINE = Baseline(trial_id="baseline", trial=trial_of("eager"))


def blocks(took_ms: float, count: int = 40) -> Observations:
    return Observations(
        durations_ns=(round(took_ms * MS),) * count,
        started_ns=tuple(range(count)),
        calls_per_block=1,
        items_per_call=1,
    )


def record(took_ms: float = 2.0, canary_ns: float | None = 1000.0) -> ProcessRecord:
    return ProcessRecord(
        load_s=0.1,
        first_call_s=0.1,
        observations=blocks(took_ms),
        steady_from=0,
        calibration=Calibration(pair_cost_ns=40, step_ns=1),
        peak_rss_bytes=1,
        facts={},
        conditions=Conditions(canary_before_ns=canary_ns, canary_after_ns=canary_ns),
    )


def reply(measured: ProcessRecord, paired: Paired | None = None) -> MeasureReply:
    return MeasureReply(process=replace(measured, paired=paired), verdict=PASSED)


def alternated(
    candidate_ms: float,
    baseline_ms: float,
    *,
    alone_ms: tuple[float, float] | None = None,
    candidate_first: bool = True,
) -> Paired:
    alone = alone_ms or (candidate_ms, baseline_ms)
    return Paired(
        baseline_id="baseline",
        design="alternated",
        ours=blocks(candidate_ms),
        theirs=blocks(baseline_ms),
        ours_alone=blocks(alone[0]),
        theirs_alone=blocks(alone[1]),
        candidate_first=candidate_first,
    )


class Runtime:
    requires: ClassVar[tuple[str, ...]] = ("torch",)

    def cohabits(self, device: str, threads: int) -> bool:
        return True


class Selfish:
    requires: ClassVar[tuple[str, ...]] = ("onnxruntime",)

    def cohabits(self, device: str, threads: int) -> bool:
        return False


class Other(Selfish):
    requires: ClassVar[tuple[str, ...]] = ("openvino",)


class Onnx(Runtime):
    requires: ClassVar[tuple[str, ...]] = ("onnxruntime",)


class Hardware:
    device: ClassVar[str] = "cpu"


class SingleStream:
    pairing: ClassVar[str] = "alternated"


class Children:
    """Replies in the place of child processes, and keeps the requests."""

    def __init__(self, answer: Callable[[MeasureRequest], MeasureReply]) -> None:
        self.requests: list[MeasureRequest] = []
        self._answer = answer

    def __call__(self, request: MeasureRequest) -> MeasureReply:
        self.requests.append(request)
        return self._answer(request)

    @property
    def conversions(self) -> list[Any]:
        return [request.trial.spec["conversion"] for request in self.requests]


@pytest.fixture(autouse=True)
def baseline_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = SimpleNamespace(runtime=Runtime(), hardware=Hardware())
    monkeypatch.setattr(repetitions, "open_trial", lambda spec: setup)


def run(
    children: Children,
    *,
    count: int = 6,
    baseline: Baseline | None = BASELINE,
    tolerance_ratio: float | None = None,
    runtime: object = None,
    control: bool = False,
    stopping: Stopping | None = None,
    **protocol: Any,
) -> Repetitions:
    found = repetitions_of(
        children, count, baseline, tolerance_ratio, runtime, control, stopping, **protocol
    )
    reason = None
    while reason is None:
        found.add()
        reason = found.enough(0.0)
    assert reason == ("converged" if stopping else "fixed")
    return found


def repetitions_of(
    children: Children,
    count: int = 6,
    baseline: Baseline | None = BASELINE,
    tolerance_ratio: float | None = None,
    runtime: object = None,
    control: bool = False,
    stopping: Stopping | None = None,
    earlier: TrialResult | None = None,
    **protocol: Any,
) -> Repetitions:
    setup: Any = SimpleNamespace(
        protocol=Protocol(**{"repeats": 3, **protocol}),
        stopping=stopping or Fixed(processes=count),
        scenario=SingleStream(),
        hardware=Hardware(),
        runtime=runtime or Runtime(),
    )
    return Repetitions(
        setup,
        trial_of("onnxruntime"),
        baseline,
        control=control,
        tolerance_ratio=lambda: tolerance_ratio,
        measure=children,
        say=lambda message: None,
        earlier=earlier,
    )


def interrupted(found: Repetitions, records: Sequence[ProcessRecord]) -> Any:
    """What a resumed trial has of an earlier one, of which these were stored."""
    return SimpleNamespace(
        processes=tuple(records), parity=PASSED, pairing=found.pairing, all_count=found.all_count
    )


@pytest.mark.skipif(not is_possible(), reason="needs Linux")
@pytest.mark.parametrize(
    ("stopping", "runtime", "forked"),
    [
        (Decide(unpaired_processes=3, looks=(3,)), Runtime(), [False, True, True]),
        (Decide(unpaired_processes=3, looks=(3,)), Selfish(), [False, True, True]),
        (Decide(unpaired_processes=3, looks=(3,)), Other(), [False, False, False]),
        (Precision(), Runtime(), [False, False, False]),
    ],
)
def test_of_a_race_the_first_process_is_fresh_and_those_of_other_runtimes_are(
    stopping: Stopping, runtime: object, forked: list[bool]
) -> None:
    children = Children(lambda request: reply(record()))
    found = repetitions_of(children, baseline=None, runtime=runtime, stopping=stopping)
    for _ in range(3):
        found.add()
    assert [bool(request.template) for request in children.requests] == forked


@pytest.mark.skipif(not is_possible(), reason="needs Linux")
def test_where_starts_are_no_result_every_process_is_forked_from_what_has_all_imports() -> None:
    children = Children(lambda request: reply(record(), alternated(2.0, 3.0)))
    stopping = Fixed(processes=2, calls=1, forked=True)
    found = repetitions_of(children, runtime=Onnx(), stopping=stopping)
    for _ in range(2):
        found.add()
    assert [request.template for request in children.requests] == ["torch", "torch"]


def test_on_a_device_no_process_is_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Hardware, "device", "cuda")
    children = Children(lambda request: reply(record()))
    found = repetitions_of(children, baseline=None, stopping=Decide())
    for _ in range(2):
        found.add()
    assert not any(request.template for request in children.requests)


@pytest.mark.skipif(not is_possible(), reason="needs Linux")
@pytest.mark.parametrize(
    ("runtime", "templates"),
    [(Runtime(), {"torch"}), (Selfish(), {"torch", "onnxruntime"}), (Other(), {""})],
)
def test_both_sides_of_a_back_to_back_pair_begin_alike(
    runtime: Runtime | Selfish, templates: set[str]
) -> None:
    children = Children(lambda request: reply(record()))
    found = repetitions_of(children, runtime=runtime, stopping=Decide(), pairing="adjacent")
    for _ in range(2):
        found.add()
    assert {one.template for one in children.requests[:2]} == {""}
    assert {one.template for one in children.requests[2:]} == templates


def designs(found: Repetitions) -> list[str | None]:
    return [each.paired.design if each.paired else None for each in found.records]


def test_outputs_are_checked_and_operators_counted_in_the_first_process_only() -> None:
    children = Children(lambda request: reply(record()))
    found = run(children, baseline=None)
    assert [request.verify for request in children.requests] == [True] + [False] * 5
    assert [request.count for request in children.requests] == [True] + [False] * 5
    assert found.parity == PASSED
    assert found.pairing == ""


def test_every_process_is_interleaved_with_the_baseline_each_in_another_order() -> None:
    children = Children(lambda request: reply(record(), alternated(2.0, 3.0)))
    found = run(children)
    assert designs(found) == ["alternated"] * 6
    assert found.pairing == "alternated"
    assert len({request.seed for request in children.requests}) == 6


def test_a_crash_beside_the_baseline_keeps_what_was_measured_before() -> None:
    def answer(request: MeasureRequest) -> MeasureReply:
        if request.baseline is not None:
            raise StageFailed(CRASH, partial=reply(record()))
        return reply(record())

    children = Children(answer)
    found = run(children)
    assert len(found.valid) == 6
    assert designs(found) == [None] + ["adjacent"] * 5
    assert found.pairing == "adjacent: the two did not run in one process (crash:SIGSEGV)"


def test_a_crash_before_anything_was_measured_is_the_trials() -> None:
    def answer(request: MeasureRequest) -> MeasureReply:
        raise StageFailed(CRASH)

    with pytest.raises(StageFailed):
        run(Children(answer))


@pytest.mark.parametrize("pairing", ["adjacent", "alternated"])
def test_in_either_design_both_orders_occur_equally_often_in_blocks_of_two(pairing: str) -> None:
    def answer(request: MeasureRequest) -> MeasureReply:
        first = request.candidate_first
        paired = alternated(2.0, 3.0, candidate_first=first) if request.baseline else None
        return reply(record(), paired)

    found = run(Children(answer), count=12, pairing=pairing)
    assert designs(found) == [pairing] * 12
    firsts = [each.paired.candidate_first for each in found.records if each.paired]
    assert [set(firsts[i : i + 2]) for i in range(0, 12, 2)] == [{True, False}] * 6


def test_no_two_runs_of_a_plan_draw_the_same_orders() -> None:
    def drawn() -> tuple[tuple[bool, int], ...]:
        def answer(request: MeasureRequest) -> MeasureReply:
            first = request.candidate_first
            return reply(record(), alternated(2.0, 3.0, candidate_first=first))

        children = Children(answer)
        run(children)
        return tuple((request.candidate_first, request.seed) for request in children.requests)

    assert len({drawn() for _ in range(8)}) == 8


def test_the_order_of_a_pair_that_was_rejected_is_measured_again() -> None:
    looks = iter([1000, 1000, 1000, 1300, 1300])

    def answer(request: MeasureRequest) -> MeasureReply:
        first = request.candidate_first
        seen = record(canary_ns=next(looks, 1000))
        return reply(seen, alternated(2.0, 3.0, candidate_first=first))

    found = run(Children(answer), count=8, tolerance_ratio=0.02)
    assert len(found.records) == 10
    firsts = [each.paired.candidate_first for each in found.valid if each.paired]
    assert firsts.count(True) == firsts.count(False) == 4


def test_both_processes_of_a_pair_run_on_the_same_processors() -> None:
    spots = itertools.count()

    def answer(request: MeasureRequest) -> MeasureReply:
        cpus = request.cpus or (next(spots),)
        return reply(replace(record(), conditions=Conditions(cpus=cpus)))

    children = Children(answer)
    run(children, count=4, pairing="adjacent")
    asked = [request.cpus for request in children.requests]
    assert asked == [(), (0,), (), (1,), (), (2,), (), (3,)]


def test_runtimes_that_cannot_share_a_process_get_one_each() -> None:
    found = run(Children(lambda request: reply(record())), runtime=Selfish())
    assert designs(found) == ["adjacent"] * 6


def test_a_baseline_that_fails_costs_the_comparison_and_nothing_else() -> None:
    def answer(request: MeasureRequest) -> MeasureReply:
        if request.trial.spec["conversion"] == "eager":
            raise StageFailed(CRASH)
        return reply(record())

    children = Children(answer)
    found = run(children, pairing="adjacent")
    assert designs(found) == [None] * 6
    assert found.pairing == "none: the baseline failed (crash:SIGSEGV)"
    assert children.conversions.count("eager") == 1


@pytest.mark.parametrize("pairing", ["adjacent", "auto"])
def test_a_budget_that_ends_during_the_first_pair_leaves_the_design_for_a_resume(
    pairing: str,
) -> None:
    is_over = True

    def answer(request: MeasureRequest) -> MeasureReply:
        is_baseline = request.trial.spec["conversion"] == "eager"
        if is_over and (is_baseline or request.baseline):
            late = out_of_budget("measure", "during this stage")
            raise StageFailed(late, partial=None if is_baseline else reply(record()))
        return reply(record(), alternated(2.0, 3.0) if request.baseline else None)

    children = Children(answer)
    first = repetitions_of(children, pairing=pairing)
    first.add()
    design = "adjacent" if pairing == "adjacent" else "alternated"
    assert designs(first) == [None]
    assert first.pairing == f"{design}: budget.minutes ended before the first pair"

    earlier = interrupted(first, first.records)
    resumed = repetitions_of(children, pairing=pairing, earlier=earlier)
    assert resumed.pairing == first.pairing  # the budget may end again before the first pair
    is_over = False
    resumed.add()
    assert designs(resumed) == [None, design]
    assert resumed.pairing == design


@pytest.mark.parametrize(
    ("pairing", "candidate_first"), [("auto", True), ("adjacent", True), ("adjacent", False)]
)
def test_a_process_that_ended_before_the_budget_did_is_kept_without_its_pair(
    pairing: str, candidate_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def answer(request: MeasureRequest) -> MeasureReply:
        ran.append("baseline" if request.trial.spec["conversion"] == "eager" else "candidate")
        if len(found.valid) == 2 and (request.baseline or len(ran) == 6):
            partial = reply(record()) if request.baseline else None
            raise StageFailed(out_of_budget("measure", "during this stage"), partial=partial)
        return reply(record(), alternated(2.0, 3.0) if request.baseline else None)

    found = repetitions_of(Children(answer), pairing=pairing)
    monkeypatch.setattr(found, "_candidate_first", lambda: candidate_first)
    design = "adjacent" if pairing == "adjacent" else "alternated"
    for _ in range(2):
        found.add()
    if candidate_first:
        found.add()
    else:
        with pytest.raises(StageFailed):
            found.add()
    assert designs(found) == [design] * 2 + [None] * candidate_first
    assert len(found.of_baseline) == ran.count("baseline") - (ran[-1] == "baseline")
    assert found.pairing == design


def test_a_resumed_trial_whose_baseline_cannot_be_built_any_more_goes_on_alone() -> None:
    stopping = Decide(unpaired_processes=3, looks=(5,), max_processes=9)
    options: Any = {"pairing": "adjacent", "stopping": stopping}
    children = Children(lambda request: reply(record()))
    first = repetitions_of(children, **options)
    for _ in range(2):
        first.add()
    earlier = interrupted(first, first.records)
    resumed = repetitions_of(children, baseline=None, earlier=earlier, **options)
    assert not resumed.is_paired
    assert resumed.enough(0.0) is None
    resumed.add()
    assert designs(resumed) == ["adjacent"] * 2 + [None]
    assert resumed.enough(0.0) == "converged"

    again = repetitions_of(children, earlier=interrupted(resumed, resumed.records), **options)
    assert again.pairing == "adjacent"
    again.add()
    assert designs(again) == ["adjacent"] * 2 + [None, "adjacent"]


@pytest.mark.parametrize("pairing", ["adjacent", "auto"])
def test_a_resumed_trial_whose_baseline_could_not_be_built_before_is_paired_again(
    pairing: str,
) -> None:
    children = Children(
        lambda request: reply(record(), alternated(2.0, 3.0) if request.baseline else None)
    )
    first = repetitions_of(children, pairing=pairing)
    first.add()
    alone = repetitions_of(children, baseline=None, earlier=interrupted(first, first.records))
    alone.add()
    earlier = interrupted(alone, alone.records)
    earlier.pairing = "none: the baseline was not built (disk_full)"
    again = repetitions_of(children, earlier=earlier)
    again.add()
    design = "adjacent" if pairing == "adjacent" else "alternated"
    assert designs(again) == [design, None, design]
    assert again.pairing == design


@pytest.mark.parametrize("side", ["candidate", "baseline"])
def test_interleaving_that_changes_a_sides_own_speed_is_given_up(side: str) -> None:
    """Alone that side takes 2 ms, and beside the other 2.2 ms, give or take 0.1 %."""
    wobble = iter([1.0, 1.001, 0.999, 1.0005, 0.9995] * 3)

    def answer(request: MeasureRequest) -> MeasureReply:
        if request.baseline is None:
            return reply(record(2.0))
        slowed = 2.2 * next(wobble)
        ours, theirs = (slowed, 3.0) if side == "candidate" else (3.0, slowed)
        alone = (2.0, 3.0) if side == "candidate" else (3.0, 2.0)
        return reply(record(2.0), alternated(ours, theirs, alone_ms=alone))

    found = run(Children(answer), count=8)
    assert designs(found) == ["alternated"] * 5 + ["adjacent"] * 3
    assert found.pairing == f"adjacent: interleaving changed the {side}'s own speed"


def test_a_design_that_was_asked_for_alone_has_no_other_to_fall_back_to() -> None:
    def answer(request: MeasureRequest) -> MeasureReply:
        if request.baseline is not None:
            raise StageFailed(CRASH, partial=reply(record()))
        return reply(record())

    found = run(Children(answer), pairing="alternated")
    assert designs(found) == [None] * 6
    assert found.pairing.startswith("none: ")


def test_pairs_of_a_design_that_was_given_up_settle_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[int] = []
    real = Fixed.enough_processes

    def remember(self: Fixed, medians: Any, elapsed: float, ratios: Any = (), *more: Any) -> Any:
        told.append(len(ratios))
        return real(self, medians, elapsed, ratios, *more)

    monkeypatch.setattr(Fixed, "enough_processes", remember)

    def answer(request: MeasureRequest) -> MeasureReply:
        if request.baseline is not None and len(told) == 2:
            raise StageFailed(CRASH, partial=reply(record()))
        paired = alternated(2.0, 3.0) if request.baseline is not None else None
        return reply(record(), paired)

    found = run(Children(answer), count=5)
    assert designs(found) == ["alternated", "alternated", None, "adjacent", "adjacent"]
    # One where none is left: nothing at all would mean that nothing is compared.
    assert told == [1, 2, 1, 1, 2]


def canaries(*looks_ns: float) -> Iterator[ProcessRecord]:
    yield from (record(canary_ns=look) for look in looks_ns)


def with_canaries(looks_ns: Sequence[float], **options: Any) -> Repetitions:
    seen = canaries(*looks_ns)
    return run(Children(lambda request: reply(next(seen))), baseline=None, **options)


def test_a_disturbed_process_is_kept_does_not_count_and_is_measured_again() -> None:
    found = with_canaries([1000, 1200, 1000, 1000], count=3, tolerance_ratio=0.02)
    assert [bool(seen.disturbance) for seen in found.records] == [False, True, False, False]
    assert len(found.valid) == 3
    assert "20.0%" in found.records[1].disturbance


def test_a_process_beside_a_program_that_used_the_memory_is_measured_again() -> None:
    copies = iter([1000, 1000, 2000, 1000])

    def answer(request: MeasureRequest) -> MeasureReply:
        seen = record()
        took_ns = next(copies)
        around = replace(seen.conditions, memory_before_ns=took_ns, memory_after_ns=took_ns)
        return reply(replace(seen, conditions=around))

    found = run(Children(answer), baseline=None, count=3, tolerance_ratio=0.02)
    assert [bool(seen.disturbance) for seen in found.records] == [False, False, True, False]
    assert "copy of memory" in found.records[2].disturbance


def test_a_pair_does_not_count_where_the_machine_changed_under_its_baseline() -> None:
    looks = iter([1000, 1300, 1000])

    def answer(request: MeasureRequest) -> MeasureReply:
        own = request.trial.spec["conversion"] == "onnxruntime"
        return reply(record(canary_ns=1000 if own else next(looks, 1000)))

    children = Children(answer)
    found = run(children, count=3, pairing="adjacent", tolerance_ratio=0.02)
    assert [bool(seen.disturbance) for seen in found.records].count(True) == 1
    assert len(found.valid) == 3


def test_cold_caches_are_compared_in_processes_of_their_own() -> None:
    found = run(Children(lambda request: reply(record())), cold_caches=True)
    assert designs(found) == ["adjacent"] * 6


def test_where_more_would_be_rejected_than_may_be_repeated_all_processes_count() -> None:
    """Not those from the third one on only: what counts would depend on when the machine slowed."""
    looks = [1000, *[1300] * 8]
    found = with_canaries(looks, count=5, tolerance_ratio=0.02, repeats=2)
    assert len(found.records) == len(found.valid) == 5
    found = with_canaries(looks[:3] + [1000] * 4, count=5, tolerance_ratio=0.02, repeats=2)
    assert [bool(seen.disturbance) for seen in found.records] == [False, True, True] + [False] * 4


@pytest.mark.parametrize("interrupted_after", range(1, 7))
@pytest.mark.parametrize("slow", [1, 2, 3, 5])
def test_a_resumed_trial_counts_the_processes_that_an_uninterrupted_one_counts(
    slow: int, interrupted_after: int
) -> None:
    looks = [1000, *[1300] * slow, *[1000] * 9]
    options: dict[str, Any] = {"count": 5, "tolerance_ratio": 0.02, "repeats": 2}
    at_once = with_canaries(looks, **options)

    seen = canaries(*looks)
    children = Children(lambda request: reply(next(seen)))
    first = repetitions_of(children, baseline=None, **options)
    durable = []  # each as it was when it had measured, as `append_round` stores it
    while len(durable) < interrupted_after and first.enough(0.0) is None:
        first.add()
        durable.append(first.records[-1])
    earlier = interrupted(first, durable)
    resumed = repetitions_of(children, baseline=None, earlier=earlier, **options)
    while resumed.enough(0.0) is None:
        resumed.add()
    assert resumed.records == at_once.records


def test_a_resumed_trial_judges_no_process_of_before_by_the_tolerance_of_now() -> None:
    seen = canaries(1000, 1030, 1040, 1030, 1000, 1030)
    children = Children(lambda request: reply(next(seen)))
    first = repetitions_of(children, baseline=None, tolerance_ratio=0.05, repeats=2)
    for _ in range(4):
        first.add()
    earlier = interrupted(first, first.records)
    resumed = repetitions_of(
        children, baseline=None, earlier=earlier, tolerance_ratio=0.02, repeats=2
    )
    for _ in range(2):
        resumed.add()
    assert [bool(seen.disturbance) for seen in resumed.records] == [False] * 5 + [True]


def test_without_a_tolerance_nobody_judges() -> None:
    found = with_canaries([1000, 2000, 3000], count=3)
    assert len(found.valid) == 3


def test_without_being_asked_to_repeat_every_process_counts() -> None:
    found = with_canaries([1000, 2000, 3000], count=3, tolerance_ratio=0.02, repeats=0)
    assert len(found.valid) == 3
    assert Protocol().repeats == 0


def test_a_process_is_judged_by_what_was_known_before_the_trial() -> None:
    """Not by the fastest one so far, which changes from process to process."""
    found = with_canaries([1000, 900, 1010, 1000], count=4, tolerance_ratio=0.02)
    assert len(found.records) == len(found.valid) == 4


def test_where_the_canary_is_unknown_the_process_counts() -> None:
    silent = replace(record(), conditions=Conditions())
    found = run(Children(lambda request: reply(silent)), baseline=None, tolerance_ratio=0.02)
    assert len(found.valid) == 6


def test_a_process_runs_on_the_processors_that_it_is_given() -> None:
    children = Children(lambda request: reply(record()))
    found = repetitions_of(children, baseline=None)
    found.add()
    found.add((3,))
    assert [request.cpus for request in children.requests] == [(), (3,)]


def test_a_control_meets_itself_and_asks_for_no_further_process() -> None:
    """Its ratio is 1 whatever it takes: pairs that scatter must not lengthen the baseline."""
    scatter = itertools.cycle([1.0, 1.4])
    children = Children(lambda request: reply(record(), alternated(2.0, 2.0 * next(scatter))))
    found = run(children, control=True, stopping=Precision(looks=(8, 12)))
    assert designs(found) == ["alternated"] * 8


def test_a_control_has_pairs_enough_to_say_something() -> None:
    children = Children(lambda request: reply(record(), alternated(2.0, 2.0)))
    assert len(run(children, control=True, stopping=Decide()).records) == repetitions.CONTROL_PAIRS
    assert len(run(children, baseline=None, stopping=Decide()).records) < repetitions.CONTROL_PAIRS


def test_a_process_of_the_baseline_back_to_back_brings_a_pair_of_its_control() -> None:
    def answer(request: MeasureRequest) -> MeasureReply:
        first = request.candidate_first
        paired = alternated(2.0, 2.0, candidate_first=first) if request.baseline else None
        return reply(record(), paired)

    of_itself, beside = Children(answer), Children(answer)
    itself = Baseline(trial_id="own", trial=trial_of("eager"))
    own = repetitions_of(of_itself, baseline=itself, control=True)
    own.add()
    found = repetitions_of(beside, runtime=Selfish())
    found.add(controlled=own.with_control)
    [theirs] = [one for one in beside.requests if one.trial.spec["conversion"] == "eager"]
    assert theirs.baseline == Baseline(trial_id="own", trial=theirs.trial)
    assert designs(found) == ["adjacent"]
    [brought] = found.of_baseline
    own.take(brought)
    assert len(own.log_ratios) == 2
    assert {one.candidate_first for one in [*of_itself.requests, theirs]} == {True, False}


def test_a_control_with_enough_pairs_takes_no_more_from_other_trials() -> None:
    own = repetitions_of(Children(lambda request: reply(record())), control=True)
    for _ in range(repetitions.CONTROL_PAIRS):
        own.take(replace(record(), paired=alternated(2.0, 2.0)))
    request = MeasureRequest(trial=BASELINE.trial)
    assert own.with_control(request) == request


def test_a_control_that_fails_beside_another_trial_costs_its_pair_alone() -> None:
    def answer(request: MeasureRequest) -> MeasureReply:
        if request.baseline is not None:
            raise StageFailed(CRASH, partial=reply(record()))
        return reply(record())

    own = repetitions_of(Children(lambda request: reply(record())), control=True)
    found = repetitions_of(Children(answer), runtime=Selfish())
    found.add(controlled=own.with_control)
    assert designs(found) == ["adjacent"]
    assert found.pairing == "adjacent"


def test_a_control_of_slow_calls_ends_with_the_fewest_pairs_that_have_an_interval() -> None:
    """One takes five seconds where a call takes 150 ms."""

    def answer(request: MeasureRequest) -> MeasureReply:
        return reply(record(150.0), alternated(150.0, 150.0) if request.baseline else None)

    children = Children(answer)
    own = repetitions_of(children, control=True)
    for _ in range(4):
        own.add()
    assert [request.baseline is None for request in children.requests] == [False] * 3 + [True]
    assert (own.lacks_control, own.is_paired, len(own.log_ratios)) == (False, True, 3)
    request = MeasureRequest(trial=BASELINE.trial)
    assert own.with_control(request) == request


def test_a_candidate_is_paired_however_long_it_takes() -> None:
    children = Children(lambda request: reply(record(150.0), alternated(150.0, 300.0)))
    own = repetitions_of(children)
    for _ in range(4):
        own.add()
    assert all(request.baseline is not None for request in children.requests)
