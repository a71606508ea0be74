"""What EC2 says is running is on, and what it says is terminated is off."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import boto3  # noqa: TID251 - launches what is looked at
import pytest

from support.aws_emulator.server import Emulator
from support.machines import namespaces
from support.machines.hypervisor import Hypervisor
from support.machines.rehearsal import wait

pytestmark = pytest.mark.skipif(
    namespaces.missing() is not None,
    reason=f"SKIPPED: no machine is tested: {namespaces.missing()}",
)
IMAGE = "ami-03cf127a"
SCRIPT = """#!/bin/bash
latest=http://169.254.169.254/latest
token=$(curl -sfX PUT $latest/api/token -H 'X-aws-ec2-metadata-token-ttl-seconds: 9')
curl -sf -H "X-aws-ec2-metadata-token: $token" $latest/meta-data/tags/instance/use
echo
python3 -c 'import boto3; print(boto3.client("sts").get_caller_identity()["Account"])'
"""


@pytest.fixture
def hypervisor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hypervisor]:
    pytest.importorskip("moto", reason="moto stands in for AWS")
    with Emulator({}).running() as emulator, Hypervisor(emulator, tmp_path).watching() as made:
        for name, value in emulator.environment().items():
            monkeypatch.setenv(name, value)
        yield made
    assert made.processes() == []


def launched(script: str) -> str:
    """An instance with this start script."""
    told = boto3.client("ec2").run_instances(
        ImageId=IMAGE,
        InstanceType="r6i.large",
        MinCount=1,
        MaxCount=1,
        UserData=script,
        TagSpecifications=[
            {"ResourceType": "instance", "Tags": [{"Key": "use", "Value": "trial"}]}
        ],
    )
    return str(told["Instances"][0]["InstanceId"])


def state_of(name: str) -> str:
    told = boto3.client("ec2").describe_instances(InstanceIds=[name])
    return str(told["Reservations"][0]["Instances"][0]["State"]["Name"])


def test_an_instance_boots_runs_its_script_and_ends_when_it_is_terminated(hypervisor):
    name = launched(SCRIPT)
    told = hypervisor.log(name)
    wait(lambda: told.exists() and "123456789012" in told.read_text(), 300, "no script ran")
    assert told.read_text().split()[0] == "trial"  # libraries may warn after it
    assert hypervisor.processes()
    assert hypervisor._emulator.traffic.by_caller["worker"] == {"sts:GetCallerIdentity": 1}
    boto3.client("ec2").terminate_instances(InstanceIds=[name])
    wait(lambda: not hypervisor.machines, 90, "it stayed on")
    [stay] = hypervisor.stays
    assert stay.to_s is not None
    assert hypervisor.processes() == []


def test_an_instance_that_shuts_itself_down_is_terminated(hypervisor):
    name = launched("#!/bin/bash\nshutdown -h now\n")
    wait(lambda: state_of(name) == "terminated", 90, "it stayed")
    assert not hypervisor.machines
    assert hypervisor.instances_alive() == []


def test_an_instance_that_is_taken_back_is_terminated(hypervisor):
    name = launched("#!/bin/bash\nsleep 600\n")
    wait(lambda: name in hypervisor.machines, 90, "it did not boot")
    hypervisor.reclaim(name)
    wait(lambda: state_of(name) == "terminated", 90, "it stayed")


def test_machines_of_another_rehearsal_are_not_counted_among_those_that_were(hypervisor):
    name = launched("#!/bin/bash\nsleep 600\n")
    wait(lambda: name in hypervisor.machines, 90, "it did not boot")
    hypervisor.reclaim(name)
    wait(lambda: name not in hypervisor.machines, 90, "it stayed")
    command = ["unshare", "--pid", "--fork", "--kill-child", "sleep", "60"]
    others = [subprocess.Popen(command) for _ in range(8)]
    try:
        children = [Path(f"/proc/{one.pid}/task/{one.pid}/children") for one in others]
        wait(lambda: all(path.read_text() for path in children), 90, "no process started")
        assert hypervisor.processes() == []
    finally:
        for one in others:
            one.kill()
            one.wait()
