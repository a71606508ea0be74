"""Words that no run takes, and the line that was probably meant."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

import click

from benchorch.cli.catalog import COMMANDS
from benchorch.cli.examples import free_recipe
from benchorch.cli.foreign_options import FOREIGN, in_place_of
from benchorch.config.components import nearest, suggest
from benchorch.config.descriptions import (
    default_keys,
    default_of,
    groups,
    model_like,
    options,
)
from benchorch.config.directories import RECIPES, known_recipes
from benchorch.config.overrides import as_list, is_plain_key, set_before, twice_text
from benchorch.errors import ConfigError
from benchorch.models.script_files import SCRIPT_SUFFIXES

FLAGS_WITH_VALUE = frozenset(
    {"--cfg", "-c", "--package", "-p", "--config-path", "-cp", "--info", "-i"}
)
"""Hydra's, whose value is the next word."""

OWN_WITH_VALUE = frozenset({"--config-dir", "-cd", "--config-name", "-cn", "--only", "--trust"})
"""Options of a run with a value, which may follow an equals sign, too."""

_FLAGS = frozenset(
    {
        *("-h", "--help", "--hydra-help", "--resolve", "--run", "-r", "-m", "--multirun"),
        *("--shell-completion", "-sc", "--experimental-rerun"),
        *("--allow-skips", "-x", "--exitfirst"),
    }
)
_SHOWN = ("job", "hydra", "all")
_INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")
_VALUES = {"--cfg": _SHOWN, "-c": _SHOWN, "--info": _INFO, "-i": _INFO}
_OF_WORDS = ("run", "plan", "submit")
_OPENING, _CLOSING = "[{(", "]})"
_NAMED = ("model", "conversion", "hardware")
_CROSSED = (*_NAMED, "scenario", "stopping")

_PLANNED = ("dry-run", "collect-only", "co", "setup-plan")
"""What other tools call `plan`."""

_RUN = re.compile(r"last(?:~\d+)?")
_CALLABLE = re.compile(r"([\w./-]+):[A-Za-z_]\w*")
_NO_DEFAULT = "VALUE"
_INPUT = "x=batch_size,16"


