"""What a declared kind of machine refuses, and what this host says of itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchorch.errors import MeasureError
from benchorch.hardware import host
from benchorch.hardware.cpu import CpuHardware
from benchorch.hardware.cuda import CudaHardware
from benchorch.host import machine_kind
from benchorch.interfaces.hardware import KIND_VARIABLE

SIZES = {"xlarge": {"vcpus": 4.0, "memory_gib": 16.0}}
INTEL = """processor\t: 0
model name\t: Intel(R) Xeon(R) Platinum 8488C
flags\t\t: fpu sse2 avx2 avx512f avx512_vnni amx_tile amx_bf16 ht
processor\t: 1
flags\t\t: fpu
"""
ARM = """processor\t: 0
Features\t: fp asimd asimddp sve i8mm bf16 crc32
"""


def ec2(**changes: object) -> CpuHardware:
    here = host.architecture()
    arguments = {"kind": "c7i.xlarge", "size": "xlarge", "sizes": SIZES, "arch": here, **changes}
    return CpuHardware(conversions=("eager",), **arguments)  # type: ignore[arg-type]


@pytest.fixture
def no_firmware(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(KIND_VARIABLE, raising=False)
    monkeypatch.setattr(machine_kind, "PRODUCT", tmp_path / "absent")


def test_this_machine_is_always_local() -> None:
    assert CpuHardware(kind="local", conversions=("eager",)).mismatch() is None


@pytest.mark.usefixtures("no_firmware")
def test_a_node_that_does_not_say_what_it_is_is_refused() -> None:
    assert "is not declared" in str(ec2().mismatch())


@pytest.mark.usefixtures("no_firmware")
def test_a_node_told_its_kind_is_that_kind_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KIND_VARIABLE, "c7i.xlarge")
    assert ec2().mismatch() is None
    monkeypatch.setenv(KIND_VARIABLE, "r6i.large")
    assert str(ec2().mismatch()).startswith("c7i.xlarge was requested; this machine is r6i.large.")
    assert "BENCHORCH_HARDWARE_KIND=c7i.xlarge in its environment" in str(ec2().mismatch())


@pytest.mark.usefixtures("no_firmware")
def test_firmware_names_the_instance_type(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    product = tmp_path / "product_name"
    product.write_text("c7i.xlarge\n")
    monkeypatch.setattr(machine_kind, "PRODUCT", product)
    assert ec2().mismatch() is None


def test_another_architecture_is_refused_whatever_the_node_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(KIND_VARIABLE, "c7i.xlarge")
    other = {"x86_64": "aarch64"}.get(host.architecture(), "x86_64")
    assert f"is an {other} machine" in str(ec2(arch=other).mismatch())


def test_a_gpu_machine_without_a_device_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    refusal = CudaHardware(kind="local_gpu", conversions=("eager",)).mismatch()
    assert "CUDA_VISIBLE_DEVICES" in str(refusal)


def test_torch_without_a_device_is_a_typed_failure() -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a device")
    hardware = CudaHardware(kind="local_gpu", conversions=("eager",))
    with pytest.raises(MeasureError, match="sees no CUDA device") as caught:
        hardware.clock()
    assert caught.value.kind == "wrong_node"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"size": "huge"}, "xlarge, got 'huge'"),
        ({"kind": "c7i.large"}, "must end with the size"),
        ({"kind": ""}, "must not be empty"),
        ({"threads": 0}, "at least 1"),
        ({"arch": "mips"}, "x86_64, aarch64, got 'mips'"),
        ({"sizes": {"xlarge": {"vcpus": 4.0}}}, "memory_gib"),
        ({"sizes": {"xlarge": {"vcpus": 0.0, "memory_gib": 1.0}}}, "positive"),
    ],
)
def test_a_declaration_that_contradicts_itself_is_refused(
    changes: dict[str, object], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        ec2(**changes)


def test_only_instruction_sets_that_code_is_generated_for_are_told() -> None:
    assert host.cpu_isa(INTEL) == ["amx_bf16", "amx_tile", "avx2", "avx512_vnni", "avx512f"]
    assert host.cpu_isa(ARM) == ["asimddp", "bf16", "i8mm", "sve"]
    assert host.cpu_isa("") == []
    cascade_lake = "flags : fma avx2 bmi2 avx512f avx512_vnni"
    ice_lake = f"{cascade_lake} avx512vbmi avx512_bitalg gfni vaes"
    assert host.cpu_isa(cascade_lake) != host.cpu_isa(ice_lake)
    haswell = "flags : fma avx avx2 bmi1 bmi2"
    assert host.cpu_isa(haswell) != host.cpu_isa(f"{haswell} vaes")
    assert host.cpu_model(INTEL) == "Intel(R) Xeon(R) Platinum 8488C"
    assert host.cpu_model("") == ""


@pytest.mark.parametrize(
    ("part", "name"),
    [("0xd0c", "Neoverse-N1"), ("0xd40", "Neoverse-V1"), ("0xfff", "ARM 0x41 part 0xfff")],
)
def test_processors_of_arm_are_told_apart(part: str, name: str) -> None:
    numbers = f"CPU implementer\t: 0x41\nCPU variant\t: 0x1\nCPU part\t: {part}\n\n"
    assert host.cpu_model(f"{ARM.strip()}\n{numbers}") == name


def test_planning_for_a_gpu_loads_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from benchorch.hardware.cuda import CudaHardware\n"
        "CudaHardware(kind='local_gpu', conversions=['eager']).mismatch()\n"
        "assert not {'torch', 'numpy', 'scipy'} & set(sys.modules), 'heavy'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
