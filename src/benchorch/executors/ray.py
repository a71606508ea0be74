"""Trials go to the nodes of a Ray cluster whose hardware they name, one at a time on each.

The cluster is there, or it is started here for the sweep; its machines are there, or they are
hired by Ray's autoscaler, or they are played on this one.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from benchorch.config.components import make
from benchorch.domain.result import TrialResult
from benchorch.domain.session import Session
from benchorch.domain.trial import Trial
from benchorch.errors import ConfigError
from benchorch.executors.ray_cluster import LOCAL_KINDS, RayInsight, connected, rehearsed
from benchorch.executors.ray_fleet import RayFleet
from benchorch.executors.scheduling.agent import Outfit
from benchorch.executors.scheduling.capacity import CapacityRules, MarketPolicy
from benchorch.executors.scheduling.cluster_file import NodeType, read_cluster_file
from benchorch.executors.scheduling.dispatcher import Patience, dispatch
from benchorch.executors.scheduling.duration_forecast import forecasts, remembered
from benchorch.executors.scheduling.file_transfer import Luggage, luggage
from benchorch.executors.scheduling.leases import hardware_kind
from benchorch.executors.scheduling.queue import Forecast, SharedBuilds
from benchorch.executors.simulated_fleet import rehearsed_offers
from benchorch.interfaces.executor import Emit, Executor, TrialRunner
from benchorch.interfaces.store import Store

CHEAPEST, ANYWHERE = BUILD_ON = ("cheapest", "anywhere")


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
        build_on: ``cheapest``: what kinds can share is built once, on the cheapest of them,
            before machines of the others are hired for it; ``anywhere``: by whoever comes first.
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
    build_on: str = ANYWHERE

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

    def is_simulated(self) -> bool:
        """Where a fleet is rehearsed."""
        return self.rehearse

    def is_remote(self) -> bool:
        """Where an address leads to other machines."""
        return self.address is not None

    def run(self, trials: Sequence[Trial], work: TrialRunner, emit: Emit) -> Iterator[TrialResult]:
        """Each trial's result, from whichever slot of its kind is free first."""
        patience = Patience(
            max_attempts=self.max_attempts, wait_s=self.wait_s, start_s=self.start_s
        )
        rules = self._hiring(trials)
        session = _session_of(work)
        away = self.is_remote()
        with _given(session, trials, away) as given, self._cluster(rules) as ray:
            fleet = RayFleet(
                ray,
                work,
                outfit=Outfit(node=_node_id, luggage=given, metadata=self.metadata),
                hiring=rules,
                insight=RayInsight(ray, hiring=rules is not None),
                facts={"rehearsed": True} if self.rehearse else {},
            )
            try:
                told = forecasts(trials, remembered())
                ahead = self._ahead(trials, told, session)
                yield from dispatch(trials, fleet, emit, patience, time.monotonic, told, ahead)
            finally:
                fleet.close()

    def _ahead(
        self, trials: Sequence[Trial], told: Mapping[str, Forecast], session: Session | None
    ) -> SharedBuilds:
        """What is built before some of the trials; nothing where it would not be found."""
        if self.build_on != CHEAPEST or session is None or session.rebuild != "if_needed":
            return SharedBuilds()
        if self.is_remote() and not make(session.store, Store, "store").is_shared():
            return SharedBuilds()
        from benchorch.executors.scheduling.shared_builds import builds_ahead

        return builds_ahead(trials, told, session.prices)

    def _hiring(self, trials: Sequence[Trial]) -> CapacityRules | None:
        if self.rehearse:
            kinds = {hardware_kind(trial) for trial in trials}
            return self._rules(rehearsed_offers(kinds, self.most or 1))
        if self.cluster_file is None:
            return None
        return self._rules(read_cluster_file(Path(self.cluster_file)))

    def _rules(self, offers: Sequence[NodeType]) -> CapacityRules:
        return CapacityRules(
            offers=offers,
            policy=MarketPolicy(self.market),
            most=self.most,
            spot_wait_s=self.spot_wait_s,
        )

    def _hiring_problems(self) -> Iterator[str]:
        if self.market not in list(MarketPolicy):
            yield f"market is {self.market!r}; it must be one of {', '.join(MarketPolicy)}."
        if self.build_on not in BUILD_ON:
            yield f"build_on is {self.build_on!r}; it must be one of {', '.join(BUILD_ON)}."
        if self.rehearse and (self.address is not None or self.cluster_file is not None):
            yield "rehearse plays a cluster of its own: it goes with no address and cluster_file."
        if self.cluster_file is not None and self.address is None:
            yield "cluster_file is that of a running cluster: give its address too, such as auto."

    @contextlib.contextmanager
    def _cluster(self, rules: CapacityRules | None) -> Iterator[Any]:
        if not self.rehearse or rules is None:
            with connected(self.address) as ray:
                yield ray
            return
        with rehearsed(rules.offers, idle_s=self.idle_s) as ray:
            yield ray


def _node_id() -> str:
    """The node on which this is called."""
    import ray

    return str(ray.get_runtime_context().get_node_id())


def _session_of(work: TrialRunner) -> Session | None:
    session = getattr(work, "session", None)
    return session if isinstance(session, Session) else None


@contextlib.contextmanager
def _given(
    session: Session | None, trials: Sequence[Trial], away: bool
) -> Iterator[Luggage | None]:
    """What nodes that do not see the run's directory need; None where the work names none."""
    if not away or session is None:
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
