"""From cells to a plan: every mistake found, every cell either a trial or a skip with a reason."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from benchorch.config.composer import MatrixCell
from benchorch.config.hardware_aliases import is_made, machine_of
from benchorch.config.trial_setup import TrialSetup, open_trial
from benchorch.domain.artifact import canonical_json
from benchorch.domain.codec import Json
from benchorch.domain.tensors import NOT_SYMBOLS
from benchorch.domain.trial import ConfigNode, Plan, Skip, Trial
from benchorch.errors import ConfigError
from benchorch.host.environment import is_installed
from benchorch.interfaces.executor import Executor
from benchorch.models.callables import reference_problems

TRIAL_ID_DIGITS = 16
_SPEC_KEYS = (
    "model",
    "workload",
    "conversion",
    "hardware",
    "scenario",
    "stopping",
    "protocol",
    "parity",
    "limits",
)


def plan(
    cells: Sequence[MatrixCell],
    *,
    executor: Executor,
    plan_id: str,
    name: str,
    session: ConfigNode,
    baseline: tuple[str, ConfigNode] | None,
) -> tuple[Plan, tuple[str, ...]]:
    """The plan, and the trial id of each cell ("" for a skip); ConfigError with every problem.

    Args:
        cells: what was asked for.
        executor: decides which hardware can be reached.
        plan_id: the invocation's own name.
        name: the parent run's name.
        session: the settings that all trials share.
        baseline: name and node of the conversion every other one of the same model, workload,
            hardware and scenario is compared with; added wherever it was not asked for.
    """
    drafts = _Drafts(executor)
    asked, baselines = [], set()
    for cell in cells:
        if baseline:
            baselines.add(drafts.add(_baseline_of(cell, *baseline), implied=True))
        asked.append(drafts.add(cell))
    if drafts.problems:
        raise ConfigError(list(drafts.problems))
    planned = Plan(
        plan_id=plan_id,
        name=name,
        trials=_with_baselines(drafts.trials.values(), baselines),
        skips=tuple(drafts.skips),
        session=session,
    )
    return planned, tuple(asked)


class _Drafts:
    """Trials and skips so far; equal nodes are spelled and checked once."""

    def __init__(self, executor: Executor) -> None:
        self.trials: dict[str, Trial] = {}
        self.skips: list[Skip] = []
        self.problems: dict[str, None] = {}
        self._executor = executor
        self._implied: set[str] = set()
        self._chains: dict[str, TrialSetup | ConfigError] = {}
        self._spelled: dict[int, tuple[Json, str]] = {}

    def add(self, cell: MatrixCell, *, implied: bool = False) -> str:
        """Take in one cell; an implied one (a baseline) may repeat what was asked for.

        Returns the id of the trial that stands for the cell, "" if none does.
        """
        spec = {key: cell.config[key] for key in _SPEC_KEYS}
        chain = self._chain(spec)
        if isinstance(chain, ConfigError):
            self.problems.update(dict.fromkeys(chain.problems))
            return ""
        spec = _only_used_symbols(spec, chain)
        trial = Trial(trial_id=self._identity(spec), labels=_labels_of(cell, chain), spec=spec)
        self._place(trial, chain, implied)
        return trial.trial_id if trial.trial_id in self.trials else ""

    def _place(self, trial: Trial, chain: TrialSetup, implied: bool) -> None:
        twin = self.trials.get(trial.trial_id)
        if twin is None:
            reason = self._refusal(trial, chain)
            if reason is None:
                self.trials[trial.trial_id] = trial
                self._implied.update({trial.trial_id} if implied else ())
            elif not implied:
                self.skips.append(reason)
        elif not implied and trial.trial_id in self._implied:
            self._implied.discard(trial.trial_id)
            self.trials[trial.trial_id] = trial
        elif not implied:
            same = f"the same content as trial {twin.trial_id} ({describe(twin.labels)})."
            self.skips.append(Skip(labels=trial.labels, reason=same))

    def _refusal(self, trial: Trial, chain: TrialSetup) -> Skip | None:
        unreachable = self._executor.unreachable(chain.hardware.kind)
        if unreachable:
            return Skip(labels=trial.labels, reason=unreachable)
        unplayable = chain.hardware.cannot_simulate() if self._executor.is_simulated() else None
        if unplayable:
            return Skip(
                labels=trial.labels,
                reason=f"{chain.hardware.kind} is only played here, but {unplayable}",
                remedy="executor=ec2 or executor=ray reaches a real one",
            )
        missing = [name for name in chain.requires if not is_installed(name)]
        if missing:
            return Skip(
                labels=trial.labels,
                reason=f"needs {', '.join(missing)}, which is not installed.",
                remedy=f"pip install {' '.join(missing)}",
            )
        unavailable = chain.unavailable
        return Skip(labels=trial.labels, reason=unavailable) if unavailable else None

    def _chain(self, spec: ConfigNode) -> TrialSetup | ConfigError:
        key = "\n".join(self._spelling(spec[name]) for name in _SPEC_KEYS)
        if key not in self._chains:
            self._chains[key] = _open_checked(spec)
        return self._chains[key]

    def _identity(self, spec: ConfigNode) -> str:
        content = {
            **spec,
            "hardware": _machine(spec),
            "conversion": _without(spec["conversion"], "description"),
        }
        text = "\n".join(self._spelling(content[name]) for name in _SPEC_KEYS)
        return hashlib.sha256(text.encode()).hexdigest()[:TRIAL_ID_DIGITS]

    def _spelling(self, node: Json) -> str:
        """The canonical JSON of a node; cells share nodes, so most are spelled once."""
        known = self._spelled.get(id(node))
        if known is None or known[0] is not node:
            known = (node, canonical_json(node))
            self._spelled[id(node)] = known
        return known[1]


def _open_checked(spec: ConfigNode) -> TrialSetup | ConfigError:
    try:
        chain = open_trial(spec)
    except ConfigError as error:
        return error
    problems = [*chain.model.problems(chain.workload), *_metric_problems(spec)]
    return ConfigError(problems) if problems else chain


def _metric_problems(spec: ConfigNode) -> Sequence[str]:
    metric = cast(ConfigNode, spec["parity"]).get("metric")
    return reference_problems("parity.metric", str(metric)) if metric else ()


def describe(labels: Mapping[str, str]) -> str:
    """A cell in one phrase, e.g. ``bert / eager / local``."""
    names = ("model", "conversion", "hardware", "workload", "axes")
    return " / ".join(labels[name] for name in names if labels.get(name))


def _baseline_of(cell: MatrixCell, name: str, node: ConfigNode) -> MatrixCell:
    """The same cell through the baseline's conversion."""
    return MatrixCell(
        choices={**cell.choices, "conversion": name},
        axes={k: v for k, v in cell.axes.items() if not k.startswith("conversion.")},
        config={**cell.config, "conversion": node},
    )


