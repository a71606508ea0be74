"""The curve as a table."""

from __future__ import annotations

from benchorch.domain.estimate import Estimate
from benchorch.results.metrics.load_curve import LoadPoint
from benchorch.results.report.load_curve import load_files, load_table
from benchorch.scenarios.server import Server
from benchorch.scenarios.single_stream import SingleStream
from benchorch.scenarios.throughput_latency import ThroughputLatency
from support.load_runs import process, run


def estimate(value: float) -> Estimate:
    return Estimate(
        value=value,
        low=0.9 * value,
        high=1.2 * value,
        level_ratio=0.95,
        n=5,
        unit="ms",
        method="",
    )


def point(share: float, value: float | None) -> LoadPoint:
    return LoadPoint(
        rate_per_s=1000 * share,
        utilisation_ratio=share,
        achieved_per_s=990 * share,
        p50=None if value is None else estimate(value),
        p99=None if value is None else estimate(5 * value),
        unstable=value is None,
        queries=1234,
        runs=2,
    )


POINTS = (point(0.3, 1.0), point(0.6, 1.4), point(0.9, 3.8), point(1.0, None))


def test_no_points_are_no_table() -> None:
    assert load_table([]) == ""


def test_a_trial_at_one_rate_has_no_curve_and_one_at_several_has_its_file() -> None:
    at_one = process(run(Server(rate_per_s=100, duration_s=5, seed=1)))
    curve = ThroughputLatency(fractions=(0.3, 0.6), duration_s=2, target_ms=3, seed=1)
    assert load_files([at_one]) == {}
    assert load_files([process(run(SingleStream()))]) == {}
    assert set(load_files([process(run(curve))])) == {"load.md"}


def test_the_table_shows_intervals_or_unstable() -> None:
    lines = load_table(POINTS).splitlines()
    assert lines[2] == "| 300 | 30 % | 297 | 1 [0.9, 1.2] | 5 [4.5, 6] | 1234 |"
    assert lines[-1] == "| 1000 | 100 % | 990 | unstable | unstable | 1234 |"
    assert len(lines) == 6
