"""A4 and A10 between two sessions: antisymmetry, and everything that withholds a verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchorch.domain.estimate import Estimate
from benchorch.results.compare.gate import gated
from benchorch.results.compare.matching import Match
from benchorch.results.compare.metric_kinds import FLOOR, LATENCY
from benchorch.results.compare.stored_run import StoredTrial
from benchorch.results.compare.verdicts import MetricVerdict, compare_cases, supported
from support.statistics_experiments import FLOORS, gates, standard_error
from support.synthetic_runs import CANARY_NS, DISAGREES, once, result, session, trial, verdict

EAGER = trial()
FAST = trial("fast", baseline=EAGER)
THROUGHPUT = "throughput_items_per_s/mean"
FLIPPED = {"faster": "slower", "slower": "faster", "lower": "higher", "higher": "lower"}


@pytest.mark.parametrize("metric", [LATENCY, THROUGHPUT, "peak_rss_bytes/max", "load_s/p50"])
@pytest.mark.parametrize("call_ns", [4e5, 1e6, 1.03e6, 3e6])
def test_swapping_the_two_inverts_the_ratio_and_flips_the_verdict(
    metric: str, call_ns: float
) -> None:
    a, b = once("a", canaries_ns=(CANARY_NS, 1.01 * CANARY_NS)), once("b", call_ns, rss=10**9)
    one, other = verdict(a, b, metric), verdict(b, a, metric)
    assert one.ratio is not None
    assert other.ratio is not None
    assert one.ratio.value * other.ratio.value == pytest.approx(1, rel=1e-12)
    assert one.ratio.low * other.ratio.high == pytest.approx(1, rel=1e-12)  # type: ignore[operator]
    assert other.verdict == FLIPPED.get(one.verdict, one.verdict)
    assert one.p_value == other.p_value


def test_sequential_data_without_canaries_have_a_ratio_and_no_verdict() -> None:
    for a, b in ((None, (CANARY_NS, CANARY_NS)), ((CANARY_NS, CANARY_NS), None), (None, None)):
        found = verdict(once("a", canaries_ns=a), once("b", 9e6, canaries_ns=b))
        assert found.verdict == "refused"
        assert "no reference workloads" in found.reason
        assert "protocol.canary_tolerance_ratio" in found.remedy
        assert found.ratio is not None
        assert found.ratio.low is None


def test_without_canaries_two_conversions_are_told_how_to_meet() -> None:
    fast = once("b", 5e5, of=FAST, canaries_ns=None)
    found = verdict(once("a"), fast, LATENCY, "conversion")
    assert "A's command with conversion=[eager,fast] baseline=eager" in found.remedy


@pytest.mark.parametrize(
    ("environment", "field"),
    [({"packages": {"torch": "2.14.0"}}, "environment.packages.torch: 2.13.0 in A, 2.14.0 in B"),
     ({"host": "node-2"}, "environment.host: node-1 in A, node-2 in B")],
)  # fmt: skip
def test_mismatched_manifests_have_no_verdict_and_are_named(
    environment: dict[str, Any], field: str
) -> None:
    found = verdict(once("a"), once("b", 9e6, environment=environment))
    assert (found.verdict, found.reason) == ("refused", field)
    assert "--across" in found.remedy
    assert found.refused_for[0].field in field


def test_a_named_factor_may_differ() -> None:
    b = once("b", 9e6, environment={"packages": {"torch": "2.14.0"}})
    assert verdict(once("a"), b, LATENCY, "packages").verdict == "slower"


def test_unsteady_sides_have_no_verdict() -> None:
    for steady in ((True, False), (False, True), (False, False)):
        found = verdict(once("a", steady=steady[0]), once("b", 9e6, steady=steady[1]))
        assert found.verdict == "inconclusive"
        assert "no steady state" in found.reason
        assert not found.is_evidence


@pytest.mark.parametrize(("unsteady", "expected"), [(2, "slower"), (3, "inconclusive")])
def test_one_unsteady_process_in_five_leaves_a_median_over_processes(
    unsteady: int, expected: str
) -> None:
    measured = result(EAGER, 9e6)
    never = [replace(one, steady_from=None) for one in measured.processes[:unsteady]]
    mixed = replace(measured, processes=(*never, *measured.processes[unsteady:]))
    (b,) = session("b", (EAGER, mixed))
    assert verdict(once("a"), b).verdict == verdict(b, once("a")).verdict.replace(
        "faster", "slower"
    )
    assert verdict(once("a"), b).verdict == expected


def test_what_an_uneven_machine_changed_by_is_in_the_interval_and_is_no_refusal() -> None:
    even = verdict(once("a"), once("b", 9e6))
    uneven = verdict(once("a"), once("b", 9e6, grade="C"))
    assert uneven.verdict == even.verdict == "slower"
    assert uneven.ratio == even.ratio


def test_outputs_that_differ_have_no_verdict() -> None:
    found = verdict(once("a"), once("b", 1e5, parity=DISAGREES))
    assert found.verdict == "refused"
    assert "the outputs in B" in found.reason


def test_sessions_that_differ_as_much_as_their_processes_are_not_called_different() -> None:
    rng = np.random.default_rng(0)
    effects = 1e6 * np.exp(0.01 * rng.standard_normal((40, 2)))
    called = [
        verdict(
            *(
                once(name + str(i), ns, process_spread=0.01)
                for name, ns in zip("ab", two, strict=True)
            )
        )
        for i, two in enumerate(effects)
    ]
    assert sum(one.verdict != "inconclusive" for one in called) <= 6  # 5 %, at 99 %
    assert all(one.sessions_alike is not None for one in called)
    sides = (once("a", processes=8), once("b", processes=8))
    for metric in ("latency_ms/p90", THROUGHPUT, "load_s/p50"):
        assert (verdict(*sides, metric).session_ratio or 0) > 0, metric
    assert verdict(*sides, "latency_ms/p01").session_ratio is None


def test_floors_of_sessions_that_differ_within_the_margin_are_not_called_different() -> None:
    """Their processes agree to 0.3 %, and sessions of one code differ by as much again."""
    rng = np.random.default_rng(0)
    effects = 1e6 * np.exp(0.003 * rng.standard_normal((60, 2)))
    called = [
        verdict(
            *(
                once(name + str(i), ns, process_spread=0.003)
                for name, ns in zip("ab", two, strict=True)
            ),
            FLOOR,
        )
        for i, two in enumerate(effects)
    ]
    assert sum(one.verdict in ("faster", "slower") for one in called) <= 1
    assert any("floors of two sessions may differ by 1 %" in one.reason for one in called)
    known = (once("a", 1e6, process_spread=0.003), once("b", 1.05e6, process_spread=0.003))
    assert verdict(*known, FLOOR).verdict == "slower"


@pytest.mark.parametrize("kind", ["30 % are 10 % slower", "1 + exponential 3 %"])
def test_a_gate_by_floors_of_few_processes_seldom_reports_a_regression(kind: str) -> None:
    """At the limit itself, of processes of one session that fall into levels or have a tail."""
    for processes, others in ((3, FLOORS[kind]), (3, FLOORS["lognormal 0.5 %"]), (5, None)):
        found = gates(FLOORS[kind], processes, 0.02, 60, others=others)
        assert found["regression"] / 60 <= 0.05 + 2 * standard_error(0.05, 60)


def test_three_processes_are_enough_where_other_trials_show_that_floors_agree() -> None:
    quiet = FLOORS["lognormal 0.5 %"]
    assert gates(quiet, 3, 0.05, 40, others=quiet)["regression"] >= 36
    assert gates(quiet, 3, 0.0, 40, others=quiet)["pass"] >= 30
    assert gates(quiet, 3, 0.05, 40) == {"unclear": 40}


def test_a_speed_of_the_machine_that_reference_workloads_see_does_not_widen_floors() -> None:
    def at(name: str, speed: float) -> StoredTrial:
        return once(name, 1e6 * speed, canaries_ns=(CANARY_NS * speed, CANARY_NS * speed))

    known = [[at(f"s{i}", speed)] for i, speed in enumerate((1.03, 0.96, 1.05, 0.99))]
    case = Match(name="x", a=at("a", 1.0), b=at("b", 1.04)), FLOOR
    (found,) = compare_cases([case], sessions=known)
    assert found.ratio is not None
    assert 0.99 < found.ratio.low < found.ratio.high < 1.01  # type: ignore[operator]
    assert found.verdict == "equivalent"


def test_three_processes_alone_are_told_how_many_show_their_own_spread() -> None:
    alone = judged(LATENCY, 0.9, 1.11)
    found = gated(replace(alone, ratio=replace(alone.ratio, n=3)), None, 0.02)
    assert (found.state, found.processes_needed) == ("unclear", 5)
    assert found.remark.startswith("only 5 processes of each side or more show by themselves")


def judged(
    metric: str, low: float, high: float, *, alike: tuple[float, float] | None = None
) -> Any:
    """A ratio between two sessions without earlier ones, and if sessions did not differ."""

    def ratio(ends: tuple[float, float]) -> Estimate:
        return Estimate(value=(ends[0] * ends[1]) ** 0.5, low=ends[0], high=ends[1],
                        level_ratio=0.95, n=10, unit="ratio", method="")  # fmt: skip

    return MetricVerdict(
        name="x", metric=metric, a=ratio((0.9, 1.1)), b=ratio((0.9, 1.1)), ratio=ratio((low, high)),
        verdict="slower" if low > 1 else "inconclusive", design="sequential", is_evidence=True,
        sessions_alike=ratio(alike) if alike else None,
    )  # fmt: skip


def test_a_median_that_the_floor_contradicts_has_no_verdict_without_earlier_sessions() -> None:
    floor = judged(FLOOR, 0.99, 1.01)
    alone = judged(LATENCY, 1.03, 1.09, alike=(1.05, 1.07))
    assert supported(alone, floor).verdict == "inconclusive"
    assert "the floor contradicts the median" in supported(alone, floor).reason
    assert supported(alone, judged(FLOOR, 1.02, 1.05)) == alone
    with_sessions = judged(LATENCY, 1.03, 1.09)
    assert supported(with_sessions, floor) == with_sessions


@pytest.mark.parametrize(
    ("alone", "alike", "floor", "state"),
    [
        ((1.03, 1.09), (1.04, 1.08), (1.03, 1.07), "regression"),
        ((1.03, 1.09), (1.04, 1.08), (0.99, 1.04), "unclear"),  # it is estimated within the limit
        ((0.99, 1.09), (1.03, 1.05), (0.99, 1.01), "unclear"),  # beyond it if sessions are alike
        ((0.98, 1.06), (0.99, 1.05), (0.99, 1.01), "pass"),
        ((0.98, 1.06), (0.99, 1.05), (1.03, 1.05), "regression"),
    ],
)
def test_without_earlier_sessions_the_floor_has_to_support_a_regression_of_the_median(
    alone: tuple[float, float], alike: tuple[float, float], floor: tuple[float, float], state: str
) -> None:
    found = gated(judged(LATENCY, *alone, alike=alike), judged(FLOOR, *floor), 0.02)
    assert found.state == state
