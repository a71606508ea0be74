"""The plan of a run that goes on: trials and skips of all its batches, told apart by labels."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace

from benchorch.config.overrides import spelled
from benchorch.domain.artifact import canonical_json
from benchorch.domain.codec import Json
from benchorch.domain.price import PriceSnapshot
from benchorch.domain.trial import Plan, Trial

_OWNERS = ("model", "conversion", "hardware", "scenario")
"""Groups whose choice is a label: an option's keys distinguish trials with this option only."""


def merged(old: Plan | None, new: Plan) -> Plan:
    """Both plans' trials; skips of cells that are planned anew are those of the new plan."""
    if old is None:
        return new
    known = {trial.trial_id for trial in old.trials}
    fresh = tuple(trial for trial in new.trials if trial.trial_id not in known)
    planned = {_cell(trial.labels) for trial in new.trials}
    planned |= {_cell(skip.labels) for skip in new.skips}
    still = tuple(skip for skip in old.skips if _cell(skip.labels) not in planned)
    settings = tuple(dict.fromkeys([*old.settings, *new.settings]))
    return replace(
        old,
        trials=_distinguished(old.trials + fresh, settings),
        skips=still + new.skips,
        session=new.session,
        prices=_merged_prices(old.prices, new.prices),
        notes=new.notes,
        settings=settings,
    )


def with_labels_of(plan: Plan, whole: Plan) -> Plan:
    """A batch's plan, its trials labelled as in the plan of all batches."""
    labels = {trial.trial_id: trial.labels for trial in whole.trials}
    trials = (replace(trial, labels=labels[trial.trial_id]) for trial in plan.trials)
    return replace(plan, trials=tuple(trials))


def _distinguished(trials: Sequence[Trial], settings: Sequence[str]) -> tuple[Trial, ...]:
    """The trials with those settings in their labels in which batches differ.

    Within a batch the planner has left out what all of its own trials have in common.
    """
    found = list(trials)
    for key in settings:
        values = [_value(trial, key) for trial in found]
        owners = [_owner(trial, key) for trial in found]
        kinds: dict[str, set[str]] = {}
        for owner, value in zip(owners, values, strict=True):
            kinds.setdefault(owner, set()).add(canonical_json(value))
        for number, (owner, value) in enumerate(zip(owners, values, strict=True)):
            if len(kinds[owner]) > 1 and value is not None:
                found[number] = _labelled(found[number], key, value)
    return tuple(found)


def _value(trial: Trial, key: str) -> Json:
    """What a trial has at a dotted key; None where it has nothing."""
    value: Json = trial.spec
    for name in key.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _owner(trial: Trial, key: str) -> str:
    """The option that a key belongs to, by its label; empty where none is a label."""
    group = key.partition(".")[0]
    return trial.labels.get(group, "") if group in _OWNERS else ""


def _labelled(trial: Trial, key: str, value: Json) -> Trial:
    """The trial with a setting among its labels, unless it is there."""
    axes = trial.labels.get("axes", "")
    if key in _named(trial.labels):
        return trial
    more = " ".join(filter(None, (axes, f"{key}={spelled(value)}")))
    return replace(trial, labels={**trial.labels, "axes": more})


def _named(labels: Mapping[str, str]) -> Iterator[str]:
    """The keys whose values labels show."""
    for word in labels.get("axes", "").split():
        yield word.partition("=")[0]
    for word in labels.get("workload", "").split():
        yield f"workload.{word.partition('=')[0]}"


def _cell(labels: Mapping[str, str]) -> Hashable:
    return frozenset(labels.items())


def _merged_prices(old: PriceSnapshot | None, new: PriceSnapshot | None) -> PriceSnapshot | None:
    """The old prices, by which earlier rows were judged, and those of kinds that came since."""
    if old is None or new is None:
        return old or new
    return replace(
        old,
        on_demand={**new.on_demand, **old.on_demand},
        spot={**new.spot, **old.spot},
        warnings=tuple(dict.fromkeys([*old.warnings, *new.warnings])),
    )
