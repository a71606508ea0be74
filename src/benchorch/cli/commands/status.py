"""``benchorch status``: running sweeps, their progress and cost, and the next command."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

import click

from benchorch.cli.command import command, run_argument
from benchorch.cli.commands.remote_head import HeadCommand
from benchorch.cli.commands.sweep_status import SweepState, SweepStatus, read_sweep
from benchorch.cli.terminal import Terminal
from benchorch.domain.codec import Json
from benchorch.domain.reply import Reply
from benchorch.errors import ConfigError
from benchorch.formatting import plural
from benchorch.journal import run_directory
from benchorch.journal.lock import LOG
from benchorch.journal.registry import find_invocation, newest_invocations
from benchorch.results.report.console_table import table_text
from benchorch.results.report.plan_text import names_of
from benchorch.run.sidecar import schedule_idle
from benchorch.units import format_seconds

A_RUN = "a run's directory or its name, its plan id, its MLflow run id, or `last`"
_RECENT = 10
_LOOK_S = 3.0
_BUSY_SHOWN = 8
_MARKS_SHOWN = 5


@command(
    "status",
    cls=HeadCommand,
    help=f"""Running sweeps, their progress and cost, and the next command.

    RUN is {A_RUN}; without it the recent ones.
    """,
)
@run_argument(metavar="[RUN]")
@click.option("--watch", is_flag=True, help="print each new state until the run has ended")
def run(terminal: Terminal, run: str | None, watch: bool) -> Reply:
    """One sweep, or the recent ones; with ``--watch`` each state until it has ended."""
    if run is None and not watch:
        return _recent()
    run = run or "last"
    directory = find_invocation(run, "status")
    if watch:
        _watch(directory, terminal.show, as_json=terminal.as_json)
    return _reply(read_sweep(directory))


def _watch(directory: Path, say: Callable[[str], None], *, as_json: bool) -> None:
    """Print each new state until the run has ended."""
    schedule_idle()  # measurements on this machine come first
    last = ""
    while (sweep := read_sweep(directory)).running:
        reply = _reply(sweep)
        text = json.dumps(reply.data) if as_json else reply.text
        if text != last:
            say(text if as_json else f"{text}\n")
            last = text
        time.sleep(_LOOK_S)


def _reply(sweep: SweepStatus) -> Reply:
    lines, data = _lines(sweep), facts(sweep)
    sent = None if sweep.running or not sweep.left else _on_a_stack(sweep.directory)
    if sent is not None:
        lines.insert(1, f"  stack     {sent}")
    return Reply(text="\n".join(lines), data={**data, "stack": sent})


def _on_a_stack(directory: Path) -> str | None:
    """What a sweep that this run sent does on its stack, or None where none goes on."""
    from benchorch.executors.stack import left_running
    from benchorch.interfaces.stack import StackError

    try:
        sweep = left_running(directory)
        if sweep is None:
            return None
        done, spending = len(sweep.new_entries()), sweep.spending(sweep.status())
    except StackError as error:
        return f"unknown: {error}"
    cost = f", {spending.text}" if spending else ""
    return (
        f"sweep {sweep.name} continues on stack {sweep.stack.facts.name}: "
        f"{plural(done, 'trial')} done{cost}; resume follows it"
    )


def facts(sweep: SweepStatus) -> Mapping[str, Json]:
    """A sweep for programs."""
    coordinator = sweep.coordinator
    return {
        "plan_id": sweep.plan.plan_id,
        "name": sweep.plan.name,
        "directory": str(sweep.directory.resolve()),
        "state": sweep.state,
        "trials": len(sweep.plan.trials),
        "done": sweep.done,
        "failed": sweep.failed,
        "left": len(sweep.left),
        "skips": len(sweep.plan.skips),
        "running": {k: {"since": d.since, "doing": d.text} for k, d in sweep.busy.items()},
        "left_s": sweep.left_s,
        "cost_usd": sweep.usd,
        "machines": _machines(sweep),
        "pid": coordinator.pid if coordinator and sweep.running else None,
        "host": coordinator.host if coordinator else None,
        "started_at": coordinator.started_at if coordinator else None,
        "ended_at": coordinator.ended_at if coordinator else None,
        "marks": list(sweep.marks),
    }


def _lines(sweep: SweepStatus) -> list[str]:
    plan = sweep.plan
    lines = [f"{plan.name} plan {plan.plan_id}: {sweep.state}, {_counts(sweep)}"]
    lines += [f"  now       {text}" for text in _busy(sweep)]
    if sweep.left_s is not None:
        lines.append(f"  left      about {format_seconds(sweep.left_s)}")
    if sweep.usd is not None:
        listed = ", ".join(f"{kind} {count}" for kind, count in _machines(sweep).items())
        machines = f"; machines: {listed}" if listed else ""
        lines.append(f"  cost      about {sweep.usd:.4f} USD so far{machines}")
    if sweep.coordinator is not None and sweep.running:
        lines.append(f"  run by    process {sweep.coordinator.pid} on {sweep.coordinator.host}")
    lines += [f"  mark      {mark}" for mark in sweep.marks[:_MARKS_SHOWN]]
    if len(sweep.marks) > _MARKS_SHOWN:
        lines.append(f"  mark      and {len(sweep.marks) - _MARKS_SHOWN} more")
    lines.append(f"  results   {sweep.directory}")
    return lines + [f"  {title:9} python -m benchorch {words}" for title, words in _next(sweep)]


def _machines(sweep: SweepStatus) -> Mapping[str, int]:
    """The launched machines that are there now, by kind."""
    spending = sweep.coordinator.spending if sweep.running and sweep.coordinator else None
    return dict(sorted(spending.machines.items())) if spending else {}


def _counts(sweep: SweepStatus) -> str:
    failed = f" ({sweep.failed} failed)" if sweep.failed else ""
    skipped = f", {plural(len(sweep.plan.skips), 'skip')}" if sweep.plan.skips else ""
    return f"{sweep.done} of {plural(len(sweep.plan.trials), 'trial')} done{failed}{skipped}"


def _busy(sweep: SweepStatus) -> Sequence[str]:
    names = names_of(sweep.plan.trials)
    lines = [f"{names.get(k, k)}: {status.text}" for k, status in sweep.busy.items()]
    more = len(lines) - _BUSY_SHOWN
    return [*lines[:_BUSY_SHOWN], *([f"and {more} more"] if more > 0 else [])]


def _next(sweep: SweepStatus) -> Sequence[tuple[str, str]]:
    """Titles and commands that make sense now."""
    reference = sweep.plan.plan_id
    if sweep.state is SweepState.ENDED:
        return [("report", f"report {reference}")]
    if not sweep.running:
        return [("resume", f"resume {reference}")]
    follow = [("follow", f"logs {reference} --follow")] if (sweep.directory / LOG).exists() else []
    return [*follow, ("end", f"cancel {reference}")]


def _recent() -> Reply:
    directories = [d for d in newest_invocations(_RECENT) if (d / run_directory.PLAN).exists()]
    sweeps = [sweep for sweep in map(_readable, directories) if sweep is not None]
    if not sweeps:
        return Reply(text="No run has started on this machine yet.", data=[])
    rows: list[tuple[str, ...]] = [("plan", "name", "state", "done", "failed", "left", "directory")]
    rows += [_row(sweep) for sweep in sweeps]
    return Reply(text=table_text(rows), data=cast(Json, [facts(sweep) for sweep in sweeps]))


def _readable(directory: Path) -> SweepStatus | None:
    """The sweep, or None for a damaged plan, which must not hide other runs."""
    try:
        return read_sweep(directory)
    except ConfigError:
        return None


def _row(sweep: SweepStatus) -> tuple[str, ...]:
    counts = (sweep.done, sweep.failed, len(sweep.left))
    return (
        sweep.plan.plan_id,
        sweep.plan.name,
        str(sweep.state),
        *map(str, counts),
        str(sweep.directory),
    )
