"""Write conf/hardware/ for EC2 from what EC2 says of its instance types.

    python scripts/write_hardware.py [--check] [--offline]

Sizes, processors, memory and accelerators come from DescribeInstanceTypes: of the AWS account that
boto3 finds, or with --offline of the copy of that answer that the tests' emulator carries. What EC2
does not say stands in FAMILIES below, with where it is from. --check writes nothing and exits 1
where a file differs.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DIRECTORY = Path(__file__).resolve().parents[1] / "conf" / "hardware"
ARCHITECTURES = {"x86_64": "x86_64", "arm64": "aarch64"}
ON_CPU = ("eager", "inductor", "aot_inductor", "onnxruntime")
ON_GPU = ("eager", "inductor")
# Not offered to a trial: bare metal boots for many minutes and says no more about a model.
LEFT_OUT = re.compile(r"\.metal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What EC2's own description of a family lacks.

    Attributes:
        title: the first line of its file.
        size: what the family's name alone means.
        flops: the highest rate of one core in floating-point operations a cycle, or of one
            accelerator in operations a second, by dtype, without sparsity.
        bytes_per_s: of the memory of one socket, or of one accelerator.
        source: of both, for people.
        device: ``cpu`` or ``cuda``: where models run.
        gib: of one accelerator, where EC2 reports something else.
    """

    title: str
    size: str
    flops: Mapping[str, float]
    bytes_per_s: float
    source: str
    device: str = "cpu"
    gib: float | None = None


def _cpu(
    title: str, flops: Mapping[str, float], bytes_per_s: float, source: str, size: str = "large"
) -> Family:
    return Family(title=title, size=size, flops=flops, bytes_per_s=bytes_per_s, source=source)


def _gpu(
    title: str, flops: Mapping[str, float], bytes_per_s: float, source: str, size: str = "xlarge"
) -> Family:
    return Family(
        title=title, size=size, flops=flops, bytes_per_s=bytes_per_s, source=source, device="cuda"
    )


