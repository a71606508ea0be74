"""Every promise as a cell, and a command that plays them.

`python cells.py` plays all with the reference answer, `python cells.py --quick` a slice.
"""

from __future__ import annotations

import sys

from statistics_corpus.adapter import Verdict
from statistics_corpus.headline import (
    PEERS,
    call_cells,
    coverage_cells,
    few_cells,
    never_given,
    oracle_width,
    sees_modes,
    too_wide,
    touches,
    width_ratio,
)
from statistics_corpus.laws import (
    CALL_LAWS,
    PROCESS_LAWS,
    calls_ar,
    calls_lognormal,
    calls_spikes,
    calls_two_valued,
    warm_up,
)
from statistics_corpus.queues import CONSTANT, EXPONENTIAL, LOGNORMAL_1, given_cells, truth_cells
from statistics_corpus.reference import Reference
from statistics_corpus.scoring import Cell, run, summary
from statistics_corpus.series import (
    drift_cells,
    stationary_cells,
    tail_cells,
    tail_refused_cells,
    throughput_cells,
    warm_cells,
)
from statistics_corpus.sessions import (
    NOISY_REFERENCE,
    QUIET,
    SEEN_3,
    SHARED_CI,
    UNSEEN_1,
    UNSEEN_3,
    Machine,
    alarms,
    compare_coverage,
    compared,
    duelled,
    gated,
    passes,
    right_or_says,
)
from statistics_corpus.tables import (
    Setting,
    best_set,
    cell,
    fair_sides,
    false_tables,
    gaussian,
    heavy,
    interference,
    mirrored,
    pairs_used,
    position_coverage,
    ratio_coverage,
    repeated_sides,
    single,
    spread_in_time,
    stopped_undecided,
    two_levels,
    verdict_power,
    wrong_table,
)

HOPELESS = (
    "Unless no interval is given. Three processes all fall into one of two equal modes with "
    "probability 0.25 (one of three modes: 0.16). Then they look exactly like three of a law with "
    "one mode, while the median lies 5 scatters away (half-way to the other mode): a method that "
    "holds it there must give every quiet trial of three an interval of +-5 scatters. The range "
    "of n values holds a median in 1 - 2 * 0.5^n, 0.75 for three; no method free of assumptions "
    "does better."
)


