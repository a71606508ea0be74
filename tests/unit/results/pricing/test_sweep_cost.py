"""What a sweep will take and cost, before anything starts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchorch.domain.price import Market
from benchorch.domain.trial import Plan, Trial
from benchorch.errors import ConfigError
from benchorch.executors.scheduling.duration_forecast import PastTrial
from benchorch.executors.scheduling.spending import HEAD_IDLE_S, HEAD_START_S, IDLE_S, LAUNCH_S
from benchorch.executors.stack import StackExecutor
from benchorch.interfaces.price_source import SpotPrice
from benchorch.results.metrics.cost import cost_warnings
from benchorch.results.pricing import cost_lines, sweep_cost
from benchorch.results.pricing.sweep_cost import Pricing
from benchorch.results.pricing.sweep_history import SweepCost, SweepHistory
from benchorch.units import format_seconds

SIZES = {"xlarge": {"vcpus": 4, "memory_gib": 16}}
EC2 = {"kind": "g5.xlarge", "size": "xlarge", "sizes": SIZES}
LOCAL = {"kind": "local", "size": None, "sizes": {}}
SESSION = {
    "pricing": {
        "region": "us-east-1",
        "source": "bundled",
        "market": "on_demand",
        "usd_per_hour": {},
    },
    "budget": {"max_usd": None},
}


@pytest.fixture(autouse=True)
def no_history(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def trial(number, hardware=EC2):
    steps = {"export": {"_target_": "x"}}
    return Trial(
        trial_id=f"{number:016x}",
        labels={"model": "mlp", "conversion": f"c{number}", "hardware": "g5", "workload": ""},
        spec={
            "hardware": hardware,
            "model": {},
            "workload": {},
            "conversion": {"steps": steps},
            "protocol": {"pairing": "none"},
            "stopping": {},
        },
    )


def plan(*trials, **pricing):
    session = {**SESSION, "pricing": {**SESSION["pricing"], **pricing}}
    made = Plan(plan_id="p", name="n", trials=trials, skips=(), session=session)
    return replace(made, prices=sweep_cost.snapshot(trials, sweep_cost.pricing_of(session)))


def affordable(planned, most=None):
    session = {**planned.session, "budget": {"max_usd": most}}
    sweep_cost.check_budget(replace(planned, session=session), planned.trials)


def test_a_sum_names_the_machines_whose_price_nobody_knows():
    block = {"kind": "p5e.48xlarge", "size": "48xlarge", "sizes": {"48xlarge": {"vcpus": 192}}}
    made = plan(trial(1), trial(2, block))
    forecast = sweep_cost.expected(made, made.trials)
    lines = cost_lines.summary_lines(made, forecast, {"g5.xlarge", "p5e.48xlarge"})
    (total,) = [line for line in lines if line.startswith("all ")]
    assert total.endswith(" USD without p5e.48xlarge, whose price is unknown")
    (price,) = [line for line in lines if line.startswith("price  p5e.48xlarge")]
    assert "AWS sells it in capacity blocks" in price


def test_a_rented_machine_has_a_price_and_this_one_has_none():
    assert plan(trial(1)).prices.of("g5.xlarge", Market.ON_DEMAND).usd_per_hour == 1.006
    assert plan(trial(1, LOCAL)).prices is None


def test_this_machine_is_paid_for_where_its_owner_names_a_price():
    planned = plan(trial(1, LOCAL), usd_per_hour={"local": 2.0})
    assert planned.prices.of("local", Market.ON_DEMAND).source == "config"


def test_of_a_machine_with_several_gpus_a_trial_pays_one_and_the_sweep_all():
    sizes = {"12xlarge": {"vcpus": 48, "memory_gib": 192, "accelerators": 4}}
    target = "benchorch.hardware.cuda.CudaHardware"
    four = {"_target_": target, "kind": "g5.12xlarge", "size": "12xlarge", "sizes": sizes}
    planned = plan(trial(1, four))
    (part,) = sweep_cost.prices_of(planned, planned.trials[0].spec)
    assert (part.usd_per_hour, part.shared_by) == (5.672 / 4, 4)
    assert part.of_one_of(4) == part
    told = sweep_cost.expected(planned)[planned.trials[0].trial_id]
    assert told.usd == pytest.approx(told.seconds / 3600 * 5.672)
    notes = cost_lines.summary_lines(planned, sweep_cost.expected(planned))
    assert any("one of its 4 GPUs" in line for line in notes)
    on_its_cpu = {**four, "_target_": "benchorch.hardware.cpu.CpuHardware"}
    (whole,) = sweep_cost.prices_of(planned, {"hardware": on_its_cpu})
    assert (whole.usd_per_hour, whole.shared_by) == (5.672, 1)
    assert [*cost_warnings([whole])] == []
    assert "which was not measured" in next(cost_warnings([part]))


def test_trials_side_by_side_share_the_time_of_their_machine(monkeypatch):
    monkeypatch.setattr(sweep_cost, "launched_kinds", lambda *_: {"g5.12xlarge"})
    sizes = {"12xlarge": {"vcpus": 48, "memory_gib": 192, "accelerators": 4}}
    target = "benchorch.hardware.cuda.CudaHardware"
    four = {"_target_": target, "kind": "g5.12xlarge", "size": "12xlarge", "sizes": sizes}
    for count, beside in ((1, 1), (3, 3), (8, 4)):
        planned = plan(*(trial(number, four) for number in range(count)))
        forecast = sweep_cost.expected(planned)
        seconds = sum(one.seconds for one in forecast.values())
        machine, _ = sweep_cost.machines(planned, forecast, {"g5.12xlarge"})
        assert machine.seconds == pytest.approx(LAUNCH_S + IDLE_S + seconds / beside)
        usd = sum(one.usd for one in forecast.values())
        assert usd == pytest.approx(seconds / beside / 3600 * 5.672)
        notes = cost_lines.summary_lines(planned, forecast, {"g5.12xlarge"})
        assert any(f"{beside} trials side by side" in line for line in notes) is (beside > 1)


def test_what_several_trials_need_is_built_once():
    told = sweep_cost.expected(plan(trial(1), trial(2)))
    first, second = (told[f"{number:016x}"] for number in (1, 2))
    assert second.seconds < first.seconds
    assert second.usd == pytest.approx(second.seconds / 3600 * 1.006)


AUTO = {"_target_": "benchorch.executors.auto.Auto"}


def test_a_forecast_of_this_machine_does_not_depend_on_machines_beside_it(monkeypatch):
    monkeypatch.setattr(sweep_cost, "sweep_history", lambda url: SweepHistory())
    monkeypatch.setattr("benchorch.executors.stack.found_stack", lambda name: None)
    session = {"executor": AUTO, "profiler": {"_target_": "a.NoProfiler"}}
    alone, beside = (
        replace(made, session={**made.session, **session})
        for made in (plan(trial(2, LOCAL)), plan(trial(1), trial(2, LOCAL)))
    )
    name = f"{2:016x}"
    assert sweep_cost.expected(beside)[name] == sweep_cost.expected(alone)[name]


def test_the_wait_for_all_results_is_that_of_the_slowest_machine():
    cheap = {**EC2, "kind": "c7i.xlarge"}
    planned = plan(trial(1), trial(2, cheap), trial(3, cheap), trial(4, LOCAL))
    forecast, kinds = sweep_cost.expected(planned), {"g5.xlarge", "c7i.xlarge"}
    slowest_s = LAUNCH_S + sum(forecast[f"{n:016x}"].seconds for n in (2, 3))
    assert sweep_cost.results_s(planned, forecast, kinds) == pytest.approx(slowest_s)
    assert sweep_cost.results_s(planned, forecast, ()) == pytest.approx(
        sum(one.seconds for one in forecast.values())
    )
    lines = cost_lines.summary_lines(planned, forecast, kinds)
    (total,) = [line for line in lines if line.startswith("all")]
    assert total.startswith(f"all  4 trials, results after about {format_seconds(slowest_s)}, ")


def test_a_plan_says_where_minutes_end_its_rounds_early(monkeypatch):
    monkeypatch.setattr(sweep_cost, "sweep_history", lambda url: SweepHistory())
    monkeypatch.setattr("benchorch.executors.stack.found_stack", lambda name: None)

    def notes(minutes, *trials):
        made, budget = plan(*trials), {"minutes": minutes, "max_usd": None}
        planned = replace(made, session={**made.session, "executor": AUTO, "budget": budget})
        found = cost_lines.summary_notes(planned)
        return [note for note in found if note.startswith("budget.minutes")]

    here, elsewhere = trial(1, LOCAL), trial(2)
    (note,) = notes(0.1, here, elsewhere)
    assert note.startswith("budget.minutes=0.1 ends the rounds before the ")
    assert notes(100.0, here) == notes(None, here) == notes(0.1, elsewhere) == []


def test_a_sweep_within_its_budget_starts_and_one_beyond_it_does_not():
    planned = plan(trial(1), trial(2))
    cost = sweep_cost.total_usd(planned, sweep_cost.expected(planned))
    affordable(planned, cost * 1.01)
    with pytest.raises(
        ConfigError, match=r"expected to cost .* more than budget\.max_usd"
    ) as found:
        affordable(planned, cost * 0.99)
    (problem,) = found.value.problems
    affordable(planned, float(problem.correction.settings[0].removeprefix("budget.max_usd=")))


def test_a_plan_notes_a_budget_that_is_too_small():
    planned = plan(trial(1), trial(2))
    small = replace(planned, session={**planned.session, "budget": {"max_usd": 1e-6}})
    said = [
        [note for note in cost_lines.summary_notes(each) if "budget.max_usd" in note]
        for each in (planned, small)
    ]
    assert [len(notes) for notes in said] == [0, 1]


def test_a_launched_machine_is_paid_from_launch_to_end_and_the_head_beside_it():
    planned = plan(trial(1), trial(2), trial(3, LOCAL))
    forecast = sweep_cost.expected(planned)
    machine, head = sweep_cost.machines(planned, forecast, {"g5.xlarge"})
    seconds = sum(forecast[f"{number:016x}"].seconds for number in (1, 2))
    assert machine.seconds == sweep_cost.LAUNCH_S + seconds + sweep_cost.IDLE_S
    hourly_usd = 1.006 + sweep_cost.BESIDES_USD_PER_HOUR
    assert machine.usd == pytest.approx(machine.seconds / 3600 * hourly_usd)
    assert (head.kind, head.seconds) == ("head", machine.seconds)
    assert head.usd == pytest.approx(head.seconds / 3600 * (0.1008 + 0.04))
    total = sweep_cost.total_usd(planned, forecast, {"g5.xlarge"})
    assert total == pytest.approx(machine.usd + head.usd)
    assert sweep_cost.machines(planned, forecast, ()) == []


def test_the_cheapest_kind_of_machine_comes_first_where_that_is_asked():
    cheap = {**EC2, "kind": "c7i.xlarge"}
    planned = plan(trial(1), trial(2, cheap))
    kinds = {"g5.xlarge", "c7i.xlarge"}
    planned = sweep_cost.cheapest_first(planned, kinds)
    assert [one.hardware_kind for one in planned.trials] == ["c7i.xlarge", "g5.xlarge"]
    lines = cost_lines.summary_lines(planned, sweep_cost.expected(planned), kinds)
    assert [line.split()[0] for line in lines[:4]] == ["c7i.xlarge", "g5.xlarge", "head", "all"]


STACK = {"_target_": "benchorch.executors.stack.StackExecutor", "stack": None}


def test_earlier_sweeps_correct_the_launch_and_the_trials(monkeypatch):
    trials = [PastTrial(trial_id=f"{n:016x}", labels=(), measured_s=7.0, built_s=0) for n in (1, 2)]
    earlier = [
        SweepCost(expected_usd=1, spent_usd=2, launch_s={"g5.xlarge": s}, trials=(one,))
        for s, one in zip((60.0, 120.0), trials, strict=True)
    ]
    found = SweepHistory(sweeps=earlier)
    monkeypatch.setattr(sweep_cost, "sweep_history", lambda url: found)
    monkeypatch.setattr(StackExecutor, "archive_url", lambda self: None)
    monkeypatch.setattr(StackExecutor, "launches_head", lambda self: False)
    planned = plan(trial(1), trial(2))
    session = {**planned.session, "executor": STACK, "profiler": {"_target_": "a.NoProfiler"}}
    planned = replace(planned, session=session)
    forecast = sweep_cost.expected(planned)
    assert [one.seconds for one in forecast.values()] == [7.0, 7.0]
    machine, _ = sweep_cost.machines(planned, forecast, {"g5.xlarge"})
    assert machine.seconds == 90.0 + 14.0 + sweep_cost.IDLE_S
    assert sweep_cost.spending_rules(planned, 0.0).launch_s == {"g5.xlarge": 90.0}
    lines = cost_lines.summary_lines(planned, forecast, {"g5.xlarge"})
    told = "note  g5.xlarge: 1 min 30 s from launch to first trial, the median of 2 sweeps."
    assert told in lines
    idle = "note  5 min 00 s idle before the end are assumed, one machine a kind, side by side."
    assert lines[-1] == idle


@pytest.mark.parametrize("runs", [True, False])
def test_a_head_that_does_not_run_is_started_first_and_paid_until_it_ends(monkeypatch, runs):
    found = SweepHistory()
    monkeypatch.setattr(sweep_cost, "sweep_history", lambda url: found)
    monkeypatch.setattr(StackExecutor, "archive_url", lambda self: None)
    monkeypatch.setattr(StackExecutor, "launches_head", lambda self: not runs)
    planned = plan(trial(1))
    planned = replace(planned, session={**planned.session, "executor": STACK})
    forecast = sweep_cost.expected(planned)
    machine, head = sweep_cost.machines(planned, forecast, {"g5.xlarge"})
    result_s = sweep_cost.results_s(planned, forecast, {"g5.xlarge"})
    notes = " ".join(cost_lines.summary_notes(planned, {"g5.xlarge"}))
    if runs:
        assert head.seconds == machine.seconds
        assert result_s == machine.seconds - IDLE_S
        assert "No head runs" not in notes
        return
    assert result_s == HEAD_START_S + machine.seconds - IDLE_S
    assert head.seconds == result_s + HEAD_IDLE_S
    assert head.usd == pytest.approx(head.seconds / 3600 * (0.1008 + 0.04))
    assert "starting one takes 3 min 00 s (assumed); it ends by itself after 30 min 00 s" in notes
    found = SweepHistory(
        sweeps=[SweepCost(expected_usd=1, spent_usd=2, launch_s={"g5.xlarge": 60.0})],
        sent=[SweepCost(expected_usd=1, spent_usd=2, launch_s={"head": s}) for s in (80.0, 100.0)],
    )
    later_s = sweep_cost.results_s(planned, forecast, {"g5.xlarge"})
    assert result_s - later_s == pytest.approx(HEAD_START_S - 90.0 + LAUNCH_S - 60.0)
    notes = " ".join(cost_lines.summary_notes(planned, {"g5.xlarge"}))
    assert "starting one takes 1 min 30 s, the median of 2 sweeps" in notes


class Market2026:
    """What AWS answered: five hours ago on demand, a minute ago for spot machines."""

    def on_demand(self, kinds, region):
        return dict.fromkeys(kinds, 1.1)

    def spot(self, kinds, region):
        return dict.fromkeys(kinds, SpotPrice(0.4, 0.35))


def test_both_prices_of_each_kind_are_shown_with_where_they_are_from(monkeypatch):
    bundled = cost_lines.summary_lines(planned := plan(trial(1)), sweep_cost.expected(planned))
    (line,) = [one for one in bundled if one.startswith("price")]
    assert line == "price  g5.xlarge  on demand 1.006 USD an hour; spot unknown"
    notes = [*cost_lines.summary_notes(planned)]
    assert notes[0].startswith("g5.xlarge: priced by the list of 2026-09-24 for us-east-1;")
    assert notes[1].startswith("pricing.source=aws reads spot prices")
    monkeypatch.setattr(sweep_cost, "_source", lambda pricing: Market2026())
    found = cost_lines.summary_lines(planned := plan(trial(1)), sweep_cost.expected(planned))
    (line,) = [one for one in found if one.startswith("price")]
    assert "on demand 1.1 USD an hour (pricing api, us-east-1, 20" in line
    assert "spot 0.4 USD an hour, 0.35 in the cheapest zone (spot history, us-east-1, 20" in line
    own = plan(trial(1), trial(2, LOCAL), usd_per_hour={"g5.xlarge": 0.9})
    told = cost_lines.summary_lines(own, sweep_cost.expected(own))
    prices = [one for one in told if one.startswith("price")]
    assert prices == ["price  g5.xlarge  0.9 USD an hour (pricing.usd_per_hour)"]


def test_another_regions_dollars_are_none_rather_than_the_lists():
    kind = {"kind": "c8g.xlarge", "size": "xlarge", "sizes": SIZES}
    planned = plan(trial(1), trial(2, kind), region="eu-central-1")
    forecast = sweep_cost.expected(planned)
    lines = cost_lines.summary_lines(planned, forecast, {"g5.xlarge", "c8g.xlarge"})
    (head,) = [one for one in lines if one.startswith("head")]
    assert head.endswith(" USD at the price of us-east-1")
    assert not [one for one in lines if "USD" in one and not one.startswith(("head", "price"))]
    (total,) = [one for one in lines if one.startswith("all")]
    assert total.endswith(", at unknown prices of g5.xlarge, c8g.xlarge")
    price = next(one for one in lines if one.startswith("price  g5.xlarge"))
    elsewhere = "(1.006 USD an hour in us-east-1, 2026-09-24)"
    assert f"unknown: the bundled list has none in eu-central-1 {elsewhere}; pricing" in price
    assert "'+pricing.usd_per_hour={g5.xlarge: 1.0}'" in price


def test_the_cheapest_is_no_machine_whose_price_is_unknown():
    block = {"kind": "p5e.48xlarge", "size": "48xlarge", "sizes": {"48xlarge": {"vcpus": 192}}}
    planned = sweep_cost.cheapest_first(plan(trial(1, block), trial(2), trial(3, LOCAL)))
    lines = cost_lines.summary_lines(planned, sweep_cost.expected(planned))
    assert [one.split()[0] for one in lines[:3]] == ["local", "g5.xlarge", "p5e.48xlarge"]


def test_a_rented_machine_without_a_price_is_not_started():
    with pytest.raises(ConfigError, match=r"g5\.xlarge has no known on_demand price in eu-west-1"):
        affordable(plan(trial(1), region="eu-west-1"))


def test_without_anything_to_pay_no_budget_is_too_small():
    affordable(plan(trial(1, LOCAL)), 0.01)


def test_minutes_and_dollars_are_told_of_each_kind_and_of_all():
    planned = plan(trial(1), trial(2, LOCAL))
    lines = cost_lines.summary_lines(planned, sweep_cost.expected(planned))
    assert lines[0].startswith("g5.xlarge  1 trial, about ")
    assert "USD" in lines[0]
    assert "USD" not in lines[1]
    assert lines[2].startswith("all  2 trials")
    assert lines[3].startswith("price  g5.xlarge  on demand 1.006 USD")


@pytest.mark.parametrize(
    ("node", "told"),
    [
        ({"source": "guess"}, "source must be one of"),
        ({"market": "reserved"}, "market must be one of"),
        ({"region": "frankfurt"}, "region must be one of AWS's, e.g. eu-central-1"),
        ({"region": "us-east1"}, "region must be one of AWS's"),
        ({"usd_per_hour": {"g5.xlarge": 0.0}}, "is not for g5.xlarge"),
        ({"price": 1}, "unknown option"),
    ],
)
def test_a_pricing_that_makes_no_sense_is_refused(node, told):
    with pytest.raises(ConfigError, match=told):
        sweep_cost.pricing_of({"pricing": {**SESSION["pricing"], **node}})


def test_a_budget_of_nothing_is_refused():
    with pytest.raises(ConfigError, match="above 0 or null"):
        sweep_cost.budget_of({"budget": {"max_usd": 0}})


def test_options_are_what_the_config_says():
    assert set(SESSION["pricing"]) == set(Pricing.__dataclass_fields__)
