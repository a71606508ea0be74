"""Overrides in Hydra's grammar: lists and sweeps of options, and how values are spelled."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from benchorch.domain.codec import Json
from benchorch.errors import ConfigError, Correction, Problem

if TYPE_CHECKING:
    from hydra.core.config_loader import ConfigLoader
    from hydra.core.override_parser.types import ChoiceSweep, Override

MATRIX = "matrix"
EACH = "each"
NOT_OVERRIDES = f"{EACH}: expected a list of KEY=VALUE, such as [stopping.calls=50]."
CONVERSION = "conversion"
_POSTPONED = "++postponed="
"""Begins the word of `lift_lists` for overrides that come after `each`; no key of a recipe."""
MOST_COMBINATIONS = 100_000
_PARTS = re.compile(r"[;,\s(){}\[\]|]+")
_ITEM = re.compile(r"[\w.+-]+")
_PLAIN_VALUE = re.compile(r"[\w.\-+/@]+", re.ASCII)
_BEFORE_QUOTE = re.compile(r"(\\*)('|\Z)")
PLAIN_OVERRIDE = re.compile(r"^[A-Za-z_]\w*(?:\.\w+)+=[^$]*$")
"""A dotted key that is simply given a value."""


def is_scalar(value: object) -> bool:
    """Whether a value is neither a mapping nor a list."""
    return value is None or isinstance(value, bool | int | float | str)


def key_of(text: str) -> str:
    """``workload.batch_size`` of ``+workload.batch_size=8``."""
    return text.partition("=")[0].lstrip("+~")


def top_node(text: str) -> str:
    """``workload`` of ``+workload.batch_size=8``, ``hydra`` of ``hydra/launcher=basic``."""
    return re.split(r"[./@]", key_of(text), maxsplit=1)[0]


def set_before(word: str, words: Iterable[str]) -> str:
    """The one of the words that sets the same key, of which Hydra would take the last; else empty.

    ``~key`` removes one, which a later word may add again.
    """
    if "=" not in word or word.startswith("~"):
        return ""
    same = (one for one in words if "=" in one and one[0] not in "~-")
    return next((one for one in same if key_of(one) == key_of(word)), "")


def refuse_twice(words: Sequence[str]) -> None:
    """ConfigError for each key that two words set."""
    problems = [
        Problem(twice_text(word, before), Correction(typed=before))
        for at, word in enumerate(words)
        if (before := set_before(word, words[:at]))
    ]
    if problems:
        raise ConfigError(problems)


def twice_text(word: str, before: str) -> str:
    """What is wrong with a word whose key another one sets."""
    return f"{word}: {key_of(word)} is set by {before} already; leave out either."


def as_list(word: str) -> str:
    """``key=(a, b)``, ``key=a;b`` or ``key=a,key=b`` as Hydra takes a list; else empty."""
    key, _, value = word.partition("=")
    items = [item for item in _PARTS.split(value.replace(f",{key}=", ",")) if item]
    if not is_plain_key(key) or not items or not all(map(_ITEM.fullmatch, items)):
        return ""
    return f"{key}=[{','.join(items)}]" if len(items) > 1 else f"{key}={items[0]}"


def as_dict(word: str) -> str:
    """``key={"a": 1}``, a dict as JSON writes it, as Hydra takes it; else empty."""
    key, _, value = word.partition("=")
    try:
        given = json.loads(value) if value.startswith("{") else None
    except ValueError:
        return ""
    return f"{key}={spelled(given)}" if isinstance(given, dict) else ""


def quoted(word: str) -> str:
    """``name=größe`` with its value in quotes, as Hydra takes letters that are not ASCII."""
    key, sign, value = word.partition("=")
    is_name = sign and not value.isascii() and re.fullmatch(r"(?:[./]|[^\W\d])[\w./№#-]*", value)
    return f'{key}="{value}"' if is_name else word


def is_plain_key(word: str) -> bool:
    """Whether a word could be a key."""
    return bool(word) and word.lstrip("+~").replace(".", "_").replace("/", "_").isidentifier()


def parse_override(text: str) -> Override:
    """One override as Hydra understands it; HydraException where it is none."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import OverrideParseException

    if not __debug__ and re.search(r"[{(]", text):
        why = "PYTHONOPTIMIZE drops assertions with which Hydra reads { and (; unset it"
        raise OverrideParseException(text[:80], why)
    try:
        return OverridesParser.create().parse_override(text)
    except RecursionError as error:
        raise OverrideParseException(text[:80], "it is nested too deeply") from error


def lift_lists(overrides: Sequence[str], groups: frozenset[str]) -> list[str]:
    """``conversion=[eager,onnxruntime]`` as an axis of the matrix, under present names.

    Hydra would merge the two files into one node, which is never what is meant here. What is
    overridden inside a group whose choice is thus still open is postponed until it is chosen.
    """
    from benchorch.config.renamed_keys import current_name

    overrides = [current_name(text) for text in overrides]
    lists: dict[str, list[str]] = {}
    chosen = set()
    for index, text in enumerate(overrides):
        if key_of(text) in groups:
            value = _listed_value(text)
            if isinstance(value, list):
                lists[text] = [str(name) for name in value]
                continue
            if value is not None:  # a sweep with lists in it: all of their names are crossed
                overrides[index] = f"{text.partition('=')[0]}={','.join(_names(value.list))}"
            chosen.add(key_of(text))
    open_groups = {key_of(text) for text in lists} | ({CONVERSION} - chosen)
    lifted, postponed = [], []
    for text in overrides:
        if text in lists:
            lifted.append(f"++{MATRIX}.{key_of(text)}={spelled(lists[text])}")
        elif key_of(text).partition(".")[0] in open_groups and "." in key_of(text):
            postponed.append(text)
        else:
            lifted.append(text)
    return lifted + ([f"{_POSTPONED}{spelled(postponed)}"] if postponed else [])


