"""The view of the runs table, as MLflow's own front end reads and lists it."""

# ruff: noqa: TID251  what we wrote is read back with MLflow itself

from __future__ import annotations

import json
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from benchorch.recorders.mlflow import Mlflow
from benchorch.recorders.mlflow_view import SAVED_VIEW, VIEW_TAG
from support.recorded_trials import PLAN

STATE: dict[str, Any] = json.loads(json.loads(SAVED_VIEW)["state"])


def bundle() -> list[str]:
    """The scripts of the installed MLflow's user interface."""
    spec = find_spec("mlflow")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "server" / "js" / "build" / "static" / "js"
    return [path.read_text(errors="replace") for path in folder.glob("*.js")]


def test_a_new_experiment_and_an_old_one_have_the_view(tmp_path: Path) -> None:
    from mlflow import MlflowClient

    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    Mlflow(uri=uri).open(PLAN, tmp_path)
    client = MlflowClient(tracking_uri=uri)
    tags = client.get_experiment_by_name("benchorch").tags
    assert tags == {VIEW_TAG: SAVED_VIEW}
    client.create_experiment("old")
    Mlflow(uri=uri, experiment="old").open(PLAN, tmp_path)
    old = client.get_experiment_by_name("old")
    assert old.tags == tags
    ordered = [f"{STATE['orderByKey']} DESC"]
    assert not client.search_runs([old.experiment_id], STATE["searchFilter"], order_by=ordered)


def names_after(first: str, text: str) -> list[set[str]]:
    """Each array of names in the scripts that begins with this one."""
    found = re.findall(rf'=\[("{first}",[^\]]*)\]', text)
    return [set(json.loads(f"[{names}]")) for names in found]


def test_every_word_of_the_view_is_one_of_mlflows() -> None:
    text = "\n".join(bundle())
    facets = {"searchFilter", "orderByKey", "orderByAsc"}
    assert any(facets <= names for names in names_after("searchFilter", text))
    assert any(set(STATE) - facets <= names for names in names_after("selectedColumns", text))
    for word in ("viewStateShareKey", f"{VIEW_TAG.rpartition('.')[0]}.", STATE["runsHiddenMode"]):
        assert f'"{word}"' in text
    for key in {*STATE["compareRunCharts"][0], *STATE["compareRunSections"][0]}:
        assert re.search(rf"[,{{.]{key}\b", text), key


@pytest.mark.skipif(not shutil.which("node"), reason="needs Node.js to run MLflow's own reader")
def test_mlflows_own_reader_lists_and_opens_the_view() -> None:
    found = [
        match
        for script in bundle()
        for match in re.finditer(
            r"\b[a-z]=e=>\{const t=JSON\.parse\(e\);.{0,600}?state:t\.state\}\}", script
        )
    ]
    reader = found[0][0].partition("=")[2]
    asked = f"const read={reader}; console.log(JSON.stringify(read({json.dumps(SAVED_VIEW)})))"
    done = subprocess.run(["node", "-e", asked], capture_output=True, text=True, check=True)
    read = json.loads(done.stdout)
    assert read["name"] == "benchorch"
    assert json.loads(read["state"]) == STATE
