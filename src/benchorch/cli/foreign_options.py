"""Options of other tools, and what stands for each of them here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple


class Foreign(NamedTuple):
    """An option of another tool.

    Attributes:
        values: how many words it takes.
        meant: the words in its place, with ``{0}`` for its first value; empty drops it.
        why: what is different here, as the end of a sentence.
        command: that the line becomes, with nothing else; empty for the command as it is.
        part: a pattern whose group is what counts of each value.
    """

    values: int
    meant: str
    why: str
    command: str = ""
    part: str = "(.*)"


_STORED = Foreign(0, "", "is not needed: every run is stored below runs/.")
_FILE = Foreign(1, "--output {0}", "is --output here; the suffix chooses the format.")
_WARM = Foreign(1, "", "is not needed: calls count once they are steady.")
_ALONE = Foreign(1, "", "has no counterpart: nothing runs beside the model.")
_ALL = Foreign(0, "", "is not needed: a failed trial leaves the others alone.")
_CALLS = Foreign(1, "stopping=fixed stopping.calls={0}", "is stopping.calls of stopping=fixed.")
_RUNS = Foreign(1, "stopping=fixed stopping.processes={0}", "is stopping.processes here.")
_RECIPE = Foreign(1, "{0}", "has no counterpart: a recipe is its file.", part=r"(.*\.ya?ml)$")
_USERS = Foreign(1, "scenario=server scenario.servers={0}", "are calls side by side here.")
_PARAMETER = Foreign(2, "-m {0}={1}", "is a key with several values, crossed by -m.")

FOREIGN: Mapping[str, Foreign] = {
    # pytest and pytest-benchmark
    "--benchmark-only": Foreign(0, "", "is not needed: a run does nothing else."),
    **dict.fromkeys(("--benchmark-autosave", "--benchmark-save-data"), _STORED),
    **dict.fromkeys(("--benchmark-json", "--benchmark-histogram"), _FILE),
    **dict.fromkeys(("--html", "--csv", "--md", "--out", "--outfile", "--output-file"), _FILE),
    **dict.fromkeys(("--benchmark-warmup", "--benchmark-warmup-iterations"), _WARM),
    **dict.fromkeys(
        ("--fail", "--benchmark-compare-fail", "--benchmark-compare"),
        Foreign(
            1,
            "--baseline last~1 --candidate last --max-regression 5%",
            "is the command gate here.",
            "gate",
        ),
    ),
    "--benchmark-save": Foreign(1, "name={0}", "is name=NAME here."),
    **dict.fromkeys(("--benchmark-min-rounds", "--benchmark-max-rounds"), _RUNS),
    "--maxfail": Foreign(1, "-x", "is -x here: the first failure ends a run."),
    "-k": Foreign(1, "--only *{0}*", "is --only PATTERN here."),
    **dict.fromkeys(("--trial", "--filter"), Foreign(1, "--only {0}", "is --only here.")),
    **dict.fromkeys(
        ("--lf", "--last-failed"),
        Foreign(0, "last --failed", "is the command rerun RUN --failed here.", "rerun"),
    ),
    # hyperfine
    **dict.fromkeys(("-w", "--warmup"), _WARM),
    **dict.fromkeys(("-r", "--runs"), _RUNS),
    **dict.fromkeys(("-L", "--parameter-list"), _PARAMETER),
    "--parameter-scan": Foreign(3, "-m {0}={1},{2}", "is a key with several values here."),
    **dict.fromkeys(("--export-json", "--export-csv", "--export-markdown"), _FILE),
    **dict.fromkeys(("--prepare", "-s", "--setup", "--cleanup"), _ALONE),
    "--ignore-failure": _ALL,
    **dict.fromkeys(("-n", "--command-name"), Foreign(1, "name={0}", "is name=NAME here.")),
    # trtexec
    "--onnx": Foreign(1, "{0}", "is a file of the command script here.", "script"),
    "--fp16": Foreign(0, "conversion=[eager,fp16]", "is a conversion here."),
    "--bf16": Foreign(0, "conversion=[eager,bf16]", "is a conversion here."),
    "--int8": Foreign(0, "conversion=[eager,pt2e_int8]", "is a conversion here."),
    "--useCudaGraph": Foreign(0, "conversion=[eager,cudagraphs]", "is a conversion here."),
    "--loadEngine": Foreign(1, "conversion=[eager,tensorrt]", "is built here, from the model."),
    "--saveEngine": _STORED,
    **dict.fromkeys(("--exportTimes", "--exportProfile", "--exportOutput"), _FILE),
    **dict.fromkeys(
        ("--shapes", "--optShapes"),
        Foreign(1, "workload.batch_size={0}", "are the workload's sizes here.", part=r":(\d+)"),
    ),
    "--iterations": _CALLS,
    "--avgRuns": _CALLS,
    "--warmUp": _WARM,
    "--duration": Foreign(1, "stopping.max_window_s={0}", "is stopping.max_window_s here."),
    # locust, and options that name a file
    **dict.fromkeys(("--config", "--config-file", "--recipe", "-f"), _RECIPE),
    **dict.fromkeys(("-u", "--users"), _USERS),
    "--spawn-rate": Foreign(1, "", "has no counterpart: the rate of queries does not ramp up."),
    **dict.fromkeys(
        ("-t", "--run-time"), Foreign(1, "scenario.duration_s={0}", "is scenario.duration_s here.")
    ),
    "--headless": Foreign(0, "", "is not needed: nothing opens."),
    # optimum-benchmark and olive
    "--device": Foreign(1, "device={0}", "is a machine here."),
    **dict.fromkeys(
        ("--provider", "--backend"), Foreign(1, "backend={0}", "is a conversion here.")
    ),
    # mlflow and optimum-cli
    "-P": Foreign(1, "{0}", "is not needed: a key is set by KEY=VALUE."),
    "-p": Foreign(1, "--port {0}", "is --port here."),
    "--backend-store-uri": Foreign(1, "--uri {0}", "is --uri here."),
    "--host": Foreign(1, "", "is not needed: only this machine is served."),
    "--experiment-id": Foreign(1, "", "has no counterpart: leave it out."),
    **dict.fromkeys(("-e", "--entry-point"), Foreign(1, "", "has no counterpart: leave it out.")),
    "--experiment-name": Foreign(1, "recorder.experiment={0}", "is recorder.experiment here."),
    "--task": Foreign(1, "", "is not needed: the model's class is its task."),
}


def in_place_of(name: str, value: str, rest: list[str]) -> list[str]:
    """The words that stand for another tool's option; its values are taken from the rest."""
    count = FOREIGN[name].values
    values = [value] if value and count else []
    missing = count - len(values)
    values += rest[:missing]
    del rest[:missing]
    found = [re.search(FOREIGN[name].part, value) for value in values]
    parts = [one[1] for one in found if one]
    whole = len(parts) == count
    return [word.format(*parts) for word in FOREIGN[name].meant.split()] if whole else []
