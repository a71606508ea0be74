"""Expansion of cells into a plan: each becomes a trial, or a skip with a reason."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from benchorch.config.components import MOVED, TARGET
from benchorch.config.composer import MatrixCell
from benchorch.config.hardware_aliases import is_made, machine_of
from benchorch.config.parity_setup import parity_setup
from benchorch.config.trial_setup import TrialSetup, open_trial
from benchorch.domain.artifact import canonical_json
from benchorch.domain.codec import Json
from benchorch.domain.node_memo import NodeMemo
from benchorch.domain.tensors import NOT_SYMBOLS, Workload
from benchorch.domain.trial import ConfigNode, Plan, Skip, Trial, node_of
from benchorch.errors import ConfigError
from benchorch.host.environment import alternatives, is_installed, on_node_with
from benchorch.host.packages import install_command, needs
from benchorch.interfaces.executor import Executor, Way
from benchorch.models.callables import reference_problems
from benchorch.models.parity_data import data_problems

TRIAL_ID_DIGITS = 16
ELSEWHERE = "hardware=local measures on this machine's CPU, hardware=g5 on a GPU machine of AWS"
"""What to type where this machine is not of the requested kind."""
DEFAULT_NAME = "benchorch"
DEFAULT_BASELINE = "eager"
_NAMELESS = ("factory", "exported")
"""Options of ``model`` that are ways to a model, not models."""

SCRIPT = "script"
"""The label of a model that a script calls: the script's name."""

AUTO = "auto"
LEAST_CONTROLLED = 2
"""Candidates from which on a table has an A/A control of its own accord."""

SPEC_KEYS = (
    *("model", "workload", "conversion", "hardware", "scenario", "stopping", "protocol"),
    *("parity", "limits"),
)
"""The nodes that make a trial, in the order in which its id digests them."""


def plan(
    cells: Sequence[MatrixCell],
    *,
    executor: Executor,
    plan_id: str,
    name: str,
    session: ConfigNode,
    baseline: tuple[str, ConfigNode] | None,
    keep_unreachable: bool = False,
    control: bool | str = AUTO,
) -> tuple[Plan, tuple[str, ...]]:
    """The plan, and the trial id of each cell ("" for a skip); ConfigError with every problem.

    Args:
        cells: as requested.
        executor: decides which hardware can be reached.
        plan_id: the invocation's id.
        name: the parent run's name.
        session: the settings that all trials share.
        baseline: name and node of the conversion every other one of the same model, workload,
            hardware and scenario is compared with; added wherever it was not requested.
        keep_unreachable: whether hardware that cannot be reached has trials in place of skips.
        control: whether baselines are compared with themselves; ``auto`` where two or more others
            are compared with them.
    """
    drafts = _Drafts(executor, keep_unreachable=keep_unreachable)
    requested, baselines = [], set()
    for cell in cells:
        if baseline:
            baselines.add(drafts.add_baseline(cell, *baseline))
        requested.append(drafts.add(cell))
    drafts.refuse({cell.choices["model"] for cell in cells})
    planned = Plan(
        plan_id=plan_id,
        name=name,
        trials=_with_baselines(drafts.trials.values(), baselines, control, drafts.memo),
        skips=(*drafts.skips, *drafts.missing_baselines, *drafts.unplanned),
        session=session,
    )
    return planned, tuple(requested)


