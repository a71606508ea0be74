"""A name of a stranger's file fills no screen, no table and no page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from support.command_lines import Commands
from support.synthetic_runs import failed, result, trial, write_run
from support.trace_files import event, steps, write

LONG = "n" * 20_000
SHOWN = re.compile("n{201}")
COMMANDS = (
    *("report @D", "report @D --output @D.html", "report @D --output @D.md", "check @D"),
    *("compare @D @D", "status @D", "logs @D", "history @D", "export @D --output @Dx"),
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run whose models, conversions and failures have long names."""
    eager = trial(labels={"model": LONG, "conversion": LONG})
    fast = trial("fast", labels={"model": f"{LONG}m", "conversion": f"{LONG}x"}, baseline=eager)
    broken = trial("broken", labels={"model": f"{LONG}o", "conversion": LONG})
    pairs = (eager, result(eager)), (fast, result(fast, 5e5, baseline_ns=1e6))
    return write_run(tmp_path / "run", *pairs, (broken, failed(broken)))


@pytest.mark.parametrize("line", COMMANDS)
def test_a_runs_names_are_shown_in_part(
    line: str, run: Path, tmp_path: Path, commands: Commands
) -> None:
    done = commands.run(tmp_path, line.replace("@D", str(run)).split())
    assert done.code in (0, 1, 2)
    assert "Traceback" not in done.stderr
    assert not SHOWN.search(done.output)
    pages = [*tmp_path.glob("run.*"), *tmp_path.glob("history/*.html")]
    assert [page.name for page in pages if SHOWN.search(visible(page.read_text()))] == []


def visible(page: str) -> str:
    """A page's text, and no attribute by which its script filters."""
    return re.sub(r"<[a-z][^>]*>", "", page)


def odd(record: Any) -> Any:
    """A record whose name is long; steps, which are found by their names, keep theirs."""
    name = record.get("name", "")
    return record if name.startswith("ProfilerStep") else {**record, "name": f"{name}{LONG}"}


MARKED = [event("user_annotation", LONG, 1000.0 * at, 900) for at in range(3)]


@pytest.mark.parametrize(
    "line",
    [
        *(
            "analyze @T",
            "analyze @T --list-ranges",
            "analyze --diff @T @T",
            "analyze @T --call 99",
        ),
        *("analyze @T --range nosuch", f"analyze @T --range {LONG}", "analyze @T --whatif @W"),
    ],
)
def test_a_traces_names_are_shown_in_part(line: str, tmp_path: Path, commands: Commands) -> None:
    trace = write(tmp_path / "t.json", [*map(odd, steps(4)), *MARKED])
    whatif = tmp_path / "w.json"
    whatif.write_text(json.dumps({"op_type": {LONG: 2.0}}))
    words = [one.replace("@T", str(trace)).replace("@W", str(whatif)) for one in line.split()]
    done = commands.run(tmp_path, [*words])
    assert done.code in (0, 1, 2)
    assert "Traceback" not in done.stderr
    own = LONG in words  # what the person typed is repeated
    assert own or not SHOWN.search(done.output)
    assert len(done.output) < 20_000 + 20_000 * own
