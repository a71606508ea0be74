"""Trials go to the nodes of a Ray cluster whose hardware they name, one at a time on each.

A node announces a measuring slot by the custom resource ``benchorch:<kind>``. On every slot one
long-lived agent (a Ray actor) holds that resource, so nothing else measures there; it takes
leases and runs them with the `Work` it was given, which supervises plain child processes.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import queue
import secrets
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias, final

from benchorch.domain.result import TrialResult
from benchorch.domain.session import Event
from benchorch.domain.trial import Trial
from benchorch.errors import ConfigError, ExecutorError
from benchorch.executors.dispatch import (
    LOOK_S,
    Ended,
    Faulted,
    Fleet,
    Joined,
    Lost,
    Message,
    Patience,
    Said,
    dispatch,
)
from benchorch.executors.forecast import forecasts, remembered
from benchorch.executors.leases import Lease
from benchorch.interfaces.executor import Emit, Executor, Work

logger = logging.getLogger(__name__)

Answer: TypeAlias = "Future[Any]"

RESOURCE_PREFIX = "benchorch:"
LOCAL_KINDS = ("local", "local_gpu")
NEWS = "news"
"""The concurrency group in which an agent answers while it works."""

SILENCE_S = 120.0
"""An agent that has not answered for so long is lost, even if Ray still believes in its node."""

KNOCK_S = 10.0
"""How long a cluster's port may take to answer."""

MAX_START_FAILURES = 3
"""A slot on which so many agents have died without ever answering is left alone."""

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
    """

    address: str | None = None
    max_attempts: int = 3
    wait_s: float = 30.0
    start_s: float = 120.0

    def __post_init__(self) -> None:
        problems = [
            f"{name} is {value}; it must be at least {least}."
            for name, value, least in (
                ("max_attempts", self.max_attempts, 1),
                ("wait_s", self.wait_s, 0),
                ("start_s", self.start_s, 0),
            )
            if value < least
        ]
        if self.address is not None:
            problems += _address_problems(self.address)
        if problems:
            raise ConfigError(problems)

    def unreachable(self, hardware_kind: str) -> str | None:
        """Only this machine is there without an address; what a cluster has, only it knows."""
        if self.address is not None or hardware_kind in LOCAL_KINDS:
            return None
        return (
            "executor.address is null, so Ray reaches this machine alone, which is "
            f"{' or '.join(LOCAL_KINDS)} and not {hardware_kind}; set executor.address=HOST:6379 "
            "to a cluster that has one."
        )

    def run(self, trials: Sequence[Trial], work: Work, emit: Emit) -> Iterator[TrialResult]:
        """Each trial's result, from whichever slot of its kind is free first."""
        patience = Patience(
            max_attempts=self.max_attempts, wait_s=self.wait_s, start_s=self.start_s
        )
        with connected(self.address) as ray:
            fleet = RayFleet(ray, work)
            try:
                expected = forecasts(trials, remembered())
                yield from dispatch(trials, fleet, emit, patience, time.monotonic, expected)
            finally:
                fleet.close()


@final
class Agent:
    """Works through leases on one slot and keeps what was said until it is asked for."""

    def __init__(self, work: Work) -> None:
        _as_if_not_under_ray()
        self._work = work
        self._said: deque[Event] = deque(maxlen=1000)

    def run(self, trial: Trial, attempt: int) -> tuple[TrialResult, tuple[Event, ...], float]:
        """A trial's result, what was said and not yet asked for, and the seconds it took."""
        _restore_priority()
        begun_s = time.monotonic()
        result = self._work(trial, attempt=attempt, isolated=True, emit=self._said.append)
        return result, self.news(), time.monotonic() - begun_s

    def news(self) -> tuple[Event, ...]:
        """What was said since the last time; answers while a trial runs."""
        return tuple(self._said.popleft() for _ in range(len(self._said)))


def _as_if_not_under_ray() -> None:
    """Give children the thread setting of the node: Ray's OMP_NUM_THREADS=1 would slow them."""
    import psutil

    name = "OMP_NUM_THREADS"
    node = psutil.Process(os.getppid()).environ()
    os.environ.pop(name, None)
    if name in node:
        os.environ[name] = node[name]


def _restore_priority() -> None:
    """Undo Ray's niceness for this thread and its children, where the node allows it."""
    wanted = os.getpriority(os.PRIO_PROCESS, os.getppid())
    if os.getpriority(os.PRIO_PROCESS, 0) == wanted:
        return
    try:
        os.setpriority(os.PRIO_PROCESS, 0, wanted)
    except PermissionError:
        logger.warning("niceness=15 remedy='start the node with RAY_worker_niceness=0'")


@final
@dataclass(slots=True)
class _Agent:
    """What the driver knows of one agent."""

    name: str
    kinds: tuple[str, ...]
    node: str
    host: str
    handle: Any
    greeting: Answer | None = None
    news: Answer | None = None
    heard_s: float = 0.0
    calls: dict[Answer, Lease] = field(default_factory=dict)


