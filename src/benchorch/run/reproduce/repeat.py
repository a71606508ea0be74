"""A measurement once more on this machine: what stands in its way, and the plan of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeAlias, cast

from benchorch.config.components import make
from benchorch.config.parity_setup import parity_setup
from benchorch.config.trial_setup import open_trial
from benchorch.domain.codec import with_texts
from benchorch.domain.trial import ConfigNode, Plan, Trial, node_of
from benchorch.errors import ConfigError, Correction, Problem, Problems
from benchorch.formatting import shell_word
from benchorch.host.environment import describe_host, package_versions
from benchorch.interfaces.executor import Executor, Way
from benchorch.journal.chain import UNREADABLE
from benchorch.models import trust
from benchorch.results.compare.compatibility import differences, excused_by
from benchorch.results.compare.stored_run import StoredTrial
from benchorch.run.planner import new_plan_id
from benchorch.run.reproduce.bundle import named_files

Names: TypeAlias = Mapping[str, str]


def refuse_untrusted(plan: Plan, path: Path, carried: Mapping[str, str]) -> None:
    """ConfigError where a plan of others names code; it runs where the user has named its file.

    Args:
        path: of the bundle.
        carried: of code that lies in the bundle, the name that its trials had for it.
    """
    if trust.trusts(path):
        trust.grant(*trust.references_of(plan))
    refused = {reference: trust.refusal(reference) for reference in trust.references_of(plan)}
    added = Correction(added=(trust.FLAG, str(path)))
    text = (
        f"the bundle holds this code; if you trust who made it, add {trust.FLAG} {shell_word(path)}"
    )
    of_bundle = Problem(text, added)
    problems = [
        (of_bundle if reference in carried else why).within(
            f"{carried.get(reference, reference)}: ", "."
        )
        for reference, why in refused.items()
        if why
    ]
    if problems:
        raise ConfigError(problems)


def unpacked_names(plan: Plan, files: Mapping[str, str], carried: Mapping[str, Path]) -> Names:
    """What a bundle holds, and this machine does not: its name in the trials, and its name here."""
    own = named_files(plan)
    return {
        name: f"{place}:{name.rpartition(':')[2]}" if trust.is_reference(name) else str(place)
        for name, place in carried.items()
        if own.get(name) != files[name]
    }


def renamed(trial: Trial, names: Names) -> Trial:
    """The trial with other names for its files."""
    spec = with_texts(trial.spec, lambda text: names.get(text, text))
    return replace(trial, spec=cast(ConfigNode, spec))


def refuse_unknown(trials: Sequence[Trial]) -> None:
    """ConfigError with every component that this version of benchorch cannot make."""
    problems = Problems()
    for trial in trials:
        problems.attempt(partial(_open, trial))
    problems.stop()


def _open(trial: Trial) -> None:
    try:
        open_trial(trial.spec)
        parity_setup(trial.spec)
    except UNREADABLE as error:
        raise ConfigError([f"trial {trial.trial_id} is damaged: {error!r}."]) from error


def repetition(plan: Plan, session: ConfigNode) -> Plan:
    """The plan of the same trials with this machine's own store, executor and recorder."""
    return replace(plan, plan_id=new_plan_id(), session=session, skips=(), notes=(), prices=None)


def obstacles(
    trials: Sequence[StoredTrial], plan: Plan, files: Mapping[str, str], across: Collection[str]
) -> list[str]:
    """Why what is measured here and now could not be compared, a sentence each.

    Args:
        plan: of the repetition.
        files: SHA-256 of the user's files when it was measured first, by the name in the trial.
        across: factors that may differ.
    """
    executor = make(node_of(plan.session, "executor"), Executor, "executor")
    found = list(_other_files(files, named_files(plan)))
    for kind in dict.fromkeys(trial.hardware_kind for trial in plan.trials):
        why = executor.unreachable(kind)
        found += [f"hardware={kind}: {why}"] if why else []
    here = [one for one in trials if executor.way(one.trial.hardware_kind) is Way.LOCAL]
    return [*found, *_other_surroundings(here, across)]


def _other_files(first: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name, digest in first.items():
        if name not in now:
            yield f"{name} is not here; it was measured with SHA-256 {digest[:16]}"
        elif now[name] != digest:
            yield f"{name} has SHA-256 {now[name][:16]}; it was measured with {digest[:16]}"


def _other_surroundings(trials: Sequence[StoredTrial], across: Collection[str]) -> Iterator[str]:
    """Fields of this machine and its packages that are not as they were, each once."""
    host, excused = describe_host(), excused_by({"host", *across})
    reported: set[str] = set()
    for one in trials:
        if one.result is None:
            continue
        names = node_of(one.environment, "packages")
        now = {**host, "packages": package_versions(names)}
        here = replace(one, result=replace(one.result, environment=now))
        for found in differences(one, here):
            text = f"{found.field}: {found.a!r} then, {found.b!r} now"
            if found.factor and found.factor not in excused and text not in reported:
                reported.add(text)
                yield f"{text} (--across {found.factor})"
