"""A CSV file says what the results say, to the last bit."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from benchorch.domain.measurement import Load
from benchorch.results.compare import export
from benchorch.results.compare.load_run import load
from benchorch.results.compare.stored_run import StoredRun
from benchorch.results.report.csv_columns import MLAGILITY, OURS, csv_text
from benchorch.results.report.prices import prices_of
from benchorch.results.report.rows import rows_of
from benchorch.results.report.tables import HEADERS
from support.synthetic_runs import price, result, trial, with_every_part, write_run


def read(*runs: StoredRun) -> list[dict[str, str]]:
    text = csv_text(rows_of(runs, prices_of(runs)))
    return list(csv.DictReader(io.StringIO(text, newline="")))


def number(text: str) -> float | None:
    return float(text) if text else None


def test_every_number_that_is_read_again_is_the_result_s(run, swept):
    by_trial = {(row["plan_id"], row["trial_id"]): row for row in read(run, swept)}
    compared = 0
    for one in (run, swept):
        for trial_id, summary in one.run_results().summaries.items():
            row = by_trial[one.plan_id, trial_id]
            for name, estimate in summary.metrics.items():
                ends = (row[name], row[f"{name}:low"], row[f"{name}:high"])
                assert tuple(map(number, ends)) == (estimate.value, estimate.low, estimate.high)
                compared += 1
            ratio = None if summary.speedup is None else summary.speedup.ratio.value
            assert number(row["speedup_ratio"]) == ratio
    assert compared > 50


def test_there_is_one_row_a_trial_and_one_a_skip(run):
    rows = read(run)
    assert len(rows) == len(run.trials) + len(run.skips)
    assert {row["outcome"] for row in rows} == {"ok", "failed", "not run", "skipped"}
    (skip,) = [row for row in rows if row["outcome"] == "skipped"]
    assert (skip["conversion"], skip["failure_message"], skip["remedy"]) == ("trt", "no GPU.", "x")


def test_mlagility_s_columns_come_first_with_its_values(run):
    rows = read(run)
    assert list(rows[0])[: len(MLAGILITY)] == list(MLAGILITY)
    assert list(rows[0])[len(MLAGILITY) :][: len(OURS)] == list(OURS)
    fast = next(row for row in rows if row["conversion"] == "fast")
    assert fast["model_name"] == "mlp"
    assert fast["model_class"] == "Mlp"
    assert fast["hash"] == "weights"
    assert fast["x86_latency"] == fast["latency_ms/p50"]
    assert fast["nvidia_latency"] == fast["groq_chips_used"] == fast["license"] == "-"


def test_device_and_runtime_are_the_observed_ones(run):
    fast = next(row for row in read(run) if row["conversion"] == "fast")
    assert (fast["device"], fast["runtime"]) == ("Some CPU", "x")
    assert fast["limit"] == "launch-bound"


def test_failed_disqualified_and_missing_trials_are_marked(run):
    rows = {row["conversion"]: row for row in read(run)}
    assert (rows["slow"]["failure_kind"], rows["slow"]["latency_ms/p50"]) == ("oom", "")
    assert rows["wrong"]["same_model"] == "False"
    assert rows["wrong"]["speedup_ratio"] == ""
    assert "off by 0.5" in rows["wrong"]["disagreement"]
    assert rows["never"]["outcome"] == "not run"


def test_cost_follows_from_the_list_where_it_has_the_machine_and_else_is_empty(run, swept):
    (priced, *_) = read(swept)
    per_s = float(priced["throughput_items_per_s/mean"])
    assert priced["usd_per_hour"] == "1.006"
    assert float(priced["usd_per_million_items"]) == pytest.approx(1.006 / 3600 / per_s * 1e6)
    assert {row["usd_per_million_items"] for row in read(run)} == {""}


@pytest.mark.parametrize("exported", [False, True])
def test_under_load_the_items_of_a_query_count(tmp_path, exported):
    labels = {"hardware_kind": "g5.xlarge", "scenario": "server"}
    one = trial(workload={"batch_size": 8}, labels=labels)
    found = with_every_part(result(one), served=True)
    counts = {"tokens_per_call": 0, "token_ns": ()}
    processes = [
        replace(p, observations=replace(p.observations, items_per_call=items, **counts))
        for p, items in zip(found.processes, [4, 6] * 5, strict=True)  # inputs of several sizes
    ]
    found = replace(found, processes=tuple(processes), prices=())
    place = write_run(tmp_path / "run", (one, found))
    if exported:
        text = export.text_of(export.to_json(load(str(place))))
        place = tmp_path / "run.json"
        place.write_text(text)
    run = load(str(place))
    (row,) = rows_of([run], prices_of([run]))
    queries = row.metrics["achieved_per_s/mean"]
    assert row.throughput.value == pytest.approx(5 * queries.value)
    assert row.cells[HEADERS[3]].endswith(" queries/s")
    assert row.usd_per_million_items is None  # the rate is what was offered, not what it could do


@pytest.mark.parametrize(("target_ms", "priced"), [(None, True), (5.0, False)])
def test_under_load_a_busy_machine_is_paid_for_and_one_without_a_target_s_rate_is_not(
    tmp_path, target_ms, priced
):
    labels = {"hardware_kind": "g5.xlarge", "scenario": "server"}
    one = trial(workload={"batch_size": 8}, scenario={"target_ms": target_ms}, labels=labels)
    found = result(one)
    full = Load(
        rate_per_s=0.0,
        first=0,
        end=20,
        seed=0,
        arrivals="closed",
        purpose="capacity",
        target_ms=target_ms,
    )
    offered = replace(full, rate_per_s=10.0, first=20, end=40, purpose="offered")
    processes = []
    for process in found.processes:
        observed = replace(
            process.observations,
            items_per_call=8,
            scheduled_ns=process.observations.started_ns,
            loads=(full, offered),
        )
        processes.append(replace(process, observations=observed))
    prices = (price("g5.xlarge", 1.006),)
    found = replace(found, processes=tuple(processes), prices=prices)
    run = load(str(write_run(tmp_path / "run", (one, found))))
    (row,) = rows_of([run], prices_of([run]))
    stored = row.metrics.get("cost_usd_per_million_items/on_demand")
    assert row.usd_per_million_items == stored
    capacity = row.metrics["capacity_per_s/mean"].value
    per_million = pytest.approx(1.006 / 3600 / (8 * capacity) * 1e6)
    assert (stored.value == per_million) if priced else (stored is None)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-2+3", "@SUM(1)", "\t=1", "\r=1", "\n=1"])
def test_text_that_would_be_a_formula_has_an_apostrophe(text, tmp_path):
    eager = trial(labels={"author": text, "task": "-", "license": "one\r=1"})
    (row,) = read(load(str(write_run(tmp_path / "run", (eager, result(eager))))))
    assert row["author"] == f"'{text}".replace("\r", "\n")
    assert (row["task"], row["license"]) == ("-", "one\n=1")


def test_no_cell_is_a_formula(hostile):
    cells = [cell for row in read(hostile) for cell in row.values()]
    assert not [cell for cell in cells if cell[:1] in "=+@" and cell]
    assert "'=HYPERLINK(1)" in cells
