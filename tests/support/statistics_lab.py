"""The product's own estimators, as the simulator of tests/statistics_corpus calls them."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchorch.domain.estimate import Estimate
from benchorch.results.compare import gate
from benchorch.results.compare.duels import DuelTerms as DuelTerms
from benchorch.results.compare.duels import Meeting, ProcessTimes, judge
from benchorch.results.compare.machine_change import (
    assumed_session_spread,
    reference_change,
    reference_floor_change,
    reference_floor_level,
    reference_level,
    session_spread,
)
from benchorch.results.compare.pairing import Samples
from benchorch.results.compare.verdicts import MetricVerdict, supported
from benchorch.results.metrics.latency import latency_metrics
from benchorch.results.metrics.load import quantile_over
from benchorch.stats import family
from benchorch.stats.between_processes import over_processes
from benchorch.stats.interval_arithmetic import quotient
from benchorch.stats.moderated_variance import ASSUMED, UsualSpread, usual_spread
from benchorch.stats.modes import levels
from benchorch.stats.pairs import INTERFERENCE_LOOKS, is_changed
from benchorch.stats.position_effect import effect_of_order
from benchorch.stats.sequential_testing import USUAL_LOOKS
from benchorch.stats.steady_state import steady_from
from benchorch.trial.repetitions import next_side
from benchorch.trial.rounds import _Rounds
from statistics_corpus.adapter import (
    Array,
    Flags,
    Gate,
    Interval,
    Ratio,
    Run,
    Session,
    Table,
    Trial,
    Verdict,
)
from support.simulated_samples import process

Series = Sequence[Array]

NS_PER_MS = 1e6
NAMES = {0.5: "p50", 0.9: "p90", 0.95: "p95", 0.99: "p99", 0.999: "p99.9"}
VERDICTS: dict[str, Verdict] = {
    "faster": "faster",
    "slower": "slower",
    "equivalent": "equivalent",
    "undecided": "inconclusive",
}
STATES = {"pass": "passed", "regression": "regression", "unclear": "cannot_tell"}


class Estimators:
    """Answers of the product; what it has no rule for yet is not answered."""

    estimand = "median"
    tail_estimand = "process"

    def __getattr__(self, name: str) -> object:
        def unanswered(*_: object, **__: object) -> None:
            raise NotImplementedError(name)

        return unanswered

    def headline(self, trial: Trial, peers: Sequence[Trial]) -> Interval:
        usual = usual_spread([list(each.medians) for each in (trial, *peers)])
        return shown(over_processes(trial.medians, unit="ns", usual=usual))

    def headline_of_calls(self, series: Series) -> Interval:
        return scaled(shown(measured(series)["latency_ms/p50"]), NS_PER_MS)

    def modes(self, medians: Sequence[float]) -> int:
        return len(levels(list(medians)))

    def quantile(self, series: Series, q: float) -> Interval | None:
        found = measured(series).get(f"latency_ms/{NAMES[q]}")
        return None if found is None or found.low is None else scaled(shown(found), NS_PER_MS)

    def throughput(self, series: Series) -> Interval | None:
        found = measured(series).get("throughput_items_per_s/mean")
        return None if found is None or found.low is None else whole(found)

    def steady(self, series: np.ndarray) -> bool:
        return steady_from(series) is not None

    def sides(self, processes: int) -> Flags:
        firsts: list[bool] = []
        while len(firsts) < processes:
            firsts.append(next_side(firsts, random.SystemRandom()))
        return np.array(firsts)

    def ratio(self, pairs: Array, first: Flags) -> Ratio:
        found = family.judged([candidate(0, pairs)], family.Terms()).standings[0]
        known = (math.nan if one is None else one for one in (found.ratio, found.low, found.high))
        return Ratio(*known, VERDICTS[found.verdict])

    def position(self, pairs: Array, first: Flags) -> Interval:
        """The simulator's effect moves a log ratio by half of itself either way, ours by all."""
        logs = np.log(pairs[:, 1] / pairs[:, 0])
        found = effect_of_order(logs[first].tolist(), logs[~first].tolist())
        if found is None:
            return Interval(math.nan, math.nan, math.nan)
        return Interval(*(end**2 for end in whole(found)))

    def table(self, pairs: Array, first: Flags) -> Table:
        """Rounds: whoever is undecided goes on to its next look, as long as there are pairs."""
        terms = family.Terms(looks=USUAL_LOOKS, most=pairs.shape[1], baseline="-1")
        used = [min(USUAL_LOOKS[0], pairs.shape[1])] * len(pairs)
        while True:
            seen = [
                candidate(i, one[:n]) for i, (one, n) in enumerate(zip(pairs, used, strict=True))
            ]
            found = family.judged(seen, terms, interim=True)
            looks = {int(one.name): one.next_look for one in found.standings if one.next_look}
            if not looks:
                break
            for place, look in looks.items():
                used[place] = look
        final = family.judged(seen, terms)
        verdicts = [VERDICTS[one.verdict] for one in final.standings]
        return Table(verdicts, used, frozenset(map(int, final.best)))

    def schedule(self, trials: int, processes: int) -> np.ndarray:
        """The order in which rounds run trials that all need as many processes."""
        ran: list[int] = []
        runs: Any = [Undecided(place, ran) for place in range(trials)]
        race: Any = SimpleNamespace(
            needing=lambda left: list(left) if len(ran) < trials * processes else [],
            named=lambda names: set(),
            certain_rounds=lambda chosen: 1,
        )
        rounds = _Rounds(runs=runs, race=race, to_profile=("winner",), emit=lambda event: None)
        for _ in rounds.results():
            pass
        return np.array(ran)

    def interferes(self, alone: Array, paired: Array) -> bool:
        changes = np.log(paired / alone).tolist()
        return any(is_changed(changes[:look], 0.01) for look in INTERFERENCE_LOOKS)

    def compare(self, old: Session, new: Session, history: Sequence[Session]) -> Ratio:
        judged, floor = (verdict(old, new, history, floor=each) for each in (False, True))
        faster = quotient(1, judged.ratio)
        return Ratio(faster.value, faster.low, faster.high, supported(judged, floor).verdict)

    def gate(self, old: Session, new: Session, limit: float, history: Sequence[Session]) -> Gate:
        judged, floor = (verdict(old, new, history, floor=each) for each in (False, True))
        found = gate.gated(judged, floor, limit)
        more = math.inf if found.state == "unclear" else None
        if found.processes_needed:
            more = found.processes_needed - len(old.medians)
        return Gate(STATES[found.state], more)

    def duel(self, pairs: Array, floors: Array, first: Flags, limit: float) -> Gate:
        meetings = [
            Meeting(
                new=ProcessTimes(median=pair[0], floor=floor[0]),
                old=ProcessTimes(median=pair[1], floor=floor[1]),
                new_first=bool(ahead),
            )
            for pair, floor, ahead in zip(pairs.tolist(), floors.tolist(), first, strict=True)
        ]
        found = judge("trial", meetings, DuelTerms(limit_ratio=limit, delta_ratio=0.01, trials=1))
        more = math.inf if found.state == "unclear" else None
        if found.processes_needed:
            more = found.processes_needed - len(meetings)
        return Gate(STATES[found.state], more)

    def response_quantile(self, runs: Sequence[Run], q: float) -> Interval | None:
        found = quantile_over([[np.asarray(run.response) / NS_PER_MS] for run in runs], q)
        if found is None:
            return None
        low, high = found.low, math.inf if found.at_least else found.high
        known = math.nan if low is None else low
        return scaled(Interval(found.value, known, math.nan if high is None else high), NS_PER_MS)


