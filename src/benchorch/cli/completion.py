"""Tab completion: click's for commands and options, and ours for what a run's words can be."""

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
)

from benchorch.config.descriptions import default_keys, groups, options, root_keys
from benchorch.config.directories import known_recipes
from benchorch.errors import BenchorchError

# Bash splits words at = and : before it asks, and replaces only what follows the last of them.
_BASH = """\
%(complete_func)s() {
    local line="${COMP_LINE:0:$COMP_POINT}" current="${COMP_WORDS[$COMP_CWORD]}"
    local word="${line##*[[:space:]]}" items item
    [[ "$current" == [=:] ]] && current=""
    local before="${word%%"$current"}"
    items=$(_BENCHORCH_LINE="$line" %(complete_var)s=bash_complete "$1")
    COMPREPLY=()
    while IFS= read -r item; do
        [[ -z "$item" ]] && continue
        if [[ "$item" == *"=" ]]; then compopt -o nospace; fi
        COMPREPLY+=("${item#"$before"}")
    done <<< "$items"
    if [[ ${#COMPREPLY[@]} -eq 0 ]]; then compopt -o default; fi
}
complete -F %(complete_func)s %(prog_name)s
"""
_VARIABLE = "_BENCHORCH_COMPLETE"
_LISTED = frozenset({"model", "conversion", "hardware"})
_BOOLEAN = ("true", "false")
_RUNS = 20


class _Bash(BashComplete):
    """Bash, whose own words are not split at spaces alone."""

    name = "bash"
    source_template = _BASH

    @staticmethod
    def _check_version() -> None:
        """Spare the process that click starts to learn bash's version."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the cursor, and the one at it."""
        line = os.environ.get("_BENCHORCH_LINE", "")
        words = _split(line)[1:]
        if not line or line[-1].isspace():
            return words, ""
        return words[:-1], words[-1] if words else ""

    def format_completion(self, item: CompletionItem) -> str:
        """The word alone."""
        return str(item.value)


class _Fish(FishComplete):
    """Fish, whose completions may hold commas: those of a list."""

    source_template = FishComplete.source_template.replace(
        'string split "," $completion', 'string split --max 1 "," $completion'
    )


_SHELLS: dict[str, type[ShellComplete]] = {"bash": _Bash, "zsh": ZshComplete, "fish": _Fish}


def source(shell: str) -> str:
    """The script that makes a shell complete benchorch's words."""
    return _made(shell, click.Group("benchorch")).source()


def answer(program: click.Command, instruction: str) -> int:
    """Print what a shell asks for: its script, or completions; the exit code."""
    shell, _, task = instruction.partition("_")
    if shell not in _SHELLS or task not in ("source", "complete"):
        return 1
    made = _made(shell, program)
    with suppress(BenchorchError, click.ClickException):  # of words that make no sense
        print(made.source() if task == "source" else made.complete())  # noqa: T201
    return 0


def _made(shell: str, program: click.Command) -> ShellComplete:
    return _SHELLS[shell](program, {}, "benchorch", _VARIABLE)


def _split(line: str) -> list[str]:
    """A line's words; an open quote ends with it."""
    for closing in ("", "'", '"'):
        try:
            return shlex.split(line + closing)
        except ValueError:
            continue
    return line.split()


def run_words(incomplete: str) -> list[CompletionItem]:
    """What a word of a run can be: a recipe, a key, or a value of a key."""
    key, sign, value = incomplete.partition("=")
    found = _values(key, value) if sign else _beginnings()
    return _items(found, incomplete)


def run_names(incomplete: str) -> list[CompletionItem]:
    """The runs of this machine, newest first: their plans' ids, and directories."""
    from benchorch.journal.registry import newest_plans

    items = _items(newest_plans(_RUNS), incomplete)
    return items or [CompletionItem(incomplete, type="dir")]


def conversion_names(incomplete: str) -> list[CompletionItem]:
    """Conversions by name."""
    return _items(options("conversion"), incomplete)


def help_names(incomplete: str) -> list[CompletionItem]:
    """Commands, groups and keys."""
    from benchorch.cli.catalog import COMMANDS

    return _items((*COMMANDS, *default_keys()), incomplete)


def _items(words: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(word) for word in words if word.startswith(incomplete)]


def _beginnings() -> Iterator[str]:
    yield from (f"{key}=" for key in default_keys())
    # A file whose name a shell would not read as it stands is left to the shell, which quotes it: a
    # stranger's may be a command.
    recipes = map(str, known_recipes())
    yield from sorted(path for path in recipes if shlex.quote(path) == path)


def _values(key: str, value: str) -> Iterator[str]:
    """Whole words of a key with what its value can be; of a list, its last name."""
    group = key.lstrip("+~")
    if group in groups():
        names: Sequence[str] = tuple(options(group))
        start = max(value.rfind(sign) for sign in "[,+") + 1
        before = value[:start] if group in _LISTED else ""
        yield from (f"{key}={before}{name}" for name in names)
    elif key in {one.name for one in root_keys() if one.default in _BOOLEAN}:
        yield from (f"{key}={word}" for word in _BOOLEAN)
