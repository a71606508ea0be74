"""What a sweep will take and cost, before anything starts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchorch.domain.price import Market
from benchorch.domain.trial import Plan, Trial
from benchorch.errors import ConfigError
from benchorch.results.metrics.cost import cost_warnings
from benchorch.results.pricing import sweep_cost
from benchorch.results.pricing.sweep_cost import Pricing

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
    notes = sweep_cost.summary_lines(planned, sweep_cost.expected(planned))
    assert any("one of its 4 GPUs" in line for line in notes)
    on_its_cpu = {**four, "_target_": "benchorch.hardware.cpu.CpuHardware"}
    (whole,) = sweep_cost.prices_of(planned, {"hardware": on_its_cpu})
    assert (whole.usd_per_hour, whole.shared_by) == (5.672, 1)
    assert [*cost_warnings([whole])] == []
    assert "which was not measured" in next(cost_warnings([part]))


def test_what_several_trials_need_is_built_once():
    told = sweep_cost.expected(plan(trial(1), trial(2)))
    first, second = (told[f"{number:016x}"] for number in (1, 2))
    assert second.seconds < first.seconds
    assert second.usd == pytest.approx(second.seconds / 3600 * 1.006)


def test_a_sweep_within_its_budget_starts_and_one_beyond_it_does_not():
    planned = plan(trial(1), trial(2))
    cost = sweep_cost.total_usd(planned, sweep_cost.expected(planned))
    affordable(planned, cost * 1.01)
    with pytest.raises(ConfigError, match=r"expected to cost .* more than budget\.max_usd"):
        affordable(planned, cost * 0.99)


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
    forecast, kinds = sweep_cost.expected(planned), {"g5.xlarge", "c7i.xlarge"}
    lines = sweep_cost.summary_lines(planned, forecast, kinds, cheapest_first=True)
    assert [line.split()[0] for line in lines[:4]] == ["c7i.xlarge", "g5.xlarge", "head", "all"]


def test_a_rented_machine_without_a_price_is_not_started():
    with pytest.raises(ConfigError, match=r"g5\.xlarge has no known on_demand price in eu-west-1"):
        affordable(plan(trial(1), region="eu-west-1"))


def test_without_anything_to_pay_no_budget_is_too_small():
    affordable(plan(trial(1, LOCAL)), 0.01)


def test_minutes_and_dollars_are_told_of_each_kind_and_of_all():
    planned = plan(trial(1), trial(2, LOCAL))
    lines = sweep_cost.summary_lines(planned, sweep_cost.expected(planned))
    assert lines[0].startswith("g5.xlarge  1 trial, about ")
    assert "USD" in lines[0]
    assert "USD" not in lines[1]
    assert lines[2].startswith("all  2 trials")
    assert "2026-09-24" in lines[3]


@pytest.mark.parametrize(
    ("node", "told"),
    [
        ({"source": "guess"}, "source must be one of"),
        ({"market": "reserved"}, "market must be one of"),
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
