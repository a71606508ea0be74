"""Expected durations of trials, and the artifacts they share: from earlier runs, or a guess.

Forecasts decide the order of trials and nothing else. The store guarantees that an artifact is
built once, whatever is forecast here.
"""

import contextlib
import statistics
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import cast, final

from benchorch.config.components import resolve
from benchorch.domain.artifact import digest_of
from benchorch.domain.codec import Json
from benchorch.domain.node_memo import NodeMemo
from benchorch.domain.result import Outcome
from benchorch.domain.trial import ConfigNode, Trial
from benchorch.errors import ConfigError
from benchorch.executors.scheduling.queue import Forecast
from benchorch.interfaces.conversion import Step
from benchorch.interfaces.model import Model
from benchorch.journal import run_directory
from benchorch.journal.chain import mapping_of
from benchorch.journal.registry import newest_invocations

PROCESS_S = 3.0
"""A measuring process without its window: start, imports, load."""

START_S = 1.0
IMPORTED_S: Mapping[str, float] = {"torch": 1.0, "transformers": 4.0}
"""The same without imports, and what a model's take, with the making of usually large models."""

REFERENCE_S = 5.0
"""Loading a model and computing its reference outputs."""

MEASURE_S = 60.0
"""A measurement whose stopping rule has no limit."""

PROFILE_PROCESSES = 2
"""A profile and its critical path take as long as so many processes without windows."""

MOST_RUNS = 50
MOST_LINES = 5000
"""How many earlier runs, and results in them, are read, the newest first."""

_PROFILING = ("profile", "peaks", "explain")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PastTrial:
    """Durations of one past trial.

    Attributes:
        labels: its model, conversion and kind of hardware.
        measured_s, built_s, profiled_s: seconds of its stages; 0 where one did not run.
        processes: how many it measured in.
    """

    trial_id: str
    labels: tuple[str, ...]
    measured_s: float
    built_s: float
    profiled_s: float = 0.0
    processes: int = 0

    def measure_s(self, processes: int | None) -> float:
        """Measuring time, scaled to another number of processes if given."""
        if processes is None or not self.processes:
            return self.measured_s
        return self.measured_s / self.processes * processes


@final
@dataclass(frozen=True, slots=True)
class PastDurations:
    """Durations of trials in earlier runs.

    Attributes:
        by_trial: seconds measuring, by trial id.
        by_labels: trials, by the labels of `_labels`.
    """

    by_trial: dict[str, float] = field(default_factory=dict)
    by_labels: dict[tuple[str, ...], list[PastTrial]] = field(default_factory=dict)

    def measure_s(self, trial: Trial) -> float:
        """Measuring time of the same trial, else of similar ones, else by the stopping rule."""
        if trial.trial_id in self.by_trial:
            return self.by_trial[trial.trial_id]
        similar, planned = self._similar(trial), planned_processes(trial)
        if similar:
            return statistics.median(one.measure_s(planned) for one in similar)
        return _limit_s(trial.spec, planned)

    def profile_s(self, trial: Trial) -> float:
        """Profiling time of similar trials, else that of two processes."""
        profiled = [one.profiled_s for one in self._similar(trial) if one.profiled_s]
        return statistics.median(profiled or [PROFILE_PROCESSES * _process_s(trial.spec)])

    def build_s(self, trial: Trial) -> float:
        """Build time of similar trials, else typical of the steps."""
        similar = self._similar(trial)
        if similar:
            return statistics.median(one.built_s for one in similar)
        steps = _node(_node(trial.spec, "conversion"), "steps")
        return sum(map(_typical_build_s, steps.values()))

    def add(self, trials: Iterable[PastTrial]) -> None:
        """Add trials, the newest first; those that are there already are newer."""
        for one in trials:
            self.by_trial.setdefault(one.trial_id, one.measured_s)
            self.by_labels.setdefault(one.labels, []).append(one)

    def _similar(self, trial: Trial) -> Sequence[PastTrial]:
        return self.by_labels.get(_labels(trial.labels), ())


