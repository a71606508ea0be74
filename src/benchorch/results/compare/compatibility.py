"""Fields that must agree before two numbers can be compared.

The *definition* is what was measured, as planned; the *environment* is where. Each field belongs to
a *factor*; a comparison names the factors that may differ, because they are its point.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from benchorch.config.components import MOVED
from benchorch.domain.codec import Json
from benchorch.domain.trial import ConfigNode
from benchorch.results.compare.stored_run import StoredTrial

FACTORS: Mapping[str, tuple[str, ...]] = {
    "model": (),
    "conversion": (),
    "workload": (),
    "scenario": (),
    "protocol": (),
    "packages": (),
    "threads": (),
    "host": (),
    "system": (),
    "hardware": ("host", "system", "threads"),
}
"""Factors of a comparison, and those that differ with them."""

# Settings of the operating system, which may differ between machines of one kind.
_SYSTEM = (
    *("system", "kernel", "libc", "clock_source", "numa_balancing", "transparent_huge_pages"),
    *("address_randomisation", "variables", "cpu_microcode", "cpu_mitigations", "cpu_governor"),
    *("cpu_energy_preference", "cpu_frequency_driver", "cpu_idle_driver"),
)
# The first match counts; a field of a definition without one does not change what is measured.
_FACTOR_OF = (
    ("model.labels", None),
    ("model.program", None),  # the place of a live module; model.digest identifies it
    ("hardware.conversions", None),
    ("hardware.threads", "threads"),
    ("conversion.description", None),
    ("conversion.tolerance_ratio", None),
    ("protocol.pin", "protocol"),
    ("protocol.cold_caches", "protocol"),
    ("protocol.tf32", "protocol"),
    ("environment.host", "host"),
    ("environment.packages", "packages"),
    ("environment.python", "packages"),
    *((f"environment.{name}", "system") for name in _SYSTEM),
    ("environment.cpu_", "hardware"),
    ("environment.gpu", "hardware"),
    ("environment.architecture", "hardware"),
    ("environment.virtual_machine", "hardware"),
    ("environment.memory_limit_bytes", "hardware"),
    ("environment.memory_node_count", "hardware"),
    ("ran.threads", "threads"),
    ("ran.device", "hardware"),
    ("ran.gpu", "hardware"),
    ("ran.compute_capability", "hardware"),
    ("device.", "hardware"),
    ("ran.dtype", "conversion"),
    ("ran.provider", "conversion"),
    *((f"{node}.", node) for node in ("model", "workload", "conversion", "hardware", "scenario")),
)
# They change all the time, on any machine.
_FLEETING = (
    "environment.load_average",
    "environment.memory_available_bytes",
    "environment.swap_used_bytes",
    "environment.cpu_steal_s",
    "environment.cpu_throttled_periods",
)
_VARIABLES = "environment.variables"
# A file of inputs that is named by its content is the same one wherever it lies.
_NAMED_BY_CONTENT = re.compile(r"(?:.*/)?([0-9a-f]{16,}\.(?:npz|safetensors))")
_DEFINING_NODES = ("model", "workload", "conversion", "hardware", "scenario", "protocol")


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldDifference:
    """A field that is not the same on both sides.

    Attributes:
        factor: that it belongs to; empty where it is reported only.
    """

    field: str
    factor: str
    a: Json
    b: Json

    def __str__(self) -> str:
        return f"{self.field}: {_plain(self.a)} in A, {_plain(self.b)} in B"


def factor_of(field: str) -> str | None:
    """The factor that a field belongs to, or None where it does not change what is measured."""
    fits = (factor for prefix, factor in _FACTOR_OF if f"{field}.".startswith(prefix))
    return next(fits, None)


def definition_of(spec: ConfigNode) -> Mapping[str, Json]:
    """Each field of a trial's configuration that changes what is measured, by its dotted path."""
    nodes = {name: spec[name] for name in _DEFINING_NODES if name in spec}
    return {
        field: _without_place(value)
        for field, value in _leaves(nodes)
        if factor_of(field) is not None
    }


def _without_place(value: Json) -> Json:
    if isinstance(value, list):
        return [_without_place(item) for item in value]
    if not isinstance(value, str):
        return value
    found = _NAMED_BY_CONTENT.fullmatch(value)
    return found[1] if found else MOVED.get(value, value)


def excused_by(factors: Collection[str]) -> frozenset[str]:
    """These factors, and those that differ with them."""
    implied = (other for factor in factors for other in FACTORS[factor])
    return frozenset((*factors, *implied))


def differences(a: StoredTrial, b: StoredTrial) -> tuple[FieldDifference, ...]:
    """Every field in which two trials with results differ, those that decide first.

    A fact of the environment that is unknown on one side is no difference; a variable that is
    not set there is one.
    """
    defined = _differing(definition_of(a.trial.spec), definition_of(b.trial.spec), known=False)
    of_a, of_b = _environment(a), _environment(b)
    observed = _differing(_with_unset(of_a, of_b), _with_unset(of_b, of_a), known=True)
    found = [
        FieldDifference(field=field, factor=factor_of(field) or "", a=in_a, b=in_b)
        for field, in_a, in_b in (*defined, *observed)
        if not field.startswith(_FLEETING)
    ]
    return tuple(sorted(found, key=lambda difference: not difference.factor))


def baseline_differences(a: StoredTrial, b: StoredTrial) -> tuple[FieldDifference, ...]:
    """Every field in which the two baselines' conversions differ."""
    nodes = ({"conversion": one.trial.baseline_conversion or {}} for one in (a, b))
    defined = _differing(*(definition_of(node) for node in nodes), known=False)
    return tuple(
        FieldDifference(field=f"baseline {field}", factor="conversion", a=of_a, b=of_b)
        for field, of_a, of_b in defined
    )


def _environment(stored: StoredTrial) -> Mapping[str, Json]:
    result = stored.result
    evidence = stored.evidence
    nodes: dict[str, Json] = {"ran": dict(evidence.facts), "device": dict(evidence.device)}
    if result is not None:
        nodes["environment"] = dict(result.environment)
        if result.build is not None and result.build.model_digest:
            nodes["weights"] = result.build.model_digest
    return dict(_leaves(nodes))


def _with_unset(one: Mapping[str, Json], other: Mapping[str, Json]) -> Mapping[str, Json]:
    """The fields of one, and the environment variables that only the other has set.

    A run that noted no variables, which is an older one, may have had any.
    """
    if not any(field.startswith(_VARIABLES) for field in one):
        return one
    unset = (field for field in other if field.startswith(f"{_VARIABLES}.") and field not in one)
    return {**one, **dict.fromkeys(unset, "(not set)")}


def _differing(
    a: Mapping[str, Json], b: Mapping[str, Json], *, known: bool
) -> Iterator[tuple[str, Json, Json]]:
    for field in dict.fromkeys((*a, *b)):
        of_a, of_b = a.get(field), b.get(field)
        if of_a != of_b and not (known and None in (of_a, of_b)):
            yield field, of_a, of_b


def _leaves(node: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    """Each value by its dotted path; a list is a value, and so is an empty mapping."""
    if isinstance(node, Mapping) and (node or not path):
        for key, value in node.items():
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    else:
        yield path, list(node) if isinstance(node, tuple) else node


def _plain(value: Json) -> str:
    return value if isinstance(value, str) and value else repr(value)
