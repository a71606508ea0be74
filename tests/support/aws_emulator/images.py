"""Public parameters that name images, and those images, as the table of facts has them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from benchorch.hardware.aws_account.facts import Facts, read_facts

FACTS = Path(__file__).resolve().parents[3] / "infra" / "facts.yaml"
_NAMES = {
    "server": "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-{arch}-server-20261101",
    "gpu": "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04) 20261101",
    "neuron": "Deep Learning Base Neuron (Ubuntu 24.04) 20261101",
}
_ARCHITECTURES = ("x86_64", "arm64")
_MODEL_IMAGE = "ami-03cf127a"  # one of those that moto has


@cache
def facts() -> Facts:
    """What AWS is, by outside sources."""
    return read_facts(FACTS)


def seed(account: str, region: str) -> None:
    """Make the parameters of the table, which moto has for other systems only."""
    for number, (identifier, parameter) in enumerate(sorted(_parameters(facts()).items())):
        image_id = f"ami-{number + 1:017x}"
        _, image, last = identifier.split(".")
        arch = last if last in _ARCHITECTURES else "x86_64"
        _register(account, region, image_id, arch, _NAMES[image].format(arch=arch))
        _store(account, region, parameter, image_id)


def _parameters(table: Facts) -> dict[str, str]:
    """The parameters' names by the facts' identifiers, such as ``image.gpu.x86_64``."""
    values = {name: str(fact.value) for name, fact in table.items() if name.startswith("image.")}
    return {name: value for name, value in values.items() if value.startswith("/aws/service/")}


def _register(account: str, region: str, image_id: str, arch: str, name: str) -> None:
    from moto.ec2.models import ec2_backends
    from moto.ec2.models.amis import Ami

    backend = ec2_backends[account][region]
    model = backend.amis[_MODEL_IMAGE]
    backend.amis[image_id] = Ami(
        backend,
        image_id,
        name=name,
        architecture=arch,
        virtualization_type="hvm",
        root_device_name=model.root_device_name,
        root_device_type="ebs",
        owner_id="099720109477",
        public=True,
    )


def _store(account: str, region: str, name: str, value: str) -> None:
    from moto.ssm.models import Parameter, ssm_backends

    ssm_backends[account][region]._parameters[name].append(
        Parameter(
            account_id=account,
            name=name,
            value=value,
            parameter_type="String",
            description="",
            allowed_pattern=None,
            keyid=None,
            last_modified_date=0.0,
            version=1,
            data_type="aws:ec2:image",
        )
    )
