"""Accelerated functions profiled for real: tables, files, dollars, the tracker, Ctrl-C."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import nn

import benchorch
from support.waiting import children_of, is_there

FAST = {
    **{"stopping": "fixed", "stopping.processes": 2, "stopping.calls": 5},
    **{"stopping.window_s": 0.05, "protocol.canary_tolerance_ratio": None},
    **{"protocol.pair_window_s": 0.05, "profiler": "none", "recorder": "none"},
}
PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "accelerate.md"


def test_each_graph_is_measured_on_each_backend_and_recorded(here, capsys):
    net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).eval()

    @benchorch.accelerate
    def predict(x):
        y = net(x).softmax(-1)
        torch._dynamo.graph_break()  # not print(): Ray, which other tests start, puts its own there
        return y

    options = {**FAST, "recorder": "mlflow", "recorder.uri": f"sqlite:///{here.path}/m.db"}
    options |= {"stopping.processes": 1, "protocol.pairing": "none", "executor": "inline"}
    names = ["local/eager", "local/onnxrt-cpu"]
    with benchorch.remote_profile(backends=names, directory="out", **options) as profile:
        for _ in range(4):
            predict(torch.randn(2, 16))

    report = profile.report()
    (seen,) = report.profiles
    assert [segment.graph for segment in seen.segments] == [None, 1, None]
    assert (seen.discarded, seen.segments[0].runs) == (1, 3)
    assert seen.segments[1].stays == ""
    assert list(seen.segments[1].backends) == names
    assert all(one.runs > 0 and not one.failures for one in seen.segments[1].backends.values())
    for name in names:
        parts = [one.backends[name].ms.value for one in seen.segments if one.graph]
        parts += [one.local_ms.value for one in seen.segments if not one.graph]
        assert seen.totals[name].ms.value == pytest.approx(sum(parts))
        assert seen.totals[name].usd_per_million_calls is None
    assert [b.file for b in report.graph_breaks] == [__file__]
    assert report.table() in capsys.readouterr().out

    results = here.results("out")
    assert len(results) == 2
    assert all(result["parity"]["passed"] for result in results)
    assert json.loads((here.path / "out" / "segments.json").read_text())["profiles"]
    recorded = [path.name for path in here.path.glob("mlartifacts/**/segments.*")]
    assert sorted(recorded) == ["segments.json", "segments.txt"]


@pytest.mark.slow
def test_a_machine_with_a_price_has_dollars_for_a_million_calls(here, monkeypatch):
    monkeypatch.setenv("BENCHORCH_HARDWARE_KIND", "r6i.large")
    double = benchorch.accelerate(lambda x: x @ x)
    paid = {**FAST, "executor": "process", "executor.kinds": ["r6i.large"]}
    paid["pricing.source"] = "bundled"
    paid["protocol.pin"] = False
    with benchorch.remote_profile(
        backends=["r6i.large/eager", "local/eager"], quiet=True, **paid
    ) as profile:
        for _ in range(3):
            double(torch.randn(4, 4))
    (seen,) = profile.report().profiles
    total = seen.totals["r6i.large/eager"]
    hourly = 0.126  # of the dated list, in us-east-1
    assert total.usd_per_million_calls.value == pytest.approx(total.ms.value * hourly / 3.6)
    assert "this machine is `r6i.large`" in seen.segments[1].backends["local/eager"].reason
    assert seen.totals["local/eager"].ms is None


@pytest.mark.slow
@pytest.mark.ray_cluster
@pytest.mark.timeout(560)
def test_two_kinds_of_machine_stand_in_one_report_measured_in_parallel(here):
    net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).eval()

    @benchorch.accelerate
    def predict(x):
        y = net(x)
        torch._dynamo.graph_break()
        return y.softmax(-1)

    names = ["r6i.large/torch-eager-cpu", "c7i.large/onnxrt-cpu"]
    played = {"executor": "fleet_local", "executor.most": 1, "pricing.source": "bundled"}
    patient = {"executor.wait_s": 400, "executor.start_s": 400}
    options = {**FAST, **played, **patient}
    with benchorch.remote_profile(backends=names, directory="out", quiet=True, **options) as p:
        for _ in range(4):
            predict(torch.randn(2, 16))

    report = p.report()
    (seen,) = report.profiles
    assert len(seen.segments) == 5
    for name in names:
        total = seen.totals[name]
        assert total.ms is not None, report.table()
        assert total.usd_per_million_calls is not None
    assert "rehearsed" in report.table()
    spans = {}
    for result in here.results("out"):
        spans.setdefault(result["labels"]["hardware_kind"], []).append(
            (result["started_at"], result["ended_at"])
        )
    assert {kind: len(trials) for kind, trials in spans.items()} == {"r6i.large": 2, "c7i.large": 2}
    begins = [min(begin for begin, _ in trials) for trials in spans.values()]
    ends = [max(end for _, end in trials) for trials in spans.values()]
    assert max(begins) < min(ends)


INTERRUPTED = """
import benchorch, torch
double = benchorch.accelerate(lambda x: x * 2)
with benchorch.remote_profile(backends="local/eager", directory="out", recorder="none",
                              stopping="fixed", **{"stopping.processes": 50,
                              "stopping.window_s": 5}) as profile:
    for _ in range(3):
        double(torch.ones(3))
"""


@pytest.mark.slow  # e2e/test_faults.py interrupts a run of the command line
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_every_process_and_keeps_the_segments(place, number):
    running = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        cwd=place.path,
        env=place.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 300
    while not (place.path / "out" / "plan.json").exists() or not children_of(running.pid):
        assert time.monotonic() < deadline, "no trial began"
        time.sleep(0.1)
    time.sleep(2)
    mine = children_of(running.pid)
    running.send_signal(number)
    said, complained = running.communicate(timeout=400)
    assert mine
    assert not [pid for pid in mine if is_there(pid)]
    assert ("KeyboardInterrupt" in complained) is (number is signal.SIGINT), complained
    assert "resume=out" in said
    assert "Graph #1" in said
    assert "Graph #1" in (place.path / "out" / "segments.txt").read_text()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_page_works_as_printed(place):
    (code, *_) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=place.path,
        env=place.environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Total times (compiled + uncompiled) per backend, ms:" in done.stdout