def headline_cells() -> list[Cell]:
    """Promises 1 and 2."""
    laws = PROCESS_LAWS
    cells = coverage_cells(laws, (5, 10, 20, 40), 2000)
    cells += few_cells(laws, (3, 4), PEERS, 2000, "")
    cells += few_cells(laws, (3,), 0, 2000, HOPELESS)
    cells += call_cells(laws["lognormal 3 %"], CALL_LAWS, (3, 5, 10), 300, 600)
    cells += call_cells(laws["two modes 70/30 +10 %"], CALL_LAWS, (5, 10, 20), 300, 600)
    for name in ("two modes 70/30 +10 %", "two modes 50/50 +10 %", "1 + exponential 20 %"):
        cells.append(
            Cell(
                name=f"{name}, n = 40",
                promise="1 never clamped to touch",
                law=name,
                processes=40,
                repetitions=1000,
                asked="an end of the interval is the point itself in <= 0.02",
                sense="<=",
                bound=0.02,
                function="headline",
                play=touches(laws[name], 40),
                own_number=True,
            )
        )
    for name in ("lognormal 3 %", "two modes 70/30 +10 %", "1 + exponential 20 %"):
        cells += [
            Cell(
                name=f"{name}, {fewer} to {more} processes",
                promise="1 more evidence is no worse" if more > 5 else "2 few processes",
                law=name,
                processes=more,
                repetitions=1000,
                asked=f"mean log width of {more} over that of {fewer} processes <= {bound}",
                sense="<=",
                bound=bound,
                function="headline",
                play=width_ratio(laws[name], fewer, more, PEERS),
                own_number=True,
            )
            for fewer, more, bound in ((4, 5, 1.10), (5, 10, 1.0), (10, 40, 0.80))
        ]
    for name, sd, n in (("lognormal 3 %", 0.03, 10), ("lognormal 3 %", 0.03, 40)):
        cells.append(
            Cell(
                name=f"{name}, n = {n}",
                promise="1 coverage is not bought with width",
                law=name,
                processes=n,
                repetitions=1000,
                asked="mean half-width <= 1.6 x that of a mean with known variance",
                sense="<=",
                bound=1.6,
                function="headline",
                play=oracle_width(laws[name], n, sd, 0),
                own_number=True,
            )
        )
    cells.append(
        Cell(
            name="lognormal 3 %, n = 3 among ten trials",
            promise="2 few processes",
            law="lognormal 3 %",
            processes=3,
            repetitions=1000,
            asked="mean half-width <= 1.8 x that of a mean with known variance (t alone: 2.0)",
            sense="<=",
            bound=1.8,
            function="headline",
            play=oracle_width(laws["lognormal 3 %"], 3, 0.03, PEERS),
            own_number=True,
        )
    )
    for n in (1, 2):
        cells.append(
            Cell(
                name=f"lognormal 3 %, n = {n}",
                promise="2 few processes",
                law="lognormal 3 %",
                processes=n,
                repetitions=200,
                asked="an interval from one or two processes is never given",
                sense="<=",
                bound=0.0,
                function="headline",
                play=never_given(laws["lognormal 3 %"], n, PEERS),
            )
        )
    for n, disturbed in ((3, 16.0), (4, 16.0), (5, 16.0), (3, 3.0), (8, 16.0)):
        cells.append(
            Cell(
                name=f"one of {n} processes {disturbed:g} times slower",
                promise="2 few processes",
                law="lognormal 3 % and one disturbed process",
                processes=n,
                repetitions=300,
                asked="an interval wider than a factor of two is never given",
                sense="<=",
                bound=0.0,
                function="headline",
                play=too_wide(laws["lognormal 3 %"], n, disturbed),
            )
        )
    for name, n, several, bound in (
        ("two modes 70/30 +10 %", 20, True, 0.80),
        ("two modes 50/50 +10 %", 20, True, 0.80),
        ("two modes 80/20 +30 %", 20, True, 0.80),
        ("lognormal 1 %", 20, False, 0.95),
        ("lognormal 9 %", 40, False, 0.95),
    ):
        cells.append(
            Cell(
                name=f"{name}, n = {n}",
                promise="1 modes are said",
                law=name,
                processes=n,
                repetitions=500,
                asked=f"{'several modes are' if several else 'a single mode is'} seen >= {bound}",
                sense=">=",
                bound=bound,
                function="modes",
                play=sees_modes(laws[name], n, several),
                own_number=True,
            )
        )
    return cells


