"""The JSON schema of recipes: it accepts what can be planned and marks what cannot."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from benchorch.cli.commands import plan
from benchorch.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "recipes" / "recipe.schema.json").read_text())
CHECKS = jsonschema.Draft7Validator(SCHEMA)
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))
EXAMPLES = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/reference/recipes.md").read_text(), re.S)
GROUPS = list(SCHEMA["definitions"])
START = """defaults:
  [config, override model: mlp, override conversion: eager, override recorder: none, _self_]
"""


def places(text):
    """Where a recipe breaks the schema."""
    return [error.json_path for error in CHECKS.iter_errors(yaml.safe_load(text))]


def test_it_is_a_schema():
    jsonschema.Draft7Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("text", [*(path.read_text() for path in RECIPES), *EXAMPLES])
def test_a_recipe_that_is_shown_fits_and_names_its_schema(text):
    assert places(text) == []
    assert "# yaml-language-server: $schema=recipe.schema.json\n" in text


@pytest.mark.parametrize("group", GROUPS)
def test_every_option_fits_with_the_values_it_has(group):
    options = sorted((ROOT / "conf" / group).glob("[!_]*.yaml"))
    assert options
    for path in options:
        node = yaml.safe_load(path.read_text())
        given = {k: v for k, v in node.items() if k != "defaults" and v != "???"}
        recipe = {"defaults": ["config", {f"override {group}": path.stem}], group: given}
        assert places(json.dumps(recipe)) == [], path


def test_the_values_of_the_root_fit():
    root = yaml.safe_load((ROOT / "conf" / "config.yaml").read_text())
    assert places(json.dumps({**root, "defaults": ["config"]})) == []


@pytest.mark.parametrize(
    "text",
    [
        "matrix: {workload: {batch_size: [1]}, conversion: [bf16+onnxruntime]}",
        "matrix: {workload.batch_size: [1], conversion: [FP16+EXPORT]}",
        "workload: {batch_size: [1, 4], tokens_of_mine: 3}",
        "workload: {seed: '${workload.batch_size}'}",
        "hardware: {threads: 1}\nbudget: {max_usd: 2.5}\nlimits: {memory_gib: null}",
    ],
)
def test_what_can_be_planned_fits(text, tmp_path):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(START + text)
    assert places(recipe.read_text()) == []
    plan.check([str(recipe)])


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("matrx: {conversion: [eager]}", "$"),
        ("matrix: {conversion: eager}", "$.matrix.conversion"),
        ("matrix: {conversion: []}", "$.matrix.conversion"),
        ("matrix: {conversion: [inductr]}", "$.matrix.conversion"),
        ("matrix: {conversion: [bf16+inductr]}", "$.matrix.conversion"),
        ("matrix: {protocol.repeats: [many]}", "$.matrix['protocol.repeats'][0]"),
        ("protocol: {pairing: sometimes}", "$.protocol.pairing"),
        ("protocol: {slice_ms: long}", "$.protocol.slice_ms"),
        ("stopping: {max_proceses: 4}", "$.stopping"),
        ("limits: {memory_gb: 4}", "$.limits"),
        ("budget: {minutes: soon}", "$.budget.minutes"),
        ("workload: {batch_size: big}", "$.workload.batch_size"),
        ("objective: latency", "$.objective"),
        ("rebuild: perhaps", "$.rebuild"),
        ("each: {stopping.calls: 5}", "$.each"),
    ],
)
def test_what_it_marks_cannot_be_planned(text, place, tmp_path):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(START + text)
    assert places(recipe.read_text()) == [place]
    with pytest.raises(ConfigError):
        plan.check([str(recipe)])


@pytest.mark.parametrize("entry", ["override conversion: inductr", "override stoping: quick"])
def test_a_choice_that_does_not_exist_is_marked(entry, tmp_path):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(f"defaults: [config, {entry}, _self_]\n")
    assert places(recipe.read_text()) == ["$.defaults[1]"]
    with pytest.raises(ConfigError):
        plan.check([str(recipe)])
