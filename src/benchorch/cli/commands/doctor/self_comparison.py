"""Control experiments: a comparison of equal work, and one of work that differs by a tenth.

A comparison on this machine should find nothing in the first and the difference in the second. Both
are paired in fresh processes, as a conversion is paired with its baseline in any trial.
"""

import os
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchorch.domain.certificate import Interleaving
from benchorch.domain.estimate import Comparison
from benchorch.errors import ExecutorError
from benchorch.hardware.cpu import CpuClock
from benchorch.host.advice import BAD, GOOD, NOTE
from benchorch.host.pinning import pin
from benchorch.host.processes import child_channel, run_child
from benchorch.host.reference_workload import products
from benchorch.stats.between_processes import median_query_ns, steady_queries_ns
from benchorch.stats.pairs import ALTERNATED, Pair
from benchorch.stats.quantiles import sample_quantile
from benchorch.stats.ratio_test import compare_pairs
from benchorch.trial.interleave import InterleavedSide, interleave

PROCESSES = 12
WINDOW_S = 0.3
SLICE_MS = 20.0
SLOWDOWN_RATIO = 0.1

_PRODUCTS = 20  # of 48 by 48 matrices: about 60 µs, the size of a small model's call
_FLOOR = 0.01
_TIMEOUT_S = 60.0
_ENTRY = "from benchorch.cli.commands.doctor.self_comparison import main; main()"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRequest:
    """One process in which work is interleaved with more of it.

    Attributes:
        products: of matrices, the work.
        extra_ratios: how much more the other side has to do, a comparison each.
        window_s: in which the two sides of a comparison are interleaved.
        seed: of the order of slices.
        more_first: whether the side with more to do warms up first.
    """

    products: int
    extra_ratios: tuple[float, ...]
    window_s: float
    seed: int
    more_first: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Controls:
    """Comparisons of work whose true ratio is known.

    Attributes:
        same: identical work on both sides.
        slower: the candidate has a tenth more to do.
    """

    same: Comparison
    slower: Comparison

    @property
    def same_weight(self) -> str:
        """Good where it is known to be the same, bad where it is called different."""
        if self.same.verdict in ("faster", "slower"):
            return BAD
        return GOOD if self.same.verdict == "equivalent" else NOTE

    @property
    def slower_weight(self) -> str:
        """Good where it is found to be slower, bad where it is called anything else but unclear."""
        if self.slower.verdict == "slower":
            return GOOD
        return NOTE if self.slower.verdict == "inconclusive" else BAD

    @property
    def told_apart(self) -> bool:
        """Whether the slower one was found, and nothing where there is nothing to find."""
        silent = self.same.verdict not in ("faster", "slower")
        return silent and self.slower.verdict == "slower"


def controls(log: Path, *, processes: int = PROCESSES) -> Controls:
    """Run both comparisons in so many fresh processes.

    Raises ExecutorError where one of them does not answer.

    Args:
        log: where the processes' output goes.
    """
    order = random.Random(0)
    pairs: list[list[Pair]] = [[], []]
    for number in range(processes):
        request = ComparisonRequest(
            products=_PRODUCTS,
            extra_ratios=(0.0, SLOWDOWN_RATIO),
            window_s=WINDOW_S,
            seed=order.getrandbits(32),
            more_first=bool(number % 2),
        )
        for found, one in zip(pairs, one_process(log, request), strict=True):
            found.append(Pair(one.more[0], one.base[0]))
    same, slower = (compare_pairs(found, ALTERNATED) for found in pairs)
    assert same is not None  # as there was at least one process
    assert slower is not None
    return Controls(same=same, slower=slower)


def one_process(log: Path, request: ComparisonRequest) -> Sequence[Interleaving]:
    """Each comparison in a fresh process on one thread; ExecutorError where it fails."""
    child = run_child.run_child(
        "doctor",
        request,
        tuple[Interleaving, ...],
        log=log,
        limits=run_child.ChildLimits(timeout_s=_TIMEOUT_S, memory_bytes=None),
        environment=dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
        on_message=lambda _: None,
        command=[sys.executable, "-P", "-c", _ENTRY],
    )
    if child.failure:
        raise ExecutorError(f"A control process failed: {child.failure.message}")
    return child.reply or ()


def main() -> None:
    """Entry of a child process."""
    child_channel.die_with_parent()
    parent = child_channel.Channel()
    request = child_channel.read_request(ComparisonRequest)
    pin(1)
    parent.send_reply(look(request))
    sys.stdout.flush()
    os._exit(0)


def look(request: ComparisonRequest, slice_ms: float = SLICE_MS) -> list[Interleaving]:
    """Both sides of each comparison in this process."""
    work = products()
    baseline = work(request.products)
    candidates = [work(round(request.products * (1 + extra))) for extra in request.extra_ratios]
    found = [
        interleave(
            [candidate],
            [baseline],
            clock=CpuClock(),
            window_s=request.window_s,
            slice_ms=slice_ms,
            seed=request.seed,
            candidate_first=request.more_first,
        )
        for candidate in candidates
    ]
    return [Interleaving(more=_level(one.candidate), base=_level(one.baseline)) for one in found]


def _level(side: InterleavedSide) -> tuple[float, float]:
    """The median and the first percentile of a side."""
    floor = sample_quantile(steady_queries_ns(side.together, side.start), _FLOOR)
    return median_query_ns(side.together, side.start), floor