class Undecided:
    """A trial that only notes when it is measured."""

    failure = None
    stop_reason = ""

    def __init__(self, place: int, ran: list[int]) -> None:
        self.trial = SimpleNamespace(trial_id=str(place), baseline_id="baseline")
        self.repetitions: Any = SimpleNamespace(valid=[], of_baseline=[], log_ratios=[])
        self.repeat = lambda baseline: ran.append(place)

    def start(self) -> None: ...

    def end(self, *, profile: bool) -> None: ...

    def is_affordable(self) -> bool:
        return True

    def result(self, *, unfinished: bool = False) -> Any:
        return SimpleNamespace(parity=None)


def candidate(place: int, pairs: Array) -> family.Candidate:
    return family.Candidate(
        name=str(place), log_ratios=(*np.log(pairs[:, 1] / pairs[:, 0]).tolist(),)
    )


def measured(series: Series) -> dict[str, Estimate]:
    """The metrics of processes with these calls, ns."""
    processes = [
        process(np.asarray(one), steady_from=steady_from(one), scale_ns=1.0) for one in series
    ]
    return dict(latency_metrics(processes))


Usual = tuple[UsualSpread, UsualSpread]
"""Of the other trials of the new session, and of the old one."""


def samples(
    old: Session,
    new: Session,
    history: Sequence[Session],
    *,
    floor: bool,
    usual: Usual = (ASSUMED, ASSUMED),
) -> Samples:
    def of(session: Session, spread: UsualSpread = ASSUMED) -> Estimate:
        values = session.floors if floor else session.medians
        return over_processes(values, unit="ns", usual=spread)

    def references(session: Session) -> list[list[float]]:
        return [[one] for one in session.references]

    change = reference_floor_change if floor else reference_change
    known = (old, *history)
    sides = [(of(each), len(each.medians)) for each in (new, old)]
    level = reference_floor_level if floor else reference_level
    shown = session_spread(
        [of(each) for each in known], [level(references(each)) or 0.0 for each in known]
    )
    return Samples(
        design="sequential",
        intervals=(of(new, usual[0]), of(old, usual[1])),
        machine=change(references(old), references(new)),
        session=shown or (None if floor else assumed_session_spread(*sides)),
    )


def verdict(
    old: Session,
    new: Session,
    history: Sequence[Session],
    *,
    floor: bool,
    usual: Usual = (ASSUMED, ASSUMED),
) -> MetricVerdict:
    sides = samples(old, new, history, floor=floor, usual=usual)
    found = sides.compare(delta_ratio=0.01, alpha=0.025)
    alike = replace(sides, session=None).compare(delta_ratio=0.01, alpha=0.025)
    assert found is not None
    assert alike is not None
    is_assumed = sides.session is not None and sides.session.assumed
    after, before = sides.intervals
    return MetricVerdict(
        name="trial",
        metric="latency_ms/p01" if floor else "latency_ms/p50",
        a=before,
        b=after,
        ratio=quotient(1, found.ratio),
        verdict=found.verdict,
        session_ratio=sides.session.largest_ratio if sides.session else None,
        sessions_alike=quotient(1, alike.ratio) if is_assumed else None,
        is_evidence=True,
    )


def shown(estimate: Estimate) -> Interval:
    """As people see it: no interval where it is wider than a factor of two."""
    if estimate.low is None or estimate.high is None or estimate.high > 2 * estimate.low:
        return Interval(estimate.value, math.nan, math.nan)
    return whole(estimate)


def whole(estimate: Estimate) -> Interval:
    assert estimate.low is not None
    assert estimate.high is not None
    return Interval(estimate.value, estimate.low, estimate.high)


def scaled(interval: Interval, factor: float) -> Interval:
    return Interval(interval.point * factor, interval.low * factor, interval.high * factor)
