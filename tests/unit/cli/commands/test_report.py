"""What is said of a stored run, derived anew."""

from __future__ import annotations

import html
import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchorch.cli.commands import report
from benchorch.domain.trial import Skip
from benchorch.errors import ConfigError
from benchorch.journal import run_directory
from benchorch.journal.lock import acquire_lock
from benchorch.results.compare.load_run import load
from support.synthetic_runs import failed, result, trial, write_run

EAGER = trial()
FAST = trial("fast", baseline=EAGER)
SLOW = trial("slow", baseline=EAGER)
OF_EAGER = result(EAGER, 1.1e6)
OF_FAST = result(FAST, 3.3e5, baseline_ns=1.1e6)
SKIP = Skip(labels={"model": "mlp", "conversion": "trt"}, reason="needs a GPU.")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(
        tmp_path / "run",
        (EAGER, result(EAGER)),
        (FAST, result(FAST, 5e5, baseline_ns=1e6, processes=8)),
        (SLOW, failed(SLOW)),
        (trial("never"), None),
        skips=(SKIP,),
    )


def test_it_shows_what_the_run_showed(run: Path) -> None:
    said = report.run.reply([str(run)]).text
    assert "plan plan-run: 4 trials" in said
    assert "mlp / trt: needs a GPU." in said
    assert "fast on local is fastest" in said
    assert "oom in measure" in said
    assert "not run" in said


