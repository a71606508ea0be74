"""Damage at random to files and trees, for the tests of `tests/fuzz`.

`FUZZ` is how many cases of each kind are tried; a slice by default. They are counted, so that a run
which was stopped goes on with what is left.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.database import DirectoryBasedExampleDatabase

from benchorch.files import write_text

LIMIT_CPU_S = 10
BATCH = 100
# Tests stand in folders of their own while they run.
KEPT = Path(__file__).resolve().parents[2] / ".hypothesis"
COUNTS = KEPT / "fuzz"
ODD = (
    *(None, True, -1, 0, 10**400, 1e308, float("nan"), float("inf"), "", "x", "../../x", "\x1b[2J"),
    *([], {}, [[]], {"": None}, ["x"] * 3, "\ud800", [1.5, None]),
)

NUMBERS = (0, -1, 1, 0.5, 2**62, 10**18, 1e308, 5e-324, float("nan"), float("inf"), -float("inf"))


def fuzzed(slice_of: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """`FUZZ` cases in batches, or that many in one, which are then always the same."""
    whole = int(os.environ.get("FUZZ", 0))
    chosen = settings(
        max_examples=min(BATCH, whole) if whole else slice_of,
        derandomize=not whole,
        database=DirectoryBasedExampleDatabase(KEPT / "examples") if whole else None,
        deadline=None,
        report_multiple_bugs=True,
        suppress_health_check=list(HealthCheck),
    )
    if not whole:
        return chosen
    return lambda test: _in_batches(chosen(test), chosen.max_examples, whole)


def _in_batches(test: Callable[..., None], size: int, whole: int) -> Callable[..., None]:
    """The test again and again, each time with other cases, until so many have passed."""

    @functools.wraps(test)
    def batches(**fixtures: Any) -> None:
        while (passed := passed_cases(test.__name__)) < whole:
            test(**fixtures)
            COUNTS.mkdir(parents=True, exist_ok=True)
            write_text(COUNTS / test.__name__, str(passed + size))

    return batches


def passed_cases(name: str) -> int:
    """How many cases of a test have passed since all had."""
    with contextlib.suppress(FileNotFoundError):
        return int((COUNTS / name).read_text())
    return 0


@contextlib.contextmanager
def bounded(*allowed: type[Exception]) -> Iterator[None]:
    """A case that ends within `LIMIT_CPU_S`, in nothing but these errors."""
    before = time.process_time()
    with contextlib.suppress(*allowed):
        yield
    assert time.process_time() - before < LIMIT_CPU_S


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path to every value in a tree."""
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [path, *(each for key, one in inner for each in places(one, (*path, key)))]


def with_odd_field(tree: Any, data: st.DataObject) -> None:
    """Replace one value of a tree in place: any field is as likely, however long its lists are."""
    fields: dict[tuple[str, ...], list[tuple[Any, ...]]] = {}
    for path in places(tree):
        names = tuple(key for key in path if isinstance(key, str))
        fields.setdefault(names, []).append(path)
    fields.pop((), None)
    *path, last = data.draw(st.sampled_from(fields[data.draw(st.sampled_from(sorted(fields)))]))
    for key in path:
        tree = tree[key]
    value = tree[last]
    if isinstance(value, list) and value:
        kept = data.draw(st.integers(0, len(value)))
        tree[last] = data.draw(st.sampled_from([value[:kept], value[:1] * len(value), value * 2]))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        tree[last] = data.draw(st.sampled_from(NUMBERS))
    else:
        tree[last] = copy.deepcopy(data.draw(st.sampled_from(ODD)))  # the next may change it


def with_odd_value(text: bytes, data: st.DataObject, *without: str) -> bytes:
    """JSON with one value replaced or left out, and without these keys."""
    tree = json.loads(text)
    for name in without:
        tree.pop(name, None)
    path = data.draw(st.sampled_from(places(tree)))
    value = data.draw(st.sampled_from(ODD))
    if not path:
        return json.dumps(value).encode() + b"\n"
    inner = tree
    for key in path[:-1]:
        inner = inner[key]
    if data.draw(st.booleans()) and isinstance(inner, dict):
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return json.dumps(tree).encode() + b"\n"


def with_odd_bytes(content: bytes, data: st.DataObject) -> bytes:
    """The content with some bytes replaced, cut out, or put in."""
    at = data.draw(st.integers(0, len(content)))
    cut = data.draw(st.one_of(st.integers(0, 40), st.just(len(content))))
    new = data.draw(
        st.one_of(st.binary(max_size=20), st.sampled_from([b"\n", b"[" * 10**5, b"\0"]))
    )
    return content[:at] + new + content[at + cut :]


def with_odd_json_or_bytes(content: bytes, data: st.DataObject) -> bytes:
    """JSON with a value or with bytes changed."""
    change: Callable[[bytes, st.DataObject], bytes] = data.draw(
        st.sampled_from([with_odd_value, with_odd_bytes])
    )
    return change(content, data)
