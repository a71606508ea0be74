"""A plan in words, without the statistics that results need."""

from collections.abc import Mapping, Sequence

from benchorch.domain.trial import Plan, Skip, Trial
from benchorch.formatting import aligned, bounded, cell_name, plural, varying_labels


def plan_text(plan: Plan) -> str:
    """The plan as plain text, without rich, so that it appears at once."""
    rows: list[tuple[str, ...]] = [("trial", "model", "conversion", "hardware", "workload")]
    for trial in plan.trials:
        labels = trial.labels
        workload = " ".join(filter(None, (labels["workload"], labels["axes"])))
        named = (labels["model"], labels["conversion"], labels["hardware"], workload)
        rows.append((trial.trial_id, *map(bounded, named)))
    lines = [aligned(rows)]
    lines += [f"skip  {skip_text(skip)}" for skip in plan.skips]
    lines += [f"note  {note}" for note in plan.notes]
    lines.append(f"{plural(len(plan.trials), 'trial')}, {plural(len(plan.skips), 'skip')}")
    return "\n".join(lines)


def names_of(trials: Sequence[Trial]) -> Mapping[str, str]:
    """Each trial's short name among these, by its id."""
    varying = varying_labels([trial.labels for trial in trials])
    return {trial.trial_id: cell_name(trial.labels, varying) for trial in trials}


def skip_text(skip: Skip) -> str:
    """A skipped cell, the reason, and what would enable it."""
    names = ("model", "conversion", "hardware", "workload", "axes")
    cell = " / ".join(skip.labels[name] for name in names if skip.labels.get(name))
    remedy = f" To enable it: {skip.remedy}." if skip.remedy else ""
    return f"{bounded(cell)}: {skip.reason}{remedy}"
