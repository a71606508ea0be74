"""Draw what one trial's numbers rest on, from a run's stored observations.

    python scripts/draw_measurement.py RUN CONVERSION docs/images/measurement.svg

Three panels: one process from its first block on, the medians of all processes with the interval
that follows from them, and each process's ratio to the baseline, alternated inside the process
against what the two trials' processes in order would have given.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np

from benchorch.domain.measurement import ProcessRecord
from benchorch.domain.result import TrialResult
from benchorch.journal import reader
from benchorch.results.metrics.latency import median_ms, queries_ms
from benchorch.results.metrics.summary import summarise_all
from benchorch.stats.pairs import log_ratios

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, CALM, LOUD = "#333333", "#3b6ea5", "#c8553d"


def main() -> None:
    """Read the run, draw the trial of one conversion, write an SVG."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("conversion")
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    results = {result.trial_id: result for result in reader.read_results(arguments.run)}
    trial = next(r for r in results.values() if r.labels["conversion"] == arguments.conversion)
    draw(trial, results, arguments.out)


def draw(trial: TrialResult, results: dict[str, TrialResult], out: Path) -> None:
    """The three panels of one trial that has a baseline."""
    # The same data give the same file, and text stays text.
    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "benchorch", "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
    _one_process(panels[0], trial.valid[0])
    summary = summarise_all(results)[trial.trial_id]
    estimate = summary.metrics["latency_ms/p50"]
    _processes(panels[1], median_ms(trial.valid), estimate.low, estimate.high)
    assert trial.baseline_id is not None
    _ratios(panels[2], trial, results[trial.baseline_id])
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, metadata={"Date": None})


def _one_process(panel: Axes, process: ProcessRecord) -> None:
    observed = process.observations
    at_s = np.asarray(observed.started_ns) / 1e9
    took_ms = np.asarray(observed.durations_ns) / observed.queries_per_block / 1e6
    preempted = np.asarray(observed.preempted, dtype=bool)
    panel.plot(at_s[~preempted], took_ms[~preempted], ".", ms=2, color=CALM, label="undisturbed")
    panel.plot(at_s[preempted], took_ms[preempted], ".", ms=3, color=LOUD, label="interrupted")
    if process.steady_from is not None:
        panel.axvline(at_s[process.steady_from], color=INK, lw=0.8, ls="--", label="steady from")
    panel.axhline(float(np.median(queries_ms(process))), color=INK, lw=0.8, label="median")
    panel.set_ylim(0, float(np.quantile(took_ms, 0.98)) * 1.4)
    _label(panel, "one process", "seconds since its first call", "ms a call")
    panel.legend(loc="upper right", frameon=False, fontsize=7)


def _processes(panel: Axes, medians: list[float], low: float | None, high: float | None) -> None:
    panel.plot(range(1, len(medians) + 1), medians, "o", ms=4, color=CALM, label="its median")
    if low is not None and high is not None:
        panel.axhspan(low, high, color=CALM, alpha=0.2, label="95 % interval")
    panel.axhline(float(np.median(medians)), color=INK, lw=0.8, label="the headline")
    _label(panel, "all processes", "process", "ms a call")
    panel.legend(loc="best", frameon=False, fontsize=7)


def _ratios(panel: Axes, trial: TrialResult, baseline: TrialResult) -> None:
    paired = np.exp(log_ratios(trial.valid))
    alone = list(zip(median_ms(baseline.valid), median_ms(trial.valid), strict=False))
    in_order = [theirs / ours for theirs, ours in alone]
    panel.plot(range(1, len(in_order) + 1), in_order, "x", ms=5, color=LOUD, label="one by one")
    panel.plot(range(1, len(paired) + 1), paired, "o", ms=4, color=CALM, label="alternated")
    panel.axhline(math.exp(float(np.mean(np.log(paired)))), color=INK, lw=0.8)
    _label(panel, "against the baseline", "process", "times as fast")
    panel.legend(loc="best", frameon=False, fontsize=7)


def _label(panel: Axes, title: str, along: str, up: str) -> None:
    panel.set_title(title, fontsize=10)
    panel.set_xlabel(along)
    panel.set_ylabel(up)
    panel.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main()
