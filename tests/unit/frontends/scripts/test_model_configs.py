"""Names and files of the models that are found in scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from benchorch.config.composer import Composer, config_loader
from benchorch.domain.trial import node_of
from benchorch.frontends.scripts.discover import Script
from benchorch.frontends.scripts.model_configs import words_for, write_configs


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def script(path: Path) -> Script:
    path.touch()
    return Script(path=path)


def found_of(kind: str) -> dict[str, Any]:
    """What a script reports of one module."""
    call = {"hash": "504c47f8", "inputs": [], "model": {}}
    model = {"class": f"__main__.{kind}", "name": "net", "dtypes": ["float32"]}
    return {"labels": {}, "models": [{**model, "invocations": [call]}]}


def test_models_of_two_scripts_have_two_names(tmp_path: Path) -> None:
    scripts = [script(tmp_path / name) for name in ("a.py", "b.py")]
    found = found_of("Net")
    written = {each: write_configs(each, found) for each in scripts}
    names = [name for each in written.values() for name in each]
    assert len(set(names)) == 2
    assert f"model=[{','.join(names)}]" in words_for(written, [found, found])
    sources = [yaml.safe_load(path.read_text()) for w in written.values() for path in w.values()]
    assert [Path(each["script"]).name for each in sources] == ["a.py", "b.py"]


@pytest.mark.parametrize("kind", ["Größe", "My Net, v2 [x]"])
def test_a_class_of_any_name_can_be_chosen(tmp_path: Path, kind: str) -> None:
    one = script(tmp_path / "a.py")
    written = write_configs(one, found_of(kind))
    (word,) = (each for each in words_for({one: written}, []) if each.startswith("model="))
    (cell,) = Composer(config_loader([one.folder / "conf"])).cells([word, "conversion=eager"])
    assert node_of(cell.config, "model")["architecture"] == kind
