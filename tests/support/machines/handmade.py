"""A stack without Terraform: the least that a head needs, from the same start scripts."""

from __future__ import annotations

import base64
import gzip
import hashlib
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
GROUP, CLUSTER_KEY = f"{NAME}-head", "config/cluster.yaml"
PACKAGES, WHEEL = "cpu-x86_64-0", "benchorch-0-py3-none-any.whl"
_WHEEL = b"rehearsed"
_WORDS = {
    "region": REGION,
    "bucket": BUCKET,
    "store_url": STORE_URL,
    "results_url": f"s3://{NAME}/results",
    "starts_url": f"s3://{NAME}/starts",
    "wheel": WHEEL,
    "wheel_digest": hashlib.sha256(_WHEEL).hexdigest(),
    "node_program": base64.b64encode(gzip.compress((SCRIPTS / "node.py").read_bytes())).decode(),
    "head_group": GROUP,
    "ttl_minutes": "60",
    "head_idle_minutes": "60",
    "cluster_key": CLUSTER_KEY,
    "token_parameter": TOKEN_PARAMETER,
    "address_parameter": ADDRESS_PARAMETER,
}
# What Terraform fills in of its own accord, by role.
_MAKE = base64.b64encode(gzip.compress((SCRIPTS / "make_packages.sh").read_bytes())).decode()
_OWN = {
    "{hard_minutes}": "60",
    "{packages}": PACKAGES,
    "{self_test}": "\"$python\" -c 'import ray, benchorch'",
}
_MAKE_PACKAGES = f"""base64 -d <<'PROGRAM' | gunzip > "$home/make_packages.sh"
{_MAKE}
PROGRAM
"""


def launch_head(kinds: Sequence[str], idle_s: float) -> str:
    """A head that may launch one of each of these types in either market; its id."""
    import boto3  # noqa: TID251 - makes what Terraform would

    ec2 = boto3.client("ec2")
    boto3.client("ssm").put_parameter(
        Name=TOKEN_PARAMETER, Value=secrets.token_hex(32), Type="SecureString", Overwrite=True
    )
    place_in_bucket = {
        f"packages/{_WORDS['wheel_digest']}/{WHEEL}": _WHEEL,
        f"packages/{PACKAGES}/lock.txt": b"",
    }
    boto3.client("s3").create_bucket(Bucket=BUCKET)
    for key, content in place_in_bucket.items():
        boto3.client("s3").put_object(Bucket=BUCKET, Key=key, Body=content)
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
    cluster = _cluster(kinds, idle_s, place).encode()
    boto3.client("s3").put_object(Bucket=BUCKET, Key=CLUSTER_KEY, Body=cluster)
    started = ec2.run_instances(
        ImageId=IMAGE,
        InstanceType=HEAD_TYPE,
        MinCount=1,
        MaxCount=1,
        SubnetId=place["SubnetIds"][0],
        UserData=_script("head"),
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
            "UserData": _script("worker")
            .replace("{instance_type}", node_type.placement.kind)
            .replace("{slots}", str(node_type.slots)),
            **(market if node_type.placement.market is Market.SPOT else {}),
            **place,
        }
    return str(yaml.safe_dump(content))


_SPOT = {"MarketType": "spot"}


def _script(role: str) -> str:
    """A start script as Terraform would fill it in."""
    parts = [(SCRIPTS / f"{name}.sh.tftpl").read_text() for name in ("common", role)]
    filled = re.sub(r"(?<!\$)\$\{(\w+)\}", lambda found: _WORDS[found[1]], "\n".join(parts))
    make = _MAKE_PACKAGES if role == "head" else ""
    for mark, text in {**_OWN, "{role}": role, "{make_packages}": make}.items():
        filled = filled.replace(mark, text)
    return filled.replace("$${", "${")
