"""From what is asked for to an invocation that has ended, and its exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from benchorch.cli.arguments import Request
from benchorch.cli.terminal import INTERRUPTED, OK, print_err, print_reply
from benchorch.errors import ConfigError, ExecutorError

if TYPE_CHECKING:
    from hydra.core.config_loader import ConfigLoader

    from benchorch.run.invocation import Invocation


def benchmark(request: Request) -> int:
    """A run, a sweep, or one of Hydra's own questions such as ``--cfg job``."""
    if {"-h", "--help"} & set(request.flags):
        return _help(request)
    if request.resume is not None:
        from benchorch.journal.registry import find_invocation

        directory = find_invocation(request.resume)
        if not (request.overrides or request.flags) and request.config_name == "config":
            return _resume(directory)
        places = (f"hydra.run.dir={directory}", f"hydra.sweep.dir={directory}")
        return _hydra(request, places)
    return _hydra(request, ())


def _help(request: Request) -> int:
    from benchorch.cli.commands import help as help_command
    from benchorch.config.composer import Composer, config_loader
    from benchorch.config.overrides import lift_lists

    composer = Composer(config_loader(request.directories), request.config_name)
    overrides = lift_lists(request.overrides, composer.groups)
    return print_reply(help_command.run(overrides, composer), request.flags)


def _hydra(request: Request, places: Sequence[str]) -> int:
    import hydra

    from benchorch.cli.hydra_app import Application, install_plugins, refuse_foreign_code
    from benchorch.config.composer import Composer, config_loader
    from benchorch.config.directories import builtin_directory
    from benchorch.config.overrides import lift_lists

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
        return _interrupted(application.invocation)
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


def _interrupted(invocation: Invocation | None) -> int:
    if invocation is not None:
        invocation.interrupt()
    return INTERRUPTED


def _resume(directory: Path) -> int:
    from benchorch.config.components import make
    from benchorch.config.composer import Composer, config_loader
    from benchorch.domain.trial import ConfigNode
    from benchorch.interfaces.executor import Executor
    from benchorch.results.report.console import ConsoleReport
    from benchorch.run.invocation import Invocation

    invocation = Invocation(
        composer=Composer(config_loader()), directory=directory.resolve(), report=ConsoleReport()
    )
    invocation.open()
    assert invocation.plan is not None  # find_invocation saw it
    _go_to(Path(str(invocation.plan.session.get("cwd", "."))))
    node = cast(ConfigNode, invocation.plan.session["executor"])
    executor = make(node, Executor, "executor")
    try:
        invocation.run_plan(invocation.plan, executor)
    except KeyboardInterrupt:
        return _interrupted(invocation)
    except ExecutorError:
        invocation.cut_short()
        raise
    return invocation.close(complete=True)


def _go_to(place: Path) -> None:
    """Where the plan was made: its paths start there. A fetched run's may be on no disk here."""
    if place.is_dir():
        os.chdir(place)
    else:
        print_err(
            f"The run was planned in {place}, which is not on this machine: paths start here."
        )


def _hydra_problems(error: Exception, request: Request, loader: ConfigLoader) -> list[str]:
    """Everything wrong with the words, in place of the first thing Hydra stumbled over."""
    from hydra.errors import HydraException

    from benchorch.config.composer import Composer
    from benchorch.config.diagnostics import composition_errors, first_line
    from benchorch.config.overrides import lift_lists

    if isinstance(error, ConfigError):
        return list(error.problems)
    if not isinstance(error, composition_errors()):
        raise error
    if isinstance(error, OSError | RecursionError) and not isinstance(error, HydraException):
        return [first_line(error)]
    composer = Composer(loader, request.config_name)
    overrides = lift_lists(request.overrides, composer.groups)
    return composer.problems(overrides, sweep=request.multirun) or [first_line(error)]
