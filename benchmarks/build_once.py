"""Each artifact is built once, whatever fails (invariant O1), with the real store and dispatch.

Nodes are threads that take trials from the real dispatch loop and obtain what they need from one
`LocalStore`. Some builds fail, some nodes die in the middle of one, and some are only cut off:
they are given up while they go on, so that the same trial is built and run twice at a time.

Run: python benchmarks/build_once.py [TRIALS [NODES]]
"""

from __future__ import annotations

import queue
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchorch.domain.artifact import BuildKey, Format
from benchorch.domain.result import BuildRecord, Failure, Outcome, TrialResult
from benchorch.domain.trial import Trial
from benchorch.errors import BuildError
from benchorch.executors.scheduling.assignments import TaskAssignment
from benchorch.executors.scheduling.dispatcher import (
    Finished,
    Fleet,
    Joined,
    Lost,
    Message,
    NoCapacity,
    RetryLimits,
    dispatch,
)
from benchorch.stores.local import LocalStore

KINDS = ("a", "b")
TRIALS_PER_ARTIFACT = 3
BUILD_FAILS = 0.03
NODE_DIES = 0.02
NODE_IS_CUT_OFF = 0.02
BUILD_S = 0.02
LIMITS = RetryLimits(max_attempts=5, wait_s=60, start_s=60)


class NodeDied(BaseException):
    """Ends a node's thread wherever it is, as a power cut would."""


@dataclass(slots=True)
class Seen:
    """What happened; every field is only ever added to, so threads need no lock.

    Attributes:
        made: for each build that was finished: its artifact, from when, to when.
        begun: artifacts whose build was begun, finished or not.
        answers: for each request: its artifact, whether it built it, from when, to when.
    """

    made: list[tuple[str, float, float]] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    answers: list[tuple[str, bool, float, float]] = field(default_factory=list)
    results: list[TrialResult] = field(default_factory=list)

    @property
    def waited(self) -> int:
        """Requests that came while another one built what they wanted, and got that."""
        return sum(
            any(name == made and first_s < asked_s < last_s for made, first_s, last_s in self.made)
            for name, built, asked_s, _ in self.answers
            if not built
        )