class _Drafts:
    """Trials and skips so far; what follows from nodes that cells share is computed once."""

    def __init__(self, executor: Executor, *, keep_unreachable: bool) -> None:
        self.trials: dict[str, Trial] = {}
        self.skips: list[Skip] = []
        self._problems: dict[str, set[str]] = {}
        self._refused: dict[Hashable, tuple[MatrixCell, ConfigError]] = {}
        self._executor = executor
        self._keep_unreachable = keep_unreachable
        self._implied: set[str] = set()
        self._skipped: set[str] = set()
        self._missing: dict[str, Skip] = {}
        self._setups: dict[tuple[str, ...], TrialSetup | ConfigError] = {}
        self.memo = NodeMemo()

    def add(self, cell: MatrixCell, *, implied: bool = False) -> str:
        """Add one cell; an implied one (a baseline) may repeat a requested one.

        Returns the id of the trial that stands for the cell, "" if none does.
        """
        spec = {key: cell.config[key] for key in SPEC_KEYS}
        setup = self._open(spec)
        if isinstance(setup, ConfigError):
            for problem in setup.problems:
                self._problems.setdefault(problem, set()).add(cell.choices["model"])
            self._refused[frozenset(_plain_labels(cell).items())] = cell, setup
            return ""
        model = [spec["model"], spec["scenario"]]
        symbols = self.memo.of("symbols", model, lambda: setup.model.symbols)
        used = partial(_only_used, spec["workload"], setup.workload, symbols)
        spec["workload"] = self.memo.of("used", [*model, spec["workload"]], used)
        trial = Trial(
            trial_id=self._identity(spec, setup),
            labels=_labels_of(cell, setup, symbols),
            spec=spec,
        )
        self._place(trial, setup, implied, requested=cell.is_named)
        return trial.trial_id if trial.trial_id in self.trials else ""

    def refuse(self, models: Collection[str]) -> None:
        """ConfigError with all problems, unless each is of some of the models that scripts call.

        Nobody named these one by one, so the others are measured. What all models have in common is
        wrong with the command.
        """
        found = all(_is_found(cell) for cell, _ in self._refused.values())
        common = any(which >= {*models} for which in self._problems.values())
        if self._problems and (common or not found or not self.trials):
            raise ConfigError(list(self._problems))

    @property
    def missing_baselines(self) -> Sequence[Skip]:
        """Baselines that cannot run, unless they were requested, of trials that can."""
        compared = {comparable(trial, self.memo) for trial in self.trials.values()}
        return [
            skip
            for trial_id, skip in self._missing.items()
            if trial_id not in self._skipped and comparable(skip, self.memo) in compared
        ]

    @property
    def unplanned(self) -> Sequence[Skip]:
        """The cells with problems, where they refuse nothing."""
        return [
            Skip(labels=_plain_labels(cell), reason=" ".join(error.problems), requested=True)
            for cell, error in self._refused.values()
        ]

    def add_baseline(self, cell: MatrixCell, name: str, node: ConfigNode) -> str:
        """Add the baseline of a cell; cells of one baseline differ in their conversions only."""
        others = [cell.config[key] for key in SPEC_KEYS if key != "conversion"]
        return self.memo.of(
            "baseline", others, lambda: self.add(_baseline_of(cell, name, node), implied=True)
        )

    def _place(self, trial: Trial, setup: TrialSetup, implied: bool, *, requested: bool) -> None:
        twin = self.trials.get(trial.trial_id)
        if twin is None:
            chain = [trial.spec[key] for key in ("model", "conversion", "hardware", "scenario")]
            skip = self.memo.of("skip", chain, lambda: self._skip(setup))
            if skip is None:
                self.trials[trial.trial_id] = trial
                self._implied.update({trial.trial_id} if implied else ())
                return
            skip = replace(skip, labels=trial.labels, spec=trial.spec)
            if not implied:
                self._skipped.add(trial.trial_id)
                self.skips.append(replace(skip, requested=requested))
            else:
                named = trial.labels["conversion"] != DEFAULT_BASELINE
                self._missing[trial.trial_id] = replace(skip, requested=named)
        elif not implied and trial.trial_id in self._implied:
            self._implied.discard(trial.trial_id)
            self.trials[trial.trial_id] = trial
        elif not implied:
            same = f"the same content as trial {twin.trial_id} ({describe(twin.labels)})."
            self.skips.append(Skip(labels=trial.labels, reason=same))

    def _skip(self, setup: TrialSetup) -> Skip | None:
        """Why a chain cannot run on its machine, without the labels of a trial; or None."""
        unreachable = self._executor.unreachable(setup.hardware.kind)
        if unreachable and not self._keep_unreachable:
            return Skip(labels={}, reason=unreachable)
        obstacle = setup.hardware.cannot_simulate() if self._executor.is_simulated() else None
        if obstacle:
            return Skip(
                labels={},
                reason=f"{setup.hardware.kind} cannot be simulated on this machine: {obstacle}",
                remedy="executor=ec2 or executor=ray reaches a real one",
            )
        packages = self._executor.packages(setup.hardware.kind)
        if packages is None and not self._keep_unreachable and (lacking := self._mismatch(setup)):
            return Skip(labels={}, reason=lacking, remedy=ELSEWHERE)
        with on_node_with(packages):
            return self._lacking(setup, is_here=packages is None)

    def _mismatch(self, setup: TrialSetup) -> str | None:
        """Why this machine, on which the trial would run, is not of its kind, or None."""
        is_here = self._executor.way(setup.hardware.kind) is Way.LOCAL
        return setup.hardware.mismatch() if is_here and not self._executor.is_simulated() else None

    def _lacking(self, setup: TrialSetup, *, is_here: bool) -> Skip | None:
        """Why the packages of its node do not suffice, or None.

        Args:
            is_here: whether they are those of this machine.
        """
        required = setup.requires
        missing = [name for name in required if not any(map(is_installed, alternatives(name)))]
        if missing and (elsewhere := setup.elsewhere):
            return Skip(labels={}, reason=elsewhere)
        if missing and not is_here:
            return Skip(
                labels={},
                reason=f"needs {', '.join(missing)}; nodes of {setup.hardware.kind} lack it.",
                remedy="docs/cloud/aws.md lists what nodes have",
            )
        if missing:
            return Skip(
                labels={},
                reason=f"{needs(missing)}.",
                remedy=install_command(missing),
            )
        unavailable = setup.unavailable
        return Skip(labels={}, reason=unavailable) if unavailable else None

    def _open(self, spec: ConfigNode) -> TrialSetup | ConfigError:
        key = tuple(_json_of(spec[name], self.memo) for name in SPEC_KEYS)
        if key not in self._setups:
            self._setups[key] = _open_checked(spec, self.memo)
        return self._setups[key]

    def _identity(self, spec: ConfigNode, setup: TrialSetup) -> str:
        parts = [self._digested(name, spec[name], setup.on_gpu) for name in SPEC_KEYS]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:TRIAL_ID_DIGITS]

    def _digested(self, name: str, node: Json, on_gpu: bool) -> str:
        what = partial(_as_digested, name, node, on_gpu)
        return self.memo.of((name, on_gpu), [node], lambda: canonical_json(what()))


