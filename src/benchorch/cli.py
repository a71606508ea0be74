"""The command line: words are subcommands, ``key=value`` goes to Hydra.

Nothing heavy is imported here; each subcommand imports what it needs.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast

from benchorch.domain.reply import Reply
from benchorch.errors import BenchorchError, ConfigError, ExecutorError

if TYPE_CHECKING:
    from hydra.core.config_loader import ConfigLoader

    from benchorch.interfaces.store import Store
    from benchorch.launcher import Application
    from benchorch.planning import Planned

OK, FAILED, WRONG_REQUEST, INTERRUPTED = 0, 1, 2, 130


def main() -> NoReturn:
    """Run the command line and exit with its code."""
    try:
        code = run(sys.argv[1:])
    except ConfigError as error:
        code = _explain(error)
    except BenchorchError as error:
        print(error, file=sys.stderr)
        code = FAILED
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
    if first and not first.startswith("-") and "=" not in first and not _is_recipe(first):
        from benchorch.components import suggest

        raise ConfigError(
            [
                f"{first!r} is not a command.{suggest(first, _COMMANDS)} Commands: "
                f"{', '.join(sorted(_COMMANDS))}. Or give key=value, or a recipe's .yaml file."
            ]
        )
    return _benchmark(parse(arguments))


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A command line for Hydra, taken apart.

    Attributes:
        config_name: the primary config: ``config``, or a recipe's name.
        directories: the user's own, which come before the built-in ones.
        flags: what is left for Hydra.
        overrides: ``key=value``.
    """

    config_name: str
    directories: tuple[Path, ...]
    flags: tuple[str, ...]
    overrides: tuple[str, ...]
    resume: str | None = None

    @property
    def multirun(self) -> bool:
        """Whether comma-separated values are to be crossed."""
        return bool({"-m", "--multirun"} & set(self.flags))


def _is_recipe(word: str) -> bool:
    return word.endswith(".yaml") and "=" not in word


def parse(arguments: Sequence[str]) -> Request:
    """Take a command line apart; ConfigError for a recipe or directory that is not there."""
    directories: list[Path] = []
    flags: list[str] = []
    overrides: list[str] = []
    config_name, resume = "config", None
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if _is_recipe(word):
            if config_name != "config":
                raise ConfigError([f"{word}: one recipe at a time; {config_name} is given too."])
            recipe = _find_recipe(word)
            directories.append(recipe.parent)
            config_name = recipe.stem
        elif word in ("--config-dir", "-cd") or word.startswith("--config-dir="):
            directories.append(_directory(word.partition("=")[2] or (rest.pop(0) if rest else "")))
        elif word in ("--config-name", "-cn") or word.startswith("--config-name="):
            config_name = word.partition("=")[2] or (rest.pop(0) if rest else "config")
        elif word.startswith("resume=") and word != "resume=null":
            resume = word.partition("=")[2]
        elif word.startswith("-"):
            flags.append(word)
            if word in _FLAGS_WITH_VALUE and rest:
                flags.append(rest.pop(0))
        else:
            overrides.append(word)
    return Request(
        config_name=config_name,
        directories=tuple(directories),
        flags=tuple(flags),
        overrides=tuple(overrides),
        resume=resume,
    )


# Hydra's flags whose value is the next word.
_FLAGS_WITH_VALUE = frozenset({"--cfg", "-c", "--package", "-p", "--config-path", "-cp", "--info"})


def _find_recipe(word: str) -> Path:
    from benchorch.components import suggest
    from benchorch.config import builtin_directory

    for path in (Path(word), builtin_directory("recipes").parent / word):
        if path.is_file():
            return _not_in_front_of_the_root(path.resolve())
    parent = Path(word).parent
    shelf = parent if parent.is_dir() else builtin_directory("recipes")
    names = sorted(path.name for path in shelf.glob("*.y*ml"))
    raise ConfigError(
        [f"There is no recipe {word}.{suggest(Path(word).name, names)} In {shelf}: {names}."]
    )


def _not_in_front_of_the_root(recipe: Path) -> Path:
    """The recipe; ConfigError where its directory has a file that would stand in for our root."""
    root = recipe.parent / "config.yaml"
    if recipe == root:
        raise ConfigError(
            [f"{recipe}: a recipe needs another name; config is benchorch's own root."]
        )
    if root.exists():
        raise ConfigError(
            [
                f"{root} would take the place of benchorch's own config, on which {recipe.name} "
                "builds. Rename it, or move the recipe to a directory of its own."
            ]
        )
    return recipe


