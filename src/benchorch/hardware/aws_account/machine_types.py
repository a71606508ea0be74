"""The stack's instance types as the region describes them, and where it offers them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchorch.hardware.aws_account.account import AwsAccount
from benchorch.hardware.aws_account.finding import AccountFinding, FindingState


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineType:
    """Attributes:
    arch: ``x86_64`` or ``arm64``.
    image: ``server``, ``gpu`` or ``neuron``.
    gpus: whole ones of NVIDIA's.
    free_tier: whether an account on the free plan may launch it.
    usage_classes: how it is sold: ``on-demand``, ``spot``, ``capacity-block``.
    """

    name: str
    vcpus: int
    arch: str
    image: str
    gpus: int = 0
    free_tier: bool = False
    usage_classes: tuple[str, ...] = ()


def machine_types(account: AwsAccount, names: Sequence[str]) -> Mapping[str, MachineType]:
    """Properties of these types in the region; unknown names are absent."""
    rows = account.pages(
        "ec2",
        "describe_instance_types",
        "InstanceTypes",
        Filters=[{"Name": "instance-type", "Values": list(names)}],
    )
    return {row["InstanceType"]: _machine_type(row) for row in rows}


def check_offers(
    account: AwsAccount, names: Sequence[str], region: str
) -> Iterator[AccountFinding]:
    """One finding per type: the number of zones that offer it."""
    rows = account.pages(
        "ec2",
        "describe_instance_type_offerings",
        "InstanceTypeOfferings",
        LocationType="availability-zone",
        Filters=[{"Name": "instance-type", "Values": list(names)}],
    )
    zones: dict[str, set[str]] = {name: set() for name in names}
    for row in rows:
        zones.setdefault(row["InstanceType"], set()).add(row["Location"])
    for name in names:
        yield _offer(name, sorted(zones[name]), region)


def check_accelerators(types: Mapping[str, MachineType]) -> Iterator[AccountFinding]:
    """Types with GPUs of which no image of the stack has the driver."""
    for kind in types.values():
        if kind.image == "gpu" and not kind.gpus:
            yield AccountFinding(
                "accelerators",
                FindingState.FAILED,
                kind.name,
                "no whole NVIDIA GPU: a fraction of one, or another maker's",
                "Take another type; no image of the stack has its driver.",
            )


def _offer(name: str, zones: Sequence[str], region: str) -> AccountFinding:
    return AccountFinding(
        "offers",
        FindingState.OK if zones else FindingState.FAILED,
        name,
        ", ".join(zones) if zones else f"not offered in {region}",
        ""
        if zones
        else "Take another region or type: aws ec2 describe-instance-type-offerings "
        f"--filters Name=instance-type,Values='{name.partition('.')[0]}.*' --region OTHER",
    )


def _machine_type(row: Mapping[str, object]) -> MachineType:
    architectures = dict(_mapping(row, "ProcessorInfo")).get("SupportedArchitectures", [])
    if "GpuInfo" in row:
        image = "gpu"
    elif "NeuronInfo" in row or "InferenceAcceleratorInfo" in row:
        image = "neuron"
    else:
        image = "server"
    return MachineType(
        name=str(row["InstanceType"]),
        vcpus=int(str(_mapping(row, "VCpuInfo").get("DefaultVCpus", 0))),
        arch="arm64" if "arm64" in list(_sequence(architectures)) else "x86_64",
        image=image,
        gpus=sum(
            int(str(one.get("Count", 0)))
            for one in _mappings(_mapping(row, "GpuInfo").get("Gpus"))
            if one.get("Manufacturer") == "NVIDIA"
        ),
        free_tier=bool(row.get("FreeTierEligible")),
        usage_classes=tuple(map(str, _sequence(row.get("SupportedUsageClasses")))),
    )


def _mapping(row: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = row.get(key)
    return value if isinstance(value, dict) else {}


def _mappings(value: object) -> Sequence[Mapping[str, object]]:
    return [one for one in _sequence(value) if isinstance(one, dict)]


def _sequence(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()
