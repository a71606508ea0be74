"""What ran, in a table's cell and in sentences."""

from collections.abc import Iterator

from benchorch.domain.execution import FULL_PRECISION, Execution
from benchorch.domain.result import TrialResult
from benchorch.formatting import plural


def execution_matters(result: TrialResult) -> bool:
    """Whether a table has to state what ran: it is not float32 as requested."""
    ran = result.execution
    if ran is None:
        return False
    return (
        ran.differs
        or bool(ran.no_effect or ran.inputs_cast)
        or ran.executed not in ("", FULL_PRECISION)
    )


def precision_text(result: TrialResult | None) -> str:
    """``bfloat16 92 %``, ``float32, not float16`` or ``float32; no effect; x from bfloat16``."""
    ran = result.execution if result else None
    if ran is None or not ran.executed:
        return "–"
    share = "" if ran.executed_ratio in (None, 1.0) else f" {_percent(ran)}"
    instead = f", not {ran.requested}" if ran.differs else ""
    effect = "; no effect" if ran.no_effect else ""
    cast = "".join(f"; {each}" for each in ran.inputs_cast)
    return f"{ran.executed}{share}{instead}{effect}{cast}"


def execution_facts(ran: Execution) -> Iterator[tuple[str, str]]:
    """Each thing that is known of what ran, by a name for people."""
    if ran.executed:
        share = f" (share unknown: {ran.unknown})" if ran.unknown else ""
        share = share if ran.executed_ratio is None else f" ({_percent(ran)} of the operators)"
        requested = f"; requested: {ran.requested}" if ran.requested else ""
        yield "ran in", f"{ran.executed}{share}{requested}"
    elif ran.unknown:
        yield "ran in", f"unknown: {ran.unknown}"
    counts = (
        (ran.casts, "cast"),
        (ran.autotuned_kernels, "autotuned kernel"),
        (ran.packed_layers, "packed layer"),
    )
    known = [plural(count, name) for count, name in counts if count]
    if ran.delegate and ran.delegated_subgraphs is not None:
        known.append(f"{plural(ran.delegated_subgraphs, 'subgraph')} in {ran.delegate}")
    if known:
        yield "of it", ", ".join(known)
    if ran.inputs_cast:
        yield "inputs cast", ", ".join(ran.inputs_cast)
    yield from (("no effect", reason) for reason in ran.no_effect)


def _percent(ran: Execution) -> str:
    ratio = ran.executed_ratio or 0.0
    return f"{100 * ratio:.3g} %"