def _directory(text: str) -> Path:
    path = Path(text)
    if not text or not path.is_dir():
        raise ConfigError([f"--config-dir: there is no directory {text!r}."])
    return path.resolve()


def _benchmark(request: Request) -> int:
    """A run, a sweep, or one of Hydra's own questions such as ``--cfg job``."""
    if {"-h", "--help"} & set(request.flags):
        return _help(request)
    if request.resume is not None:
        from benchorch.invocations import find_invocation

        directory = find_invocation(request.resume)
        if not (request.overrides or request.flags) and request.config_name == "config":
            return _resume(directory)
        places = (f"hydra.run.dir={directory}", f"hydra.sweep.dir={directory}")
        return _hydra(request, places)
    return _hydra(request, ())


def _help(request: Request) -> int:
    from benchorch.commands import help as help_command
    from benchorch.config import Composer, config_loader
    from benchorch.overrides import lift_lists

    composer = Composer(config_loader(request.directories), request.config_name)
    overrides = lift_lists(request.overrides, composer.groups)
    return _answer(help_command.run(overrides, composer), request.flags)


def _hydra(request: Request, places: Sequence[str]) -> int:
    import hydra

    from benchorch.config import Composer, builtin_directory, config_loader
    from benchorch.launcher import Application, install_plugins, refuse_foreign_code
    from benchorch.overrides import lift_lists

    loader = config_loader(request.directories)
    overrides = lift_lists(request.overrides, Composer(loader, request.config_name).groups)
    application = Application(config_name=request.config_name)
    install_plugins(request.directories)
    refuse_foreign_code(loader, request.config_name, [*overrides, *places])
    # Hydra would print its errors itself and exit with 1; ours name every problem and exit with 2.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    sys.argv = [sys.argv[0], *request.flags, *overrides, *places]
    decorate = hydra.main(
        version_base="1.3",
        config_path=str(builtin_directory("conf")),
        config_name=request.config_name,
    )
    try:
        decorate(application)()
    except KeyboardInterrupt:
        return _interrupted(application)
    except ExecutorError as error:
        application.error = error
    except Exception as error:
        if application.invocation is not None and not isinstance(error, ConfigError):
            raise
        problems = _hydra_problems(error, request, loader)
        raise ConfigError(problems) from error
    if application.error is not None:
        if isinstance(application.error, ExecutorError) and application.invocation is not None:
            application.invocation.cut_short()
        raise application.error
    return application.invocation.close(complete=True) if application.invocation else OK


def _interrupted(application: Application) -> int:
    if application.invocation is not None:
        application.invocation.interrupt()
    return INTERRUPTED


def _resume(directory: Path) -> int:
    from benchorch.components import make
    from benchorch.config import Composer, config_loader
    from benchorch.domain.trial import Node
    from benchorch.interfaces.executor import Executor
    from benchorch.pipeline import Invocation
    from benchorch.stages.report import Report

    invocation = Invocation(
        composer=Composer(config_loader()), directory=directory.resolve(), report=Report()
    )
    invocation.open()
    assert invocation.plan is not None  # find_invocation saw it
    os.chdir(str(invocation.plan.session.get("cwd", ".")))  # paths in the plan start there
    node = cast(Node, invocation.plan.session["executor"])
    executor = make(node, Executor, "executor")
    try:
        invocation.run_plan(invocation.plan, executor)
    except KeyboardInterrupt:
        invocation.interrupt()
        return INTERRUPTED
    except ExecutorError:
        invocation.cut_short()
        raise
    return invocation.close(complete=True)


def _plan(arguments: list[str]) -> int:
    """Show what would run; starts nothing."""
    from benchorch.costing import expected, summary_lines, total_usd
    from benchorch.tables import plan_text

    if {"-h", "--help"} & set(arguments):
        print(_PLAN_HELP)
        return OK
    request = parse([word for word in arguments if word != "--json"])
    foreign = [*sorted(set(request.flags) - {"-m", "--multirun"})]
    foreign += [f"resume={request.resume}"] if request.resume else []
    if foreign:
        raise ConfigError([f"plan does not take {' '.join(foreign)}; see plan --help."])
    planned = _planned(request)
    told = expected(planned.plan)
    if "--json" in arguments:
        from benchorch.domain.codec import encode

        content = cast(dict[str, object], encode(planned.plan))
        for trial in cast(list[dict[str, object]], content["trials"]):
            foreseen = told[str(trial["trial_id"])]
            trial |= {"expected_s": foreseen.seconds, "cost_usd": foreseen.usd}
        print(json.dumps({**content, "cost_usd": total_usd(told)}, indent=2))
    else:
        print(plan_text(planned.plan))
        print("\n".join(summary_lines(planned.plan, told)))
    return OK