@final
@dataclass(slots=True)
class _WordReader:
    """The words of a line, from left to right: as they were meant, and what was wrong."""

    rest: list[str]
    options: Sequence[str] = ()
    command: str = "run"
    first: str = ""
    meant: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def line(self) -> list[str]:
        """All words as they were meant."""
        while self.rest:
            self._word(self.rest.pop(0))
        return self.meant

    def _word(self, word: str) -> None:
        name, sign, _ = word.partition("=")
        if name in FOREIGN and self._is_foreign(name):
            self._foreign(name, word[len(name) + 1 :])
        elif name in FLAGS_WITH_VALUE | OWN_WITH_VALUE:
            value = word[len(name) + 1 :] if sign else "".join(self.rest[:1])
            del self.rest[: 0 if sign else 1]
            self._flag(name, sign, value)
        elif word in _FLAGS or (word.endswith(RECIPES) and not sign):
            self.meant.append(word)
        elif word.startswith("--"):
            self._option(word)
        elif _key(word[1:].partition("=")[0]) if word.startswith("-") else False:
            self._option(f"-{word}", word)
        elif word.startswith("-"):
            self._wrong(self._with_value(word), "there is no such option.", [])
        elif name in groups() and " " in word and as_list(word):
            self._wrong(word, "a list is written KEY=[A,B].", [as_list(word)])
        elif sign and word.endswith(",") and _begins_a_key(self.rest):
            self._wrong(word, "ends in a comma, and another key follows.", [word.rstrip(",")])
        elif self.rest and (_depth(word) > 0 or (sign and word.endswith(","))):
            self._list(word)
        elif self.rest and is_plain_key(word) and self.rest[0].startswith("="):
            self._spaced(word, self.rest.pop(0))
        elif (
            self.rest and word.endswith("=") and is_plain_key(word[:-1]) and _is_value(self.rest[0])
        ):
            self._spaced(word[:-1], "=")
        elif sign or word.startswith("~"):
            self._setting(word)
        else:
            self._bare(word)

    def _is_foreign(self, name: str) -> bool:
        """Whether an option is another tool's: of hyperfine's ``-r 20`` Hydra has the name."""
        is_own = name in FLAGS_WITH_VALUE or name in self.options
        has_number = bool(self.rest) and self.rest[0].isdecimal()
        return not is_own and (name not in _FLAGS or has_number)

    def _foreign(self, name: str, value: str) -> None:
        """Another tool's option."""
        if name == "--host" and (url := value or "".join(self.rest[:1])).startswith("http"):
            del self.rest[: 0 if value else 1]
            self.meant = [word for word in self.meant if not word.startswith("model=")]
            self._wrong(name, "is model.url of model=http.", ["model=http", f"model.url={url}"])
            return
        if name == "-P" and not any("=" in word for word in self.rest[:1]):
            name = "--parameter-scan"  # hyperfine's -P, not MLflow's
        meant = in_place_of(name, value, self.rest)
        self._wrong(name, FOREIGN[name].why, meant)
        if FOREIGN[name].command:
            self.command, others = FOREIGN[name].command, self.meant[: -len(meant) or None]
            takes_more = self.command == "script"  # a run's keys, too
            self.meant = [*meant, *others] if takes_more else meant
            self.rest = self.rest if takes_more else []

    def _flag(self, name: str, sign: str, value: str) -> None:
        """Hydra's own option, whose value may be one of a few."""
        allowed = _VALUES.get(name, (value,))
        if name in _VALUES and value.endswith(RECIPES):
            self._wrong(name, "has no counterpart: a recipe is its file.", [value])
            return
        if value not in allowed:
            problem = f"there is no {value!r}. Options: {', '.join(allowed)}."
            self._wrong(name, problem, [])
            value = nearest(value, allowed) or allowed[0]
        self.meant += [f"{name}={value}"] if sign else [name, *([value] if value else [])]

    def _wrong(self, argument: str, problem: str, meant: Sequence[str]) -> None:
        self.problems.append(f"{argument}: {problem}")
        self.meant += meant

    def _option(self, word: str, typed: str = "") -> None:
        """``--model bert`` or ``-model=bert``: what argparse would take."""
        name, sign, value = word[2:].partition("=")
        if name in _PLANNED:
            self.command = "plan"
            self._wrong(word, "the command 'plan' shows what would run.", [])
            return
        key = _key(name)
        if key is None:
            self._unknown(name)
            return
        if not sign and self.rest and _is_value(self.rest[0]):
            value = self.rest.pop(0)
        said = typed or (word if sign else f"--{name}")
        value = value or default_of(key) or _NO_DEFAULT
        self._wrong(said, "a key is set by KEY=VALUE.", [f"{key}={value}"])

    def _unknown(self, name: str) -> None:
        """``--cheapset``: an option that is probably misspelt."""
        meant = nearest(name, ("version", *(one.lstrip("-") for one in self.options)))
        if meant == "version":
            self.command = meant
            self.rest.clear()
        hint = f" Did you mean '--{meant}'?" if meant else suggest(name, default_keys())
        right = [f"--{meant}"] if meant and meant != "version" else []
        said = f"--{name}" if right or meant else self._with_value(f"--{name}")
        self._wrong(said, f"there is no such option.{hint}", right)

    def _with_value(self, option: str) -> str:
        """An unknown option and the word behind it, unless that has a meaning of its own."""
        word = self.rest[0] if self.rest else ""
        named = any(word in options(group) for group in _NAMED) or recipe_called(word)
        if not word or not _is_value(word) or named or word in COMMANDS or _RUN.fullmatch(word):
            return option
        return f"{option} {self.rest.pop(0)}"

    def _list(self, word: str) -> None:
        """``conversion=[eager, onnxruntime]``, which the shell has split."""
        parts = [word]
        while self.rest and (sum(map(_depth, parts)) > 0 or parts[-1].endswith(",")):
            parts.append(self.rest.pop(0))
        joined = re.sub(r"(?<![,\[({ ]) (?![,\])}])", ",", " ".join(parts)).replace(" ", "")
        self._wrong(" ".join(parts), "a list holds no spaces.", [joined])

    def _spaced(self, key: str, sign: str) -> None:
        """``model = mlp``."""
        takes_more = sign == "=" and self.rest and _is_value(self.rest[0])
        value = sign[1:] or (self.rest.pop(0) if takes_more else "")
        self._wrong(key, "no spaces around = .", [f"{key}={value}"])

    def _setting(self, word: str) -> None:
        """``KEY=VALUE``; of two words for one key Hydra would drop the first in silence."""
        group, _, option = word.partition("=")
        before = set_before(word, self.meant)
        if not before:
            self.meant.append(word)
        elif group in _CROSSED:
            self._wrong(word, f"{group} is chosen by {before} already; several are a list.", [])
            self._choose(group, option)
        else:
            self.problems.append(twice_text(word, before))
            self.meant[self.meant.index(before)] = word

    def _bare(self, word: str) -> None:
        """A name alone, of which it may be known what it is the name of."""
        group = next((one for one in (*_NAMED, "stopping") if word in options(one)), None)
        key, colon, value = word.partition(":")
        recipe = recipe_called(word)
        before, sign, first = self.meant[-1].partition("=") if self.meant else ("", "", "")
        file, of, trial = word.partition("::")
        if before == "-m" and (model := model_like(word, options("model"))):
            self.meant.pop()
            self._wrong(f"-m {word}", "-m crosses values; a model is model=NAME.", [])
            self._choose("model", model)
            return
        if _is_own_module(word):
            self._wrong(word, "is a module of your own: init writes its recipe.", [])
            self.command, self.meant = "init", [free_recipe(), "--module", word, "--input", _INPUT]
            self.rest.clear()
            return
        if file.endswith(SCRIPT_SUFFIXES) and os.path.isfile(file):  # noqa: PTH113 - as above
            self._wrong(word, "is a script: the command script measures its models.", [])
            self.command, self.meant = "script", [word, *self.meant]
            return
        if of and file.endswith(RECIPES):
            self._wrong(word, "a trial is chosen by --only.", [file, "--only", trial])
            return
        if sign and word.isdecimal() and first.strip("[]").replace(",", "").isdecimal():
            self._wrong(word, f"a list is written {before}=[A,B].", [])
            self.meant[-1] = f"{before}=[{first.strip('[]')},{word}]"
        elif group:
            self._wrong(word, f"is a {group}: name it by its key.", [])
            self._choose(group, word)
        elif _RUN.fullmatch(word):
            self._wrong(word, "is a run, of which there is a report.", [])
            self.command, self.meant = "report", [word]
            self.rest.clear()
        elif word in COMMANDS:
            self._wrong(repr(word), "is a command: it comes first, and alone.", [])
            self.command = word if word != "run" else self.command
            if self.command not in _OF_WORDS:  # the rest is that command's own
                self.meant += self.rest
                self.rest.clear()
        elif _key(word) and self.rest and _is_value(self.rest[0]) and not _key(self.rest[0]):
            self._wrong(word, "a key is set by KEY=VALUE.", [f"{word}={self.rest.pop(0)}"])
        elif _key(word):
            self._wrong(
                word, "is a key: it needs a value.", [f"{word}={default_of(word) or _NO_DEFAULT}"]
            )
        elif colon and _key(key):
            self._wrong(word, "a key is set by KEY=VALUE.", [f"{key}={value.strip()}"])
        elif recipe:
            self._wrong(word, "is a recipe: give its file.", [recipe])
        elif word.endswith(".json") and os.path.isfile(word):  # noqa: PTH113 - as above
            renamed = f"{word.removesuffix('.json')}.yaml"
            self.first = f"{shlex.join(['mv', word, renamed])} && "
            self._wrong(word, "a recipe's file ends in .yaml.", [renamed])
        elif os.path.isdir(word) and (inside := sorted(Path(word).glob("*.yaml"))):  # noqa: PTH112
            self._wrong(word, "is a folder: give a recipe's file.", [str(inside[0])])
        else:
            self._wrong(repr(word), "is not an override, a recipe's .yaml file or a command.", [])

    def _choose(self, group: str, options: str) -> None:
        """Options beside those that the line has chosen of their group, each once."""
        at = next((n for n, w in enumerate(self.meant) if w.startswith(f"{group}=")), None)
        if at is None:
            self.meant.append(f"{group}={options}")
        else:
            chosen = f"{self.meant[at].partition('=')[2]},{options}".replace("[", "").replace(
                "]", ""
            )
            names = list(dict.fromkeys(chosen.split(",")))
            self.meant[at] = f"{group}=[{','.join(names)}]" if names[1:] else f"{group}={names[0]}"


