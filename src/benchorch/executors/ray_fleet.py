"""One agent on each measuring slot of a Ray cluster, on nodes that are there or that it launches.

A node announces a measuring slot by the custom resource ``benchorch:<kind>``. On every slot one
long-lived agent (a Ray actor) holds that resource, so nothing else measures there; it takes
leases and runs them with the `TrialRunner` it was given, which supervises plain child processes.

Where machines are hired, an agent is sent out without knowing where to: it waits for a node with
its resource and labels, and that it waits makes Ray's autoscaler launch one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import queue
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias, final

from benchorch.domain.codec import Json
from benchorch.executors.nodes import host_of, kinds_of, last_line, post_of, slots_of
from benchorch.executors.scheduling.agent import Agent, AgentReport, News, Outfit
from benchorch.executors.scheduling.capacity import CapacityPlanner, CapacityRules, ClusterState
from benchorch.executors.scheduling.cluster_file import RESOURCE_PREFIX, Placement
from benchorch.executors.scheduling.cluster_status import (
    AutoscalerStatus,
    NoInsight,
    PendingNode,
    no_machine,
)
from benchorch.executors.scheduling.dispatcher import (
    LOOK_S,
    Ended,
    Faulted,
    Fleet,
    Joined,
    Leaving,
    Lost,
    Message,
    NoCapacity,
    TrialEvents,
)
from benchorch.executors.scheduling.file_transfer import unpack
from benchorch.executors.scheduling.leases import TrialLease
from benchorch.interfaces.executor import TrialRunner

Answer: TypeAlias = "Future[Any]"

NEWS = "news"
"""The concurrency group in which an agent answers while it works."""

SILENCE_S = 120.0
"""An agent that has not answered for so long is lost, even if Ray still believes in its node."""

MAX_START_FAILURES = 3
"""A slot on which so many agents have died without ever answering is left alone."""


@final
@dataclass(slots=True)
class _Agent:
    """What the driver knows of one agent.

    Attributes:
        node: the id of its node; empty until an agent that was sent out has told.
        post: where it was sent; None where it was started on a node that was there.
    """

    name: str
    kinds: tuple[str, ...]
    node: str
    host: str
    handle: Any
    post: Placement | None = None
    greeting: Answer | None = None
    news: Answer | None = None
    heard_s: float = 0.0
    leaving: bool = False
    calls: dict[Answer, TrialLease] = field(default_factory=dict)


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
        outfit: what agents are given besides.
        hiring: what may be launched; None where nodes come and go by themselves.
        insight: what else the cluster tells.
        facts: what is added to the environment of each result.
        inbox: where answers arrive.
        now_s: a monotonic time in seconds.
    """

    def __init__(
        self,
        ray: Any,
        work: TrialRunner,
        *,
        outfit: Outfit | None = None,
        hiring: CapacityRules | None = None,
        insight: AutoscalerStatus | None = None,
        facts: Mapping[str, Json] | None = None,
        inbox: Inbox | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ray = ray
        self._work = ray.put(work)
        self._outfit = ray.put(outfit or Outfit())
        self._folders = None
        if outfit is not None and outfit.luggage is not None:
            self._folders = outfit.luggage.directory / "trials"
        self._actor = ray.remote(concurrency_groups={NEWS: 1})(Agent)
        self._rules = hiring
        self._recruiter = None if hiring is None else CapacityPlanner(hiring)
        self._insight: AutoscalerStatus = insight or NoInsight()
        self._launching = PendingNode()
        self._facts = facts or {}
        self._agents: dict[str, _Agent] = {}
        self._nodes: list[Mapping[str, Any]] = []
        self._mail: list[Message] = []
        self._answers: Inbox = queue.SimpleQueue() if inbox is None else inbox
        self._now_s = now_s
        self._failures: Counter[str] = Counter()
        self._last_failure: dict[str, str] = {}
        self._numbers = itertools.count(1)
        self._looked_s = float("-inf")
        self._headless = False

    def want(self, waiting: Mapping[str, int]) -> None:
        """Look at the cluster once in a while; agents on every free slot of these kinds."""
        now_s = self._now_s()
        if now_s - self._looked_s < LOOK_S:
            return
        self._looked_s = now_s
        self._headless = not self._insight.answers()
        if self._headless:
            return  # whatever is asked of a head that is gone hangs; agents' answers still come
        for agent in [a for a in self._agents.values() if waiting.keys().isdisjoint(a.kinds)]:
            self._dismiss(agent)
        self._nodes = [node for node in self._ray.nodes() if node["Alive"]]
        self._mourn(now_s)
        self._warn(set(self._insight.draining()))
        if self._recruiter is not None:
            self._hire(self._recruiter, now_s, waiting)
            return
        for node in self._nodes:
            if not waiting.keys().isdisjoint(kinds_of(node)):
                self._staff(node)

    def slots(self, kind: str) -> int:
        """How many of this kind the living nodes announced at the last look."""
        return sum(slots_of(node) for node in self._nodes if kind in kinds_of(node))

    def is_hopeless(self, kind: str) -> bool:
        """Where machines are hired: none of this kind is declared, or nothing is launched."""
        if self._rules is None or self.slots(kind):
            return False
        return bool(self._launching.dead) or not self._rules.of(kind)

    def vacancy(self, kind: str) -> NoCapacity:
        """Why no agent of this kind is there, and what would bring one."""
        if self.slots(kind):
            detail = self._last_failure.get(kind, "its slots are held, perhaps by another sweep")
            return NoCapacity(
                failure="no_node",
                reason=f"No agent started on the {self.slots(kind)} slot(s) of kind {kind!r}: "
                f"{detail}",
                remedy="See `ray list actors`; raise executor.start_s to wait longer.",
            )
        if self._rules is not None and self._recruiter is not None:
            return no_machine(kind, self._rules, self._recruiter, self._launching)
        has = ", ".join(sorted({kind for node in self._nodes for kind in kinds_of(node)}))
        resource = f"{RESOURCE_PREFIX}{kind}"
        return NoCapacity(
            failure="no_node",
            reason=f"The cluster has no node of kind {kind!r}; it has: {has or 'none'}",
            remedy="On such a machine: ray start --address=HOST:6379 "
            f"--resources='{{\"{resource}\": 1}}'",
        )

    def send(self, lease: TrialLease) -> None:
        """Call the agent; its answer arrives in the inbox."""
        agent = self._agents.get(lease.agent)
        if agent is None:
            reason = "it was gone before it could begin"
            self._mail.append(Lost(agent=lease.agent, reason=reason, excused=True))
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
            if self._headless:  # who would kill it is gone
                agent.handle.leave.options(concurrency_group=NEWS).remote()
            self._dismiss(agent)

    def _hire(self, recruiter: CapacityPlanner, now_s: float, waiting: Mapping[str, int]) -> None:
        """Send out as many agents as there are openings, call the others back."""
        self._launching = self._insight.launching()
        self._release(waiting)
        openings = recruiter.openings(now_s, waiting, self._census())
        sought: dict[Placement, list[_Agent]] = {}
        for agent in self._agents.values():
            if agent.post is not None and agent.greeting is not None:
                sought.setdefault(agent.post, []).append(agent)
        for post, agents in sought.items():
            for agent in agents[openings.get(post, 0) :]:
                self._dismiss(agent)
        for post, count in openings.items():
            if self._failures[post.kind] < MAX_START_FAILURES:
                for _ in range(count - len(sought.get(post, ()))):
                    self._send_out(post)

    def _release(self, waiting: Mapping[str, int]) -> None:
        """Let go of agents for which there is nothing to do, so that their nodes may end."""
        for agent in list(self._agents.values()):
            idle = not agent.calls and agent.greeting is None
            if idle and (agent.leaving or not any(waiting.get(kind) for kind in agent.kinds)):
                self._dismiss(agent)
                self._mail.append(Lost(agent=agent.name, reason="it was let go", excused=True))

    def _census(self) -> ClusterState:
        """Who and what is there, by kind and market."""
        assert self._rules is not None
        posts = {offer.node_type: offer.post for offer in self._rules.offers}
        there = [a for a in self._agents.values() if a.post is not None and a.greeting is None]
        booting = self._launching.booting
        return ClusterState(
            aboard=Counter(agent.post for agent in there if agent.post is not None),
            living=Counter(post for post in map(post_of, self._nodes) if post is not None),
            booting={posts[name]: count for name, count in booting.items() if name in posts},
        )

    def _send_out(self, post: Placement) -> None:
        """An agent without a node: that it waits for one makes Ray launch it."""
        assert self._rules is not None
        gpus = next(offer.gpus for offer in self._rules.offers if offer.post == post)
        handle = self._actor.options(
            num_cpus=0,
            num_gpus=gpus,
            resources={f"{RESOURCE_PREFIX}{post.kind}": 1},
            label_selector=post.labels,
        ).remote(self._work, self._outfit)
        self._greet(handle, kinds=(post.kind,), node="", host="a node to come", post=post)

    def _staff(self, node: Mapping[str, Any]) -> None:
        here = [agent for agent in self._agents.values() if agent.node == node["NodeID"]]
        if self._failures[node["NodeID"]] < MAX_START_FAILURES:
            for _ in range(slots_of(node) - len(here)):
                self._start(node)

    def _start(self, node: Mapping[str, Any]) -> None:
        strategies = self._ray.util.scheduling_strategies
        handle = self._actor.options(
            num_cpus=0,
            num_gpus=int(node["Resources"].get("GPU", 0)) // slots_of(node),
            resources={f"{RESOURCE_PREFIX}{kind}": 1 for kind in kinds_of(node)},
            scheduling_strategy=strategies.NodeAffinitySchedulingStrategy(
                node["NodeID"], soft=False
            ),
        ).remote(self._work, self._outfit)
        self._greet(
            handle, kinds=kinds_of(node), node=node["NodeID"], host=host_of(node), post=None
        )

    def _greet(
        self, handle: Any, *, kinds: tuple[str, ...], node: str, host: str, post: Placement | None
    ) -> None:
        name = f"{kinds[0]}-{next(self._numbers)}"
        agent = _Agent(name=name, kinds=kinds, node=node, host=host, handle=handle, post=post)
        self._agents[name] = agent
        agent.greeting = self._await(agent, handle.where.remote())

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
            self._arrive(agent, str(content))
            self._mail.append(Joined(agent=agent.name, kinds=agent.kinds))
        elif answer is agent.news:
            agent.news = None
            self._take_news(agent, content)
        else:
            self._take_report(agent, agent.calls.pop(answer), content)

    def _arrive(self, agent: _Agent, node_id: str) -> None:
        """One that was sent out tells where it is; its node may be younger than the last look."""
        if agent.post is None:
            return
        known = [node for node in self._nodes if node["NodeID"] == node_id]
        if not known:
            self._nodes = [node for node in self._ray.nodes() if node["Alive"]]
            known = [node for node in self._nodes if node["NodeID"] == node_id]
        agent.node = node_id
        agent.host = host_of(known[0]) if known else node_id[:8]

    def _take_news(self, agent: _Agent, news: News) -> None:
        self._mail.append(TrialEvents(events=news.events))
        if news.notice and not agent.leaving:
            self._say_leaving(agent, news.notice)
            self._insight.drain(agent.node, news.notice)  # or the next agent comes here, too

    def _take_report(self, agent: _Agent, lease: TrialLease, report: AgentReport) -> None:
        if report.files is not None and self._folders is not None:
            try:
                unpack(report.files, self._folders / Path(lease.trial.trial_id).name)
            except ValueError as error:
                reason = f"the files from {agent.host} were refused: {error}"
                self._mail.append(Faulted(lease=lease, reason=reason))
                return
        facts = {**self._facts, **({"market": str(agent.post.market)} if agent.post else {})}
        result = report.result
        if facts:
            result = dataclasses.replace(result, environment={**result.environment, **facts})
        self._mail.append(
            Ended(lease=lease, result=result, events=report.events, busy_s=report.busy_s)
        )

    def _fault(self, agent: _Agent, answer: Answer, error: Exception) -> None:
        """The agent lives, but its work raised."""
        if answer in agent.calls:
            reason = f"the agent on {agent.host} raised {last_line(str(error))}"
            self._mail.append(Faulted(lease=agent.calls.pop(answer), reason=reason))
        else:
            self._lose(agent, str(error))

    def _warn(self, draining: set[str]) -> None:
        """Nodes that Ray knows to be going get no more leases."""
        for agent in self._agents.values():
            if agent.node in draining and agent.greeting is None:
                self._say_leaving(agent, "Ray drains its node")

    def _say_leaving(self, agent: _Agent, reason: str) -> None:
        if not agent.leaving:
            agent.leaving = True
            self._mail.append(Leaving(agent=agent.name, reason=f"{agent.host}: {reason}"))

    def _mourn(self, now_s: float) -> None:
        """Do not wait for the answers of dead nodes: after a partition they never fail."""
        alive = {node["NodeID"] for node in self._nodes}
        for agent in list(self._agents.values()):
            if agent.node and agent.node not in alive:
                self._lose(agent, "its node is dead")
            elif agent.news is not None and now_s - agent.heard_s > SILENCE_S:
                self._lose(agent, f"it has not answered for {SILENCE_S:.0f} s")

    def _lose(self, agent: _Agent, error: str) -> None:
        if agent.name not in self._agents:
            return
        reason = f"the agent on {agent.host} was lost: {last_line(error)}"
        if agent.greeting is not None:
            self._failures[agent.node or agent.kinds[0]] += 1
            self._last_failure.update(dict.fromkeys(agent.kinds, reason))
        self._dismiss(agent)
        self._mail.append(Lost(agent=agent.name, reason=reason, excused=agent.leaving))

    def _dismiss(self, agent: _Agent) -> None:
        """Forget an agent and kill it: one that is only cut off must not go on measuring."""
        del self._agents[agent.name]
        self._ray.kill(agent.handle, no_restart=True)
