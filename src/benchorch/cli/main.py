"""The command line: a command by its name, or a run by its words.

A command's module is imported when it is called, so `--help` and `plan` start fast. click parses
the words of each command; `arguments` those of a run.
"""

from __future__ import annotations

import atexit
import errno
import gc
import io
import json
import os
import re
import shlex
import sys
from collections.abc import Sequence
from typing import Any, NoReturn, cast

import click

from benchorch.cli.arguments import is_recipe, is_script
from benchorch.cli.catalog import (
    ABOUT_A_RUN,
    COMMANDS,
    ON_A_HEAD,
    SYNONYMS,
    command_called,
    commands_data,
    overview,
)
from benchorch.cli.command import FLAGS, Group, usage_problem
from benchorch.cli.terminal import FAILED, INTERRUPTED, print_err, print_error
from benchorch.errors import BenchorchError, ConfigError

_LAST = re.compile(r"(?P<key>resume=)?(?P<run>last(?:~\d{1,3})?)(?P<trial>::?.+)?")

COMPLETE = "_BENCHORCH_COMPLETE"
"""The variable by which a shell asks for completions instead of a run."""


def main() -> NoReturn:
    """Run the command line and exit with its code."""
    words = sys.argv[1:]
    atexit.register(gc.freeze)  # else the interpreter looks at every object as it ends
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what its encoding lacks, such as a name's bytes
            stream.reconfigure(errors="backslashreplace")
    try:
        if COMPLETE in os.environ:
            from benchorch.cli.completion import answer

            sys.exit(answer(PROGRAM, os.environ[COMPLETE]))
        _check_folder()
        code = run(words)
    except BenchorchError as error:
        if isinstance(error, ConfigError):
            from benchorch.cli.corrections import next_line

            error.next = next_line(words, error)
        code = print_error(error, as_json=_wants_json(words))
    except ModuleNotFoundError as error:
        from benchorch.host.packages import absence

        if (absent := absence(error)) is None:
            raise
        code = print_error(absent, as_json=_wants_json(words))
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:  # the reader left, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = FAILED
    except OSError as error:  # of no file in particular
        if error.errno != errno.ENOSPC:
            raise
        print(f"Nothing more can be written: {error.strerror}.", file=sys.stderr)  # noqa: T201
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = FAILED
    sys.exit(code)


def _open_closed_streams() -> None:
    """Put the null device in place of streams that the caller closed, as ``>&-`` does."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115 - until the end


def _check_folder() -> None:
    """BenchorchError in a folder that was removed, where no relative path means anything."""
    try:
        os.getcwd()  # noqa: PTH109
    except FileNotFoundError as error:
        raise BenchorchError("The current folder was removed; cd to one that exists.") from error


def run(arguments: Sequence[str]) -> int:
    """Carry out a command line, trusting what it names; its exit code."""
    from benchorch.models import trust

    with trust.declared(arguments):
        words, _ = trust.split(arguments)
        if next((word for word in words if word not in FLAGS), "") == "submit":  # trusts there, too
            words = [*arguments]
        words = _with_last_run(words)
        try:
            with PROGRAM.make_context("benchorch", words) as ctx:
                return cast(int, PROGRAM.invoke(ctx))
        except click.exceptions.Exit as ended:
            return ended.exit_code
        except click.exceptions.NoArgsIsHelpError as error:
            print(error.format_message())  # noqa: T201
            return 0
        except click.UsageError as error:
            raise usage_problem(error, "benchorch") from error
        except OSError as error:
            if error.filename is None or error.errno == errno.ENOSPC:
                raise
            raise BenchorchError(f"{error.filename}: {error.strerror}.") from error


def _with_last_run(words: Sequence[str]) -> list[str]:
    """The words with the directories that ``last`` and ``last~1`` stand for, which are printed."""
    command = next((word for word in words if not word.startswith("-")), "")
    if not (command in ABOUT_A_RUN or any(word.startswith("resume=last") for word in words)):
        return [*words]
    if command in ON_A_HEAD:
        from benchorch.cli.commands.remote_head import named as head_named

        if head_named(words)[0] is not None:  # which has runs of its own
            return [*words]
    from benchorch.journal import run_directory
    from benchorch.journal.registry import find_invocation

    named = list(words)
    for at, word in enumerate(words):
        if found := _LAST.fullmatch(word):
            try:
                directory = find_invocation(found["run"], command)
                plan = run_directory.read_plan(directory)
            except ConfigError:  # the command says so, after what is wrong with its words
                return [*words]
            if not {"-q", "--quiet"} & {*words}:
                print_err(f"{found['run']} is {plan.name} ({plan.plan_id}), {directory}")
            named[at] = f"{found['key'] or ''}{directory}{found['trial'] or ''}"
    return named


def _wants_json(words: Sequence[str]) -> bool:
    """Whether the error is for programs; what follows a lone :: is a script's own."""
    own = words[: words.index("::")] if "::" in words else words
    return "--json" in own


class _AllCommands(Group):
    """All commands; words that name none are a run's."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command's name."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command, whose module is imported now."""
        if cmd_name not in COMMANDS:
            return None
        return cast(click.Command, command_called(cmd_name))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The words, with ``run`` or ``script`` before those that name no command."""
        first = next((word for word in args if word not in FLAGS), "")
        if first in ("", "-h", "--help") and "--json" in args:
            ctx.meta["data"] = True
            return super().parse_args(ctx, [])
        if first in ("--version", "-V"):
            args = ["version"]
        elif _is_of_a_run(first):
            args = ["run", *args]
        elif is_script(first):
            args = ["script", *args]
        elif first and not first.startswith("-") and first not in COMMANDS:
            raise _no_command(args)
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Commands, and what a run's first word can be."""
        from benchorch.cli.completion import run_words

        return [*super().shell_complete(ctx, incomplete), *run_words(incomplete)]

    def get_help(self, ctx: click.Context) -> str:
        """The commands by what they are for."""
        return overview()


def _is_of_a_run(first: str) -> bool:
    """Whether a line that begins so is a run's."""
    if first in ("--help", "-h", "--quiet", "--verbose", "--yes"):
        return False
    return "=" in first or is_recipe(first) or first.startswith(("-", "~"))


def _no_command(words: Sequence[str]) -> ConfigError:
    """What is wrong with a first word, and the line that was probably meant."""
    from benchorch.cli.mistakes import refuse_mistakes
    from benchorch.config.components import suggest

    first, both = words[0], " ".join(words[:2])
    known_as = SYNONYMS.get(both) or SYNONYMS.get(first, "")
    rest = words[2:] if both in SYNONYMS else words[1:]
    meant = f" Did you mean {known_as!r}?" if known_as else suggest(first, COMMANDS)
    try:
        refuse_mistakes(words)
    except ConfigError as error:
        is_unknown = error.problems[0].startswith(f"{first!r}:")
        if not (is_unknown and meant) and not error.next.endswith("--help"):
            return error
    line = f"benchorch {known_as} {shlex.join(rest)}".rstrip() if known_as else ""
    return ConfigError(
        [
            f"{first!r} is not a command.{meant} Or give a model (model=bert), a recipe's .yaml "
            "file or a script's .py file."
        ],
        next=line,
    )


PROGRAM = _AllCommands(
    "benchorch",
    no_args_is_help=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@PROGRAM.result_callback()
def _code(code: object, **_: object) -> int:
    """A command's exit code; of no command the help's."""
    if code is None:
        as_data = "data" in click.get_current_context().meta
        print(json.dumps(commands_data(), indent=2) if as_data else overview())  # noqa: T201
    return code if isinstance(code, int) else 0
