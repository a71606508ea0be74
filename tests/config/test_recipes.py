"""Which file a recipe is."""

from pathlib import Path

import pytest

from benchorch.cli.arguments import parse
from benchorch.errors import ConfigError


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text("defaults: [config, _self_]\n")
    return path


def test_a_recipe_is_found_and_its_directory_comes_first(recipe: Path) -> None:
    request = parse([str(recipe)])
    assert (request.config_name, request.directories) == ("mine", (recipe.parent,))


def test_a_file_beside_a_recipe_that_would_replace_the_root_is_told(recipe: Path) -> None:
    (recipe.parent / "config.yaml").write_text("foo: 1\n")
    with pytest.raises(ConfigError, match="would take the place of benchorch's own config"):
        parse([str(recipe)])


def test_a_recipe_cannot_have_the_roots_own_name(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("defaults: [config, _self_]\n")
    with pytest.raises(ConfigError, match="a recipe needs another name"):
        parse([str(tmp_path / "config.yaml")])


def test_a_root_of_ones_own_is_taken_from_a_directory_that_was_named(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("defaults: [config, _self_]\n")
    assert parse(["--config-dir", str(tmp_path)]).directories == (tmp_path,)
