"""A command of the command line: options that all share, and a function that returns a reply."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from benchorch.cli.examples import free_recipe
from benchorch.cli.foreign_options import FOREIGN, in_place_of
from benchorch.cli.terminal import Terminal
from benchorch.config.components import nearest, suggest
from benchorch.config.descriptions import options
from benchorch.domain.reply import Reply
from benchorch.errors import ConfigError, Correction, Problem

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

SHARED = "Everywhere: --json, --output FILE, --quiet, --verbose, --yes; see benchorch --help."
_AS_OPTION = re.compile(r"-[a-z]\w[\w.]*=")
FLAGS = frozenset({"--json", "--quiet", "-q", "--verbose", "-v", "--yes", "-y"})
_SHOWN = ("--json", "--output", "--quiet", "--verbose", "--yes")
_NAMES = ("as_json", "output", "quiet", "verbose", "yes")


def _shared_options() -> list[click.Option]:
    """The options of every command, by which `Terminal` is made."""
    flags = (["--json", "as_json"], ["--quiet", "-q"], ["--verbose", "-v"], ["--yes", "-y"])
    output = click.Option(["--output", "-o"], hidden=True, type=click.Path(path_type=Path))
    return [*(click.Option(names, is_flag=True, hidden=True) for names in flags), output]


def completed(by: str) -> Callable[..., list[CompletionItem]]:
    """What completes an argument: a function of `completion`, imported when a shell asks."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        from benchorch.cli import completion

        found: list[CompletionItem] = getattr(completion, by)(incomplete)
        return found

    return complete


def words_argument(metavar: str = "[RECIPE.yaml] [KEY=VALUE ...]") -> Callable[[Any], Any]:
    """The argument of a command that takes a run's words."""
    complete = completed("run_words")
    return click.argument(
        "words", metavar=metavar, nargs=-1, type=click.UNPROCESSED, shell_complete=complete
    )


def run_argument(name: str = "run", metavar: str = "RUN", **settings: Any) -> Callable[[Any], Any]:
    """The argument of a command about a run."""
    settings.setdefault("required", not metavar.startswith("["))
    return click.argument(name, metavar=metavar, shell_complete=completed("run_names"), **settings)


class Command(click.Command):
    """A command of benchorch; its function takes a `Terminal` first.

    Attributes:
        writes_output: whether its function writes ``--output`` itself, not the printing of replies.
        former: spellings of options that were renamed, and the present ones.
    """

    def __init__(
        self,
        *args: Any,
        writes_output: bool = False,
        former: dict[str, str] | None = None,
        **settings: Any,
    ) -> None:
        settings.setdefault("epilog", SHARED)
        settings["context_settings"] = {
            "help_option_names": ["-h", "--help"],
            **settings.get("context_settings", {}),
        }
        super().__init__(*args, **settings)
        self.writes_output = writes_output
        self.former = former or {}
        own = {name for param in self.params for name in param.opts}
        self.params += [o for o in _shared_options() if not own & set(o.opts)]

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> click.Context:
        """The parsed words; ConfigError for what the command does not take."""
        own = args[: args.index("::")] if "::" in args else args
        if "--json" in own and {"-h", "--help"} & set(own):
            ctx = super().make_context(info_name, [], parent=parent, resilient_parsing=True)
            click.echo(json.dumps({"help": ctx.get_help()}, indent=2))
            ctx.exit()
        try:
            return super().make_context(info_name, self._present(args), parent=parent, **extra)
        except click.UsageError as error:
            called = f"{parent.command_path} {info_name}" if parent else str(info_name)
            raise usage_problem(error, called, args) from error

    def _present(self, words: Sequence[str]) -> list[str]:
        """The words with present spellings of options."""
        split = (word.partition("=") for word in words)
        return [f"{self.former.get(name, name)}{sign}{value}" for name, sign, value in split]

    def invoke(self, ctx: click.Context) -> int:
        """Carry the command out and print its reply; the exit code."""
        ctx.obj = _terminal(ctx)
        answer = super().invoke(ctx)
        if not isinstance(answer, Reply):
            return cast(int, answer)
        terminal = replace(ctx.obj, output=None) if self.writes_output else ctx.obj
        return cast(Terminal, terminal).reply(answer)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Its own options and those of every command."""
        from click.shell_completion import CompletionItem

        shared = [name for name in _SHOWN if incomplete[:1] == "-" and name.startswith(incomplete)]
        return [*super().shell_complete(ctx, incomplete), *(CompletionItem(one) for one in shared)]

    def reply(
        self, words: Sequence[str], meta: Mapping[str, Any] | None = None, **parts: Any
    ) -> Reply:
        """The answer to these words, unprinted.

        Args:
            meta: what the context is given.
            parts: of the `Terminal`, such as what takes progress.
        """
        with self.make_context(f"benchorch {self.name}", list(words)) as ctx:
            ctx.meta.update(meta or {})
            ctx.obj = replace(_terminal(ctx), **parts)
            return cast(Reply, click.Command.invoke(ctx.command, ctx))


def _terminal(ctx: click.Context) -> Terminal:
    """The shared options, taken from a command's own."""
    terminal = Terminal(**{name: ctx.params.pop(name) for name in _NAMES})
    if terminal.quiet and terminal.verbose:
        problem = "--quiet and --verbose: give one of them."
        raise ConfigError([Problem(problem, Correction(typed="--verbose"))])
    return terminal


