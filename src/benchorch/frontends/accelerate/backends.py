"""Backends of a profile, checked for availability before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from benchorch.config.components import suggest
from benchorch.config.composer import Composer
from benchorch.config.hardware_aliases import backend
from benchorch.config.hardware_aliases import backends as usual_names
from benchorch.config.overrides import lift_lists, spelled
from benchorch.errors import ConfigError
from benchorch.results.report.console import ConsoleReport
from benchorch.run.planner import new_plan_id, plan_jobs

USUAL = ("local/eager", "local/inductor", "local/onnxruntime")
_STAND_IN = "mlp"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedBackend:
    """A backend under its requested name.

    Attributes:
        words: the overrides that choose it.
        labels: hardware kind and conversion, as its trials have them.
        unavailable: why it cannot be had; empty where it can.
    """

    name: str
    words: tuple[str, ...]
    labels: tuple[str, str] = ("", "")
    unavailable: str = ""


def opened(
    names: Sequence[str], common: Sequence[str], composer: Composer
) -> list[RequestedBackend]:
    """The backends; ConfigError with every problem, and where none is available.

    Args:
        names: as they were asked for, each once.
        common: overrides for all of them.
        composer: of the built-in configuration.
    """
    problems: list[str] = []
    found: list[RequestedBackend] = []
    for name in dict.fromkeys(names):
        try:
            found.append(_planned(name, _words(name), common, composer))
        except ConfigError as error:
            problems += error.problems
    if not names:
        problems.append("backends: none is given; None means the usual ones.")
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
    if all(each.unavailable for each in found):
        raise ConfigError([f"{each.name}: {each.unavailable}" for each in found])
    return found


def _words(name: object) -> tuple[str, ...]:
    if not isinstance(name, str):
        raise ConfigError([f"backends: expected a name such as local/inductor, got {name!r}."])
    try:
        found = backend(name)
    except ConfigError as error:
        near = suggest(name, usual_names())
        raise ConfigError(
            [f"{problem}{_if_new(near, problem)}" for problem in error.problems]
        ) from error
    if found.conversion is None:
        raise ConfigError(
            [f"backends: {name!r} does not name what runs the graphs; write {name}/inductor."]
        )
    return f"hardware={spelled(found.machine)}", f"conversion={spelled(found.conversion)}"


def _if_new(near: str, problem: str) -> str:
    return "" if "Did you mean" in problem else near


def _planned(
    name: str, words: tuple[str, ...], common: Sequence[str], composer: Composer
) -> RequestedBackend:
    """A backend's plan for a stand-in model: the graphs are not captured yet."""
    job = lift_lists([f"model={_STAND_IN}", *words, *common], composer.groups)
    planned = plan_jobs(composer, [job], new_plan_id())
    requested = planned.requested[0][0]
    for trial in planned.plan.trials:
        if trial.trial_id == requested:
            return RequestedBackend(name=name, words=words, labels=backend_labels(trial.labels))
    skip = planned.plan.skips[-1]
    remedy = f" To enable it: {skip.remedy}." if skip.remedy else ""
    return RequestedBackend(name=name, words=words, unavailable=f"{skip.reason}{remedy}")


def backend_labels(labels: Mapping[str, str]) -> tuple[str, str]:
    """Labels that identify a backend's trials."""
    return labels["hardware_kind"], labels["conversion"]


@final
class RemoteInferenceSession:
    """A choice of backends, as in octoml-profile; machines are allocated when graphs run there."""

    def __init__(self, backends: str | Sequence[str] | None = None) -> None:
        names = USUAL if backends is None else backends
        self.backends = (names,) if isinstance(names, str) else tuple(names)

    def print_supported_backends(self) -> None:
        """The usual names; any other size and any other conversion makes a name as well."""
        ConsoleReport().text("\n".join(usual_names()))

    def close(self) -> None:
        """Nothing is held between profiles, so there is nothing to release."""

    def __enter__(self) -> RemoteInferenceSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
