"""``benchorch cache``: list, explain and delete builds."""

from __future__ import annotations

import argparse
import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn, cast

from benchorch.cli.commands import cache_explain, cache_report
from benchorch.cli.commands.cache_explain import SHORT_KEY
from benchorch.config.components import suggest
from benchorch.domain.codec import Json, encode
from benchorch.domain.reply import Reply
from benchorch.domain.trial import ConfigNode, node_of
from benchorch.errors import StoreError
from benchorch.files import write_text
from benchorch.formatting import plural
from benchorch.interfaces.store import Entry, Store
from benchorch.stores import signing
from benchorch.trial.identity_stamps import Stamps

_PROGRAM = "python -m benchorch cache"
_DESCRIPTION = "List, explain and delete builds."
_WRONG_REQUEST = 2
_FAILED = 1


def open_and_run(arguments: Sequence[str]) -> Reply:
    """The answer to ``benchorch cache ARGUMENTS``, of which ``key=value`` configure the store."""
    from benchorch.config.components import make
    from benchorch.config.composer import Composer, config_loader

    overrides = [word for word in arguments if "=" in word and not word.startswith("-")]
    composer = Composer(config_loader())
    node = node_of(composer.session(composer.lifted(overrides)), "store")
    words = [word for word in arguments if word not in overrides]
    return run(words, make(node, Store, "store"))


def run(arguments: Sequence[str], store: Store) -> Reply:
    """The answer to ``benchorch cache ARGUMENTS`` from this store."""
    try:
        options = _parse(arguments)
        return _SUBCOMMANDS[options.command](options, store)
    except _Replied as replied:
        return replied.reply
    except StoreError as error:
        return _error(str(error), _FAILED)


class _Replied(Exception):
    """A reply before the command has run."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.text)
        self.reply = reply


class _Parser(argparse.ArgumentParser):
    """A parser that replies where argparse would print and exit."""

    def error(self, message: str) -> NoReturn:
        raise _Replied(_error(f"{self.prog}: {message}\n{self.format_usage().strip()}"))

    def print_help(self, file: object = None) -> NoReturn:
        text = self.format_help().strip()
        raise _Replied(Reply(text=text, data={"help": text}))


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(prog=_PROGRAM, allow_abbrev=False, description=_DESCRIPTION)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def add(name: str, help: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=help, description=help, allow_abbrev=False)

    add("list", "every build, newest first")
    add("show", "one build in detail").add_argument("key", metavar="KEY", help=_KEY)
    explain = add("explain", "what determines a build, and how it differs from the previous one")
    explain.add_argument("key", metavar="KEY", nargs="?", help=_KEY)
    delete = add("delete", "remove builds")
    delete.add_argument("key", metavar="KEY", nargs="?", help=_KEY)
    delete.add_argument("--all", action="store_true", help="every build")
    delete.add_argument("--yes", action="store_true", help="confirm --all")
    report = add("report", "one row for every build")
    report.add_argument("--csv", metavar="FILE", type=Path, help="write all columns to FILE")
    add("trim", "evict least recently used builds, down to store.quota_gib=GIB")
    add("location", "where builds are stored")
    add("key", "the public key that signs what this machine builds")
    words = [word for word in arguments if not word.startswith("-")]
    if words and words[0] not in commands.choices:
        known = ", ".join(commands.choices)
        hint = suggest(words[0], commands.choices)
        parser.error(f"{words[0]!r} is not a command.{hint} Commands: {known}.")
    return parser.parse_args(list(arguments))


_WITHIN = "Builds in use stay, and all fit into the quota: store.quota_gib=GIB changes it."
_KEY = "a prefix of the key that no other key has"


def _list(options: argparse.Namespace, store: Store) -> Reply:
    entries = store.entries()
    data = encode(list(entries))
    if not entries:
        return Reply(text=cache_report.NOTHING, data=data)
    shared = any(entry.remote for entry in entries)
    where = ("WHERE",) if shared else ()
    header = ("KEY", "STATE", "SIZE", "BUILD", "CREATED (UTC)", *where, "NAME")
    table = [header, *(_cells(entry, shared=shared) for entry in entries)]
    total = cache_report.size(sum(entry.artifact.size_bytes for entry in entries))
    count = f"{plural(len(entries), 'build')}, {total}"
    return Reply(text=f"{cache_report.aligned(table)}\n{count}", data=data)


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


def _show(options: argparse.Namespace, store: Store) -> Reply:
    found = _resolve(options.key, store.entries())
    return Reply(
        text="\n\n".join(_description(entry) for entry in found),
        data=[{**_as_mapping(entry), "files": _file_sizes(entry)} for entry in found],
    )


def _as_mapping(entry: Entry) -> Mapping[str, Json]:
    return cast(ConfigNode, encode(entry))


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
    lines = cache_report.aligned([fact for fact in facts if fact[1]])
    return f"{lines}\nfields {fields}"


def _explain(options: argparse.Namespace, store: Store) -> Reply:
    entries = store.entries()
    if options.key is None:
        folder = store.stamps()
        known = Stamps(folder=folder).verdicts() if folder else ()
        return cache_explain.explain_all(entries, known)
    found = _resolve(options.key, entries)
    complete = [entry for entry in found if entry.state == "complete"]
    return cache_explain.explain_one((complete or found)[0], entries, store)


def _delete(options: argparse.Namespace, store: Store) -> Reply:
    if (options.key is None) is not options.all:
        return _error(f"{_PROGRAM} delete: give either a KEY or --all.")
    entries = store.entries()
    deleted = entries if options.all else _resolve(options.key, entries)
    keys = list(dict.fromkeys(entry.artifact.key for entry in deleted))
    total = cache_report.size(sum(entry.artifact.size_bytes for entry in deleted))
    what = f"{plural(len(keys), 'build')}, {total}"
    if options.all and not options.yes:
        return _error(f"This would delete {what}. To confirm: {_PROGRAM} delete --all --yes")
    for key in keys:
        store.delete(key)
    return Reply(text=f"Deleted {what}.", data={"deleted": keys})


def _trim(options: argparse.Namespace, store: Store) -> Reply:
    keys = store.trim()
    text = f"Evicted {plural(len(keys), 'build')}." if keys else f"Nothing was evicted. {_WITHIN}"
    return Reply(text=text, data={"dropped": list(keys)})


def _report(options: argparse.Namespace, store: Store) -> Reply:
    rows = [cache_report.row(entry) for entry in store.entries()]
    if options.csv is None:
        return Reply(text=cache_report.as_text(rows), data=rows)
    try:
        write_text(options.csv, cache_report.as_csv(rows))
    except OSError as error:
        return _error(f"--csv {options.csv}: {error.strerror}.")
    return Reply(text=f"Wrote {len(rows)} rows to {options.csv}.", data=rows)


def _location(options: argparse.Namespace, store: Store) -> Reply:
    """The places in the store's parameters: a directory or a URL."""
    places = {
        name: value if "://" in value else str(Path(value).expanduser().absolute())
        for name, value in cast(ConfigNode, encode(store)).items()
        if isinstance(value, str)
    }
    return Reply(text="\n".join(places.values()), data=places)


