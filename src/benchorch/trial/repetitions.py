"""Which processes does a trial need, and when are there enough of them?

It runs in the parent, which shares the machine with what is measured, and imports little.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from benchorch.config.trial_setup import TrialSetup, open_trial
from benchorch.domain.codec import Json, decode
from benchorch.domain.measurement import Paired, ProcessRecord
from benchorch.domain.result import Failure
from benchorch.domain.trial import ConfigNode
from benchorch.domain.verdict import Verdict
from benchorch.host.reference_workload import disturbance
from benchorch.stats.between_processes import headline_ns
from benchorch.stats.pairs import ADJACENT, ALTERNATED, interferes, log_ratios

NONE = "none"
# With fewer, nothing can be said about interference.
LEAST_TO_JUDGE = 5


class StageFailed(Exception):
    """A stage without an answer.

    Attributes:
        failure: why.
        seen: what the process had told before it failed, or None.
    """

    def __init__(self, failure: Failure, seen: Json = None) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.seen = seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The baseline that a trial's processes meet.

    Attributes:
        built: what its build stage answered.
    """

    trial_id: str
    spec: ConfigNode
    built: ConfigNode


def best_design(chain: TrialSetup, rival: Baseline | None) -> str:
    """The narrowest design of a comparison that these two allow."""
    wanted = chain.protocol.pairing
    at_best = type(chain.scenario).pairing
    if rival is None or NONE in (wanted, at_best):
        return NONE
    runtimes = (chain.runtime, open_trial(rival.spec).runtime)
    together = all(type(runtime).cohabits for runtime in runtimes)
    # Turns of many calls warm the caches that cold ones must not find.
    possible = at_best == ALTERNATED and together and not chain.protocol.cold_caches
    return ALTERNATED if possible and wanted != ADJACENT else ADJACENT


