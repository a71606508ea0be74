"""What trials are expected to take and which artifacts they share: from earlier runs, or a guess.

It decides the order of trials and nothing else. That an artifact is built once is the store's
promise, whatever is guessed here.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TypeAlias, final

from benchorch.domain.artifact import digest_of
from benchorch.domain.codec import Json
from benchorch.domain.result import Outcome
from benchorch.domain.trial import ConfigNode, Trial
from benchorch.executors.scheduling.queue import Forecast
from benchorch.journal import run_directory
from benchorch.journal.registry import newest_invocations

PROCESS_S = 3.0
"""What a measuring process takes besides its window: start, imports, load."""

BUILD_STEP_S = 20.0
"""What a step of a conversion takes that was never seen: exporters take less, compilers more."""

REFERENCE_S = 5.0
"""What loading a model and computing its reference outputs takes."""

MEASURE_S = 60.0
"""What measuring takes where the stopping rule does not tell."""

MOST_RUNS = 50
MOST_LINES = 5000
"""How many earlier runs, and results in them, are looked at, the newest first."""

_Alike: TypeAlias = tuple[str, ...]


@final
@dataclass(frozen=True, slots=True)
class Experience:
    """How long trials took in earlier runs.

    Attributes:
        same: seconds measuring, by trial id.
        alike: seconds measuring and building, by the labels of `_alike`.
    """

    same: dict[str, float] = field(default_factory=dict)
    alike: dict[_Alike, list[tuple[float, float]]] = field(default_factory=dict)

    def measure_s(self, trial: Trial) -> float:
        """Of the same trial, else of those like it, else as long as its stopping rule may take."""
        if trial.trial_id in self.same:
            return self.same[trial.trial_id]
        seen = self.alike.get(_alike(trial.labels))
        return statistics.median(s for s, _ in seen) if seen else _allowed_s(trial.spec)

    def build_s(self, trial: Trial) -> float:
        """Of trials like it, else so much a step."""
        seen = self.alike.get(_alike(trial.labels))
        if seen:
            return statistics.median(s for _, s in seen)
        return BUILD_STEP_S * len(_node(_node(trial.spec, "conversion"), "steps"))


def remembered() -> Experience:
    """What the runs of this machine tell; nothing where nothing is remembered."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        return experience(newest_invocations(MOST_RUNS))
    return Experience()


def experience(directories: Iterable[Path]) -> Experience:
    """What the journals of earlier runs tell.

    Args:
        directories: of runs, the newest first; what is gone or unreadable is passed over.
    """
    known = Experience()
    lines = (line for directory in directories for line in _lines(directory))
    for line in islice(lines, MOST_LINES):
        measured_s = _seconds(_node(line, "stages_s").get("measure"))
        build = _node(line, "build")
        if line.get("outcome") != Outcome.OK or measured_s is None:
            continue
        known.same.setdefault(str(line.get("trial_id")), measured_s)
        built_s = _seconds(build.get("original_build_s")) or 0.0
        labels = {str(key): str(value) for key, value in _node(line, "labels").items()}
        known.alike.setdefault(_alike(labels), []).append((measured_s, built_s))
    return known


def forecasts(trials: Sequence[Trial], known: Experience) -> dict[str, Forecast]:
    """What each trial is expected to take, by its id.

    What a trial needed that was measured before is taken to be there already.
    """
    needs = {trial.trial_id: _needs(trial, known) for trial in trials}
    seconds: dict[str, float] = {}
    for builds in needs.values():
        for name, taken_s in builds.items():
            seconds[name] = max(taken_s, seconds.get(name, 0.0))
    seconds.update({name: 0.0 for seen in needs.keys() & known.same for name in needs[seen]})
    return {
        trial.trial_id: Forecast(
            measure_s=known.measure_s(trial),
            builds={name: seconds[name] for name in needs[trial.trial_id]},
        )
        for trial in trials
    }


def _needs(trial: Trial, known: Experience) -> dict[str, float]:
    """The artifacts a trial and its baseline are made of, each with the seconds it takes.

    Names say what an artifact is made from, as far as a plan tells: chains that begin alike share
    their first artifacts, and all conversions of a model share its reference outputs.
    """
    spec = trial.spec
    workload = _node(spec, "workload")
    found = {f"reference {_digest(spec.get('model'), workload, spec.get('parity'))}": REFERENCE_S}
    own, *baseline = conversions_of(trial)
    names = build_names(trial, own)
    found.update(dict.fromkeys(names, known.build_s(trial) / max(1, len(names))))
    theirs = (name for conversion in baseline for name in build_names(trial, conversion))
    found.update({name: BUILD_STEP_S for name in theirs if name not in found})
    return found


def conversions_of(trial: Trial) -> list[ConfigNode]:
    """Those that its node builds: its own, then its baseline's where it meets that one."""
    found = [_node(trial.spec, "conversion")]
    if trial.baseline_conversion and _node(trial.spec, "protocol").get("pairing") != "none":
        found.append(trial.baseline_conversion)
    return found


def build_names(trial: Trial, conversion: ConfigNode, n_steps: int | None = None) -> list[str]:
    """A name for each artifact of a chain: what it is made from, and every step so far."""
    names = []
    name = _digest(built_from(trial.spec), _node(trial.spec, "hardware").get("threads"))
    for step in islice(_node(conversion, "steps").items(), n_steps):
        name = _digest(name, *step)
        names.append(name)
    return names


def built_from(spec: ConfigNode) -> Json:
    """What all conversions of a model begin with, as far as a plan tells."""
    return [spec.get("model"), _closed(_node(spec, "workload"))]


def _closed(workload: ConfigNode) -> ConfigNode:
    """The workload as artifacts see it: the sizes that stay open enter none."""
    dynamic = workload.get("dynamic")
    open_sizes = dynamic if isinstance(dynamic, list | tuple) else ()
    return {key: value for key, value in workload.items() if key not in open_sizes}


def _allowed_s(spec: ConfigNode) -> float:
    """How long the stopping rule may take: its budget, or its processes with their windows."""
    stopping = _node(spec, "stopping")
    budget_s, processes = (_seconds(stopping.get(key)) for key in ("budget_s", "processes"))
    if budget_s is not None:
        return budget_s
    if processes is not None:
        return processes * (PROCESS_S + (_seconds(stopping.get("window_s")) or 0.0))
    return MEASURE_S


def _alike(labels: Mapping[str, str]) -> _Alike:
    return tuple(labels.get(name, "") for name in ("model", "conversion", "hardware_kind"))


def _lines(directory: Path) -> Iterator[ConfigNode]:
    with contextlib.suppress(OSError, ValueError):  # a foreign file must not cost the sweep
        for line in run_directory.read_lines(directory / run_directory.RESULTS):
            if isinstance(line, Mapping):
                yield line


def _node(node: Json, key: str) -> ConfigNode:
    inner = node.get(key) if isinstance(node, Mapping) else None
    return inner if isinstance(inner, Mapping) else {}


def _seconds(value: Json) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if value >= 0 else None


def _digest(*values: Json) -> str:
    return digest_of(list(values))[:16]
