"""A name is no HTML, link or image in a table of Markdown and in a page, whoever chose it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchorch.journal import run_directory
from benchorch.journal.reader import read_results
from benchorch.results.report.tables import full_markdown
from support.command_lines import Commands
from support.synthetic_runs import result, run_results, trial, write_run

EVIL = {
    "html": "<img src=x onerror=alert(1)>",
    "link": "[x](javascript:alert(1))",
    "image": "![x](http://127.0.0.1:1/x.png)",
    "row": "a | b\n| c",
    "script": "</script><script>alert(1)</script>",
}
MARKUP = ("<img", "](javascript", "](http", "<script>alert")


@pytest.mark.parametrize("kind", EVIL)
def test_a_name_is_no_markup(kind: str, commands: Commands, tmp_path: Path) -> None:
    eager = trial(labels={"model": EVIL[kind], "conversion": EVIL[kind]})
    fast = trial("fast", labels={"model": EVIL[kind]}, baseline=eager)
    pairs = (eager, result(eager)), (fast, result(fast, 5e5, baseline_ns=1e6))
    run = write_run(tmp_path / "run", *pairs)
    results = {one.trial_id: one for one in read_results(run)}
    table = full_markdown(run_results(run_directory.read_plan(run), results))
    assert not [one for one in MARKUP if one in table]
    rows = [line.replace(r"\|", "") for line in table.splitlines() if line.startswith("|")]
    assert len({row.count("|") for row in rows}) == 1
    done = commands.run(tmp_path, ["report", str(run), "--output", "page.html"])
    assert done.code == 0, done
    page = (tmp_path / "page.html").read_text()
    assert not [one for one in ("<img src=x", "<script>alert", 'href="javascript') if one in page]
