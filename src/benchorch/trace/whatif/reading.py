"""What does a file ask? Changes in order, each with what it is about and what happens to it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypeVar, final

from benchorch.errors import TraceError
from benchorch.trace.dag import Class
from benchorch.trace.whatif import limits, restructure, swap
from benchorch.trace.whatif.amdahl4ml import node_speedups
from benchorch.trace.whatif.patterns import matcher, suggest
from benchorch.trace.whatif.selector_values import PHASES, Selector
from benchorch.trace.whatif.transforms import (
    AddTime,
    Host,
    LaunchLatency,
    Remove,
    Residual,
    SetTime,
    Speedup,
    Transform,
)

T = TypeVar("T")
Maker: TypeAlias = Callable[[Selector, object], Transform]
_TEXTS = ("name", "op", "kernel", "module", "lane", "graph_node", "dtype", "shape")
SELECTING = (*_TEXTS, "phase", "iteration", "class", "self")
_OF_EVERYTHING = ("host", "launch_latency_ns", "bandwidth", "clock", "residual")
"""Changes of all there is of a kind, which take no selector."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """A question with its name."""

    name: str
    changes: tuple[Transform, ...]


def read(path: Path) -> WhatIf:
    """The question that a YAML or JSON file asks; Amdahl4ML's ``speedups.json`` is one.

    Raises:
        TraceError: with everything that is wrong with the file.
    """
    import msgspec

    try:
        # JSON is YAML, but for the numbers that only JSON's readers take for such.
        decode = msgspec.json.decode if path.suffix == ".json" else msgspec.yaml.decode
        content = decode(path.read_bytes())
    except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
        raise TraceError(f"{path}: no what-if can be read: {error}") from error
    try:
        return parse(content, path.stem)
    except TraceError as error:
        raise TraceError("\n".join(f"{path}: {line}" for line in str(error).splitlines())) from None


def parse(content: object, name: str = "what-if") -> WhatIf:
    """The same of what a file holds; `name` is for one that does not name itself."""
    if not isinstance(content, Mapping):
        raise TraceError(
            "expected an object with changes or speedups; see docs/analysis/what-if.md."
        )
    known = ("name", "changes", "speedups")
    problems = [f"{key!r} is none of {', '.join(known)}." for key in content if key not in known]
    changes: list[Transform] = []
    if "speedups" in content:
        changes += _kept(lambda: node_speedups(content["speedups"]), problems, "speedups")
    listed = content.get("changes", [])
    if not isinstance(listed, list):
        problems.append(f"changes: expected a list, saw {listed!r}.")
        listed = []
    for number, entry in enumerate(listed, 1):
        changes += _kept(partial(change, entry), problems, f"change {number}")
    if not changes and not problems:
        problems.append("there is no change in it; see docs/analysis/what-if.md.")
    if problems:
        raise TraceError("\n".join(problems))
    return WhatIf(name=str(content.get("name", name)), changes=tuple(changes))


def change(entry: object) -> Transform:
    """One change; TraceError with every problem of it."""
    if not isinstance(entry, Mapping):
        raise TraceError(f"expected an object, saw {entry!r}.")
    problems = [
        f"{key!r} is neither what to choose nor what to change.{suggest(str(key), _KEYS)}"
        for key in entry
        if key not in _KEYS
    ]
    doing = [key for key in entry if key in MAKERS]
    if len(doing) != 1:
        seen = f"saw {' and '.join(doing)}" if doing else "saw none"
        problems.append(f"expected one of {', '.join(MAKERS)}; {seen}.")
    chosen = [key for key in entry if key in SELECTING]
    if doing and doing[0] in _OF_EVERYTHING and chosen:
        problems.append(f"{doing[0]} is about everything and takes no {', '.join(chosen)}.")
    selector = _kept(lambda: selector_of(entry), problems, "")
    if problems:
        raise TraceError("\n".join(problems))
    return MAKERS[doing[0]](selector[0], entry[doing[0]])


def selector_of(entry: Mapping[str, object]) -> Selector:
    """What an entry is about; TraceError with every problem."""
    problems = []
    for key in (key for key in _TEXTS if key in entry):
        if isinstance(entry[key], Mapping | list | bool) or entry[key] in (None, ""):
            problems.append(f"{key}: expected a text, saw {entry[key]!r}.")
        else:
            _kept(partial(matcher, str(entry[key])), problems, key)
    phase, iteration = entry.get("phase", ""), entry.get("iteration")
    if phase and phase not in PHASES:
        problems.append(f"phase: expected one of {', '.join(PHASES)}, saw {phase!r}.")
    if iteration is not None and (isinstance(iteration, bool) or not isinstance(iteration, int)):
        problems.append(f"iteration: expected a whole number from 0, saw {iteration!r}.")
    if not isinstance(entry.get("self", False), bool):
        problems.append(f"self: expected true or false, saw {entry['self']!r}.")
    classes = entry.get("class", [])
    named = [str(one) for one in (classes if isinstance(classes, list) else [classes])]
    problems += [
        f"class: {one!r} is none of {', '.join(Class)}.{suggest(one, Class)}"
        for one in named
        if one not in tuple(Class)
    ]
    if problems:
        raise TraceError("\n".join(problems))
    return Selector(
        **{key: str(entry[key]) for key in _TEXTS if key in entry},
        phase=str(phase),
        iteration=iteration if isinstance(iteration, int) else None,
        classes=tuple(Class(one) for one in named),
        alone=entry.get("self") is True,
    )


def number(value: object, what: str, *, least: float = 0.0, above: bool = False) -> float:
    """A number no less than `least`, or above it; ``inf`` is one. TraceError for anything else."""
    try:
        seen = float(value) if isinstance(value, int | float | str) else math.nan
    except ValueError:
        seen = math.nan
    if isinstance(value, bool) or math.isnan(seen) or seen < least or (above and seen == least):
        bound = f"above {least:g}" if above else f"of at least {least:g}"
        raise TraceError(f"{what}: expected a number {bound}, saw {value!r}.")
    return seen


def _finite(value: object, what: str, *, least: float = 0.0) -> float:
    seen = number(value, what, least=least)
    if math.isinf(seen):
        raise TraceError(f"{what}: expected a number of nanoseconds, saw {value!r}.")
    return seen


def _flag(value: object, what: str) -> None:
    if value is not True:
        raise TraceError(f"{what}: expected true, saw {value!r}.")


def _ratio_of_residual(value: object) -> float:
    if value in ("keep", "drop"):
        return float(value == "keep")
    if isinstance(value, Mapping) and set(value) == {"scale"}:
        return _finite(value["scale"], "residual: scale")
    raise TraceError(f"residual: expected keep, drop or {{scale: 0.5}}, saw {value!r}.")


def _simple(make: Callable[[Selector], Transform], what: str) -> Maker:
    """A change that is either made or not."""

    def made(selector: Selector, value: object) -> Transform:
        _flag(value, what)
        return make(selector)

    return made


def _times(value: object, what: str) -> float:
    return number(value, what, above=True)


MAKERS: Mapping[str, Maker] = {
    "speedup": lambda chosen, value: Speedup(select=chosen, speedup=_times(value, "speedup")),
    "set_ns": lambda chosen, value: SetTime(select=chosen, set_ns=_finite(value, "set_ns")),
    "add_ns": lambda chosen, value: AddTime(
        select=chosen, add_ns=_finite(value, "add_ns", least=-math.inf)
    ),
    "remove": _simple(lambda chosen: Remove(select=chosen), "remove"),
    "roofline": lambda chosen, value: limits.Roofline(
        select=chosen, efficiency_ratio=_times(value, "roofline")
    ),
    "fuse": _simple(lambda chosen: restructure.Fuse(select=chosen), "fuse"),
    "cuda_graph": _simple(lambda chosen: restructure.CudaGraph(select=chosen), "cuda_graph"),
    "overlap": _simple(lambda chosen: restructure.Overlap(select=chosen), "overlap"),
    "swap": lambda chosen, value: swap.Swap(select=chosen, trial=str(value)),
    "host": lambda _, value: Host(speedup=_times(value, "host")),
    "launch_latency_ns": lambda _, value: LaunchLatency(
        latency_ns=_finite(value, "launch_latency_ns")
    ),
    "bandwidth": lambda _, value: limits.Bandwidth(speedup=_times(value, "bandwidth")),
    "clock": lambda _, value: limits.ArithmeticSpeed(speedup=_times(value, "clock")),
    "residual": lambda _, value: Residual(ratio=_ratio_of_residual(value)),
}
_KEYS = (*SELECTING, *MAKERS)


def _kept(make: Callable[[], T], problems: list[str], where: str) -> list[T]:
    """What is made, or nothing and its problems noted."""
    try:
        return [make()]
    except TraceError as error:
        place = f"{where}: " if where else ""
        problems += [f"{place}{line}" for line in str(error).splitlines()]
        return []
