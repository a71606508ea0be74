"""Capacity requests of a cluster that launches nodes on demand."""

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


def node_types(max_nodes: int = 3) -> list[NodeType]:
    return [
        NodeType(placement=Placement(kind=k, market=m), max_nodes=max_nodes)
        for k in KINDS
        for m in Market
    ]


def planner(
    policy: MarketPolicy = MarketPolicy.SPOT_THEN_ON_DEMAND, max_nodes: int | None = None
) -> CapacityPlanner:
    return CapacityPlanner(
        CapacityRules(node_types=node_types(), policy=policy, max_nodes=max_nodes)
    )


def test_no_more_nodes_are_requested_than_trials_are_queued() -> None:
    assert planner().requests(0, {"g5.xlarge": 2, "r6i.large": 0}, ClusterState()) == {SPOT: 2}


def test_no_more_nodes_are_requested_than_the_cluster_may_launch() -> None:
    assert planner().requests(0, {"g5.xlarge": 50}, ClusterState()) == {SPOT: 3}
    assert planner(max_nodes=1).requests(0, {"g5.xlarge": 50}, ClusterState()) == {SPOT: 1}


def test_nodes_of_either_market_count_towards_the_limit() -> None:
    state = ClusterState(active={SPOT: 1, ON_DEMAND: 1})
    assert planner().requests(0, {"g5.xlarge": 50}, state) == {SPOT: 1}


def test_without_spot_capacity_on_demand_is_requested_for_a_while() -> None:
    capacity = planner()
    queued = {"g5.xlarge": 1}
    assert capacity.requests(0, queued, ClusterState()) == {SPOT: 1}
    assert capacity.requests(89, queued, ClusterState()) == {SPOT: 1}
    assert capacity.requests(90, queued, ClusterState()) == {ON_DEMAND: 1}
    assert capacity.requests(300, {"g5.xlarge": 0}, ClusterState()) == {}
    assert capacity.requests(400, queued, ClusterState()) == {ON_DEMAND: 1}
    assert capacity.requests(401, {"g5.xlarge": 0}, ClusterState()) == {}
    assert capacity.requests(700, queued, ClusterState()) == {SPOT: 1}
    assert capacity.fallbacks == {"g5.xlarge": 1}


def test_nodes_of_other_sweeps_keep_nobody_on_spot_unless_they_are_all_there_may_be() -> None:
    capacity, queued = planner(), {"g5.xlarge": 1}
    all_of_them, two = ClusterState(of_others={SPOT: 3}), ClusterState(of_others={SPOT: 2})
    capacity.requests(0, queued, all_of_them)
    assert capacity.requests(1000, queued, all_of_them) == {SPOT: 1}
    assert capacity.requests(1010, queued, two) == {SPOT: 1}
    assert capacity.requests(1100, queued, two) == {ON_DEMAND: 1}


def test_a_booting_spot_node_is_waited_for() -> None:
    capacity = planner()
    queued = {"g5.xlarge": 1}
    capacity.requests(0, queued, ClusterState())
    for now_s in range(60, 600, 10):
        assert capacity.requests(now_s, queued, ClusterState(booting={SPOT: 1})) == {SPOT: 1}
    assert capacity.requests(610, queued, ClusterState()) == {SPOT: 1}
    assert capacity.requests(700, queued, ClusterState()) == {ON_DEMAND: 1}


def test_a_fallback_of_one_kind_leaves_the_others_on_spot() -> None:
    capacity = planner()
    capacity.requests(0, {"g5.xlarge": 1}, ClusterState())
    found = capacity.requests(100, {"g5.xlarge": 1, "r6i.large": 1}, ClusterState())
    assert found == {ON_DEMAND: 1, Placement(kind="r6i.large", market=Market.SPOT): 1}


def test_one_market_alone_has_no_fallback() -> None:
    for policy, placement in ((MarketPolicy.SPOT, SPOT), (MarketPolicy.ON_DEMAND, ON_DEMAND)):
        capacity = planner(policy)
        for now_s in (0, 1000):
            assert capacity.requests(now_s, {"g5.xlarge": 1}, ClusterState()) == {placement: 1}


def test_the_message_for_an_undeclared_kind_names_the_declared_ones() -> None:
    rules = CapacityRules(node_types=node_types()[:1])
    assert rules.undeclared("g5.xlarge") is None
    assert rules.undeclared("p5.48xlarge") == (
        "the cluster declares no p5.48xlarge in market spot_then_on_demand; it declares: "
        "g5.xlarge (on_demand)."
    )
    assert CapacityPlanner(rules).requests(0, {"p5.48xlarge": 4}, ClusterState()) == {}


@given(
    polls=st.lists(
        st.tuples(
            st.integers(0, 8),  # queued trials
            st.floats(0.5, 40),  # seconds since the last poll
            st.sampled_from(["none", "comes", "boots", "goes"]),
        ),
        max_size=60,
    ),
    max_nodes=st.integers(1, 4),
    policy=st.sampled_from(list(MarketPolicy)),
)
def test_requests_keep_their_limits_whatever_nodes_come_or_go(
    polls: list[tuple[int, float, str]], max_nodes: int, policy: MarketPolicy
) -> None:
    capacity = CapacityPlanner(
        CapacityRules(node_types=node_types(max_nodes=9), policy=policy, max_nodes=max_nodes)
    )
    active: Counter[Placement] = Counter()
    requested: dict[Placement, int] = {}
    now_s, spot_from_s = 0.0, -1.0
    for queued, passed_s, event in polls:
        now_s += passed_s
        booting: dict[Placement, int] = {}
        if event == "comes" and requested:
            active[next(iter(requested))] += 1
        elif event == "boots" and requested:
            booting = {next(iter(requested)): 1}
        elif event == "goes" and active:
            active.popitem()
        before = capacity.fallbacks["g5.xlarge"]
        state = ClusterState(active=active, alive=active, booting=booting)
        requested = capacity.requests(now_s, {"g5.xlarge": queued}, state)
        assert sum(requested.values()) <= queued
        assert sum(requested.values()) <= max(0, max_nodes - sum(active.values()))
        assert len(requested) <= 1
        assert {placement.market for placement in requested} <= set(policy.markets)
        if now_s < spot_from_s:
            assert SPOT not in requested
        if capacity.fallbacks["g5.xlarge"] > before:
            assert now_s >= spot_from_s
            spot_from_s = now_s + 600
