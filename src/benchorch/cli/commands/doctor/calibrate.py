"""``doctor --calibrate``: which differences comparisons find on this machine, and how often.

Rounds of four fresh processes, in random order: each interleaves the same work with itself, or with
1, 2 or 5 % more of it. From them follow how often identical work is called different and how often
more work is found, by medians and by floors: interleaved, back to back, and apart.
"""

import random
import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from benchorch.cli.commands.doctor.self_comparison import ComparisonRequest, one_process
from benchorch.domain.certificate import EXTRA, Certificate, Interleaving
from benchorch.domain.codec import Json
from benchorch.domain.reply import Reply
from benchorch.errors import ExecutorError
from benchorch.host.environment import describe_host
from benchorch.journal import certificates
from benchorch.progress import Say
from benchorch.results.compare.detectable import (
    COUNTS,
    DESIGNS,
    STATISTICS,
    percent,
    powers,
    smallest,
    summary,
)
from benchorch.results.report.console_table import table_text

MINUTES = 3.0
LEAST_ROUNDS = 8
WINDOW_S = 0.3
_PRODUCTS = 100  # of 48 by 48 matrices: one more is one per cent


def calibrated(say: Say, minutes: float = MINUTES) -> Reply:
    """Measure for so long, keep what was found, and show it.

    Ctrl-C ends it early; from `LEAST_ROUNDS` on what was measured is kept.
    """
    say(f"calibrating for {minutes:g} minutes; nothing else should run meanwhile")
    rounds: list[tuple[Interleaving, ...]] = []
    with TemporaryDirectory(prefix="benchorch-calibrate-") as scratch:
        log = Path(scratch, "log.txt")
        try:
            for found in _rounds(log, minutes):
                rounds.append(found)
                if len(rounds) % 10 == 0:
                    say(f"{len(rounds)} rounds")
        except KeyboardInterrupt:
            if len(rounds) < LEAST_ROUNDS:
                raise
            say(f"ended after {len(rounds)} rounds")
    made = Certificate(
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        host=socket.gethostname(),
        cpu_model=str(describe_host()["cpu_model"] or ""),
        rounds=tuple(rounds),
    )
    path = certificates.keep(made)
    return Reply(text=as_text(made, path), data=as_json(made, path))


def _rounds(log: Path, minutes: float) -> Iterator[tuple[Interleaving, ...]]:
    """Rounds until the time is up, and `LEAST_ROUNDS` at least."""
    order = random.SystemRandom()
    ends_s = time.monotonic() + 60 * minutes
    count = 0
    while count < LEAST_ROUNDS or time.monotonic() < ends_s:
        places = order.sample(range(len(EXTRA)), len(EXTRA))
        found = {place: _process(log, EXTRA[place], order) for place in places}
        yield tuple(found[place] for place in range(len(EXTRA)))
        count += 1


def _process(log: Path, extra_ratio: float, order: random.Random) -> Interleaving:
    request = ComparisonRequest(
        products=_PRODUCTS,
        extra_ratios=(extra_ratio,),
        window_s=WINDOW_S,
        seed=order.getrandbits(32),
        more_first=order.random() < 0.5,
    )
    found = one_process(log, request)
    if not found or not min(*found[0].more, *found[0].base) > 0:
        raise ExecutorError("A process of the calibration measured nothing.")
    return found[0]


def as_text(made: Certificate, path: Path) -> str:
    """For a terminal."""
    found = list(powers(made))
    rows = [("comparison", "by", "n", *(f"{share:+.0%}" if share else "same" for share in EXTRA))]
    for design, statistic, n in dict.fromkeys((p.design, p.statistic, p.n) for p in found):
        line = [p.found for p in found if (p.design, p.statistic, p.n) == (design, statistic, n)]
        shown = [f"{line[0].slower + line[0].faster:.0%}", *(f"{p.slower:.0%}" for p in line[1:])]
        rows.append((design, statistic, str(n), *shown))
    least = [("least that is found in 90 %", "by", *(f"n = {n}" for n in COUNTS))]
    for design in DESIGNS:
        for statistic in STATISTICS:
            shares = [smallest(made, design, statistic, n) for n in COUNTS]
            least.append((design, statistic, *("–" if s is None else percent(s) for s in shares)))
    return "\n".join(
        [
            f"{len(made.rounds)} rounds. How often identical work is called different (5 % is by "
            "design), and more work slower:",
            table_text(rows),
            "n: pairs; apart, processes of either side.",
            table_text(least),
            summary(made),
            f"kept in {path}",
        ]
    )


def as_json(made: Certificate, path: Path) -> Json:
    """For programs."""
    return {
        "schema_version": 1,
        "path": str(path),
        "rounds": len(made.rounds),
        "powers": [
            {
                "design": one.design,
                "statistic": one.statistic,
                "n": one.n,
                "extra_ratio": one.extra_ratio,
                "slower_ratio": one.found.slower,
                "faster_ratio": one.found.faster,
            }
            for one in powers(made)
        ],
        "smallest_ratio": [
            {
                "design": design,
                "statistic": statistic,
                "n": n,
                "value": smallest(made, design, statistic, n),
            }
            for design in DESIGNS
            for statistic in STATISTICS
            for n in COUNTS
        ],
        "summary": summary(made),
    }
