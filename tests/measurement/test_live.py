"""C3 and A9 on the machine that runs the tests, however noisy it is.

Both are reduced in length, and their bands follow from what the machine itself shows: a bare loop
against itself for C3, identical work against itself for A9. `benchorch doctor` runs them in full.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from benchorch.cli.commands.doctor.self_comparison import SLOWDOWN_RATIO
from benchorch.cli.commands.doctor.timer_accuracy import agreement
from benchorch.domain.estimate import Comparison
from benchorch.host.bare_loop import bare_blocks_ns
from benchorch.stats.pairs import ALTERNATED, Pair
from benchorch.stats.ratio_test import compare_pairs

pytestmark = pytest.mark.alone

# One interval in ten thousand misses, so that a test which retries nothing can be relied upon.
LEVEL_RATIO = 0.9999
ALPHA = 1 - LEVEL_RATIO


@pytest.mark.slow
def test_c3_live_benchorchs_timing_agrees_with_a_bare_loop_within_1_percent() -> None:
    found = agreement(pairs=60, level_ratio=LEVEL_RATIO)
    assert found.band_ratio >= 0.01
    assert found.agrees, found


@pytest.mark.parametrize("excess_ratio", [0.05, -0.05])
def test_c3_live_timing_that_is_off_by_a_twentieth_is_noticed(excess_ratio: float) -> None:
    def timed(call: Callable[[], object], repeats: int) -> list[int]:
        blocks_ns = bare_blocks_ns(call, repeats, 5_000_000)
        return [round(block * (1 + excess_ratio)) for block in blocks_ns]

    found = agreement(pairs=60, level_ratio=LEVEL_RATIO, timed=timed)
    # On a machine whose bare loop differs from itself by this much, nothing could be noticed.
    assert not found.agrees or found.band_ratio > abs(excess_ratio) / 2, found


SEEDS = range(5)
MEETS = """
import json, sys
from benchorch.cli.commands.doctor.self_comparison import look
from benchorch.host.pinning import pin
pin(1)
seed = int(sys.argv[1])
print(json.dumps([look(0.03, 100 * seed + pair, slice_ms=2.0) for pair in range(12)]))
"""


@pytest.fixture(scope="module")
def meetings() -> list[dict[str, list[Pair]]]:
    """For each seed, 12 pairs of identical work, and 12 where the candidate has a tenth more."""
    found = []
    for seed in SEEDS:
        command = [sys.executable, "-c", MEETS, str(seed)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        looks = json.loads(done.stdout)
        names = ("same", "slower")
        found.append({name: [Pair(*each[name]) for each in looks] for name in names})
    return found


def compared(pairs: list[Pair], alpha: float) -> Comparison:
    found = compare_pairs(pairs, ALTERNATED, alpha=alpha)
    assert found is not None
    return found


def half_width(comparison: Comparison) -> float:
    assert comparison.ratio.high is not None
    return comparison.ratio.high / comparison.ratio.value - 1


def test_a9_live_identical_work_is_called_neither_faster_nor_slower(meetings) -> None:
    verdicts = [compared(each["same"], ALPHA).verdict for each in meetings]
    false = [verdict for verdict in verdicts if verdict in ("faster", "slower")]
    assert len(false) <= 1, verdicts


def test_a9_live_work_that_takes_a_tenth_longer_is_called_slower(meetings) -> None:
    for each in meetings:
        same, slower = (compared(each[name], 0.05) for name in ("same", "slower"))
        # Where either side's own spread is half of what is looked for, it may stay unseen.
        blind = max(half_width(same), half_width(slower)) > SLOWDOWN_RATIO / 2
        assert slower.verdict == "slower" or (blind and slower.verdict == "inconclusive"), slower
        assert slower.ratio.low < 1 / (1 + SLOWDOWN_RATIO) + 0.03, slower
        assert slower.ratio.high > 1 / (1 + SLOWDOWN_RATIO) - 0.03, slower
