"""The page of a run in its own folder, written anew while it goes on."""

from pathlib import Path

from benchorch.files import write_text
from benchorch.recorders.mlflow_links import mlflow_links
from benchorch.results.compare.load_run import stored
from benchorch.results.compare.stored_run import RunResults

PAGE = "report.html"


def write_run_page(run: RunResults) -> Path:
    """Write the page of a run, as far as it is, into the run's folder; returns its path.

    Of a run that goes on the page asks the browser to read it again.
    """
    from benchorch.results.report.html_page import page
    from benchorch.results.report.prices import prices_of
    from benchorch.results.report.rows import rows_of
    from benchorch.results.report.series_figures import series_figures

    one = stored(run, run.plan.plan_id, each_process=False)
    prices = prices_of([one])
    text = page(
        [one],
        rows_of([one], prices),
        prices,
        series=series_figures(run.results.values()),
        links=links_of(run.directory),
        refreshes=run.running,
    )
    path = run.directory / PAGE
    write_text(path, text)
    return path


def links_of(directory: Path) -> dict[str, list[tuple[str, str]]]:
    """Each trial's further pages, by its id: critical path, log, MLflow run; relative to the run.

    The id that is empty is the run's own.
    """
    recorded = mlflow_links(directory)
    found: dict[str, list[tuple[str, str]]] = {"": []}
    for folder in sorted((directory / "trials").glob("*")):
        files = {"critical path": "critical_path/report.html", "log": "log.txt"}
        found[folder.name] = [
            (name, f"trials/{folder.name}/{file}")
            for name, file in files.items()
            if (folder / file).is_file()
        ]
        if folder.name in recorded.trials:
            found[folder.name].append(("MLflow run", recorded.trials[folder.name]))
    if recorded.parent:
        found[""] += [("MLflow", recorded.parent), ("MLflow's table", recorded.table)]
    return found