def past_durations(elsewhere: Iterable[PastTrial] = ()) -> PastDurations:
    """Durations of the runs on this machine, then of trials elsewhere; empty without any."""
    past = PastDurations()
    with contextlib.suppress(OSError, ValueError, KeyError):
        past = read_durations(newest_invocations(MOST_RUNS))
    past.add(one for one in elsewhere if one.trial_id not in past.by_trial)
    return past


def read_durations(directories: Iterable[Path]) -> PastDurations:
    """Durations in the journals of earlier runs.

    Args:
        directories: of runs, the newest first; missing and unreadable ones are skipped.
    """
    past = PastDurations()
    lines = (line for directory in directories for line in journal_lines(directory))
    past.add(past_trials(islice(lines, MOST_LINES)))
    return past


def past_trials(lines: Iterable[ConfigNode]) -> Iterator[PastTrial]:
    """The trials among a journal's lines that were measured to their end."""
    for line in lines:
        stages = _node(line, "stages_s")
        measured_s = _seconds(stages.get("measure"))
        build = _node(line, "build")
        if line.get("outcome") != Outcome.OK or line.get("unfinished") or measured_s is None:
            continue
        labels = {str(key): str(value) for key, value in _node(line, "labels").items()}
        processes = line.get("processes")
        yield PastTrial(
            trial_id=str(line.get("trial_id")),
            labels=_labels(labels),
            measured_s=measured_s,
            built_s=_seconds(build.get("original_build_s")) or 0.0,
            profiled_s=sum(_seconds(stages.get(name)) or 0.0 for name in _PROFILING),
            processes=len(processes) if isinstance(processes, list) else 0,
        )


def forecasts(trials: Sequence[Trial], past: PastDurations) -> dict[str, Forecast]:
    """Expected durations by trial id.

    Artifacts of a trial that was measured before count as built.
    """
    memo = NodeMemo()
    needs = {trial.trial_id: _needs(trial, past, memo) for trial in trials}
    seconds: dict[str, float] = {}
    for builds in needs.values():
        for name, taken_s in builds.items():
            seconds[name] = max(taken_s, seconds.get(name, 0.0))
    for measured in needs.keys() & past.by_trial:
        seconds.update(dict.fromkeys(needs[measured], 0.0))
    return {
        trial.trial_id: Forecast(
            measure_s=past.measure_s(trial),
            builds={name: seconds[name] for name in needs[trial.trial_id]},
        )
        for trial in trials
    }


def _needs(trial: Trial, past: PastDurations, memo: NodeMemo) -> dict[str, float]:
    """The artifacts of a trial and its baseline, each with the seconds its build takes.

    A name is a digest of what the artifact is built from, as far as the plan shows: conversions
    that begin with the same steps share their first artifacts, and all of a model its reference.
    """
    nodes = [trial.spec.get("model"), _node(trial.spec, "workload"), trial.spec.get("parity")]
    reference = memo.of("reference", nodes, lambda: f"reference {_digest(*nodes)}")
    found = {reference: REFERENCE_S}
    own, *baseline = conversions_of(trial)
    names = build_names(trial, own, memo=memo)
    found.update(dict.fromkeys(names, past.build_s(trial) / max(1, len(names))))
    others = (name for conversion in baseline for name in build_names(trial, conversion, memo=memo))
    found.update({name: Step.typical_build_s for name in others if name not in found})
    return found


def _typical_build_s(step: Json) -> float:
    """Typical build time of a step's class; of any step if the class cannot be imported."""
    try:
        return resolve(cast(ConfigNode, step), Step, "step").typical_build_s
    except ConfigError:
        return Step.typical_build_s


