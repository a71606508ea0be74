"""Executed precision of a trial, from its runtime's facts and its chain's requests."""

from collections.abc import Iterator, Mapping
from typing import cast

from benchorch.config.trial_setup import TrialSetup
from benchorch.domain.codec import Json
from benchorch.domain.execution import Execution

Facts = Mapping[str, Json]

_FLOATS = ("float64", "float32", "float16", "bfloat16")
_HALVES = ("float16", "bfloat16")
_FEW_BITS = ("int", "uint", "float8")


def execution_of(setup: TrialSetup, facts: Facts) -> Execution:
    """Requested and executed precision, as far as an executable's facts show it.

    Args:
        setup: whose links know what they ask for, and when they changed nothing.
        facts: of one loaded executable.
    """
    requested = _requested(setup)
    executed, ratio = _executed(requested, facts)
    return Execution(
        requested=requested,
        executed=executed,
        executed_ratio=ratio,
        casts=_count(facts, "casts"),
        autotuned_kernels=_count(facts, "autotuned_kernels"),
        packed_layers=_count(facts, "packed_layers"),
        delegated_subgraphs=_count(facts, "delegated_subgraphs"),
        delegate=str(facts.get("delegate") or ""),
        no_effect=tuple(_without_effect(setup, facts)),
        inputs_cast=tuple(_inputs_cast(setup, facts)),
        unknown="" if ratio is not None else _uncounted(setup, facts),
    )


def _uncounted(setup: TrialSetup, facts: Facts) -> str:
    """Reason why the precision of the operators is unknown."""
    if "uncounted" in facts:
        return str(facts["uncounted"])
    if facts.get("executed_dtypes") is not None:
        return "none of its operators computes in floating point"
    provider = facts.get("provider") or type(setup.runtime).__name__
    return f"{provider} does not report its operators, and no exported program came before it"


def _requested(setup: TrialSetup) -> str:
    """The precision that the chain names: of its steps' the fewest bits, else its runtime's."""
    precisions = [step.requested_precision for _, step in setup.steps]
    quantised = [word for word in precisions if word.startswith(_FEW_BITS)]
    floats = [word for word in (*precisions, setup.runtime.requested_precision) if word in _FLOATS]
    return next(iter((*quantised[-1:], *floats[-1:])), "")


def _executed(requested: str, facts: Facts) -> tuple[str, float | None]:
    """The precision of most operators, and their share."""
    quantised = facts.get("quantized_share")
    if requested.startswith(_FEW_BITS) and isinstance(quantised, float) and quantised > 0:
        return requested, quantised
    counted = cast("Mapping[str, int]", facts.get("executed_dtypes") or {})
    floats = {word: n for word, n in counted.items() if word in _FLOATS}
    if floats:
        most = max(floats, key=lambda word: floats[word])
        return most, round(floats[most] / sum(floats.values()), 4)
    dtype = str(facts.get("autocast") or facts.get("dtype") or "")
    return ("" if dtype in ("none", "unknown") else dtype), None


def _inputs_cast(setup: TrialSetup, facts: Facts) -> Iterator[str]:
    """Floating inputs take the dtype of the weights, where those have just one."""
    taken = facts.get("input_dtype", facts.get("dtype"))
    for spec in setup.model.specs() if taken in _FLOATS else ():
        if spec.dtype in _HALVES and spec.dtype != taken:
            yield f"{spec.name} from {spec.dtype}"


def _without_effect(setup: TrialSetup, facts: Facts) -> Iterator[str]:
    """For each link that changed nothing, its name and why."""
    for name, step in setup.steps:
        reason = step.without_effect(facts, type(setup.hardware).device)
        if reason:
            yield f"{name}: {reason}"


def _count(facts: Facts, name: str) -> int | None:
    value = facts.get(name)
    return value if isinstance(value, int) else None
