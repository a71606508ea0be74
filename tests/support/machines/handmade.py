"""A stack without Terraform: the least that a head needs, from the same start scripts."""

from __future__ import annotations

import base64
import gzip
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from benchorch.domain.price import Market
from benchorch.executors.scheduling.cluster_file import NodeType, Placement, cluster_file
from support.aws_emulator.server import REGION
from support.aws_emulator.shim import IMAGE
from support.machines.namespaces import CHECKOUT
from support.machines.rehearsal import NAME

SCRIPTS = CHECKOUT / "infra" / "terraform" / "scripts"
TOKEN_PARAMETER, ADDRESS_PARAMETER = f"/{NAME}/ray-token", f"/{NAME}/head-address"
BUCKET, STORE_URL = NAME, f"s3://{NAME}/store"
HEAD_TYPE = "m7i.large"
_WORDS = {
    "region": REGION,
    "bucket": BUCKET,
    "store_url": STORE_URL,
    "results_url": f"s3://{NAME}/results",
    "package": NAME,
    "ttl_minutes": "60",
    "token_parameter": TOKEN_PARAMETER,
    "address_parameter": ADDRESS_PARAMETER,
}


def launch_head(kinds: Sequence[str], idle_s: float) -> str:
    """A head that may launch one of each of these types in either market; its id."""
    import boto3  # noqa: TID251 - makes what Terraform would

    ec2 = boto3.client("ec2")
    boto3.client("ssm").put_parameter(
        Name=TOKEN_PARAMETER, Value=secrets.token_hex(32), Type="SecureString", Overwrite=True
    )
    boto3.client("s3").create_bucket(Bucket=BUCKET)
    network = ec2.create_vpc(CidrBlock="10.60.0.0/16")["Vpc"]["VpcId"]
    place = {
        "SubnetIds": [
            ec2.create_subnet(
                VpcId=network, CidrBlock=f"10.60.{16 * number}.0/20", AvailabilityZone=zone
            )["Subnet"]["SubnetId"]
            for number, zone in enumerate((f"{REGION}a", f"{REGION}b"))
        ],
        "SecurityGroupIds": [
            ec2.create_security_group(GroupName=NAME, Description=NAME, VpcId=network)["GroupId"]
        ],
    }
    started = ec2.run_instances(
        ImageId=IMAGE,
        InstanceType=HEAD_TYPE,
        MinCount=1,
        MaxCount=1,
        SubnetId=place["SubnetIds"][0],
        UserData=_head_script(_cluster(kinds, idle_s, place)),
        TagSpecifications=[{"ResourceType": "instance", "Tags": _HEAD_TAGS}],
    )
    return str(started["Instances"][0]["InstanceId"])


_HEAD_TAGS = [
    {"Key": "ray-cluster-name", "Value": NAME},
    {"Key": "ray-node-type", "Value": "head"},
    {"Key": "ray-user-node-type", "Value": "head"},
]


def _cluster(kinds: Sequence[str], idle_s: float, place: Mapping[str, Any]) -> str:
    node_types = [
        NodeType(
            placement=Placement(kind=kind, market=market),
            max_nodes=1,
            name=f"{kind}-{market.replace('_', '-')}",
        )
        for kind in kinds
        for market in Market
    ]
    provider = {"type": "aws", "region": REGION, "cache_stopped_nodes": False}
    content = yaml.safe_load(cluster_file(NAME, provider, node_types, idle_s=idle_s))
    for node_type in node_types:
        market = {"InstanceMarketOptions": _SPOT}
        content["available_node_types"][node_type.name]["node_config"] = {
            "InstanceType": node_type.placement.kind,
            "ImageId": IMAGE,
            "UserData": _script("worker").replace("{instance_type}", node_type.placement.kind),
            **(market if node_type.placement.market is Market.SPOT else {}),
            **place,
        }
    return str(yaml.safe_dump(content))


_SPOT = {"MarketType": "spot"}


def _head_script(cluster: str) -> str:
    packed = base64.b64encode(gzip.compress(cluster.encode())).decode()
    return _script("head").replace("{cluster_file}", packed)


def _script(role: str) -> str:
    """A start script as Terraform would fill it in."""
    parts = [(SCRIPTS / f"{name}.sh.tftpl").read_text() for name in ("common", role)]
    filled = re.sub(r"(?<!\$)\$\{(\w+)\}", lambda found: _WORDS[found[1]], "\n".join(parts))
    return filled.replace("$${", "${")
