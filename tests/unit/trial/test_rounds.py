"""Who gets a further process: rounds over the trials of a table, with processes that are drawn."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from benchorch.domain.measurement import Paired, ProcessRecord
from benchorch.domain.protocol import Protocol
from benchorch.domain.result import FUTILE, RUN_BUDGET, Failure, Outcome, TrialResult
from benchorch.domain.session import Event
from benchorch.domain.trial import Trial
from benchorch.interfaces.stopping import Stopping
from benchorch.scenarios.peak_rate import PeakRate
from benchorch.stats.between_processes import primary_ns
from benchorch.stats.pairs import ADJACENT
from benchorch.stopping.decide import Decide
from benchorch.stopping.fixed import Fixed
from benchorch.stopping.precision import Precision
from benchorch.trial import rounds
from benchorch.trial.race import DECIDED, MOST, Race
from benchorch.trial.rounds import _Rounds
from benchorch.trial.supervisor import OutOfTime
from support.load_runs import QuickClock, constant, process
from support.load_runs import run as load_run
from support.synthetic_runs import AGREES, DISAGREES, result

CRASH = Failure(stage="measure", kind="crash:SIGSEGV", message="it crashed")
EAGER = Trial(trial_id="eager", labels={"conversion": "eager"}, spec={})


@dataclass
class Drawn:
    """A run whose processes draw a log ratio: what rounds use of a `TrialRun`.

    Attributes:
        gain: the true log ratio; None for a baseline.
        fails_at: the number of the process that crashes.
        affordable: how many processes fit into the budget.
    """

    trial: Trial
    gain: float | None = None
    stopping: Stopping = field(default_factory=Decide)
    noise: float = 0.002
    parity: Any = AGREES
    fails_at: int | None = None
    affordable: int = 1000
    processes_left: float = math.inf
    late_at: int | None = None
    back_to_back: bool = False
    failure: Failure | None = None
    stop_reason: str = ""
    profiled: bool | None = None

    def __post_init__(self) -> None:
        self._random = random.Random(self.trial.trial_id)
        self.setup = SimpleNamespace(stopping=self.stopping, protocol=Protocol())
        one = result(EAGER, 1e6).processes[0]
        self._one = replace(one, disturbance="")
        self.repetitions = SimpleNamespace(
            records=[],
            log_ratios=[],
            parity=None,
            is_paired=self.gain is not None,
            of_baseline=[],
            lacks_control=False,
        )
        self.repetitions.valid = self.repetitions.records
        self.repetitions.take = self.repetitions.records.append

    @property
    def is_judged_in_table(self) -> bool:
        return isinstance(self.stopping, Decide)

    def start(self) -> None:
        pass

    def is_affordable(self) -> bool:
        return len(self.repetitions.valid) < self.affordable

    def repeat(self, baseline: Drawn | None = None) -> None:
        number = len(self.repetitions.valid) + 1
        if number == self.fails_at:
            self.failure = CRASH
            return
        if number == self.late_at:
            raise OutOfTime
        self.repetitions.parity = self.parity
        self.repetitions.valid.append(self._one)
        if self.back_to_back:
            self.repetitions.of_baseline.append(self._one)
        if self.gain is not None:
            self.repetitions.log_ratios.append(self._random.gauss(self.gain, self.noise))

    def needs_more(self) -> bool:
        if self.failure is None and not self.stop_reason:
            medians = [1e6] * len(self.repetitions.valid)
            ratios = self.repetitions.log_ratios if self.trial.baseline_id else ()
            self.stop_reason = self.stopping.enough_processes(medians, 0.0, ratios) or ""
        return self.failure is None and not self.stop_reason

    def end(self, *, profile: bool) -> None:
        self.profiled = profile

    def result(self, *, unfinished: bool = False) -> TrialResult:
        return TrialResult(
            trial_id=self.trial.trial_id,
            labels=self.trial.labels,
            outcome=Outcome.OK if self.failure is None else Outcome.FAILED,
            failure=self.failure,
            processes=tuple(self.repetitions.valid),
            stop_reason=self.stop_reason,
            unfinished=unfinished,
        )


class Wandering(Drawn):
    """Back to back with a baseline: 1 ms, but its first process reached another level too."""

    def __init__(self, trial: Trial, gain: float, *, first_ns: float, **more: Any) -> None:
        super().__init__(trial, gain, **more)
        self._first_ns = first_ns
        self._theirs_ns = round(1e6 * math.exp(gain))

    def result(self, *, unfinished: bool = False) -> TrialResult:
        found = super().result(unfinished=unfinished)
        levels = (self._first_ns, *[1e6] * len(found.processes))
        first, *others = map(self._paired, levels)
        processes = [replace(first, steady_from=None), *others][: len(found.processes)]
        return replace(
            found,
            baseline_id="eager",
            processes=tuple(processes),
            stop_looks=self.stopping.planned_looks(),
        )

    def _paired(self, highest_ns: float) -> ProcessRecord:
        seen = self._one.observations
        count = len(seen.durations_ns)
        level_ns = [1e6] * (count - count // 3) + [highest_ns] * (count // 3)
        theirs = replace(seen, durations_ns=(self._theirs_ns,) * count)
        return replace(
            self._one,
            observations=replace(seen, durations_ns=tuple(map(int, level_ns))),
            paired=Paired(
                baseline_id="eager", design=ADJACENT, ours=None, theirs=theirs, theirs_from=1
            ),
        )


def candidate(name: str, gain: float, **more: Any) -> Drawn:
    trial = Trial(trial_id=name, labels={"conversion": name}, spec={}, baseline_id="eager")
    return Drawn(trial, gain, **more)


def wanderer(gain: float, *, first_ns: float) -> Wandering:
    trial = Trial(trial_id="a", labels={"conversion": "a"}, spec={}, baseline_id="eager")
    return Wandering(trial, gain, first_ns=first_ns, noise=0.001)


EVENTS: list[Event] = []


@pytest.fixture(autouse=True)
def no_events() -> None:
    EVENTS.clear()


def measured(*runs: Drawn, to_profile: tuple[str, ...] = ("winner", "baseline")) -> list[Any]:
    race = Race(runs=runs)  # type: ignore[arg-type]
    return [
        *_Rounds(runs=list(runs), race=race, to_profile=to_profile, emit=EVENTS.append).results()
    ]  # type: ignore[arg-type]


def counts(*runs: Drawn) -> dict[str, int]:
    return {run.trial.trial_id: len(run.repetitions.valid) for run in runs}


def test_every_trial_has_a_process_before_any_has_two() -> None:
    runs = (Drawn(EAGER), candidate("a", 0.2), candidate("b", 0.1))
    found = measured(*runs)
    assert [one.trial_id for one in found[:3]] == ["eager", "a", "b"]
    assert all(one.unfinished and len(one.processes) == 1 for one in found[:3])


def test_processes_of_one_round_differ_by_no_more_than_one() -> None:
    seen: Counter[str] = Counter()
    for one in measured(candidate("a", 0.2), candidate("b", 0.1), candidate("c", -0.1)):
        if one.unfinished:
            seen[one.trial_id] += 1
            assert max(seen.values()) - min(seen.values()) <= 1 or len(seen) < 3


def test_templates_are_told_how_many_rounds_are_certain_to_come() -> None:
    runs = (Drawn(EAGER), candidate("fast", 0.3), candidate("slow", -0.3))
    told: list[tuple[int, int]] = []
    _ = [
        *_Rounds(
            runs=list(runs),  # type: ignore[arg-type]
            race=Race(runs=runs),  # type: ignore[arg-type]
            to_profile=(),
            emit=EVENTS.append,
            renew=lambda processes, rounds: told.append((processes, rounds)),
        ).results()
    ]
    # Five pairs are the first interim analysis; the baseline has enough with three processes.
    assert told == [(3, 4), (3, 3), (2, 2), (2, 1), (0, 0)]


@pytest.mark.parametrize(
    ("sizes", "available", "held"),
    [
        ({"bert": 100}, 2001, 3),
        ({"bert": 100}, 2000, 1),
        ({"bert": 100}, 1201, 1),
        ({"bert": 100}, 1200, 0),
        ({"bert": 100, "gpt2": 100}, 3201, 3),  # a template holds both
        ({"bert": 100, "gpt2": 100}, 2001, 1),
    ],
)
def test_templates_hold_as_many_modules_as_memory_allows(
    monkeypatch: pytest.MonkeyPatch, sizes: dict[str, int], available: int, held: int
) -> None:
    monkeypatch.setattr(rounds, "available_memory_bytes", lambda: available)
    runs: Any = [
        SimpleNamespace(trial=SimpleNamespace(spec={"model": model}), parameter_bytes=size)
        for model, size in [*sizes.items(), ("bert", 0)]  # one that was not built
    ]
    assert rounds._held(runs) == held


def test_the_templates_of_the_last_round_live_until_the_profiles_are_taken() -> None:
    runs = (Drawn(EAGER), candidate("fast", 0.3))
    at_end: list[bool | None] = []
    _ = [
        *_Rounds(
            runs=list(runs),  # type: ignore[arg-type]
            race=Race(runs=runs),  # type: ignore[arg-type]
            to_profile=("winner", "baseline"),
            emit=EVENTS.append,
            renew=lambda processes, _: at_end.extend(r.profiled for r in runs if not processes),
        ).results()
    ]
    assert at_end == [True, True]


def test_clear_differences_end_at_the_first_interim_analysis() -> None:
    runs = (Drawn(EAGER), candidate("fast", 0.3), candidate("slow", -0.3))
    found = measured(*runs)
    assert counts(*runs) == {"eager": 3, "fast": 5, "slow": 5}
    ends = [one for one in found if not one.unfinished]
    assert {one.trial_id for one in ends} == {"eager", "fast", "slow"}
    assert {one.stop_reason for one in ends} == {DECIDED, "converged"}


def test_only_what_is_undecided_goes_on() -> None:
    runs = (
        candidate("one", 0.30, noise=0.02),
        candidate("other", 0.31, noise=0.02),
        candidate("slow", -0.3, noise=0.02),
    )
    measured(*runs)
    found = counts(*runs)
    assert found["slow"] <= 8 < min(found["one"], found["other"])


def test_a_difference_whose_worst_levels_agree_in_direction_needs_no_more_pairs() -> None:
    wandering = wanderer(math.log(1.5), first_ns=1.6e6)
    measured(wandering)
    assert counts(wandering) == {"a": 5}
    assert wandering.stop_reason == DECIDED


def test_an_equivalence_that_an_unsteady_process_withholds_gets_more_pairs() -> None:
    steady = candidate("a", 0.0, noise=0.001)
    wandering = wanderer(0.0, first_ns=1.02e6)
    measured(steady)
    measured(wandering)
    assert counts(steady) == {"a": 5}
    assert counts(wandering)["a"] > 5
    assert wandering.stop_reason == DECIDED


def test_what_was_never_told_apart_ends_with_the_most_processes() -> None:
    rule = Decide(max_processes=12)
    runs = tuple(candidate(name, 0.0, noise=0.1, stopping=rule) for name in "ab")
    measured(*runs)
    assert counts(*runs) == {"a": 12, "b": 12}
    assert {run.stop_reason for run in runs} == {MOST}


def test_another_model_is_not_measured_further() -> None:
    wrong = candidate("wrong", 2.0, parity=DISAGREES)
    right = candidate("right", 0.3)
    measured(wrong, right)
    assert counts(wrong, right) == {"wrong": 1, "right": 5}
    assert right.profiled
    assert not wrong.profiled


class Disturbed(Drawn):
    """Its first process is checked and rejected."""

    def repeat(self, baseline: Drawn | None = None) -> None:
        if self.repetitions.parity is None:
            self.repetitions.parity = self.parity
        else:
            super().repeat(baseline)


def test_another_model_is_measured_until_a_process_of_it_counts() -> None:
    trial = Trial(trial_id="wrong", labels={}, spec={}, baseline_id="eager")
    wrong, right = Disturbed(trial, 2.0, parity=DISAGREES), candidate("right", 0.3)
    measured(wrong, right)
    assert counts(wrong, right) == {"wrong": 1, "right": 5}


def test_a_crash_ends_its_trial_and_no_other() -> None:
    broken, right = candidate("broken", 0.1, fails_at=2), candidate("right", 0.3)
    found = measured(broken, right)
    ended = {one.trial_id: one for one in found if not one.unfinished}
    assert ended["broken"].failure == CRASH
    assert len(ended["right"].processes) == 5
    assert not broken.profiled


def test_no_figures_are_announced_where_every_trial_failed() -> None:
    EVENTS.clear()
    measured(Drawn(EAGER, fails_at=1), candidate("a", 0.1, fails_at=1))
    assert EVENTS == []


def test_a_budget_ends_everything_with_what_there_is() -> None:
    runs = (Drawn(EAGER, affordable=1), candidate("a", 0.2, affordable=2))
    found = measured(*runs)
    assert counts(*runs) == {"eager": 1, "a": 2}
    assert [one.stop_reason for one in found if not one.unfinished] == [RUN_BUDGET, RUN_BUDGET]


def test_what_the_rest_of_the_budget_would_not_decide_ends_at_the_first_analysis() -> None:
    hopeless = candidate("hopeless", 0.0, noise=0.2, processes_left=20)
    clear = candidate("clear", 0.5, noise=0.02, processes_left=20)
    EVENTS.clear()
    measured(hopeless, clear)
    assert counts(hopeless, clear) == {"hopeless": 5, "clear": 5}
    assert (hopeless.stop_reason, clear.stop_reason) == (FUTILE, DECIDED)
    said = [event.message for event in EVENTS if event.trial_id == "hopeless"]
    assert said[-1].startswith("undecided after 5 processes")


@pytest.mark.parametrize("seed", range(20))
def test_what_the_budget_may_decide_goes_on(seed: int) -> None:
    # Some 4 to 20 pairs decide it, and there is time for 35.
    one = candidate(f"one {seed}", 0.05, noise=0.03, processes_left=35)
    measured(one)
    assert one.stop_reason == DECIDED


def test_a_process_that_the_budget_ends_costs_nothing_but_itself() -> None:
    late = candidate("late", 0.2, late_at=3)
    measured(late)
    assert (len(late.repetitions.valid), late.failure, late.stop_reason) == (2, None, RUN_BUDGET)


def test_a_fixed_number_of_processes_is_measured_in_rounds_too() -> None:
    runs = tuple(candidate(name, 0.3, stopping=Fixed(processes=4)) for name in "ab")
    order = [one.trial_id for one in measured(*runs) if one.unfinished]
    assert sorted(order[:2]) == sorted(order[2:4]) == sorted(order[4:6]) == ["a", "b"]
    assert counts(*runs) == {"a": 4, "b": 4}


@pytest.mark.parametrize(
    ("words", "profiled"),
    [
        (("winner", "baseline"), {"eager", "fast"}),
        (("winner",), {"fast"}),
        (("slow",), {"slow"}),
        (("all",), {"eager", "fast", "slow"}),
        ((), set()),
    ],
)
def test_what_is_profiled_is_what_was_named(words: tuple[str, ...], profiled: set[str]) -> None:
    runs = (Drawn(EAGER), candidate("fast", 0.3), candidate("slow", -0.3))
    measured(*runs, to_profile=words)
    assert {run.trial.trial_id for run in runs if run.profiled} == profiled


def test_the_baseline_wins_where_all_candidates_are_slower() -> None:
    runs = (Drawn(EAGER), candidate("slow", -0.3))
    measured(*runs, to_profile=("winner",))
    assert {run.trial.trial_id for run in runs if run.profiled} == {"eager"}


@pytest.mark.parametrize(
    ("pairs", "stopping"), [(1, Fixed(processes=1)), (2, Decide()), (3, Decide()), (4, Decide())]
)
def test_the_winner_of_fewer_pairs_than_an_interim_analysis_has_is_profiled(
    pairs: int, stopping: Stopping
) -> None:
    fast = candidate("fast", 0.7, stopping=stopping, affordable=pairs)
    slow = candidate("slow", 0.3, stopping=stopping, affordable=pairs)
    measured(Drawn(EAGER, stopping=stopping), fast, slow, to_profile=("winner",))
    assert len(fast.repetitions.log_ratios) == pairs
    assert (fast.profiled, slow.profiled) == (True, False)


class UnderLoad(Drawn):
    """A run whose process searched for its highest rate, with calls that take so long."""

    def __init__(self, name: str, service_ms: float) -> None:
        baseline_id = None if name == "eager" else "eager"
        trial = Trial(trial_id=name, labels={"conversion": name}, spec={}, baseline_id=baseline_id)
        super().__init__(trial, stopping=Fixed(processes=1))
        clock = QuickClock()
        scenario = PeakRate(target_ms=10, budget_s=4, duration_s=2, seed=1)
        self._one = process(load_run(scenario, constant(clock, service_ms), clock))

    @property
    def response_ns(self) -> float:
        return primary_ns(self._one)


def test_the_winner_under_load_has_the_highest_rate_and_not_the_fastest_response() -> None:
    slow, fast = UnderLoad("eager", 1.0), UnderLoad("fast", 0.5)
    measured(slow, fast, to_profile=("winner",))
    assert slow.response_ns < fast.response_ns  # the fast one had more to do
    assert (slow.profiled, fast.profiled) == (False, True)


def test_profiles_come_after_all_other_results() -> None:
    runs = (Drawn(EAGER), candidate("fast", 0.3), candidate("slow", -0.3))
    ends = [one.trial_id for one in measured(*runs) if not one.unfinished]
    assert ends[0] == "slow"


def test_a_finished_result_of_an_earlier_run_is_judged_with_the_rest() -> None:
    earlier = result(replace(EAGER, trial_id="old", baseline_id="eager"), 1e6, baseline_ns=3e6)
    run = candidate("new", 0.2)
    race = Race(runs=(run,), others=(earlier,))  # type: ignore[arg-type]
    [*_Rounds(runs=[run], race=race, to_profile=("winner",), emit=EVENTS.append).results()]  # type: ignore[list-item]
    assert not run.profiled  # the old one is faster


def test_processes_of_the_baseline_beside_a_candidate_are_its_own_as_well() -> None:
    eager, fast = Drawn(EAGER), candidate("fast", 0.3, back_to_back=True)
    found = measured(eager, fast)
    assert counts(eager, fast) == {"eager": 6, "fast": 5}
    assert Counter(one.trial_id for one in found if one.unfinished)["eager"] == 6
    assert sum(len(one.processes) == 3 for one in found if one.trial_id == "eager") == 1


def test_figures_are_reported_at_the_first_two_that_compare_and_after_the_first_round() -> None:
    fails = candidate("fails", 0.3, fails_at=1)
    measured(Drawn(EAGER), fails, candidate("a", 0.3), candidate("b", 0.3), candidate("c", 0.3))
    assert [one.trial_id for one in EVENTS if one.stage == "round"] == ["a", "c"]


def test_the_first_round_and_every_end_of_a_measurement_are_reported_once() -> None:
    rule = Decide(max_processes=12)
    runs = (
        Drawn(EAGER),
        candidate("fast", 0.3),
        candidate("unclear", 0.0, noise=0.1, stopping=rule),
    )
    measured(*runs)
    assert [(one.trial_id, one.stage, one.message) for one in EVENTS] == [
        ("fast", "round", "1"),
        ("unclear", "round", "1"),
        ("eager", "decided", "ended after 3 processes"),
        ("fast", "decided", "decided after 5 processes"),
        ("unclear", "decided", "undecided after 12 processes"),
    ]


@pytest.mark.parametrize(
    ("rule", "parity", "noise", "message"),
    [
        (Decide(), AGREES, 0.002, "decided after 5 processes"),
        (Decide(), DISAGREES, 0.002, "ended after 1 process"),
        (Fixed(processes=4), AGREES, 0.002, "ended after 4 processes"),
        (Precision(), AGREES, 0.002, "decided after 8 processes"),
        (Precision(max_processes=12), AGREES, 0.5, "undecided after 12 processes"),
    ],
)
def test_a_trial_is_called_decided_only_where_its_verdict_is(
    rule: Stopping, parity: Any, noise: float, message: str
) -> None:
    measured(Drawn(EAGER), candidate("a", 0.3, stopping=rule, parity=parity, noise=noise))
    assert [one.message for one in EVENTS if one.trial_id == "a"][-1] == message


def test_a_budget_leaves_undecided_only_what_has_a_verdict() -> None:
    runs: Any = [Drawn(EAGER), candidate("a", 0.0), candidate("b", 0.3, parity=DISAGREES)]
    for run in runs:
        run.repeat()
        run.stop_reason = "budget_exhausted"
    messages = [rounds._end_of_measurement(run).message for run in runs]
    assert [message.split()[0] for message in messages] == ["ended", "undecided", "ended"]


def test_a_baseline_that_is_paired_with_itself_asks_for_no_further_process() -> None:
    control, fast = Drawn(EAGER, gain=0.0, noise=0.1), candidate("fast", 0.3)
    measured(control, fast)
    assert counts(control, fast) == {"eager": 3, "fast": 5}


def test_without_a_profile_a_result_comes_as_soon_as_nothing_can_open_it_again() -> None:
    runs = tuple(candidate(name, 0.3, stopping=Fixed(processes=1)) for name in "ab")
    found = [(one.trial_id, one.unfinished) for one in measured(*runs, to_profile=())]
    assert found == [("a", True), ("a", False), ("b", True), ("b", False)]


def test_results_of_one_round_come_in_the_order_of_the_plan() -> None:
    runs = tuple(candidate(name, 0.3, stopping=Fixed(processes=2)) for name in "abcd")
    found = [one.trial_id for one in measured(*runs, to_profile=()) if not one.unfinished]
    assert found == ["a", "b", "c", "d"]


def test_a_baseline_gets_all_processes_beside_its_candidates_where_nothing_is_profiled() -> None:
    eager, fast = Drawn(EAGER), candidate("fast", 0.3, back_to_back=True)
    ends = [one for one in measured(eager, fast, to_profile=()) if not one.unfinished]
    assert {one.trial_id: len(one.processes) for one in ends} == {"eager": 6, "fast": 5}


class Controlled(Drawn):
    """A baseline with a control of six pairs."""

    def __init__(self, **more: Any) -> None:
        super().__init__(EAGER, gain=0.0, **more)

    def needs_more(self) -> bool:
        lacks = len(self.repetitions.log_ratios) < 6
        self.repetitions.lacks_control = lacks
        return True if lacks else super().needs_more()


class Bringing(Drawn):
    """A candidate measured back to back, whose baseline's processes bring pairs of the control."""

    def repeat(self, baseline: Drawn | None = None) -> None:
        super().repeat()
        if baseline is not None and baseline.repetitions.valid and self.back_to_back:
            baseline.repetitions.log_ratios.append(0.0)


def test_a_baseline_whose_control_others_bring_gets_no_process_of_its_own_beside_them() -> None:
    eager = Controlled()
    trial = Trial(trial_id="fast", labels={"conversion": "fast"}, spec={}, baseline_id="eager")
    fast = Bringing(trial, 0.3, back_to_back=True)
    found = measured(eager, fast)
    # One of its own, which is checked, and five beside the candidate: six pairs in five rounds.
    assert counts(eager, fast) == {"eager": 6, "fast": 5}
    assert len(eager.repetitions.log_ratios) == 6
    assert [one.trial_id for one in found if one.unfinished][-1] == "fast"


def test_a_control_that_no_candidate_brings_keeps_its_own_processes() -> None:
    eager, fast = Controlled(), candidate("fast", 0.3, back_to_back=True)
    measured(eager, fast)
    assert len(eager.repetitions.log_ratios) == 6
    assert counts(fast) == {"fast": 5}
