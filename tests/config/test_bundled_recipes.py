"""Every recipe that ships can be planned, and runs on a small model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchorch.cli.arguments import parse
from benchorch.cli.commands import plan
from benchorch.cli.main import run
from benchorch.errors import ConfigError

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
NAMES = sorted(path.stem for path in RECIPES.glob("*.yaml"))
SHORT = [
    "recorder=none", "profiler=none", "store.root=store", "protocol.canary_tolerance_ratio=null",
    "stopping=fixed", "stopping.processes=1", "stopping.window_s=0.05", "control=false",
    "protocol.pairing=none",
]  # fmt: skip
SMALL = {  # what makes a recipe a matter of seconds, beside SHORT
    "bert": ["model=bert_tiny", "conversion=eager", "workload.seq_len=8"],
    "ci_gate": ["conversion=eager", "workload.seq_len=8"],
    "generate": ["conversion=eager", "workload.new_tokens=4"],
    "own_model": ["conversion=[eager,onnxruntime]", "workload.batch_size=1"],
    "precision": ["conversion=[eager,bf16,dynamic_int8]", "workload.seq_len=8"],
    "server_load": ["model=mlp", "conversion=eager", "scenario.duration_s=0.5",
                    "scenario.min_queries=20", "scenario.utilisation_ratio=0.5"],
    "slo": ["model=mlp", "conversion=eager", "scenario.budget_s=2", "scenario.duration_s=0.5",
            "scenario.min_queries=20", "scenario.max_batch=1"],
    "sweep": ["model=mlp", "conversion=eager", "workload.batch_size=[1,4]",
              "workload.seq_len=8", "hardware.threads=1"],
    "tiny": ["conversion=eager", "workload.batch_size=1"],
    "two_commits": ["conversion=eager"],
}  # fmt: skip


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_it_can_be_planned_and_says_how_it_is_run_and_why(name: str) -> None:
    path = RECIPES / f"{name}.yaml"
    command, question, schema, *_ = path.read_text().splitlines()
    assert f"recipes/{name}.yaml" in command
    assert "?" in question
    assert schema == "# yaml-language-server: $schema=recipe.schema.json"
    found = plan.planned(parse([str(path)], "plan")).plan
    assert found.name in (name, name.removesuffix("_tiny"))
    assert len(found.trials) + len(found.skips) >= 2


def test_recipes_are_checked_together_and_each_mistake_is_told(tmp_path: Path) -> None:
    good = [str(RECIPES / f"{name}.yaml") for name in ("tiny", "sweep")]
    assert plan.run.reply(["--check", *good]).text == "2 recipes can be planned."
    for name in ("one", "two"):
        text = (RECIPES / "tiny.yaml").read_text().replace("eager", f"eagr_{name}")
        (tmp_path / f"{name}.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        plan.run.reply(["--check", good[0], "one.yaml", "two.yaml"])
    assert any("eagr_one" in one for one in caught.value.problems)
    assert any("eagr_two" in one for one in caught.value.problems)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SMALL))
def test_it_runs_on_a_small_model(name: str) -> None:
    words = ["run", str(RECIPES / f"{name}.yaml"), *SHORT, *SMALL[name], "hydra.run.dir=run"]
    assert run(words) == 0
    lines = Path("run/results.jsonl").read_text().splitlines()
    assert lines
    assert {json.loads(line)["outcome"] for line in lines} == {"ok"}


@pytest.mark.slow
def test_the_corpus_recipe_measures_the_models_of_scripts() -> None:
    Path("corpus").mkdir()
    for name, width in (("one", 4), ("two", 8)):
        text = f"import torch\ntorch.nn.Linear({width}, 2)(torch.ones(1, {width}))\n"
        Path(f"corpus/{name}.py").write_text(text)
    recipe = str(RECIPES / "corpus.yaml")
    assert run(["script", "corpus/*.py", recipe, "--jobs", "1", *SHORT, "conversion=eager"]) == 0
    found = [
        json.loads(line) for path in Path("runs").rglob("results.jsonl") for line in path.open()
    ]
    assert [one["outcome"] for one in found] == ["ok", "ok"]
