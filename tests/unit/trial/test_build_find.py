"""What was built is found again without a process, a model or an input."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from benchorch.config.trial_setup import TrialSetup
from benchorch.domain.session import Session
from benchorch.host import environment
from benchorch.stores.local import LocalStore
from benchorch.trial import build_keys
from benchorch.trial.build import BuildJob, Built
from support import conversions as lab


def session(directory: Path, rebuild: str = "if_needed") -> Session:
    return Session(plan_id="p", directory=directory, store={}, rebuild=rebuild)


def job(place: Path, of: TrialSetup, **changes: Any) -> BuildJob:
    store = LocalStore(root=str(place / "store"))
    given = {"name": "n", "store": store, "session": session(place), "inputs": 1, "threads": 1}
    return BuildJob(setup=of, **{**given, **changes})


def chain() -> TrialSetup:
    return lab.chain_of("export")


def build(place: Path, of: TrialSetup, **changes: Any) -> Built:
    return job(place, of, **changes).build(lambda _: None)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder where the chain is built, for tests that only look for it."""
    place = tmp_path_factory.mktemp("built")
    build(place, chain())
    return place


def test_it_is_what_building_again_would_answer(tmp_path: Path) -> None:
    assert job(tmp_path, chain()).find() is None
    build(tmp_path, chain())
    found = job(tmp_path, chain()).find()
    assert found == build(tmp_path, chain())
    assert found.record.cache == "hit"
    assert found.record.build_s == 0


def test_it_loads_no_model_and_makes_no_input(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("nothing is found out")

    for name in ("load", "batch", "identity"):
        monkeypatch.setattr(lab.TinyModel, name, refuse)
    assert job(built, chain()).find() is not None


def test_the_record_names_the_model_also_where_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    eager = lab.chain_of("eager")
    first = build(tmp_path, eager).record
    again = build(tmp_path, eager, session=session(tmp_path / "again")).record
    assert (first.key, again.key) == ("", "")
    assert first.reference == again.reference != ""
    monkeypatch.setattr(lab.TinyModel, "identity", lambda _: {"model": "another"})
    other = build(tmp_path, eager, session=session(tmp_path / "other")).record
    assert other.model_digest == first.model_digest
    assert other.is_of_another_model(first)


def test_a_model_that_no_other_invocation_can_identify_has_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab.TinyModel, "identity", lambda _: {"invocation": "this one"})
    assert build(tmp_path, lab.chain_of("eager")).record.reference == ""


def test_nothing_is_found_for_what_was_not_built(built: Path) -> None:
    strict = lab.chain_of("export", changes={"export": {"strict": True}})
    assert job(built, strict).find() is None
    assert job(built, chain(), inputs=2).find() is None
    assert job(built, chain(), session=session(built, "always")).find() is None


def test_what_another_invocation_noted_is_not_believed(built: Path, tmp_path: Path) -> None:
    assert job(built, chain(), session=session(tmp_path)).find() is None


@pytest.mark.parametrize("text", ["", "{"])
def test_a_note_that_makes_no_sense_is_found_out_anew(tmp_path: Path, text: str) -> None:
    build(tmp_path, chain())
    for note in (tmp_path / "notes").glob("identity-*.json"):
        note.write_text(text)
    assert job(tmp_path, chain()).find() is None
    assert build(tmp_path, chain()).record.cache == "hit"


def test_an_artifact_that_was_removed_is_not_found(tmp_path: Path) -> None:
    made = build(tmp_path, chain())
    assert made.source is not None
    shutil.rmtree(made.source.parent)
    assert job(tmp_path, chain()).find() is None
    assert build(tmp_path, chain()).record.cache == "miss"


def test_options_that_are_spelt_out_are_the_same_build(built: Path) -> None:
    said = lab.chain_of("export", changes={"export": {"strict": False, "dynamic": False}})
    unsaid = lab.chain_of("aot_inductor")
    assert said.key({}, 1, {}) == unsaid.key({}, 1, {})
    assert job(built, said).find() is not None


def test_the_beginning_of_a_chain_is_built_ahead_for_the_whole(tmp_path: Path) -> None:
    whole = lab.chain_of("onnxruntime_int8_dynamic")
    (first, last) = (name for name, _ in whole.steps)
    begun = build(tmp_path, whole.first(1))
    assert begun.record.steps == {first: "miss"}
    elsewhere = session(tmp_path / "elsewhere")
    finished = build(tmp_path, whole, session=elsewhere)
    assert finished.record.steps == {first: "hit", last: "miss"}


@pytest.mark.parametrize(
    ("conversion", "steps"),
    [
        ("eager", 0),
        ("aot_inductor", 1),
        ("inductor", 0),
        ("export", 1),
        ("onnxruntime", 1),
        ("torchscript", 0),
    ],
)
def test_only_files_that_no_hardware_determines_can_be_built_anywhere(
    conversion: str, steps: int
) -> None:
    assert lab.chain_of(conversion).portable_steps == steps


def test_what_can_be_built_anywhere_is_found_by_a_torch_for_another_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chain = lab.chain_of("aot_inductor")

    def keys(tag: str) -> list[str]:
        version = f"2.13.0+{tag}"
        monkeypatch.setattr(
            environment, "package_versions", lambda names: dict.fromkeys(names, version)
        )
        return [chain.key({}, n_steps, {}).digest for n_steps in (0, 1, 2)]

    cpu, cuda = keys("cpu"), keys("cu130")
    assert [one == other for one, other in zip(cpu, cuda, strict=True)] == [True, True, False]


def test_another_invocation_finds_it_without_loading_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab.TinyModel, "identity", lambda _: {"model": "tiny"})
    made = build(tmp_path, chain())
    monkeypatch.setattr(lab.TinyModel, "load", lambda *_: pytest.fail("the model is loaded"))
    elsewhere = session(tmp_path / "elsewhere")
    found = job(tmp_path, chain(), session=elsewhere).find(finds_out=True)
    assert found is not None
    assert found.source == made.source
    assert job(tmp_path, chain(), session=elsewhere).find() == found  # by its notes


def test_what_only_loading_can_identify_is_not_found_without(built: Path, tmp_path: Path) -> None:
    assert job(built, chain(), session=session(tmp_path)).find(finds_out=True) is None


def test_a_build_of_a_model_whose_complex_weights_lost_their_imaginary_parts_is_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab.TinyModel, "identity", lambda _: {"class": "declared"})
    with monkeypatch.context() as before:
        before.setattr(build_keys, "_KEEPS_COMPLEX", {})
        build(tmp_path, chain())
    assert build(tmp_path, chain(), session=session(tmp_path / "now")).record.cache == "miss"
