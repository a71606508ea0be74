"""``benchorch cache``: list, explain and delete builds."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, cast

import click

from benchorch.cli.command import Command, Group, command
from benchorch.cli.commands import cache_explain, cache_report
from benchorch.cli.commands.cache_explain import SHORT_KEY
from benchorch.cli.terminal import Terminal, writing
from benchorch.domain.codec import Json, encode
from benchorch.domain.reply import Reply
from benchorch.domain.trial import ConfigNode, node_of
from benchorch.errors import ConfigError, Correction, Problem
from benchorch.files import expanded, write_text
from benchorch.formatting import aligned, csv_of, plural
from benchorch.interfaces.store import Entry, Store
from benchorch.stores import signing
from benchorch.trial.identity_stamps import Stamps

STORE = "store"
"""Under which `click.Context.meta` has the store, once it is open."""

_OVERRIDES = "overrides"
_WITHIN = "Builds in use stay, and all fit into the quota: store.quota_gib=GIB changes it."
_KEY = click.argument("key", metavar="KEY")
_MAYBE_KEY = click.argument("key", metavar="[KEY]", required=False)


class _Cache(Group):
    """The commands of the store; ``key=value`` anywhere among their words configures it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The words without overrides, which are noted."""
        overrides = [word for word in args if "=" in word and not word.startswith("-")]
        ctx.meta[_OVERRIDES] = overrides
        return super().parse_args(ctx, [word for word in args if word not in overrides])


run = _Cache(
    "cache",
    help="""List, explain and delete builds.

    KEY is the beginning of a build's key that no other has. store=NAME and store.KEY=VALUE choose
    another store.
    """,
)


def _opened(ctx: click.Context) -> Store:
    """The store of the configuration, as the command's overrides leave it."""
    if STORE not in ctx.meta:
        from benchorch.config.components import make
        from benchorch.config.composer import Composer, config_loader
        from benchorch.config.overrides import refuse_twice

        words = ctx.meta.get(_OVERRIDES, ())
        refuse_twice(words)
        composer = Composer(config_loader())
        overrides = composer.lifted(words)
        ctx.meta[STORE] = make(node_of(composer.session(overrides), "store"), Store, "store")
    return cast(Store, ctx.meta[STORE])


def _about_store(
    name: str, text: str, **settings: Any
) -> Callable[[Callable[..., Reply]], Command]:
    """Make a function of a store and a terminal a command of `run`."""

    def made(function: Callable[..., Reply]) -> Command:
        @wraps(function)
        def opened(terminal: Terminal, **options: Any) -> Reply:
            return function(_opened(click.get_current_context()), terminal, **options)

        found = command(name, help=text, **settings)(opened)
        run.add_command(found)
        return found

    return made


@_about_store("list", "Every build, newest first.")
def _list(store: Store, terminal: Terminal) -> Reply:
    entries = store.entries()
    data = encode(list(entries))
    if not entries:
        return Reply(text=cache_report.NOTHING, data=data)
    shared = any(entry.remote for entry in entries)
    where = ("WHERE",) if shared else ()
    header = ("key", "state", "size", "build", "created (UTC)", *where, "name")
    table = [header, *(_cells(entry, shared=shared) for entry in entries)]
    total = cache_report.size(sum(entry.artifact.size_bytes for entry in entries))
    count = f"{plural(len(entries), 'build')}, {total}"
    return Reply(text=f"{cache_report.table(table)}\n{count}", data=data)


def _cells(entry: Entry, *, shared: bool = False) -> tuple[str, ...]:
    return (
        entry.artifact.key[:SHORT_KEY],
        entry.state,
        cache_report.size(entry.artifact.size_bytes),
        cache_report.duration(entry.artifact.build_s),
        entry.created_at[:19].replace("T", " "),
        *([_where(entry)] if shared else []),
        entry.name,
    )


def _where(entry: Entry) -> str:
    """On this machine, at a shared service such as ``s3``, or both."""
    here = "here" if entry.artifact.path.parent.exists() else ""
    return "+".join(filter(None, [here, entry.remote.partition(":")[0]]))


@_about_store("show", "One build in detail.")
@_KEY
def _show(store: Store, terminal: Terminal, key: str) -> Reply:
    found = _resolve(key, store.entries())
    return Reply(
        text="\n\n".join(_description(entry) for entry in found),
        data=[{**cast(ConfigNode, encode(entry)), "files": _file_sizes(entry)} for entry in found],
    )


def _file_sizes(entry: Entry) -> dict[str, Json]:
    """Each file's size by its path."""
    path = entry.artifact.path
    found = sorted(file for file in path.rglob("*") if file.is_file())
    return {str(file.relative_to(path)): file.stat().st_size for file in found}


def _description(entry: Entry) -> str:
    artifact = entry.artifact
    facts = [
        ("key", artifact.key),
        ("name", entry.name),
        ("state", entry.state),
        ("why", entry.detail),
        ("format", artifact.format if entry.state == "complete" else ""),
        ("created", entry.created_at),
        ("build", cache_report.duration(artifact.build_s)),
        ("size", cache_report.size(artifact.size_bytes)),
        ("path", str(artifact.path)),
        ("remote", entry.remote),
        ("signed by", entry.signed_by),
    ]
    facts += [
        ("file", f"{name} ({cache_report.size(n)})") for name, n in _file_sizes(entry).items()
    ]
    fields = json.dumps(entry.fields, indent=2, sort_keys=True)
    lines = aligned([fact for fact in facts if fact[1]])
    return f"{lines}\nfields {fields}"


