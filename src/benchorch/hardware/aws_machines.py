"""EC2 instances that a Ray cluster has launched and that have not joined it."""

import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, final

from benchorch.hardware.aws_fleet import CLUSTER_TAG, ROLE_TAG
from benchorch.interfaces.launched_machines import LaunchedMachines

LOG = logging.getLogger(__name__)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AwsMachines(LaunchedMachines):
    """Instances with the tags that Ray's AWS provider gives its workers.

    Attributes:
        cluster: its name in the cluster file.
    """

    cluster: str
    region: str

    def end_booting(self, kinds: Collection[str], joined: Collection[str]) -> int:
        """End instances by one call each: in a joint call, a missing one would save the others."""
        from botocore.exceptions import BotoCoreError, ClientError

        ended = 0
        try:
            client = _ec2(self.region)
            for instance in self._workers(client, kinds):
                if instance.get("PrivateIpAddress") not in joined:
                    client.terminate_instances(InstanceIds=[instance["InstanceId"]])
                    ended += 1
        except (BotoCoreError, ClientError) as error:  # they end when they have been idle
            LOG.warning("booting=not_ended cluster=%s error=%r", self.cluster, str(error))
        return ended

    def _workers(self, client: Any, kinds: Collection[str]) -> Iterator[dict[str, Any]]:
        filters = [
            {"Name": f"tag:{CLUSTER_TAG}", "Values": [self.cluster]},
            {"Name": f"tag:{ROLE_TAG}", "Values": ["worker"]},
            {"Name": "instance-type", "Values": sorted(kinds)},
            {"Name": "instance-state-name", "Values": ["pending", "running"]},
        ]
        for page in client.get_paginator("describe_instances").paginate(Filters=filters):
            for reservation in page["Reservations"]:
                yield from reservation["Instances"]


def _ec2(region: str) -> Any:
    import boto3
    from botocore.config import Config

    quick = Config(connect_timeout=3, read_timeout=10, retries={"total_max_attempts": 3})
    return boto3.client("ec2", region_name=region, config=quick)
