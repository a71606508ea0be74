"""From nothing to results with dollars and back to nothing, and what happens in between."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import boto3  # noqa: TID251 - looks at what was launched
import pytest
import yaml
from mlflow import MlflowClient  # noqa: TID251 - looks at what was recorded

from support.aws_emulator.traffic import Fault
from support.machines.rehearsal import Rehearsal, wait
from support.policies import deployed, evaluator
from support.policies.requests import requests_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
SWEEP = ("model=mlp", "stopping=quick", "profiler=none", "executor=ec2", "protocol.repeats=0")
# Five processes a trial: long enough to lose a machine in.
ONE_TRIAL = (*SWEEP, "conversion=eager", "recorder=none")
TWO_TRIALS = (*SWEEP, "conversion=[eager,torchscript]", "recorder=none")


@pytest.fixture(autouse=True)
def at_the_emulator(stack: Rehearsal, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in stack.emulator.environment().items():
        monkeypatch.setenv(name, value)
    yield
    stack.emulator.traffic.faults.clear()


def of_size(kind: str) -> tuple[str, str]:
    """The words for an instance type."""
    family, size = kind.split(".")
    return f"hardware={family}", f"hardware.size={size}"


def newest(desk: Path) -> Path:
    """The directory of the sweep that was begun last."""
    return max(path.parent for path in desk.glob("runs/*/*/plan.json"))


def results(run: Path) -> Sequence[Mapping[str, Any]]:
    lines = (run / "results.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def stays_of(stack: Rehearsal, kind: str) -> Sequence[Any]:
    return [stay for stay in stack.hypervisor.stays if stay.kind == kind]


def begun(stack: Rehearsal, kind: str) -> str:
    """The machine of this type, once a trial measures there."""
    wait(lambda: bool(stack.hypervisor.of_type(kind)), 120, f"no {kind} was launched")
    [machine] = stack.hypervisor.of_type(kind)
    return machine


def test_a_sweep_over_two_types_launches_both_and_leaves_dollars_in_mlflow(stack):
    assert not stack.workers()
    built = ("conversion=torchscript", "baseline=null")  # which leaves files, on both the same
    swept = stack.sweep(*SWEEP, *built, "hardware=r6i,c7i", "-m")
    assert swept.returncode == 0, swept.stdout[-3000:] + swept.stderr[-3000:]
    found = results(newest(stack.desk))
    assert [result["outcome"] for result in found] == ["ok", "ok"]
    # Workers do not see the head's disk: what they wrote of their trials came back.
    folders = [newest(stack.desk) / "trials" / result["trial_id"] for result in found]
    assert all((folder / "observations.jsonl").stat().st_size for folder in folders)
    launched = {stay.name: stay for stay in stack.hypervisor.stays if stay.role == "worker"}
    assert sorted(stay.kind for stay in launched.values()) == ["c7i.xlarge", "r6i.large"]
    for result in found:
        stay = launched[result["environment"]["host"]]
        assert result["labels"]["hardware_kind"] == stay.kind
        assert result["environment"]["market"] == stay.market == "spot"
        assert result["environment"]["instance"] == stay.name
        assert result["environment"]["image"].startswith("ami-")
        assert result["environment"]["rehearsed"] is True  # no table takes it for EC2's
    assert "rehearsed" in swept.stdout
    client = MlflowClient(f"sqlite:///{stack.desk / 'mlflow.db'}")
    runs = client.search_runs([each.experiment_id for each in client.search_experiments()])
    trials = [run for run in runs if "mlflow.parentRunId" in run.data.tags]
    assert all("rehearsed" in run.data.tags["warnings"] for run in trials)
    usd = [run.data.metrics.get("cost_usd_per_million_items/on_demand") for run in trials]
    assert sum(value is not None and value > 0 for value in usd) == 2


def test_what_one_of_them_built_the_other_found_in_the_stacks_bucket(stack):
    url = json.loads(stack.output("store_url"))
    plan = json.loads((newest(stack.desk) / "plan.json").read_text())
    assert plan["session"]["store"]["url"] == url  # nobody has named it
    builds = [result["build"] for result in results(newest(stack.desk))]
    assert sorted(build["cache"] for build in builds) == ["hit", "miss"]
    [key] = {build["key"] for build in builds}
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    kept = boto3.client("s3").list_objects_v2(Bucket=bucket, Prefix=f"{prefix}/artifacts/{key}/")
    names = [each["Key"].rpartition("/")[2] for each in kept["Contents"]]
    assert names.count("manifest.json") == 1
    assert len(names) > 1


def test_idle_machines_are_ended_and_the_head_stays(stack):
    stack.until_idle()
    assert stack.hypervisor.instances_alive() == [stack.head().name]


def test_without_capacity_in_one_zone_the_machine_comes_from_another(stack):
    kind = "m7i.xlarge"
    cluster = yaml.safe_load(json.loads(stack.output("cluster_file")))
    subnets = cluster["available_node_types"][f"{kind}-spot"]["node_config"]["SubnetIds"]
    refused = Fault(
        "ec2:RunInstances",
        code="InsufficientInstanceCapacity",
        fields={"SubnetId": subnets[0]},
    )
    stack.emulator.break_it(refused)
    swept = stack.sweep(*ONE_TRIAL, *of_size(kind))
    assert swept.returncode == 0, swept.stdout[-3000:] + swept.stderr[-3000:]
    assert refused.times < 10**9
    [stay] = stays_of(stack, kind)
    instance = boto3.client("ec2").describe_instances(InstanceIds=[stay.name])
    assert instance["Reservations"][0]["Instances"][0]["SubnetId"] in subnets[1:]


def test_where_spot_is_dry_the_machine_comes_on_demand(stack):
    kind = "r6i.xlarge"
    spot = Fault(
        "ec2:RunInstances",
        code="InsufficientInstanceCapacity",
        fields={"InstanceType": kind, "InstanceMarketOptions.MarketType": "spot"},
    )
    stack.emulator.break_it(spot)
    swept = stack.sweep(*ONE_TRIAL, *of_size(kind), "executor.spot_wait_s=15")
    assert swept.returncode == 0, swept.stdout[-3000:] + swept.stderr[-3000:]
    assert spot.times < 10**9
    assert [stay.market for stay in stays_of(stack, kind)] == ["on-demand"]
    [result] = results(newest(stack.desk))
    assert result["environment"]["market"] == "on_demand"


def test_where_nothing_is_to_be_had_the_trial_says_so_in_time(stack):
    kind = "c7i.large"
    none = Fault(
        "ec2:RunInstances",
        code="InsufficientInstanceCapacity",
        fields={"InstanceType": kind},
    )
    stack.emulator.break_it(none)
    words = (*ONE_TRIAL, *of_size(kind), "executor.spot_wait_s=10", "executor.wait_s=40")
    swept = stack.sweep(*words)
    assert swept.returncode == 1, swept.stdout[-3000:] + swept.stderr[-3000:]
    [result] = results(newest(stack.desk))
    assert "no_capacity" in json.dumps(result)
    assert not stays_of(stack, kind)


def test_a_machine_that_is_taken_back_costs_an_attempt_and_no_result(stack, tmp_path):
    kind = "m7a.large"
    running = stack.begin(tmp_path / "log", *ONE_TRIAL, *of_size(kind))
    lost = begun(stack, kind)
    wait(lambda: "measure process 1" in (tmp_path / "log").read_text(), 240, "nothing measured")
    stack.hypervisor.reclaim(lost)
    wait(lambda: running.poll() is not None, 400, "the sweep did not end")
    assert running.returncode == 0, (tmp_path / "log").read_text()[-3000:]
    [result] = results(newest(stack.desk))
    assert (result["outcome"], result["attempt"]) == ("ok", 2)
    assert next(stay.name for stay in stays_of(stack, kind)) == lost
    assert len(stays_of(stack, kind)) == 2


def test_a_machine_with_notice_gets_no_further_trial(stack, tmp_path):
    kind = "m7a.xlarge"
    running = stack.begin(tmp_path / "log", *TWO_TRIALS, *of_size(kind), "executor.most=1")
    first = begun(stack, kind)
    wait(lambda: "measure process 1" in (tmp_path / "log").read_text(), 240, "nothing measured")
    stack.hypervisor.give_notice(first)
    wait(lambda: running.poll() is not None, 400, "the sweep did not end")
    assert running.returncode == 0, (tmp_path / "log").read_text()[-3000:]
    found = results(newest(stack.desk))
    assert [result["outcome"] for result in found] == ["ok", "ok"]
    assert [result["attempt"] for result in found] == [1, 1]
    assert len(stays_of(stack, kind)) == 2


def test_a_sweep_that_was_submitted_goes_on_at_the_head_alone(stack):
    there = ("--json", "--head", "http://127.0.0.1:8265")  # what a forwarded port leads to
    words = [word for word in ONE_TRIAL if not word.startswith("executor=")]
    submitted = stack.sweep("submit", *there, *words, *of_size("c7i.xlarge"))
    assert submitted.returncode == 0, submitted.stdout[-3000:] + submitted.stderr[-3000:]
    name = json.loads(submitted.stdout)["job"]

    def now() -> Mapping[str, Any]:
        return json.loads(stack.sweep("status", name, *there).stdout)

    wait(lambda: now()["state"] != "running", 400, "the sweep did not end")
    assert (now()["state"], now()["done"], now()["left"]) == ("ended", 1, 0)
    [result] = results(stack.head().file(now()["directory"]))
    assert result["outcome"] == "ok"
    assert result["labels"]["hardware_kind"] == "c7i.xlarge"
    assert result["environment"]["host"] in [each.name for each in stays_of(stack, "c7i.xlarge")]


def test_the_token_is_in_no_argument_and_in_no_log(stack):
    kept = boto3.client("ssm").get_parameter(Name="/benchorch/ray-token", WithDecryption=True)
    token = kept["Parameter"]["Value"].encode()
    processes = stack.hypervisor.processes()
    assert processes
    for pid in processes:
        assert token not in Path(f"/proc/{pid}/cmdline").read_bytes()
    logs = [*stack.place.glob("*.log"), *stack.desk.rglob("*")]
    logs += stack.head().file("/tmp/ray").rglob("*.log")
    seen = [path for path in logs if path.is_file()]
    assert len(seen) > 20
    assert not [path for path in seen if token in path.read_bytes()]


@pytest.mark.parametrize("role", ["head", "worker"])
def test_machines_do_what_they_may_and_no_more(stack, role):
    called = set(stack.emulator.traffic.by_caller[role])
    policies = json.loads(stack.output("policies"))
    granted = {
        action
        for name in {"head": ("head", "node"), "worker": ("worker",)}[role]
        for statement in json.loads(policies[name])["Statement"]
        for action in (
            [statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"]
        )
    }
    s3 = {  # the emulator tells methods; tests/unit/stores/test_s3_rights.py has the calls
        **{"s3:GET": "s3:GetObject", "s3:HEAD": "s3:GetObject", "s3:PUT": "s3:PutObject"},
        **{"s3:POST": "s3:PutObject", "s3:DELETE": "s3:DeleteObject"},
    }
    assert {s3.get(name, name) for name in called} <= granted
    must = {
        "head": {"ec2:RunInstances", "ec2:TerminateInstances"},
        "worker": {"ssm:GetParameter", "s3:PUT", "s3:GET"},
    }
    assert must[role] <= called
    making = r"(iam:|ec2:(Create(?!Tags)|Authorize|Import))"
    assert not [name for name in called if re.match(making, name)]


@pytest.mark.skipif(evaluator.missing() is not None, reason=f"SKIPPED: {evaluator.missing()}")
@pytest.mark.parametrize("role", ["head", "worker"])
def test_aws_would_have_allowed_every_call_that_machines_made(stack, role):
    found = deployed.role(f"benchorch-{role}")
    calls = {repr(call): call for caller, call in stack.emulator.traffic.calls if caller == role}
    asked = [
        request
        for call in calls.values()
        for request in requests_of(call, found.arn, found.policies)
    ]
    decisions = evaluator.decide(asked)
    refused = [
        f"{request.action} {request.resource}: {decision.why}"
        for request, decision in zip(asked, decisions, strict=True)
        if decision.decision != "Allowed"
    ]
    assert asked
    assert not refused


def test_destroying_it_leaves_nothing(stack):
    run = newest(stack.desk)
    told = stack.destroy()
    assert "no machine is left" in told
    plan_id = json.loads((run / "plan.json").read_text())["plan_id"]
    assert results(stack.home / plan_id) == results(run)  # the head's disk is not needed for it
    assert set(stack.left().values()) == {0}