def command(name: str, **settings: Any) -> Callable[[Callable[..., Any]], Command]:
    """Make a function a command that receives its `Terminal` first."""

    def made(function: Callable[..., Any]) -> Command:
        kind: type[Command] = settings.pop("cls", Command)
        return click.command(name, cls=kind, **settings)(click.pass_obj(function))

    return made


class Words(Command):
    """A command about a run, whose arguments are the run's: options that it lacks pass on."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, context_settings={"ignore_unknown_options": True}, **settings)

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> click.Context:
        """The parsed words; ConfigError for ``-model=mlp``, of which click would take ``-m``."""
        from benchorch.cli.mistakes import refuse_mistakes

        if any(map(_AS_OPTION.match, args[: args.index("::")] if "::" in args else args)):
            refuse_mistakes(args, str(info_name))
        return super().make_context(info_name, args, parent=parent, **extra)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Those of every command, and a run's own options."""
        from click.shell_completion import CompletionItem

        from benchorch.cli.mistakes import run_options

        options = run_options() if incomplete[:1] == "-" else []
        own = [name for name in options if name.startswith(incomplete)]
        return [*super().shell_complete(ctx, incomplete), *map(CompletionItem, own)]


class Group(click.Group):
    """Commands under one word; shared options may come before the command, too."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The words, beginning with the command's."""
        leading = list(takewhile(lambda word: word in FLAGS, args))
        called, rest = args[len(leading) :][:1], args[len(leading) + 1 :]
        return super().parse_args(ctx, [*called, *leading, *rest])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The named command; ConfigError where there is none."""
        known = self.list_commands(ctx)
        if args[0] in known:
            return super().resolve_command(ctx, args)
        called = ctx.command_path
        problem = f"{args[0]!r} is not a command of {called}.{suggest(args[0], known)}"
        raise ConfigError([f"{problem} Commands: {', '.join(known)}."], next=f"{called} --help")


def usage_problem(error: click.UsageError, called: str, words: Sequence[str] = ()) -> ConfigError:
    """What click rejects, in our words, with the corrected line where it is known.

    Args:
        called: the command, as its user calls it.
        words: its arguments.
    """
    text = _unknown_option(error) or error.format_message().rstrip(".")
    text = f"{text[:1].lower()}{text[1:]}"
    other = isinstance(error, click.NoSuchOption) and FOREIGN.get(error.option_name)
    if other and other.command:
        line = f"benchorch {other.command} {other.meant}"
        return ConfigError([f"{called}: {text}."], next=line)
    meant = _corrected(error, list(words))
    line = f"{called} {shlex.join(meant)}".rstrip() if meant is not None else f"{called} --help"
    return ConfigError([f"{called}: {text}."], next=line)


def _corrected(error: click.UsageError, words: list[str]) -> list[str] | None:
    """The words without what click rejects; None where the correction is not known."""
    if isinstance(error, click.NoSuchOption):
        if error.option_name == "--last":  # the newest run is a word
            return [word.removeprefix("--") if word == "--last" else word for word in words]
        meant = nearest(error.option_name.lstrip("-"), _option_names(error))
        at = [n for n, word in enumerate(words) if word.partition("=")[0] == error.option_name]
        if at and error.option_name in FOREIGN:
            rest = words[at[0] + 1 :]
            value = words[at[0]].partition("=")[2]
            return [*words[: at[0]], *in_place_of(error.option_name, value, rest), *rest]
        right = [f"--{meant}{words[n].removeprefix(error.option_name)}" for n in at if meant]
        return [*words[: at[0]], *right, *words[at[0] + 1 :]] if at else None
    if isinstance(error, click.MissingParameter):
        return _with_missing(error, words)
    if isinstance(error, click.BadOptionUsage) and error.option_name in words:
        value = "result.json" if error.option_name in ("--output", "-o") else ""
        at_end = words[-1] == error.option_name
        return [*words, value] if value and at_end else None
    if isinstance(error, click.BadParameter):
        return _with_allowed_value(error, words)
    extra = re.search(r"unexpected extra arguments? \((.+)\)$", error.message.rstrip("."))
    if extra is None:
        return None
    extras = extra[1].split()
    if extras[0] not in words:  # a word has spaces
        return None
    place = words.index(extras[0])
    takes_trial = error.ctx is not None and error.ctx.info_name in ("export", "reproduce")
    if place and takes_trial and extras[0] in options("conversion"):
        named = f"{words[place - 1]}:{extras[0]}"
        return [*words[: place - 1], named, *words[place + 1 :]]
    if (
        error.ctx is not None
        and error.ctx.info_name == "export"
        and not {"--output", "-o"} & {*words}
    ):
        return [*words[:place], "--output", *words[place:]]
    return [word for word in words if word not in extras]


def _with_missing(error: click.MissingParameter, words: list[str]) -> list[str] | None:
    """The words with what is missing; None where an example of the command answers better."""
    from benchorch.journal.registry import newest_plans

    if error.param is None or not words:
        return None
    if error.param.name == "recipe" and {"--module", "--input"} <= {*words}:
        return [free_recipe(), *words]
    if error.param.name == "run" and (runs := newest_plans(1)):
        return [*runs, *words]
    return None


def _with_allowed_value(error: click.BadParameter, words: list[str]) -> list[str] | None:
    """The words with a value that the parameter allows; None where none is known."""
    kind = error.param.type if error.param else None
    typed = re.search(r"^'?([^ ']+)'? is not", error.message)
    at = [n for n, word in enumerate(words) if typed and word.rpartition("=")[2] == typed[1]]
    if isinstance(kind, click.Choice):
        value = nearest(typed[1], kind.choices) if typed else ""
        value = value or str(kind.choices[0])
    elif isinstance(kind, click.IntRange):
        value = str(error.param.default or kind.min or 1) if error.param else ""
    else:
        share = f"{typed[1]}%" if typed and typed[1].isdecimal() and typed[1] != "0" else "2%"
        value = share if "2%" in error.message else ""
    if not (at and typed and value):
        return None
    return [*words[: at[0]], words[at[0]].replace(typed[1], value), *words[at[0] + 1 :]]


def _option_names(error: click.UsageError) -> list[str]:
    """The names of the options that the rejecting command takes."""
    params = error.ctx.command.params if error.ctx else ()
    return [name.lstrip("-") for param in params for name in param.opts if name[0] == "-"]


def _unknown_option(error: click.UsageError) -> str:
    """An unknown option, and the one that was probably meant; empty for other errors."""
    if not isinstance(error, click.NoSuchOption):
        return ""
    if one := FOREIGN.get(error.option_name):
        return f"{error.option_name} {one.why}".rstrip(".")
    meant = nearest(error.option_name.lstrip("-"), _option_names(error))
    return f"there is no option {error.option_name}" + (
        f"; did you mean --{meant}" if meant else ""
    )