def tails() -> list[Cell]:
    """Promise 5."""
    laws, calls = PROCESS_LAWS, CALL_LAWS
    three, nine, one = (laws[f"lognormal {k} %"] for k in (3, 9, 1))
    modes = laws["two modes 70/30 +10 %"]
    narrow, middle, wide = (calls[f"lognormal {k} %"] for k in (3, 10, 30))
    points = [
        (three, wide, 8, 300, 0.99, 0.0),
        (nine, wide, 8, 300, 0.99, 0.0),
        (three, wide, 3, 350, 0.99, 0.0),
        (nine, wide, 3, 350, 0.99, 0.0),
        (three, middle, 8, 300, 0.99, 0.5),
        (nine, middle, 8, 300, 0.99, 0.5),
        (nine, wide, 5, 100, 0.90, 0.0),
        (nine, wide, 5, 100, 0.95, 0.0),
        (nine, middle, 10, 300, 0.90, 0.9),
        (three, middle, 20, 500, 0.99, 0.9),
        (nine, middle, 20, 500, 0.999, 0.5),
        (one, narrow, 10, 500, 0.999, 0.5),
        (one, wide, 20, 500, 0.99, 0.9),
        (modes, middle, 10, 300, 0.90, 0.5),
        (modes, middle, 20, 500, 0.99, 0.5),
        (three, calls["AR(1) 0.5"], 10, 500, 0.95, 0.5),
        (three, calls["AR(1) 0.9"], 10, 500, 0.90, 0.0),
        (three, calls["two-valued 30 % +8 %"], 10, 300, 0.90, 0.5),
        (three, calls["bursts of 50, 20 % +30 %"], 20, 500, 0.90, 0.0),
        (three, calls["periodic 40, 3 %"], 10, 500, 0.95, 0.0),
    ]
    cells = tail_cells(points, 400)
    cells += tail_refused_cells(
        [
            (three, middle, 3, 100, 0.99),
            (three, middle, 5, 200, 0.999),
            (three, middle, 3, 10, 0.90),
            (nine, middle, 2, 2000, 0.99),
        ],
        200,
    )
    spikes = calls["Pareto(1.5) spikes on 5 %"]
    return cells + throughput_cells(
        [
            (three, spikes, 5, 200),
            (three, spikes, 10, 500),
            (three, middle, 5, 300),
            (three, wide, 10, 300),
            (one, calls["AR(1) 0.9"], 10, 300),
            (one, calls["bursts of 50, 20 % +30 %"], 10, 500),
            (three, calls["two-valued 30 % +8 %"], 5, 300),
        ],
        400,
    )


def steady() -> list[Cell]:
    """Promise 6, the detector."""
    cells = stationary_cells(
        [
            (f"{name}", draw, calls)
            for name, draw in (
                ("lognormal 2 %", calls_lognormal(0.02)),
                ("two-valued 30 % +8 %", calls_two_valued(0.3, 0.08, 0.01)),
                ("two-valued 50 % +30 %", calls_two_valued(0.5, 0.3, 0.01)),
                ("two-valued 40 % +30 %, 0.2 % noise", calls_two_valued(0.4, 0.3, 0.002)),
                ("AR(1) 0.5", calls_ar(0.5, 0.03)),
                ("Pareto(1.5) spikes on 5 %", calls_spikes(0.05, 1.5, 0.2, 0.03)),
            )
            for calls in (200, 1000)
        ],
        600,
    )
    cells += stationary_cells([("AR(1) 0.9", calls_ar(0.9, 0.03), 1000)], 400, 0.20, own=True)
    cells += drift_cells(
        [
            ("lognormal 2 %", calls_lognormal(0.02), 200, 0.10, 0.10),
            ("lognormal 2 %", calls_lognormal(0.02), 1000, 0.10, 0.10),
            ("lognormal 3 %", calls_lognormal(0.03), 400, 0.10, 0.10),
            ("two-valued 30 % +8 %", calls_two_valued(0.3, 0.08, 0.01), 400, 0.10, 0.10),
            ("two-valued 30 % +8 %", calls_two_valued(0.3, 0.08, 0.01), 1000, 0.10, 0.10),
            ("lognormal 2 %", calls_lognormal(0.02), 200, 0.25, 0.01),
            ("lognormal 2 %", calls_lognormal(0.02), 200, -0.09, 0.10),
        ],
        400,
    )
    return cells + warm_cells(
        [
            ("first call 6x", warm_up(6.0, 0.0, 0.0, calls_lognormal(0.02)), 300),
            ("10 % of calls 20 % slower", warm_up(6.0, 0.1, 0.2, calls_lognormal(0.02)), 400),
        ],
        300,
    )


