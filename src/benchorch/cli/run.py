"""A run from its request to its exit code."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from benchorch.cli.arguments import Request
from benchorch.cli.terminal import FAILED, INTERRUPTED, OK, Terminal, ask, print_err, print_out
from benchorch.domain.reply import Reply
from benchorch.errors import (
    ConfigError,
    Correction,
    ExecutorError,
    NoMachine,
    Problem,
    RecordError,
)
from benchorch.formatting import shell_word
from benchorch.host.processes.sigterm import TERMINATED, Terminated, sigterm_as_interrupt

if TYPE_CHECKING:
    from benchorch.cli.shown_configuration import Shown
    from benchorch.config.composer import Composer
    from benchorch.domain.codec import Json
    from benchorch.domain.trial import Plan
    from benchorch.results.report.console import ConsoleReport
    from benchorch.run.invocation import Invocation, RunTerms

_SHOWS_CONFIGURATION = frozenset({"--cfg", "-c", "--info", "-i"})


def benchmark(request: Request, terminal: Terminal) -> int:
    """A run, a sweep, or one of Hydra's own flags such as ``--cfg job``; the exit code."""
    from benchorch.cli.recipes import placed_mistakes

    with placed_mistakes(request):
        return _benchmark(request, terminal)


def _benchmark(request: Request, terminal: Terminal) -> int:
    from benchorch.config.composer import Composer, config_loader
    from benchorch.config.overrides import spelled

    composer = Composer(config_loader(request.directories), request.config_name)
    overrides = composer.lifted(request.overrides)
    if terminal.wants_json and request.foreign_flags:
        return terminal.reply(Reply(text="", data=composer.session(overrides)))
    directory = None
    if request.resume is not None:
        from benchorch.journal.registry import find_invocation

        directory = find_invocation(request.resume)
        if not (request.extends(overrides) or request.foreign_flags):
            return _resume(directory, composer, _terms(request), terminal, overrides)
    modes = ("run", "sweep") if directory else ()
    places = [f"hydra.{mode}.dir={spelled(str(directory))}" for mode in modes]
    if (shown := _only_shown(request, [*overrides, *places])) is not None:
        return _show(request, shown, composer)
    from benchorch.cli.hydra_app import installed_plugins

    with installed_plugins(request.directories):
        return _run_by_hydra(request, composer, overrides, places, terminal)


def _only_shown(request: Request, words: Sequence[str]) -> Shown | None:
    """What of the configuration to print, where the command does nothing else."""
    if not _shows_configuration(request.flags):
        return None
    from benchorch.cli.shown_configuration import requested

    return requested([*request.flags, *words])


def _show(request: Request, shown: Shown, composer: Composer) -> int:
    """Print a part of the configuration, less passwords; the exit code."""
    config = shown.compose(composer)
    try:
        with _without_passwords(request.flags):
            shown.print(config, request.config_name)
    except BrokenPipeError:
        raise
    except Exception as error:
        raise ConfigError(_hydra_problems(error, composer, shown.words, sweep=False)) from error
    return OK


def run_again(
    directory: Path, terminal: Terminal, *, failed: bool, only: Sequence[str], exit_first: bool
) -> int:
    """Run trials of a stored run once more; the exit code."""
    from benchorch.config.composer import Composer, config_loader
    from benchorch.run.invocation import RunTerms

    terms = RunTerms(again=True, failed=failed, only=tuple(only), exit_first=exit_first)
    return _resume(directory, Composer(config_loader()), terms, terminal)


def _terms(request: Request) -> RunTerms:
    from benchorch.run.invocation import RunTerms

    return RunTerms(
        allow_skips=request.allow_skips, exit_first=request.exit_first, only=request.only
    )


def _report(terminal: Terminal) -> ConsoleReport:
    """The report of a run: beside the answer where that is for programs."""
    from benchorch.results.report.console import ConsoleReport, console_on

    stream = sys.stderr if terminal.as_json else sys.stdout
    return ConsoleReport(console_on(stream), quiet=terminal.quiet, verbose=terminal.verbose)


def check_output(terminal: Terminal) -> None:
    """ConfigError where ``--output`` names a file of no known kind, before anything runs."""
    if terminal.output is None:
        return
    from benchorch.cli.stored_report import writer

    writer(terminal.output, as_json=terminal.as_json)


