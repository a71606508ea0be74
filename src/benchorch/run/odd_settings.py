"""Settings that compose and that are mistakes, certainly or probably, a sentence each."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from benchorch.config.components import misspelt
from benchorch.config.composer import Composer, MatrixCell
from benchorch.domain.session import profile_words
from benchorch.domain.tensors import NOT_SYMBOLS
from benchorch.domain.trial import ConfigNode, Plan, Trial, node_of
from benchorch.host.environment import allowed_cpus
from benchorch.interfaces.executor import Executor, Way

_PROFILED = ("winner", "baseline", "all")


def unread_symbols(
    cells: Sequence[MatrixCell], trials: Collection[Trial], defaults: ConfigNode
) -> Iterator[str]:
    """Of the workload's symbols those that are set and that no trial's inputs have.

    Args:
        defaults: the workload where nothing is set.
    """
    if not trials:
        return
    read = {key for trial in trials for key in node_of(trial.spec, "workload")}
    workloads = {id(node): node for cell in cells for node in [node_of(cell.config, "workload")]}
    for key in sorted({key for node in workloads.values() for key in node} - read):
        values = [node[key] for node in workloads.values() if key in node]
        if key not in NOT_SYMBOLS and any(value != defaults.get(key) for value in values):
            others = () if key in defaults else read
            yield misspelt(f"workload.{key}: no input of these trials has it.", key, others)


def without_effect(cells: Sequence[MatrixCell], plan: Plan, composer: Composer) -> Iterator[str]:
    """Settings that nothing reads: symbols beside the workload's own, and names in ``profile``."""
    own = composer.option("workload", "default")
    for text in unread_symbols(cells, plan.trials, own):
        if text.partition(":")[0].removeprefix("workload.") not in own:
            yield text
    labels = [*(trial.labels for trial in plan.trials), *(skip.labels for skip in plan.skips)]
    named = {str(one.get("conversion")) for one in labels}
    known = {*_PROFILED, *named, *composer.options("conversion")}
    for word in profile_words(plan):
        if word not in known and composer.problems([f"conversion={word}"], sweep=False):
            allowed = ", ".join([*_PROFILED, *sorted(named)])
            problem = f"profile: there is no {word!r}."
            yield misspelt(problem, word, known, f" Options: {allowed}.")


def crowded_threads(trials: Collection[Trial], executor: Executor) -> Iterator[str]:
    """More threads than a machine has processors, where these are known."""
    nodes = [node_of(trial.spec, "hardware") for trial in trials]
    for node in {str(node.get("kind")): node for node in nodes}.values():
        threads, processors = node.get("threads"), _processors(node, executor)
        if isinstance(threads, int) and processors is not None and threads > processors:
            yield (
                f"hardware.threads: {threads} threads share the {processors} processors of "
                f"{node['kind']} and wait for one another; hardware.threads=null is one for each "
                "physical core."
            )


def _processors(node: ConfigNode, executor: Executor) -> int | None:
    """The logical processors of a declared machine, or of this one."""
    size = node_of(node, "sizes").get(str(node.get("size")))
    if isinstance(size, Mapping):
        return int(str(size["vcpus"]))
    here = executor.way(str(node.get("kind"))) is Way.LOCAL
    return len(allowed_cpus()) if here else None
