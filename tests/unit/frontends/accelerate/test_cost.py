"""The table of an accelerated function, from runs and measurements that nobody had to make."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from benchorch.domain.codec import encode
from benchorch.domain.estimate import Estimate
from benchorch.frontends.accelerate.cost import Key, ProfileCosts
from benchorch.frontends.accelerate.graph_breaks import GraphBreak
from benchorch.frontends.accelerate.report import AcceleratedReport, GraphTiming
from benchorch.frontends.accelerate.runs import FunctionRun, GraphCall

CPU, GPU = "r6i.large/onnxrt-cpu", "g4dn.xlarge/onnxrt-cuda"


def ms(value: float) -> Estimate:
    return Estimate(
        value=value, low=value, high=value, level_ratio=0.95, n=5, unit="ms", method="told"
    )


def run(*gaps_ms: float, signatures: tuple[int, ...] = (), compiled: bool = False) -> FunctionRun:
    """A run through graphs 1, 2, ... with these gaps, each graph taking 2 ms here."""
    shapes = signatures or (1,) * (len(gaps_ms) - 1)
    calls = (GraphCall(graph=i, signature=s, local_ns=2_000_000) for i, s in enumerate(shapes, 1))
    return FunctionRun(
        function="predict",
        calls=tuple(calls),
        gaps_ns=tuple(round(gap * 1e6) for gap in gaps_ms),
        compiled=compiled,
    )


def account(
    measured: Mapping[tuple[str, Key], GraphTiming],
    stays: Mapping[Key, str] | None = None,
    prices: Mapping[str, float] | None = None,
) -> ProfileCosts:
    return ProfileCosts(
        backends=(CPU, GPU), measured=measured, stays=stays or {}, usd_per_hour=prices or {}
    )


def timed(cpu_ms: float, gpu_ms: float) -> dict[tuple[str, Key], GraphTiming]:
    found = {CPU: cpu_ms, GPU: gpu_ms}
    return {(name, (1, 1)): GraphTiming(runs=90, ms=ms(value)) for name, value in found.items()}


# octoml-profile's printed tables: segments 0, 1 on two backends, 2; sums are of unrounded numbers.
@pytest.mark.parametrize(
    ("gaps_ms", "on_ms", "uncompiled_ms", "totals_ms"),
    [
        ((0.051, 0.094), (0.037, 0.135), 0.145, (0.182, 0.280)),
        ((0.028, 0.013), (0.013, 0.088), 0.041, (0.054, 0.129)),
    ],
)
def test_the_totals_of_the_seed_come_out(
    gaps_ms: tuple[float, float],
    on_ms: tuple[float, float],
    uncompiled_ms: float,
    totals_ms: tuple[float, float],
) -> None:
    (profile,) = account(timed(*on_ms)).profiles([run(*gaps_ms)] * 9)
    assert [segment.name for segment in profile.segments] == [
        "Uncompiled",
        "Graph #1",
        "Uncompiled",
    ]
    assert [segment.runs for segment in profile.segments] == [9, 9, 9]
    assert profile.uncompiled_ms is not None
    assert profile.uncompiled_ms.value == pytest.approx(uncompiled_ms)
    assert [total.ms.value for total in profile.totals.values() if total.ms] == pytest.approx(
        totals_ms
    )
    assert profile.fastest == CPU


def test_a_million_calls_cost_the_hours_that_they_take() -> None:
    (profile,) = account(timed(0.5, 0.1), prices={CPU: 0.126}).profiles([run(0.25, 0.25)] * 3)
    cost = profile.totals[CPU].usd_per_million_calls
    assert cost is not None
    assert (cost.value, cost.unit) == (pytest.approx(0.126 * 1000 / 3600), "usd")
    assert profile.totals[GPU].usd_per_million_calls is None


def test_a_graph_that_stays_leaves_every_backend_without_a_total() -> None:
    (profile,) = account({}, stays={(1, 1): "it takes no tensor"}).profiles([run(1, 1)] * 3)
    assert {name: (total.ms, total.reason) for name, total in profile.totals.items()} == {
        CPU: (None, "Graph #1: no time there"),
        GPU: (None, "Graph #1: no time there"),
    }
    assert profile.fastest is None
    assert profile.segments[1].backends == {}
    assert profile.segments[1].stays == "it takes no tensor"


def test_a_graph_that_fails_on_a_backend_leaves_that_backend_without_a_total() -> None:
    measured = timed(1.0, 1.0)
    measured[GPU, (1, 1)] = GraphTiming(failures=1, reason="oom: not enough memory")
    (profile,) = account(measured).profiles([run(1, 1)] * 3)
    assert profile.totals[CPU].ms is not None
    assert profile.totals[GPU].ms is None
    assert "Graph #1: no time there" in profile.totals[GPU].reason
    text = AcceleratedReport(profiles=(profile,)).table()
    assert "oom: not enough memory" in text
    assert "N/A  Graph #1: no time there" in text


def test_without_a_run_free_of_compilation_there_is_no_total() -> None:
    (profile,) = account(timed(1.0, 1.0)).profiles([run(1, 1, compiled=True)])
    assert profile.compiled
    assert {total.reason for total in profile.totals.values()} == {
        "compilation occurred in every run"
    }
    assert "call the function again" in AcceleratedReport(profiles=(profile,)).table()


def test_shapes_count_as_often_as_they_were_called_with() -> None:
    measured = {
        **timed(1.0, 1.0),
        (CPU, (1, 2)): GraphTiming(runs=10, ms=ms(5.0)),
        (GPU, (1, 2)): GraphTiming(runs=10, ms=ms(2.0)),
    }
    runs = [run(0, 0)] * 3 + [run(0, 0, signatures=(2,))]
    (profile,) = account(measured).profiles(runs)
    on_cpu = profile.segments[1].backends[CPU]
    assert on_cpu.ms is not None
    assert (on_cpu.ms.value, on_cpu.runs) == (pytest.approx(2.0), 100)


def test_one_measurement_of_several_calls_has_its_error_as_often() -> None:
    one = replace(ms(1.0), low=0.9, high=1.1)
    measured = {(name, (1, 1)): GraphTiming(runs=9, ms=one) for name in (CPU, GPU)}
    called = replace(run(0, 0), calls=run(0, 0).calls * 4, gaps_ns=(0,) * 5)
    (profile,) = account(measured).profiles([called] * 3)
    for found in (profile.totals[CPU].graphs_ms, profile.totals[CPU].ms):
        assert found is not None
        assert (found.value, found.low, found.high) == pytest.approx((4.0, 3.6, 4.4))


def test_the_time_on_a_backend_is_not_known_where_a_graph_stays_here() -> None:
    profiles = account(timed(1.0, 1.0), stays={(2, 1): "it takes no tensor"}).profiles(
        [run(0, 0, 0)] * 3
    )
    assert profiles[0].totals[CPU].graphs_ms is None
    row = AcceleratedReport(profiles=profiles)._backend_cells(profiles[0], CPU)
    assert row[3:] == ("–", "–", "–")


def test_of_shapes_that_stay_the_time_here_is_taken() -> None:
    runs = [run(0, 0), run(0, 0, signatures=(2,))]
    (profile,) = account(timed(1.0, 1.0), stays={(1, 2): "too many"}).profiles(runs)
    on_cpu = profile.segments[1].backends[CPU]
    assert on_cpu.ms is not None
    assert on_cpu.ms.value == pytest.approx((1.0 + 2.0) / 2)
    assert profile.totals[CPU].graphs_ms == on_cpu.ms
    assert profile.segments[1].stays == "1 of 2 shapes: too many"


@pytest.fixture
def report() -> AcceleratedReport:
    profiles = account(timed(0.037, 0.135), prices={CPU: 0.126}).profiles([run(0.05, 0.09)] * 9)
    return AcceleratedReport(
        profiles=profiles,
        graph_breaks=(GraphBreak(file="nets.py", line=7, reason="print <was> called"),),
        notes=("A note.",),
        directory=Path("r"),
    )


def test_the_table_has_every_part_in_order(report: AcceleratedReport) -> None:
    text = report.table()
    parts = [
        "Profile 1/1: predict",
        "Runs discarded because compilation occurred: 0",
        "Failures",
        "0  Uncompiled",
        "1  Graph #1",
        f"{CPU}",
        f"{GPU}",
        "2  Uncompiled",
        "Total uncompiled code run time: 0.14 [",
        "Total times (compiled + uncompiled) per backend, ms:",
        "USD per million calls",
        "no price is known",
        "nets.py:7: print <was> called",
        "note  A note.",
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert str(report) == repr(report) == text


def test_notebooks_consoles_and_frames_get_the_same(report: AcceleratedReport) -> None:
    from io import StringIO

    from rich.console import Console

    assert "print &lt;was&gt; called" in report._repr_html_()
    written = StringIO()
    Console(file=written, width=200).print(report)
    assert "0.14 [" in written.getvalue()
    frame = report.to_pandas()
    assert list(frame["name"]) == ["Uncompiled", "Graph #1", "Graph #1", "Graph #1", "Uncompiled"]
    assert list(frame["backend"]) == ["here", "here", CPU, GPU, "here"]


def test_it_is_plain_json_as_well(report: AcceleratedReport) -> None:
    told = json.loads(json.dumps(encode(report)))
    assert told["profiles"][0]["totals"][CPU]["ms"]["value"] == pytest.approx(0.177)
    assert told["graph_breaks"][0]["line"] == 7


def test_one_table_of_a_function_has_every_profile_on_every_backend() -> None:
    profiles = account(timed(2.0, 0.5), prices={GPU: 3.6}).profiles(
        [*[run(1, 1)] * 3, *[run(1)] * 3]
    )
    report = AcceleratedReport(profiles=profiles, processors={GPU: "Tesla-T4"})
    lines = report.table().splitlines()
    (head,) = (at for at, line in enumerate(lines) if "Processor" in line)
    for word in ("predict", "Instance", "Backend ms", "Total ms", "USD per million calls"):
        assert word in lines[head]
    rows = [line.split() for line in lines[head + 2 : head + 6]]
    assert [(row[0], row[1]) for row in rows] == [
        *(("1", "r6i.large"), ("1", "g4dn.xlarge")),
        *(("2", "r6i.large"), ("2", "g4dn.xlarge")),
    ]
    assert rows[1][2:5] == ["Tesla-T4", "onnxrt-cuda", "0.5"]
    assert rows[1][-1].rstrip("]") == "2.5"  # 2.5 ms, at 3.6 dollars an hour


def test_python_that_varies_too_much_for_a_mean_shows_what_was_seen() -> None:
    runs = [*[run(1.0, 0.09)] * 8, run(4.0, 0.09)]
    text = AcceleratedReport(profiles=account(timed(1.0, 1.0)).profiles(runs)).table()
    assert "not known yet (1 to 4 seen, n = 9)" in text
