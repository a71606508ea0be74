"""``benchorch export RUN[:TRIAL] --out DIR``: a measured model to serve without benchorch."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path

from benchorch.domain.reply import Reply
from benchorch.domain.trial import Plan
from benchorch.errors import ConfigError
from benchorch.progress import Say, silent
from benchorch.run.export.winner import choose
from benchorch.run.foreign_plan import refuse_foreign


def run(arguments: Sequence[str], say: Say = silent) -> Reply:
    """The folder that was written, and what its own check found.

    Args:
        arguments: those after ``export``.
        say: receives progress.
    """
    options = _parser().parse_args(list(arguments))
    chosen = choose(options.run, say)
    again = f"benchorch export {options.run} --out {options.out}"
    refuse_foreign(chosen.run.plan, chosen.run.directory, again)
    from benchorch.run.export.bundle import export

    out = options.out.expanduser().resolve()
    conversion = chosen.trial.labels["conversion"]
    say(f"exporting {conversion}, then running its check")
    try:
        with chdir(_planned_in(chosen.run.plan)):
            checked = export(chosen, out, say)
    except OSError as error:
        raise ConfigError([f"--out: {out} cannot be written: {error.strerror}."]) from error
    text = f"{out} holds {conversion}: {checked}\n  serve    cd {out} && uvicorn server:app"
    data = {"written": str(out), "trial_id": chosen.trial.trial_id, "check": checked}
    if options.register:
        from benchorch.cli.commands.record import recorder_of
        from benchorch.run.export.registration import register

        run, trial_id = chosen.run, chosen.trial.trial_id
        recorder = recorder_of(run.directory, run.plan, None)
        version = register(recorder, run.directory, trial_id, out, options.register)
        text += f"\n  MLflow   registered as {options.register}, version {version}"
        data["version"] = version
    return Reply(text=text, data=data)


def _planned_in(plan: Plan) -> Path:
    """Where relative paths of a plan start; here where this machine has no such folder."""
    place = Path(str(plan.session.get("cwd", ".")))
    return place if place.is_dir() else Path.cwd()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="benchorch export",
        description="A measured model to serve without benchorch: artifact, loader, certificate, "
        "server, Dockerfile.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "run",
        metavar="RUN[:TRIAL]",
        help="the run's folder or plan id; a trial by its id or its name in the table, else the "
        "fastest one",
    )
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="a new folder")
    parser.add_argument(
        "--register", metavar="NAME", help="register it in MLflow as a version of this model"
    )
    parser.add_argument("--json", action="store_true", help="for programs")
    return parser
