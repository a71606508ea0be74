"""What-if files: changes in order, each with its selection and its effect."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

from benchorch.errors import TraceError
from benchorch.files import read_small
from benchorch.trace.dag import Class
from benchorch.trace.whatif.amdahl4ml import LEAST_SPEEDUP, node_speedups
from benchorch.trace.whatif.basis import PHASES, Selector
from benchorch.trace.whatif.selector import matcher, suggest
from benchorch.trace.whatif.transforms import OVERALL, Change, Transform

_MOST_NS = 1e12  # of one operator: the times of millions of them still add up
_Text = Annotated[str, Meta(min_length=1)] | int | float
_Factor = Annotated[float, Meta(ge=LEAST_SPEEDUP)]
_Positive = Annotated[float, Meta(ge=0, le=_MOST_NS)]


class _Scale(msgspec.Struct, forbid_unknown_fields=True):
    scale: _Positive


SELECTING: Mapping[str, Any] = {
    **dict.fromkeys(("name", "op", "kernel", "module", "lane", "graph_node"), _Text),
    **dict.fromkeys(("dtype", "shape"), _Text),
    "phase": Literal["", "forward", "backward", "optimizer"],
    **dict.fromkeys(("iteration", "rank"), int | None),
    "class": Class | list[Class],
    "self": bool,
}
CHANGES: Mapping[str, Any] = {
    "speedup": _Factor,
    "set_ns": _Positive,
    "add_ns": Annotated[float, Meta(ge=-_MOST_NS, le=_MOST_NS)],
    **dict.fromkeys(("remove", "fuse", "cuda_graph", "overlap"), bool),
    "host": _Factor,
    "launch_latency_ns": _Positive,
    "bandwidth": _Factor,
    "residual": Literal["keep", "drop"] | _Scale,
}
"""Type of a value, by the key of a file: what selects, and effects."""

_RESIDUALS = {"keep": 1.0, "drop": 0.0, True: 1.0}
_ATTRIBUTES = {"class": "classes", "self": "alone"}  # of `Selector`, where a key has another name
_WORDS = {"class": tuple(Class), "phase": PHASES, "residual": ("keep", "drop", "{scale: 0.5}")}


class WhatIf(NamedTuple):
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
    listed = content.get("changes", [])
    if not isinstance(listed, list):
        problems.append(f"changes: expected a list, saw {listed!r}.")
        listed = []
    parts: list[tuple[str, Callable[[object], Transform], object]] = []
    if "speedups" in content:
        parts.append(("speedups", node_speedups, content["speedups"]))
    parts += [(f"change {number}", change, entry) for number, entry in enumerate(listed, 1)]
    for where, read_one, entry in parts:
        try:
            changes.append(read_one(entry))
        except TraceError as error:
            problems += [f"{where}: {line}" for line in str(error).splitlines()]
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
    given: dict[str, Any] = {}
    for key in (*chosen, *doing):
        try:
            given[key] = _converted(key, entry[key])
        except (msgspec.ValidationError, TraceError) as error:
            known = _WORDS.get(key, ())
            allowed = f" Allowed: {', '.join(known)}.{suggest(str(entry[key]), known)}"
            problems.append(f"{key}: {error}; saw {entry[key]!r}.{allowed if known else ''}")
    if problems:
        raise TraceError("\n".join(problems))
    options = {_ATTRIBUTES.get(key, key): given[key] for key in chosen}
    return Change(effect=doing[0], value=given[doing[0]], select=Selector(**options))


def _converted(key: str, value: object) -> Any:
    """The value of a key; an error where it has another type or cannot be."""
    kind = SELECTING.get(key, CHANGES.get(key))
    found = msgspec.convert(value, kind, strict=key in SELECTING or kind is bool)
    if key in CHANGES:
        if found is False:
            raise TraceError("expected true")
        return found.scale if isinstance(found, _Scale) else _RESIDUALS.get(found, found)
    if key == "class":
        return tuple(found) if isinstance(found, list) else (found,)
    if kind is _Text:
        matcher(str(found))
        return str(found)
    return found