class Inbox(Protocol):
    """Where answers arrive from Ray's own threads; ``queue.SimpleQueue`` is one."""

    def put(self, item: tuple[_Agent, Answer], /) -> None:
        """Take in an answer."""
        ...

    def get(self, *, timeout: float) -> tuple[_Agent, Answer]:
        """The next answer; queue.Empty if none came in time, in seconds."""
        ...

    def get_nowait(self) -> tuple[_Agent, Answer]:
        """The next answer; queue.Empty if there is none."""
        ...


@final
class RayFleet(Fleet):
    """One agent per announced slot of the wanted kinds.

    Args:
        ray: the connected module.
        work: what agents do with a trial.
        inbox: where answers arrive.
        now_s: a monotonic time in seconds.
    """

    def __init__(
        self,
        ray: Any,
        work: Work,
        *,
        inbox: Inbox | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ray = ray
        self._work = ray.put(work)
        self._actor = ray.remote(concurrency_groups={NEWS: 1})(Agent)
        self._agents: dict[str, _Agent] = {}
        self._nodes: list[Mapping[str, Any]] = []
        self._mail: list[Message] = []
        self._answers: Inbox = queue.SimpleQueue() if inbox is None else inbox
        self._now_s = now_s
        self._failures: Counter[str] = Counter()
        self._last_failure: dict[str, str] = {}
        self._numbers = itertools.count(1)
        self._looked_s = float("-inf")

    def want(self, kinds: Set[str]) -> None:
        """Look at the cluster once in a while; agents on every free slot of these kinds."""
        now_s = self._now_s()
        if now_s - self._looked_s < LOOK_S:
            return
        self._looked_s = now_s
        for agent in [a for a in self._agents.values() if kinds.isdisjoint(a.kinds)]:
            self._dismiss(agent)
        self._nodes = [node for node in self._ray.nodes() if node["Alive"]]
        self._mourn(now_s)
        for node in self._nodes:
            if not kinds.isdisjoint(_kinds(node)):
                self._staff(node)

    def slots(self, kind: str) -> int:
        """How many of this kind the living nodes announced at the last look."""
        return sum(_slots(node) for node in self._nodes if kind in _kinds(node))

    def vacancy(self, kind: str) -> tuple[str, str]:
        """Why no agent of this kind is there, and what would bring one."""
        resource = f"{RESOURCE_PREFIX}{kind}"
        if self.slots(kind):
            detail = self._last_failure.get(kind, "its slots are held, perhaps by another sweep")
            return (
                f"No agent started on the {self.slots(kind)} slot(s) of kind {kind!r}: {detail}",
                "See `ray list actors`; raise executor.start_s to wait longer.",
            )
        has = ", ".join(sorted({kind for node in self._nodes for kind in _kinds(node)}))
        return (
            f"The cluster has no node of kind {kind!r}; it has: {has or 'none'}",
            f"On such a machine: ray start --address=HOST:6379 --resources='{{\"{resource}\": 1}}'",
        )

    def send(self, lease: Lease) -> None:
        """Call the agent; its answer arrives in the inbox."""
        agent = self._agents.get(lease.agent)
        if agent is None:
            self._mail.append(Lost(agent=lease.agent, reason="it was lost before it could begin"))
            return
        agent.calls[self._await(agent, agent.handle.run.remote(lease.trial, lease.attempt))] = lease

    def receive(self, timeout_s: float) -> Sequence[Message]:
        """What has happened; waits for the first answer, but no longer than this."""
        self._ask_news()
        with contextlib.suppress(queue.Empty):
            self._hear(*self._answers.get(timeout=0.0 if self._mail else timeout_s))
            while True:
                self._hear(*self._answers.get_nowait())
        mail, self._mail = self._mail, []
        return mail

    def close(self) -> None:
        """End every agent, and with it what it runs."""
        for agent in list(self._agents.values()):
            self._dismiss(agent)

    def _staff(self, node: Mapping[str, Any]) -> None:
        here = [agent for agent in self._agents.values() if agent.node == node["NodeID"]]
        if self._failures[node["NodeID"]] < MAX_START_FAILURES:
            for _ in range(_slots(node) - len(here)):
                self._start(node)

    def _start(self, node: Mapping[str, Any]) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        kinds = _kinds(node)
        name = f"{kinds[0]}-{next(self._numbers)}"
        handle = self._actor.options(
            num_cpus=0,
            num_gpus=int(node["Resources"].get("GPU", 0)) // _slots(node),
            resources={f"{RESOURCE_PREFIX}{kind}": 1 for kind in kinds},
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
        ).remote(self._work)
        host = f"{node['NodeManagerHostname']} ({node['NodeID'][:8]})"
        agent = _Agent(name=name, kinds=kinds, node=node["NodeID"], host=host, handle=handle)
        self._agents[name] = agent
        agent.greeting = self._await(agent, handle.news.remote())

    def _ask_news(self) -> None:
        """Ask each agent that works, once in a while, what its trial has to say."""
        now_s = self._now_s()
        for agent in self._agents.values():
            if agent.calls and agent.news is None and now_s - agent.heard_s >= LOOK_S:
                ask = agent.handle.news.options(concurrency_group=NEWS)
                agent.news = self._await(agent, ask.remote())
                agent.heard_s = now_s

    def _await(self, agent: _Agent, ref: Any) -> Answer:
        """The answer to come. Unlike ``ray.wait`` it needs no raylet, which may be the dead one."""
        answer: Answer = ref.future()
        answer.add_done_callback(lambda done: self._answers.put((agent, done)))
        return answer

    def _hear(self, agent: _Agent, answer: Answer) -> None:
        """Turn an answer into a message; of an agent that was given up it comes too late."""
        if agent.name not in self._agents:
            return
        try:
            self._open(agent, answer, answer.result())
        except self._ray.exceptions.RayTaskError as error:
            self._fault(agent, answer, error)
        except self._ray.exceptions.RayError as error:
            self._lose(agent, str(error))

    def _open(self, agent: _Agent, answer: Answer, content: Any) -> None:
        if answer is agent.greeting:
            agent.greeting = None
            self._mail.append(Joined(agent=agent.name, kinds=agent.kinds))
        elif answer is agent.news:
            agent.news = None
            self._mail.append(Said(events=content))
        else:
            result, events, busy_s = content
            lease = agent.calls.pop(answer)
            self._mail.append(Ended(lease=lease, result=result, events=events, busy_s=busy_s))

    def _fault(self, agent: _Agent, answer: Answer, error: Exception) -> None:
        """The agent lives, but its work raised."""
        if answer in agent.calls:
            reason = f"the agent on {agent.host} raised {_last_line(str(error))}"
            self._mail.append(Faulted(lease=agent.calls.pop(answer), reason=reason))
        else:
            self._lose(agent, str(error))

    def _mourn(self, now_s: float) -> None:
        """Do not wait for the answers of dead nodes: after a partition they never fail."""
        alive = {node["NodeID"] for node in self._nodes}
        for agent in list(self._agents.values()):
            if agent.node not in alive:
                self._lose(agent, "its node is dead")
            elif agent.news is not None and now_s - agent.heard_s > SILENCE_S:
                self._lose(agent, f"it has not answered for {SILENCE_S:.0f} s")

    def _lose(self, agent: _Agent, error: str) -> None:
        if agent.name not in self._agents:
            return
        reason = f"the agent on {agent.host} was lost: {_last_line(error)}"
        if agent.greeting is not None:
            self._failures[agent.node] += 1
            self._last_failure.update(dict.fromkeys(agent.kinds, reason))
        self._dismiss(agent)
        self._mail.append(Lost(agent=agent.name, reason=reason))

    def _dismiss(self, agent: _Agent) -> None:
        """Forget an agent and kill it: one that is only cut off must not go on measuring."""
        del self._agents[agent.name]
        self._ray.kill(agent.handle, no_restart=True)


def _kinds(node: Mapping[str, Any]) -> tuple[str, ...]:
    names = sorted(node["Resources"])
    return tuple(name[len(RESOURCE_PREFIX) :] for name in names if name.startswith(RESOURCE_PREFIX))


def _slots(node: Mapping[str, Any]) -> int:
    """How many trials may be measured at once: a slot stands for all kinds of its node."""
    return min(int(node["Resources"][f"{RESOURCE_PREFIX}{kind}"]) for kind in _kinds(node))


def _last_line(text: str) -> str:
    """The end of Ray's many lines, where the reason stands."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300].rstrip(".") if lines else "no reason given"


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
    """Listens on loopback only: left alone, Ray takes 127.0.0.1 for the outer address."""
    from ray._private import ray_constants

    outer = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        ray.init(
            address="local",
            num_cpus=1,
            resources={f"{RESOURCE_PREFIX}{kind}": 1 for kind in LOCAL_KINDS},
            include_dashboard=False,
            object_store_memory=LOCAL_OBJECT_STORE_BYTES,
            _node_ip_address="127.0.0.1",
            **QUIET,
        )
    except Exception as error:  # Ray raises a bare one when its time is over
        raise ExecutorError(
            "Ray did not start on this machine; executor=process does without it: "
            f"{_last_line(str(error))}"
        ) from error
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = outer


def _join(ray: Any, address: str) -> None:
    _knock(address)
    try:
        ray.init(address=address, **QUIET)
    except Exception as error:  # which one depends on the kind of address
        raise ExecutorError(
            f"Cannot connect to the Ray cluster at {address!r}: {_last_line(str(error))}. Is it "
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
