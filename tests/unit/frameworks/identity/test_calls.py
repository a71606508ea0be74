"""What a model's calls consult decides whether what was built for it is used again."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from benchorch.domain.session import Session
from benchorch.frameworks.identity import calls
from benchorch.frameworks.identity.consulted import recorded
from benchorch.frameworks.identity.libraries import users_libraries
from benchorch.frameworks.numpy_files import saved
from benchorch.models.factory import FactoryModel
from benchorch.stores.local import LocalStore
from benchorch.trial.build import BuildJob
from benchorch.trial.reference import outputs_file, read_reference
from benchorch.trial.stages import Built
from support import conversions as lab
from support.slices import only

MODEL = """
import datetime, importlib, logging, os, pathlib, subprocess, sys, tempfile, warnings
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.letters = [ord(one) for one in {letters!r}]

    def word(self):
        return "".join(chr(one) for one in self.letters)

    def forward(self, x):
        {forward}
        return self.linear(x) * scale

def make():
    {make}
    return Net()
"""
_numbers = count()


class Project:
    """A folder with a model whose forward finds a name in its weights, and a store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "store"
        self.name = f"called_{next(_numbers)}"
        self.factory = f"{self.name}:make"
        self.inputs = 1

    def copy(self, folder: Path) -> Project:
        """The same in another folder, named by its path, with the same store."""
        other = Project(folder)
        other.store, other.name = self.store, self.name
        other.factory = f"{folder}/{self.name}.py:make"
        folder.mkdir()
        shutil.copy(self.folder / f"{self.name}.py", folder)
        return other

    def write(self, forward: str, letters: str = "table", make: str = "pass") -> None:
        text = MODEL.format(forward=forward, letters=letters, make=make)
        (self.folder / f"{self.name}.py").write_text(text)

    def build(self, conversion: str = "eager") -> Built:
        sys.modules.pop(self.name, None)
        place = self.folder / "runs" / str(next(_numbers))
        return self._job(place, conversion).build(lambda _: None)

    def find(self, conversion: str = "eager") -> Built | None:
        """In an invocation that has only looked at the model."""
        place = self.folder / "runs" / str(next(_numbers))
        return self._job(place, conversion).find(finds_out=True)

    def consulted(self) -> Any:
        return read_reference(self.build().reference).consulted

    def answer(self) -> Any:
        """What the reference has for the first input."""
        return answer_of(self.build().reference)

    def _setup(self, conversion: str) -> Any:
        model = FactoryModel(factory=self.factory, inputs={"x": {"shape": ["batch_size", 4]}})
        return replace(lab.chain_of(conversion), model=model)

    def _job(self, place: Path, conversion: str) -> BuildJob:
        place.mkdir(parents=True, exist_ok=True)
        return BuildJob(
            setup=self._setup(conversion),
            name=conversion,
            store=LocalStore(root=str(self.store)),
            session=Session(plan_id="p", directory=place, store={}, rebuild="if_needed"),
            inputs=self.inputs,
            threads=1,
        )


def answer_of(reference: Path) -> Any:
    return next(iter(saved(outputs_file(reference, 0)).values()))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    made = Project(tmp_path)
    yield made
    for name in [name for name in sys.modules if name.startswith("called_")]:
        del sys.modules[name]


COMPUTED = "scale = float(open(self.word()).read())"


def test_a_file_of_a_computed_name_decides(project: Project) -> None:
    project.write(COMPUTED)
    (project.folder / "table").write_text("2")
    first = project.build("export")
    assert project.build("export").record.cache == "hit"
    (project.folder / "table").write_text("3")
    changed = project.build("export")
    assert changed.record.cache == "miss"
    assert changed.reference != first.reference
    again = project.build("export")
    assert again.record.cache == "hit"
    assert again.reference == changed.reference


