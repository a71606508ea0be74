"""Links that a stranger's folder has where a command writes: nothing is written through one."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchorch.cli.commands import ui
from benchorch.errors import ConfigError
from support.command_lines import Commands
from support.synthetic_runs import result, trial, write_run
from support.trace_files import steps, write

MINE = "my own"


@pytest.fixture
def mine(folder: Path, tmp_path: Path) -> Path:
    """A folder of the user's; in the current one there are a stranger's trace and run."""
    write(folder / "profile.json", steps())
    write_run(folder / "theirs", (trial(), result(trial())))
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "index.html").write_text(MINE)
    return mine


@pytest.mark.parametrize(
    ("line", "link"),
    [("analyze profile.json", "profile-analysis"), ("history theirs", "history")],
)
def test_a_default_folder_that_is_a_link_is_refused(
    line: str, link: str, commands: Commands, folder: Path, mine: Path
) -> None:
    (folder / link).symlink_to(mine)
    done = commands.run(folder, line.split())
    assert done.code == 2, done.output
    assert f"{link} is a link" in done.output
    assert f"--output {link}" in done.output
    assert [path.read_text() for path in mine.iterdir()] == [MINE]
    done = commands.run(folder, [*line.split(), "--output", link])
    assert done.code == 0, done.output
    assert len([*mine.iterdir()]) > 1, "where the user names the link, it is followed"


@pytest.mark.parametrize("link", ["mlflow.db", "mlflow.db.lock", "mlartifacts"])
def test_a_tracker_that_is_a_link_is_refused_unless_its_whole_path_is_named(
    link: str, commands: Commands, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / link).symlink_to(tmp_path / "made")
    line = ["model=mlp", "conversion=eager", "recorder=mlflow"]
    done = commands.run(folder, ["plan", *line])
    assert done.code == 2, done.output
    assert f"{link} is a link to {tmp_path / 'made'}" in done.output
    assert f"sqlite:///{folder}/mlflow.db" in done.output
    done = commands.run(folder, ["plan", *line, f"recorder.uri=sqlite:///{folder}/mlflow.db"])
    assert done.code == 0, done.output
    monkeypatch.chdir(folder)
    with pytest.raises(ConfigError, match="is a link to"):
        ui.prepare()


def test_a_link_in_a_default_folder_is_replaced_or_refused(
    commands: Commands, folder: Path, mine: Path
) -> None:
    out = folder / "profile-analysis"
    out.mkdir()
    for name in ("table.csv", "perfetto.json.gz", "index.json", "report.html"):
        (out / name).symlink_to(mine / "index.html")
    done = commands.run(folder, ["analyze", "profile.json"])
    assert done.code == 0, done.output
    assert (mine / "index.html").read_text() == MINE
    assert not any(path.is_symlink() for path in out.iterdir())
    (folder / "changes.yaml").write_text('changes: [{op: "*", speedup: 2}]\n')
    (out / "whatif").symlink_to(mine)
    done = commands.run(folder, ["analyze", "profile.json", "--whatif", "changes.yaml"])
    assert done.code == 1, done.output
    assert "it is a link to another folder" in done.output
    assert [path.read_text() for path in mine.iterdir()] == [MINE]
