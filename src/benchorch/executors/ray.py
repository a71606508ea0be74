"""Trials on the nodes of a Ray cluster that have their hardware, one at a time on each.

The cluster exists or is started here for the sweep; its nodes exist, or are launched by Ray's
autoscaler, or are simulated on this machine.
"""

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, final

from benchorch.config.components import make
from benchorch.domain.result import TrialResult
from benchorch.domain.session import Session
from benchorch.domain.trial import Trial
from benchorch.errors import ConfigError, ExecutorError
from benchorch.executors.nodes import last_line
from benchorch.executors.ray_cluster import RayAutoscaler, connected, simulated
from benchorch.executors.ray_fleet import RayFleet
from benchorch.executors.scheduling.agent import AgentSetup
from benchorch.executors.scheduling.assignments import hardware_kind
from benchorch.executors.scheduling.capacity import CapacityRules, MarketPolicy
from benchorch.executors.scheduling.cluster_file import (
    NodeType,
    aws_cluster,
    locked_packages,
    read_cluster_file,
)
from benchorch.executors.scheduling.dispatcher import RetryLimits, dispatch
from benchorch.executors.scheduling.duration_forecast import forecasts, past_durations
from benchorch.executors.scheduling.file_transfer import ShippedFiles, collect_files
from benchorch.executors.scheduling.queue import Forecast, SharedBuilds
from benchorch.executors.scheduling.spending import SpendingMeter
from benchorch.executors.simulated_fleet import simulated_node_types
from benchorch.host.machine_kind import LOCAL_KINDS
from benchorch.interfaces.attempt_files import AttemptFiles
from benchorch.interfaces.executor import (
    ARCHIVE_VARIABLE,
    Emit,
    Executor,
    R,
    T,
    TrialRunner,
    Way,
)
from benchorch.interfaces.launched_machines import LaunchedMachines
from benchorch.interfaces.node_starts import NodeStarts
from benchorch.interfaces.store import Store

