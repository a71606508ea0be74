"""``benchorch help NAME``: a command's help, a group's options, or the keys below a key."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import click

from benchorch.cli.catalog import COMMANDS, overview
from benchorch.cli.command import command, completed
from benchorch.cli.terminal import Terminal
from benchorch.config.components import misspelt
from benchorch.config.descriptions import (
    Key,
    default_keys,
    groups,
    meanings,
    option_keys,
    options,
    root_keys,
)
from benchorch.domain.codec import Json
from benchorch.domain.reply import Reply
from benchorch.errors import ConfigError


@command("help", help="What NAME is: a command, a group with its options, or a key.")
@click.argument("name", metavar="[NAME]", required=False, shell_complete=completed("help_names"))
def run(terminal: Terminal, name: str | None) -> Reply:
    """The meaning of a name; without one the commands."""
    if name is None:
        return Reply(text=overview(), data={key: entry.text for key, entry in COMMANDS.items()})
    if name in COMMANDS:
        parent = click.get_current_context().find_root()
        group = parent.command
        assert isinstance(group, click.Group)  # the program
        found = group.get_command(parent, name)
        assert found is not None  # it is listed
        text = found.get_help(click.Context(found, info_name=name, parent=parent))
        return Reply(text=text, data={"help": text})
    keys = _keys(name)
    if name in groups():
        return _of_group(name, keys)
    keys = keys or _keys_of_options(name)
    if not keys:
        known = [*COMMANDS, *meanings(), *default_keys()]
        problem = f"help: there is no command, group or key {name!r}."
        raise ConfigError([misspelt(problem, name, known)])
    return Reply(text=_lines(keys), data=[_row(key) for key in keys])


def _keys(name: str) -> list[Key]:
    """The key and those below it, of the default option where it is a group's."""
    group = name.partition(".")[0]
    of_group = option_keys(group, groups().get(group, ""))
    return _below(name, (*root_keys(), *of_group))


def _keys_of_options(name: str) -> list[Key]:
    """The key and those below it, of the options of its group that have it, which are named."""
    group = name.partition(".")[0]
    found: dict[Key, list[str]] = {}
    for option in options(group) if group in groups() else ():
        for key in _below(name, option_keys(group, option)):
            found.setdefault(key, []).append(option)
    return [
        replace(key, meaning=f"{key.meaning} ({group}={', '.join(of)})".lstrip())
        for key, of in found.items()
    ]


def _below(name: str, keys: Iterable[Key]) -> list[Key]:
    return [key for key in keys if key.name == name or key.name.startswith(f"{name}.")]


def _of_group(name: str, keys: Iterable[Key]) -> Reply:
    found = options(name)
    rows = [f"{name}={option:{max(map(len, found))}}  {text}" for option, text in found.items()]
    if keys:
        rows += ["", f"Keys of {name}={groups()[name]}", _lines(keys)]
    data: Json = {"options": dict(found), "keys": [_row(key) for key in keys]}
    return Reply(text="\n".join(rows).rstrip(), data=data)


def _lines(keys: Iterable[Key]) -> str:
    keys = list(keys)
    widest = max(len(key.name) + len(key.default) for key in keys)
    shown = [(f"{key.name}={key.default}", key.meaning) for key in keys]
    return "\n".join(f"{text:{widest + 1}}  {meaning}".rstrip() for text, meaning in shown)


def _row(key: Key) -> dict[str, Json]:
    return {"name": key.name, "default": key.default, "meaning": key.meaning}