def _json_of(node: Json, memo: NodeMemo) -> str:
    return memo.of("json", [node], lambda: canonical_json(node))


def _open_checked(spec: ConfigNode, memo: NodeMemo) -> TrialSetup | ConfigError:
    try:
        setup = open_trial(spec, memo)
    except ConfigError as error:
        return error
    called = [spec["model"], spec["scenario"], spec["workload"]]
    problems = [
        *memo.of("model problems", called, lambda: setup.model.problems(setup.workload)),
        *memo.of("parity problems", [spec["parity"]], lambda: _parity_problems(spec)),
    ]
    return ConfigError(problems) if problems else setup


def _parity_problems(spec: ConfigNode) -> Sequence[str]:
    """Of the user's own metric and data."""
    parity = parity_setup(spec)
    metric = reference_problems("parity.metric", parity.metric) if parity.metric else ()
    return [*metric, *(data_problems(parity.data) if parity.data else ())]


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


def _only_used(node: Json, workload: Workload, symbols: Sequence[str]) -> Json:
    """The workload without symbols that no input uses, whose sweep would repeat the same trial."""
    assert isinstance(node, Mapping)  # open_trial has checked it
    kept = {k: v for k, v in node.items() if k in symbols or k in NOT_SYMBOLS}
    sizes = workload.sizes
    left = [symbol for symbol in workload.dynamic if symbol in symbols]
    dynamic: Json = {symbol: list(sizes[symbol]) for symbol in left} if sizes else list(left)
    return {**kept, "dynamic": dynamic}


def _as_digested(name: str, node: Json, on_gpu: bool) -> Json:
    """What of a node of the spec determines the measurement."""
    if name == "protocol":
        return node if on_gpu else _without(node, "tf32")
    if name == "hardware":
        return _without(node, "conversions")  # those are defaults
    if name == "conversion":
        return _without(node, "description")
    return _as_first_named(node) if name == "scenario" else node


