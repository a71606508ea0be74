"""More combinations than anybody waits for, and values that no sweep holds, are a sentence."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchorch.cli import main
from benchorch.config.composer import Composer, config_loader
from benchorch.config.overrides import spelled
from benchorch.errors import ConfigError
from support.loggers import unchanged_loggers

SYMBOLS = ("batch_size", "seq_len", "new_tokens")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path) -> Iterator[None]:
    with contextlib.chdir(tmp_path), contextlib.redirect_stdout(io.StringIO()), unchanged_loggers():
        yield


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["-m", "workload.batch_size=range(1,1000000000000)"], "1e+12 combinations; 100,000 are"),
        (["-m", "workload.batch_size=range(0.0,1e300,1e-300)"], "inf combinations"),
        (["-m", "workload.batch_size=range(1,9,0)"], "inf combinations"),
        (["-m", "workload.batch_size=range(1,2),range(1,2)"], "a list of values holds a sweep"),
        (
            [f"workload.{name}={[*range(1, 48)]}" for name in SYMBOLS],
            "1.038e+05",
        ),
    ],
)
def test_a_sweep_that_nobody_waits_for_is_refused(words: list[str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence.replace("+", r"\+")):
        main.run(["plan", "model=mlp", "conversion=eager", *words])


def test_a_matrix_that_nobody_waits_for_is_refused() -> None:
    """By the composer: a command would also look for the place of each mistaken value."""
    axes = {f"workload.{name}": [*range(1, 48)] for name in SYMBOLS}
    matrix = f"++matrix={spelled(axes, exact=True)}"
    with pytest.raises(ConfigError, match="matrix has"):
        Composer(config_loader()).cells(["model=mlp", "conversion=eager", matrix])


@pytest.mark.parametrize("model", ["{widths: [4]}", "[mlp]", "null", "1"])
def test_a_recipe_without_defaults_may_have_any_model(model: str) -> None:
    Path("r.yaml").write_text(f"model: {model}\n")
    with pytest.raises(ConfigError, match="there is no defaults list"):
        main.run(["plan", "r.yaml"])