EACH_WAY = """import ctypes
        from concurrent.futures import ThreadPoolExecutor as Pool
        pooled = Pool(1).submit(pathlib.Path.read_text, pathlib.Path(self.word())).result()
        file = ctypes.CDLL(None).open(b'native.txt', 0)
        native = os.read(file, 9)
        os.close(file)
        size = os.path.getsize(self.word() + '_of_a_size')
        there = 3 if os.path.exists(self.word() + '_that_appears') else 2
        names = len(os.listdir(self.word() + '_of_names'))
        scale = float(pooled) * float(native) * size * there * names * os.cpu_count()"""


def test_whatever_forward_consults_decides_however_it_does(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a pool and native code read, a size, what appears, a folder's names, the machine."""
    project.write(EACH_WAY)
    folder = project.folder
    (folder / "table_of_names").mkdir()
    before = {"table": "2", "native.txt": "2", "table_of_a_size": "2", "table_of_names/one": ""}
    for name, text in before.items():
        (folder / name).write_text(text)
    found = [project.build().reference]
    assert project.build().reference == found[0]
    after = {"table": "3", "native.txt": "3", "table_of_a_size": "33", "table_that_appears": ""}
    for name, text in {**after, "table_of_names/two": ""}.items():
        (folder / name).write_text(text)
        found.append(project.build().reference)
        assert found[-1] not in found[:-1], name
    assert project.build().reference == found[-1]
    monkeypatch.setitem(calls._FACTS, "cpu_count", lambda: 1234)
    assert project.build().reference not in found


def test_what_it_was_before_is_found_again(project: Project) -> None:
    project.write(COMPUTED)
    (project.folder / "table").write_text("2")
    first = project.build().reference
    (project.folder / "table").write_text("3")
    project.build()
    (project.folder / "table").write_text("2")
    assert project.build().reference == first


def test_a_process_that_loads_nothing_finds_the_same(project: Project) -> None:
    project.write(COMPUTED)
    (project.folder / "table").write_text("2")
    built = [project.build() for _ in range(2)][-1]
    found = project.find()
    assert found is not None
    assert found.reference == built.reference
    (project.folder / "table").write_text("3")
    assert project.find() is None


def test_another_file_that_the_new_content_leads_to_decides_too(project: Project) -> None:
    project.write("scale = float(open(open(self.word()).read()).read())")
    (project.folder / "one").write_text("1")
    (project.folder / "two").write_text("2")
    (project.folder / "table").write_text("one")
    first = project.build().reference
    (project.folder / "table").write_text("two")
    second = project.build().reference
    (project.folder / "two").write_text("5")
    third = project.build().reference
    assert len({first, second, third}) == 3
    assert project.build().reference == third


def test_a_project_elsewhere_is_the_same(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("scale = float(pathlib.Path(self.word()).resolve().read_text())")
    (project.folder / "table").write_text("2")
    first = project.build().reference
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in (f"{project.name}.py", "table"):
        (project.folder / name).rename(moved / name)
    monkeypatch.setattr(sys, "path", [str(moved), *sys.path])
    monkeypatch.chdir(moved)
    assert project.build().reference == first
    (moved / "table").write_text("3")
    assert project.build().reference != first


WITHOUT_EFFECT = (
    "logging.getLogger('called').error('a message with its time')",
    "file = tempfile.TemporaryFile(); file.write(b'2'); file.seek(0); file.read()",
    "open('calls.log', 'a').write('called')",
    "warnings.warn('a line of the source')",
    "float(os.environ['CALLED_SCALE'])",
)
ALL = "; ".join(WITHOUT_EFFECT)
"""One that were compared would keep the whole from being a hit."""


@pytest.mark.parametrize("forward", only([ALL], [ALL, *WITHOUT_EFFECT]))
def test_what_changes_no_output_is_a_hit(project: Project, forward: str) -> None:
    project.write(f"scale = 2; {forward}", make="os.environ['CALLED_SCALE'] = '2'")
    references = set()
    for _ in range(3):
        os.environ.pop("CALLED_SCALE", None)
        references.add(project.build().reference)
    os.environ.pop("CALLED_SCALE", None)
    assert len(references) == 1


@pytest.mark.parametrize(
    ("forward", "why"),
    [
        ("scale = datetime.date.today().year", "it reads the date"),
        (
            "scale = float(subprocess.run(['echo', '2'], capture_output=True).stdout)",
            "it starts a process",
        ),
        pytest.param(
            "child = os.fork(); child or os._exit(0); os.waitpid(child, 0); scale = 2",
            "it starts a process",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_what_cannot_be_compared_is_never_a_hit(project: Project, forward: str, why: str) -> None:
    project.write(forward)
    first = project.build("export") if "date" in forward else project.build()
    assert why in read_reference(first.reference).consulted[calls.NEVER]
    again = project.build("export") if "date" in forward else project.build()
    assert again.reference != first.reference
    if "date" in forward:
        assert again.record.cache == "miss"


def test_one_invocation_builds_it_once(project: Project) -> None:
    project.write("scale = datetime.date.today().year")
    place = project.folder / "runs" / "one"
    built = []
    for _ in range(2):
        sys.modules.pop(project.name, None)
        built.append(project._job(place, "eager").build(lambda _: None).reference)
    assert built[0] == built[1]


def test_what_its_calls_change_themselves_is_never_a_hit(project: Project) -> None:
    forward = "scale = 1 + len(open(self.word()).read()); open(self.word(), 'a').write('x')"
    project.write(forward)
    (project.folder / "table").write_text("")
    first = project.build().reference
    assert project.build().reference != first


HIDDEN = """
    import decimal
    with open(bytes([112, 108, 97, 99, 101, 115]).decode()) as file:
        decimal.getcontext().prec = int(file.read())
"""


def test_what_no_walk_reaches_shows_in_the_outputs(project: Project) -> None:
    """A file's content goes into the state of a module that is not the user's."""
    project.write("import decimal; scale = float(decimal.Decimal(1) / 3)", make=HIDDEN)
    places = project.folder / "places"
    places.write_text("1")
    first = project.build("export")
    assert [project.build("export").record.cache for _ in range(2)] == ["hit", "hit"]
    places.write_text("5")
    changed = project.build("export")
    assert changed.record.cache == "miss"
    assert [project.build("export").record.cache for _ in range(2)] == ["hit", "hit"]
    assert set(read_reference(changed.reference).consulted) == {calls.BASELINE}
    assert changed.reference == first.reference


def test_what_no_walk_reaches_may_show_in_another_than_the_first_input(project: Project) -> None:
    setup = project._setup("torchscript")
    first = float(setup.example(setup.workload.seed).arrays["x"][0, 0])
    is_first = f"abs(float(x[0, 0]) - {first}) < 1e-4"
    project.inputs = 2
    project.write(
        f"import decimal; scale = 1 if {is_first} else float(decimal.Decimal(1) / 3)", make=HIDDEN
    )
    states = []
    for places in ("1", "3"):
        (project.folder / "places").write_text(places)
        states += [project.build("torchscript").record.cache for _ in range(2)]
    assert states == ["miss", "hit"] * 2


def test_copies_that_answer_by_their_folders_names_are_compared_each_time(
    project: Project, tmp_path: Path
) -> None:
    """No walk tells them apart, and after two loads nothing else that a load consulted differs."""
    project.write("scale = len(pathlib.Path(__file__).resolve().parent.name)")
    one, longer = project.copy(tmp_path / "one"), project.copy(tmp_path / "longer")
    first = one.answer()
    answers: list[Any] = []
    references: list[Path] = []
    for each in (one, one, longer, longer, longer, one, longer):
        references.append(each.build().reference)
        answers.append(answer_of(references[-1]))
    assert references[-1] == references[-2]
    ratios = [(answer / first).round(3).max() for answer in answers]
    assert ratios == [1, 1, 2, 2, 2, 1, 2]


def test_a_folder_that_the_factory_changes_to_is_as_it_was_before(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write(COMPUTED, make="os.chdir('inside')")
    inside = project.folder / "inside"
    inside.mkdir()
    (inside / "table").write_text("2")

    def built() -> Path:
        monkeypatch.chdir(project.folder)
        return project.build().reference

    first = built()
    assert [built() for _ in range(2)] == [first] * 2
    (inside / "table").write_text("3")
    assert built() != first


def test_a_plain_model_consults_nothing(project: Project) -> None:
    project.write("scale = [2 for _ in range(1)][0]")
    assert project.consulted() == {}


def test_the_date_counts_where_an_installed_package_asks_for_it(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = project.folder / "site-packages"
    place.mkdir()
    code = "import datetime\n\ndef month():\n    return datetime.date.today().month\n"
    (place / "called_seasons.py").write_text(code)
    monkeypatch.syspath_prepend(str(place))
    project.write("import called_seasons; scale = called_seasons.month()")
    assert [*project.consulted()["never"]] == ["it reads the date"]


LINEAR = """
import torch
{top}
class Net({base}):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        {forward}
        return self.linear(x)

def make():
    return {made}
"""
USUAL = {
    "top": "",
    "base": "torch.nn.Module",
    "forward": "pass",
    "made": "Net()",
}
ORDINARY = {
    "all but lightning": {
        "top": "import threading, time; from tqdm import tqdm; LOCK = threading.RLock()",
        "forward": "list(tqdm(range(2))); LOCK.acquire(); start = time.perf_counter()",
    },
    "lightning": {"top": "import lightning", "base": "lightning.LightningModule"},
    "progress": {"top": "from tqdm import tqdm", "forward": "list(tqdm(range(2)))"},
    "lock": {"top": "import threading; LOCK = threading.RLock()", "forward": "LOCK.acquire()"},
    "measured": {"top": "import time", "forward": "start = time.perf_counter()"},
}


@pytest.mark.filterwarnings("ignore")  # torch.jit is deprecated and says so, but is still served
@pytest.mark.parametrize("name", only(["all but lightning"], ORDINARY))
def test_an_ordinary_project_is_known_without_loading_it(project: Project, name: str) -> None:
    if name == "lightning":
        pytest.importorskip("lightning")
    text = LINEAR.format(**USUAL | ORDINARY[name])
    (project.folder / f"{project.name}.py").write_text(text)
    project.build("torchscript")
    assert project.build("torchscript").record.cache == "hit"
    assert project.find("torchscript") is not None


@pytest.mark.filterwarnings("ignore")
def test_a_factory_may_return_a_scripted_module(project: Project) -> None:
    made = {"made": "torch.jit.trace(Net(), torch.ones(1, 4))"}
    (project.folder / f"{project.name}.py").write_text(LINEAR.format(**USUAL | made))
    assert project.answer().shape == (2, 4)
    assert project.build("torchscript").record.artifact_bytes > 0


def test_a_variable_of_a_terminal_counts_where_the_model_itself_reads_it(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    project.write("import shutil; scale = 2; shutil.get_terminal_size()")
    assert project.consulted() == {}
    project.write("scale = float(os.environ['COLUMNS'])")
    assert [*project.consulted()["environment"]] == ["COLUMNS"]


def test_kernels_that_inductor_compiled_before_are_no_libraries_of_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "c" + "pvvororw4swqeogvzbxtcems2s6lw46ni2sjj2rpjo5s4laf7jz"
    kernel, own = tmp_path / "pv" / f"{name}.main.so", tmp_path / "reader.so"
    mapped = {str(kernel), str(own)}
    monkeypatch.setattr("benchorch.frameworks.identity.libraries.mapped_files", lambda: mapped)
    assert [*users_libraries()] == [str(own)]


def test_a_folder_that_is_called_like_those_of_packages_is_the_users(tmp_path: Path) -> None:
    folders = [tmp_path / "my-packages" / "data", tmp_path / "site-packages" / "data"]
    for folder in folders:
        folder.mkdir(parents=True)
    with recorded() as record:
        for folder in folders:
            with os.scandir(folder) as entries:
                assert not [*entries]
    assert record.scanned == {str(folders[0])}
