"""An exported model is as fast as it was measured, in an environment without benchorch."""

import json
import re
import statistics
import subprocess

import pytest

from support.bare_python import bare_python

PROCESSES = 7
BUSY = 0.05
"""The share of the time in which a processor was waited for, above which times compare nothing."""
WORDS = (
    *("model=mlp", "conversion=[eager,onnxruntime]", "workload.batch_size=32", "hardware=local"),
    *("stopping=fixed", f"stopping.processes={PROCESSES}", "profiler=none", "recorder=none"),
    *("control=false", "hydra.run.dir=out"),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory, make_place):
    place = make_place(tmp_path_factory.mktemp("exported"))
    place.run(*WORDS)
    return place


def waited(place):
    """The largest share of a process's time that it waited for a processor."""
    processes = [one for result in place.results("out") for one in result["processes"]]
    return max(one["conditions"]["waited_ratio"] or 0.0 for one in processes)


@pytest.mark.slow  # and of a quiet machine alone: it compares times of some minutes
@pytest.mark.parametrize("name", ["onnxruntime", "eager"])
def test_new_processes_are_within_the_interval_of_the_measured_ones(run, tmp_path, name):
    if (share := waited(run)) > BUSY:
        pytest.skip(f"BUSY: a processor was waited for {share:.0%} of the time, so times differ")
    run.run("export", f"out:{name}", "--output", str(tmp_path / name))
    expected = json.loads((tmp_path / name / "certificate.json").read_text())["one_process_ms"]
    if expected is None:
        pytest.skip("UNKNOWN: the measured processes are further apart than an interval may be")
    python = bare_python(tmp_path / "venv")
    printed = [
        subprocess.run(
            [python, "check.py"], cwd=tmp_path / name, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(PROCESSES)
    ]
    found = [float(re.search(r"median ([\d.e-]+) ms a call", text)[1]) for text in printed]
    median = statistics.median(found)  # of one process 95 % are within, of their median nearly all
    assert expected["low"] <= median <= expected["high"], (expected, found)
