"""What a person sees while trials are measured, on a terminal and in a log."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

from rich.console import Console

from benchorch.domain.result import TrialResult
from benchorch.domain.session import Event
from benchorch.domain.trial import Plan
from benchorch.results.metrics.summary import summarise_all
from benchorch.results.report.console import ConsoleReport
from benchorch.results.report.live_table import LiveTable
from support.synthetic_runs import failed, result, trial

EAGER = trial()
FAST = trial("fast", baseline=EAGER)
PLAN = Plan(plan_id="p", name="n", trials=(EAGER, FAST), skips=(), session={})
OF_EAGER = result(EAGER, 1.1e6)
OF_FAST = result(FAST, 3.3e5, baseline_ns=1.1e6)
NAMES = {EAGER.trial_id: "eager", FAST.trial_id: "fast"}


def so_far(of: TrialResult, processes: int) -> TrialResult:
    return replace(of, processes=of.processes[:processes], unfinished=True)


def table(*results: TrialResult) -> LiveTable:
    found = LiveTable()
    found.begin(NAMES)
    found.figures(results, summarise_all({one.trial_id: one for one in results}))
    return found


def test_before_the_first_figure_there_are_rows_in_the_order_of_the_plan() -> None:
    assert [row.cells for row in table().ranked()] == [
        ("eager", "–", "–", "0", "waits"),
        ("fast", "–", "–", "0", "waits"),
    ]


def test_rows_are_ordered_by_the_figures_so_far() -> None:
    rows = table(so_far(OF_EAGER, 5), so_far(OF_FAST, 5)).ranked()
    assert [(row.name, row.processes) for row in rows] == [("fast", 5), ("eager", 5)]
    assert "p50 0.33" in rows[0].figure
    assert rows[0].verdict.endswith("faster")
    assert rows[1].verdict == "baseline"


def test_an_interval_that_means_nothing_is_not_shown() -> None:
    (first, _) = table(so_far(OF_EAGER, 1), so_far(OF_FAST, 1)).ranked()
    assert "[" not in first.figure + first.verdict


def test_the_column_of_the_ratio_names_the_baseline() -> None:
    found = table()
    assert found.cells()[0][2] == "vs baseline [95 %]"
    found.against = "vs onnxruntime"
    assert found.cells()[0][2] == "vs onnxruntime [95 %]"


def test_the_values_seen_leave_room_for_what_goes_on() -> None:
    found = table(so_far(OF_EAGER, 2), so_far(OF_FAST, 2))
    assert all("seen" not in row.figure for row in found.ranked())
    found.state(EAGER.trial_id, "measure process 3 first call")
    console = Console(file=StringIO(), width=80)
    console.print(found)
    drawn = console.file.getvalue()  # type: ignore[attr-defined]
    assert "measure process 3 first call" in drawn


def test_what_goes_on_has_a_line_where_it_has_no_column() -> None:
    found = table(so_far(OF_EAGER, 5), so_far(OF_FAST, 5))
    found.state(EAGER.trial_id, "measure process 3 loading the baseline")
    drawn = {}
    for width in (60, 80, 140):
        console = Console(file=StringIO(), width=width)
        console.print(found)
        drawn[width] = console.file.getvalue()  # type: ignore[attr-defined]
        assert drawn[width].count("loading the baseline") == 1
        assert max(map(len, drawn[width].splitlines())) <= width
    assert "  eager: measure process 3 loading the baseline" in drawn[80]
    assert "eager:" not in drawn[140]


def test_the_expected_end_is_shown_where_it_is_known() -> None:
    found = table()
    assert "left" not in found.footer()
    found.expect(5400.4)
    assert found.footer().endswith("about 1 h 30 min left")
    found.expect(0.5)
    assert found.footer().endswith(", longer than expected")


def test_the_drawn_table_has_rows_and_the_time() -> None:
    console = Console(file=StringIO(), width=120)
    found = table(so_far(OF_FAST, 2))
    found.state(EAGER.trial_id, "build")
    console.print(found)
    drawn = console.file.getvalue()  # type: ignore[attr-defined]
    assert "fast" in drawn
    assert "build" in drawn
    assert "elapsed" in drawn


def test_a_trial_whose_process_has_ended_waits_for_the_next() -> None:
    found = table(so_far(OF_FAST, 1))
    found.state(FAST.trial_id, "measure process 2")
    found.figures([so_far(OF_FAST, 2)], summarise_all({FAST.trial_id: so_far(OF_FAST, 2)}))
    assert found.rows[FAST.trial_id].state == "waits"


def log(*events: Event | TrialResult) -> list[str]:
    """The lines of a log, without their times."""
    written = StringIO()
    report = ConsoleReport(Console(file=written, width=200))
    report.plan(PLAN, done=0)
    with report.live(PLAN.trials):
        for one in events:
            if isinstance(one, Event):
                report.event(one)
            else:
                summaries = summarise_all({one.trial_id: one})
                if one.unfinished:
                    report.figures([one], summaries)
                else:
                    report.result(one, summaries[one.trial_id])
    return [line.strip().partition("] ")[2] or line for line in written.getvalue().splitlines()[1:]]


def event(of: TrialResult, stage: str, message: str = "") -> Event:
    return Event(trial_id=of.trial_id, stage=stage, message=message)


def test_a_log_says_of_what_trials_are_measured_again() -> None:
    anew = event(OF_FAST, "measured again", "as its earlier processes ran another build")
    lines = log(event(OF_FAST, "measure", "process 4"), anew)
    assert "fast: measured again as its earlier processes ran another build" in lines


def test_a_log_has_a_line_a_decision_and_none_a_process() -> None:
    processes = [event(OF_FAST, "measure", f"process {n}") for n in range(1, 9)]
    decided = event(OF_FAST, "decided", "decided after 8 processes")
    lines = log(*processes, so_far(OF_FAST, 8), decided)
    assert lines[0] == "fast: measure process 1"
    assert len(lines) == 2
    assert lines[1].startswith("fast: decided after 8 processes: p50 0.33")
    assert lines[1].endswith("faster")


def test_a_log_has_the_first_figures_after_the_first_round() -> None:
    lines = log(so_far(OF_EAGER, 1), so_far(OF_FAST, 1), event(OF_EAGER, "round", "1"))
    assert len(lines) == 1
    assert lines[0].startswith("first figures: fast p50 0.33")
    assert "not yet" not in lines[0]


def test_first_figures_name_what_has_not_begun() -> None:
    (line,) = log(so_far(OF_FAST, 1), event(OF_FAST, "measure"), event(OF_FAST, "round"))[1:]
    assert line.endswith("not yet: eager")


def test_a_log_has_every_failure_and_every_wait() -> None:
    waits = [event(OF_FAST, "wait", f"for a machine, {n}") for n in (1, 2)]
    lines = log(*waits, failed(FAST))
    assert len(lines) == 3
    assert "oom" in lines[2]
