"""What is asked for of a cluster that launches machines on demand."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from benchorch.domain.price import Market
from benchorch.executors.scheduling.capacity import (
    CapacityPlanner,
    CapacityRules,
    ClusterState,
    MarketPolicy,
)
from benchorch.executors.scheduling.cluster_file import NodeType, Placement

SPOT = Placement(kind="g5.xlarge", market=Market.SPOT)
ON_DEMAND = Placement(kind="g5.xlarge", market=Market.ON_DEMAND)
KINDS = ("g5.xlarge", "r6i.large")


def offers(most: int = 3) -> list[NodeType]:
    return [NodeType(post=Placement(kind=k, market=m), most=most) for k in KINDS for m in Market]


def recruiter(
    policy: MarketPolicy = MarketPolicy.SPOT_THEN_ON_DEMAND, most: int | None = None
) -> CapacityPlanner:
    return CapacityPlanner(CapacityRules(offers=offers(), policy=policy, most=most))


def test_no_more_is_asked_for_than_trials_wait() -> None:
    assert recruiter().openings(0, {"g5.xlarge": 2, "r6i.large": 0}, ClusterState()) == {SPOT: 2}


def test_no_more_is_asked_for_than_the_cluster_may_launch() -> None:
    assert recruiter().openings(0, {"g5.xlarge": 50}, ClusterState()) == {SPOT: 3}
    assert recruiter(most=1).openings(0, {"g5.xlarge": 50}, ClusterState()) == {SPOT: 1}


def test_machines_of_either_market_count_towards_the_most() -> None:
    census = ClusterState(aboard={SPOT: 1, ON_DEMAND: 1})
    assert recruiter().openings(0, {"g5.xlarge": 50}, census) == {SPOT: 1}


def test_when_no_spot_machine_comes_on_demand_is_asked_for_and_the_kind_is_dry() -> None:
    asks = recruiter()
    waiting = {"g5.xlarge": 1}
    assert asks.openings(0, waiting, ClusterState()) == {SPOT: 1}
    assert asks.openings(89, waiting, ClusterState()) == {SPOT: 1}
    assert asks.openings(90, waiting, ClusterState()) == {ON_DEMAND: 1}
    assert asks.openings(300, {"g5.xlarge": 0}, ClusterState()) == {}
    assert asks.openings(400, waiting, ClusterState()) == {ON_DEMAND: 1}
    assert asks.openings(401, {"g5.xlarge": 0}, ClusterState()) == {}
    assert asks.openings(700, waiting, ClusterState()) == {SPOT: 1}
    assert asks.fallbacks == {"g5.xlarge": 1}


def test_a_spot_machine_that_boots_is_waited_for() -> None:
    asks = recruiter()
    waiting = {"g5.xlarge": 1}
    asks.openings(0, waiting, ClusterState())
    for now_s in range(60, 600, 10):
        assert asks.openings(now_s, waiting, ClusterState(booting={SPOT: 1})) == {SPOT: 1}
    assert asks.openings(610, waiting, ClusterState()) == {SPOT: 1}
    assert asks.openings(700, waiting, ClusterState()) == {ON_DEMAND: 1}


def test_a_kind_that_is_dry_says_nothing_of_another() -> None:
    asks = recruiter()
    asks.openings(0, {"g5.xlarge": 1}, ClusterState())
    found = asks.openings(100, {"g5.xlarge": 1, "r6i.large": 1}, ClusterState())
    assert found == {ON_DEMAND: 1, Placement(kind="r6i.large", market=Market.SPOT): 1}


def test_one_market_alone_has_no_fallback() -> None:
    for policy, post in ((MarketPolicy.SPOT, SPOT), (MarketPolicy.ON_DEMAND, ON_DEMAND)):
        asks = recruiter(policy)
        for now_s in (0, 1000):
            assert asks.openings(now_s, {"g5.xlarge": 1}, ClusterState()) == {post: 1}


def test_a_kind_that_is_not_declared_is_refused_with_those_that_are() -> None:
    rules = CapacityRules(offers=offers()[:1])
    assert rules.refusal("g5.xlarge") is None
    assert rules.refusal("p5.48xlarge") == (
        "the cluster declares no p5.48xlarge in market spot_then_on_demand; it declares: "
        "g5.xlarge (on_demand)."
    )
    assert CapacityPlanner(rules).openings(0, {"p5.48xlarge": 4}, ClusterState()) == {}


@given(
    looks=st.lists(
        st.tuples(
            st.integers(0, 8),  # trials that wait
            st.floats(0.5, 40),  # seconds since the last look
            st.sampled_from(["none", "comes", "boots", "goes"]),
        ),
        max_size=60,
    ),
    most=st.integers(1, 4),
    policy=st.sampled_from(list(MarketPolicy)),
)
def test_whatever_comes_or_goes_hiring_keeps_its_limits(
    looks: list[tuple[int, float, str]], most: int, policy: MarketPolicy
) -> None:
    asks = CapacityPlanner(CapacityRules(offers=offers(most=9), policy=policy, most=most))
    aboard: Counter[Placement] = Counter()
    sought: dict[Placement, int] = {}
    now_s, dry_until_s = 0.0, -1.0
    for waiting, passed_s, event in looks:
        now_s += passed_s
        booting: dict[Placement, int] = {}
        if event == "comes" and sought:
            aboard[next(iter(sought))] += 1
        elif event == "boots" and sought:
            booting = {next(iter(sought)): 1}
        elif event == "goes" and aboard:
            aboard.popitem()
        before = asks.fallbacks["g5.xlarge"]
        census = ClusterState(aboard=aboard, living=aboard, booting=booting)
        sought = asks.openings(now_s, {"g5.xlarge": waiting}, census)
        assert sum(sought.values()) <= waiting
        assert sum(sought.values()) <= max(0, most - sum(aboard.values()))
        assert len(sought) <= 1
        assert {post.market for post in sought} <= set(policy.markets)
        if now_s < dry_until_s:
            assert SPOT not in sought
        if asks.fallbacks["g5.xlarge"] > before:
            assert now_s >= dry_until_s
            dry_until_s = now_s + 600
