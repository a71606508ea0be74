"""Trials go to the nodes of a Ray cluster whose hardware they name, one at a time on each.

The cluster is there, or it is started here for the sweep; its machines are there, or they are
hired by Ray's autoscaler, or they are played on this one.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from benchorch.domain.result import TrialResult
from benchorch.domain.session import Session
from benchorch.domain.trial import Trial
from benchorch.errors import ConfigError, ExecutorError
from benchorch.executors.agent import Outfit
from benchorch.executors.cluster_file import RESOURCE_PREFIX, Offer, read_cluster_file
from benchorch.executors.dispatch import Patience, dispatch
from benchorch.executors.forecast import forecasts, remembered
from benchorch.executors.hiring import HiringRules, MarketPolicy
from benchorch.executors.leases import hardware_kind
from benchorch.executors.ray_fleet import Launching, RayFleet, last_line
from benchorch.executors.rehearsal import LOOPBACK, Stage, open_stage, rehearsed_offers
from benchorch.executors.travel import Luggage, luggage
from benchorch.interfaces.executor import Emit, Executor, Work

logger = logging.getLogger(__name__)

LOCAL_KINDS = ("local", "local_gpu")

KNOCK_S = 10.0
"""How long a cluster's port may take to answer."""

STAGE_S = 120.0
"""How long the head of a rehearsal may take to start."""

INSIGHT_S = 5.0
"""How often the autoscaler is asked what it is about."""

AUTOSCALER_SILENCE_S = 120.0
"""An autoscaler that has reported nothing for so long is broken."""

