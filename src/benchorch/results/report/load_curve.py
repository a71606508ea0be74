"""The throughput-latency curve of a trial as a Markdown table; the run's page draws it."""

from collections.abc import Sequence

from benchorch.domain.estimate import Estimate
from benchorch.domain.measurement import ProcessRecord
from benchorch.formatting import interval_text
from benchorch.results.metrics.load_curve import LoadPoint, load_points
from benchorch.units import significant

HEADERS = ("rate /s", "of capacity", "achieved /s", "p50 ms [95 %]", "p99 ms [95 %]", "queries")


def load_files(processes: Sequence[ProcessRecord]) -> dict[str, str]:
    """A trial's curve as files, each by its name; none where fewer than two rates were offered."""
    loads = [load for process in processes for load in process.observations.loads]
    points = load_points(processes) if loads else ()
    return {"load.md": load_table(points)} if len(points) > 1 else {}


def load_table(points: Sequence[LoadPoint]) -> str:
    """The points as a Markdown table; empty without any."""
    if not points:
        return ""
    rows = [HEADERS, *map(_cells, points)]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|" + "---:|" * len(HEADERS), *lines[1:]]) + "\n"


def _cells(point: LoadPoint) -> tuple[str, ...]:
    share = point.utilisation_ratio
    return (
        significant(point.rate_per_s),
        "–" if share is None else f"{100 * share:.3g} %",
        "–" if point.achieved_per_s is None else significant(point.achieved_per_s),
        "unstable" if point.unstable else _interval_text(point.p50),
        "unstable" if point.unstable else _interval_text(point.p99),
        str(point.queries),
    )


def _interval_text(estimate: Estimate | None) -> str:
    return "–" if estimate is None else interval_text(estimate)
