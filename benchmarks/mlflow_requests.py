"""What recording a trial in MLflow costs, as ratios against the least it can cost.

The least is three requests: create a run, one batch, end it. Against a real server over HTTP and
SQLite, in interleaved rounds, each trial with 40 metrics, 40 params and 20 tags:

    three requests      MLflow's client, nothing else
    recorder            the same content through `Mlflow.record`, no files
    replay              from the journal on disk: read, summarise, record, one file of observations
    one by one          the same, each metric, param and observation in a request of its own

Run: python benchmarks/mlflow_requests.py [ROUNDS [TRIALS]]
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from _harness import interleave, ratio_row, table

from benchorch.cli.commands import ui
from benchorch.domain.estimate import Estimate, Summary
from benchorch.domain.measurement import Calibration, Observations, ProcessRecord
from benchorch.domain.result import Outcome, TrialResult
from benchorch.domain.trial import Plan, Trial
from benchorch.journal import run_directory
from benchorch.recorders.mlflow import Mlflow, create_store
from benchorch.results.metrics.summary import TrialFindings
from benchorch.run.record import replay

METRICS, PARAMS, TAGS, OBSERVATIONS = 40, 40, 20, 300


def summary() -> Summary:
    estimate = Estimate(
        value=2.0, low=None, high=None, level_ratio=0.95, n=5, unit="ms", method="median"
    )
    metrics = {f"latency_ms/p{i}": estimate for i in range(METRICS)}
    return Summary(metrics=metrics, speedup=None, steady=True)


def findings(*_: object) -> TrialFindings:
    return TrialFindings(summary=summary(), asked=None, baseline_id=None)


def plan_of(name: str, count: int) -> Plan:
    spec = {f"key{i}": i for i in range(PARAMS)}
    trials = tuple(Trial(trial_id=f"{i:016x}", labels={}, spec=spec) for i in range(count))
    return Plan(plan_id=name, name=name, trials=trials, skips=(), session={})


def result_of(trial: Trial) -> TrialResult:
    observed = Observations(
        durations_ns=tuple(range(1, OBSERVATIONS + 1)),
        started_ns=tuple(range(OBSERVATIONS)),
        calls_per_block=1,
        items_per_call=1,
    )
    process = ProcessRecord(
        load_s=0,
        first_call_s=0,
        observations=observed,
        steady_from=0,
        calibration=Calibration(pair_cost_ns=1, step_ns=1),
        peak_rss_bytes=1,
        facts={},
    )
    return TrialResult(
        trial_id=trial.trial_id,
        labels={},
        outcome=Outcome.OK,
        processes=(process,),
        environment={f"fact{i}": i for i in range(TAGS)},
    )


def three_requests(uri: str, plan: Plan, folder: Path) -> Callable[[], object]:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param

    client = MlflowClient(tracking_uri=uri)
    experiment_id = client.create_experiment(f"raw-{plan.plan_id}")

    def work() -> None:
        for _ in plan.trials:
            run = client.create_run(experiment_id, tags={f"t{i}": "x" for i in range(TAGS)})
            metrics = [Metric(f"m/{i}", 2.0, 0, 0) for i in range(METRICS)]
            params = [Param(f"p{i}", "x") for i in range(PARAMS)]
            client.log_batch(run.info.run_id, metrics, params)
            client.set_terminated(run.info.run_id)

    return work


def recorder(uri: str, plan: Plan, folder: Path) -> Callable[[], object]:
    own = Mlflow(uri=uri, experiment=f"own-{plan.plan_id}")
    own.open(plan, folder)
    return lambda: [
        own.record(trial, result_of(trial), summary(), folder / "empty") for trial in plan.trials
    ]


def replayed(uri: str, plan: Plan, folder: Path) -> Callable[[], object]:
    run_directory.write_plan(folder, plan)
    for trial in plan.trials:
        run_directory.append_result(folder, result_of(trial), {})
    own = Mlflow(uri=uri, experiment=f"replay-{plan.plan_id}")
    return lambda: replay(folder, own, derive=findings)


def one_by_one(uri: str, plan: Plan, folder: Path) -> Callable[[], object]:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    experiment_id = client.create_experiment(f"single-{plan.plan_id}")

    def work() -> None:
        run = client.create_run(experiment_id, tags={f"t{i}": "x" for i in range(TAGS)})
        for i in range(METRICS):
            client.log_metric(run.info.run_id, f"m/{i}", 2.0)
        for i in range(PARAMS):
            client.log_param(run.info.run_id, f"p{i}", "x")
        for i in range(OBSERVATIONS):
            client.log_metric(run.info.run_id, "observed", 2.0, step=i)
        client.set_terminated(run.info.run_id)

    return work


WAYS = {
    "three requests": three_requests,
    "recorder": recorder,
    "replay": replayed,
    "one by one": one_by_one,
}


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """MLflow's server as `benchorch ui` starts it."""
    store = f"sqlite:///{folder / 'mlflow.db'}"
    create_store(store)
    launch = ui.prepare(5500, store)
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            launch.argv,
            env=dict(launch.environment),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        while not _answers(launch.url):
            if process.poll() is not None:
                raise SystemExit((folder / "server.log").read_text())
            time.sleep(0.2)
        yield launch.url
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=2):
            return True
    except (urllib.error.URLError, OSError):
        return False


def side(way: str, uri: str, scratch: Path, count: int) -> Callable[[], tuple[float, float]]:
    """Wall and own CPU seconds a trial; one by one is so slow that a single trial is enough."""
    names = itertools.count()
    count = 1 if way == "one by one" else count

    def once() -> tuple[float, float]:
        folder = scratch / f"{way.replace(' ', '-')}-{next(names)}"
        (folder / "empty").mkdir(parents=True)
        work = WAYS[way](uri, plan_of(folder.name, count), folder)
        started, cpu_before = time.perf_counter(), time.process_time()
        work()
        return (
            (time.perf_counter() - started) / count,
            (time.process_time() - cpu_before) / count,
        )

    return once


def main(rounds: int, trials: int) -> None:
    os.environ.update({"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"})
    os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"
    with tempfile.TemporaryDirectory() as scratch, server(Path(scratch)) as uri:
        seen = interleave({way: side(way, uri, Path(scratch), trials) for way in WAYS}, rounds)
    floor = "three requests"
    rows = [
        ratio_row("a trial, no files", seen, "recorder", floor, "1.11"),
        ratio_row("a trial replayed, one file", seen, "replay", floor, "one upload more"),
        ratio_row("one request for each value", seen, "one by one", floor, "50 or more"),
    ]
    print(table(rows))


if __name__ == "__main__":
    main(
        rounds=int(sys.argv[1]) if len(sys.argv) > 1 else 5,
        trials=int(sys.argv[2]) if len(sys.argv) > 2 else 40,
    )