def _only_used_symbols(spec: ConfigNode, chain: TrialSetup) -> dict[str, Json]:
    """Without the symbols that no input uses: sweeping them would repeat the same trial."""
    used = {symbol for tensor in chain.model.specs() for symbol in tensor.symbols}
    workload = cast(Mapping[str, Json], spec["workload"])
    kept = {k: v for k, v in workload.items() if k in used or k in NOT_SYMBOLS}
    dynamic = [symbol for symbol in chain.workload.dynamic if symbol in used]
    return {**spec, "workload": {**kept, "dynamic": dynamic}}


def _machine(spec: ConfigNode) -> Json:
    """The hardware, whatever is tried on it when nothing is named."""
    return _without(spec["hardware"], "conversions")


def _without(node: Json, key: str) -> Json:
    """A node less what does not change what is measured."""
    assert isinstance(node, Mapping)  # open_chain has seen it
    return {name: value for name, value in node.items() if name != key}


def _labels_of(cell: MatrixCell, chain: TrialSetup) -> dict[str, str]:
    used = [symbol for tensor in chain.model.specs() for symbol in tensor.symbols]
    symbols = chain.workload.symbols
    shapes = [f"{name}={symbols[name]}" for name in dict.fromkeys(used) if name in symbols]
    told = {f"workload.{name}" for name in symbols}
    axes = [f"{k}={v}" for k, v in cell.axes.items() if k not in told]
    labels = {name: cell.choices[name] for name in ("model", "conversion", "hardware", "scenario")}
    return {
        **chain.model.labels,
        **labels,
        "hardware": _machine_label(labels["hardware"], chain),
        "hardware_kind": chain.hardware.kind,
        "workload": " ".join(shapes),
        "axes": " ".join(axes),
    }


def _machine_label(name: str, chain: TrialSetup) -> str:
    """The kind as it was named; a size may have been overridden since."""
    machine = machine_of(name)
    return chain.hardware.kind if is_made(machine) else machine


def _with_baselines(trials: Iterable[Trial], baselines: Collection[str]) -> tuple[Trial, ...]:
    """Each trial with the baseline of its own model, workload, hardware and scenario."""
    trials = list(trials)
    known = {_comparable(trial): trial for trial in trials if trial.trial_id in baselines}
    return tuple(_with_baseline(trial, known.get(_comparable(trial))) for trial in trials)


def _with_baseline(trial: Trial, baseline: Trial | None) -> Trial:
    if baseline is None or baseline.trial_id == trial.trial_id:
        return trial
    conversion = cast(ConfigNode, baseline.spec["conversion"])
    return replace(trial, baseline_id=baseline.trial_id, baseline_conversion=conversion)


def _comparable(trial: Trial) -> str:
    same = ("model", "workload", "scenario", "stopping", "protocol")
    return canonical_json(
        {**{key: trial.spec[key] for key in same}, "hardware": _machine(trial.spec)}
    )