def pairs() -> list[Cell]:
    """Promise 3."""
    one = Setting("normal 1 %", gaussian(0.01))
    order = Setting("normal 1 %, first-loaded 1.3 % slower", gaussian(0.01), position=0.013)
    tails3 = Setting("t(3) 1 %", heavy(0.01, 3.0))
    levels = Setting("two levels +10 %", two_levels(0.0953, 0.3, 0.01))
    wide = Setting("normal 3 %", gaussian(0.03))
    cells = []
    cells += [
        cell(
            "3 pairs: identical code",
            f"{setting.name}, {n} pairs",
            "false verdicts <= 0.05",
            "<=",
            0.05,
            "ratio",
            single(setting, n, 0.0, wrong_table),
            n=n,
            reps=2000,
        )
        for setting in (one, order, tails3, levels, wide)
        for n in (3, 5, 16, 40)
    ]
    for setting, n, gain in (
        (one, 10, 0.02),
        (order, 20, 0.05),
        (tails3, 10, 0.10),
        (levels, 40, 0.0),
    ):
        cells.append(
            cell(
                "3 pairs: interval of the ratio",
                f"{setting.name}, {n} pairs, {100 * gain:g} %",
                "coverage of the ratio >= 0.94",
                ">=",
                0.94,
                "ratio",
                ratio_coverage(setting, n, gain),
                n=n,
                reps=2000,
            )
        )
    for setting, n, gain in ((one, 10, 0.02), (one, 30, 0.01), (order, 16, 0.02)):
        cells.append(
            cell(
                "3 pairs: power",
                f"{setting.name}, {n} pairs, {100 * gain:g} %",
                "power >= 0.90",
                ">=",
                0.90,
                "ratio",
                single(setting, n, gain, lambda _, verdict: verdict == "faster"),
                n=n,
                reps=1000,
            )
        )
    cells.append(
        cell(
            "3 pairs: power",
            "true 1 % called equivalent; normal 1 %, 40 pairs",
            "false verdicts <= 0.05",
            "<=",
            0.05,
            "ratio",
            single(one, 40, 0.01, lambda _, verdict: verdict == "equivalent"),
            reps=1000,
        )
    )
    cells += [
        cell(
            "3 position effect",
            f"{order.name}, {n} pairs",
            "coverage of the position effect >= 0.935",
            ">=",
            0.935,
            "position",
            position_coverage(order, n),
            n=n,
            reps=1000,
            given=0.95,
        )
        for n in (16, 40)
    ]
    cells += [
        cell(
            "3 sides",
            "candidate first, at least",
            "candidate first >= 0.50",
            ">=",
            0.5,
            "sides",
            fair_sides(8),
            n=8,
            reps=500,
        ),
        cell(
            "3 sides",
            "candidate first, at most",
            "candidate first <= 0.50",
            "<=",
            0.5,
            "sides",
            fair_sides(8),
            n=8,
            reps=500,
        ),
        cell(
            "3 sides",
            "two runs draw the same order of 40",
            "the same order <= 0.01",
            "<=",
            0.01,
            "sides",
            repeated_sides(40),
            reps=200,
            own=True,
        ),
        cell(
            "3 pairs: antisymmetry",
            "sides swapped",
            "verdict and ratio do not turn <= 0",
            "<=",
            0.0,
            "ratio",
            mirrored(order, 12, 0.01),
            n=12,
            reps=300,
        ),
    ]
    for effect, wanted, sense, bound in ((0.0, True, "<=", 0.05), (0.03, True, ">=", 0.90)):
        cells.append(
            cell(
                "3 interference",
                f"pair slows the baseline by {100 * effect:g} %; normal 1 %",
                f"interference is said {sense} {bound}",
                sense,
                bound,
                "interferes",
                interference(one, effect, wanted),
                reps=1000,
            )
        )
    return cells