def refuse_mistakes(words: Sequence[str], command: str = "run") -> None:
    """ConfigError with each word that is no argument of a run, and the line that was meant.

    Args:
        words: all that are the run's.
        command: that the words are given to.
    """
    known = [*_options_of(click.get_current_context(silent=True))]
    reader = _WordReader([*words], options=known, command=command)
    meant = reader.line()
    if reader.problems:
        needs_words = reader.command in _OF_WORDS
        if reader.command == "resume":
            meant = [word.removeprefix("resume=") for word in meant]
        line = ["benchorch", reader.command, *(meant or (["--help"] if needs_words else []))]
        raise ConfigError(reader.problems, next=f"{reader.first}{shlex.join(line)}")


def _options_of(ctx: click.Context | None) -> Iterator[str]:
    """The long options of the command whose words are read, and those of a run."""
    for param in ctx.command.params if ctx else ():
        yield from (name for name in param.opts if name.startswith("--"))
    yield from run_options()


def run_options() -> list[str]:
    """The long options of a run, which click does not parse."""
    return sorted(name for name in {*_FLAGS, *OWN_WITH_VALUE, "--cfg"} if name.startswith("--"))


def _is_own_module(word: str) -> bool:
    """Whether a word names a callable of a file here: ``ranker.py:build``, ``nets.rank:build``."""
    found = _CALLABLE.fullmatch(word)
    module = found[1] if found else ""
    file = module if module.endswith(".py") else f"{module.replace('.', '/')}.py"
    is_key = module != file and _key(module) is not None
    return bool(module) and not is_key and os.path.isfile(file)  # noqa: PTH113 - False for a name that is too long


def recipe_called(word: str) -> str:
    """The file of a recipe that is given without its folder or its ending; empty for no recipe."""
    return next((str(path) for path in known_recipes() if path.stem == word), "")


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
    return bool(sign) and is_plain_key(name)


def _depth(word: str) -> int:
    """Brackets that a word opens and does not close."""
    return sum(map(word.count, _OPENING)) - sum(map(word.count, _CLOSING))


def _is_value(word: str) -> bool:
    """Whether a word could be a value that stands alone."""
    return "=" not in word and not word.startswith("-") and not word.endswith(RECIPES)
