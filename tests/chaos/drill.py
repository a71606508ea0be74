"""A sweep that is harmed on purpose, and what must be the same as if nothing had happened."""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from benchorch.journal import run_directory
from support.waiting import until

COORDINATOR = Path(__file__).with_name("coordinator.py")
NOWHERE = {"_target_": "benchorch.recorders.none.Nowhere"}
Outcomes: TypeAlias = dict[str, tuple[str, str, str]]
"""Of each trial: its outcome, the kind of its failure, and what it answered."""


def local_store(root: Path) -> Mapping[str, Any]:
    """Artifacts in a directory of this path, on whichever machine that is."""
    return {"_target_": "benchorch.stores.local.LocalStore", "root": str(root)}


def trial(number: int, *, acts: str = "works", kind: str | None = None) -> dict[str, Any]:
    """A simulated trial: trials by two share an artifact, and each third is of kind b."""
    return {
        "kind": kind or ("b" if number % 3 == 2 else "a"),
        "acts": acts,
        "asks": number,
        "builds_s": 0.2,
        "takes_s": 0.4,
        "limit_s": 5 if acts == "hangs" else 60,
        "artifact": f"artifact {number // 2}",
    }


def trial_id(number: int) -> str:
    return f"{number:016x}"


def lasting(takes_s: float, *numbers: int) -> list[dict[str, Any]]:
    """The sweep with these trials lasting so many seconds."""
    return [{**one, "takes_s": takes_s} if one["asks"] in numbers else one for one in SWEEP]


SWEEP = [trial(number) for number in range(9)]
EXPECTED: Outcomes = {trial_id(n): ("ok", "", str(2 * n)) for n in range(9)}


