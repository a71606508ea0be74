"""Agents on each measuring slot of a Ray cluster, on existing or newly launched nodes.

A node announces a measuring slot by the custom resource ``benchorch:<kind>``. On every slot one
long-lived agent (a Ray actor) holds that resource, so nothing else measures there; it receives
assignments and runs them with its `TrialRunner`, which supervises plain child processes.

If nodes can be launched, an agent is started without a node: it is pending until there is a node
with its resource and labels, and pending actors make Ray's autoscaler launch one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import logging
import queue
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, final

from benchorch.domain.codec import Json
from benchorch.executors.nodes import host_of, kinds_of, last_line, placement_of, slots_of
from benchorch.executors.ray_cluster import RayAutoscaler
from benchorch.executors.scheduling.agent import Agent, AgentReport, AgentSetup, AgentUpdate
from benchorch.executors.scheduling.assignments import TaskAssignment
from benchorch.executors.scheduling.capacity import CapacityPlanner, CapacityRules, ClusterState
from benchorch.executors.scheduling.cluster_file import RESOURCE_PREFIX, Placement
from benchorch.executors.scheduling.cluster_status import LaunchStatus, explain_no_capacity
from benchorch.executors.scheduling.dispatcher import (
    POLL_S,
    Faulted,
    Finished,
    Fleet,
    Joined,
    Leaving,
    Lost,
    Message,
    NoCapacity,
    TrialEvents,
)
from benchorch.executors.scheduling.file_transfer import write_folder
from benchorch.interfaces.executor import TrialRunner

LOG = logging.getLogger(__name__)

Reply: TypeAlias = "Future[Any]"

UPDATES = "updates"
"""The concurrency group in which an agent replies while it works."""

SILENCE_S = 120.0
"""An agent that has not replied for so long is lost, even if Ray counts its node as alive."""

MAX_START_FAILURES = 3
"""No more agents are started on a node, or on nodes to come of a kind, where so many in succession
have died without ever replying, and no more nodes of a kind of which so many have booted and could
not join."""


@final
@dataclass(slots=True)
class _Agent:
    """Coordinator's view of one agent.

    Attributes:
        node: the id of its node; empty while the agent is pending.
        placement: requested for it; None if it was started on an existing node.
        greeting: the first call, until its reply comes.
        updated_s: when its last update was requested.
        leaving: why its node ends soon; empty where it does not.
        calls: replies to come, with their assignments.
    """

    name: str
    kinds: tuple[str, ...]
    node: str
    host: str
    handle: Any
    placement: Placement | None = None
    greeting: Reply | None = None
    update: Reply | None = None
    updated_s: float = 0.0
    leaving: str = ""
    calls: dict[Reply, TaskAssignment] = field(default_factory=dict)


@final
class RayFleet(Fleet):
    """One agent per announced slot of the requested kinds.

    Args:
        ray: the connected module.
        work: runs a trial on its node.
        autoscaler: what else the cluster reports.
        setup: of all agents.
        rules: what may be launched; None if nodes come and go by themselves.
        facts: added to the environment of each result.
        inbox: where replies arrive from Ray's own threads.
        now_s: a monotonic time in seconds.
    """

    def __init__(
        self,
        ray: Any,
        work: TrialRunner,
        autoscaler: RayAutoscaler,
        *,
        setup: AgentSetup | None = None,
        rules: CapacityRules | None = None,
        facts: Mapping[str, Json] | None = None,
        inbox: queue.SimpleQueue[tuple[_Agent, Reply]] | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ray = ray
        self._work = ray.put(work)
        self._setup = ray.put(setup or AgentSetup())
        self._folders = None
        if setup is not None and setup.shipped is not None:
            self._folders = setup.shipped.directory / "trials"
        self._actor = ray.remote(concurrency_groups={UPDATES: 1})(Agent)
        self._rules = rules
        self._planner = None if rules is None else CapacityPlanner(rules)
        self._autoscaler = autoscaler
        self._launches = LaunchStatus()
        self._facts = facts or {}
        self._agents: dict[str, _Agent] = {}
        self._nodes: list[Mapping[str, Any]] = []
        self._others: set[str] = set()
        self._others_boot = False
        self._messages: list[Message] = []
        self._replies = queue.SimpleQueue() if inbox is None else inbox
        self._now_s = now_s
        self._kinds: set[str] = set()
        self._failures: Counter[str] = Counter()
        self._last_failure: dict[str, str] = {}
        self._numbers = itertools.count(1)
        self._polled_s = float("-inf")
        self._headless = False

    def request(self, queued: Mapping[str, int]) -> None:
        """Poll the cluster once in a while; start agents on every free slot of these kinds."""
        now_s = self._now_s()
        if now_s - self._polled_s < POLL_S:
            return
        self._polled_s = now_s
        self._headless = not self._autoscaler.is_alive()
        if self._headless:
            return  # any request to a head that is gone hangs; agents' replies still come
        self._kinds |= queued.keys()
        for agent in [a for a in self._agents.values() if queued.keys().isdisjoint(a.kinds)]:
            self._kill(agent)
        self._nodes = [node for node in self._ray.nodes() if node["Alive"]]
        self._check_nodes(now_s)
        draining = set(self._autoscaler.draining())
        for agent in self._agents.values():
            if agent.node in draining and agent.greeting is None:
                self._mark_leaving(agent, "Ray drains its node")
        if self._planner is not None:
            self._note_others()
            self._plan_capacity(self._planner, now_s, queued)
            return
        for node in self._nodes:
            if not queued.keys().isdisjoint(kinds_of(node)):
                self._fill_slots(node)

    def machines(self) -> Mapping[Placement, int]:
        """Launched nodes of the sweep's kinds, alive or booting, at the last poll.

        Nodes that another sweep uses are that one's; of those that boot while another sweep waits
        for some, no more count than agents are pending.
        """
        if self._rules is None:
            return {}
        found = Counter(
            placement for placement in map(placement_of, self._own_nodes()) if placement is not None
        )
        pending = Counter(a.placement for a in self._agents.values() if a.greeting is not None)
        for placement, count in self._cluster_state().booting.items():
            most = -(-pending[placement] // self._rules.slots(placement.kind))
            found[placement] += min(count, most) if self._others_boot else count
        return {place: count for place, count in found.items() if place.kind in self._kinds}

    def terminate(self) -> None:
        """Kill every agent and drain its node, which the autoscaler terminates as it is idle.

        Machines that boot are ended by their cloud, where the cluster file names it; a simulated
        one once it has been idle for long enough. Those that another sweep uses or may wait for
        are left.
        """
        for agent in list(self._agents.values()):
            self._kill(agent)
        for node in self._own_nodes():
            placement = placement_of(node)
            if placement is not None and placement.kind in self._kinds:
                self._autoscaler.drain(node["NodeID"], "the sweep's budget is spent")
        if not self._others_boot:
            joined = {node["NodeManagerAddress"] for node in self._nodes}
            self._autoscaler.end_booting(self._kinds, joined)

    def slots(self, kind: str) -> int:
        """How many of this kind living nodes announced at the last poll, less other sweeps'."""
        return sum(slots_of(node) for node in self._own_nodes() if kind in kinds_of(node))

    def slots_each(self, kind: str) -> int:
        """Slots in the cluster file; 1 where nodes join by themselves."""
        return self._rules.slots(kind) if self._rules else 1

    def is_taken(self, kind: str) -> bool:
        """Other sweeps use all nodes that the cluster file allows, in a market of this sweep."""
        if self._rules is None or self.slots(kind):
            return False
        return any(map(self._cluster_state().is_taken, self._rules.of(kind)))

    def cannot_launch(self, kind: str) -> bool:
        """Nodes of this kind are not declared, or nothing starts, or the autoscaler is broken."""
        if self._rules is None or self.slots(kind):
            return False
        fails = len(self._launches.failed_starts.get(kind, ())) >= MAX_START_FAILURES
        fails = fails or self._failures[kind] >= MAX_START_FAILURES
        return fails or bool(self._launches.stopped) or not self._rules.of(kind)

    def no_capacity(self, kind: str) -> NoCapacity:
        """Why no agent of this kind is there, and what would bring one."""
        if self.slots(kind):
            detail = self._last_failure.get(kind, "its slots are held, perhaps by another sweep")
            return NoCapacity(
                failure="no_node",
                reason=f"No agent started on the {self.slots(kind)} slot(s) of kind {kind!r}: "
                f"{detail}",
                remedy="See `ray list actors` on the head; with executor=ray or ec2 raise "
                "executor.start_s to wait longer.",
            )
        if self._failures[kind] >= MAX_START_FAILURES:
            return NoCapacity(
                failure="no_node",
                reason=f"{self._failures[kind]} agents in succession ended while they started on "
                f"a {kind}; {self._last_failure[kind]}",
                remedy="See `ray list actors` on the head. After a repair: resume=.",
            )
        if self._rules is not None and self._planner is not None:
            fallbacks = self._planner.fallbacks[kind]
            others = self._cluster_state().of_others.items()
            of_others = sum(n for placement, n in others if placement.kind == kind)
            return explain_no_capacity(kind, self._rules, fallbacks, self._launches, of_others)
        has = ", ".join(sorted({kind for node in self._nodes for kind in kinds_of(node)}))
        resource = f"{RESOURCE_PREFIX}{kind}"
        return NoCapacity(
            failure="no_node",
            reason=f"The cluster has no node of kind {kind!r}; it has: {has or 'none'}",
            remedy="On such a machine: ray start --address=HOST:6379 "
            f"--resources='{{\"{resource}\": 1}}'",
        )

    def send(self, assignment: TaskAssignment) -> None:
        """Call the agent; its reply arrives in the inbox."""
        agent = self._agents.get(assignment.agent)
        if agent is None:
            reason = "it was gone before it could begin"
            self._messages.append(Lost(agent=assignment.agent, reason=reason, uncounted=True))
            return
        call = agent.handle.run.remote(assignment.trial, assignment.attempt)
        agent.calls[self._await(agent, call)] = assignment

    def receive(self, timeout_s: float) -> Sequence[Message]:
        """New messages; waits for the first reply, but no longer than this."""
        self._request_updates()
        with contextlib.suppress(queue.Empty):
            self._handle(*self._replies.get(timeout=0.0 if self._messages else timeout_s))
            while True:
                self._handle(*self._replies.get_nowait())
        messages, self._messages = self._messages, []
        return messages

    def close(self) -> None:
        """End every agent, and with it what it runs."""
        for agent in list(self._agents.values()):
            if self._headless:  # the head that would kill it is gone
                agent.handle.exit.options(concurrency_group=UPDATES).remote()
            self._kill(agent)

    def _note_others(self) -> None:
        """Note which nodes other sweeps use: those where they have agents, until one of ours is."""
        found = {*self._autoscaler.agents_of_others()}
        self._others_boot = "" in found
        self._others = (self._others | found) - {agent.node for agent in self._agents.values()}

    def _own_nodes(self) -> Sequence[Mapping[str, Any]]:
        """Nodes at the last poll without those that other sweeps use."""
        return [node for node in self._nodes if node["NodeID"] not in self._others]

    def _plan_capacity(
        self, planner: CapacityPlanner, now_s: float, queued: Mapping[str, int]
    ) -> None:
        """Start as many pending agents as nodes are requested, kill the surplus."""
        self._launches = self._autoscaler.launches()
        self._release_idle(queued)
        requests = planner.requests(now_s, queued, self._cluster_state())
        pending: dict[Placement, list[_Agent]] = {}
        for agent in self._agents.values():
            if agent.placement is not None and agent.greeting is not None:
                pending.setdefault(agent.placement, []).append(agent)
        for placement, agents in pending.items():
            for agent in agents[requests.get(placement, 0) :]:
                self._kill(agent)
        for placement, count in requests.items():
            if self._failures[placement.kind] < MAX_START_FAILURES:
                for _ in range(count - len(pending.get(placement, ()))):
                    self._start_pending(placement)

    def _release_idle(self, queued: Mapping[str, int]) -> None:
        """Kill agents with nothing to do, so that their nodes may be terminated."""
        for agent in list(self._agents.values()):
            idle = not agent.calls and agent.greeting is None
            if idle and (agent.leaving or not any(queued.get(kind) for kind in agent.kinds)):
                self._kill(agent)
                self._messages.append(
                    Lost(agent=agent.name, reason="it was released", uncounted=True)
                )

    def _cluster_state(self) -> ClusterState:
        assert self._rules is not None
        placements = {each.name: each.placement for each in self._rules.node_types}
        started = [a.placement for a in self._agents.values() if a.greeting is None]
        booting = self._launches.booting
        alive, everywhere = (
            Counter(found for found in map(placement_of, nodes) if found is not None)
            for nodes in (self._own_nodes(), self._nodes)
        )
        return ClusterState(
            active=Counter(placement for placement in started if placement is not None),
            alive=alive,
            booting={placements[name]: n for name, n in booting.items() if name in placements},
            of_others=everywhere - alive,
        )

    def _start_pending(self, placement: Placement) -> None:
        """Start an agent without a node, for which Ray launches one."""
        assert self._rules is not None
        node_type = next(n for n in self._rules.node_types if n.placement == placement)
        handle = self._actor.options(
            num_cpus=0,
            num_gpus=node_type.gpus // node_type.slots,
            resources={f"{RESOURCE_PREFIX}{placement.kind}": 1},
            label_selector=placement.labels,
        ).remote(self._work, self._setup, node_type.slots)
        self._add(handle, (placement.kind,), node="", host="a node to come", placement=placement)

    def _fill_slots(self, node: Mapping[str, Any]) -> None:
        """Start an agent on each free slot of an existing node."""
        node_id, kinds, slots = node["NodeID"], kinds_of(node), slots_of(node)
        if self._failures[node_id] >= MAX_START_FAILURES:
            return
        strategies = self._ray.util.scheduling_strategies
        for _ in range(slots - sum(agent.node == node_id for agent in self._agents.values())):
            handle = self._actor.options(
                num_cpus=0,
                num_gpus=int(node["Resources"].get("GPU", 0)) // slots,
                resources={f"{RESOURCE_PREFIX}{kind}": 1 for kind in kinds},
                scheduling_strategy=strategies.NodeAffinitySchedulingStrategy(node_id, soft=False),
            ).remote(self._work, self._setup, slots)
            self._add(handle, kinds, node=node_id, host=host_of(node))

    def _add(
        self,
        handle: Any,
        kinds: tuple[str, ...],
        *,
        node: str,
        host: str,
        placement: Placement | None = None,
    ) -> None:
        agent = _Agent(
            name=f"{kinds[0]}-{next(self._numbers)}",
            kinds=kinds,
            node=node,
            host=host,
            handle=handle,
            placement=placement,
        )
        self._agents[agent.name] = agent
        agent.greeting = self._await(agent, handle.node_id.remote())

    def _request_updates(self) -> None:
        """Request an update of each working agent once in a while."""
        now_s = self._now_s()
        for agent in self._agents.values():
            if agent.calls and agent.update is None and now_s - agent.updated_s >= POLL_S:
                update = agent.handle.update.options(concurrency_group=UPDATES)
                agent.update = self._await(agent, update.remote())
                agent.updated_s = now_s

    def _await(self, agent: _Agent, ref: Any) -> Reply:
        """The reply to come. Unlike ``ray.wait`` it needs no raylet, which may be the dead one."""
        reply: Reply = ref.future()
        reply.add_done_callback(lambda done: self._replies.put((agent, done)))
        return reply

    def _handle(self, agent: _Agent, reply: Reply) -> None:
        """Turn a reply into a message; that of a lost agent comes too late."""
        if agent.name not in self._agents:
            return
        try:
            self._handle_content(agent, reply, reply.result())
        except self._ray.exceptions.RayTaskError as error:
            if reply in agent.calls:  # the agent lives, but its work raised
                reason = f"the agent on {agent.host} raised {last_line(str(error))}"
                self._messages.append(Faulted(assignment=agent.calls.pop(reply), reason=reason))
            else:
                self._lose(agent, str(error))
        except self._ray.exceptions.RayError as error:
            self._lose(agent, str(error))

    def _handle_content(self, agent: _Agent, reply: Reply, content: Any) -> None:
        if reply is agent.greeting:
            agent.greeting = None
            self._failures.pop(agent.node or agent.kinds[0], None)
            if agent.placement is not None:
                self._locate(agent, str(content))
            joined = Joined(agent=agent.name, kinds=agent.kinds, machine=agent.node)
            self._messages.append(joined)
        elif reply is agent.update:
            agent.update = None
            self._handle_update(agent, content)
        else:
            self._handle_report(agent, agent.calls.pop(reply), content)

    def _locate(self, agent: _Agent, node_id: str) -> None:
        """Record a pending agent's node, which may be younger than the last poll."""
        if all(node["NodeID"] != node_id for node in self._nodes):
            self._nodes = [node for node in self._ray.nodes() if node["Alive"]]
        known = [node for node in self._nodes if node["NodeID"] == node_id]
        agent.node = node_id
        agent.host = host_of(known[0]) if known else node_id[:8]

    def _handle_update(self, agent: _Agent, update: AgentUpdate) -> None:
        self._messages.append(TrialEvents(events=update.events))
        if update.notice and not agent.leaving:
            self._mark_leaving(agent, update.notice)
            self._autoscaler.drain(agent.node, update.notice)  # or the next agent starts here, too

    def _handle_report(
        self, agent: _Agent, assignment: TaskAssignment, report: AgentReport
    ) -> None:
        if report.files is not None and self._folders is not None:
            try:
                write_folder(report.files, self._folders / Path(assignment.trial.trial_id).name)
            except ValueError as error:
                reason = f"the files from {agent.host} were rejected: {error}"
                self._messages.append(Faulted(assignment=assignment, reason=reason))
                return
            except OSError as error:  # such as a full disk: the result itself may still fit
                trial_id = assignment.trial.trial_id
                LOG.warning("Files of trial %s from %s are lost: %s", trial_id, agent.host, error)
        market = {"market": str(agent.placement.market)} if agent.placement else {}
        facts = {**report.result.environment, **self._facts, **market}
        self._messages.append(
            Finished(
                assignment=assignment,
                result=dataclasses.replace(report.result, environment=facts),
                events=report.events,
                busy_s=report.busy_s,
            )
        )

    def _mark_leaving(self, agent: _Agent, reason: str) -> None:
        if not agent.leaving:
            agent.leaving = reason
            self._messages.append(Leaving(agent=agent.name))

    def _check_nodes(self, now_s: float) -> None:
        """Do not wait for replies from dead nodes: after a partition they never fail."""
        alive = {node["NodeID"] for node in self._nodes}
        for agent in list(self._agents.values()):
            if agent.node and agent.node not in alive:
                self._lose(agent, "its node is dead")
            elif agent.update is not None and now_s - agent.updated_s > SILENCE_S:
                self._lose(agent, f"it has not replied for {SILENCE_S:.0f} s")

    def _lose(self, agent: _Agent, error: str) -> None:
        if agent.name not in self._agents:
            return
        reason = f"the agent on {agent.host} was lost: {agent.leaving or last_line(error)}"
        if agent.greeting is not None:
            self._failures[agent.node or agent.kinds[0]] += 1
            self._last_failure.update(dict.fromkeys(agent.kinds, reason))
        self._kill(agent)
        self._messages.append(Lost(agent=agent.name, reason=reason, uncounted=bool(agent.leaving)))

    def _kill(self, agent: _Agent) -> None:
        """Forget an agent and kill it: one that is only cut off must not go on measuring."""
        del self._agents[agent.name]
        self._ray.kill(agent.handle, no_restart=True)
