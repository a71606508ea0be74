"""``benchorch export RUN[:TRIAL] --output DIR``: a measured model to serve without benchorch."""

import shlex
from contextlib import chdir
from pathlib import Path

import click

from benchorch.cli.command import command, run_argument
from benchorch.cli.terminal import Terminal, writing
from benchorch.domain.reply import Reply
from benchorch.domain.trial import Plan
from benchorch.errors import ConfigError, Correction, Problem
from benchorch.files import expanded
from benchorch.formatting import shell_word
from benchorch.run.export.winner import choose
from benchorch.run.foreign_plan import refuse_foreign


@command(
    "export",
    help="""A measured model to serve without benchorch: artifact, loader, certificate, server,
    Dockerfile.

    RUN is the run's folder or plan id; TRIAL its id or its name in the table, else the one with
    the best figure. --output DIR is a new folder.
    """,
    former={"--out": "--output"},
    writes_output=True,
)
@run_argument(metavar="RUN[:TRIAL]")
@click.option("--register", metavar="NAME", help="make it a version of this model in MLflow")
def run(terminal: Terminal, run: str, register: str | None) -> Reply:
    """The folder that was written, and what its own check found."""
    if terminal.output is None:
        raise ConfigError(
            [f"export: name a new folder: benchorch export {shell_word(run)} --output DIR"]
        )
    _check_folder(terminal.output)
    chosen = choose(run, terminal.say)
    again = shlex.join(["benchorch", "export", run, "--output", str(terminal.output)])
    refuse_foreign(chosen.run.plan, chosen.run.directory, again)
    from benchorch.run.export.bundle import export

    out = expanded(terminal.output).resolve()
    conversion = chosen.trial.labels["conversion"]
    terminal.say(f"exporting {conversion}, then running its check")
    with writing(out), chdir(_planned_in(chosen.run.plan)):
        checked = export(chosen, out, terminal.say)
    serve = f"cd {shell_word(out)} && pip install -r requirements.txt && uvicorn server:app"
    text = f"{out} holds {conversion}: {checked}\n  serve    {serve}"
    data = {"written": str(out), "trial_id": chosen.trial.trial_id, "check": checked}
    if register is not None:
        from benchorch.cli.commands.record import recorder_of
        from benchorch.run.export import registration

        ran, trial_id = chosen.run, chosen.trial.trial_id
        recorder = recorder_of(ran.directory, ran.plan, None)
        version = registration.register(recorder, ran.directory, trial_id, out, register)
        text += f"\n  MLflow   registered as {register}, version {version}"
        data["version"] = version
    return Reply(text=text, data=data)


def _check_folder(out: Path) -> None:
    """ConfigError where the folder holds something already, with one that does not."""
    if not _holds_something(out):
        return
    names = (out.with_name(f"{out.name}{number}") for number in range(1, 1000))
    free = next((name for name in names if not _holds_something(name)), None)
    correction = None if free is None else Correction(typed=str(out), meant=str(free))
    raise ConfigError([Problem(f"--output: {out} is not empty; name a new folder.", correction)])


def _holds_something(path: Path) -> bool:
    place = path.expanduser()
    return place.exists() and not (place.is_dir() and not any(place.iterdir()))


def _planned_in(plan: Plan) -> Path:
    """Where relative paths of a plan start; here where this machine has no such folder."""
    place = Path(str(plan.session.get("cwd", ".")))
    return place if place.is_dir() else Path.cwd()
