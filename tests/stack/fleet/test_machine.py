"""A machine is one: its processes, disk, name and network are its own, and it ends as one."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.machines import image, metadata, namespaces
from support.machines.machine import METADATA_ADDRESS, Machine
from support.machines.namespaces import Switch, listening_inside

pytestmark = pytest.mark.skipif(
    namespaces.missing() is not None,
    reason=f"SKIPPED: no machine is tested: {namespaces.missing()}",
)
ADDRESSES = (f"10.60.0.{number}/16" for number in range(1, 255))


@pytest.fixture
def boot(tmp_path: Path) -> Iterator[Callable[[str], Machine]]:
    switch, files, made = Switch(), image.made(tmp_path / "image"), []

    def start(name: str) -> Machine:
        shared = [tmp_path / "shared"]
        shared[0].mkdir(exist_ok=True)
        made.append(Machine(name, next(ADDRESSES), switch, image=files, shared=shared))
        return made[-1]

    yield start
    for machine in made:
        machine.power_off()
    switch.close()


def reaches(one: Machine, other: Machine, limit_s: int = 60) -> bool:
    """Whether a connection comes about, over the switch."""
    listening = listening_inside(other.pid, other.address, 7000)
    try:
        connect = f"timeout {limit_s} bash -c 'echo </dev/tcp/{other.address}/7000'"
        return one.run(["bash", "-c", connect]).returncode == 0
    finally:
        listening.close()


def test_it_sees_no_process_but_its_own(boot):
    machine = boot("alone")
    seen = machine.run(["sh", "-c", "ls -d /proc/[0-9]* | wc -l"]).stdout
    assert int(seen) < 10
    assert machine.run(["hostname"]).stdout == "alone\n"


def test_what_it_writes_stays_on_its_own_disk_unless_that_is_shared(boot, tmp_path):
    one, other = boot("one"), boot("other")
    own = "/var/lib/benchorch-test-of-a-machine"
    for path in (own, str(tmp_path / "shared" / "seen")):
        assert one.run(["sh", "-c", f"echo written > {path}"]).returncode == 0
    assert one.file(own).read_text() == "written\n"
    assert not Path(own).exists()
    assert not other.file(own).exists()
    assert (tmp_path / "shared" / "seen").exists()
    assert other.run(["cat", str(tmp_path / "shared" / "seen")]).stdout == "written\n"


def test_machines_reach_each_other_until_a_cable_is_pulled(boot):
    one, other = boot("one"), boot("other")
    assert reaches(one, other)
    other.cut_off()
    assert not reaches(one, other, limit_s=2)
    other.reconnect()
    assert reaches(one, other)


def test_nothing_leads_out(boot):
    machine = boot("inside")
    listening = listening_inside(os.getpid(), "127.0.0.1", 0)
    port = listening.getsockname()[1]
    try:
        asked = machine.run(["bash", "-c", f"echo </dev/tcp/127.0.0.1/{port}"])
        assert asked.returncode != 0
    finally:
        listening.close()


def test_pulling_the_plug_ends_every_process_of_it(boot, tmp_path):
    machine = boot("doomed")
    told = tmp_path / "shared" / "alive"
    command = f"setsid sh -c 'while :; do date >> {told}; sleep 0.1; done' & sleep 60"
    machine.start(["sh", "-c", command], tmp_path / "log")
    while not told.exists():
        threading.Event().wait(0.05)
    machine.power_off()
    size = told.stat().st_size
    threading.Event().wait(0.5)
    assert told.stat().st_size == size
    assert not machine.on


def test_it_can_shut_itself_down(boot):
    machine = boot("finished")
    machine.run(["shutdown", "-h", "+480"])
    assert machine.on
    machine.run(["shutdown", "-h", "now"])
    machine._power.wait(timeout=60)
    assert not machine.on


def test_its_metadata_are_told_to_whoever_has_a_session(boot):
    machine = boot("asking")
    facts = {"instance-id": "i-1"}
    door = listening_inside(machine.pid, METADATA_ADDRESS, 80)
    machine.at_end(metadata.serve(door, facts.get))
    url = f"http://{METADATA_ADDRESS}/latest"
    header = "X-aws-ec2-metadata-token"
    without = machine.run(["curl", "-s", "-w", "%{http_code}", f"{url}/meta-data/instance-id"])
    assert without.stdout == "401"
    session = machine.run(
        ["curl", "-sX", "PUT", f"{url}/api/token", "-H", f"{header}-ttl-seconds: 60"]
    ).stdout
    ask = ["curl", "-s", "-w", " %{http_code}", "-H", f"{header}: {session}"]
    assert machine.run([*ask, f"{url}/meta-data/instance-id"]).stdout == "i-1 200"
    notice = [*ask, f"{url}/meta-data/spot/instance-action"]
    assert machine.run(notice).stdout == " 404"
    facts["spot/instance-action"] = "soon"
    assert machine.run(notice).stdout == "soon 200"