def test_an_export_shows_the_same(run: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    report.run.reply([str(run), "--json", "--output", str(kept)])
    there, here = (report.run.reply([str(one)]).text for one in (run, kept))
    assert there.replace(str(run), "") == here.replace("<directory of plan-run>", "")


def test_the_file_is_markdown_or_the_export(run: Path, tmp_path: Path) -> None:
    table, kept, other = (tmp_path / name for name in ("table.md", "kept.json", "kept.txt"))
    report.run.reply([str(run), "--output", str(table)])
    report.run.reply([str(run), "--output", str(kept)])
    said = report.run.reply([str(run), "--json", "--output", str(other)])
    text = table.read_text()
    assert text.startswith("# benchorch (plan-run)")
    assert text.index("fast on local is fastest") < text.index("| conversion |")
    assert json.loads(kept.read_text()) == report.run.reply([str(run), "--json"]).data
    assert other.read_text() == kept.read_text()
    assert said.data == {"written": str(other), "plan_id": "plan-run"}
    assert "3 of 4 trials" in said.text


def test_a_file_that_cannot_be_written_is_an_error(run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("file/x.md", "file/x.json"):
        with pytest.raises(ConfigError, match="cannot be written"):
            report.run.reply([str(run), "--output", str(tmp_path / name)])


def test_a_report_is_the_same_every_time(run: Path) -> None:
    assert report.run.reply([str(run)]) == report.run.reply([str(run)])


@pytest.fixture
def other(tmp_path: Path) -> Path:
    return write_run(tmp_path / "other", (EAGER, result(EAGER, seed=1)))


def test_several_runs_are_reported_one_after_the_other(
    run: Path, other: Path, tmp_path: Path
) -> None:
    said = report.run.reply([str(run), str(other)])
    assert said.text.index("plan plan-run") < said.text.index("plan plan-other")
    data = report.run.reply([str(run), str(other), "--json"]).data
    assert isinstance(data, dict)
    assert [one["plan_id"] for one in data["runs"]] == ["plan-run", "plan-other"]
    for name in ("both.md", "both.csv", "both.html", "both.json"):
        place = tmp_path / name
        told = report.run.reply([str(run), str(other), "--output", str(place)])
        assert "these 2 runs: 4 of 5 trials" in told.text
        assert told.data == {"written": str(place), "plan_ids": ["plan-run", "plan-other"]}
        assert all(plan in place.read_text() for plan in ("plan-run", "plan-other"))


def test_a_run_named_twice_is_one_run(run: Path) -> None:
    assert report.run.reply([str(run), str(run / "results.jsonl")]) == report.run.reply([str(run)])


def test_an_export_makes_the_same_csv_and_the_page_without_raw_series(
    run: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.json"
    report.run.reply([str(run), "--output", str(kept)])
    texts = {}
    for suffix in (".html", ".csv"):
        for source in (run, kept):
            place = tmp_path / f"{source.stem}{suffix}"
            report.run.reply([str(source), "--output", str(place)])
            texts[source.stem, suffix] = place.read_text()
    assert texts["run", ".csv"] == texts["kept", ".csv"]
    assert "<h3>Latency</h3>" in texts["kept", ".html"]
    raw = "<h3>Calls of every process</h3>"
    assert [raw in texts[name, ".html"] for name in ("run", "kept")] == [True, False]


def test_an_empty_run_and_a_wrong_suffix_are_named(run: Path, tmp_path: Path) -> None:
    empty = write_run(tmp_path / "empty", (EAGER, None))
    page = tmp_path / "page.html"
    with pytest.raises(ConfigError, match="no trial of this run has a result"):
        report.run.reply([str(run), str(empty), "--output", str(page)])
    assert not page.exists()
    with pytest.raises(ConfigError, match=r"'.pdf'; a report is .html, .csv, .md or .json"):
        report.run.reply([str(run), "--output", "page.pdf"])


def test_a_run_whose_cells_were_all_skipped_has_a_report(tmp_path: Path) -> None:
    skip = Skip(labels=EAGER.labels, reason="needs a GPU.", requested=True)
    skipped = write_run(tmp_path / "skipped", skips=(skip,))
    data = report.run.reply([str(skipped), "--json"]).data
    assert (data["trials"], len(data["skips"])) == ([], 1)
    assert "eager skipped (needs a GPU)" in data["conclusions"][0]["sentence"]


def test_every_run_that_cannot_be_read_is_named_at_once(run: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        report.run.reply([str(run), "nowhere-1", "nowhere-2"])
    assert len(caught.value.problems) == 2


def test_brackets_in_names_and_reasons_are_text(tmp_path: Path) -> None:
    name = "a [/b] [red]"
    one = trial(name, labels={"model": name})
    skip = Skip(labels={"model": name}, reason=name)
    told = write_run(tmp_path / "odd", (one, failed(one)), (EAGER, result(EAGER)), skips=(skip,))
    said = report.run.reply([str(told)]).text
    assert f"{name}: {name}" in said
    assert f"{name}: oom in measure" in said


def test_a_bar_in_a_name_is_no_column_of_the_markdown(tmp_path: Path) -> None:
    one = trial("a|b")
    table = tmp_path / "table.md"
    report.run.reply([str(write_run(tmp_path / "bar", (one, result(one)))), "--output", str(table)])
    head, _, row = [line for line in table.read_text().splitlines() if line.startswith("|")]
    assert row.startswith("| a\\|b |")
    assert row.replace("\\|", "").count("|") == head.count("|")


def test_a_run_that_was_killed_is_reported_as_far_as_it_was(tmp_path):
    there = write_run(tmp_path / "run", (EAGER, OF_EAGER), (FAST, None))
    for count in (1, 2, 3, 4, 5):
        so_far = replace(OF_FAST, processes=OF_FAST.processes[:count], unfinished=True)
        run_directory.append_round(there, so_far)
    said = report.run.reply([str(there)]).text
    assert "fast" in said
    assert "partial, because not every trial has ended" in " ".join(said.split())
    (conclusion,) = report.run.reply([str(there), "--json"]).data["conclusions"]
    assert conclusion["partial"] is True
    assert conclusion["ranked"] == conclusion["requested"] == 2


def test_a_run_that_goes_on_is_reported_and_not_compared(tmp_path):
    there = write_run(tmp_path / "run", (EAGER, OF_EAGER), (FAST, None))
    lock = acquire_lock(there)
    written = [tmp_path / "table.md", tmp_path / "page.html"]
    try:
        said = report.run.reply([str(there)]).text
        assert "not run" in said
        texts = [said, *(_written(there, path) for path in written)]
        with pytest.raises(ConfigError, match="still going on"):
            load(str(there))
    finally:
        lock.close()
    pending = "Not finished: 1 of 2 trials have ended, so nothing is concluded yet."
    assert all(pending in text for text in texts)
    assert not any("has the best figure" in text for text in texts)


@pytest.mark.parametrize("suffix", ["html", "csv", "md", "json"])
def test_a_run_is_reported_before_its_first_result(tmp_path, suffix):
    there = write_run(tmp_path / "run", (EAGER, None), (FAST, None))
    with acquire_lock(there):
        written = _written(there, tmp_path / f"report.{suffix}")
        said = report.run.reply([str(there)]).text
    assert "fast" in written
    assert said.count("not run") == 2
    assert "Not finished: 0 of 2 trials have ended, so nothing is concluded yet." in said


def test_page_table_and_terminal_say_the_same_of_an_interrupted_run(tmp_path):
    there = write_run(tmp_path / "run", (EAGER, OF_EAGER), (FAST, OF_FAST), (SLOW, None))
    partial = "; slow not run; partial, because not every trial has ended."
    (conclusion,) = report.run.reply([str(there), "--json"]).data["conclusions"]
    assert conclusion["sentence"].endswith(partial)
    said = " ".join(report.run.reply([str(there)]).text.split())
    page = html.unescape(_written(there, tmp_path / "page.html"))
    table = _written(there, tmp_path / "table.md")
    assert all(conclusion["sentence"] in text for text in (said, page, table))
    assert "benchorch resume plan-run" in page


def _written(run: Path, path: Path) -> str:
    report.run.reply([str(run), "--output", str(path)])
    return path.read_text()
