"""One page: it says everything, asks nothing of any network, and no name can do anything in it."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from benchorch.domain.trial import Plan
from benchorch.results.compare.load_run import stored
from benchorch.results.compare.stored_run import StoredRun
from benchorch.results.report import html_page
from benchorch.results.report.html_page import MOST_BYTES, page
from benchorch.results.report.prices import prices_of
from benchorch.results.report.rows import rows_of
from support.synthetic_runs import result, run_results, trial

VOID = {"meta", "link"}


class Reader(HTMLParser):
    """Elements, their attributes, and the text; every element must be closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] not in (["style"], ["script"]):
            self.text += f"{data}\n"


def finished(run: StoredRun) -> StoredRun:
    return replace(run, trials=tuple(one for one in run.trials if one.result is not None))


def drawn(*runs: StoredRun) -> str:
    prices = prices_of(runs)
    return page(runs, rows_of(runs, prices), prices)


def read(*runs: StoredRun) -> Reader:
    reader = Reader()
    reader.feed(drawn(*runs))
    assert reader.open == []
    return reader


def test_the_conclusion_comes_first_then_the_bars_and_then_the_table(run):
    text = drawn(finished(run))
    said = "mlp batch_size=1: fast on local is fastest"
    assert text.index(f"<h1>{said}") < text.index("<figure ") < text.index("<table>")


def test_nothing_is_concluded_from_a_run_that_goes_on(run):
    text = read(replace(run, running=True)).text
    assert "Not finished: 4 of 5 trials have ended, so nothing is concluded yet." in text
    assert "is fastest" not in text
    assert "benchorch resume" not in text


def test_of_an_interrupted_run_the_conclusion_is_marked_as_partial(run):
    text = read(run).text
    assert "fast on local is fastest of 2 of 5" in text
    assert "partial, because not every trial has ended." in text
    assert f"benchorch resume {run.plan_id}" in text


def test_a_page_of_a_run_that_goes_on_is_read_again(run):
    prices = prices_of([run])
    going_on = page([run], rows_of([run], prices), prices, refreshes=True)
    assert '<meta http-equiv="refresh" content="10">' in going_on
    assert 'http-equiv="refresh' not in drawn(run)


def test_links_lead_to_what_else_there_is_of_a_trial(run):
    prices = prices_of([run])
    links = {run.trials[0].trial.trial_id: [("log", "trials/x/log.txt")], "": [("MLflow", "u")]}
    text = page([run], rows_of([run], prices), prices, links=links)
    assert '<a href="trials/x/log.txt">log</a>' in text
    assert '<a href="u">MLflow</a>' in text


def test_every_trial_has_its_outcome(run):
    text = read(run).text
    assert "disqualified" in text
    assert "output 0 is off by 0.5" in text
    assert "oom" in text
    assert "no memory" in text
    assert "never ran" in text
    assert "mlp / trt: no GPU. To enable it: x." in text


def test_limits_and_advice_of_a_profile_are_there(run):
    text = read(run).text
    assert "launch-bound; linear -40 %" in text
    assert "Launches take most of the call." in text
    assert "Batch more." in text


def test_what_coming_first_costs_is_on_the_page():
    eager = trial()
    fast = trial("fast", baseline=eager)
    found = result(fast, 5e5, baseline_ns=1e6, processes=4)
    processes = tuple(
        replace(one, paired=replace(one.paired, candidate_first=place % 2 == 0))
        for place, one in enumerate(found.processes)
    )
    found = replace(found, processes=processes)
    plan = Plan(plan_id="p", name="n", trials=(eager, fast), skips=(), session={})
    results = {eager.trial_id: result(eager), fast.trial_id: found}
    text = read(stored(run_results(plan, results), "p")).text
    assert "times as long as coming second" in text


def test_warnings_of_a_trial_are_on_the_page(run):
    first, *others = run.trials
    summary = replace(first.summary, warnings=("It <may> be so: try x.",))
    doubtful = replace(run, trials=(replace(first, summary=summary), *others))
    assert "It <may> be so: try x." not in read(run).text
    assert "It <may> be so: try x." in read(doubtful).text


def test_several_runs_have_their_plan_ids(run, swept):
    text = read(finished(run), swept).text
    assert text.count(run.plan_id) > 1
    assert text.count(swept.plan_id) > 1
    assert "fast on g5 has the best figure in 4 of 5 cases" in text
    assert "are not compared here" in text


def test_the_column_of_the_ratio_names_the_baseline(run):
    assert '<th scope="col">vs eager [95 %]</th>' in drawn(run)


def test_only_swept_sizes_have_plots(run, swept):
    names = ("batch size", "sequence length")
    titles = [f"{what} over {name}" for name in names for what in ("Latency", "Throughput")]
    assert [title for title in titles if title in read(swept).text] == titles
    assert not [title for title in titles if title in read(run).text]


def test_a_price_is_named_or_reported_as_unknown(run, swept):
    assert "No machine here has a known price" in read(run).text
    priced = read(swept).text
    assert "g5.xlarge: 1.006 USD an hour in us-east-1" in priced
    assert "No price" not in priced


def test_no_name_becomes_markup(hostile):
    reader = read(hostile)
    assert reader.tags.count("script") == 2  # the data of the charts, and what draws them
    assert "<script>alert" in reader.text
    assert "\x00" not in reader.text
    names = {name for name, _ in reader.attributes}
    assert not {name for name in names if name.startswith("on") or name == "style"}


def test_it_asks_nothing_of_any_network_and_its_policy_forbids_it(run, hostile):
    for one in (run, hostile):
        reader = read(one)
        told = [value for name, value in reader.attributes if name in ("src", "href", "action")]
        assert told == ["data:,"]
        assert not {"iframe", "form", "img", "base", "object"} & set(reader.tags)
        style = drawn(one).partition("<style>")[2].partition("</style>")[0]
        assert "url(" not in style
        assert "@import" not in style
        (policy,) = [v for name, v in reader.attributes if name == "content" and "default" in v]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert re.search(r"script-src 'sha256-[^ ']+';", policy)


def test_a_run_without_a_ranking_is_reported_as_such(run):
    lost = finished(run)
    lost = replace(lost, trials=tuple(s for s in lost.trials if s.failure or s.disagreement))
    text = read(lost).text
    assert "no conversion gave a result that could be ranked" in text


def test_a_page_has_a_size_limit_and_counts_what_it_leaves_out(swept):
    text = drawn(replace(swept, trials=tuple(_copies(swept, 3_000))))
    assert MOST_BYTES / 2 < len(text.encode()) < MOST_BYTES
    assert re.search(r"\d+ more trials left out to keep this page small; the CSV has all", text)


def test_a_chart_that_is_left_out_is_named_as_such(swept, monkeypatch):
    left_out = "Left out to keep this page small; the CSV has its numbers."
    assert left_out not in read(swept).text
    monkeypatch.setattr(html_page, "_MOST_CHARTS", 1)
    assert left_out in read(swept).text


def _copies(run, count):
    for number, one in zip(range(count), itertools.cycle(run.trials), strict=False):
        trial_id = f"{number:016x}"
        of = replace(one.trial, trial_id=trial_id)
        yield replace(one, trial=of, result=replace(one.result, trial_id=trial_id))


@pytest.mark.parametrize("name", ["run", "swept", "hostile"])
def test_it_is_the_same_every_time(name, request):
    found = request.getfixturevalue(name)
    assert drawn(found) == drawn(found)