def families() -> list[Cell]:
    """Promise 4."""
    one = Setting("normal 1 %", gaussian(0.01))
    half = Setting("normal 0.5 %", gaussian(0.005))
    two = Setting("normal 2 %", gaussian(0.02))
    order = Setting("normal 1 %, first-loaded 1.3 % slower", gaussian(0.01), position=0.013)
    tails3 = Setting("t(3) 1 %", heavy(0.01, 3.0))
    levels = Setting("two levels +10 %", two_levels(0.0953, 0.3, 0.01))
    shared = Setting("normal 1 %, half of it shared", gaussian(0.01), shared=0.5)
    cells = []
    for setting in (one, order, tails3, levels, shared):
        for m in (1, 3, 10, 40):
            reps = {1: 1500, 3: 1000, 10: 500, 40: 250}[m]
            cells.append(
                cell(
                    "4 table of equals",
                    f"{setting.name}, {m} candidates",
                    "tables with a false verdict <= 0.05",
                    "<=",
                    0.05,
                    "table",
                    false_tables(setting, [0.0] * m),
                    reps=reps,
                )
            )
    powers: tuple[tuple[Setting, int, float, Verdict, float], ...] = (
        (one, 1, 0.02, "faster", 0.90),
        (one, 3, 0.02, "faster", 0.90),
        (one, 10, 0.02, "faster", 0.90),
        (one, 40, 0.02, "faster", 0.90),
        (order, 10, 0.02, "faster", 0.90),
        (two, 10, 0.02, "faster", 0.90),
        (one, 10, 0.01, "faster", 0.90),
        (one, 10, -0.02, "slower", 0.90),
        (half, 10, 0.0, "equivalent", 0.90),
        (one, 10, 0.0, "equivalent", 0.80),
    )
    for setting, m, gain, wanted, bound in powers:
        cells.append(
            cell(
                "4 power in a table",
                f"{setting.name}, {m} candidates, {100 * gain:g} %",
                f"power >= {bound}",
                ">=",
                bound,
                "table",
                verdict_power(setting, [gain] * m, wanted),
                reps=max(60, 300 // m),
                own=not (m == 10 and gain == 0.02 and setting is one),
            )
        )
    for setting, m, gain in ((one, 10, 0.02), (one, 10, 0.0), (two, 10, 0.02)):
        cells.append(
            cell(
                "4 converged means decided",
                f"{setting.name}, {m} candidates, {100 * gain:g} %",
                "stopped before the last pair without a verdict <= 0",
                "<=",
                0.0,
                "table",
                stopped_undecided(setting, [gain] * m),
                reps=60,
            )
        )
    cells.append(
        cell(
            "4 power in a table",
            "normal 1 %, 3 candidates of 2, 5 and 8 %: pairs used",
            "pairs per candidate <= 20",
            "<=",
            20.0,
            "table",
            pairs_used(one, [0.02, 0.05, 0.08]),
            reps=200,
            own=True,
        )
    )
    spread = [0.0, 0.02, 0.04, 0.06, 0.08, 0.08]
    for setting, gains, kind, sense, bound in (
        (one, spread, "holds", ">=", 0.95),
        (one, [0.05, 0.05, 0.05], "falsely", "<=", 0.05),
        (one, [0.0] * 9, "falsely", "<=", 0.05),
        (tails3, [0.03] * 5, "falsely", "<=", 0.05),
        (order, [0.04, 0.04, 0.0], "falsely", "<=", 0.05),
        (one, [0.0, 0.02, 0.05, 0.08], "alone", ">=", 0.90),
        (one, [0.10, 0.07, 0.0, -0.05, 0.02], "alone", ">=", 0.90),
        (one, [-0.03, -0.05, -0.08], "alone", ">=", 0.90),
        (one, [0.05, 0.045, 0.0], "falsely", "<=", 0.05),
    ):
        said = {
            "holds": "the set of best holds all that are best",
            "falsely": "one that is not alone the best is named fastest",
            "alone": "the only best is named fastest",
        }[kind]
        cells.append(
            cell(
                "4 fastest",
                f"{setting.name}, gains {', '.join(f'{100 * g:g}' for g in gains)} %: {kind}",
                f"{said} {sense} {bound}",
                sense,
                bound,
                "table",
                best_set(setting, gains, kind),
                reps=400,
                own=kind == "alone",
            )
        )
    return cells


def noise() -> list[Cell]:
    """Promise 6, the order in time."""
    return [
        cell(
            "6 spread over time",
            f"{trials} trials of 8, phases of +15 % and dwell {dwell:g}: "
            + ("medians" if differ else "intervals"),
            f"medians of copies more than 5 % apart <= {bound} (one after the other: 0.42)"
            if differ
            else "intervals of copies exclude each other <= 0.05",
            "<=",
            bound,
            "schedule" if differ else "schedule, headline",
            spread_in_time(trials, 8, dwell, 0.15, differ),
            n=8,
            reps=1000,
            own=True,
        )
        for trials, dwell, differ, bound in (
            (5, 10.0, 0.05, 0.25),
            (10, 10.0, 0.05, 0.25),
            (10, 20.0, 0.05, 0.25),
            (5, 3.0, None, 0.05),
            (10, 3.0, None, 0.05),
            (10, 10.0, None, 0.05),
        )
    ]


def between_sessions() -> list[Cell]:
    """Promises 7 and 8."""
    cells = []

    def gate(
        machine: Machine, n: int, change: float, limit: float, history: int, what: str
    ) -> None:
        counts = {
            "passes": (passes, ">=", 0.90),
            "caught": (alarms, ">=", 0.90),
            "false alarm": (alarms, "<=", 0.05),
            "false pass": (passes, "<=", 0.05),
            "passes or says when": (right_or_says("passed"), ">=", 0.90),
            "caught or says when": (right_or_says("regression"), ">=", 0.90),
        }
        count, sense, bound = counts[what]
        name = (
            f"{machine.name}; n = {n}, {history} sessions before, limit {100 * limit:g} %, "
            f"true {100 * change:g} %: {what}"
        )
        cells.append(
            cell(
                "7 gate",
                name,
                f"gate: {what} {sense} {bound}",
                sense,
                bound,
                "gate",
                gated(machine, n, change, limit, history, count),
                n=n,
                reps=600,
                own=what == "false pass",
            )
        )

    for machine, n in ((QUIET, 8), (NOISY_REFERENCE, 8), (NOISY_REFERENCE, 40), (SHARED_CI, 14)):
        gate(machine, n, 0.0, 0.02, 5, "passes")
        gate(machine, n, 0.05, 0.02, 5, "caught")
        gate(machine, n, 0.0, 0.02, 5, "false alarm")
        gate(machine, n, 0.02, 0.02, 5, "false alarm")
    gate(SEEN_3, 8, 0.0, 0.02, 5, "passes")
    gate(SEEN_3, 8, 0.05, 0.02, 5, "caught")
    for machine in (UNSEEN_1, UNSEEN_3):
        for history in (0, 5):
            gate(machine, 8, 0.0, 0.02, history, "false alarm")
            gate(machine, 8, 0.0, 0.02, history, "passes or says when")
            gate(machine, 8, 0.05, 0.02, history, "caught or says when")
        gate(machine, 8, 0.05, 0.02, 5, "false pass")
    gate(UNSEEN_3, 40, 0.0, 0.02, 5, "false alarm")
    for change, what in ((0.0, "passes"), (0.05, "caught")):
        cells.append(
            cell(
                "7 gate",
                f"{UNSEEN_3.name}; n = 40, 5 sessions before, limit 2 %: {what}, no excuse",
                f"gate: {what} >= 0.90",
                ">=",
                0.90,
                "gate",
                gated(UNSEEN_3, 40, change, 0.02, 5, passes if change == 0.0 else alarms),
                n=40,
                reps=400,
                unreachable=UNSEEN_PROOF,
            )
        )
    for machine, change, history, wanted, bound in (
        (QUIET, 0.0, 5, "any", 0.05),
        (UNSEEN_1, 0.0, 5, "any", 0.05),
        (UNSEEN_3, 0.0, 5, "any", 0.05),
        (UNSEEN_1, 0.0, 0, "any", 0.05),
        (SHARED_CI, 0.0, 5, "any", 0.05),
        (QUIET, 0.05, 5, "slower", 0.90),
        (SEEN_3, 0.05, 5, "slower", 0.90),
    ):
        sense = "<=" if wanted == "any" else ">="
        cells.append(
            cell(
                "7 compare",
                f"{machine.name}; n = 8, {history} sessions before, true {100 * change:g} %",
                f"{'false verdicts' if wanted == 'any' else 'power'} {sense} {bound}",
                sense,
                bound,
                "compare",
                compared(machine, 8, change, history, wanted),
                n=8,
                reps=800,
            )
        )
    for machine, change in ((UNSEEN_1, 0.05), (UNSEEN_3, 0.05), (SEEN_3, 0.02), (SHARED_CI, 0.0)):
        cells.append(
            cell(
                "7 compare",
                f"{machine.name}; n = 8, 5 sessions before, true {100 * change:g} %: interval",
                "coverage of the ratio >= 0.935",
                ">=",
                0.935,
                "compare",
                compare_coverage(machine, 8, change, 5),
                n=8,
                reps=800,
            )
        )
    shared, pinned = (0.05, 0.013), (0.013, 0.010)
    for n, change, limit, spreads, count, sense, bound, what in (
        (20, 0.02, 0.0, shared, alarms, ">=", 0.90, "2 % caught by floors"),
        (20, 0.0, 0.0, shared, alarms, "<=", 0.05, "false alarm"),
        (12, 0.02, 0.0, pinned, alarms, ">=", 0.90, "2 % caught"),
        (12, 0.0, 0.02, pinned, passes, ">=", 0.90, "unchanged passes"),
        (20, 0.05, 0.02, pinned, alarms, ">=", 0.90, "5 % caught at a limit of 2 %"),
    ):
        cells.append(
            cell(
                "8 duel",
                f"{n} pairs, medians {100 * spreads[0]:g} %, floors {100 * spreads[1]:g} %, first "
                f"1.3 % slower: {what}",
                f"duel: {what} {sense} {bound}",
                sense,
                bound,
                "duel",
                duelled(n, change, limit, spreads, 0.013, count),
                n=n,
                reps=800,
            )
        )
    return cells


UNSEEN_PROOF = (
    "Two sessions differ by sqrt(2) * 3 % = 4.2 % whatever the number of processes. With that "
    "known exactly a one-sided 5 % test of a limit of 2 % finds 5 % with probability "
    "P(Z > 1.645 - 3 / 4.24) = 0.17 and shows an unchanged code to be within 2 % with 0.12."
)


def load() -> list[Cell]:
    """Promise 10."""
    points = [
        (service, rate, runs, queries, 0.99)
        for service, rate, runs, queries in (
            (CONSTANT, 0.7, 3, 3000),
            (CONSTANT, 0.9, 3, 3000),
            (CONSTANT, 0.95, 3, 3000),
            (LOGNORMAL_1, 0.7, 3, 3000),
            (LOGNORMAL_1, 0.9, 3, 3000),
            (LOGNORMAL_1, 0.95, 3, 3000),
            (EXPONENTIAL, 0.9, 1, 3000),
            (EXPONENTIAL, 0.5, 3, 5000),
            (EXPONENTIAL, 0.8, 3, 30000),
            (CONSTANT, 0.9, 3, 40000),
        )
    ]
    cells = truth_cells(points, 500)
    return cells + given_cells(
        [
            (EXPONENTIAL, 0.5, 3, 5000, 0.99, True),
            (CONSTANT, 0.7, 3, 5000, 0.99, True),
            (CONSTANT, 0.9, 3, 40000, 0.99, True),
            (LOGNORMAL_1, 0.9, 3, 3000, 0.99, False),
            (LOGNORMAL_1, 0.95, 3, 3000, 0.99, False),
            (CONSTANT, 0.95, 3, 3000, 0.99, False),
        ],
        300,
    )


def all_cells() -> list[Cell]:
    """Every cell of this folder."""
    return [
        *headline_cells(),
        *tails(),
        *steady(),
        *pairs(),
        *families(),
        *noise(),
        *between_sessions(),
        *load(),
    ]


CELLS = all_cells()


def main(arguments: list[str]) -> int:
    """Play the cells with the reference answer."""
    quick = "--quick" in arguments
    chosen = [a for a in arguments if not a.startswith("--")]
    cells = [c for c in CELLS if not chosen or any(c.promise.startswith(part) for part in chosen)]
    results = run(cells, Reference(), quick=quick, show=print)
    sys.stdout.write(summary(results) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
