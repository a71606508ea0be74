"""Planning: compose and check everything; spend and start nothing."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from benchorch.config.components import make, misspelt, nearest
from benchorch.config.composer import Composer, MatrixCell
from benchorch.config.descriptions import default_keys
from benchorch.config.overrides import EACH, MATRIX, key_of, refuse_twice
from benchorch.domain.codec import Json, leaves
from benchorch.domain.estimate import METRICS
from benchorch.domain.result import TrialResult
from benchorch.domain.trial import ConfigNode, Plan, Trial, node_of
from benchorch.errors import ConfigError, Correction, NoMachine, Problem, Problems, StoreError
from benchorch.formatting import printable
from benchorch.interfaces.executor import Emit, Executor, TrialRunner, Way
from benchorch.interfaces.hardware import Hardware
from benchorch.interfaces.model import Model
from benchorch.interfaces.profiler import Profiler
from benchorch.interfaces.recorder import Recorder
from benchorch.interfaces.stack import Readiness
from benchorch.interfaces.store import Store
from benchorch.recorders import location
from benchorch.results.pricing.sweep_cost import (
    DEFAULT_REGION,
    budget_of,
    pricing_of,
    snapshot,
)
from benchorch.run.expand import AUTO, ELSEWHERE, SPEC_KEYS
from benchorch.run.expand import plan as make_plan
from benchorch.run.foreign_recipe import chosen_places
from benchorch.run.odd_settings import crowded_threads, unread_symbols, without_effect

_SHARED_NODES = ("profiler", "executor", "store", "recorder", "pricing", "budget")
SESSION_KEYS = (
    *(*_SHARED_NODES, "rebuild", "baseline", "control", "objective", "name", "keep_at"),
    "profile",
)
_CAN_BE_NONE = ("profiler", "recorder")
NODES = (*SPEC_KEYS, *_SHARED_NODES)
_FARTHEST = (Way.NONE, Way.STACK, Way.RAY, Way.LOCAL)
REBUILD = ("if_needed", "always", "never")


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan, the executor it was checked against, and which trial each cell became.

    Attributes:
        requested: for each job its cells' trial ids, "" where a cell became a skip.
        unreachable: why no machine of a kind can be reached, by kind.
    """

    plan: Plan
    executor: Executor
    requested: tuple[tuple[str, ...], ...]
    unreachable: Mapping[str, str] = field(default_factory=dict)

    @property
    def kinds(self) -> Collection[str]:
        """The kinds of hardware that its trials are for."""
        return {trial.hardware_kind for trial in self.plan.trials}

    @property
    def launched(self) -> Collection[str]:
        """The kinds whose machines are launched for the run, or would have to be."""
        return {k for k in self.kinds if k in self.unreachable or self.executor.launches(k)}

    def preflight(self) -> Sequence[Readiness]:
        """Whether the machines that would be launched can be had now; asks their account."""
        return self.executor.preflight(sorted(self.kinds))

    def way(self) -> Way:
        """How the plan as a whole runs: as far as its farthest trial has to go."""
        ways = {self.executor.way(kind) for kind in self.kinds}
        return next((way for way in _FARTHEST if way in ways), Way.LOCAL)


def plan_jobs(
    composer: Composer, jobs: Sequence[Sequence[str]], plan_id: str, *, to_run: bool = True
) -> Planned:
    """Compose and check everything; ConfigError with every problem. Spends and starts nothing.

    Args:
        to_run: whether hardware that cannot be reached is skipped. Otherwise it has trials, and
            what executor and store lack to run them is a note.
    """
    try:
        return _plan_jobs(composer, jobs, plan_id, to_run=to_run)
    except NoMachine:
        raise
    except ConfigError as error:
        problems = [composer.masked(text) for text in error.problems]
        raise ConfigError(problems, next=error.next) from error


