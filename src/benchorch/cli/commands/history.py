"""``benchorch history``: every trial's figure over time and commits, as a site of plain files."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from benchorch.cli.command import command, run_argument
from benchorch.cli.commands.comparison_arguments import METRIC, REFERENCE, metric_names
from benchorch.cli.terminal import Terminal, unlinked, writing
from benchorch.domain.codec import Json
from benchorch.domain.reply import Reply
from benchorch.errors import ConfigError
from benchorch.formatting import plural
from benchorch.results.compare.stored_run import StoredRun
from benchorch.results.history.series import MetricHistory

_SITE = Path("history")


@command(
    "history",
    help=f"""Show each trial's figure over time and commits, with its shifts, as a site.

    RUN is {REFERENCE}, or a folder of those; without any, the runs of this machine. The site is
    a folder (--output DIR, "history" by default) with index.html and, in runs/, each run as
    report --json writes it. What is there already stays: add the newest run, publish the folder.
    """,
    writes_output=True,
)
@run_argument("runs", "[RUN ...]", nargs=-1)
@METRIC
@click.option(
    "--across",
    multiple=True,
    type=click.Choice(["host"]),
    help="treat machines of one kind as one, such as CI runners",
)
@click.option("--experiment", metavar="NAME", help="also the runs of this MLflow experiment")
@click.option("--uri", metavar="URI", help="MLflow's address (sqlite:///mlflow.db)")
def run(
    terminal: Terminal,
    runs: Sequence[str],
    metric: Sequence[str],
    across: Sequence[str],
    experiment: str | None,
    uri: str | None,
) -> Reply:
    """The site's page, and every shift for people and programs."""
    from benchorch.results.history.collect import collect, is_folder_of_runs, started_at
    from benchorch.results.history.series import series_of
    from benchorch.results.report.history_page import RUNS, changes_of, sentence_of, write_site

    names = metric_names(metric)
    site = terminal.output or unlinked(_SITE)
    kept = [str(site / RUNS)] if is_folder_of_runs(str(site / RUNS)) else []
    known = collect(kept, terminal.say) if kept else []
    if experiment is not None:
        recorded = _recorded(experiment, uri, terminal)
        known = [*{run.plan_id: run for run in (*known, *recorded)}.values()]
    found = collect(runs, terminal.say, known) if runs or experiment is None else known
    found.sort(key=started_at)
    if not found:
        if experiment is not None:
            raise ConfigError([f"The experiment {experiment!r} has no run that ended."])
        raise ConfigError(["There is no run on this machine: name some, or a folder of them."])
    series = series_of(found, names, across)
    with writing(site):
        page = write_site(site, found, series)
    lines = [f"{one.when}  {one.name}  {one.text}  on {one.machine}" for one in changes_of(series)]
    text = "\n".join([f"{page} holds {plural(len(found), 'run')}. {sentence_of(series)}", *lines])
    data: Json = {"page": str(page), "runs": len(found), "series": [_data(one) for one in series]}
    return Reply(text=text, data=data)


def _recorded(experiment: str, uri: str | None, terminal: Terminal) -> list[StoredRun]:
    """The runs of an MLflow experiment."""
    from benchorch.recorders.mlflow import Mlflow
    from benchorch.results.history.collect import collect

    named = Mlflow(experiment=experiment) if uri is None else Mlflow(experiment=experiment, uri=uri)
    with TemporaryDirectory() as folder:
        terminal.say(f"reading the runs of {experiment!r} from MLflow")
        places = named.fetch(Path(folder))
        return collect([str(place) for place in places], terminal.say) if places else []


def _data(series: MetricHistory) -> Json:
    """One history for programs."""
    return {
        "name": series.name,
        "metric": series.metric,
        "machine": series.machine,
        "points": [
            {
                "plan_id": point.plan_id,
                "started_at": point.started_at,
                "commit": point.commit,
                "value": None if point.estimate is None else point.estimate.value,
                "low": None if point.estimate is None else point.estimate.low,
                "high": None if point.estimate is None else point.estimate.high,
                "problem": point.problem,
            }
            for point in series.points
        ],
        "shifts": [
            {
                "plan_id": series.points[level.first].plan_id,
                "ratio": level.shift.ratio.value,
                "low": level.shift.ratio.low,
                "high": level.shift.ratio.high,
                "verdict": series.word(level),
            }
            for level in series.shifts
            if level.shift is not None
        ],
    }
