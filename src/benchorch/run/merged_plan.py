"""The plan of a run that goes on: trials and skips of all its batches, told apart by labels."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace

from benchorch.config.overrides import spelled
from benchorch.domain.artifact import canonical_json
from benchorch.domain.codec import Json
from benchorch.domain.price import PriceSnapshot
from benchorch.domain.trial import Plan, Skip, Trial, value_at
from benchorch.formatting import axes_of

_OWNERS = ("model", "conversion", "hardware", "scenario")
"""Groups whose choice is a label: an option's keys distinguish trials with this option only."""


def merged(old: Plan | None, new: Plan) -> Plan:
    """Both plans' trials; skips of cells that are planned anew are those of the new plan."""
    if old is None:
        return new
    settings = tuple(dict.fromkeys([*old.settings, *new.settings]))
    known = {trial.trial_id for trial in old.trials}
    fresh = tuple(trial for trial in new.trials if trial.trial_id not in known)
    cells: Sequence[Trial | Skip] = (*new.trials, *new.skips)
    planned = {key for one in cells for key in (_labels(one), _cell(one, settings))}
    still = tuple(skip for skip in old.skips if _cell(skip, settings) not in planned)
    found = _distinguished([*old.trials, *fresh, *still, *new.skips], settings)
    return replace(
        old,
        trials=tuple(one for one in found if isinstance(one, Trial)),
        skips=tuple(one for one in found if isinstance(one, Skip)),
        session=new.session,
        prices=_merged_prices(old.prices, new.prices),
        notes=new.notes,
        settings=settings,
    )


def with_labels_of(plan: Plan, whole: Plan) -> Plan:
    """A batch's plan, its trials and skips labelled as in the plan of all batches."""
    labels = {trial.trial_id: trial.labels for trial in whole.trials}
    trials = (replace(trial, labels=labels[trial.trial_id]) for trial in plan.trials)
    skips = whole.skips[len(whole.skips) - len(plan.skips) :]  # the batch's are the last
    return replace(plan, trials=tuple(trials), skips=skips)


def _distinguished(
    cells: Sequence[Trial | Skip], settings: Sequence[str]
) -> Sequence[Trial | Skip]:
    """The cells with those settings in their labels in which batches differ.

    Within a batch the planner has left out what all of its own trials have in common. Skips
    without a spec stay as they are.
    """
    found = list(cells)
    for key in settings:
        values = [value_at(cell.spec, key.split(".")) for cell in found]
        owners = [_owner(cell, key) for cell in found]
        kinds: dict[str, set[str]] = {}
        for cell, owner, value in zip(found, owners, values, strict=True):
            if cell.spec:
                kinds.setdefault(owner, set()).add(canonical_json(value))
        for number, (owner, value) in enumerate(zip(owners, values, strict=True)):
            if value is not None and len(kinds[owner]) > 1:
                found[number] = _labelled(found[number], key, value)
    return found


def _owner(cell: Trial | Skip, key: str) -> str:
    """The option that a key belongs to, by its label; empty where none is a label."""
    group = key.partition(".")[0]
    return cell.labels.get(group, "") if group in _OWNERS else ""


def _labelled(cell: Trial | Skip, key: str, value: Json) -> Trial | Skip:
    """The cell with a setting among its labels, unless it is there."""
    axes = cell.labels.get("axes", "")
    if key in _named(cell.labels):
        return cell
    more = " ".join(filter(None, (axes, f"{key}={spelled(value)}")))
    return replace(cell, labels={**cell.labels, "axes": more})


def _named(labels: Mapping[str, str]) -> Iterator[str]:
    """The keys whose values labels show."""
    for word in axes_of(labels):
        yield word.partition("=")[0]
    for word in labels.get("workload", "").split():
        yield f"workload.{word.partition('=')[0]}"


def _cell(one: Trial | Skip, settings: Sequence[str]) -> Hashable:
    """What a cell is known by: its settings have labels in some batches only."""
    if not one.spec:
        return _labels(one)
    values = tuple(canonical_json(value_at(one.spec, key.split("."))) for key in settings)
    return frozenset({**one.labels, "axes": ""}.items()), values


def _labels(one: Trial | Skip) -> Hashable:
    return frozenset(one.labels.items())


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