def session_for(composer: Composer, overrides: Sequence[str]) -> ConfigNode:
    """The session of a plan whose trials are not composed here; ConfigError with every problem.

    Args:
        overrides: of executor, store, recorder, profiler and the like.
    """
    allowed = (*_SHARED_NODES, "rebuild", "name", "keep_at")
    problems = Problems()
    problems.add(
        f"{word!r} is none of {', '.join(allowed)}: all else is the trials' own."
        for word in overrides
        if word.partition("=")[0].partition(".")[0].lstrip("+~") not in allowed
    )
    problems.stop()
    refuse_twice(overrides)
    config = composer.session(overrides)
    session = {key: config.get(key) for key in SESSION_KEYS}
    problems.add(session_problems(session, ()))
    problems.stop()
    return stored_session(session)


def _plan_jobs(
    composer: Composer, jobs: Sequence[Sequence[str]], plan_id: str, *, to_run: bool
) -> Planned:
    by_job = _compose(composer, jobs)
    composed = [cell for job_cells in by_job for cell in job_cells]
    cells = _without_common_axes(composed)
    if not cells:
        raise ConfigError(["The sweep is empty: there is nothing to run."])
    problems = Problems()
    known = {*SESSION_KEYS, *NODES, MATRIX, EACH, "resume", *composer.groups}
    problems.add(_shape_problems(cells, known))
    problems.stop()
    session = {key: cells[0].config.get(key) for key in SESSION_KEYS}
    problems.add(session_problems(session, cells))
    problems.add(chosen_places(session, cells[0].choices))
    executor = problems.attempt(lambda: make(node_of(session, "executor"), Executor, "executor"))
    kinds = {str(kind) for cell in cells if (kind := node_of(cell.config, "hardware").get("kind"))}
    unmet = tuple(lacking(session, executor))
    elsewhere = executor is not None and {executor.way(kind) for kind in kinds} - {Way.LOCAL}
    problems.add(() if elsewhere and not to_run else unmet)
    if executor is not None:
        own = executor.region() if elsewhere else None
        session["pricing"] = _priced_in(node_of(session, "pricing"), own or DEFAULT_REGION)
    planned = problems.attempt(
        lambda: make_plan(
            cells,
            # Where none can be made, the cells' own problems are reported too.
            executor=executor or _Anywhere(),
            plan_id=plan_id,
            name=str(session["name"]),
            session=stored_session(session),
            baseline=_baseline(session, composer),
            keep_unreachable=not to_run,
            control=_control(session),
        )
    )
    problems.stop()
    assert executor is not None
    assert planned is not None
    by_cell = iter(planned[1])
    requested = tuple(tuple(next(by_cell) for _ in job_cells) for job_cells in by_job)
    plan = planned[0]
    problems.add(without_effect(cells, plan, composer))
    problems.stop()
    notes = (
        *unmet,
        *(_notes(session, executor, kinds) if elsewhere else ()),
        *(() if to_run else _mismatches(plan.trials, executor)),
        *_usual_conversions(cells, executor),
        *unread_symbols(cells, plan.trials, composer.option("workload", "default")),
        *crowded_threads(plan.trials, executor),
        *_of_models(plan.trials, executor),
    )
    return Planned(
        plan=replace(
            plan,
            prices=snapshot(plan.trials, pricing_of(session)),
            notes=notes,
            settings=_settings(composed),
        ),
        executor=executor,
        requested=requested,
        unreachable={k: why for k in sorted(kinds) if (why := executor.unreachable(k))},
    )


def _priced_in(pricing: ConfigNode, region: str) -> ConfigNode:
    """The `pricing` node with that region, unless it names one."""
    return pricing if pricing.get("region") else {**pricing, "region": region}


def lacking(session: ConfigNode, executor: Executor | None) -> Iterator[str]:
    """What executor and store lack to run anything; a store that cannot be made is a problem."""
    yield from executor.problems() if executor else ()
    with contextlib.suppress(ConfigError):
        yield from make(node_of(session, "store"), Store, "store").problems()


