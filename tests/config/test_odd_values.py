"""Values of kinds that a configuration does not expect: a sentence, never a traceback."""

import contextlib
import re
import string
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchorch.config.composer import Composer, config_loader
from benchorch.config.recipe_errors import recipe_problems
from benchorch.errors import ConfigError
from benchorch.run.planner import plan_jobs

HEAD = """defaults:
  - config
  - override model: mlp
  - override conversion: eager
  - _self_

"""
LONG = "x" * 5000


def problems_of(*overrides: str, folder: Path | None = None, recipe: str = "config") -> str:
    composer = Composer(config_loader([folder] if folder else []), recipe)
    with pytest.raises(ConfigError) as caught:
        plan_jobs(composer, [list(overrides)], "p")
    return str(caught.value)


@pytest.mark.parametrize(
    ("yaml", "told"),
    [
        ("1: true", "1: a key is text, not 1"),
        ("workload: {1: [2]}", "workload.1: a key is text"),
        ("matrix: {0: null}", r"matrix\.0: expected a list of values"),
        ("matrix: {true: [1]}", "True"),
        ('name: !!binary "Ynl0ZXM="', "name: expected text or a number, got binary data"),
        ('workload: {x: [!!binary "Ynl0ZXM="]}', r"workload\.x\[0\]: .*binary data"),
    ],
)
def test_what_yaml_can_say_and_a_recipe_cannot(tmp_path: Path, yaml: str, told: str) -> None:
    (tmp_path / "odd.yaml").write_text(HEAD + yaml)
    found = problems_of(folder=tmp_path, recipe="odd")

    assert re.search(told, found), found


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("hydra/launcher=${oc.decode:'[1,2]'}", "hydra/launcher: unknown key"),
        (f"+model@other={LONG}", "model: there is no 'xxx"),
        (f"name={'[' * 3000}{']' * 3000}", "it is nested too deeply"),
    ],
)
def test_an_override_that_hydra_does_not_expect(override: str, told: str) -> None:
    found = problems_of("model=mlp", override)
    assert told in found
    assert LONG not in found


@pytest.mark.parametrize("wrong", ["", "x"])
def test_a_recipe_of_many_mistakes_is_not_looked_through_to_its_end(
    wrong: str, tmp_path: Path
) -> None:
    """Each value takes a composition of a tenth of a second."""
    tried: list[str] = []

    def problems(overrides: Sequence[str], *, sweep: bool) -> list[str]:
        tried.append(overrides[0])
        return [f"{overrides[0]}: not right."] if wrong else []

    groups = {"model", "conversion"}
    composer: Any = SimpleNamespace(groups=groups, session=lambda _: {}, problems=problems)
    axes = "".join(f"  workload.a{one}: [1, 2, 3, 4]\n" for one in range(200))
    (tmp_path / "odd.yaml").write_text(f"{HEAD}matrix:\n{axes}each: [a=1, b=2]\n")
    found = recipe_problems(tmp_path / "odd.yaml", composer)
    assert len(found) == (20 if wrong else 0)
    assert len(tried) == (22 if wrong else 50)  # with the two options of its defaults list


@pytest.mark.parametrize("key", ["name", "rebuild", "objective", "control"])
def test_a_message_names_a_variable_and_not_its_value(
    tmp_path: Path, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET", "hunter2")
    (tmp_path / "odd.yaml").write_text(f'{HEAD}{key}: {{model: "${{oc.env:A_SECRET}}"}}\n')
    found = problems_of(folder=tmp_path, recipe="odd")
    assert "hunter2" not in found
    assert "A_SECRET" in found


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["!!binary Ynl0ZXM=", "2026-01-01", "${x}", "${", "'${oc.env:HOME}'", "*a"])
    | st.text(string.ascii_letters + ":[]{}'\"#&*!-. ", max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.integers() | st.text(string.ascii_letters, max_size=4), inner, max_size=3
        )
    ),
    max_leaves=5,
)
KEYS = st.sampled_from(
    [
        *("name", "matrix", "each", "model", "workload", "stopping", "executor", "store", "other"),
        *("parity", "recorder", "rebuild", "profile", "baseline", "control", "hardware", "1"),
    ]
)


@settings(max_examples=12, deadline=None)
@given(data=st.dictionaries(KEYS, VALUES, max_size=2))
def test_no_recipe_gives_another_error(tmp_path_factory, data) -> None:
    folder = tmp_path_factory.mktemp("recipe")
    text = "".join(f"{key}: {value!r}\n" for key, value in data.items())
    (folder / "odd.yaml").write_text(HEAD + text)
    with contextlib.suppress(ConfigError):
        assert plan_jobs(Composer(config_loader([folder]), "odd"), [[]], "p").plan.trials


def test_a_directory_whose_name_is_too_long_is_refused() -> None:
    from benchorch.cli.arguments import _directory
    from benchorch.models import trust

    name = "x" * 3000
    with trust.declared(["--config-dir", name]), pytest.raises(ConfigError, match="no directory"):
        _directory(name)
