"""A machine is cut off while it works, and comes back: each trial has one result all the same.

Every machine is a set of namespaces, so the network between them is real, and so is what becomes of
connections over it. What happens when, and to whom, is drawn from a seed.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchorch.domain.artifact import BuildKey
from benchorch.stores.s3 import S3Store
from chaos.drill import (
    EXPECTED,
    Begin,
    Drill,
    drilling,
    lasting,
    local_store,
    trial,
    trial_id,
)
from chaos.wired import IMPATIENT, WiredMachines
from support.machines import namespaces
from support.ray_machines import KINDS
from support.waiting import until

pytestmark = [pytest.mark.ray_cluster, pytest.mark.slow, pytest.mark.timeout(400)]

VICTIM = trial_id(0)
"""The trial that lasts, and whose machine is cut off."""

OWN_DISK = Path("/var/lib/node/store")
"""On every machine another one: who is cut off reaches no shared disk either."""

LEASE_S = 4.0


@pytest.fixture(scope="module")
def aws() -> Iterator[Any]:
    """An emulator that has a bucket named ``artifacts``."""
    pytest.importorskip("moto", reason="SKIPPED DRILL: moto stands in for S3")
    import boto3  # noqa: TID251 - makes what Terraform would

    from support.aws_emulator.server import Emulator

    with Emulator({}).running() as emulator, pytest.MonkeyPatch.context() as patch:
        for name, value in emulator.environment().items():
            patch.setenv(name, value)
        boto3.client("s3").create_bucket(Bucket="artifacts")
        yield emulator


@pytest.fixture(scope="module")
def machines(aws: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WiredMachines]:
    reason = namespaces.missing()
    if reason:
        pytest.skip(f"SKIPPED DRILL: no machine can be cut off: {reason}")
    place, shared = tmp_path_factory.mktemp("wired"), tmp_path_factory.mktemp("shared")
    with pytest.MonkeyPatch.context() as patch:
        # Ray reads the token once in a process, so it stays; everything else is put back.
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        started = WiredMachines(place, shared, *KINDS, aws=aws)
        try:
            yield started
        finally:
            started.close()


@pytest.fixture
def begin(machines: WiredMachines, request: pytest.FixtureRequest, seed: int) -> Iterator[Begin]:
    """Makes a drill whose coordinator runs on the head."""
    place = machines.shared / f"{request.node.originalname}-{seed}"
    options = {"address": machines.address, "under": machines.under}
    with drilling(place, seed, store=local_store(OWN_DISK), **options) as make:
        yield make
    machines.restore()


@contextmanager
def cut_off(machines: WiredMachines, host: str) -> Iterator[None]:
    """Its cable is pulled meanwhile."""
    machines.machines[host].cut_off()
    try:
        yield
    finally:
        machines.machines[host].reconnect()


def ended(drill: Drill) -> list[int]:
    """The attempts at the victim that were measured to their end."""
    return [one["attempt"] for one in drill.entries("end") if one["trial"] == VICTIM]


def check(drill: Drill) -> None:
    """All is as in an unbroken sweep, but that what counts of the victim is a second attempt."""
    assert drill.finish() == 0, drill.stderr()
    drill.check(EXPECTED)
    counted = {line["trial_id"]: line["attempt"] for line in drill.lines()}
    assert counted == {**dict.fromkeys(EXPECTED, 1), VICTIM: 2}


def test_a_machine_that_was_given_up_and_comes_back_has_lost_its_trial(
    begin: Begin, machines: WiredMachines, seed: int
) -> None:
    """It has measured to the end when the link is back, or is still at it."""
    is_late = seed % 2 == 1
    drill = begin(lasting(5 if is_late else 30, 0))
    drill.start()
    host = drill.moment_of(0)["host"]
    with cut_off(machines, host):
        # The coordinator's connections hold for minutes: it hears of it when Ray gives the node up.
        assert until(lambda: drill.begun_again(VICTIM), 90), drill.stderr()
        assert not is_late or until(lambda: 1 in ended(drill), 30)
        assert machines.has_ray(host)
    check(drill)
    assert until(lambda: not machines.has_ray(host), 30)  # it is told that it counts as dead
    assert ended(drill) == ([1, 2] if is_late else [2])


def test_a_trial_taken_from_a_machine_that_is_not_given_up_ends_there_when_the_link_is_back(
    begin: Begin, machines: WiredMachines
) -> None:
    """A coordinator whose connections fail sooner than Ray gives a node up."""
    drill = begin(lasting(30, 0), environment=IMPATIENT)
    drill.start()
    host = drill.moment_of(0)["host"]
    with cut_off(machines, host):
        assert until(lambda: drill.begun_again(VICTIM), 60), drill.stderr()
        assert [pid for pid in drill.children() if machines.holds(host, pid)]
    assert until(lambda: not [pid for pid in drill.children() if machines.holds(host, pid)], 15)
    assert not ended(drill)  # on neither machine
    check(drill)
    assert ended(drill) == [2]


def test_a_machine_that_stays_cut_off_ends_what_it_does_by_itself(
    begin: Begin, machines: WiredMachines
) -> None:
    """Whoever has lost the head for long enough ends Ray, its agent, and what that has started."""
    drill = begin(lasting(55, 0))
    drill.start()
    host = drill.moment_of(0)["host"]
    with cut_off(machines, host):
        assert until(lambda: not machines.has_ray(host), 120)
        check(drill)  # that nothing of the sweep runs there, too
    assert ended(drill) == [2]


def test_a_link_that_is_down_for_a_moment_costs_nothing(
    begin: Begin, machines: WiredMachines
) -> None:
    drill = begin(lasting(5, 0))
    drill.start()
    host = drill.moment_of(0)["host"]
    time.sleep(drill.dice.uniform(0, 3))  # its result may come while nothing gets through
    with cut_off(machines, host):
        time.sleep(drill.dice.uniform(1, 4))
    assert drill.finish() == 0, drill.stderr()
    drill.check(EXPECTED)
    assert ended(drill) == [1]
    assert {line["attempt"] for line in drill.lines()} == {1}
    assert machines.has_ray(host)


def test_a_builder_that_is_cut_off_is_replaced_and_spoils_nothing_when_it_is_back(
    begin: Begin, machines: WiredMachines, tmp_path: Path, seed: int
) -> None:
    """Two machines want one artifact of a bucket that all reach but the one that builds it."""
    shared = {
        "_target_": "benchorch.stores.s3.S3Store",
        "url": f"s3://artifacts/{seed}",
        "root": str(OWN_DISK / f"before-s3-{seed}"),
        "lease_s": LEASE_S,
    }
    wanted = trial(0)["artifact"]
    sweep = [
        {**one, "builds_s": 8 if one["artifact"] == wanted else 0.2} for one in lasting(2, 0, 1)
    ]
    drill = begin(sweep, store=shared)
    drill.start()
    drill.moment_of(0, 1)
    assert until(lambda: builders(drill, "make", wanted), 30), drill.stderr()
    [first] = builders(drill, "make", wanted)
    with cut_off(machines, first):
        assert until(lambda: len(builders(drill, "made", wanted)) == 2, 60), drill.stderr()
        time.sleep(drill.dice.uniform(0, 10))
    assert drill.finish() == 0, drill.stderr()
    drill.check(EXPECTED)
    assert sorted(builders(drill, "make", wanted)) == ["a-2", "a-3"]  # what is built once is found
    others = {one["artifact"] for one in sweep} - {wanted}
    assert all(len(builders(drill, "make", artifact)) == 1 for artifact in others)
    for artifact in {wanted, *others}:
        kept = S3Store(url=str(shared["url"]), root=str(tmp_path)).find(key_of(artifact))
        assert kept is not None  # and every byte of it was compared


def builders(drill: Drill, what: str, artifact: str) -> list[str]:
    """The machines that began to make an artifact, or have made it."""
    return [one["host"] for one in drill.entries(what) if one["artifact"] == artifact]


def key_of(artifact: str) -> str:
    return BuildKey(fields={"artifact": artifact}).digest
