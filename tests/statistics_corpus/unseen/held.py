"""The held-out cells: other laws, other counts, other seeds.

Run with the folder of `cells.py` on `PYTHONPATH`; `--quick` plays a slice. The reference answer
shows that they can be met: `python held.py`.
"""

from __future__ import annotations

import sys

from statistics_corpus.cells import HOPELESS
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
    HELD_CALL_LAWS,
    HELD_PROCESS_LAWS,
    calls_ar,
    calls_lognormal,
    calls_spikes,
    calls_two_valued,
    warm_up,
)
from statistics_corpus.queues import (
    CONSTANT,
    LOGNORMAL_1,
    LOGNORMAL_2,
    UNIFORM,
    given_cells,
    truth_cells,
)
from statistics_corpus.reference import Reference
from statistics_corpus.scoring import Cell, held_out, run, summary
from statistics_corpus.series import (
    drift_cells,
    stationary_cells,
    tail_cells,
    tail_refused_cells,
    throughput_cells,
    warm_cells,
)
from statistics_corpus.sessions import (
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
    false_tables,
    gaussian,
    growing,
    interference,
    laplace,
    position_coverage,
    ratio_coverage,
    single,
    spread_in_time,
    stopped_undecided,
    two_levels,
    verdict_power,
    wrong_table,
)

SEED = 2_015

LAPLACE = Setting("Laplace 1.2 %", laplace(0.012))
GROWING = Setting("growing noise 1 %", growing(0.01))
LEVELS = Setting("two levels +5 %", two_levels(0.05, 0.4, 0.008))
BEHIND = Setting("normal 0.8 %, first-loaded 2 % faster", gaussian(0.008), position=-0.02)
SHARED = Setting("normal 1.5 %, a third shared", gaussian(0.015), shared=1.0 / 3.0)

STEADY = Machine("processes 0.7 %, reference 0.4 %", 0.007, reference=0.004)
UNSEEN_2 = Machine("unseen session effect 2 %", 0.015, unseen=0.02, floor_unseen=0.02)
RUNNER = Machine(
    "two levels +12 %, sessions 4 % apart; floors 0.7 %",
    0.02,
    reference=0.015,
    unseen=0.04,
    floor=0.007,
    floor_unseen=0.001,
    modes=(0.12, 0.5),
)


def headline() -> list[Cell]:
    """Promises 1 and 2."""
    laws = HELD_PROCESS_LAWS
    modes, gamma = laws["two modes 60/40 +20 %"], laws["gamma(0.5) 10 %"]
    five = laws["lognormal 5 %"]
    cells = coverage_cells(laws, (7, 16, 31), 1500)
    cells += few_cells(laws, (3, 4), PEERS, 1000, "")
    cells += few_cells({"x": modes, "y": gamma}, (3,), 0, 1000, HOPELESS)
    cells += call_cells(five, HELD_CALL_LAWS, (6, 12), 250, 500)
    cells += call_cells(modes, HELD_CALL_LAWS, (14,), 250, 500)

    def one(name: str, promise: str, asked: str, sense: str, bound: float, play: object) -> None:
        function = "modes" if "modes" in promise else "headline"
        cells.append(
            cell(promise, name, asked, sense, bound, function, play, reps=500, own=True)  # type: ignore[arg-type]
        )

    for law in (modes, gamma):
        asked = "an end of the interval is the point itself in <= 0.02"
        one(law.name, "1 never clamped to touch", asked, "<=", 0.02, touches(law, 35))
        for fewer, more, bound in ((4, 5, 1.10), (6, 14, 1.0), (14, 36, 0.85)):
            promise = "1 more evidence is no worse" if more > 5 else "2 few processes"
            asked = f"mean log width of {more} over that of {fewer} processes <= {bound}"
            name = f"{law.name}, {fewer} to {more} processes"
            one(name, promise, asked, "<=", bound, width_ratio(law, fewer, more, PEERS))
    asked = "mean half-width <= 1.6 x that of a mean with known variance"
    promise = "1 coverage is not bought with width"
    one("lognormal 5 %, n = 16", promise, asked, "<=", 1.6, oracle_width(five, 16, 0.05, 0))
    asked = "an interval from two processes is never given"
    one("lognormal 5 %, n = 2", "2 few processes", asked, "<=", 0.0, never_given(five, 2, 4))
    asked = "an interval wider than a factor of two is never given"
    for n, factor in ((3, 7.0), (6, 30.0)):
        name = f"one of {n} processes {factor:g} times slower"
        one(name, "2 few processes", asked, "<=", 0.0, too_wide(five, n, factor))
    asked = "several modes are seen >= 0.8"
    one("60/40 +20 %, n = 18", "1 modes are said", asked, ">=", 0.8, sees_modes(modes, 18, True))
    asked = "a single mode is seen >= 0.95"
    one("lognormal 5 %, n = 30", "1 modes are said", asked, ">=", 0.95, sees_modes(five, 30, False))
    return cells


