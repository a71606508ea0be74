"""``cache explain``: what determines a build, and how builds differ."""

import itertools
from collections.abc import Iterator, Mapping, Sequence

from benchorch.domain.codec import Json, leaves
from benchorch.domain.reply import Reply
from benchorch.formatting import plural
from benchorch.interfaces.store import Entry, Store

SHORT_KEY = 12
_LONGEST_VALUE = 70
_ABSENT = "(absent)"
_NEVER = {
    "model.unhashable.": "the model holds what cannot be hashed",
    "consulted.never.": "its calls consult what cannot be compared",
}
_SHOWN_NEVER = 3
_LONGEST_GROUP = 24


def flatten(fields: Json) -> dict[str, Json]:
    """Every leaf of a key's fields by its dotted path: ``steps[0].opset``."""
    return {path: leaf for path, leaf in leaves(fields) if path}


def differences(before: Entry, after: Entry) -> dict[str, tuple[Json, Json]]:
    """Each field that differs, with both values; `_ABSENT` where a build has no such field."""
    old, new = flatten(before.fields), flatten(after.fields)
    pairs = {name: (old.get(name, _ABSENT), new.get(name, _ABSENT)) for name in {**old, **new}}
    # 1 and True, or 1 and 1.0, are equal in Python and yet make different keys.
    return {name: pair for name, pair in sorted(pairs.items()) if repr(pair[0]) != repr(pair[1])}


def explain_all(entries: Sequence[Entry], stamps: Sequence[tuple[str, str]] = ()) -> Reply:
    """How the newest build of each name differs from the previous one; which models are known.

    Args:
        entries: every build.
        stamps: each model that only loading can identify, and why it is not known without.
    """
    by_name = {
        name: _distinct([entry for entry in entries if entry.name == name])
        for name in dict.fromkeys(entry.name for entry in entries)
    }
    lines = [line for name, builds in by_name.items() for line in _name_lines(name, builds)]
    builds: list[Json] = [
        {
            "name": name,
            "keys": [entry.artifact.key for entry in found],
            "differences": _as_data(found[1], found[0]) if len(found) > 1 else {},
        }
        for name, found in by_name.items()
    ]
    if stamps and lines:
        lines += ["", "Models that only loading can identify:"]
        lines += [f"  {model}: {verdict}" for model, verdict in stamps]
    models: list[Json] = [{"model": model, "verdict": verdict} for model, verdict in stamps]
    data: Json = {"builds": builds, "models": models}
    return Reply(text="\n".join(lines) or "Nothing was built yet.", data=data)


def explain_one(entry: Entry, entries: Sequence[Entry], store: Store) -> Reply:
    """The fields of a build, whether it would be a hit now, and the newest other one beside it."""
    key = entry.artifact.key
    hit = store.find(key) is not None
    fields = flatten(entry.fields)
    other = next((e for e in entries if e.name == entry.name and e.artifact.key != key), None)
    lines = [f"{key[:SHORT_KEY]}  {entry.name}", "", _why(entry, hit), "", "Determined by:"]
    lines += [f"  {line}" for line in _field_lines(fields)]
    if other:
        lines += ["", *_difference_lines(other, entry)]
    data: Json = {
        "key": key,
        "name": entry.name,
        "hit": hit,
        "fields": fields,
        "compared_with": other.artifact.key if other else None,
        "differences": _as_data(other, entry) if other else {},
    }
    return Reply(text="\n".join(lines), data=data)


def _field_lines(fields: Mapping[str, Json]) -> Iterator[str]:
    """Each field; of a group that is too long to read, its size."""
    groups: dict[str, list[str]] = {}
    for name in sorted(fields):
        groups.setdefault(".".join(name.split(".")[:2]), []).append(name)
    for group, names in groups.items():
        if len(names) > _LONGEST_GROUP:
            yield f"{group}: {len(names)} values (--json lists them)"
        else:
            yield from (f"{name}: {_show(fields[name])}" for name in names)


def _why(entry: Entry, hit: bool) -> str:
    for group, why in _NEVER.items():
        names = [
            name.removeprefix(group) for name in flatten(entry.fields) if name.startswith(group)
        ]
        if names:
            shown = ", ".join(names[:_SHOWN_NEVER])
            return f"Never a hit in another invocation: {why} ({shown})."
    if hit:
        return (
            "A hit: a later run reuses it if all of the fields below are the same "
            "and every file has the bytes that were built."
        )
    if entry.state == "complete":
        return "A miss: verification failed and it was quarantined; the next run builds it."
    return f"A miss: {entry.state}: {entry.detail or 'no recorded reason'}"


def _name_lines(name: str, builds: Sequence[Entry]) -> Iterator[str]:
    yield f"{name}: {plural(len(builds), 'build')}"
    if len(builds) == 1:
        yield f"  {builds[0].artifact.key[:SHORT_KEY]} ({builds[0].state}) is the only one"
    else:
        yield from (f"  {line}" for line in _difference_lines(builds[1], builds[0]))


def _difference_lines(before: Entry, after: Entry) -> Iterator[str]:
    new_key, old_key = after.artifact.key[:SHORT_KEY], before.artifact.key[:SHORT_KEY]
    found = differences(before, after)
    yield f"{new_key} differs from {old_key} ({before.state}, {before.created_at[:19]}) in:"
    yield from (f"  {name}: {_show(old)} -> {_show(new)}" for name, (old, new) in found.items())
    if not found:
        yield "  no known field: one of them cannot be read"


def _as_data(before: Entry, after: Entry) -> Json:
    found = differences(before, after)
    return {name: {"before": old, "after": new} for name, (old, new) in found.items()}


def _distinct(builds: Sequence[Entry]) -> list[Entry]:
    """The newest entry of each key: a failure and a success of one key are one build."""
    groups = itertools.groupby(
        sorted(builds, key=lambda entry: entry.artifact.key), lambda entry: entry.artifact.key
    )
    newest = [max(group, key=lambda entry: entry.created_at) for _, group in groups]
    return sorted(newest, key=lambda entry: entry.created_at, reverse=True)


def _show(value: Json) -> str:
    text = _ABSENT if value is _ABSENT else repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."