CHEAPEST, ANYWHERE = BUILD_ON = ("cheapest", "anywhere")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RayExecutor(Executor):
    """Runs trials on a Ray cluster: this machine's own, or an existing one.

    Attributes:
        address: null for a cluster of this machine alone, with one slot that stands for
            ``local`` and ``local_gpu``; ``host:port`` or ``auto`` for a running one.
        max_attempts: attempts per trial if its node is lost.
        wait_s: seconds to wait for the first node of a hardware kind.
        start_s: seconds that an agent may take to start on a node.
        cluster_file: Ray's own on the head, whose node types are launched as needed; None if
            nodes come and go by themselves.
        rehearse: simulate the nodes of a fleet on this machine; only without an address.
        market: ``spot``, ``on_demand`` or ``spot_then_on_demand``: where nodes are launched.
        most: nodes of a kind at a time; None for as many as the cluster file allows.
        spot_wait_s: seconds to wait for spot capacity before falling back to on-demand.
        idle_s: seconds without work after which a simulated node is terminated.
        metadata: URL of the service that announces spot interruptions; None for no requests.
        build_on: ``cheapest``: artifacts that kinds share are built once, on the cheapest of
            them, before nodes of the others are launched; ``anywhere``: by the first that needs
            them.
        starts: ``s3://bucket/prefix`` where launched nodes say why they could not join; None if
            nowhere.
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
    starts: str | None = None

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
        if self.address is not None and not self.address.strip():
            problems.append("address is empty; use null for this machine, or HOST:6379, or auto.")
        problems += self._capacity_problems()
        if problems:
            raise ConfigError(problems)

    def unreachable(self, hardware_kind: str) -> str | None:
        """Without an address only this machine is reachable; a cluster reports its own nodes."""
        if self.rehearse:
            return None
        if self.cluster_file is not None:
            try:
                return self._rules(read_cluster_file(Path(self.cluster_file))).undeclared(
                    hardware_kind
                )
            except ConfigError as error:
                return error.problems[0]
        if self.address is not None or hardware_kind in LOCAL_KINDS:
            return None
        return (
            f"hardware={hardware_kind} needs a Ray cluster that has one "
            "(executor.address=HOST:6379); without executor.address Ray uses this machine alone, "
            f"which is {' or '.join(f'`{kind}`' for kind in LOCAL_KINDS)}."
        )

    def problems(self) -> Sequence[str]:
        """A cluster that is reached without token authentication is refused."""
        mode = os.environ.get("RAY_AUTH_MODE")
        if self.address is None or mode == "token":
            return ()
        return (
            f"executor: address is {self.address!r}, but RAY_AUTH_MODE is {mode or 'not set'!r}: a "
            "cluster without token authentication runs code from any client. Set "
            "RAY_AUTH_MODE=token and the cluster's token (RAY_AUTH_TOKEN_PATH, or `ray "
            "get-auth-token`) here and on every node.",
        )

    def way(self, hardware_kind: str) -> Way:
        """Always Ray, on this machine too."""
        return Way.NONE if self.unreachable(hardware_kind) is not None else Way.RAY

    def launches(self, hardware_kind: str) -> bool:
        """If there is a cluster file, by which Ray launches nodes."""
        return self.cluster_file is not None

    def packages(self, hardware_kind: str) -> Mapping[str, str] | None:
        """Packages in the lock of the cluster file's node type; without one, this machine's."""
        # Without a readable file the kind is unreachable, which `unreachable` explains.
        if self.cluster_file is None or self.unreachable(hardware_kind):
            return None
        path = Path(self.cluster_file)
        found = self._rules(read_cluster_file(path)).of(hardware_kind)
        return locked_packages(path, found[0]) if found else None

    def archive_url(self) -> str | None:
        """Archive URL from this machine's environment, if there is a cluster file."""
        return os.environ.get(ARCHIVE_VARIABLE) if self.cluster_file is not None else None

    def region(self) -> str | None:
        """The cluster file's, where that is AWS's."""
        return (self._aws() or {}).get("region")

    def is_simulated(self) -> bool:
        """If `rehearse` is set."""
        return self.rehearse

    def is_remote(self) -> bool:
        """If there is an address, which leads to other machines."""
        return self.address is not None

    def run(self, trials: Sequence[Trial], work: TrialRunner, emit: Emit) -> Iterator[TrialResult]:
        """Each trial's result, from the first free slot of its kind; ConfigError for `problems`."""
        with contextlib.closing(self.run_grouped(trials, work, emit)) as groups:
            yield from chain.from_iterable(groups)

    def run_grouped(
        self, trials: Sequence[Trial], work: TrialRunner, emit: Emit
    ) -> Generator[Sequence[TrialResult]]:
        """As `run`, in groups of the results that came while the last one was being stored."""
        if self.problems():
            raise ConfigError(self.problems())
        limits = RetryLimits(
            max_attempts=self.max_attempts, wait_s=self.wait_s, start_s=self.start_s
        )
        rules = self._capacity_rules(trials)
        session = getattr(work, "session", None)
        session = session if isinstance(session, Session) else None
        with self._shipped(session, trials) as shipped, self._cluster(rules) as ray:
            fleet = RayFleet(
                ray,
                work,
                RayAutoscaler(
                    ray,
                    launches=rules is not None,
                    starts=self._starts(),
                    machines=self._machines(),
                ),
                setup=AgentSetup(
                    node=_node_id,
                    gpus=_gpus,
                    shipped=shipped,
                    uploads=self._uploads(session),
                    metadata=self.metadata,
                ),
                rules=rules,
                facts={"rehearsed": True} if self.rehearse else {},
            )
            try:
                expected = forecasts(trials, past_durations())
                shared = self._shared_builds(trials, expected, session)
                yield from dispatch(
                    *(trials, fleet, emit, limits, time.monotonic, expected, shared),
                    spending=_meter(session),
                )
            finally:
                fleet.close()

    def spread(
        self, work: Callable[[T], R], items: Sequence[T]
    ) -> Iterator[tuple[int, R | ExecutorError]] | None:
        """One task of Ray for each item; None for simulated nodes. ConfigError for `problems`."""
        if self.problems():
            raise ConfigError(self.problems())
        return None if self.rehearse else self._spread(work, items)

    def _spread(
        self, work: Callable[[T], R], items: Sequence[T]
    ) -> Iterator[tuple[int, R | ExecutorError]]:
        with connected(self.address) as ray:
            task = ray.remote(num_cpus=1, max_retries=self.max_attempts - 1)(work)
            waiting = {task.remote(item): number for number, item in enumerate(items)}
            try:
                while waiting:
                    (ended,), _ = ray.wait(list(waiting), num_returns=1)
                    yield waiting.pop(ended), _result(ray, ended)
            finally:
                for reference in waiting:
                    ray.cancel(reference, force=True)

    def _uploads(self, session: Session | None) -> AttemptFiles | None:
        """The run's archive, where it is the one that launched nodes may add to."""
        url = self.archive_url()
        if session is None or url is None or session.archive_url != url:
            return None
        target = "benchorch.stores.attempt_bucket.AttemptBucket"
        node = {"_target_": target, "url": f"{url}/{session.plan_id}"}
        return make(node, AttemptFiles, "keep_at")

    def _starts(self) -> NodeStarts | None:
        node = {"_target_": "benchorch.hardware.aws_starts.AwsStarts", "url": self.starts}
        return make(node, NodeStarts, "executor.starts") if self.starts else None

    def _machines(self) -> LaunchedMachines | None:
        """The cloud's machines of the cluster file, where that is AWS's."""
        found = self._aws()
        node = {"_target_": "benchorch.hardware.aws_machines.AwsMachines", **(found or {})}
        return make(node, LaunchedMachines, "executor.cluster_file") if found else None

    def _aws(self) -> Mapping[str, str] | None:
        return aws_cluster(Path(self.cluster_file)) if self.cluster_file else None

    def _shared_builds(
        self, trials: Sequence[Trial], expected: Mapping[str, Forecast], session: Session | None
    ) -> SharedBuilds:
        """Builds before some of the trials; none if other nodes would not find them."""
        if self.build_on != CHEAPEST or session is None or session.rebuild != "if_needed":
            return SharedBuilds()
        if self.is_remote() and not make(session.store, Store, "store").is_shared():
            return SharedBuilds()
        from benchorch.executors.scheduling.shared_builds import plan_shared_builds

        return plan_shared_builds(trials, expected, session.prices)

    def _capacity_rules(self, trials: Sequence[Trial]) -> CapacityRules | None:
        if self.rehearse:
            kinds = {hardware_kind(trial) for trial in trials}
            return self._rules(simulated_node_types(kinds, self.most or 1))
        if self.cluster_file is None:
            return None
        return self._rules(read_cluster_file(Path(self.cluster_file)))

    def _rules(self, node_types: Sequence[NodeType]) -> CapacityRules:
        return CapacityRules(
            node_types=node_types,
            policy=MarketPolicy(self.market),
            max_nodes=self.most,
            spot_wait_s=self.spot_wait_s,
        )

    def _capacity_problems(self) -> Iterator[str]:
        if self.market not in list(MarketPolicy):
            yield f"market is {self.market!r}; it must be one of {', '.join(MarketPolicy)}."
        if self.build_on not in BUILD_ON:
            yield f"build_on is {self.build_on!r}; it must be one of {', '.join(BUILD_ON)}."
        if self.rehearse and (self.address is not None or self.cluster_file is not None):
            yield "rehearse simulates a cluster of its own: remove address and cluster_file."
        if self.cluster_file is not None and self.address is None:
            yield "cluster_file is that of a running cluster: set its address too, such as auto."

    def _cluster(self, rules: CapacityRules | None) -> contextlib.AbstractContextManager[Any]:
        if self.rehearse and rules is not None:
            return simulated(rules.node_types, idle_s=self.idle_s)
        return connected(self.address)

    @contextlib.contextmanager
    def _shipped(
        self, session: Session | None, trials: Sequence[Trial]
    ) -> Iterator[ShippedFiles | None]:
        """Files for nodes that do not share the run's directory; None if there are none."""
        if not self.is_remote() or session is None:
            yield None
            return
        shipped = collect_files(session, trials, f".seen-{secrets.token_hex(8)}")
        probe = shipped.directory / shipped.probe
        probe.touch()
        try:
            yield shipped
        finally:
            probe.unlink(missing_ok=True)


def _meter(session: Session | None) -> SpendingMeter:
    if session is None:
        return SpendingMeter()
    return SpendingMeter(rules=session.spending, prices=session.prices)


def _result(ray: Any, reference: Any) -> Any:
    """What a task returned; an ExecutorError where it could not."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        return ExecutorError(last_line(str(error)))


def _node_id() -> str:
    """The node on which this is called."""
    import ray

    return str(ray.get_runtime_context().get_node_id())


def _gpus() -> Sequence[int]:
    """The GPUs that Ray gave the actor in which this is called."""
    import ray

    found = ray.get_runtime_context().get_accelerator_ids().get("GPU", ())
    return [int(gpu) for gpu in found if gpu.isdigit()]  # parts of GPUs have other names