def series() -> list[Cell]:
    """Promises 5 and 6."""
    laws, calls = HELD_PROCESS_LAWS, HELD_CALL_LAWS
    five, modes = laws["lognormal 5 %"], laws["two modes 60/40 +20 %"]
    middle, ar = calls["lognormal 20 %"], calls["AR(1) 0.7"]
    spikes = calls["Pareto(1.2) spikes on 3 %"]
    cells = tail_cells(
        [
            (five, middle, 6, 400, 0.99, 0.0),
            (five, middle, 14, 400, 0.95, 0.9),
            (five, middle, 14, 400, 0.999, 0.0),
            (five, middle, 4, 150, 0.90, 0.0),
            (laws["uniform 8 %"], middle, 12, 300, 0.99, 0.5),
            (modes, middle, 16, 300, 0.95, 0.0),
            (five, ar, 12, 400, 0.95, 0.0),
            (five, calls["two-valued 50 % +30 %"], 12, 300, 0.90, 0.5),
            (five, calls["bursts of 20, 30 % +15 %"], 16, 400, 0.90, 0.0),
        ],
        300,
    )
    cells += tail_refused_cells([(five, middle, 4, 60, 0.99), (five, middle, 6, 10, 0.95)], 200)
    cells += throughput_cells(
        [(five, spikes, 8, 300), (five, middle, 8, 250), (five, ar, 9, 300)], 400
    )
    cells += stationary_cells(
        [
            ("lognormal 5 %", calls_lognormal(0.05), 400),
            ("two-valued 35 % +15 %", calls_two_valued(0.35, 0.15, 0.01), 300),
            ("two-valued 50 % +60 %", calls_two_valued(0.5, 0.6, 0.005), 600),
            ("two-valued 15 % +30 %", calls_two_valued(0.15, 0.3, 0.002), 150),
            ("AR(1) 0.4", calls_ar(0.4, 0.04), 400),
            ("Pareto(1.2) spikes on 3 %", calls_spikes(0.03, 1.2, 0.3, 0.02), 500),
        ],
        600,
    )
    cells += drift_cells(
        [
            ("lognormal 4 %", calls_lognormal(0.04), 500, 0.10, 0.10),
            ("lognormal 2 %", calls_lognormal(0.02), 300, 0.12, 0.10),
            ("two-valued 35 % +15 %", calls_two_valued(0.35, 0.15, 0.01), 900, 0.10, 0.10),
            ("lognormal 3 %", calls_lognormal(0.03), 250, 0.25, 0.01),
        ],
        400,
    )
    return cells + warm_cells(
        [("4x first", warm_up(4.0, 0.08, 0.3, calls_lognormal(0.03)), 500)], 300
    )


