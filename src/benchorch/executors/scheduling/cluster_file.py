"""Ray's cluster file: which node types may be launched, and how many of each."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import yaml

from benchorch.domain.codec import Json
from benchorch.domain.price import Market
from benchorch.errors import ConfigError
from benchorch.executors.node_packages import distributions
from benchorch.files import read_text

RESOURCE_PREFIX = "benchorch:"
KIND_LABEL = "benchorch/instance-type"
MARKET_LABEL = "ray.io/market-type"
PACKAGES_LABEL = "benchorch/packages"
LOCKS = "locks"
"""The folder beside a cluster file with the lock of each kind of node, named by its label."""

_EMPTY = (
    *("cluster_synced_files", "rsync_exclude", "rsync_filter"),
    *("initialization_commands", "setup_commands", "head_setup_commands", "worker_setup_commands"),
    *("head_start_ray_commands", "worker_start_ray_commands"),
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A hardware kind in one market."""

    kind: str
    market: Market

    @property
    def labels(self) -> dict[str, str]:
        """The labels of its nodes."""
        return {KIND_LABEL: self.kind, MARKET_LABEL: self.market.replace("_", "-")}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NodeType:
    """A node type that Ray's autoscaler may launch.

    Attributes:
        max_nodes: how many may run at a time.
        gpus: per node.
        slots: trials that are measured side by side, each on an equal part of the node.
        name: in the cluster file.
        packages: name of the lock that its nodes were installed by; empty if unknown.
    """

    placement: Placement
    max_nodes: int
    gpus: int = 0
    slots: int = 1
    name: str = ""
    packages: str = ""


def locked_packages(path: Path, node_type: NodeType) -> Mapping[str, str] | None:
    """Versions of a node type's distributions, by the lock beside its cluster file, or None."""
    try:
        return distributions(read_text(path.parent / LOCKS / f"{node_type.packages}.txt"))
    except OSError:
        return None


def read_cluster_file(path: Path) -> tuple[NodeType, ...]:
    """The node types of a cluster file; ConfigError if it cannot be read or declares none."""
    try:
        content = yaml.safe_load(read_text(path))
    except OSError as error:
        raise ConfigError(
            [
                f"There is no cluster file at {path} ({error.strerror}). It is on the cluster's "
                "head: run this there, or name a copy by executor.cluster_file."
            ]
        ) from error
    except yaml.YAMLError as error:
        raise ConfigError([f"{path} is not a cluster file: {error}"]) from error
    node_types = tuple(_node_types(content))
    if not node_types:
        raise ConfigError(
            [
                f"{path} declares no node type to launch: one needs max_workers above 0, a "
                f"resource {RESOURCE_PREFIX}KIND and the labels {KIND_LABEL} and {MARKET_LABEL}."
            ]
        )
    return node_types


def aws_cluster(path: Path) -> Mapping[str, str] | None:
    """The ``cluster`` and ``region`` of a cluster file for AWS; None for any other file."""
    try:
        content = _mapping(yaml.safe_load(read_text(path)))
    except (OSError, yaml.YAMLError):  # which `read_cluster_file` reports
        return None
    provider = _mapping(content.get("provider"))
    if provider.get("type") != "aws":
        return None
    return {"cluster": str(content["cluster_name"]), "region": str(provider["region"])}


def cluster_file(
    name: str, provider: Mapping[str, Json], node_types: Sequence[NodeType], *, idle_s: float
) -> str:
    """The text of a cluster file with these node types and a head that measures nothing."""
    types: dict[str, Json] = {
        node_type.name: {
            "min_workers": 0,
            "max_workers": node_type.max_nodes,
            "resources": {
                "CPU": 1,
                f"{RESOURCE_PREFIX}{node_type.placement.kind}": node_type.slots,
            },
            "labels": dict(node_type.placement.labels),
            "node_config": {},
        }
        for node_type in node_types
    }
    none = {"min_workers": 0, "max_workers": 0}
    types["head"] = {**none, "resources": {"CPU": 0}, "node_config": {}}
    return str(
        yaml.safe_dump(
            {
                "cluster_name": name,
                "max_workers": sum(node_type.max_nodes for node_type in node_types),
                "idle_timeout_minutes": idle_s / 60,
                "provider": {**provider, "disable_node_updaters": True},
                "auth": {"ssh_user": "nobody"},
                "head_node_type": "head",
                "available_node_types": types,
                "file_mounts": {},
                "file_mounts_sync_continuously": False,
                **{name: [] for name in _EMPTY},  # Ray requires them, or runs its own defaults
            }
        )
    )


def _node_types(content: Json) -> Iterator[NodeType]:
    types = _mapping(content).get("available_node_types")
    for name, node in _mapping(types).items():
        labels = _mapping(_mapping(node).get("labels"))
        resources = _mapping(_mapping(node).get("resources"))
        kind = labels.get(KIND_LABEL)
        market = str(labels.get(MARKET_LABEL)).replace("-", "_")
        max_nodes = _count(_mapping(node).get("max_workers"))
        if f"{RESOURCE_PREFIX}{kind}" in resources and market in list(Market) and max_nodes > 0:
            yield NodeType(
                placement=Placement(kind=str(kind), market=Market(market)),
                max_nodes=max_nodes,
                gpus=_count(resources.get("GPU")),
                slots=max(1, _count(resources[f"{RESOURCE_PREFIX}{kind}"])),
                name=name,
                packages=str(labels.get(PACKAGES_LABEL, "")),
            )


def _mapping(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}


def _count(value: Json) -> int:
    return int(value) if isinstance(value, int | float) and value > 0 else 0