def _public_key(options: argparse.Namespace, store: Store) -> Reply:
    """Other machines name it in ``keys:`` of their settings."""
    key = signing.public_key()
    return Reply(text=key, data={"key": key})


_SUBCOMMANDS: Mapping[str, Callable[[argparse.Namespace, Store], Reply]] = {
    "list": _list,
    "show": _show,
    "explain": _explain,
    "delete": _delete,
    "report": _report,
    "trim": _trim,
    "location": _location,
    "key": _public_key,
}


def _resolve(prefix: str, entries: Sequence[Entry]) -> list[Entry]:
    """The entries of the one key with this prefix, newest first."""
    by_key: dict[str, list[Entry]] = {}
    for entry in entries:
        by_key.setdefault(entry.artifact.key, []).append(entry)
    matches = [key for key in by_key if prefix and key.startswith(prefix.lower())]
    if len(matches) == 1:
        return by_key[matches[0]]
    if not matches:
        raise _Replied(_error(f"No build's key begins with {prefix!r}.{_hint(prefix, by_key)}"))
    listed = cache_report.aligned([_cells(by_key[key][0]) for key in matches])
    text = f"{prefix!r} begins {len(matches)} keys; give more digits:\n{listed}"
    raise _Replied(Reply(text=text, data={"matches": matches}, exit_code=_WRONG_REQUEST))


def _hint(prefix: str, keys: Mapping[str, Sequence[Entry]]) -> str:
    """The nearest key, by as many digits as were given."""
    starts = {key[: max(len(prefix), SHORT_KEY)]: entries[0].name for key, entries in keys.items()}
    beginnings = {start[: len(prefix)]: start for start in starts}
    close = difflib.get_close_matches(prefix.lower(), beginnings, n=1, cutoff=0.5)
    if not prefix or not close:
        return f" All keys: {_PROGRAM} list"
    start = beginnings[close[0]]
    return f" Did you mean {start!r} ({starts[start]})?"


def _error(text: str, exit_code: int = _WRONG_REQUEST) -> Reply:
    return Reply(text=text, data={"error": text}, exit_code=exit_code)
