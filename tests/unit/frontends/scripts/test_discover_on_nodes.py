"""Scripts run on an executor's nodes, and what was captured there comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from benchorch.domain.result import TrialResult
from benchorch.domain.trial import ConfigNode
from benchorch.errors import ExecutorError
from benchorch.executors.local import Local
from benchorch.executors.scheduling.file_transfer import script_files
from benchorch.frontends.scripts import discover_on_nodes
from benchorch.frontends.scripts.discover import Enough, Script
from benchorch.frontends.scripts.discover_all import Discovery
from benchorch.frontends.scripts.kept import files_of
from benchorch.interfaces.executor import Executor, R, T

SCRIPT = """
import torch
from parts import make

net = make()
net(torch.ones(2, 4))
print("it ran")
"""
PARTS = """
import torch

def make():
    return torch.nn.Linear(4, 3)
"""


class OtherDisk(Executor):
    """One node with a state directory of its own; it loses what it is told to lose."""

    def __init__(self, state: Path, patch: pytest.MonkeyPatch, lost: Sequence[int] = ()) -> None:
        self.state, self.patch, self.lost = state, patch, lost

    def unreachable(self, hardware_kind: str) -> str | None:
        return None

    def run(self, trials: Any, work: Any, emit: Any) -> Iterator[TrialResult]:
        raise NotImplementedError

    def spread(
        self, work: Callable[[T], R], items: Sequence[T]
    ) -> Iterator[tuple[int, R | ExecutorError]]:
        for number, item in enumerate(items):
            if number in self.lost:
                yield number, ExecutorError("the node died")
                continue
            with self.patch.context() as there:
                there.setenv("XDG_STATE_HOME", str(self.state))
                reply = work(item)
            yield number, reply


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "here"))
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text(SCRIPT)
    (tmp_path / "parts.py").write_text(PARTS)
    return tmp_path


def discovery(executor: Executor, **options: Any) -> Discovery:
    fields: dict[str, Any] = {
        **{"timeout_s": 300.0, "keep": True, "jobs": 1, "resume": False, "enough": Enough()},
        **options,
    }
    return Discovery(executor=executor, **fields)


def test_what_a_node_captured_is_here_afterwards(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    node = OtherDisk(place / "there", monkeypatch, lost=[1])
    scripts = [Script(path=place / "one.py"), Script(path=place / "two.py")]
    one, two = discovery(node).run(scripts, lines.append)
    assert one["problem"] is None
    files = list(files_of(one))
    assert len(files) == 2
    assert all(path.exists() and path.is_relative_to(place / "here") for path in files)
    assert Path(str(one["log"])).read_text() == "it ran\n"
    problem = cast(ConfigNode, two["problem"])
    assert (two["ended"], problem["message"]) == ("not_run", "its node was lost: the node died")
    assert "  one.py: 1 model" in lines
    again = discovery(node, resume=True).run(scripts[:1], lines.append)
    assert again == [one]


def test_a_file_that_differs_on_a_node_is_not_overwritten(place: Path) -> None:
    request = discover_on_nodes.request_for(
        Script(path=place / "one.py"),
        **{"timeout_s": 9.0, "keep": False, "sandboxed": False, "quiet_s": None, "first": False},
    )
    (request.files.directory / request.files.probe).unlink()  # as on a node with its own disk
    (place / "parts.py").write_text("another = 1")
    reply = discover_on_nodes.discover_here(request)
    assert "differs from the shipped file" in str(reply.found["problem"])
    assert (place / "parts.py").read_text() == "another = 1"


def test_an_executor_of_this_machine_leaves_scripts_to_it(place: Path) -> None:
    assert Local().spread(len, [()]) is None
    (found,) = discovery(Local()).run([Script(path=place / "one.py")], lambda _: None)
    assert found["ended"] == "end"


def test_a_script_is_shipped_with_the_users_modules_that_it_imports(place: Path) -> None:
    names = sorted(Path(name).name for name in script_files(place / "one.py").files)
    assert names == ["one.py", "parts.py"]


@pytest.mark.parametrize(
    "line",
    [
        "sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), 'lib'))",
        "sys.path.append(str(Path(__file__).resolve().parent / 'lib'))",
        "HERE = Path(__file__).parents[0]; sys.path[0:0] = [f'{HERE}/lib']",
        "ROOT = os.path.dirname(__file__)\nif True:\n    sys.path += [ROOT + os.sep + 'lib']",
    ],
)
def test_modules_of_folders_on_the_scripts_own_path_are_shipped(place: Path, line: str) -> None:
    (place / "lib" / "nets").mkdir(parents=True)
    (place / "lib" / "nets" / "__init__.py").write_text("from . import deep")
    (place / "lib" / "nets" / "deep.py").write_text("import beside")
    (place / "lib" / "beside.py").write_text("")
    (place / "lib" / "unused.py").write_text("")
    head = "import os, sys\nfrom pathlib import Path\n"
    (place / "main.py").write_text(f"{head}{line}\nimport nets\n")
    names = {Path(name).name for name in script_files(place / "main.py").files}
    assert names == {"main.py", "__init__.py", "deep.py", "beside.py"}


def test_a_script_of_a_package_is_shipped_with_it(place: Path) -> None:
    package = place / "package"
    package.mkdir()
    for name, text in (("__init__", ""), ("main", "from . import nets"), ("nets", "")):
        (package / f"{name}.py").write_text(text)
    names = {Path(name).name for name in script_files(package / "main.py").files}
    assert names == {"__init__.py", "main.py", "nets.py"}


def test_a_folder_that_takes_running_the_script_is_left_to_its_node(place: Path) -> None:
    lines = "import sys, os\nsys.path.insert(0, os.environ['X'])\nsys.path.append(sys.argv[1] / 2)"
    (place / "main.py").write_text(lines)
    assert len(script_files(place / "main.py").files) == 1
