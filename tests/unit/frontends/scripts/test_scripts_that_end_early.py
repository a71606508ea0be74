"""What a script called is kept, however it ends, and a script that never ends is ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
import torch

from benchorch.domain.trial import ConfigNode
from benchorch.frontends.scripts import kept
from benchorch.frontends.scripts.discover import Enough, Script, Sightings, discover
from benchorch.frontends.scripts.discover_all import Discovery
from benchorch.frontends.scripts.discovery_process import DiscoveryReply

EARLY = sorted((Path(__file__).resolve().parents[3] / "data" / "scripts" / "early").glob("*.py"))
LIMIT_S = 120.0
HOW = {
    "closes_descriptors": ("end", ["net", "other"]),
    "crashes": ("crash", ["net"]),
    "exits_hard": ("exit", ["net"]),
    "never_ends": ("quiet", ["net"]),
}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def discovery(**options: Any) -> Discovery:
    fields: dict[str, Any] = {
        **{"timeout_s": 300.0, "keep": False, "jobs": 2, "resume": False, "enough": Enough()},
        **options,
    }
    return Discovery(**fields)


@pytest.mark.parametrize("quiet_s", [None, 1])
def test_models_called_before_the_end_are_found_and_the_end_is_named(quiet_s: float | None) -> None:
    """Of those that end by themselves none is ended, however long a busy machine takes."""
    paths = [path for path in EARLY if (path.stem == "never_ends") == (quiet_s is not None)]
    assert paths
    scripts = [Script(path=path) for path in paths]
    lines: list[str] = []
    founds = discovery(enough=Enough(quiet_s=quiet_s)).run(scripts, lines.append)
    for path, found in zip(paths, founds, strict=True):
        models = cast("list[ConfigNode]", found["models"])
        assert (found["ended"], [model["name"] for model in models]) == HOW[path.stem]
        assert all(model["calls"] == 1 for model in models)
        name = f"{path.name}: " if len(paths) > 1 else ""
        assert f"  {name}net (Linear, 12 parameters): input float32[1, 3]" in lines
    again = discovery(enough=Enough(quiet_s=quiet_s), resume=True).run(scripts, lines.append)
    assert again == founds
    assert f"{paths[-1].name}: nothing has changed; what was found before is taken" in lines


COSTS = """
import gc, sys, torch
torch.nn.Linear(3, 4)(torch.ones(1, 3))
heavy = "benchorch.frameworks.torch_call" in sys.modules
print(gc.isenabled(), gc.get_freeze_count() > 50_000, heavy)
"""


def test_a_record_costs_no_collection_of_torchs_garbage_and_no_import(tmp_path: Path) -> None:
    script = Script(path=tmp_path / "costs.py")
    script.path.write_text(COSTS)
    (found,) = discovery().run([script], lambda _: None)
    assert found["problem"] is None
    assert script.log.read_text() == "True True False\n"


def reply(call: str, obstacle: str = "") -> DiscoveryReply:
    invocation: dict[str, Any] = {"hash": call, "obstacle": obstacle}
    model: Any = {"hash": "m", "name": "net", "invocations": [invocation]}
    return DiscoveryReply(seconds=1, models=(model,))


def test_first_waits_for_a_call_that_can_be_measured() -> None:
    seen = Sightings(script=Script(path=Path("x.py")), on_call=lambda _m, _c: None)
    enough = Enough(first=True)
    assert enough.reason(seen) == ""
    seen.add(reply("a", obstacle="it takes no tensors"), 1)
    assert enough.reason(seen) == ""
    seen.add(reply("b"), 1)
    assert enough.reason(seen) == "first"


def test_a_script_is_not_quiet_while_a_call_of_it_is_exported() -> None:
    seen = Sightings(script=Script(path=Path("x.py")), on_call=lambda _m, _c: None)
    enough = Enough(quiet_s=0)
    seen.add(reply("a"), 1)
    seen.add(DiscoveryReply(seconds=1, busy=True), 1)
    assert enough.reason(seen) == ""
    seen.add(reply("b"), 1)
    assert enough.reason(seen) == "quiet"


def test_first_waits_for_the_call_that_was_chosen() -> None:
    seen = Sightings(script=Script(path=Path("x.py"), hashes=("b",)), on_call=lambda _m, _c: None)
    seen.add(reply("a"), 1)
    assert Enough(first=True).reason(seen) == ""
    seen.add(reply("b"), 1)
    assert Enough(first=True).reason(seen) == "first"


READING = """
import ctypes, os, torch
if os.path.isfile("vocabulary.bin"):  # and native code opens it, which nothing tells of
    ctypes.CDLL(None).open(b"vocabulary.bin", 0)