def _delivered(code: int, invocation: Invocation | None, terminal: Terminal) -> int:
    """The run for programs, or in the named file, once it has ended; its exit code.

    The code is the run's, also where it has no result to report; 1 where a file cannot be written.
    """
    if invocation is None or invocation.plan is None:
        return code
    if not (terminal.as_json or terminal.output):
        return code
    from benchorch.cli.stored_report import report

    try:
        written = report([str(invocation.directory)], terminal)
    except ConfigError as error:  # the run has ended, and is kept
        code = code or FAILED
        text = f"{' '.join(error.problems)} The run is in {invocation.directory}."
        written = Reply(text=text, data={"code": "failed", "message": text, "next": ""})
        if not terminal.as_json:
            print_err(text)
            return code
        terminal = replace(terminal, output=None)
    if terminal.output:
        terminal.say(written.text)
    else:
        facts: dict[str, Json] = {
            "directory": str(invocation.directory.resolve()),
            "exit_code": code,
        }
        terminal.reply(Reply(text="", data={**cast("dict[str, Json]", written.data), **facts}))
    return code


def _run_by_hydra(
    request: Request,
    composer: Composer,
    overrides: Sequence[str],
    places: Sequence[str],
    terminal: Terminal,
) -> int:
    import hydra

    from benchorch.cli.foreign_code import refuse_foreign_code
    from benchorch.cli.hydra_app import Application
    from benchorch.config.directories import builtin_directory

    application = Application(
        config_name=request.config_name,
        terms=_terms(request),
        report=_report(terminal),
        place="" if places else "hydra.sweep.dir" if request.multirun else "hydra.run.dir",
    )
    refuse_foreign_code(composer, [*overrides, *places])
    if not request.foreign_flags:
        check_output(terminal)
        _refuse_taken(application.place, overrides)
    if _shows_configuration(request.flags):
        composer.session(overrides)  # what is too much to be resolved ends here, not in Hydra
    # Hydra would print its errors itself and exit with 1; ours name every problem and exit with 2.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    sys.argv = [sys.argv[0], *request.flags, *overrides, *places]
    decorate = hydra.main(
        version_base="1.3",
        config_path=str(builtin_directory("conf")),
        config_name=request.config_name,
    )

    def work() -> None:
        try:
            with _without_passwords(request.flags):
                decorate(application)()
        except (ExecutorError, BrokenPipeError):
            raise
        except Exception as error:
            wrong = isinstance(error, ConfigError) and not isinstance(error, NoMachine)
            if application.invocation is not None and not wrong:
                raise
            problems = _hydra_problems(error, composer, overrides, sweep=request.multirun)
            raise ConfigError(problems, next=getattr(error, "next", "")) from error
        if application.error is not None:
            raise application.error

    try:
        code = _to_its_end(work, lambda: application.invocation)
    except ConfigError:
        if application.invocation is not None:
            application.invocation.discard()
        raise
    return _delivered(code, application.invocation, terminal)


def _refuse_taken(place: str, overrides: Sequence[str]) -> None:
    """ConfigError where the words name a directory with a run, before Hydra writes to it."""
    from hydra.errors import HydraException

    from benchorch.cli.hydra_app import refuse_taken
    from benchorch.config.overrides import key_of, parse_override

    for word in overrides:
        if place and key_of(word) == place:
            with contextlib.suppress(HydraException):  # which has its own explanation
                refuse_taken(Path(str(parse_override(word).value())), place)


def _shows_configuration(flags: Sequence[str]) -> bool:
    return bool(_SHOWS_CONFIGURATION & {flag.partition("=")[0] for flag in flags})


@contextlib.contextmanager
def _without_passwords(flags: Sequence[str]) -> Iterator[None]:
    """Strike passwords and variables' values out of what Hydra prints of the configuration."""
    from benchorch.config.environment_references import hidden
    from benchorch.recorders.location import strike_out

    if not _shows_configuration(flags):
        yield
        return
    with contextlib.redirect_stdout(io.StringIO()) as text, hidden():
        yield
    print_out(strike_out(text.getvalue()).rstrip("\n"))