def pairs() -> list[Cell]:
    """Promises 3 and 4."""
    cells = [
        cell(
            "3 pairs: identical code",
            f"{setting.name}, {n} pairs",
            "false verdicts <= 0.05",
            "<=",
            0.05,
            "ratio",
            single(setting, n, 0.0, wrong_table),
            n=n,
            reps=1500,
        )
        for setting in (LAPLACE, GROWING, LEVELS, BEHIND)
        for n in (4, 9, 24)
    ]
    cells += [
        cell(
            "3 pairs: interval of the ratio",
            f"{setting.name}, {n} pairs, {100 * gain:g} %",
            "coverage of the ratio >= 0.94",
            ">=",
            0.94,
            "ratio",
            ratio_coverage(setting, n, gain),
            n=n,
            reps=1500,
        )
        for setting, n, gain in ((LAPLACE, 14, 0.03), (BEHIND, 11, -0.04))
    ]
    cells += [
        cell(
            "3 position effect",
            f"{BEHIND.name}, 22 pairs",
            "coverage of the position effect >= 0.935",
            ">=",
            0.935,
            "position",
            position_coverage(BEHIND, 22),
            n=22,
            reps=800,
            given=0.95,
        ),
        cell(
            "3 pairs: power",
            f"{BEHIND.name}, 14 pairs, 2 %",
            "power >= 0.90",
            ">=",
            0.90,
            "ratio",
            single(BEHIND, 14, 0.02, lambda _, verdict: verdict == "faster"),
            n=14,
            reps=600,
        ),
    ]
    cells += [
        cell(
            "3 interference",
            f"pair slows the baseline by {100 * effect:g} %; {LAPLACE.name}",
            f"interference is said {sense} {bound}",
            sense,
            bound,
            "interferes",
            interference(LAPLACE, effect, True),
            reps=800,
        )
        for effect, sense, bound in ((0.0, "<=", 0.05), (0.04, ">=", 0.90))
    ]
    cells += [
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
        for setting in (LAPLACE, GROWING, LEVELS, BEHIND, SHARED)
        for m, reps in ((2, 1000), (7, 500), (25, 250))
    ]
    cells += [
        cell(
            "4 power in a table",
            f"{setting.name}, {m} candidates, {100 * gain:g} %",
            "power >= 0.90",
            ">=",
            0.90,
            "table",
            verdict_power(setting, [gain] * m, "faster" if gain > 0 else "slower"),
            reps=60,
            own=True,
        )
        for setting, m, gain in ((LAPLACE, 8, 0.02), (BEHIND, 12, -0.02), (SHARED, 20, 0.025))
    ]
    cells.append(
        cell(
            "4 converged means decided",
            f"{LAPLACE.name}, 12 candidates, 1.5 %",
            "stopped before the last pair without a verdict <= 0",
            "<=",
            0.0,
            "table",
            stopped_undecided(LAPLACE, [0.015] * 12),
            reps=50,
        )
    )
    cells += [
        cell(
            "4 fastest",
            f"{setting.name}, gains {', '.join(f'{100 * g:g}' for g in gains)} %: {kind}",
            f"{kind} {sense} {bound}",
            sense,
            bound,
            "table",
            best_set(setting, gains, kind),
            reps=400,
            own=kind == "alone",
        )
        for setting, gains, kind, sense, bound in (
            (LAPLACE, [0.03, 0.03, 0.01, 0.0], "falsely", "<=", 0.05),
            (BEHIND, [0.0] * 6, "falsely", "<=", 0.05),
            (GROWING, [0.06, 0.055, 0.02], "holds", ">=", 0.95),
            (BEHIND, [0.06, 0.03, 0.01, -0.02], "alone", ">=", 0.90),
        )
    ]
    cells += [
        cell(
            "6 spread over time",
            f"{trials} trials of {n}, phases of +20 % and dwell {dwell:g}",
            "intervals of copies exclude each other <= 0.05",
            "<=",
            0.05,
            "schedule, headline",
            spread_in_time(trials, n, dwell, 0.20, None),
            n=n,
            reps=800,
            own=True,
        )
        for trials, n, dwell in ((7, 10, 5.0), (12, 6, 15.0))
    ]
    return cells