def _planned(request: Request) -> Planned:
    """What a request would run; ConfigError with every problem."""
    from benchorch.config import Composer, config_loader
    from benchorch.overrides import lift_lists, sweep_jobs
    from benchorch.planning import new_plan_id, plan_jobs

    loader = config_loader(request.directories)
    composer = Composer(loader, request.config_name)
    overrides = lift_lists(request.overrides, composer.groups)
    jobs = sweep_jobs(overrides, loader) if request.multirun else [overrides]
    return plan_jobs(composer, jobs, new_plan_id())


_PLAN_HELP = """usage: python -m benchorch plan [--json] [-m] [RECIPE.yaml] [key=value ...]

Shows the trials that the same words without `plan` would run, and every cell that would be
skipped with the reason. Nothing is started.

  --json    an object with `trials` and `skips`, for programs
  -m        cross comma-separated values"""


def _hydra_problems(error: Exception, request: Request, loader: ConfigLoader) -> list[str]:
    """Everything wrong with the words, in place of the first thing Hydra stumbled over."""
    from hydra.errors import HydraException

    from benchorch.config import Composer
    from benchorch.mistakes import composition_errors, first_line
    from benchorch.overrides import lift_lists

    if isinstance(error, ConfigError):
        return list(error.problems)
    if not isinstance(error, composition_errors()):
        raise error
    if isinstance(error, OSError | RecursionError) and not isinstance(error, HydraException):
        return [first_line(error)]
    composer = Composer(loader, request.config_name)
    overrides = lift_lists(request.overrides, composer.groups)
    return composer.problems(overrides, sweep=request.multirun) or [first_line(error)]


def _cache(arguments: list[str]) -> int:
    from benchorch.commands import cache

    arguments, overrides = _split_overrides(arguments)
    return _answer(cache.run(_without_json(arguments), _store(overrides)), arguments)


def _store(overrides: Sequence[str]) -> Store:
    from benchorch.components import make
    from benchorch.config import Composer, config_loader
    from benchorch.domain.trial import Node
    from benchorch.interfaces.store import Store

    config = Composer(config_loader()).session(overrides)
    return make(cast(Node, config["store"]), Store, "store")


def _record(arguments: list[str]) -> int:
    from benchorch.commands import record

    return _answer(record.run(_without_json(arguments)), arguments)


def _ui(arguments: list[str]) -> int:
    from benchorch.commands import ui

    return _answer(ui.run(_without_json(arguments), _say), arguments)


def _report(arguments: list[str]) -> int:
    from benchorch.commands import report

    return _answer(report.run(arguments), arguments)


def _compare(arguments: list[str]) -> int:
    from benchorch.commands import compare

    return _answer(compare.run(arguments), arguments)


def _gate(arguments: list[str]) -> int:
    from benchorch.commands import gate

    return _answer(gate.run(arguments), arguments)


def _conversions(arguments: list[str]) -> int:
    from benchorch.commands import conversions

    return _answer(conversions.run(arguments), arguments)


def _backends(arguments: list[str]) -> int:
    from benchorch.commands import backends

    return _answer(backends.run(_without_json(arguments)), arguments)


def _analyze(arguments: list[str]) -> int:
    from benchorch.commands import analyze

    return _answer(analyze.run(arguments, _whisper), arguments)


def _doctor(arguments: list[str]) -> int:
    from benchorch.commands import doctor

    return _answer(doctor.run(_without_json(arguments), _whisper), arguments)


def _status(arguments: list[str]) -> int:
    from benchorch.commands import status

    return _here_or_there("status", arguments, lambda words: status.run(words, _say))


def _logs(arguments: list[str]) -> int:
    from benchorch.commands import logs

    return _here_or_there("logs", arguments, lambda words: logs.run(words, _say))