def conversions_of(trial: Trial) -> list[ConfigNode]:
    """Conversions built on the trial's node: its own and that of a paired baseline."""
    found = [_node(trial.spec, "conversion")]
    if trial.baseline_conversion and _node(trial.spec, "protocol").get("pairing") != "none":
        found.append(trial.baseline_conversion)
    return found


def build_names(
    trial: Trial,
    conversion: ConfigNode,
    n_steps: int | None = None,
    *,
    memo: NodeMemo | None = None,
) -> list[str]:
    """A name for each artifact of a conversion: a digest of its source and every step so far.

    Args:
        memo: of the digests of sources, where several trials have the same.
    """
    names = []
    spec, hardware = trial.spec, _node(trial.spec, "hardware")
    name = (memo or NodeMemo()).of(
        "source",
        [spec.get("model"), spec.get("workload"), hardware],
        lambda: _digest(built_from(spec), hardware.get("threads")),
    )
    for step in islice(_node(conversion, "steps").items(), n_steps):
        name = _digest(name, *step)
        names.append(name)
    return names


def built_from(spec: ConfigNode) -> Json:
    """The source of all conversions of a model, as far as the plan shows."""
    return [spec.get("model"), _fixed(_node(spec, "workload"))]


def _fixed(workload: ConfigNode) -> ConfigNode:
    """The workload without the sizes that stay dynamic, which enter no artifact."""
    dynamic = workload.get("dynamic")
    sizes = dynamic if isinstance(dynamic, list | tuple) else ()
    return {key: value for key, value in workload.items() if key not in sizes}


def planned_processes(trial: Trial, after: int = 0) -> int | None:
    """How many processes its stopping rule plans; None where it has a budget of time instead.

    A candidate is planned up to the first interim analysis, which decides clear differences; once
    it has measured in `after` processes, up to the next one.
    """
    stopping = _node(trial.spec, "stopping")
    unpaired, looks = stopping.get("unpaired_processes"), stopping.get("looks")
    if not isinstance(unpaired, int) or not isinstance(looks, list | tuple):
        processes = stopping.get("processes")
        return processes if isinstance(processes, int) else None
    if trial.baseline_id is None or _node(trial.spec, "protocol").get("pairing") == "none":
        return unpaired
    return next((look for look in looks if isinstance(look, int) and look > after), after)


def _limit_s(spec: ConfigNode, planned: int | None) -> float:
    """The stopping rule's budget, or its planned processes with their windows."""
    stopping = _node(spec, "stopping")
    if planned is None:
        budget_s = _seconds(stopping.get("budget_s"))
        return MEASURE_S if budget_s is None else budget_s
    window_s = stopping.get("window_s", stopping.get("max_window_s"))
    return planned * (_process_s(spec) + (_seconds(window_s) or 0.0))


def _process_s(spec: ConfigNode) -> float:
    """A measuring process without its window, by what the model requires."""
    with contextlib.suppress(ConfigError):
        requires = resolve(_node(spec, "model"), Model, "model").requires
        return START_S + sum(IMPORTED_S.get(name, 0.0) for name in requires)
    return PROCESS_S


def _labels(labels: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(labels.get(name, "") for name in ("model", "conversion", "hardware_kind"))


def journal_lines(directory: Path) -> Iterator[ConfigNode]:
    """The last lines of a run's results, the newest first; none where they cannot be read."""
    with contextlib.suppress(OSError):  # a damaged file must not cost the sweep
        lines = run_directory.whole_lines(directory / run_directory.RESULTS)
        for line in reversed(deque(lines, maxlen=MOST_LINES)):
            with contextlib.suppress(ValueError):
                yield mapping_of(line)


def _node(node: Json, key: str) -> ConfigNode:
    inner = node.get(key) if isinstance(node, Mapping) else None
    return inner if isinstance(inner, Mapping) else {}


def _seconds(value: Json) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if value >= 0 else None


def _digest(*values: Json) -> str:
    return digest_of(list(values))[:16]
