"""An identity found by loading is believed while nothing that the load consulted changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from benchorch.domain.session import Session
from benchorch.errors import BuildError
from benchorch.files import read_json
from benchorch.frameworks.identity.consulted import recorded
from benchorch.frameworks.identity.evidence import evidence, holds
from benchorch.frameworks.identity.variables import OWN_PREFIX
from benchorch.models.factory import FactoryModel
from benchorch.trial.build_keys import Keys, NotComputedYet
from benchorch.trial.identity_stamps import Stamps
from benchorch.trial.stage_runner import _child_environment
from support import conversions as lab
from support.slices import only

FACTORY = """
import os
import torch

class Net(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.scale = scale

    def forward(self, x):
        return self.linear(x) * self.scale

def make():
    {before}
    return Net({scale})
"""
_numbers = count()


class Place:
    """A folder with a factory, and a store's stamps; each identity is found by new `Keys`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = f"stamped_{next(_numbers)}"
        self.stamps = Stamps(folder=folder / "stamps")
        self.loads = 0

    def write(self, scale: str = "2", before: str = "pass") -> None:
        path = self.folder / f"{self.name}.py"
        path.write_text(FACTORY.format(scale=scale, before=before))

    def identity(self) -> Any:
        return self.keys(f"run{next(_numbers)}")._identity

    def keys(self, invocation: str) -> Keys:
        sys.modules.pop(self.name, None)
        model = FactoryModel(factory=f"{self.name}:make", inputs={"x": {"shape": ["n", 4]}})
        setup = replace(lab.chain_of("export"), model=model)

        def load() -> Any:
            self.loads += 1
            sys.modules.pop(self.name, None)
            return model.load(0)

        return Keys(
            setup,
            threads=1,
            directory=self.folder / invocation,
            load=load,
            stamps=self.stamps,
        )

    def identities(self, times: int = 3) -> list[Any]:
        return [self.identity() for _ in range(times)]

    def is_known(self) -> bool:
        """Whether another invocation would not load."""
        (path,) = self.stamps.folder.glob("*.json")
        return self.stamps.found(read_json(path)["request"]) is not None

    def verdict(self) -> str:
        return self.stamps.verdicts()[0][1]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    made = Place(tmp_path)
    yield made
    sys.modules.pop(made.name, None)


def test_two_loads_that_agree_save_the_third(place: Place) -> None:
    place.write()
    found = [place.identity() for _ in range(4)]
    assert place.loads == 2
    assert found[1:] == found[:-1]
    assert "known without loading" in place.verdict()


def test_other_code_is_loaded_again_and_a_comment_is_the_same_model(place: Place) -> None:
    place.write()
    first, *_ = place.identities()
    place.write(scale="3")
    assert place.identity() != first
    assert place.loads == 3
    place.write(before="pass  # as before")
    assert place.identity() == first


def test_a_run_loads_once_to_identify_a_model_and_again_after_an_edit(place: Place) -> None:
    place.write()
    first = place.keys("run")._identity
    assert place.keys("run")._identity == first
    assert place.loads == 1
    place.write(scale="3")
    assert place.keys("run")._identity != first
    assert place.loads == 2


def noted(place: Place) -> Any:
    """The identity by the run's notes alone."""
    setup = place.keys("run")._setup
    return Keys(setup, threads=1, directory=place.folder / "run", load=None)._identity


def test_what_may_load_nothing_believes_no_note_after_an_edit(place: Place) -> None:
    place.write()
    first = place.keys("run")._identity
    assert noted(place) == first
    place.write(scale="3")
    with pytest.raises(NotComputedYet):
        noted(place)


def test_what_may_load_nothing_believes_notes_of_processes_whose_variables_benchorch_sets(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(plan_id="p", directory=place.folder, store={}, rebuild="if_needed")
    own = {
        name: value
        for name, value in _child_environment(session, threads=1).items()
        if not name.startswith(OWN_PREFIX)
    }
    place.write(before=f"list(map(os.environ.get, {[*own]}))")
    with monkeypatch.context() as child:
        for name, value in own.items():
            child.setenv(name, value)
        first = place.keys("run")._identity
    for name in own:
        monkeypatch.delenv(name, raising=False)
    assert noted(place) == first


def test_an_edit_between_identifying_and_loading_ends_the_build(place: Place) -> None:
    place.write()
    place.keys("run").find_out()
    keys = place.keys("run")
    keys.find_out()
    assert not keys.has_loaded
    load = keys._load
    assert load is not None
    place.write(before="pass  # as before")
    keys.checked(load)()
    place.write(scale="3")
    with pytest.raises(BuildError, match="has changed since this run identified it"):
        keys.checked(load)()


def test_a_second_copy_is_the_same_model_where_its_load_sets_variables_and_a_step_options(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
    place.write(before='os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")')
    keys = place.keys("run")
    keys.find_out()
    load = keys._load
    assert load is not None
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium" if before != "medium" else "high")
    try:
        keys.checked(partial(load))()
    finally:
        torch.set_float32_matmul_precision(before)


def test_a_touched_file_is_the_same_and_no_load(place: Place) -> None:
    place.write()
    first, *_ = place.identities()
    os.utime(place.folder / f"{place.name}.py", ns=(1, 1))
    assert place.identity() == first
    assert place.loads == 2


CONSULTS = "import colorsys; os.path.exists('over' + 'ride'); os.path.exists('goes')"
SUM = (
    "sum(map(float, [open('scale.txt').read(), open('map' + 'ped', 'r+').read(),"
    " os.environ['LAB_' + 'SCALE'], os.environb[b'LAB_' + b'BYTES']]))"
)


def test_whatever_a_load_consults_counts_each_by_itself(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that it reads, maps or looks for, variables, modules and lists of import paths."""
    folder = place.folder
    texts = {"scale.txt": "2", "mapped": "2", "goes": "", "more.pth": "one\n"}
    for name, text in texts.items():
        (folder / name).write_text(text)
    monkeypatch.setenv("LAB_SCALE", "2")
    monkeypatch.setenv("LAB_BYTES", "2")
    place.write(scale=SUM, before=CONSULTS)
    first, *_ = place.identities()
    assert place.loads == 2
    for name in ("scale.txt", "mapped"):
        (folder / name).write_text("3")
        assert not place.is_known(), name
        (folder / name).write_text("2")
        assert place.is_known(), name
    for name in ("override", "colorsys.py"):
        (folder / name).write_text("")
        assert not place.is_known(), name
        (folder / name).unlink()
        assert place.is_known(), name
    (folder / "goes").unlink()
    assert not place.is_known()
    (folder / "goes").write_text("")
    for name in ("LAB_SCALE", "LAB_BYTES"):
        monkeypatch.setenv(name, "3")
        assert not place.is_known(), name
        monkeypatch.setenv(name, "2")
    monkeypatch.setenv("LAB_OTHER", "2")
    assert place.is_known()
    (folder / "more.pth").write_text("another\n")
    assert not place.is_known()
    assert place.identity() == first
    assert place.loads == 3
    (folder / "scale.txt").write_text("3")
    assert place.identity() != first
    assert place.loads == 4


def test_a_factory_may_copy_a_link_as_a_link(place: Place) -> None:
    (place.folder / "one").symlink_to("table")
    copied = f"shutil.copy2('{place.folder}/one', '{place.folder}/two', follow_symlinks=False)"
    place.write(before=f"import shutil; os.path.lexists('{place.folder}/two') or {copied}")
    place.identity()
    assert (place.folder / "two").is_symlink()


def test_a_variable_that_the_load_itself_sets_is_as_it_was_before(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write(before="os.environ['LAB_SET'] = 'x'; os.environ['LAB_SET']")
    for _ in range(3):
        monkeypatch.delenv("LAB_SET", raising=False)
        place.identity()
    monkeypatch.delenv("LAB_SET", raising=False)
    assert place.loads == 2


UNTRACKED = {
    "its code uses time": "import time; time.localtime()",
    "its code uses datetime": "from datetime import datetime; datetime.now()",
    "starts a process": "import subprocess; subprocess.run(['true'])",
    "looks up a network address": "import socket; socket.getaddrinfo('127.0.0.1', 80)",
}


@pytest.mark.parametrize(
    "reasons", only([[*UNTRACKED]], [[*UNTRACKED], *([why] for why in UNTRACKED)])
)
def test_what_cannot_be_tracked_is_loaded_each_time(place: Place, reasons: Sequence[str]) -> None:
    place.write(before="; ".join(UNTRACKED[why] for why in reasons))
    for _ in range(3):
        place.identity()
    assert place.loads == 3
    assert [why for why in reasons if why not in place.verdict()] == []


def test_what_measures_time_is_loaded_once_a_day(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write(before="import time; time.time()")
    place.identities()
    assert place.loads == 2
    monkeypatch.setattr("benchorch.frameworks.identity.evidence.today", lambda: "2000-01-01")
    place.identity()
    assert place.loads == 3


def test_a_factory_that_is_never_the_same_is_loaded_each_time(place: Place) -> None:
    place.write(scale="int.from_bytes(os.urandom(8), 'big')")
    found = [str(place.identity()) for _ in range(3)]
    assert len(set(found)) == 3
    assert place.loads == 3
    assert "differed in module.scale" in place.verdict()


def test_what_cannot_be_hashed_is_never_the_same(place: Place) -> None:
    place.write(scale="(i for i in (1, 2))")
    found = [place.identity() for _ in range(3)]
    assert place.loads == 3
    assert found[0] != found[1] != found[2]
    assert "module.scale" in found[0]["unhashable"]


def test_a_stamp_that_makes_no_sense_is_found_out_anew(place: Place) -> None:
    place.write()
    first, *_ = place.identities(2)
    (path,) = (place.folder / "stamps").glob("*.json")
    sound = path.read_text()
    for loads, text in enumerate(("{", '{"version": 1}'), 3):
        assert place.is_known()
        path.write_text(text)
        assert place.identity() == first
        assert place.loads == loads
        path.write_text(sound)
    for text in ("", "[]", "null"):
        path.write_text(text)
        assert place.stamps.found(json.loads(sound)["request"]) is None


def test_files_that_native_code_opens_are_seen(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    path = tmp_path / "w.safetensors"
    save_file({"w": torch.ones(2)}, path)
    with recorded() as record:
        load_file(path)
    seen = evidence(record, [], [])
    assert str(path) in seen["files"]
    assert holds(seen)
    save_file({"w": torch.zeros(2)}, path)
    assert not holds(seen)


def test_the_console_script_finds_modules_in_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FACTORY.format(scale="1", before="pass"))
    script = tmp_path / "bin" / "benchorch"
    script.parent.mkdir()
    script.write_text("from benchorch.cli.main import main\nmain()\n")
    words = ["plan", "model=factory", "model.factory=mine:make", "conversion=eager"]
    inputs = "model.inputs={x: {shape: [batch_size, 4], generator: normal}}"
    answer = subprocess.run(
        [sys.executable, str(script), *words, inputs],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
