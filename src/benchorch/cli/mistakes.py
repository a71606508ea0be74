"""Words that no run takes, and the line that was probably meant."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import final

import click

from benchorch.config.components import nearest, suggest
from benchorch.config.descriptions import default_keys, groups, options
from benchorch.config.directories import builtin_directory
from benchorch.errors import ConfigError
from benchorch.recorders.location import strike_out

FLAGS_WITH_VALUE = frozenset(
    {"--cfg", "-c", "--package", "-p", "--config-path", "-cp", "--info", "-i"}
)
"""Hydra's, whose value is the next word."""

OWN_WITH_VALUE = frozenset({"--config-dir", "-cd", "--config-name", "-cn", "--only"})
"""Options of a run with a value, which may follow an equals sign, too."""

_FLAGS = frozenset(
    {
        *("-h", "--help", "--hydra-help", "--resolve", "--run", "-r", "-m", "--multirun"),
        *("--shell-completion", "-sc", "--experimental-rerun"),
        *("--allow-skips", "-x", "--exitfirst"),
    }
)
_OPENING, _CLOSING = "[{(", "]})"
_RECIPES = (".yaml", ".yml")
_NAMED = ("model", "conversion", "hardware")
_CROSSED = "are crossed with -m"
_MEANT = " Did you mean '"
_QUOTED = re.compile(r"'([^']+)'")
_KEY = re.compile(r"([\w-]+): unknown")


@final
@dataclass(slots=True)
class _Reader:
    """The words of a line, from left to right: as they were meant, and what was wrong."""

    rest: list[str]
    options: Sequence[str] = ()
    meant: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def line(self) -> list[str]:
        """All words as they were meant."""
        while self.rest:
            self._word(self.rest.pop(0))
        return self.meant

    def _word(self, word: str) -> None:
        name, sign, _ = word.partition("=")
        if name in FLAGS_WITH_VALUE | OWN_WITH_VALUE:
            self.meant += [word] if sign else [word, *self.rest[:1]]
            del self.rest[: 0 if sign else 1]
        elif word in _FLAGS or (word.endswith(_RECIPES) and not sign):
            self.meant.append(word)
        elif word.startswith("--"):
            self._option(word)
        elif word.startswith("-"):
            self._wrong(word, "there is no such option.", [])
        elif sign and word.endswith(",") and _begins_a_key(self.rest):
            self._wrong(word, "ends in a comma, and another key follows.", [word.rstrip(",")])
        elif self.rest and (_depth(word) > 0 or (sign and word.endswith(","))):
            self._list(word)
        elif self.rest and _is_plain(word) and self.rest[0].startswith("="):
            self._spaced(word, self.rest.pop(0))
        elif self.rest and word.endswith("=") and _is_plain(word[:-1]) and _is_value(self.rest[0]):
            self._spaced(word[:-1], "=")
        elif sign or word.startswith("~"):
            self.meant.append(word)
        else:
            self._bare(word)

    def _wrong(self, said: str, problem: str, meant: Sequence[str]) -> None:
        self.problems.append(f"{said}: {problem}")
        self.meant += meant

    def _option(self, word: str) -> None:
        """``--model bert``: what argparse would take."""
        name, sign, value = word[2:].partition("=")
        key = _key(name)
        if key is None:
            self._unknown(name)
            return
        if not sign and self.rest and _is_value(self.rest[0]):
            value = self.rest.pop(0)
        value = value or "VALUE"
        self._wrong(word if sign else f"--{name}", "a key is set by KEY=VALUE.", [f"{key}={value}"])

    def _unknown(self, name: str) -> None:
        """``--cheapset``: an option that is probably misspelt."""
        meant = nearest(name, (one.lstrip("-") for one in self.options))
        said = f" Did you mean '--{meant}'?" if meant else suggest(name, default_keys())
        self._wrong(f"--{name}", f"there is no such option.{said}", [f"--{meant}"] if meant else [])

    def _list(self, word: str) -> None:
        """``conversion=[eager, onnxruntime]``, which the shell has split."""
        parts = [word]
        while self.rest and (sum(map(_depth, parts)) > 0 or parts[-1].endswith(",")):
            parts.append(self.rest.pop(0))
        self._wrong(" ".join(parts), "a list holds no spaces.", ["".join(parts)])

    def _spaced(self, key: str, sign: str) -> None:
        """``model = mlp``."""
        takes_more = sign == "=" and self.rest and _is_value(self.rest[0])
        value = sign[1:] or (self.rest.pop(0) if takes_more else "")
        self._wrong(key, "no spaces around = .", [f"{key}={value}"])

    def _bare(self, word: str) -> None:
        """A name alone, of which it may be known what it is the name of."""
        group = next((one for one in _NAMED if word in options(one)), None)
        recipe = builtin_directory("recipes") / f"{word}.yaml"
        if group:
            self._wrong(word, f"is a {group}: name it by its key.", [f"{group}={word}"])
        elif os.path.isfile(recipe):  # noqa: PTH113 - False for a name that is too long
            self._wrong(word, "is a recipe: give its file.", [f"recipes/{recipe.name}"])
        else:
            self._wrong(repr(word), "is not an override, a recipe's .yaml file or a command.", [])


