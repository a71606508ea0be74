"""The literal line against an emulated account, driven from outside.

AWS's services are emulated and the head's commands run on this machine, in a folder of their own;
the line, the coordinator that it starts there, the trials and the archive are the real ones. In
place of Ray the head measures on itself: `tests/stack/fleet` has Ray and machines.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import boto3  # noqa: TID251 - makes what provision makes
import pytest

from support.aws_emulator import failures
from support.aws_emulator.server import ACCOUNT
from support.aws_emulator.traffic import Fault
from support.s3 import emulator
from support.waiting import until

NAME, REGION, KIND = "mine", "eu-west-1", "r6i.large"
LINE = ("model=mlp", "hardware=r6i", "conversion=eager", "profiler=none")
FAST = (
    *("stopping=fixed", "stopping.processes=1", "stopping.calls=5", "stopping.window_s=0.05"),
    *("protocol.canary_tolerance_ratio=null", "protocol.pairing=none", "pricing.source=bundled"),
    "+pricing.usd_per_hour={r6i.large: 0.141}",  # the bundled list is of another region
)


class Account:
    """A stack in another region than the default one, without a machine."""

    def __init__(self, tmp_path: Path) -> None:
        self.there = tmp_path / "head"
        self.there.mkdir()
        self.scripts: list[str] = []
        aws = emulator().environment()
        self.clients = {
            service: boto3.client(
                service,
                region_name=REGION if service != "home" else None,
                endpoint_url=aws["AWS_ENDPOINT_URL"],
                aws_access_key_id="x",
                aws_secret_access_key="x",
            )
            for service in ("s3", "ec2", "autoscaling")
        }
        place = {"CreateBucketConfiguration": {"LocationConstraint": REGION}}
        for bucket in (f"benchorch-stacks-{ACCOUNT}", f"{NAME}-{ACCOUNT}"):
            self.clients["s3"].create_bucket(Bucket=bucket, **place)
        settings = {"region": REGION, "variables": {"fleet": json.dumps({KIND: 1})}}
        self.clients["s3"].put_object(
            Bucket=f"benchorch-stacks-{ACCOUNT}",
            Key=f"{NAME}/settings.json",
            Body=json.dumps(settings).encode(),
        )
        self._make_group()
        profile = self.there / "profile.sh"
        profile.write_text("".join(f"export {k}='{v}'\n" for k, v in self._variables(aws).items()))
        emulator().systems_manager.runner = self.run
        emulator().systems_manager.online = self.started

    def _make_group(self) -> None:
        images = self.clients["ec2"].describe_images()["Images"]
        zone = f"{REGION}a"
        group = self.clients["autoscaling"]
        group.create_launch_configuration(
            LaunchConfigurationName="head", ImageId=images[0]["ImageId"], InstanceType="m7i.large"
        )
        tags = {"ray-cluster-name": NAME, "ray-node-type": "head"}
        group.create_auto_scaling_group(
            AutoScalingGroupName=f"{NAME}-head",
            LaunchConfigurationName="head",
            MinSize=0,
            MaxSize=1,
            DesiredCapacity=0,
            AvailabilityZones=[zone],
            Tags=[{"Key": k, "Value": v, "PropagateAtLaunch": True} for k, v in tags.items()],
        )

    def _variables(self, aws: dict[str, str]) -> dict[str, str]:
        return {
            **aws,
            "AWS_DEFAULT_REGION": REGION,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "XDG_STATE_HOME": str(self.there / "state"),
            "BENCHORCH_CACHE_DIR": str(self.there / "store"),
            "BENCHORCH_HARDWARE_KIND": KIND,
            "RAY_AUTH_MODE": "token",
        }

    def run(self, machine: str, script: str) -> subprocess.CompletedProcess[str]:
        """A command on the head, whose places are below a folder here."""
        self.scripts.append(script)
        mine = script.replace("/var/lib/benchorch", f"{self.there}/runs")
        mine = mine.replace("HOME=~root", f"HOME={self.there}")
        mine = mine.replace("/etc/profile.d/benchorch.sh", f"{self.there}/profile.sh")
        begin = "python -m benchorch submit --here resume"
        mine = mine.replace(begin, f"{sys.executable} {self.there}/here.py")
        (self.there / "here.py").write_text(HERE)
        environment = {"PATH": os.environ["PATH"]}
        return subprocess.run(
            ["sh", "-c", mine], capture_output=True, text=True, env=environment, check=False
        )

    def started(self, machine: str) -> bool:
        """As its start script would say at its end."""
        start = json.dumps({"instance": machine, "outcome": "ready", "step": "ray"})
        self.clients["s3"].put_object(
            Bucket=f"{NAME}-{ACCOUNT}", Key=f"starts/{machine}.json", Body=start.encode()
        )
        return True

    def end_machines(self) -> None:
        """End this test's head, which the next test's line would find by its tags."""
        self.clients["autoscaling"].delete_auto_scaling_group(
            AutoScalingGroupName=f"{NAME}-head", ForceDelete=True
        )
        self.clients["autoscaling"].delete_launch_configuration(LaunchConfigurationName="head")
        reservations = self.clients["ec2"].describe_instances()["Reservations"]
        ids = [one["InstanceId"] for group in reservations for one in group["Instances"]]
        if ids:
            self.clients["ec2"].terminate_instances(InstanceIds=ids)

    def heads(self) -> int:
        found = self.clients["autoscaling"].describe_auto_scaling_groups()
        return sum(len(one["Instances"]) for one in found["AutoScalingGroups"])


HERE = f"""
import json, os, sys
path = sys.argv[1] + "/plan.json"
plan = json.load(open(path))
assert plan["session"]["executor"]["cluster_file"] == "/etc/benchorch/cluster.yaml"
plan["session"]["executor"] = {{"_target_": "benchorch.executors.local.Local", "kinds": ["{KIND}"]}}
with open(path, "w") as file:
    json.dump(plan, file)
