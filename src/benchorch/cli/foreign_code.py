"""Code that a recipe would have Hydra or Python's logging call before there is a plan.

And the folders that a stranger's recipe would have Hydra write to.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchorch.config.components import TARGET
from benchorch.config.composer import Composer
from benchorch.config.composition import composition_errors
from benchorch.domain.codec import Json
from benchorch.domain.trial import ConfigNode, node_of
from benchorch.errors import ConfigError
from benchorch.models import trust

# A class of a launcher, a sweeper or what a sweeper is made of; no function, nothing by an alias.
_PLUGIN = re.compile(
    r"(hydra_plugins|hydra\._internal\.core_plugins|optuna\.(samplers|pruners))(\._?[a-z]\w*)*"
    r"\.[A-Z]\w*"
)
_MADE_BY_LOGGING = ("handlers", "formatters", "filters")
_OWN_NUMBERS = re.compile(r"\$\{(now:[^{}]*|hydra\.job\.num)\}")


def refuse_foreign_code(composer: Composer, overrides: Sequence[str]) -> None:
    """ConfigError where a recipe would have Hydra itself call something that is not its own.

    Hydra makes callbacks, and Python's logging its handlers, of whatever a file names, before
    there is a plan. What cannot be composed is left to whoever explains that.
    """
    with contextlib.suppress(*composition_errors()):
        refuse_foreign(composer.hydra_settings(overrides))


def refuse_foreign(settings: ConfigNode) -> None:
    """ConfigError where Hydra's settings, unresolved, name what is not Hydra's own."""
    problems = list(_foreign(settings))
    if problems:
        raise ConfigError(problems)


def _foreign(settings: ConfigNode) -> Iterator[str]:
    if settings["callbacks"]:
        yield "hydra.callbacks: is not for recipes, because Hydra calls whatever it names."
    if node_of(settings, "job").get("env_set"):
        yield "hydra.job.env_set: is not for recipes; set variables before the command."
    if node_of(settings, "job").get("chdir"):
        yield "hydra.job.chdir: is not for runs, which find their files from the current folder."
    for name in ("hydra_logging", "job_logging"):
        made = settings[name] or {}
        if not isinstance(made, dict) or any(made.get(part) for part in _MADE_BY_LOGGING):
            yield f"hydra.{name}: is not for recipes, because logging calls whatever it names."
    for place, target in _targets(settings, "hydra"):
        if not _PLUGIN.fullmatch(str(target)):
            yield f"{place}.{TARGET}: {target!r} is no plugin of Hydra's, so it is not loaded."
    for place, value in _places(settings):
        if not _is_below_here(value) and (why := trust.choice_refusal(value)):
            yield why.within(f"{place}: ")


def _places(settings: ConfigNode) -> Iterator[tuple[str, str]]:
    """Where Hydra writes, and where a sweeper of its keeps what it tried."""
    run, sweep, sweeper = (node_of(settings, key) for key in ("run", "sweep", "sweeper"))
    yield "hydra.run.dir", str(run.get("dir"))
    yield "hydra.sweep.dir", str(sweep.get("dir"))
    yield "hydra.sweep.subdir", str(sweep.get("subdir"))
    for key, node in ("output_subdir", settings), ("storage", sweeper):
        if node.get(key):
            yield f"hydra.{'sweeper.' * (node is sweeper)}{key}", str(node[key])


def _is_below_here(value: str) -> bool:
    """Whether a path, less its time and number, stays in the current folder, links followed."""
    plain = _OWN_NUMBERS.sub("x", value)
    here = Path.cwd().resolve()
    return (
        "${" not in plain and "://" not in plain and (here / plain).resolve().is_relative_to(here)
    )


def _targets(node: Json, place: str) -> Iterator[tuple[str, Json]]:
    """Every class that is named at or below a node, with its place."""
    if isinstance(node, dict):
        if TARGET in node:
            yield place, node[TARGET]
        for key, value in node.items():
            yield from _targets(value, f"{place}.{key}")
    elif isinstance(node, list):
        for number, value in enumerate(node):
            yield from _targets(value, f"{place}[{number}]")
