"""The plan of several batches: its skips, its prices and what its trials are called."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from benchorch.config.composer import Composer, config_loader
from benchorch.domain.price import Market, Price, PriceSnapshot
from benchorch.domain.trial import Plan, Skip, Trial
from benchorch.results.compare.stored_run import RunResults
from benchorch.results.report.plan_text import names_of
from benchorch.results.report.tables import conclusions
from benchorch.run import expand
from benchorch.run.merged_plan import merged, with_labels_of
from benchorch.run.planner import plan_jobs
from support.synthetic_runs import trial

EAGER = trial()
FAST = trial("fast", baseline=EAGER)
TRIALS = (EAGER, FAST)


def test_a_batch_adds_the_skips_that_were_not_told_yet() -> None:
    def plan(*names: str) -> Plan:
        skips = tuple(Skip(labels={"model": name}, reason="because") for name in names)
        return Plan(plan_id="p", name="n", trials=TRIALS, skips=skips, session={})

    both = merged(plan("a", "b"), plan("b", "c"))
    assert [skip.labels["model"] for skip in both.skips] == ["a", "b", "c"]
    assert both.trials == TRIALS


def test_a_cell_that_runs_now_is_skipped_no_longer() -> None:
    def plan(*cells: Trial | Skip) -> Plan:
        trials = tuple(cell for cell in cells if isinstance(cell, Trial))
        skips = tuple(cell for cell in cells if isinstance(cell, Skip))
        return Plan(plan_id="p", name="n", trials=trials, skips=skips, session={})

    missing = Skip(labels=FAST.labels, reason="needs onnxruntime", requested=True)
    too_old = replace(missing, reason="needs a newer onnxruntime")
    both = merged(plan(EAGER, missing), plan(EAGER, FAST))
    assert (both.trials, both.skips) == ((EAGER, FAST), ())
    assert merged(plan(EAGER, missing), plan(EAGER, too_old)).skips == (too_old,)
    assert merged(plan(EAGER, missing), plan(EAGER)).skips == (missing,)


def test_a_plan_keeps_its_prices_and_gets_those_of_kinds_that_come_later() -> None:
    def plan(**usd_per_hour: float) -> Plan:
        prices = {
            kind: Price(
                kind=kind, market=Market.ON_DEMAND, usd_per_hour=usd, region="", as_of="", source=""
            )
            for kind, usd in usd_per_hour.items()
        }
        snapshot = PriceSnapshot(on_demand=prices, warnings=tuple(prices)) if prices else None
        return Plan(plan_id="p", name="n", trials=(), skips=(), session={}, prices=snapshot)

    both = merged(plan(a=1.0), plan(a=3.0, b=2.0)).prices
    assert both is not None
    assert {kind: one.usd_per_hour for kind, one in both.on_demand.items()} == {
        "a": 1.0,
        "b": 2.0,
    }
    assert both.warnings == ("a", "b")
    assert merged(plan(), plan(b=2.0)).prices == plan(b=2.0).prices
    assert merged(plan(a=1.0), plan()).prices == plan(a=1.0).prices


MLP = ("model=mlp", "recorder=none")
NARROW, WIDE = "model.widths=[256,8,8]", "model.widths=[256,2048,32]"


def planned(*words: str) -> Plan:
    return plan_jobs(Composer(config_loader()), [[*MLP, *words]], "p").plan


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        (
            [("conversion=eager", NARROW), ("conversion=eager", WIDE)],
            [f"{NARROW} eager", f"{WIDE} eager"],
        ),
        (  # a line that leaves the key at its default
            [("conversion=eager", "hardware.threads=2"), ("conversion=eager",)],
            ["hardware.threads=2 eager", "eager"],
        ),
        (  # the baseline, which no line names, and a conversion of one batch only
            [("conversion=torchscript", NARROW), ("conversion=eager", WIDE)],
            [f"{NARROW} eager", f"{NARROW} torchscript", f"{WIDE} eager"],
        ),
        (  # what is spelled differently and is the same
            [("conversion=eager",), ("conversion=torchscript", "hardware.threads=null")],
            ["eager", "torchscript"],
        ),
        (  # the workload has a label of its own
            [("conversion=eager", f"workload.batch_size={n}") for n in (1, 4)],
            ["batch_size=1 eager", "batch_size=4 eager"],
        ),
        ([("conversion=eager", NARROW)] * 2, ["eager"]),
    ],
)
def test_labels_name_what_batches_differ_in(
    lines: Sequence[Sequence[str]], names: Sequence[str]
) -> None:
    both = None
    for words in lines:
        batch = planned(*words)
        both = merged(both, batch)
        assert {one.trial_id for one in batch.trials} <= {one.trial_id for one in both.trials}
    assert both is not None
    assert sorted(names_of(both.trials).values()) == sorted(names)


def test_a_batch_measures_its_trials_under_the_labels_of_the_whole_plan() -> None:
    first, second = (planned("conversion=eager", words) for words in (NARROW, WIDE))
    whole = merged(first, second)
    (named,) = with_labels_of(second, whole).trials
    assert named.labels["axes"] == WIDE
    assert replace(named, labels={}) == replace(second.trials[0], labels={})


def test_a_matrix_and_a_later_line_have_one_serving_case() -> None:
    both = merged(
        planned("conversion=eager", "+matrix.model.widths=[[256,8,8],[256,2048,32]]"),
        planned("conversion=torchscript", NARROW),
    )
    run = RunResults(directory=Path(), plan=both, results={}, summaries={})
    assert [one.coverage.requested for one in conclusions(run)] == [2, 1]


def test_skips_of_batches_are_told_apart_by_what_the_batches_differ_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = ("conversion=torchscript", "baseline=onnxruntime")
    with monkeypatch.context() as without:
        without.setattr(expand, "is_installed", lambda name: not name.startswith("onnxruntime"))
        narrow, wide = planned(*words, NARROW), planned(*words, WIDE)
    both = merged(narrow, wide)
    assert [skip.labels["axes"] for skip in both.skips] == [NARROW, WIDE]
    assert with_labels_of(wide, both).skips == both.skips[1:]
    run = RunResults(directory=Path(), plan=both, results={}, summaries={})
    assert [one.coverage.requested for one in conclusions(run)] == [2, 2]
    for settings, left in ((NARROW, WIDE), (WIDE, NARROW)):
        now = planned(*words, settings)
        assert [skip.labels["axes"] for skip in merged(both, now).skips] == [left]
    skips = tuple(replace(skip, spec={}) for skip in wide.skips)
    earlier_release = replace(wide, skips=skips)
    assert merged(earlier_release, planned(*words, WIDE)).skips == ()


def test_a_third_batch_changes_no_names_of_the_first_two() -> None:
    two = merged(planned("conversion=eager", NARROW), planned("conversion=eager", WIDE))
    three = merged(two, planned("conversion=eager", "model.widths=[256,64,8]"))
    assert three.trials[:2] == two.trials
