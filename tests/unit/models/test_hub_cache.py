"""What a plan states of weights that are fetched, by the hub's cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchorch.models.hub_cache import fetch_note

NAME, COMMIT = "someone/tiny", "0123456789" * 4


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def kept(cache: Path, file: str) -> None:
    """What `from_pretrained` leaves: a name for a commit, and the commit's files."""
    folder = cache / "models--someone--tiny"
    for path, text in ((f"snapshots/{COMMIT}/{file}", "x"), ("refs/main", COMMIT)):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def test_weights_that_are_not_here_are_fetched(cache: Path) -> None:
    note = fetch_note(NAME, "main", here=True)
    assert f"the weights of {NAME} are not in {cache} and are fetched from the hub." in note


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_offline_they_cannot_be(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "1")
    note = fetch_note(NAME, "main", here=True)
    assert f"the weights of {NAME} cannot be fetched, because {variable} is set" in note
    assert "model.pretrained=false draws random weights" in note
    monkeypatch.setenv(variable, "0")
    assert "are fetched" in fetch_note(NAME, "main", here=True)


@pytest.mark.parametrize("file", ["model.safetensors", "pytorch_model.bin"])
@pytest.mark.parametrize("revision", ["main", COMMIT])
def test_cached_weights_need_no_note(cache: Path, file: str, revision: str) -> None:
    kept(cache, file)
    assert fetch_note(NAME, revision, here=True) == ""
    assert fetch_note(NAME, "f" * 40, here=True)


def test_a_configuration_without_weights_is_not_enough(cache: Path) -> None:
    kept(cache, "config.json")
    assert "are fetched" in fetch_note(NAME, "main", here=True)


@pytest.mark.parametrize("revision", ["/dev/zero", "../../../../dev/zero", "pr/1", "", "a\0b"])
def test_a_name_that_is_no_name_of_the_cache_is_not_read(cache: Path, revision: str) -> None:
    kept(cache, "model.safetensors")
    assert "are fetched" in fetch_note(NAME, revision, here=True)


def test_other_machines_have_caches_of_their_own(cache: Path) -> None:
    kept(cache, "model.safetensors")
    assert fetch_note(NAME, "main", here=False).endswith(
        f"each machine fetches the weights of {NAME} from the hub."
    )


def test_a_folder_is_fetched_from_nowhere(tmp_path: Path) -> None:
    assert fetch_note(str(tmp_path), "main", here=True) == ""
