"""The JSON schema of recipes: it accepts what can be planned and marks what cannot."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from benchorch.cli.commands import plan
from benchorch.errors import ConfigError
from support.slices import one_in

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
    one_in(
        2,
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
    ),
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


def snippets():
    """Each YAML snippet of the documentation, with its page and its title."""
    block = re.compile(r'```yaml(?: title="(.*?)")?\n(.*?)```', re.S)
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for title, text in block.findall(page.read_text()):
            yield page.name, title, yaml.safe_load(text)


def as_recipe(title, node):
    """A snippet as a recipe that holds it; None for another program's file, or another format."""
    if not isinstance(node, dict) or node.keys() & {"repos", "changes", "groups", "trust"}:
        return None
    found = re.search(r"conf/(\w+)/\w+\.yaml$", title)
    group = found[1] if found else "conversion" if "steps" in node else None
    if node.keys() <= {"inputs", "kwargs"}:
        group = "model"
    if group is None:
        return node
    values = {key: value for key, value in node.items() if key != "defaults"}
    return {"defaults": ["config"], group: values}


@pytest.mark.parametrize(("page", "title", "node"), list(snippets()))
def test_what_the_documentation_shows_fits(page, title, node):
    recipe = as_recipe(title, node)
    if recipe is None:
        pytest.skip("no part of a recipe")
    if not str(node.get("_target_", "benchorch.")).startswith("benchorch."):
        pytest.skip("the schema has no classes of others")
    assert places(json.dumps(recipe)) == []


def test_most_of_what_the_documentation_shows_is_checked():
    checked = [page for page, title, node in snippets() if as_recipe(title, node)]
    assert len(checked) >= 14
