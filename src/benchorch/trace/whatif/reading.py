"""What-if files: changes in order, each with its selection and its effect."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, final

import msgspec

from benchorch.errors import TraceError
from benchorch.files import read_small
from benchorch.trace.dag import Class
from benchorch.trace.whatif.amdahl4ml import LEAST_SPEEDUP, node_speedups
from benchorch.trace.whatif.selector_values import PHASES, Selector, matcher, suggest
from benchorch.trace.whatif.transforms import OVERALL, Change, Transform

_MOST_NS = 1e12  # of one operator: the times of millions of them still add up

T = TypeVar("T")
Check = Callable[[object], Any]  # the value of a key; TraceError for one that is not allowed


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """A named list of changes."""

    name: str
    changes: tuple[Transform, ...]


def read(path: Path) -> WhatIf:
    """The what-if in a YAML or JSON file, or in Amdahl4ML's ``speedups.json``."""
    try:
        # JSON is YAML, but for the numbers that only JSON's readers take for such.
        decode = msgspec.json.decode if path.suffix == ".json" else msgspec.yaml.decode
        content = decode(read_small(path, links=True))
    except (OSError, ValueError, RecursionError, msgspec.DecodeError) as error:
        raise TraceError(f"{path}: no what-if can be read: {error}") from error
    try:
        return parse(content, path.stem)
    except TraceError as error:
        raise TraceError("\n".join(f"{path}: {line}" for line in str(error).splitlines())) from None


def parse(content: object, name: str = "what-if") -> WhatIf:
    """The what-if in a file's content, which has this name if it does not name itself."""
    if not isinstance(content, Mapping):
        raise TraceError(
            "expected an object with changes or speedups; see docs/analysis/what-if.md."
        )
    allowed = ("name", "changes", "speedups")
    problems = [
        f"{key!r} is none of {', '.join(allowed)}." for key in content if key not in allowed
    ]
    changes: list[Transform] = []
    if "speedups" in content:
        changes += _checked(node_speedups, content["speedups"], "speedups", problems)
    listed = content.get("changes", [])
    if not isinstance(listed, list):
        problems.append(f"changes: expected a list, saw {listed!r}.")
        listed = []
    for number, entry in enumerate(listed, 1):
        changes += _checked(change, entry, f"change {number}", problems)
    if not changes and not problems:
        problems.append("there is no change in it; see docs/analysis/what-if.md.")
    if problems:
        raise TraceError("\n".join(problems))
    return WhatIf(name=str(content.get("name", name)), changes=tuple(changes))


def change(entry: object) -> Change:
    """Parsed change; TraceError with every problem of it."""
    if not isinstance(entry, Mapping):
        raise TraceError(f"expected an object, saw {entry!r}.")
    problems = [
        f"{key!r} is neither what to choose nor what to change."
        f"{suggest(str(key), (*SELECTING, *CHANGES))}"
        for key in entry
        if key not in SELECTING and key not in CHANGES
    ]
    doing = [key for key in entry if key in CHANGES]
    if len(doing) != 1:
        saw = f"saw {' and '.join(doing)}" if doing else "saw none"
        problems.append(f"expected one of {', '.join(CHANGES)}; {saw}.")
    chosen = [key for key in entry if key in SELECTING]
    if chosen and doing and doing[0] in OVERALL:
        problems.append(f"{doing[0]} is about everything and takes no {', '.join(chosen)}.")
    options = {
        attribute: value
        for key in chosen
        for attribute, check in [SELECTING[key]]
        for value in _checked(check, entry[key], key, problems)
    }
    values = [v for key in doing for v in _checked(CHANGES[key], entry[key], key, problems)]
    if problems:
        raise TraceError("\n".join(problems))
    return Change(effect=doing[0], value=float(values[0]), select=Selector(**options))


def _checked(check: Callable[[Any], T], value: object, where: str, problems: list[str]) -> list[T]:
    """The checked value, or nothing and its problems noted."""
    try:
        return [check(value)]
    except TraceError as error:
        problems += [f"{where}: {line}" for line in str(error).splitlines()]
        return []


def _text(value: object) -> str:
    if isinstance(value, Mapping | list | bool) or value in (None, ""):
        raise _wrong("a text", value)
    matcher(str(value))
    return str(value)


def _one_of(expected: str, fits: Callable[[Any], bool], made: Check = lambda value: value) -> Check:
    """The check of a value by a predicate, and what is made of it."""

    def check(value: object) -> Any:
        if not fits(value):
            raise _wrong(expected, value)
        return made(value)

    return check


def _is_iteration(value: object) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool))


def _classes(value: object) -> tuple[Class, ...]:
    named = [str(one) for one in (value if isinstance(value, list) else [value])]
    unknown = [one for one in named if one not in tuple(Class)]
    if unknown:
        listed = ", ".join(Class)
        raise TraceError(
            "\n".join(f"{one!r} is none of {listed}.{suggest(one, Class)}" for one in unknown)
        )
    return tuple(map(Class, named))


def _number(value: object) -> float:
    try:
        number = float(value) if isinstance(value, int | float | str) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    return math.nan if isinstance(value, bool) else number


def _nanoseconds(value: object, least: float = 0.0) -> float:
    number = _number(value)
    if not number >= least:
        raise _wrong(f"a number of at least {least:g}", value)
    if abs(number) > _MOST_NS:
        raise _wrong(f"a number of nanoseconds of at most {_MOST_NS:g}", value)
    return number


def _residual(value: object) -> float:
    if isinstance(value, Mapping) and set(value) == {"scale"}:
        problems: list[str] = []
        for ratio in _checked(_nanoseconds, value["scale"], "scale", problems):
            return ratio
        raise TraceError(problems[0])
    if value not in ("keep", "drop"):
        raise _wrong("keep, drop or {scale: 0.5}", value)
    return float(value == "keep")


def _wrong(expected: str, value: object) -> TraceError:
    return TraceError(f"expected {expected}, saw {value!r}.")


_phase = _one_of(f"one of {', '.join(PHASES)}", ("", *PHASES).__contains__, str)
_iteration = _one_of("a whole number from 0", _is_iteration)
_boolean = _one_of("true or false", lambda value: isinstance(value, bool))
_true = _one_of("true", lambda value: value is True)
_factor = _one_of(
    f"a number of at least {LEAST_SPEEDUP:g}",
    lambda value: _number(value) >= LEAST_SPEEDUP,
    _number,
)

SELECTING: Mapping[str, tuple[str, Check]] = {
    **{key: (key, _text) for key in ("name", "op", "kernel", "module", "lane", "graph_node")},
    **{key: (key, _text) for key in ("dtype", "shape")},
    "phase": ("phase", _phase),
    "iteration": ("iteration", _iteration),
    "rank": ("rank", _iteration),
    "class": ("classes", _classes),
    "self": ("alone", _boolean),
}
"""Attribute of `Selector` and check of its value, by the key of a file."""

CHANGES: Mapping[str, Check] = {
    "speedup": _factor,
    "set_ns": _nanoseconds,
    "add_ns": partial(_nanoseconds, least=-math.inf),
    **dict.fromkeys(("remove", "fuse", "cuda_graph", "overlap"), _true),
    "host": _factor,
    "launch_latency_ns": _nanoseconds,
    "bandwidth": _factor,
    "residual": _residual,
}
"""Check of an effect's value, by the key of a file."""