def refuse_mistakes(words: Sequence[str], command: str = "run") -> None:
    """ConfigError with each word that is no argument of a run, and the line that was meant.

    Args:
        words: all that are the run's.
        command: that the words are given to.
    """
    reader = _Reader([*words], options=[*_options_of(click.get_current_context(silent=True))])
    meant = reader.line()
    if reader.problems:
        line = (
            shlex.join(["benchorch", command, *meant]) if meant else f"benchorch {command} --help"
        )
        raise ConfigError(reader.problems, next=line)


def _options_of(ctx: click.Context | None) -> Iterator[str]:
    """The long options of the command whose words are read, and those of a run."""
    for param in ctx.command.params if ctx else ():
        yield from (name for name in param.opts if name.startswith("--"))
    yield from (name for name in (*_FLAGS, *OWN_WITH_VALUE) if name.startswith("--"))


def general_help(words: Sequence[str]) -> str:
    """The help of the command that a line is of; empty where it is of none."""
    from benchorch.cli.catalog import COMMANDS

    first = next((word for word in words if not word.startswith("-")), "")
    if first in COMMANDS:
        return f"benchorch {first} --help"
    return "benchorch run --help" if "=" in first else ""


def corrected(words: Sequence[str], problems: Sequence[str]) -> str:
    """The line with the names that were probably meant; empty unless that answers every problem."""
    line = [strike_out(word) for word in words]
    if any(_CROSSED in problem for problem in problems) and "-m" not in line:
        line.append("-m")
    for problem in problems:
        if _CROSSED in problem:
            continue
        said, _, meant = problem.partition(_MEANT)
        typed = _QUOTED.findall(said) or _KEY.findall(said)
        if not meant or not typed or "no module" in said:
            return ""
        name = re.compile(rf"(?<!\w){re.escape(typed[-1])}(?!\w)")
        at = next((n for n, word in enumerate(line) if name.search(word)), None)
        if at is None:
            return ""
        line[at] = name.sub(meant.partition("'")[0], line[at], count=1)
    return shlex.join(["benchorch", *line])


def _key(name: str) -> str | None:
    """The dotted key that an option's name stands for."""
    name = name.replace("-", "_")
    known = [key for key in default_keys() if key == name or key.rpartition(".")[2] == name]
    if not known and name.partition(".")[0] in groups():
        return name
    return known[0] if known else None


def _begins_a_key(rest: Sequence[str]) -> bool:
    """Whether the next word is ``key=value``."""
    name, sign, _ = rest[0].partition("=") if rest else ("", "", "")
    return bool(sign) and _is_plain(name)


def _depth(word: str) -> int:
    """Brackets that a word opens and does not close."""
    return sum(map(word.count, _OPENING)) - sum(map(word.count, _CLOSING))


def _is_plain(word: str) -> bool:
    """Whether a word could be a key."""
    return bool(word) and word.lstrip("+~").replace(".", "_").replace("/", "_").isidentifier()


def _is_value(word: str) -> bool:
    """Whether a word could be a value that stands alone."""
    return "=" not in word and not word.startswith("-") and not word.endswith(_RECIPES)