class Repetitions:
    """Fresh processes of one trial, one after the other.

    Args:
        chain, request: the trial's own.
        rival: its baseline, or None where there is nothing to meet.
        tolerance_ratio: how much slower than at its best the canary may be around a process that
            counts, or None where nobody looks; asked when the first process has been seen, for
            the answer may take a second.
        ask: has one process measure; raises StageFailed.
        say: called with what happens next.

    Attributes:
        records: of each process so far, those that do not count included.
        parity: the verdict of the first one, or None before it.
        pairing: how the trial meets its baseline, and why not better, for people.
    """

    def __init__(
        self,
        chain: TrialSetup,
        request: ConfigNode,
        rival: Baseline | None,
        *,
        tolerance_ratio: Callable[[], float | None],
        ask: Callable[[ConfigNode], Json],
        say: Callable[[str], None],
    ) -> None:
        self.records: list[ProcessRecord] = []
        self.parity: Verdict | None = None
        self._chain = chain
        self._request = request
        self._rival = rival
        self._tolerance_ratio = tolerance_ratio
        self._ask = ask
        self._say = say
        self._design = best_design(chain, rival)
        self.pairing = "" if rival is None else self._design
        self._order = random.Random(str(request["trial_id"]))

    @property
    def valid(self) -> list[ProcessRecord]:
        """Those that count."""
        return [record for record in self.records if not record.disturbance]

    def run(self, elapsed_s: Callable[[], float]) -> str:
        """Add processes until the stopping rule is content; why it is.

        Raises StageFailed where a process fails before it has seen anything.
        """
        while True:
            self._say("")
            self.records.append(self._judged(self._next()))
            reason = self._enough(elapsed_s())
            if reason:
                return reason

    def _enough(self, elapsed_s: float) -> str | None:
        valid = self.valid
        delta_ratio = self._chain.protocol.delta_ratio
        enough_to_judge = len(valid) >= LEAST_TO_JUDGE and self._chain.protocol.pairing == "auto"
        if self._design == ALTERNATED and enough_to_judge and interferes(valid, delta_ratio):
            self._fall_back("alternating with the baseline changed the candidate's own speed")
        return self._chain.stopping.enough_processes(
            [headline_ns(record) for record in valid],
            elapsed_s,
            self._log_ratios(valid),
            delta_ratio,
        )

    def _log_ratios(self, valid: Sequence[ProcessRecord]) -> Sequence[float]:
        """Of the pairs of today's design; a single one, which settles nothing, before the first."""
        if self._design == NONE:
            return ()
        met = [p for p in valid if p.paired is not None and p.paired.design == self._design]
        return log_ratios(met) or (0.0,)

    def _next(self) -> ProcessRecord:
        if self._design != ADJACENT:
            return self._candidate()
        theirs_first = self._order.random() < 0.5
        before = self._baseline() if theirs_first else None
        record = self._candidate()
        theirs = before if theirs_first else self._baseline()
        if theirs is None:
            return record
        disturbed = self._judged(theirs).disturbance
        return replace(record, paired=self._adjacent(theirs), disturbance=disturbed)

    def _candidate(self) -> ProcessRecord:
        """A process of the trial itself; it alternates with the baseline if that is the design."""
        asked = {**self._request, "verify": self.parity is None, "rival": self._rival_node()}
        try:
            reply = cast(ConfigNode, self._ask(asked))
        except StageFailed as failed:
            if failed.seen is None:
                raise
            reply = cast(ConfigNode, failed.seen)
            self._fall_back(f"the two did not run in one process ({failed.failure.kind})")
        if reply["verdict"] is not None:
            self.parity = decode(Verdict, reply["verdict"])
        record = decode(ProcessRecord, reply["process"])
        paired = reply.get("paired")
        return record if paired is None else replace(record, paired=decode(Paired, paired))

    def _rival_node(self) -> ConfigNode | None:
        rival = self._rival
        if rival is None or self._design != ALTERNATED:
            return None
        seed = self._order.getrandbits(32)
        return {
            "trial_id": rival.trial_id,
            "spec": rival.spec,
            "built": rival.built,
            "seed": seed,
        }

    def _baseline(self) -> ProcessRecord | None:
        """A process of the baseline, or None, and no more of them, where it fails."""
        assert self._rival is not None  # the design is not chosen without one
        rival = {"spec": self._rival.spec, "built": self._rival.built}
        try:
            reply = self._ask({**self._request, **rival, "verify": False, "rival": None})
        except StageFailed as failed:
            self._design, self.pairing = NONE, f"none: the baseline failed ({failed.failure.kind})"
            return None
        return decode(ProcessRecord, cast(ConfigNode, reply)["process"])

    def _adjacent(self, theirs: ProcessRecord) -> Paired:
        assert self._rival is not None  # as above
        return Paired(
            baseline_id=self._rival.trial_id,
            design=ADJACENT,
            ours=None,
            theirs=theirs.observations,
            theirs_from=theirs.steady_from or 0,
        )

    def _fall_back(self, reason: str) -> None:
        """Compare less narrowly from here on, unless the user asked for one design only."""
        self._design = ADJACENT if self._chain.protocol.pairing == "auto" else NONE
        self.pairing = f"{self._design}: {reason}"

    def _judged(self, record: ProcessRecord) -> ProcessRecord:
        """The record, marked where the machine was not itself around it."""
        if record.disturbance:  # its baseline's machine was not itself
            return record
        tolerance = self._tolerance_ratio()
        before = record.conditions.canary_before_ns
        after = record.conditions.canary_after_ns
        left = self._chain.protocol.repeats - (len(self.records) - len(self.valid))
        if tolerance is None or before is None or after is None or left <= 0:
            return record
        best = min(before, after, *self._canaries())
        return replace(record, disturbance=disturbance(before, after, best, tolerance))

    def _canaries(self) -> list[float]:
        found = [
            (r.conditions.canary_before_ns, r.conditions.canary_after_ns) for r in self.records
        ]
        return [look for looks in found for look in looks if look is not None]
