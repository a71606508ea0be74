"""Which machines may be hired, and how many of each: what Ray's cluster file declares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import yaml

from benchorch.domain.codec import Json
from benchorch.domain.price import Market
from benchorch.errors import ConfigError

RESOURCE_PREFIX = "benchorch:"
KIND_LABEL = "benchorch/instance-type"
MARKET_LABEL = "ray.io/market-type"
_EMPTY = (
    *("cluster_synced_files", "rsync_exclude", "rsync_filter"),
    *("initialization_commands", "setup_commands", "head_setup_commands", "worker_setup_commands"),
    *("head_start_ray_commands", "worker_start_ray_commands"),
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A kind of machine in one market."""

    kind: str
    market: Market

    @property
    def labels(self) -> dict[str, str]:
        """What a node of it is labelled with."""
        return {KIND_LABEL: self.kind, MARKET_LABEL: self.market.replace("_", "-")}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NodeType:
    """A node type that Ray's autoscaler may launch.

    Attributes:
        most: how many of them there may be at a time.
        gpus: of one of them.
        node_type: its name in the cluster file.
    """

    post: Placement
    most: int
    gpus: int = 0
    node_type: str = ""


def read_cluster_file(path: Path) -> tuple[NodeType, ...]:
    """What a cluster file declares; ConfigError where it cannot be read or declares nothing."""
    try:
        content = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ConfigError(
            [
                f"There is no cluster file at {path} ({error.strerror}). It is on the cluster's "
                "head: run this there, or name a copy by executor.cluster_file."
            ]
        ) from error
    except yaml.YAMLError as error:
        raise ConfigError([f"{path} is not a cluster file: {error}"]) from error
    offers = tuple(_offers(content))
    if not offers:
        raise ConfigError(
            [
                f"{path} declares no machine to hire: a node type needs max_workers above 0, a "
                f"resource {RESOURCE_PREFIX}KIND and the labels {KIND_LABEL} and {MARKET_LABEL}."
            ]
        )
    return offers


def cluster_file(
    name: str, provider: Mapping[str, Json], offers: Sequence[NodeType], *, idle_s: float
) -> str:
    """The text of a cluster file of these machines and a head that measures nothing."""
    types: dict[str, Json] = {
        offer.node_type: {
            "min_workers": 0,
            "max_workers": offer.most,
            "resources": {"CPU": 1, f"{RESOURCE_PREFIX}{offer.post.kind}": 1},
            "labels": dict(offer.post.labels),
            "node_config": {},
        }
        for offer in offers
    }
    types["head"] = {
        "min_workers": 0,
        "max_workers": 0,
        "resources": {"CPU": 0},
        "node_config": {},
    }
    return str(
        yaml.safe_dump(
            {
                "cluster_name": name,
                "max_workers": sum(offer.most for offer in offers),
                "idle_timeout_minutes": idle_s / 60,
                "provider": {**provider, "disable_node_updaters": True},
                "auth": {"ssh_user": "nobody"},
                "head_node_type": "head",
                "available_node_types": types,
                "file_mounts": {},
                "file_mounts_sync_continuously": False,
                **{name: [] for name in _EMPTY},  # Ray demands them, or runs defaults of its own
            }
        )
    )


def _offers(content: Json) -> Iterator[NodeType]:
    types = _mapping(content).get("available_node_types")
    for name, node in _mapping(types).items():
        labels = _mapping(_mapping(node).get("labels"))
        resources = _mapping(_mapping(node).get("resources"))
        kind = labels.get(KIND_LABEL)
        market = str(labels.get(MARKET_LABEL)).replace("-", "_")
        most = _count(_mapping(node).get("max_workers"))
        if f"{RESOURCE_PREFIX}{kind}" in resources and market in list(Market) and most > 0:
            yield NodeType(
                post=Placement(kind=str(kind), market=Market(market)),
                most=most,
                gpus=_count(resources.get("GPU")),
                node_type=name,
            )


def _mapping(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}


def _count(value: Json) -> int:
    return int(value) if isinstance(value, int | float) and value > 0 else 0