def without_postponed(job: Iterable[str]) -> tuple[list[str], list[str]]:
    """A job's overrides without those that `lift_lists` has postponed, and these."""
    at_once, postponed = list[str](), list[str]()
    for text in job:
        if text.startswith(f"{_POSTPONED}["):
            postponed += map(str, cast("list[object]", parse_override(text).value()))
        else:
            at_once.append(text)
    return at_once, postponed


def _listed_value(text: str) -> list[object] | ChoiceSweep | None:
    """A list that a choice names, or a sweep with lists in it; None for any other choice."""
    from hydra.core.override_parser.types import ChoiceSweep
    from hydra.errors import HydraException

    if "[" not in text:
        return None
    try:
        value = parse_override(text).value()
    except HydraException:
        return None
    if isinstance(value, ChoiceSweep) and any(isinstance(one, list) for one in value.list):
        return value
    return value if isinstance(value, list) else None


def _names(values: Sequence[object]) -> Iterator[str]:
    for value in values:
        if isinstance(value, list):
            yield from _names(value)
        else:
            yield str(value)


def sweep_jobs(overrides: Sequence[str], loader: ConfigLoader) -> list[list[str]]:
    """The jobs that Hydra's own sweeper makes of comma-separated values."""
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        parsed = OverridesParser.create(config_loader=loader).parse_overrides(list(overrides))
        check_count(map(_count, parsed), "The sweep")
        batches = BasicSweeper.split_arguments(parsed, None)
    except HydraException as error:
        raise ConfigError([str(error).strip().partition("\n")[0]]) from error
    return [list(job) for batch in batches for job in batch]


def check_count(sizes: Iterable[float], what: str) -> None:
    """ConfigError for lists whose product nobody can wait for."""
    count = math.prod(sizes)
    if count > MOST_COMBINATIONS:
        most = f"{MOST_COMBINATIONS:,} are allowed"
        raise ConfigError([f"{what} has {count:.4g} combinations; {most}. Name fewer values."])


def _count(override: Override) -> float:
    """Number of an override's values; ConfigError where it sweeps over something that sweeps."""
    from hydra.core.override_parser.types import ChoiceSweep, RangeSweep, Sweep

    value = override.value()
    if isinstance(value, ChoiceSweep):
        if any(isinstance(one, Sweep) for one in value.list):
            raise ConfigError([f"{override.key_or_group}: a list of values holds a sweep."])
        return len(value.list)
    if not isinstance(value, RangeSweep):
        return 1
    try:
        return max(0, math.ceil((value.stop - value.start) / value.step))  # type: ignore[operator]
    except (ValueError, ArithmeticError):
        return math.inf


def spelled(value: Json, *, exact: bool = False) -> str:
    """A value as Hydra's grammar spells it.

    Args:
        exact: quote text that Hydra reads as a number, a truth value or null.
    """
    if isinstance(value, str):
        is_plain = _PLAIN_VALUE.fullmatch(value) and not (exact and _is_read_otherwise(value))
        return value if is_plain else _in_quotes(value)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{k}:{spelled(v, exact=exact)}" for k, v in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ",".join(spelled(item, exact=exact) for item in value) + "]"
    return json.dumps(value)


def _is_read_otherwise(text: str) -> bool:
    return not isinstance(parse_override(f"name={text}").value(), str)


def _in_quotes(text: str) -> str:
    """A text in quotes; backslashes count only where a quote follows them."""
    return f"'{_BEFORE_QUOTE.sub(_escaped, text)}'"


def _escaped(found: re.Match[str]) -> str:
    backslashes, quote = found.groups()
    return 2 * backslashes + (f"\\{quote}" if quote else "")


def plain_text(override: str) -> str:
    """The value of an override as it is typed, where it is a number or a word; else empty."""
    value = override.partition("=")[2]
    return value if _PLAIN_VALUE.fullmatch(value) else ""


def spelled_name(name: str) -> str:
    """A name as Hydra's grammar spells it, also one that it reads as a number or a truth value."""
    return spelled(name, exact=True)


def keyword_overrides(keywords: Mapping[str, object], own: Mapping[str, str]) -> list[str]:
    """``key=value`` of keywords, nested or dotted; ConfigError with every problem.

    Args:
        keywords: of a call from Python.
        own: keys that have an argument of their own, with what to do instead.
    """
    problems = [
        f"{key}: {own[first]}"
        for key in keywords
        for first in [key.partition(".")[0]]
        if first in own and (key in own or first == "hydra")
    ]
    words = []
    for key, value in _dotted(keywords):
        try:
            plain = json.loads(json.dumps(value, default=_as_json))
            is_axis = key.partition(".")[0] == MATRIX  # the composer decides for each value
            words.append(f"{key}={spelled(plain, exact=is_axis)}")
        except (TypeError, ValueError):
            problems.append(f"{key}: expected a number, text, a list or a dict, got {value!r}.")
    if problems:
        raise ConfigError(problems)
    return words


def _dotted(keywords: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Keys of a keyword that is a mapping, by their dotted paths; deeper ones stay as they are."""
    for key, value in keywords.items():
        if isinstance(value, Mapping) and "." not in key:
            yield from ((f"{key}.{name}", inner) for name, inner in value.items())
        else:
            yield key, value


def _as_json(value: object) -> Json:
    """What `json` does not know and YAML can hold; TypeError for the rest."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, range):
        return list(value)
    raise TypeError(f"{value!r} is no value of a configuration")