_AVX512 = {"float32": 64, "float64": 32}
_VNNI = {**_AVX512, "int8": 256}
_AMX = {**_AVX512, "bfloat16": 2048, "int8": 4096}
_NEOVERSE_N1 = {"float32": 16, "float64": 8, "float16": 32, "int8": 64}
_NEOVERSE_V1 = {"float32": 32, "float64": 16, "float16": 64, "bfloat16": 128, "int8": 256}
_GRAVITON4 = "four 128-bit SVE2 units a core; 12 channels of DDR5-5600"
_XEON6 = "from memory, not from a data sheet, two 512-bit FMA units and AMX tiles a core; DDR5-7200"
_GENOA = {"float32": 32, "float64": 16, "bfloat16": 64, "int8": 128}
_ZEN4 = "two 256-bit FMA units a core; 12 channels of DDR5-4800 a socket"
_TURIN = {"float32": 64, "float64": 32, "bfloat16": 128, "int8": 256}
_ZEN5 = "from memory, not from a data sheet, two 512-bit FMA units a core; 12 channels of DDR5-6400"
_ICE_LAKE = "two 512-bit FMA units a core; 8 channels of DDR4-3200 a socket"
_L4 = {
    "float32": 30.3e12,
    "bfloat16": 121e12,
    "float16": 121e12,
    "float8": 242.5e12,
    "int8": 242.5e12,
}
_L4_SHEET = "NVIDIA's L4 data sheet, its figures with sparsity halved"
_A100 = {"float32": 19.5e12, "bfloat16": 312e12, "float16": 312e12, "int8": 624e12}
_HOPPER = {
    "float32": 67e12,
    "bfloat16": 989e12,
    "float16": 989e12,
    "float8": 1979e12,
    "int8": 1979e12,
}
_BLACKWELL = {
    "float32": 80e12,
    "bfloat16": 2250e12,
    "float16": 2250e12,
    "float8": 4500e12,
    "int8": 4500e12,
}
FAMILIES: Mapping[str, Family] = {
    "c6i": _cpu("Intel Ice Lake, 2 GiB a virtual CPU", _VNNI, 204.8e9, _ICE_LAKE, size="xlarge"),
    "m6i": _cpu("Intel Ice Lake, 4 GiB a virtual CPU", _VNNI, 204.8e9, _ICE_LAKE),
    "r6i": _cpu("Intel Ice Lake, 8 GiB a virtual CPU", _VNNI, 204.8e9, _ICE_LAKE),
    "r6g": _cpu(
        "AWS Graviton2 (ARM), 8 GiB a virtual CPU",
        _NEOVERSE_N1,
        204.8e9,
        "two 128-bit FMA units a core; 8 channels of DDR4-3200",
    ),
    "m7g": _cpu(
        "AWS Graviton3 (ARM), 4 GiB a virtual CPU",
        _NEOVERSE_V1,
        307.2e9,
        "two 256-bit SVE units a core; 8 channels of DDR5-4800",
    ),
    "r7g": _cpu(
        "AWS Graviton3 (ARM), 8 GiB a virtual CPU",
        _NEOVERSE_V1,
        307.2e9,
        "two 256-bit SVE units a core; 8 channels of DDR5-4800",
    ),
    "c7g": _cpu(
        "AWS Graviton3 (ARM), 2 GiB a virtual CPU",
        _NEOVERSE_V1,
        307.2e9,
        "two 256-bit SVE units a core; 8 channels of DDR5-4800",
        size="xlarge",
    ),
    "c8g": _cpu(
        "AWS Graviton4 (ARM), 2 GiB a virtual CPU",
        _NEOVERSE_V1,
        537.6e9,
        _GRAVITON4,
        size="xlarge",
    ),
    "m8g": _cpu(
        "AWS Graviton4 (ARM), 4 GiB a virtual CPU",
        _NEOVERSE_V1,
        537.6e9,
        _GRAVITON4,
    ),
    "r8g": _cpu(
        "AWS Graviton4 (ARM), 8 GiB a virtual CPU",
        _NEOVERSE_V1,
        537.6e9,
        _GRAVITON4,
    ),
    "c7i": _cpu(
        "Intel Sapphire Rapids with AMX, 2 GiB a virtual CPU",
        _AMX,
        307.2e9,
        "two 512-bit FMA units and AMX tiles a core; 8 channels of DDR5-4800 a socket",
        size="xlarge",
    ),
    "m7i": _cpu(
        "Intel Sapphire Rapids with AMX, 4 GiB a virtual CPU",
        _AMX,
        307.2e9,
        "two 512-bit FMA units and AMX tiles a core; 8 channels of DDR5-4800 a socket",
    ),
    "r7i": _cpu(
        "Intel Sapphire Rapids with AMX, 8 GiB a virtual CPU",
        _AMX,
        307.2e9,
        "two 512-bit FMA units and AMX tiles a core; 8 channels of DDR5-4800 a socket",
    ),
    "c8i": _cpu(
        "Intel Granite Rapids with AMX, 2 GiB a virtual CPU", _AMX, 691.2e9, _XEON6, size="xlarge"
    ),
    "m8i": _cpu("Intel Granite Rapids with AMX, 4 GiB a virtual CPU", _AMX, 691.2e9, _XEON6),
    "r8i": _cpu("Intel Granite Rapids with AMX, 8 GiB a virtual CPU", _AMX, 691.2e9, _XEON6),
    "c7a": _cpu("AMD Genoa, 2 GiB a virtual CPU", _GENOA, 460.8e9, _ZEN4, size="xlarge"),
    "m7a": _cpu("AMD Genoa, 4 GiB a virtual CPU", _GENOA, 460.8e9, _ZEN4),
    "r7a": _cpu("AMD Genoa, 8 GiB a virtual CPU", _GENOA, 460.8e9, _ZEN4),
    "c8a": _cpu("AMD Turin, 2 GiB a virtual CPU", _TURIN, 614.4e9, _ZEN5, size="xlarge"),
    "m8a": _cpu("AMD Turin, 4 GiB a virtual CPU", _TURIN, 614.4e9, _ZEN5),
    "r8a": _cpu("AMD Turin, 8 GiB a virtual CPU", _TURIN, 614.4e9, _ZEN5),
    "g4dn": _gpu(
        "NVIDIA T4",
        {"float32": 8.1e12, "float16": 65e12, "int8": 130e12},
        320e9,
        "NVIDIA's T4 data sheet",
    ),
    "g5": _gpu(
        "NVIDIA A10G",
        {"float32": 35e12, "bfloat16": 70e12, "float16": 70e12, "int8": 140e12},
        600e9,
        "NVIDIA's A10G data sheet",
    ),
    "g6": _gpu("NVIDIA L4", _L4, 300e9, _L4_SHEET),
    "gr6": _gpu("NVIDIA L4, 8 GiB a virtual CPU", _L4, 300e9, _L4_SHEET, size="4xlarge"),
    "g6e": _gpu(
        "NVIDIA L40S",
        {
            "float32": 91.6e12,
            "bfloat16": 362e12,
            "float16": 362e12,
            "float8": 733e12,
            "int8": 733e12,
        },
        864e9,
        "NVIDIA's L40S data sheet",
    ),
    "p4d": _gpu(
        "NVIDIA A100 (40 GB)",
        _A100,
        1555e9,
        "NVIDIA's A100 data sheet",
        size="24xlarge",
    ),
    "p4de": _gpu(
        "NVIDIA A100 (80 GB)", _A100, 2039e9, "NVIDIA's A100 80GB SXM data sheet", size="24xlarge"
    ),
    "p5": _gpu(
        "NVIDIA H100 (80 GB)",
        _HOPPER,
        3350e9,
        "NVIDIA's H100 SXM data sheet, its figures with sparsity halved",
        size="4xlarge",
    ),
    "p5e": _gpu(
        "NVIDIA H200 (141 GB), AMD host; sold in capacity blocks",
        _HOPPER,
        4800e9,
        "NVIDIA's H200 SXM data sheet, its figures with sparsity halved",
        size="48xlarge",
    ),
    "p5en": _gpu(
        "NVIDIA H200 (141 GB), Intel host",
        _HOPPER,
        4800e9,
        "NVIDIA's H200 SXM data sheet, its figures with sparsity halved",
        size="48xlarge",
    ),
    "p6-b200": _gpu(
        "NVIDIA B200",
        _BLACKWELL,
        8000e9,
        "NVIDIA's Blackwell architecture brief, HGX B200 at 1000 W, without sparsity",
        size="48xlarge",
    ),
    "p6-b300": _gpu(
        "NVIDIA B300; sold in capacity blocks",
        {"float32": 75e12, "bfloat16": 2250e12, "float16": 2250e12, "float8": 4500e12},
        8000e9,
        "from memory, not from a data sheet, HGX B300, without sparsity",
        size="48xlarge",
    ),
    "g7e": _gpu(
        "NVIDIA RTX PRO 6000 Blackwell Server Edition",
        {"float32": 120e12, "bfloat16": 500e12, "float16": 500e12, "float8": 1000e12},
        1597e9,
        "from memory, not from a data sheet, RTX PRO 6000 Server Edition, sparsity halved",
        size="2xlarge",
    ),
    "inf2": Family(
        title="AWS Inferentia2; no conversion compiles for it yet, so its trials are skips",
        size="xlarge",
        flops={"float32": 47.5e12, "bfloat16": 190e12, "float16": 190e12, "int8": 380e12},
        bytes_per_s=820e9,
        source="AWS's description of Inferentia2, one chip",
    ),
    "trn1": Family(
        title="AWS Trainium; no conversion compiles for it yet, so its trials are skips",
        size="2xlarge",
        flops={"float32": 47.5e12, "bfloat16": 190e12, "float16": 190e12, "int8": 380e12},
        bytes_per_s=820e9,
        source="AWS's description of Trainium, one chip",
    ),
    "trn2": Family(
        title="AWS Trainium2; no conversion compiles for it yet, so its trials are skips",
        size="48xlarge",
        flops={"float32": 181e12, "bfloat16": 667e12, "float16": 667e12, "float8": 1299e12},
        bytes_per_s=2900e9,
        source="AWS's description of Trainium2, one chip, from memory",
        gib=96,  # EC2 reports 512
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or compare every family's file; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--offline", action="store_true", help="use the emulator's copy")
    asked = parser.parse_args(arguments)
    types = _emulated_types() if asked.offline else _aws_types()
    different = []
    for name, family in FAMILIES.items():
        mine = [item for item in types if item["InstanceType"].split(".")[0] == name]
        text = page(name, family, mine)
        file = DIRECTORY / f"{name}.yaml"
        if not file.exists() or file.read_text() != text:
            different.append(file.name)
            if not asked.check:
                file.write_text(text)
    print(f"{'different' if asked.check else 'written'}: {', '.join(different) or 'none'}")
    return 1 if asked.check and different else 0


def _emulated_types() -> list[Mapping[str, Any]]:
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    return list(INSTANCE_TYPES.values())


def _aws_types() -> list[Mapping[str, Any]]:
    import boto3

    pages = boto3.client("ec2", region_name="us-east-1").get_paginator("describe_instance_types")
    asked = [{"Name": "instance-type", "Values": [f"{name}.*" for name in FAMILIES]}]
    return [item for page in pages.paginate(Filters=asked) for item in page["InstanceTypes"]]


def page(name: str, family: Family, types: Iterable[Mapping[str, Any]]) -> str:
    """The text of one family's YAML."""
    offered = sorted(
        (item for item in types if not LEFT_OUT.search(item["InstanceType"])),
        key=lambda item: (item["VCpuInfo"]["DefaultVCpus"], item["MemoryInfo"]["SizeInMiB"]),
    )
    accelerator = _accelerator(offered[0])
    kind = "CudaHardware" if family.device == "cuda" else "CpuHardware"
    conversions = ON_GPU if family.device == "cuda" else ON_CPU
    lines = [
        f"# EC2: {family.title}. Written by scripts/write_hardware.py.",
        f"_target_: benchorch.hardware.{family.device}.{kind}",
        f"kind: {name}.${{.size}}",
        f"size: {family.size}",
        f"arch: {ARCHITECTURES[offered[0]['ProcessorInfo']['SupportedArchitectures'][-1]]}",
        *([f"accelerator: {accelerator}"] if accelerator else []),
        "threads: null",
        f"conversions: [{', '.join(conversions)}]",
        *_peaks(family, offered[0], accelerator),
        "sizes:",
        *(f"  {_size(item)}: {_facts(family, item)}" for item in offered),
    ]
    return "\n".join(lines) + "\n"


def _size(item: Mapping[str, Any]) -> str:
    return str(item["InstanceType"]).split(".")[1]


def _accelerators(item: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    gpus = item.get("GpuInfo", {}).get("Gpus", [])
    return gpus or item.get("NeuronInfo", {}).get("NeuronDevices", [])


def _accelerator(item: Mapping[str, Any]) -> str:
    return "".join(str(found["Name"]) for found in _accelerators(item)[:1])


def _peaks(family: Family, item: Mapping[str, Any], accelerator: str) -> Iterable[str]:
    """The ceilings of one core, at its sustained clock, or of one accelerator."""
    clock_hz = item["ProcessorInfo"]["SustainedClockSpeedInGhz"] * 1e9
    each = 1.0 if accelerator else clock_hz
    rates = ", ".join(f"{dtype}: {value * each:.4g}" for dtype, value in family.flops.items())
    yield "peaks:"
    yield f"  of: {'accelerator' if accelerator else 'core'}"
    yield f"  flops_per_s: {{{_yaml_numbers(rates)}}}"
    yield f"  bytes_per_s: {_yaml_numbers(f'{family.bytes_per_s:.4g}')}"
    yield f"  source: {family.source}"


def _yaml_numbers(text: str) -> str:
    """YAML 1.1 takes ``1e+12`` for text unless there is a point."""
    return re.sub(r"(?<![.\d])(\d+)e\+", r"\1.0e+", text)


def _facts(family: Family, item: Mapping[str, Any]) -> str:
    memory_gib = item["MemoryInfo"]["SizeInMiB"] / 1024
    facts = {
        "vcpus": item["VCpuInfo"]["DefaultVCpus"],
        "cores": item["VCpuInfo"]["DefaultCores"],
        "memory_gib": f"{memory_gib:g}",
    }
    found = _accelerators(item)
    if found:
        facts["accelerators"] = found[0]["Count"]
        gib = family.gib or found[0]["MemoryInfo"]["SizeInMiB"] / 1024
        facts["accelerator_gib"] = f"{gib:.4g}"
    return "{" + ", ".join(f"{key}: {value}" for key, value in facts.items()) + "}"


if __name__ == "__main__":
    sys.exit(main())