COMMON_SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0"}
LOCAL_SETTINGS = {
    **COMMON_SETTINGS,
    "RAY_AUTH_MODE": "token",
    "RAY_worker_niceness": "0",  # Ray's own 15 would be inherited by what is measured
    "RAY_memory_monitor_refresh_ms": "0",  # a trial's memory limit is judged by its supervisor
}
QUIET: Mapping[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
LOCAL_OBJECT_STORE_BYTES = 100 * 2**20


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RayExecutor(Executor):
    """Runs trials on a Ray cluster: this machine's own, or one that is already there.

    Attributes:
        address: None for a cluster of this machine alone, with one slot that stands for
            ``local`` and ``local_gpu``; ``host:port`` or ``auto`` for a running one.
        max_attempts: how often a trial is begun when its node is lost.
        wait_s: how long a kind of hardware without a node is waited for.
        start_s: how long an agent may take to start on a node that is there.
        cluster_file: Ray's own on the head, whose machines are hired as they are needed; None
            where machines come and go by themselves.
        rehearse: play the machines of a fleet on this one; goes with no address.
        market: ``spot``, ``on_demand`` or ``spot_then_on_demand``: how machines are hired.
        most: of a kind at a time; None for as many as the cluster file allows.
        spot_wait_s: so long spot is tried without a machine before on demand is.
        idle_s: after so long without work a played machine is ended.
        metadata: the service that tells spot machines of their end; None asks nobody.
    """

    address: str | None = None
    max_attempts: int = 3
    wait_s: float = 30.0
    start_s: float = 120.0
    cluster_file: str | None = None
    rehearse: bool = False
    market: str = MarketPolicy.SPOT_THEN_ON_DEMAND
    most: int | None = None
    spot_wait_s: float = 90.0
    idle_s: float = 15.0
    metadata: str | None = None

    def __post_init__(self) -> None:
        problems = [
            f"{name} is {value}; it must be at least {least}."
            for name, value, least in (
                ("max_attempts", self.max_attempts, 1),
                ("wait_s", self.wait_s, 0),
                ("start_s", self.start_s, 0),
                ("most", 1 if self.most is None else self.most, 1),
                ("spot_wait_s", self.spot_wait_s, 0),
                ("idle_s", self.idle_s, 1),
            )
            if value < least
        ]
        if self.address is not None:
            problems += _address_problems(self.address)
        problems += self._hiring_problems()
        if problems:
            raise ConfigError(problems)

    def unreachable(self, hardware_kind: str) -> str | None:
        """Only this machine is there without an address; what a cluster has, only it knows."""
        if self.rehearse:
            return None
        if self.cluster_file is not None:
            try:
                return self._rules(read_cluster_file(Path(self.cluster_file))).refusal(
                    hardware_kind
                )
            except ConfigError as error:
                return error.problems[0]
        if self.address is not None or hardware_kind in LOCAL_KINDS:
            return None
        return (
            "executor.address is null, so Ray reaches this machine alone, which is "
            f"{' or '.join(LOCAL_KINDS)} and not {hardware_kind}; set executor.address=HOST:6379 "
            "to a cluster that has one."
        )

    def plays_machines(self) -> bool:
        """Where a fleet is rehearsed."""
        return self.rehearse

    def run(self, trials: Sequence[Trial], work: Work, emit: Emit) -> Iterator[TrialResult]:
        """Each trial's result, from whichever slot of its kind is free first."""
        patience = Patience(
            max_attempts=self.max_attempts, wait_s=self.wait_s, start_s=self.start_s
        )
        rules = self._hiring(trials)
        with self._cluster(rules) as ray, _given(work, trials) as given:
            fleet = RayFleet(
                ray,
                work,
                outfit=Outfit(node=_node_id, luggage=given, metadata=self.metadata),
                hiring=rules,
                insight=RayInsight(ray, hiring=rules is not None),
                facts={"rehearsed": True} if self.rehearse else {},
            )
            try:
                expected = forecasts(trials, remembered())
                yield from dispatch(trials, fleet, emit, patience, time.monotonic, expected)
            finally:
                fleet.close()

    def _hiring(self, trials: Sequence[Trial]) -> HiringRules | None:
        if self.rehearse:
            kinds = {hardware_kind(trial) for trial in trials}
            return self._rules(rehearsed_offers(kinds, self.most or 1))
        if self.cluster_file is None:
            return None
        return self._rules(read_cluster_file(Path(self.cluster_file)))

    def _rules(self, offers: Sequence[Offer]) -> HiringRules:
        return HiringRules(
            offers=offers,
            policy=MarketPolicy(self.market),
            most=self.most,
            spot_wait_s=self.spot_wait_s,
        )

    def _hiring_problems(self) -> Iterator[str]:
        if self.market not in list(MarketPolicy):
            yield f"market is {self.market!r}; it must be one of {', '.join(MarketPolicy)}."
        if self.rehearse and (self.address is not None or self.cluster_file is not None):
            yield "rehearse plays a cluster of its own: it goes with no address and cluster_file."
        if self.cluster_file is not None and self.address is None:
            yield "cluster_file is that of a running cluster: give its address too, such as auto."

    @contextlib.contextmanager
    def _cluster(self, rules: HiringRules | None) -> Iterator[Any]:
        if not self.rehearse or rules is None:
            with connected(self.address) as ray:
                yield ray
            return
        with rehearsed(rules.offers, idle_s=self.idle_s) as ray:
            yield ray


@final
class RayInsight:
    """What a Ray cluster tells of nodes that are going and machines that are coming."""

    def __init__(self, ray: Any, *, hiring: bool) -> None:
        self._ray = ray
        self._hiring = hiring
        self._asked_s = float("-inf")
        self._launching = Launching()
        self._version = -1
        self._heard_s = time.monotonic()

    def draining(self) -> Iterable[str]:
        """The ids of nodes that will be gone soon."""
        found: Iterable[str] = self._ray._private.state.state.get_draining_nodes()
        return found

    def launching(self) -> Launching:
        """What the autoscaler is about, as of the last few seconds."""
        now_s = time.monotonic()
        if self._hiring and now_s - self._asked_s >= INSIGHT_S:
            self._asked_s = now_s
            self._launching = self._ask(now_s)
        return self._launching

    def _ask(self, now_s: float) -> Launching:
        from ray.autoscaler.v2.utils import ClusterStatusParser
        from ray.core.generated.autoscaler_pb2 import GetClusterStatusReply

        reply = GetClusterStatusReply()
        try:
            client = self._ray._private.worker.global_worker.gcs_client
            reply.ParseFromString(client.get_cluster_status(timeout_s=INSIGHT_S))
        except self._ray.exceptions.RayError as error:
            return replace(self._launching, trouble=last_line(str(error)))
        version = reply.autoscaling_state.autoscaler_state_version
        if version != self._version:
            self._version, self._heard_s = version, now_s
        silent_s = now_s - self._heard_s
        broken = silent_s > AUTOSCALER_SILENCE_S
        status = ClusterStatusParser.from_get_cluster_status_reply(reply, stats=_no_stats())
        booting: dict[str, int] = {}
        for node in status.pending_nodes:
            booting[node.ray_node_type_name] = booting.get(node.ray_node_type_name, 0) + 1
        failed = [launch.details for launch in status.failed_launches if launch.details]
        return Launching(
            booting=booting,
            trouble=last_line(failed[-1]) if failed else "",
            dead=f"Ray's autoscaler has reported nothing for {silent_s:.0f} s" if broken else "",
        )


def _no_stats() -> Any:
    from ray.autoscaler.v2.schema import Stats

    return Stats()


def _node_id() -> str:
    """The node on which this is called."""
    import ray

    return str(ray.get_runtime_context().get_node_id())


@contextlib.contextmanager
def _given(work: Work, trials: Sequence[Trial]) -> Iterator[Luggage | None]:
    """What nodes that do not see the run's directory need; None where the work names none."""
    session = getattr(work, "session", None)
    if not isinstance(session, Session):
        yield None
        return
    given = luggage(session, trials, f".seen-{secrets.token_hex(8)}")
    sign = given.directory / given.nonce
    sign.touch()
    try:
        yield given
    finally:
        sign.unlink(missing_ok=True)


def _address_problems(address: str) -> list[str]:
    problems = []
    if not address.strip():
        problems.append("address is empty; use null for this machine, or HOST:6379, or auto.")
    if os.environ.get("RAY_AUTH_MODE") != "token":
        problems.append(
            f"address is {address!r}, but RAY_AUTH_MODE is "
            f"{os.environ.get('RAY_AUTH_MODE', 'not set')!r}: a cluster without token "
            "authentication runs anybody's code. Set RAY_AUTH_MODE=token and the cluster's token "
            "(RAY_AUTH_TOKEN_PATH, or `ray get-auth-token`) here and on every node."
        )
    return problems


@contextlib.contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Ray, connected for as long as a sweep lasts; a cluster started here ends here."""
    for name, value in (LOCAL_SETTINGS if address is None else COMMON_SETTINGS).items():
        os.environ.setdefault(name, value)
    import ray

    if ray.is_initialized():
        if address is None:
            raise ConfigError(
                ["This process is connected to a Ray cluster already; use executor.address=auto."]
            )
        yield ray
        return
    try:
        _start_here(ray) if address is None else _join(ray, address)
        yield ray
    finally:
        ray.shutdown()


@contextlib.contextmanager
def rehearsed(offers: Sequence[Offer], *, idle_s: float) -> Iterator[Any]:
    """Ray, connected to a cluster of played machines that ends with it, however it ends."""
    for name, value in LOCAL_SETTINGS.items():
        os.environ.setdefault(name, value)
    if not _has_token():
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    import ray

    if ray.is_initialized():
        raise ConfigError(["This process is connected to a Ray cluster already; end that first."])
    ray._raylet.Config.initialize("")  # see _start_here
    stage = open_stage(offers, idle_s=idle_s, environment={})
    try:
        _await_stage(stage)
        with _keeping_to_loopback():
            ray.init(address=stage.address, _node_ip_address=LOOPBACK, **QUIET)
        ray._private.worker.print_to_stdstream = _note  # that machines end is no news here
        yield ray
    finally:
        ray.shutdown()
        stage.end()


def _note(told: Mapping[str, Any], ignore_prefix: bool = False) -> None:
    """What Ray would print of its nodes."""
    del ignore_prefix
    logger.debug("ray_says=%r", told.get("lines"))


def _await_stage(stage: Stage) -> None:
    """Return when the head says that it runs."""
    deadline_s = time.monotonic() + STAGE_S
    while "Ray runtime started" not in stage.log():
        if stage.guard.poll() is not None or time.monotonic() > deadline_s:
            raise ExecutorError(
                "The rehearsal's head did not start; executor=process does without Ray: "
                f"{last_line(stage.log())}"
            )
        time.sleep(0.1)


def _start_here(ray: Any) -> None:
    """A cluster of this machine alone; tried twice, for a busy machine misses Ray's fixed 30 s."""
    if not _has_token():
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    ray._raylet.Config.initialize(
        ""
    )  # Ray read the variables when it was imported, perhaps long ago
    try:
        _init_here(ray)
    except ExecutorError as error:
        logger.warning("ray_start=failed attempt=1 reason=%r", str(error))
        ray.shutdown()
        _init_here(ray)


def _init_here(ray: Any) -> None:
    try:
        with _keeping_to_loopback():
            ray.init(
                address="local",
                num_cpus=1,
                resources={f"{RESOURCE_PREFIX}{kind}": 1 for kind in LOCAL_KINDS},
                include_dashboard=False,
                object_store_memory=LOCAL_OBJECT_STORE_BYTES,
                _node_ip_address=LOOPBACK,
                **QUIET,
            )
    except Exception as error:  # Ray raises a bare one when its time is over
        raise ExecutorError(
            "Ray did not start on this machine; executor=process does without it: "
            f"{last_line(str(error))}"
        ) from error


@contextlib.contextmanager
def _keeping_to_loopback() -> Iterator[None]:
    """Listens on loopback only: left alone, Ray takes 127.0.0.1 for the outer address."""
    from ray._private import ray_constants

    outer = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = outer


def ray_command(arguments: Sequence[str]) -> None:
    """Ray's own command, whose 127.0.0.1 stays what it is: for a rehearsal's nodes."""
    from ray._private import services
    from ray.scripts.scripts import cli

    services.resolve_ip_for_localhost = str
    services.get_node = _patiently(services.get_node)
    cli(list(arguments))


def _patiently(get_node: Callable[..., Any]) -> Callable[..., Any]:
    """A busy machine misses the fixed 30 s in which Ray wants its node to be registered."""

    def get(*arguments: Any, **keywords: Any) -> Any:
        deadline_s = time.monotonic() + STAGE_S
        while True:
            try:
                return get_node(*arguments, **keywords)
            except RuntimeError:
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(0.2)

    return get


def _join(ray: Any, address: str) -> None:
    _knock(address)
    try:
        ray.init(address=address, **QUIET)
    except Exception as error:  # which one depends on the kind of address
        raise ExecutorError(
            f"Cannot connect to the Ray cluster at {address!r}: {last_line(str(error))}. Is it "
            "up, does it use RAY_AUTH_MODE=token, and is its token the one given here?"
        ) from error


def _knock(address: str) -> None:
    """Says at once that nobody listens: Ray itself tries for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK_S).close()
    except OSError as error:
        raise ExecutorError(
            f"Nobody answers at {address!r} ({error}). Start the cluster's head, or name another "
            "executor.address; from outside its network, forward the port first."
        ) from error


def _has_token() -> bool:
    named = os.environ.keys() & {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"}
    return bool(named) or (Path.home() / ".ray" / "auth_token").exists()


if __name__ == "__main__":
    ray_command(sys.argv[1:])
