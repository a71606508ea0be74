"""A table judged as one family, with simulated pairs of known truth."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchorch.stats.family import Candidate, Family, Terms, judged

LOOKS = (5, 8, 12, 18, 27, 40)


def table(*gains: float, pairs: int = 12, sd: float = 0.01, seed: int = 0) -> list[Candidate]:
    rng = np.random.default_rng(seed)
    return [
        Candidate(name=f"c{i}", log_ratios=(*(math.log1p(gain) + sd * rng.standard_normal(pairs)),))
        for i, gain in enumerate(gains)
    ]


def needing(found: Family) -> set[str]:
    """Candidates that may have more processes, which would decide something."""
    return {one.name for one in found.standings if one.next_look is not None}


def verdicts(found: Family) -> list[str]:
    return [one.verdict for one in found.standings]


def test_each_candidate_gets_the_verdict_that_its_interval_shows() -> None:
    found = judged(table(0.05, -0.05, 0.0, pairs=40), Terms(looks=LOOKS))

    assert verdicts(found) == ["faster", "slower", "equivalent"]
    for one in found.standings:
        assert one.low is not None
        assert one.high is not None
        assert one.adjusted_p_value is not None
        assert (one.low > 1 or one.high < 1) == (one.adjusted_p_value < 0.05)


def test_the_only_one_that_nothing_beats_is_the_winner() -> None:
    found = judged(table(0.0, 0.02, 0.05, 0.08, pairs=18), Terms(looks=LOOKS))

    assert found.best == {"c3"}


def test_equals_share_the_set_of_best() -> None:
    found = judged(table(0.05, 0.05, 0.0), Terms(looks=LOOKS))

    assert found.best == {"c0", "c1"}


def test_the_baseline_wins_where_all_are_slower() -> None:
    found = judged(table(-0.05, -0.08), Terms(baseline="eager", looks=LOOKS))

    assert found.best == {"eager"}


def test_two_pairs_claim_nothing() -> None:
    found = judged(table(0.5, 0.0, pairs=2), Terms())

    assert verdicts(found) == ["undecided"] * 2
    assert found.best == {"c0", "c1", "baseline"}
    assert found.standings[0].low is None
    assert found.standings[0].ratio == pytest.approx(1.5, rel=0.02)


def test_three_pairs_that_agree_by_luck_are_no_verdict() -> None:
    lucky = Candidate(name="lucky", log_ratios=(0.020, 0.0201, 0.0199))

    assert verdicts(judged([lucky], Terms())) == ["undecided"]
    assert "undecided" in verdicts(judged([lucky, *table(0.0, 0.0, 0.0, pairs=5)], Terms()))


def test_a_candidate_that_scatters_more_is_not_judged_by_the_calm_of_the_others() -> None:
    calm = table(*[0.0] * 8, pairs=8, sd=0.002)
    rough = Candidate(name="rough", log_ratios=(0.06, -0.05, 0.09, 0.01, 0.07, -0.03, 0.05, 0.02))

    found = judged([*calm, rough], Terms())

    assert found.of("rough").verdict == "undecided"


def test_no_candidates_leave_the_baseline() -> None:
    found = judged([], Terms(baseline="eager"))

    assert found.best == {"eager"}


def test_identical_times_are_equivalent_however_few_the_differences() -> None:
    same = Candidate(name="same", log_ratios=(0.0,) * 8)

    assert judged([same], Terms(looks=LOOKS)).of("same").verdict == "equivalent"


class TestWhoNeedsMore:
    def test_the_undecided_do(self) -> None:
        found = judged(table(0.10, 0.004, pairs=8), Terms(looks=LOOKS, most=40))

        assert needing(found) == {"c1"}
        assert found.of("c1").next_look == 12
        assert (found.of("c1").more or 0) > 0
        assert not found.of("c1").decided

    def test_so_do_two_that_may_both_be_best(self) -> None:
        found = judged(table(0.10, 0.102, 0.03, pairs=8), Terms(looks=LOOKS, most=40))

        assert needing(found) == {"c0", "c1"}
        assert verdicts(found) == ["faster"] * 3

    def test_nobody_does_where_no_more_are_allowed(self) -> None:
        found = judged(table(0.004, pairs=40), Terms(looks=LOOKS, most=40))

        assert needing(found) == set()

    def test_the_last_look_is_the_most_there_may_be(self) -> None:
        found = judged(table(0.006, pairs=18, sd=0.02), Terms(looks=LOOKS, most=20))

        assert found.of("c0").next_look == 20

    def test_between_looks_the_last_one_stands(self) -> None:
        pairs = table(0.02, pairs=11)
        first = [Candidate(name="c0", log_ratios=pairs[0].log_ratios[:8])]
        terms = Terms(looks=LOOKS, most=40)

        between = judged(pairs, terms, interim=True).of("c0")

        assert between.n == 8
        assert (between.low, between.high) == (
            judged(first, terms).of("c0").low,
            judged(first, terms).of("c0").high,
        )
        assert judged(pairs, terms).of("c0").n == 11

    def test_ties_within_what_matters_are_settled(self) -> None:
        found = judged(table(0.10, 0.10, pairs=40, sd=0.003), Terms(looks=LOOKS, most=60))

        assert all(one.decided for one in found.standings)
        assert found.best == {"c0", "c1"}

    def test_the_predicted_number_of_pairs_is_enough(self) -> None:
        short = judged(table(0.012, pairs=8, seed=3), Terms())
        more = short.of("c0").more
        assert short.of("c0").verdict == "undecided"
        assert more is not None

        tiled = table(0.012, pairs=8, seed=3)[0].log_ratios * (1 + math.ceil(more / 8))

        later = judged([Candidate(name="c0", log_ratios=tiled)], Terms())
        assert later.of("c0").verdict != "undecided"


def test_a_trial_alone_is_judged_as_one_of_those_planned() -> None:
    alone = judged(table(0.02), Terms(planned=10)).of("c0")
    single = judged(table(0.02), Terms()).of("c0")

    assert alone.low is not None
    assert single.low is not None
    assert alone.low < single.low


@pytest.mark.parametrize("name", ["equal", "best by far"])
def test_false_claims_are_rare_in_spite_of_looks_and_many_candidates(name: str) -> None:
    gains = [0.0] * 4 if name == "equal" else [0.05, 0.05, 0.0, 0.0]
    false = 0
    for seed in range(100):
        pairs = table(*gains, pairs=40, seed=seed)
        terms = Terms(looks=LOOKS, most=40)
        for look in LOOKS:
            seen = [Candidate(name=c.name, log_ratios=c.log_ratios[:look]) for c in pairs]
            found = judged(seen, terms)
            wrong = [
                one.verdict in ("faster", "slower") and gain == 0
                for one, gain in zip(found.standings, gains, strict=True)
            ]
            if any(wrong) or len(found.best) == 1:
                false += 1
                break
    assert false <= 11  # 5 % of 100, at one in a hundred by luck