@_about_store("explain", "What determines a build, and how it differs from the previous one.")
@_MAYBE_KEY
def _explain(store: Store, terminal: Terminal, key: str | None) -> Reply:
    entries = store.entries()
    if key is None:
        folder = store.stamps()
        known = Stamps(folder=folder).verdicts() if folder else ()
        return cache_explain.explain_all(entries, known)
    found = _resolve(key, entries)
    complete = [entry for entry in found if entry.state == "complete"]
    return cache_explain.explain_one((complete or found)[0], entries, store)


@_about_store("delete", "Remove builds: one by its KEY, or --all.")
@_MAYBE_KEY
@click.option(
    "--all", "everything", is_flag=True, help="every build; requires a confirmation, or --yes"
)
def _delete(store: Store, terminal: Terminal, key: str | None, everything: bool) -> Reply:
    if (key is None) is not everything:
        raise ConfigError(
            ["cache delete: give either a KEY or --all."], next="benchorch cache list"
        )
    entries = store.entries()
    deleted = entries if key is None else _resolve(key, entries)
    keys = list(dict.fromkeys(entry.artifact.key for entry in deleted))
    total = cache_report.size(sum(entry.artifact.size_bytes for entry in deleted))
    what = f"{plural(len(keys), 'build')}, {total}"
    if everything and not terminal.confirm(f"Delete {what}? [yes/no] "):
        sure = "benchorch cache delete --all --yes"
        raise ConfigError([f"This would delete {what}. To confirm: {sure}"], next=sure)
    for key in keys:
        store.delete(key)
    return Reply(text=f"Deleted {what}.", data={"deleted": keys})


@_about_store("trim", "Evict least recently used builds, down to store.quota_gib=GIB.")
def _trim(store: Store, terminal: Terminal) -> Reply:
    keys = store.trim()
    text = f"Evicted {plural(len(keys), 'build')}." if keys else f"Nothing was evicted. {_WITHIN}"
    return Reply(text=text, data={"dropped": list(keys)})


@_about_store(
    "report",
    "One row for every build; --output FILE.csv writes all columns.",
    writes_output=True,
    former={"--csv": "--output"},
)
def _report(store: Store, terminal: Terminal) -> Reply:
    rows = [cache_report.row(entry) for entry in store.entries()]
    path = terminal.output
    if path is None:
        return Reply(text=cache_report.as_text(rows), data=rows)
    with writing(path):
        write_text(path, json.dumps(rows) if path.suffix == ".json" else csv_of(rows))
    return Reply(text=f"Wrote {len(rows)} rows to {path}.", data=rows)


@_about_store("location", "Where builds are stored.")
def _location(store: Store, terminal: Terminal) -> Reply:
    """The places in the store's parameters: a directory or a URL."""
    places = {
        name: value if "://" in value else str(expanded(value).absolute())
        for name, value in cast(ConfigNode, encode(store)).items()
        if isinstance(value, str)
    }
    return Reply(text="\n".join(places.values()), data=places)


@_about_store("key", "The public key that signs what this machine builds.")
def _public_key(store: Store, terminal: Terminal) -> Reply:
    """Other machines name it in ``keys:`` of their settings."""
    key = signing.public_key()
    return Reply(text=key, data={"key": key})


def _resolve(prefix: str, entries: Sequence[Entry]) -> list[Entry]:
    """The entries of the one key with this prefix, newest first."""
    by_key: dict[str, list[Entry]] = {}
    for entry in entries:
        by_key.setdefault(entry.artifact.key, []).append(entry)
    matches = [key for key in by_key if prefix and key.startswith(prefix.lower())]
    if len(matches) == 1:
        return by_key[matches[0]]
    if not matches:
        start, hint = _hint(prefix, by_key)
        correction = Correction(typed=prefix, meant=start) if start else None
        problem = Problem(f"No build's key begins with {prefix!r}.{hint}", correction)
        raise ConfigError([problem], next="" if start else "benchorch cache list")
    listed = aligned([_cells(by_key[key][0]) for key in matches])
    raise ConfigError([f"{prefix!r} begins {len(matches)} keys; give more digits:\n{listed}"])


def _hint(prefix: str, keys: Mapping[str, Sequence[Entry]]) -> tuple[str, str]:
    """The nearest key, by as many digits as were given, and its suggestion."""
    starts = {key[: max(len(prefix), SHORT_KEY)]: entries[0].name for key, entries in keys.items()}
    beginnings = {start[: len(prefix)]: start for start in starts}
    close = difflib.get_close_matches(prefix.lower(), beginnings, n=1, cutoff=0.5)
    if not prefix or not close:
        return "", " All keys: benchorch cache list"
    start = beginnings[close[0]]
    return start, f" Did you mean {start!r} ({starts[start]})?"