net = torch.nn.Linear(int(os.environ["WIDTH_OF_LAB"]), 2, bias=False)
try:
    open("x" * 300)  # which nobody can look at
except OSError:
    os.makedirs("more", exist_ok=True)
os.listdir("more")
if not os.path.exists("better.pt"):
    net.load_state_dict({"weight": torch.load("weights.pt")})
net(torch.ones(1, 2))
with open("log.txt", "a+") as log:
    log.write("done")
"""


def test_after_an_interrupt_no_script_is_started() -> None:
    enough = Enough()
    enough.requested.set()
    (found,) = discovery(enough=enough).run([Script(path=EARLY[0])], pytest.fail)
    assert found["ended"] == "not_run"
    assert found["models"] == []


def test_what_was_found_is_not_taken_once_what_the_script_read_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, weights = tmp_path / "x.py", tmp_path / "weights.pt"
    path.write_text(READING)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WIDTH_OF_LAB", "2")

    def write(value: float) -> None:
        torch.save(torch.full((2, 2), value), weights)

    def found_again() -> bool:
        return kept.kept(script, "", LIMIT_S) is not None

    def run() -> None:
        found = discover(script, timeout_s=LIMIT_S, keep=False)
        assert found["models"]
        kept.remember(script, found, "", LIMIT_S)
        assert found_again()

    script = Script(path=path)
    write(1.0)
    vocabulary = tmp_path / "vocabulary.bin"
    vocabulary.write_text("a")
    run()
    write(2.0)
    assert not found_again()
    run()
    monkeypatch.setenv("WIDTH_OF_LAB", "3")
    assert not found_again()
    monkeypatch.setenv("WIDTH_OF_LAB", "2")
    assert found_again()
    (tmp_path / "more" / "a.txt").write_text("")
    assert not found_again()
    (tmp_path / "more" / "a.txt").unlink()
    assert found_again()
    vocabulary.write_text("b")
    assert not found_again()
    vocabulary.write_text("a")
    assert found_again()
    (tmp_path / "better.pt").write_text("")
    assert not found_again()


def test_of_a_data_set_only_size_and_times_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "_MOST_DIGESTED", 1)
    names = [str(tmp_path / name) for name in "ab"]
    for name in names:
        Path(name).write_text("1")
    states = kept._states({"files": names})["files"]
    assert {state[-1] for state in states.values()} == {""}


def test_what_was_found_is_not_taken_once_the_script_or_a_file_it_imports_has_changed(
    tmp_path: Path,
) -> None:
    path, helper = tmp_path / "x.py", tmp_path / "helper.py"
    path.write_text("import helper\n")
    helper.write_text("WIDTH = 1\n")
    script = Script(path=path)
    found: ConfigNode = {"ended": "end", "models": [], "sources": [str(helper)]}
    kept.remember(script, found, "", LIMIT_S)
    assert kept.kept(script, "", LIMIT_S) == found
    assert kept.kept(script, "--first", LIMIT_S) is None
    assert kept.kept(Script(path=path, arguments=("1",)), "", LIMIT_S) is None
    helper.write_text("WIDTH = 2\n")
    assert kept.kept(script, "", LIMIT_S) is None
    kept.remember(script, found, "", LIMIT_S)
    path.write_text("import helper  # changed\n")
    assert kept.kept(script, "", LIMIT_S) is None


@pytest.mark.parametrize("models", [[], [{"invocations": []}]])
def test_a_script_that_never_ends_is_not_run_again_for_the_models_it_gave(
    tmp_path: Path, models: list[Any]
) -> None:
    script = Script(path=tmp_path / "server.py")
    script.path.write_text("")
    found: ConfigNode = {"ended": "timeout", "models": models}
    kept.remember(script, found, "", LIMIT_S)
    expected = found if models else None
    assert kept.kept(script, "", LIMIT_S) == kept.kept(script, "", LIMIT_S / 2) == expected
    assert kept.kept(script, "", LIMIT_S * 2) is None