def _as_first_named(node: Json) -> Json:
    """A scenario under the dotted name it had first: a class that moves keeps its trials' ids."""
    assert isinstance(node, Mapping)  # open_trial has checked it
    first = {present: former for former, present in MOVED.items()}.get(str(node[TARGET]))
    return {**node, TARGET: first} if first else node


def _without(node: Json, key: str) -> Json:
    """A node without a key that does not change the measurement."""
    assert isinstance(node, Mapping)  # open_trial has checked it
    return {name: value for name, value in node.items() if name != key}


def _is_found(cell: MatrixCell) -> bool:
    """Whether its model was found in a script, which is a label of it."""
    return SCRIPT in node_of(node_of(cell.config, "model"), "labels")


def _plain_labels(cell: MatrixCell) -> dict[str, str]:
    """Labels of a cell whose components cannot be made: those that its configuration spells."""
    described = {k: str(v) for k, v in node_of(node_of(cell.config, "model"), "labels").items()}
    chosen = {name: cell.choices[name] for name in ("conversion", "hardware", "scenario")}
    return {
        **described,
        **chosen,
        "model": _model_label(cell.choices["model"], described.get("model", ""), cell),
        "hardware_kind": str(node_of(cell.config, "hardware").get("kind", "")),
        "workload": "",
        "axes": " ".join(f"{key}={value}" for key, value in cell.axes.items()),
    }


def _labels_of(cell: MatrixCell, setup: TrialSetup, symbols: Sequence[str]) -> dict[str, str]:
    sizes = setup.workload.symbols
    shapes = [f"{name}={sizes[name]}" for name in symbols if name in sizes]
    shown = {f"workload.{name}" for name in sizes}
    axes = [f"{k}={v}" for k, v in cell.axes.items() if k not in shown]
    labels = {name: cell.choices[name] for name in ("model", "conversion", "hardware", "scenario")}
    described = setup.model.labels  # a script's or a live module's has its own name there
    return {
        **described,
        **labels,
        "model": _model_label(labels["model"], described.get("model", ""), cell),
        "hardware": _machine_label(labels["hardware"], setup),
        "hardware_kind": setup.hardware.kind,
        "workload": " ".join(shapes),
        "axes": " ".join(axes),
    }


def _model_label(choice: str, described: str, cell: MatrixCell) -> str:
    """The choice; of a model of the user's own what ``name`` calls it, else what it is."""
    name = str(cell.config.get("name") or "")
    if choice in _NAMELESS and name not in ("", DEFAULT_NAME):
        return name
    return described or choice


def _machine_label(name: str, setup: TrialSetup) -> str:
    """The kind as it was chosen; a size may have been overridden since."""
    machine = machine_of(name)
    return setup.hardware.kind if is_made(machine) else machine


def _with_baselines(
    trials: Collection[Trial], baselines: Collection[str], control: bool | str, memo: NodeMemo
) -> tuple[Trial, ...]:
    """Each trial with the baseline of its own model, workload, hardware and scenario."""
    known = {comparable(trial, memo): trial for trial in trials if trial.trial_id in baselines}
    found = {trial.trial_id: known.get(comparable(trial, memo), trial) for trial in trials}
    sizes = Counter(one.trial_id for trial_id, one in found.items() if one.trial_id != trial_id)
    least = {AUTO: LEAST_CONTROLLED, True: 1}.get(control, math.inf)
    return tuple(
        replace(
            _with_baseline(trial, baseline),
            candidates=sizes[baseline.trial_id] if baseline is not trial else 1,
            is_control=sizes[trial.trial_id] >= least,
        )
        for trial, baseline in zip(trials, found.values(), strict=True)
    )


def _with_baseline(trial: Trial, baseline: Trial) -> Trial:
    if baseline is trial:
        return trial
    conversion = node_of(baseline.spec, "conversion")
    return replace(trial, baseline_id=baseline.trial_id, baseline_conversion=conversion)


def comparable(cell: Trial | Skip, memo: NodeMemo) -> tuple[str, ...]:
    """What a cell has in common with its baseline; it has a spec."""
    same = ("model", "workload", "scenario", "stopping", "protocol")
    machine = cell.spec["hardware"]
    return (
        *(_json_of(cell.spec[key], memo) for key in same),
        memo.of("machine", [machine], lambda: canonical_json(_without(machine, "conversions"))),
    )