def between_sessions() -> list[Cell]:
    """Promises 7, 8 and 10."""
    cells = []
    for machine, n, change, limit, history, what in (
        (STEADY, 10, 0.0, 0.02, 4, "passes"),
        (STEADY, 10, 0.05, 0.02, 4, "caught"),
        (STEADY, 10, 0.02, 0.02, 4, "false alarm"),
        (RUNNER, 16, 0.0, 0.02, 6, "passes"),
        (RUNNER, 16, 0.05, 0.02, 6, "caught"),
        (RUNNER, 16, 0.0, 0.02, 6, "false alarm"),
        (RUNNER, 16, 0.02, 0.02, 6, "false alarm"),
        (UNSEEN_2, 10, 0.0, 0.02, 4, "false alarm"),
        (UNSEEN_2, 30, 0.0, 0.02, 4, "false alarm"),
        (UNSEEN_2, 10, 0.0, 0.02, 0, "false alarm"),
        (UNSEEN_2, 10, 0.0, 0.02, 4, "passes or says when"),
        (UNSEEN_2, 10, 0.05, 0.02, 4, "caught or says when"),
    ):
        count, sense, bound = {
            "passes": (passes, ">=", 0.90),
            "caught": (alarms, ">=", 0.90),
            "false alarm": (alarms, "<=", 0.05),
            "passes or says when": (right_or_says("passed"), ">=", 0.90),
            "caught or says when": (right_or_says("regression"), ">=", 0.90),
        }[what]
        name = (
            f"{machine.name}; n = {n}, {history} sessions before, true {100 * change:g} %: {what}"
        )
        play = gated(machine, n, change, limit, history, count)
        asked = f"gate: {what} {sense} {bound}"
        cells.append(cell("7 gate", name, asked, sense, bound, "gate", play, n=n, reps=500))
    for machine, change, wanted, sense, bound in (
        (STEADY, 0.0, "any", "<=", 0.05),
        (UNSEEN_2, 0.0, "any", "<=", 0.05),
        (RUNNER, 0.0, "any", "<=", 0.05),
        (STEADY, 0.05, "slower", ">=", 0.90),
    ):
        name = f"{machine.name}; n = 12, 4 sessions before, true {100 * change:g} %"
        asked = f"verdicts {sense} {bound}"
        play = compared(machine, 12, change, 4, wanted)
        cells.append(cell("7 compare", name, asked, sense, bound, "compare", play, n=12, reps=700))
    play = compare_coverage(UNSEEN_2, 12, 0.04, 4)
    name = f"{UNSEEN_2.name}; n = 12, 4 sessions before: interval"
    asked = "coverage of the ratio >= 0.935"
    cells.append(cell("7 compare", name, asked, ">=", 0.935, "compare", play, n=12, reps=700))
    for n, change, limit, count, sense, bound in (
        (18, 0.0, 0.0, alarms, "<=", 0.05),
        (18, 0.02, 0.0, alarms, ">=", 0.90),
        (18, 0.0, 0.02, passes, ">=", 0.90),
    ):
        play = duelled(n, change, limit, (0.03, 0.012), -0.01, count)
        name = f"{n} pairs, true {100 * change:g} %, limit {100 * limit:g} %"
        asked = f"duel {sense} {bound}"
        cells.append(cell("8 duel", name, asked, sense, bound, "duel", play, n=n, reps=700))
    cells += truth_cells(
        [
            (UNIFORM, 0.9, 3, 4000, 0.99),
            (LOGNORMAL_1, 0.8, 4, 3000, 0.95),
            (LOGNORMAL_2, 0.85, 3, 4000, 0.99),
            (LOGNORMAL_2, 0.5, 4, 12000, 0.99),
            (CONSTANT, 0.85, 3, 15000, 0.99),
        ],
        400,
    )
    return cells + given_cells(
        [
            (CONSTANT, 0.85, 3, 30000, 0.99, True),
            (UNIFORM, 0.6, 4, 4000, 0.95, True),
            (LOGNORMAL_2, 0.9, 3, 4000, 0.99, False),
        ],
        300,
    )


CELLS = held_out([*headline(), *series(), *pairs(), *between_sessions()])


def main(arguments: list[str]) -> int:
    """Play the cells with the reference answer."""
    chosen = [a for a in arguments if not a.startswith("--")]
    cells = [c for c in CELLS if not chosen or any(c.promise.startswith(part) for part in chosen)]
    results = run(cells, Reference(), quick="--quick" in arguments, seed=SEED, show=print)
    sys.stdout.write(summary(results) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