def _notes(session: ConfigNode, executor: Executor, kinds: Collection[str]) -> Iterator[str]:
    """Of trials on other machines."""
    store = make(node_of(session, "store"), Store, "store")
    if executor.is_remote() and not store.is_shared():
        yield (
            "each machine builds for itself, unless store.root is a disk that all of them mount; "
            "with store=s3 one builds for all (docs/cloud/cache.md)"
        )
    by_ray = [kind for kind in kinds if executor.way(kind) is Way.RAY]
    if not all(map(executor.measures_in_rounds, by_ray)):
        yield (
            "this executor measures the trials of a node one after the other, each until its own "
            "verdict holds; executor=process measures in rounds (docs/measuring/measurement.md)"
        )
    has_minutes = node_of(session, "budget").get("minutes") is not None
    if has_minutes and not all(map(executor.measures_in_rounds, kinds)):
        yield (
            "budget.minutes ends no trial on other machines: stopping.budget_s ends each, and "
            "budget.max_usd the machines that are launched"
        )


def _mismatches(trials: Sequence[Trial], executor: Executor) -> Iterator[str]:
    """What this machine lacks of the hardware of trials that would run on it."""
    nodes = {one.hardware_kind: one.hardware for one in trials}
    for kind, node in nodes.items():
        if executor.way(kind) is Way.LOCAL and (why := make(node, Hardware, "hardware").mismatch()):
            yield f"hardware={kind}: {why} Its trials do not run here; {ELSEWHERE}."


def _of_models(trials: Sequence[Trial], executor: Executor) -> Iterator[str]:
    """What the models' loading means, each sentence once."""
    found = {
        (id(node_of(one.spec, "model")), executor.way(one.hardware_kind) is Way.LOCAL): one
        for one in trials
    }
    for (_, here), one in found.items():
        yield from make(node_of(one.spec, "model"), Model, "model").notes(here=here)


def _usual_conversions(cells: Sequence[MatrixCell], executor: Executor) -> Iterator[str]:
    """That GPU machines elsewhere are planned with few conversions unless more are named."""
    nodes = {
        str(node["kind"]): node
        for cell in cells
        if not cell.is_named
        for node in [node_of(cell.config, "hardware")]
    }
    for kind, node in nodes.items():
        hardware = make(node, Hardware, "hardware")
        if hardware.device == "cuda" and executor.way(kind) is not Way.LOCAL:
            usual = ", ".join(hardware.conversions)
            yield (
                f"{kind}: without conversion= a GPU is measured with {usual}; another choice is "
                "conversion=[eager,onnxruntime,tensorrt], see benchorch conversions."
            )


class _Anywhere(Executor):
    """Stand-in for an executor that could not be made, so planning finds the other problems."""

    def unreachable(self, hardware_kind: str) -> str | None:
        return None

    def run(self, trials: Sequence[Trial], work: TrialRunner, emit: Emit) -> Iterator[TrialResult]:
        raise AssertionError("a plan with problems is never run")


def _compose(composer: Composer, jobs: Sequence[Sequence[str]]) -> list[list[MatrixCell]]:
    problems = Problems()
    by_job = [problems.attempt(partial(composer.cells, job)) for job in jobs]
    problems.stop()
    return [cells for cells in by_job if cells is not None]


def _without_common_axes(cells: Sequence[MatrixCell]) -> list[MatrixCell]:
    """The cells without axes that have one value in all of them."""
    keys = {key for cell in cells for key in cell.axes}
    varying = {key for key in keys if len({cell.axes.get(key) for cell in cells}) > 1}
    return [
        replace(cell, axes={k: v for k, v in cell.axes.items() if k in varying}) for cell in cells
    ]


def _settings(cells: Sequence[MatrixCell]) -> tuple[str, ...]:
    """The dotted keys of trials that cells set."""
    keys = dict.fromkeys(key_of(key) for cell in cells for key in cell.axes)
    return tuple(key for key in keys if key.partition(".")[0] in SPEC_KEYS)


def _shape_problems(cells: Iterable[MatrixCell], known: Collection[str]) -> Iterator[str]:
    """Unknown keys, nodes that are not mappings, and values that are no use."""
    nodes = {  # cells share most of them
        (key, id(node)): node
        for cell in cells
        for key in (*cell.config, *NODES)
        for node in [cell.config.get(key)]
    }
    for (key, _), node in nodes.items():
        if key not in known:
            yield misspelt(f"{key}: unknown key.", key, known)
        if key in NODES and not isinstance(node, Mapping):
            off = f" To switch it off: {key}=none." if key in _CAN_BE_NONE else ""
            correction = Correction(settings=[f"{key}=none"]) if off else None
            inner = [k.partition(".")[2] for k in default_keys() if k.startswith(f"{key}.")]
            keys = f" of {', '.join(inner)}" if inner and not off else ""
            yield Problem(f"{key}: expected a mapping{keys}, got {node!r}.{off}", correction)
        yield from _value_problems(key, node)