def _cancel(arguments: list[str]) -> int:
    from benchorch.commands import cancel, head

    url, words = head.named(arguments)
    if url is not None and not {"--yes", "-h", "--help"} & set(words):  # nobody answers there
        if _asked(f"End {' '.join(words)} on {url}? [yes/no] ").strip().lower() not in cancel.YES:
            return _answer(cancel.UNCHANGED, words)
        arguments = [*arguments, "--yes"]
    return _here_or_there("cancel", arguments, lambda words: cancel.run(words, _asked, _whisper))


def _here_or_there(word: str, arguments: list[str], here: Callable[[list[str]], Reply]) -> int:
    """The answer of this machine, or of a cluster's head where one is named."""
    from benchorch.commands import head

    url, words = head.named(arguments)
    if url is None:
        return _answer(here(words), words)
    return head.ask(head.jobs_of(url), [word, *words], _say)


def _resume_word(arguments: list[str]) -> int:
    """``resume RUN``: the same as ``resume=RUN``; on a head it is submitted."""
    from benchorch.commands.head import named
    from benchorch.commands.submit import RESUME_HELP, resumed

    url, words = named(arguments)
    if not arguments or {"-h", "--help"} & set(arguments):
        print(RESUME_HELP)
        return OK
    if url is not None:
        return _submit(["resume", *arguments])
    return _benchmark(parse(resumed(["resume", *words])))


def _submit(arguments: list[str]) -> int:
    from benchorch.commands import head, submit

    url, words = head.named(arguments)
    asked, words = submit.parser().parse_known_args(words)
    words = submit.resumed(words)
    if asked.name:  # on the head: this process is the driver
        return _benchmark(parse(submit.settle(asked.name, words, with_code=asked.with_code)))
    if words[0] in _COMMANDS:
        raise ConfigError([f"{words[0]!r} is no word of a run: submit takes a recipe, key=value."])
    if url is None:
        return _answer(submit.run_here(words, _foresee), arguments)
    return _answer(head.submit(head.jobs_of(url), url, words, asked.working_dir), arguments)


def _foresee(words: Sequence[str]) -> None:
    """ConfigError for words that no run would take; starts nothing."""
    request = parse(words)
    foreign = sorted(set(request.flags) - {"-m", "--multirun"})
    if foreign:
        raise ConfigError([f"submit does not take {' '.join(foreign)}; see submit --help."])
    if request.resume is None:
        _planned(request)


def _script(arguments: list[str]) -> int:
    from benchorch.commands import script

    prepared = script.run(arguments, _whisper)
    code = _answer(prepared.reply, arguments)
    return max(code, _benchmark(parse(prepared.words))) if prepared.words else code


def _asked(question: str) -> str:
    """A person's answer; no person, no answer."""
    try:
        return input(question)
    except EOFError:
        return ""


def _say(text: str) -> None:
    print(text, flush=True)


def _whisper(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def _split_overrides(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    overrides = [word for word in arguments if "=" in word and not word.startswith("-")]
    return [word for word in arguments if word not in overrides], overrides


def _without_json(arguments: Sequence[str]) -> list[str]:
    return [word for word in arguments if word != "--json"]


def _answer(reply: Reply, arguments: Sequence[str]) -> int:
    """Print an answer for people or, with ``--json``, for programs."""
    if "--json" in arguments:
        print(json.dumps(reply.data, indent=2))
    elif reply.text:
        print(reply.text, file=sys.stderr if reply.exit_code == WRONG_REQUEST else sys.stdout)
    return reply.exit_code


def _explain(error: ConfigError) -> int:
    """Every problem on a line of its own, and what to try."""
    count = len(error.problems)
    print(f"{count} problem{'' if count == 1 else 's'}; nothing was run:", file=sys.stderr)
    for problem in error.problems:
        print(f"  {problem}", file=sys.stderr)
    print("Try: python -m benchorch --help", file=sys.stderr)
    return WRONG_REQUEST


def _version(arguments: list[str]) -> int:
    from benchorch import __version__

    print(__version__)
    return OK


_COMMANDS: Mapping[str, Callable[[list[str]], int]] = {
    "analyze": _analyze,
    "backends": _backends,
    "cache": _cache,
    "cancel": _cancel,
    "compare": _compare,
    "conversions": _conversions,
    "doctor": _doctor,
    "gate": _gate,
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