@dataclass(slots=True)
class ThreadFleet(Fleet):
    """Threads that stand for nodes; each that is lost is replaced."""

    store: LocalStore
    seen: Seen
    dice: random.Random
    mail: queue.SimpleQueue[Message] = field(default_factory=queue.SimpleQueue)
    assignments: dict[str, queue.SimpleQueue[TaskAssignment | None]] = field(default_factory=dict)
    threads: list[threading.Thread] = field(default_factory=list)

    def start(self, kind: str) -> None:
        """One more node."""
        name = f"{kind}{len(self.threads)}"
        self.assignments[name] = queue.SimpleQueue()
        thread = threading.Thread(target=self._work, args=(name, kind), daemon=True)
        self.threads.append(thread)
        self.mail.put(Joined(agent=name, kinds=(kind,)))
        thread.start()

    def request(self, queued: Mapping[str, int]) -> None:
        """The nodes are there from the beginning."""

    def slots(self, kind: str) -> int:
        """One a node."""
        return sum(name.startswith(kind) for name in self.assignments)

    def no_capacity(self, kind: str) -> NoCapacity:
        """Never asked."""
        return NoCapacity(failure="no_node", reason=f"no node of {kind}", remedy="")

    def send(self, assignment: TaskAssignment) -> None:
        """Into the node's queue; one that is gone will never look."""
        self.assignments[assignment.agent].put(assignment)

    def receive(self, timeout_s: float) -> Sequence[Message]:
        """What threads have said."""
        try:
            mail = [self.mail.get(timeout=timeout_s)]
        except queue.Empty:
            return []
        while not self.mail.empty():
            mail.append(self.mail.get())
        return mail

    def close(self) -> None:
        """End every thread."""
        for assignments in list(self.assignments.values()):
            assignments.put(None)
        for thread in list(self.threads):
            thread.join()

    def _work(self, name: str, kind: str) -> None:
        while (assignment := self.assignments[name].get()) is not None:
            try:
                result = self._run(assignment, name, kind)
            except NodeDied:
                self._lose(name, kind)
                return
            self.mail.put(Finished(assignment=assignment, result=result, events=(), busy_s=1.0))

    def _lose(self, name: str, kind: str) -> None:
        self.mail.put(Lost(agent=name, reason="its node is dead"))
        self.start(kind)

    def _run(self, assignment: TaskAssignment, name: str, kind: str) -> TrialResult:
        trial = assignment.trial
        artifact, asked_s = str(trial.spec["artifact"]), time.monotonic()
        key = BuildKey(fields={"artifact": artifact, "hardware": kind})
        if self.dice.random() < NODE_IS_CUT_OFF:
            self._lose(name, kind)  # and it goes on, which nobody will hear of

        def make(out: Path) -> None:
            self._make(artifact, out)

        try:
            _, built = self.store.build(key, format=Format.ONNX, name=artifact, make=make)
        except BuildError as error:
            failure = Failure(stage="build", kind=error.kind, message=str(error))
            return TrialResult(
                trial_id=trial.trial_id, labels={}, outcome=Outcome.FAILED, failure=failure
            )
        self.seen.answers.append((artifact, built, asked_s, time.monotonic()))
        record = BuildRecord(
            key=key.digest,
            cache="miss" if built else "hit",
            build_s=0,
            original_build_s=0,
            artifact_bytes=1,
            model_digest="",
        )
        return TrialResult(trial_id=trial.trial_id, labels={}, outcome=Outcome.OK, build=record)

    def _make(self, artifact: str, out: Path) -> None:
        began_s = time.monotonic()
        self.seen.begun.append(artifact)
        (out / "half").write_text(artifact)
        time.sleep(BUILD_S)
        fate = self.dice.random()
        if fate < BUILD_FAILS:
            raise BuildError("the dice said so")
        if fate < BUILD_FAILS + NODE_DIES:
            raise NodeDied
        (out / "whole").write_text(artifact)
        self.seen.made.append((artifact, began_s, time.monotonic()))


def run(trials: int, nodes: int, seed: int, root: Path) -> Seen:
    """A whole sweep; two trials in a hundred are submitted twice under other names."""
    dice = random.Random(seed)
    pool = max(1, trials // TRIALS_PER_ARTIFACT)
    asked = []
    for number in range(trials):
        kind = dice.choice(KINDS)
        spec = {"artifact": f"{kind}{dice.randrange(pool // len(KINDS))}"}
        names = [f"{number}", f"{number}-again"][: 2 if dice.random() < 0.02 else 1]
        asked += [Trial(trial_id=n, labels={"hardware_kind": kind}, spec=spec) for n in names]
    seen = Seen()
    fleet = ThreadFleet(LocalStore(root=str(root)), seen, dice)
    for number in range(nodes):
        fleet.start(KINDS[number % len(KINDS)])
    try:
        for results in dispatch(asked, fleet, lambda event: None, LIMITS, time.monotonic):
            seen.results += results
    finally:
        fleet.close()
    assert Counter(r.trial_id for r in seen.results) == Counter(t.trial_id for t in asked)
    return seen


def main(trials: int = 10_000, nodes: int = 100) -> None:
    """The full run."""
    with tempfile.TemporaryDirectory() as root:
        seen = run(trials, nodes, 0, Path(root) / "store")
    built = Counter(name for name, _, _ in seen.made)
    told = Counter(name for name, made, _, _ in seen.answers if made)
    lost = sum(result.outcome is not Outcome.OK for result in seen.results)
    print(f"{len(seen.results)} trials on {nodes} nodes; {lost} failed with their build")
    print(f"{len(set(seen.begun))} artifacts wanted, {len(seen.begun)} builds begun")
    print(f"{len(built)} artifacts built, none more often than {max(built.values())} time(s)")
    print(f"{len(told)} artifacts told as built, none more often than {max(told.values())} time(s)")
    print(f"{seen.waited} requests waited for a build under way and took what it made")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
