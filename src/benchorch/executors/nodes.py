"""Properties that a Ray node announces: hardware kinds, measuring slots and placement."""

import re
from collections.abc import Mapping
from typing import Any

from benchorch.domain.price import Market
from benchorch.executors.scheduling.cluster_file import (
    KIND_LABEL,
    MARKET_LABEL,
    RESOURCE_PREFIX,
    Placement,
)
from benchorch.frameworks.upstream_errors import without_colours


def kinds_of(node: Mapping[str, Any]) -> tuple[str, ...]:
    """The hardware kinds that a node announces."""
    names = sorted(node["Resources"])
    return tuple(name[len(RESOURCE_PREFIX) :] for name in names if name.startswith(RESOURCE_PREFIX))


def slots_of(node: Mapping[str, Any]) -> int:
    """How many trials may be measured at once: a slot serves all kinds of its node."""
    return min(int(node["Resources"][f"{RESOURCE_PREFIX}{kind}"]) for kind in kinds_of(node))


def placement_of(node: Mapping[str, Any]) -> Placement | None:
    """The kind and market that a node's labels name."""
    labels = node.get("Labels") or {}
    market = str(labels.get(MARKET_LABEL)).replace("-", "_")
    if KIND_LABEL not in labels or market not in list(Market):
        return None
    return Placement(kind=labels[KIND_LABEL], market=Market(market))


def host_of(node: Mapping[str, Any]) -> str:
    """Display name of a node."""
    return f"{node['NodeManagerHostname']} ({node['NodeID'][:8]})"


def last_line(text: str) -> str:
    """The last of Ray's many lines, which has the reason."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300].rstrip(".") if lines else "no reason given"


def exit_reason(log: str) -> str:
    """Which of a head's servers exited, and why, from the output of `ray start --block`."""
    plain = without_colours(log)
    dead = [
        f"{server} ended with {code}"
        for server, code in re.findall(r"-- (\w+) \[exit code=(-?\d+)\]", plain)
    ]
    tails = re.findall(r"BEGIN \w+\.err tail[^\n]*\n(.*?)\n[^\n]*----- END", plain, re.DOTALL)
    return "; ".join([*dead, *map(last_line, tails)]) or last_line(plain)