def _value_problems(key: str, node: Json) -> Iterator[str]:
    for path, value in leaves(node, key):
        if isinstance(value, float) and not math.isfinite(value):
            yield f"{path}: expected a finite number, got {value}."
        if isinstance(value, str) and printable(value) != value:
            yield f"{path}: {printable(value)!r} holds characters that a terminal obeys."


def _baseline(session: ConfigNode, composer: Composer) -> tuple[str, ConfigNode] | None:
    name = session.get("baseline")
    return (name, composer.option("conversion", name)) if isinstance(name, str) else None


def _control(session: ConfigNode) -> bool | str:
    """Plans from before it have none; a value that makes no sense is reported by itself."""
    requested = session.get("control")
    return requested if isinstance(requested, bool) else AUTO


def session_problems(session: ConfigNode, cells: Sequence[MatrixCell]) -> Iterator[str]:
    """What is wrong with the settings that all trials share, and which of them cells differ in."""
    for key in ("name", "baseline"):
        if not isinstance(session[key], str) and not (key == "baseline" and session[key] is None):
            yield f"{key}: expected text, got {session[key]!r}."
        elif session[key] is not None and not str(session[key]).strip():
            yield f"{key}: is empty; leave it out for the default."
        elif key == "name" and len(str(session[key]).strip().splitlines()) > 1:
            yield f"name: expected one line, got {session[key]!r}."
    if session["control"] not in (AUTO, True, False):
        yield f"control: expected auto, true or false, got {session['control']!r}."
    if session["rebuild"] not in REBUILD:
        problem = f"rebuild: expected one of {', '.join(REBUILD)}, got {session['rebuild']!r}."
        yield Problem(problem, Correction(allowed=REBUILD))
    if session["objective"] not in METRICS:
        objective = str(session["objective"])
        listed = "" if nearest(objective, METRICS) else f" Metrics: {', '.join(METRICS)}."
        problem = f"objective: {objective!r} is not a metric."
        yield misspelt(problem, objective, METRICS, listed)
    for key in SESSION_KEYS:
        others = {id(node): node for node in (cell.config.get(key) for cell in cells)}
        if any(node != session[key] for node in others.values()):
            yield f"{key}: is one for the whole command; it cannot be swept."
    if not _is_word_or_words(session["profile"]):
        yield f"profile: expected names of conversions, got {session['profile']!r}."
    yield from _place_problems(session["keep_at"])
    problems = Problems()
    problems.attempt(lambda: make(node_of(session, "store"), Store, "store"))
    problems.attempt(lambda: make(node_of(session, "recorder"), Recorder, "recorder"))
    problems.attempt(lambda: pricing_of(session))
    problems.attempt(lambda: budget_of(session))
    problems.attempt(lambda: make(node_of(session, "profiler"), Profiler, "profiler"))
    yield from problems.found


def _is_word_or_words(value: Json) -> bool:
    words = value if isinstance(value, list | tuple) else [value]
    return all(isinstance(word, str) for word in words)


def _place_problems(url: Json) -> Iterator[str]:
    """Why a run cannot be archived there, as far as the URL shows."""
    if url is not None:
        from benchorch.stores.objects import bucket_at

        try:
            bucket_at(str(url))
        except StoreError as error:
            yield f"keep_at: {error}"


def stored_session(session: ConfigNode) -> ConfigNode:
    """The session as a plan holds it on disk: without secrets, its keys those of all releases."""
    recorder = session["recorder"]
    public = location.kept_secret(recorder) if isinstance(recorder, Mapping) else recorder
    named = {"tracking" if key == "recorder" else key: value for key, value in session.items()}
    return {**named, "tracking": public, "cwd": str(Path.cwd())}


def new_plan_id() -> str:
    """An id for an invocation, sorted by time: ``20261120-101500-1f3a``."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.urandom(2).hex()}"
