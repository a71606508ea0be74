"""A run's directory of a stranger's: no command that is handed it makes a marker."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from security.bypass.planted import plant
from security.bypass.test_factories import filled
from security.bypass.unseen.plans import PLANS
from support.command_lines import Commands
from support.slices import one_in

COMMANDS = (
    *("resume @D", "rerun @D --only *", "report @D", "check @D", "status @D", "record @D"),
    *("export @D --output @D/out", "logs @D", "compare @D @D", "reproduce @D"),
    "reproduce @D --bundle @D/b.zip",
)


@pytest.fixture(scope="module")
def measured(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that ended well, of which the stranger changed the plan."""
    folder = tmp_path_factory.mktemp("measured")
    words = "model=mlp conversion=eager baseline=null recorder=none profiler=none stopping=fixed"
    more = "stopping.processes=1 stopping.calls=5 protocol.pairing=none hydra.run.dir=run"
    quick = "stopping.window_s=0.05 protocol.canary_tolerance_ratio=null executor=inline"
    done = commands.run(folder, f"{words} {more} {quick}".split(), cpu_s=120)
    assert done.code == 0, done.output
    return folder / "run"


@pytest.fixture
def stranger(measured: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A copy of the run with what lies in a stranger's folder, and the marker."""
    folder = tmp_path / "run"
    marker = tmp_path / "marker"
    shutil.copytree(measured, folder)
    plant(folder, marker)
    (folder / "linked.py").unlink()  # a link alone refuses a stranger's run
    return folder, marker


def edited(plan: Any, changes: dict[tuple[str | int, ...], Any]) -> Any:
    """The plan with other values at these paths of keys."""
    for path, value in changes.items():
        node = plan
        for key in path[:-1]:
            node = node[key]
        node[path[-1]] = value
    return plan


@pytest.mark.parametrize(
    ("case", "command"), one_in(37, [(case, command) for case in PLANS for command in COMMANDS])
)
def test_no_command_runs_what_a_plan_of_a_strangers_names(
    case: str, command: str, commands: Commands, stranger: tuple[Path, Path]
) -> None:
    folder, marker = stranger
    plan = edited(json.loads((folder / "plan.json").read_text()), PLANS[case])
    (folder / "plan.json").write_text(json.dumps(filled(plan, folder, marker)))
    before = set(folder.parent.iterdir())
    words = [word.replace("@D", str(folder)) for word in command.split()]
    done = commands.run(folder.parent, words)
    assert not marker.exists(), done.output[-2000:]
    assert "Traceback (most recent call last)" not in done.output, done.output
    assert set(folder.parent.iterdir()) - before <= {folder.parent / "mlflow.db"}


def test_the_edits_do_reach_what_runs(commands: Commands, stranger: tuple[Path, Path]) -> None:
    """A plan that its user trusts does run what it names: the cases above have teeth."""
    folder, marker = stranger
    case = PLANS["a factory in the run's directory"]
    plan = edited(json.loads((folder / "plan.json").read_text()), case)
    plan["trials"][0]["trial_id"] = "0123456789abcdef"
    plan["plan_id"] = "20260101-101010-abcd"
    (folder / "plan.json").write_text(json.dumps(filled(plan, folder, marker)))
    done = commands.run(folder.parent, ["resume", str(folder), "--trust", str(folder)], cpu_s=120)
    assert marker.exists(), done.output[-3000:]
