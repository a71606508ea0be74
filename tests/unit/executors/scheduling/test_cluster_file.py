"""Which machines a cluster file declares, as Ray reads it and as the stack on AWS writes it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from benchorch.domain.price import Market
from benchorch.errors import ConfigError
from benchorch.executors.scheduling.cluster_file import (
    NodeType,
    Placement,
    cluster_file,
    read_cluster_file,
)
from benchorch.executors.simulated_fleet import simulated_node_types

AS_ON_AWS = """
cluster_name: benchorch
head_node_type: head
available_node_types:
  head: {max_workers: 0, resources: {CPU: 0}, node_config: {InstanceType: t3.medium}}
  g5.xlarge-spot:
    max_workers: 2
    resources: {CPU: 4, GPU: 4, "benchorch:g5.xlarge": 4}
    labels: {benchorch/instance-type: g5.xlarge, ray.io/market-type: spot}
  r6i.large-on-demand:
    max_workers: 3
    resources: {CPU: 2, "benchorch:r6i.large": 1}
    labels: {benchorch/instance-type: r6i.large, ray.io/market-type: on-demand}
  somebody-elses: {max_workers: 9, resources: {CPU: 2}}
"""


def test_node_types_are_those_with_a_kind_and_a_market(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(AS_ON_AWS)
    assert read_cluster_file(path) == (
        NodeType(
            placement=Placement(kind="g5.xlarge", market=Market.SPOT),
            max_nodes=2,
            gpus=4,
            slots=4,
            name="g5.xlarge-spot",
        ),
        NodeType(
            placement=Placement(kind="r6i.large", market=Market.ON_DEMAND),
            max_nodes=3,
            name="r6i.large-on-demand",
        ),
    )


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    offers = simulated_node_types(["r6i.large", "c7i.large", "r6i.large"], max_nodes=2)
    path.write_text(cluster_file("name", {"type": "external"}, offers, idle_s=30))
    assert read_cluster_file(path) == offers
    assert yaml.safe_load(path.read_text())["idle_timeout_minutes"] == 0.5


@pytest.mark.parametrize("text", ["", "[1, 2]", "available_node_types: 3", "a: {b: c"])
def test_a_file_that_declares_nothing_is_refused_by_its_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"cluster\.yaml"):
        read_cluster_file(path)


def test_a_file_that_is_not_there_is_refused_with_where_it_is(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="on the cluster's head"):
        read_cluster_file(tmp_path / "cluster.yaml")
