"""The command line: words are subcommands, ``key=value`` is a run.

Nothing heavy is imported here; each subcommand imports what it needs. What a run's words ask for is
in `benchorch.request`, how it is run in `benchorch.invoking`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn, cast

from benchorch.cli.arguments import is_recipe, parse
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

if TYPE_CHECKING:
    from benchorch.interfaces.store import Store


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
    """Do what the arguments ask; the exit code."""
    first = arguments[0] if arguments else ""
    if first in _COMMANDS:
        return _COMMANDS[first](list(arguments[1:]))
    if first and not first.startswith("-") and "=" not in first and not is_recipe(first):
        from benchorch.config.components import suggest

        raise ConfigError(
            [
                f"{first!r} is not a command.{suggest(first, _COMMANDS)} Commands: "
                f"{', '.join(sorted(_COMMANDS))}. Or give key=value, or a recipe's .yaml file."
            ]
        )
    return benchmark(parse(arguments))


def _cache(arguments: list[str]) -> int:
    from benchorch.cli.commands import cache

    arguments, overrides = _split_overrides(arguments)
    return print_reply(cache.run(_without_json(arguments), _store(overrides)), arguments)


def _record(arguments: list[str]) -> int:
    from benchorch.cli.commands import record

    return print_reply(record.run(_without_json(arguments)), arguments)


def _keep(arguments: list[str]) -> int:
    from benchorch.cli.commands import archive

    return print_reply(archive.run_keep(arguments), arguments)


def _fetch(arguments: list[str]) -> int:
    from benchorch.cli.commands import archive

    return print_reply(archive.run_fetch(arguments), arguments)


def _ui(arguments: list[str]) -> int:
    from benchorch.cli.commands import ui

    return print_reply(ui.run(_without_json(arguments), print_out), arguments)


def _report(arguments: list[str]) -> int:
    from benchorch.cli.commands import report

    return print_reply(report.run(arguments, print_err), arguments)


def _compare(arguments: list[str]) -> int:
    from benchorch.cli.commands import compare

    return print_reply(compare.run(arguments, print_err), arguments)


def _gate(arguments: list[str]) -> int:
    from benchorch.cli.commands import gate

    return print_reply(gate.run(arguments, print_err), arguments)


def _conversions(arguments: list[str]) -> int:
    from benchorch.cli.commands import conversions

    return print_reply(conversions.run(arguments), arguments)


def _backends(arguments: list[str]) -> int:
    from benchorch.cli.commands import backends

    return print_reply(backends.run(_without_json(arguments)), arguments)


def _plan(arguments: list[str]) -> int:
    from benchorch.cli.commands import plan

    return print_reply(plan.run(arguments), arguments)


def _analyze(arguments: list[str]) -> int:
    from benchorch.cli.commands import analyze

    return print_reply(analyze.run(arguments, print_err), arguments)


def _doctor(arguments: list[str]) -> int:
    from benchorch.cli.commands.doctor import command

    return print_reply(command.run(_without_json(arguments), print_err), arguments)


def _status(arguments: list[str]) -> int:
    from benchorch.cli.commands import status

    return _here_or_there("status", arguments, lambda words: status.run(words, print_out))


def _logs(arguments: list[str]) -> int:
    from benchorch.cli.commands import logs

    return _here_or_there("logs", arguments, lambda words: logs.run(words, print_out))


def _cancel(arguments: list[str]) -> int:
    from benchorch.cli.commands import cancel, remote_head

    url, words = remote_head.named(arguments)
    if url is not None and not {"--yes", "-h", "--help"} & set(words):  # nobody answers there
        if ask(f"End {' '.join(words)} on {url}? [yes/no] ").strip().lower() not in cancel.YES:
            return print_reply(cancel.UNCHANGED, words)
        arguments = [*arguments, "--yes"]
    return _here_or_there("cancel", arguments, lambda words: cancel.run(words, ask, print_err))


def _here_or_there(word: str, arguments: list[str], here: Callable[[list[str]], Reply]) -> int:
    """The answer of this machine, or of a cluster's head where one is named."""
    from benchorch.cli.commands import remote_head

    url, words = remote_head.named(arguments)
    if url is None:
        return print_reply(here(words), words)
    return remote_head.ask(remote_head.jobs_of(url), [word, *words], print_out)


def _resume_word(arguments: list[str]) -> int:
    """``resume RUN``: the same as ``resume=RUN``; on a head it is submitted."""
    from benchorch.cli.commands.remote_head import named
    from benchorch.cli.commands.submit import RESUME_HELP, resumed

    url, words = named(arguments)
    if not arguments or {"-h", "--help"} & set(arguments):
        return print_reply(Reply(text=RESUME_HELP, data=RESUME_HELP), [])
    if url is not None:
        return _submit(["resume", *arguments])
    return benchmark(parse(resumed(["resume", *words])))


def _submit(arguments: list[str]) -> int:
    from benchorch.cli.commands import remote_head, submit
    from benchorch.cli.commands.plan import foresee

    url, words = remote_head.named(arguments)
    wanted, words = submit.parser().parse_known_args(words)
    words = submit.resumed(words)
    if wanted.name:  # on the head: this process is the driver
        return benchmark(parse(submit.settle(wanted.name, words, with_code=wanted.with_code)))
    if words[0] in _COMMANDS:
        raise ConfigError([f"{words[0]!r} is no word of a run: submit takes a recipe, key=value."])
    if url is None:
        return print_reply(submit.run_here(words, foresee), arguments)
    return print_reply(
        remote_head.submit(remote_head.jobs_of(url), url, words, wanted.working_dir), arguments
    )


def _script(arguments: list[str]) -> int:
    from benchorch.cli.commands import script

    prepared = script.run(arguments, print_err)
    code = print_reply(prepared.reply, arguments)
    return max(code, benchmark(parse(prepared.words))) if prepared.words else code


def _version(arguments: list[str]) -> int:
    from benchorch import __version__

    return print_reply(Reply(text=__version__, data=__version__), [])


def _store(overrides: Sequence[str]) -> Store:
    from benchorch.config.components import make
    from benchorch.config.composer import Composer, config_loader
    from benchorch.domain.trial import ConfigNode
    from benchorch.interfaces.store import Store

    config = Composer(config_loader()).session(overrides)
    return make(cast(ConfigNode, config["store"]), Store, "store")


def _split_overrides(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    overrides = [word for word in arguments if "=" in word and not word.startswith("-")]
    return [word for word in arguments if word not in overrides], overrides


def _without_json(arguments: Sequence[str]) -> list[str]:
    return [word for word in arguments if word != "--json"]


_COMMANDS: Mapping[str, Callable[[list[str]], int]] = {
    "analyze": _analyze,
    "backends": _backends,
    "cache": _cache,
    "cancel": _cancel,
    "compare": _compare,
    "conversions": _conversions,
    "doctor": _doctor,
    "fetch": _fetch,
    "gate": _gate,
    "keep": _keep,
    "logs": _logs,
    "plan": _plan,
    "record": _record,
    "report": _report,
    "resume": _resume_word,
    "script": _script,
    "status": _status,
    "submit": _submit,
    "ui": _ui,
    "version": _version,
}