command = ["-m", "benchorch", "submit", "--here", "resume", *sys.argv[1:]]
os.execv(sys.executable, [sys.executable, *command])
"""


@pytest.fixture
def account(tmp_path):
    found = Account(tmp_path)
    yield found
    found.end_machines()
    emulator().systems_manager.online = bool
    for bucket in (f"benchorch-stacks-{ACCOUNT}", f"{NAME}-{ACCOUNT}"):
        s3 = found.clients["s3"]
        for one in s3.list_objects_v2(Bucket=bucket).get("Contents", ()):
            s3.delete_object(Bucket=bucket, Key=one["Key"])
        s3.delete_bucket(Bucket=bucket)
    shutil.rmtree(found.there, ignore_errors=True)


def environment_of(laptop, key="laptop"):
    mine = {k: v for k, v in laptop.environment.items() if not k.startswith(("RAY_", "AWS_"))}
    aws = {**emulator().environment(), "AWS_ACCESS_KEY_ID": key}
    return {**mine, **aws, "BENCHORCH_HARDWARE_KIND": "laptop"}


def typed(laptop, *words):
    """The end of a line that is waited for."""
    return laptop.commands.run(laptop.path, words, 400, environment=environment_of(laptop))


def test_the_line_starts_the_head_and_brings_the_table_home_though_the_lid_was_closed(
    account, place
):
    environment = environment_of(place)
    command = place.command(*LINE, *FAST)
    plan = typed(place, "plan", *LINE, *FAST, "--json")
    assert json.loads(plan.stdout)["how"] == "stack"
    assert account.heads() == 0
    first = subprocess.Popen(
        command, cwd=place.path, env=environment, stdout=subprocess.PIPE, text=True
    )
    assert until(lambda: account.scripts, 1000)
    first.kill()  # as a closed lid, for good
    first.wait()
    assert account.heads() == 1
    again = typed(place, *LINE, *FAST)
    assert again.code == 0, again.stdout + again.stderr
    assert "continues sweep" in again.stdout
    assert "USD per 1M" in again.stdout
    assert account.heads() == 1
    (results,) = place.path.glob("runs/*/*/results.jsonl")
    (line,) = map(json.loads, results.read_text().splitlines())
    assert line["outcome"] == "ok"
    assert list(results.parent.glob("trials/*/log.txt"))


@pytest.mark.slow  # test_aws_stack.py has the words, executors/test_stack.py the waiting
def test_credentials_that_expire_in_mid_sweep_are_told_and_the_same_line_goes_on(account, place):
    # Results come further apart than the head is asked for them: the first is home before the last.
    slower = (word for word in FAST if not word.startswith("stopping.window_s"))
    line = (*LINE, *slower, "stopping.window_s=3", "workload.batch_size=1,2,4", "-m")
    log = place.path / "first.log"
    with log.open("w") as output:
        first = subprocess.Popen(
            place.command(*line), cwd=place.path, env=environment_of(place, key="short-lived"),
            stdout=output, stderr=output,
        )  # fmt: skip
    assert until(lambda: any(map(lines_of, runs_of(place))), 1000), log.read_text()
    aws = emulator()
    aws.break_it(Fault(".*", code="ExpiredToken", status=400, key="short-lived"))
    try:
        first.wait(timeout=1000)
    finally:
        aws.traffic.faults.clear()
        first.kill()
    said = log.read_text()
    assert first.returncode == 1, said
    assert "Traceback" not in said
    assert "expired" in said
    assert "the same line follows it again" in " ".join(said.split())
    again = typed(place, *line)
    assert again.code == 0, again.stdout + again.stderr
    interrupted, followed = runs_of(place)
    assert len(lines_of(interrupted)) < len(lines_of(followed)) == 3
    assert len([one for one in account.scripts if "submit --here" in one]) <= 2
    assert account.heads() == 1


@pytest.mark.slow  # test_aws_stack.py has the words, executors/test_stack.py the waiting
def test_a_clock_that_is_wrong_for_a_while_is_told_and_the_sweep_goes_on(account, place):
    log = place.path / "first.log"
    with log.open("w") as output:
        followed = subprocess.Popen(
            place.command(*LINE, *FAST), cwd=place.path, env=environment_of(place, key="asleep"),
            stdout=output, stderr=output,
        )  # fmt: skip
    assert until(lambda: account.scripts, 300), log.read_text()
    aws = emulator()
    aws.break_it(failures.skewed("asleep", times=3))
    try:
        followed.wait(timeout=300)
    finally:
        aws.traffic.faults.clear()
        followed.kill()
    said = " ".join(log.read_text().split())
    assert followed.returncode == 0, said
    assert "this machine's clock is wrong" in said
    (run,) = runs_of(place)
    assert len(lines_of(run)) == 1
    assert len([one for one in account.scripts if "submit --here" in one]) == 1


def test_a_permission_that_is_missing_is_named_with_the_policy_and_nothing_starts(account, place):
    aws = emulator()
    aws.break_it(failures.unauthorized("ec2:DescribeInstances", key="laptop"))
    try:
        refused = typed(place, *LINE, *FAST)
    finally:
        aws.traffic.faults.clear()
    said = " ".join((refused.stdout + refused.stderr).split())
    assert refused.code == 1, said
    assert "may not do ec2:DescribeInstances" in said
    assert "no identity-based policy allows" in said
    assert "Traceback" not in said
    assert not account.scripts
    assert account.heads() == 0


def test_two_stacks_want_a_name_and_the_named_one_is_the_one(account, place):
    s3 = account.clients["s3"]
    settings = {"region": "us-east-1", "variables": {"fleet": json.dumps({"c7i.large": 1})}}
    s3.put_object(
        Bucket=f"benchorch-stacks-{ACCOUNT}",
        Key="other/settings.json",
        Body=json.dumps(settings).encode(),
    )
    unnamed = typed(place, *LINE, *FAST)
    assert unnamed.code == 2
    assert "mine" in unnamed.stdout + unnamed.stderr
    assert "executor.stack=" in unnamed.stdout + unnamed.stderr
    assert not runs_of(place)
    named = typed(place, "plan", *LINE, *FAST, f"executor.stack={NAME}", "--json")
    assert json.loads(named.stdout)["how"] == "stack"
    wrong = typed(place, "plan", *LINE, *FAST, "executor.stack=other", "--json")
    assert json.loads(wrong.stdout)["how"] == "none"  # its fleet has no r6i
    assert not account.scripts


def runs_of(place):
    return sorted(place.path.glob("runs/*/*"))


def lines_of(run):
    path = run / "results.jsonl"
    return path.read_text().splitlines() if path.exists() else []
