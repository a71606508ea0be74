"""The command line: a command by its name, or a run by ``key=value`` and recipes.

A command's module is imported when it is called, so `--help` and `plan` start fast. `arguments`
parses what a run is given and `run` carries it out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import NoReturn

from benchorch.cli.arguments import is_recipe, is_script, parse
from benchorch.cli.run import benchmark
from benchorch.cli.terminal import (
    FAILED,
    INTERRUPTED,
    ask,
    print_err,
    print_error,
    print_out,
    print_reply,
)
from benchorch.domain.reply import Reply
from benchorch.errors import BenchorchError, ConfigError

_HELP = {"-h", "--help"}


@dataclass(frozen=True, slots=True)
class _Command:
    """A function of a module of `cli.commands` that returns a `Reply`.

    Attributes:
        extras: what it takes after the arguments.
        own_json: whether it reads ``--json`` itself; else only the printing does.
        on_head: whether ``--head`` may send it to a cluster's head.
    """

    module: str
    extras: tuple[Callable[..., object], ...] = ()
    function: str = "run"
    own_json: bool = True
    on_head: bool = False


_REPLIES: Mapping[str, _Command] = {
    "analyze": _Command("analyze", (print_err,)),
    "backends": _Command("backends", own_json=False),
    "cache": _Command("cache", function="open_and_run", own_json=False),
    "cancel": _Command("cancel", (ask, print_err), on_head=True),
    "check": _Command("check", (print_err,)),
    "compare": _Command("compare", (print_err,)),
    "conversions": _Command("conversions"),
    "doctor": _Command("doctor.command", (print_err,), own_json=False),
    "duel": _Command("duel", (print_err,)),
    "export": _Command("export", (print_err,)),
    "fetch": _Command("archive", function="run_fetch"),
    "gate": _Command("gate", (print_err,)),
    "init": _Command("init", (ask,)),
    "keep": _Command("archive", function="run_keep"),
    "logs": _Command("logs", (print_out,), on_head=True),
    "open": _Command("open", (print_err,)),
    "plan": _Command("plan"),
    "record": _Command("record", own_json=False),
    "report": _Command("report", (print_err,)),
    "status": _Command("status", (print_out,), on_head=True),
    "ui": _Command("ui", (print_out,), own_json=False),
}


def main() -> NoReturn:
    """Run the command line and exit with its code."""
    try:
        code = run(sys.argv[1:])
    except BenchorchError as error:
        code = print_error(error)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:  # the reader left, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = FAILED
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Carry out a command line, trusting what it names; its exit code."""
    from benchorch.models import trust

    with trust.declared(arguments):
        words, _ = trust.split(arguments)
        return _carry_out(list(arguments) if words[:1] == ["submit"] else words)


def _carry_out(arguments: Sequence[str]) -> int:
    first, rest = (arguments[0], list(arguments[1:])) if arguments else ("", [])
    if first in _REPLIES:
        return _reply(first, rest)
    if first in _RUNS:
        return _RUNS[first](rest)
    if is_script(first):
        return _script(list(arguments))
    if first and not first.startswith("-") and "=" not in first and not is_recipe(first):
        from benchorch.config.components import suggest

        raise ConfigError(
            [
                f"{first!r} is not a command.{suggest(first, _COMMANDS)} Commands: "
                f"{', '.join(_COMMANDS)}. Or give key=value, or a recipe's .yaml file."
            ]
        )
    return benchmark(parse(arguments))


def _reply(name: str, arguments: list[str]) -> int:
    command = _REPLIES[name]
    if command.on_head:
        from benchorch.cli.commands import remote_head

        url, arguments = remote_head.named(arguments)
        if url is not None:
            return remote_head.relay(name, arguments, url)
    taken = arguments if command.own_json else [word for word in arguments if word != "--json"]
    module = import_module(f"benchorch.cli.commands.{command.module}")
    return print_reply(getattr(module, command.function)(taken, *command.extras), arguments)


def _resume(arguments: list[str]) -> int:
    """``resume RUN``: the same as ``resume=RUN``; on a head it is submitted."""
    from benchorch.cli.commands.remote_head import named
    from benchorch.cli.commands.submit import RESUME_HELP, resumed

    if not arguments or _HELP & set(arguments):
        return print_reply(Reply(text=RESUME_HELP, data=RESUME_HELP), [])
    url, words = named(arguments)
    if url is not None:
        return _submit(["resume", *arguments])
    return benchmark(parse(resumed(["resume", *words])))


def _submit(arguments: list[str]) -> int:
    from benchorch.cli.commands import remote_head, submit
    from benchorch.cli.commands.plan import check
    from benchorch.models import trust

    url, words = remote_head.named(arguments)
    options, words = submit.parser().parse_known_args(words)
    words = submit.resumed(words)
    if options.name:  # on the head: this process is the coordinator
        words = submit.settle(options.name, words, with_code=options.with_code)
        with trust.declared(words):  # anew, in the folder of the run's code
            return benchmark(parse(words))
    if words[0] in _COMMANDS:
        raise ConfigError(
            [f"{words[0]!r} is not a valid argument for a run: submit takes a recipe or key=value."]
        )
    if url is None:
        return print_reply(submit.run_here(words, check), arguments)
    if options.working_dir and trust.trusts(options.working_dir):
        words = [*words, trust.FLAG, "."]  # its copy on the head is in no work tree
    jobs = remote_head.jobs_of(url)
    return print_reply(remote_head.submit(jobs, url, words, options.working_dir), arguments)


def _script(arguments: list[str]) -> int:
    from benchorch.cli.commands import script

    prepared = script.run(arguments, print_err)
    code = print_reply(prepared.reply, arguments)
    if prepared.words:
        code = max(code, benchmark(parse(prepared.words)))
        print_out(prepared.corpus())
    return code


def _version(arguments: list[str]) -> int:
    from benchorch import __version__

    return print_reply(Reply(text=__version__, data=__version__), [])


_RUNS: Mapping[str, Callable[[list[str]], int]] = {
    "resume": _resume,
    "script": _script,
    "submit": _submit,
    "version": _version,
}
_COMMANDS = sorted((*_REPLIES, *_RUNS))