@dataclass
class Drill:
    """One sweep with its own journal, store and history; its coordinator may be killed."""

    path: Path
    seed: int
    trials: Sequence[Mapping[str, Any]]
    address: str
    wait_s: float = 20
    start_s: float = 60
    tracking: Mapping[str, Any] = field(default_factory=lambda: NOWHERE)
    store: Mapping[str, Any] | None = None
    directory: Path | None = None
    under: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    coordinator: subprocess.Popen[str] | None = None
    mark: str = field(default_factory=lambda: f"BENCHORCH_DRILL_{secrets.token_hex(8)}")

    def __post_init__(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        self.dice = random.Random(self.seed)
        self.run_directory = self.directory or self.path / "run"

    def start(self) -> None:
        """Begin, or take up what an earlier one left."""
        place = {
            "directory": str(self.run_directory),
            "store": self.store or local_store(self.path / "store"),
            "history": str(self.path / "history.jsonl"),
            "mark": self.mark,
            "address": self.address,
            "wait_s": self.wait_s,
            "start_s": self.start_s,
            "tracking": self.tracking,
            "trials": list(self.trials),
        }
        (self.path / "drill.json").write_text(json.dumps(place))
        self.coordinator = subprocess.Popen(
            [*self.under, sys.executable, str(COORDINATOR), str(self.path / "drill.json")],
            env={**os.environ, **self.environment, "XDG_STATE_HOME": str(self.path / "state")},
            stdout=subprocess.DEVNULL,
            stderr=(self.path / "stderr.txt").open("a"),
            text=True,
        )

    def finish(self, limit_s: float = 180) -> int:
        """Wait for the coordinator; its exit code."""
        assert self.coordinator is not None
        try:
            return self.coordinator.wait(timeout=limit_s)
        finally:
            self.coordinator.kill()

    def run(self) -> int:
        self.start()
        return self.finish()

    def kill_coordinator(self) -> None:
        assert self.coordinator is not None
        self.coordinator.send_signal(signal.SIGKILL)
        self.coordinator.wait()

    def entries(self, what: str) -> list[dict[str, Any]]:
        history = self.path / "history.jsonl"
        return [entry for entry in run_directory.read_lines(history) if entry["what"] == what]  # type: ignore[misc]

    def under_way(self) -> list[dict[str, Any]]:
        """Attempts that were begun and have not ended."""
        ended = {(one["trial"], one["attempt"], one["pid"]) for one in self.entries("end")}
        begun = self.entries("begin")
        return [one for one in begun if (one["trial"], one["attempt"], one["pid"]) not in ended]

    def begun_again(self, trial: str) -> bool:
        return any(one["attempt"] == 2 for one in self.entries("begin") if one["trial"] == trial)

    def moment(self, *, kind: str | None = None, built: bool = False) -> dict[str, Any]:
        """Wait for a moment that the dice choose, when a trial is under way; one of those.

        Args:
            kind: of its node, where that matters.
            built: whether its artifact must be there: a frozen builder keeps its key locked.
        """
        wanted = self.dice.randrange(1, max(2, len(self.trials) - 2))
        pause_s = self.dice.uniform(0, 0.4)
        assert until(lambda: len(self.entries("begin")) >= wanted, 60), self.stderr()
        time.sleep(pause_s)

        def candidates() -> list[dict[str, Any]]:
            kinds = {trial_id(number): spec["kind"] for number, spec in enumerate(self.trials)}
            made = {entry["artifact"] for entry in self.entries("made")}
            return [
                one
                for one in self.under_way()
                if kind in (None, kinds[one["trial"]])
                and (not built or self.trials[int(one["trial"], 16)]["artifact"] in made)
            ]

        assert until(candidates, 60), self.stderr()
        return self.dice.choice(candidates())

    def moment_of(self, *numbers: int) -> dict[str, Any]:
        """Wait until these trials are under way together; one of those, soon after."""
        wanted = {trial_id(number) for number in numbers}
        assert until(lambda: wanted <= {one["trial"] for one in self.under_way()}, 60), (
            self.stderr()
        )
        chosen = self.dice.choice([one for one in self.under_way() if one["trial"] in wanted])
        time.sleep(self.dice.uniform(0, 2))
        return chosen

    def lines(self) -> list[Mapping[str, Any]]:
        return list(run_directory.read_lines(self.run_directory / run_directory.RESULTS))

    def outcomes(self, committed: Sequence[Mapping[str, Any]] | None = None) -> Outcomes:
        """What was committed; a trial that was committed twice is a failure of the drill."""
        lines = self.lines() if committed is None else committed
        assert max(Counter(line["trial_id"] for line in lines).values(), default=1) == 1
        return {
            line["trial_id"]: (
                line["outcome"],
                (line["failure"] or {}).get("kind", ""),
                line["labels"].get("answer", ""),
            )
            for line in lines
        }

    def stderr(self) -> str:
        return (self.path / "stderr.txt").read_text()[-3000:]

    def children(self) -> dict[int, str]:
        """What its trials have started and still runs: numbers of processes with their lines."""
        mark = f"{self.mark}=1".encode()
        found = {}
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # gone meanwhile, or somebody else's
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    found[int(process.name)] = line_of(process)
        return found

    def agents(self) -> dict[int, str]:
        """Those of its agents that have worked and still run."""
        begun = {entry["pid"] for entry in self.entries("begin")}
        found = {}
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                line = line_of(process)
                if line.startswith("ray::Agent") and own_number(process) in begun:
                    found[int(process.name)] = line
        return found

    def orphans(self) -> dict[int, str]:
        """What of this sweep still runs."""
        return {**self.children(), **self.agents()}

    def check(self, expected: Outcomes) -> None:
        """The same results as an unbroken run's, each once, and nothing left running."""
        assert self.outcomes() == expected, self.stderr()
        assert until(lambda: not self.orphans(), 30), self.orphans()


def line_of(process: Path) -> str:
    """The command of a process below /proc."""
    return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()


def own_number(process: Path) -> int:
    """What a process below /proc is to itself: a machine has numbers of its own."""
    [line] = [at for at in (process / "status").read_text().splitlines() if at[:6] == "NSpid:"]
    return int(line.split()[-1])


Begin: TypeAlias = Callable[..., Drill]


@contextmanager
def drilling(place: Path, seed: int, **always: Any) -> Iterator[Begin]:
    """Makes drills in folders of a place; none of their coordinators outlives the context."""
    made: list[Drill] = []

    def make(trials: list[Mapping[str, Any]] | None = None, **more: Any) -> Drill:
        path = place / f"drill{len(made)}"
        made.append(Drill(path=path, seed=seed, trials=trials or SWEEP, **{**always, **more}))
        return made[-1]

    try:
        yield make
    finally:
        for drill in made:
            if drill.coordinator is not None:
                drill.coordinator.kill()