@sigterm_as_interrupt()  # closing waits for a tracker, which a second signal ends
def _to_its_end(work: Callable[[], None], invocation: Callable[[], Invocation | None]) -> int:
    """Do the work of an invocation and close it however that ends; the exit code."""
    try:
        with sigterm_as_interrupt():
            work()
    except KeyboardInterrupt as error:
        if found := invocation():
            found.interrupt()
            if not isinstance(error, Terminated):  # nobody is there to answer
                _leave_or_cancel(found.directory)
        return TERMINATED if isinstance(error, Terminated) else INTERRUPTED
    except (ExecutorError, ConfigError):
        if found := invocation():
            found.cut_short()
        raise
    except RecordError:
        if found := invocation():
            found.abandon()
        raise
    found = invocation()
    return found.close(complete=True) if found else OK


def _leave_or_cancel(directory: Path) -> None:
    """Ask what becomes of a sweep that goes on on a stack; left is what nobody decides about."""
    from benchorch.executors.stack import cancel, left_running

    try:
        sweep = left_running(directory)
        if sweep is None:
            return
        where = f"{sweep.name} continues on stack {sweep.stack.facts.name}"
        if ask(f"{where}. Leave it running, or cancel it? [leave/cancel] ").lower() == "cancel":
            print_err(cancel(sweep))
            print_err("Its machines end once they are idle.")
        else:
            print_err(f"{where}; the same line follows it again.")
    except ExecutorError as error:
        print_err(f"{error} The sweep continues; the same line follows it again.")


def _resume(
    directory: Path,
    composer: Composer,
    terms: RunTerms,
    terminal: Terminal,
    overrides: Sequence[str] = (),
) -> int:
    from benchorch.run.foreign_plan import refuse_foreign
    from benchorch.run.invocation import Invocation
    from benchorch.run.resumed_settings import with_settings
    from benchorch.run.selection import narrowed

    check_output(terminal)
    invocation = Invocation(
        composer=composer, directory=directory.resolve(), report=_report(terminal), terms=terms
    )
    invocation.open()
    plan = invocation.plan
    assert plan is not None  # find_invocation has found it
    refuse_foreign(plan, directory, f"benchorch resume {shell_word(directory)}")
    if invocation.repeats_nothing:
        return _delivered(OK, invocation, terminal)
    part = plan if terms.again else narrowed(plan, terms.only)
    if terminal.output is not None:  # a path from the folder where the command was typed
        terminal = replace(terminal, output=terminal.output.absolute())
    _change_directory(Path(str(plan.session.get("cwd", "."))))
    part = with_settings(part, composer, overrides)
    return _delivered(_run_plan(invocation, part), invocation, terminal)


def run_stored(plan: Plan, directory: Path, terminal: Terminal) -> int:
    """Run a plan that was made elsewhere in a new directory; the exit code."""
    from benchorch.config.composer import Composer, config_loader
    from benchorch.run.invocation import Invocation

    invocation = Invocation(
        composer=Composer(config_loader()),
        directory=directory.resolve(),
        report=_report(terminal),
        plan_id=plan.plan_id,
    )
    invocation.open()
    return _run_plan(invocation, plan)


def _run_plan(invocation: Invocation, plan: Plan) -> int:
    from benchorch.config.components import make
    from benchorch.domain.trial import node_of
    from benchorch.interfaces.executor import Executor

    executor = make(node_of(plan.session, "executor"), Executor, "executor")
    if executor.problems():
        raise ConfigError(executor.problems())
    return _to_its_end(lambda: invocation.run_plan(plan, executor), lambda: invocation)


def _change_directory(place: Path) -> None:
    """Go where the plan was made, where its relative paths start, if this machine has it."""
    if place.is_dir():
        os.chdir(place)
    else:
        print_err(
            f"The run was planned in {place}, which is not on this machine; relative paths start "
            "in the current directory."
        )


def _hydra_problems(
    error: Exception, composer: Composer, overrides: Sequence[str], *, sweep: bool
) -> list[str]:
    """Every problem of the overrides, in place of the first one that stopped Hydra."""
    from hydra.errors import HydraException

    from benchorch.config.composition import composition_errors, first_line

    if isinstance(error, ConfigError):
        return list(error.problems)
    if not isinstance(error, composition_errors()):
        raise error
    if isinstance(error, OSError) and error.filename and not isinstance(error, HydraException):
        setting = "hydra.run.dir=/tmp/benchorch-run"
        where = f"To store the run elsewhere, set {setting}."
        problem = f"{error.filename}: {error.strerror}. {where}"
        return [Problem(problem, Correction(settings=[setting]))]
    if isinstance(error, OSError | RecursionError) and not isinstance(error, HydraException):
        return [first_line(error)]
    return composer.problems(overrides, sweep=sweep) or [first_line(error)]
