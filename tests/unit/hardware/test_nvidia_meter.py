"""NVML is a fake here: no test of this file has seen a GPU."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from benchorch.domain.measurement import DeviceMemory
from benchorch.errors import MeasureError
from benchorch.hardware import nvidia_meter
from benchorch.hardware.nvidia_meter import (
    NvidiaMeter,
    NvmlDevice,
    SampledIntegrals,
    find_device,
    first_device,
    throttle_reasons,
)
from benchorch.units import s_to_ns

UUID = "0a1b"


class NVMLError(Exception):
    pass


def fake_nvml(**answers: Any) -> SimpleNamespace:
    """NVML with one device, which answers as it is told and refuses everything else."""
    nvml = SimpleNamespace(
        NVMLError=NVMLError,
        NVML_CLOCK_SM=1,
        NVML_CLOCK_MEM=2,
        NVML_TEMPERATURE_GPU=0,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=lambda uuid: given(uuid == f"GPU-{UUID}", "the device"),
    )
    for name, answer in answers.items():
        function = answer if callable(answer) else lambda *_, value=answer: value
        setattr(nvml, f"nvmlDeviceGet{name}", function)
    return nvml


def given(known: bool, answer: Any) -> Any:
    if not known:
        raise NVMLError("Not Found")
    return answer


def refuse(*_: object) -> None:
    raise NVMLError("Not Supported")


def meter_of(**answers: Any) -> NvidiaMeter:
    return NvidiaMeter(driver=find_device(fake_nvml(**answers), UUID))


def process(pid: int, used: int | None = 0) -> SimpleNamespace:
    return SimpleNamespace(pid=pid, usedGpuMemory=used)


@pytest.fixture
def torch_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """A torch whose allocator says what a test wants."""
    cuda = SimpleNamespace(
        is_initialized=lambda: True,
        is_available=lambda: True,
        max_memory_allocated=lambda: 100,
        max_memory_reserved=lambda: 200,
        has_context=True,
        resets=0,
        get_device_properties=lambda _: SimpleNamespace(uuid=UUID),
    )

    def reset() -> None:
        cuda.resets += 1

    cuda.reset_peak_memory_stats = reset
    torch = ModuleType("torch")
    torch.cuda = cuda  # type: ignore[attr-defined]
    torch._C = SimpleNamespace(_cuda_hasPrimaryContext=lambda _: cuda.has_context)  # type: ignore[attr-defined]
    torch.__version__ = "9"
    monkeypatch.setitem(sys.modules, "torch", torch)
    first_device.cache_clear()
    yield cuda
    first_device.cache_clear()


def test_the_energy_counter_is_taken_where_there_is_one() -> None:
    meter = meter_of(TotalEnergyConsumption=12_345, PowerUsage=70_000)
    assert meter.no_energy() is None
    assert meter.energy_source == "nvml total"
    assert meter.energy_j() == 12.345


def test_power_is_summed_up_and_said_to_be_where_there_is_no_counter() -> None:
    meter = meter_of(TotalEnergyConsumption=refuse, PowerUsage=70_000)
    assert meter.no_energy() is None
    assert meter.energy_source == "nvml power at 20 Hz"
    assert isinstance(meter.driver, NvmlDevice)
    try:
        first_j = meter.energy_j()
        deadline = time.monotonic() + 60
        # The thread samples by itself: no one has to ask.
        while meter.driver.sums.joules == first_j and time.monotonic() < deadline:
            time.sleep(0.005)
        assert meter.driver.sums.joules > first_j
    finally:
        meter.driver.sums.stop()


def test_sums_follow_the_trapezoid_rule() -> None:
    seconds = iter([0.0, 1.0, 3.0])
    milliwatts = iter([100_000, 200_000, 100_000])
    busy = iter([0, 100, 50])
    nvml = fake_nvml(
        PowerUsage=lambda _: next(milliwatts),
        UtilizationRates=lambda _: SimpleNamespace(gpu=next(busy)),
    )
    sums = SampledIntegrals(NvmlDevice(nvml, "the device"), now_ns=lambda: s_to_ns(next(seconds)))
    for _ in range(3):
        sums.sample()
    assert sums.joules == pytest.approx(150 * 1 + 150 * 2)
    assert sums.busy_s == pytest.approx(0.5 * 1 + 0.75 * 2)


def test_a_device_that_tells_neither_energy_nor_power_says_so() -> None:
    meter = meter_of()
    assert meter.no_energy() == "the driver reports neither energy nor power of this device."
    assert meter.energy_source == ""
    assert meter.busy_s() is None


def test_busy_seconds_are_summed_up_from_utilisation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvidia_meter, "SAMPLES_PER_S", 0.001)  # its thread adds none meanwhile
    meter = meter_of(UtilizationRates=SimpleNamespace(gpu=50))
    assert isinstance(meter.driver, NvmlDevice)
    try:
        assert meter.busy_s() == 0.0
        time.sleep(0.001)
        assert meter.busy_s() != 0.0
    finally:
        meter.driver.sums.stop()


def test_without_nvml_every_answer_says_why() -> None:
    meter = NvidiaMeter(driver="no driver")
    assert meter.no_energy() == "no driver"
    assert meter.device_state() == {"unavailable": "no driver"}
    with pytest.raises(MeasureError, match="no driver"):
        meter.energy_j()


def test_without_nvml_there_is_no_source_and_no_utilisation() -> None:
    meter = NvidiaMeter(driver="no driver")
    assert (meter.energy_source, meter.busy_s()) == ("", None)


def test_the_device_is_found_by_its_uuid_and_a_part_of_one_too() -> None:
    assert isinstance(find_device(fake_nvml(), UUID), NvmlDevice)
    sliced = fake_nvml(HandleByUUID=lambda uuid: given(uuid == f"MIG-{UUID}", "a part"))
    assert isinstance(find_device(sliced, UUID), NvmlDevice)
    assert "does not know the device with UUID ffff: Not Found" in str(
        find_device(fake_nvml(), "ffff")
    )


def test_a_driver_that_does_not_start_says_why() -> None:
    nvml = fake_nvml()
    nvml.nvmlInit = refuse
    assert find_device(nvml, UUID) == "NVML cannot be used here: Not Supported"


def test_the_first_device_is_torchs(
    torch_on_a_gpu: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(PowerUsage=1_000))  # type: ignore[arg-type]
    found = first_device()
    assert isinstance(found, NvmlDevice)
    assert found.watts() == 1.0
    assert first_device() is found


def test_a_missing_package_is_told_with_what_to_install(
    torch_on_a_gpu: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "pip install 'benchorch[nvidia]'" in str(first_device())


def test_a_machine_without_a_device_is_told(
    torch_on_a_gpu: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch_on_a_gpu.is_available = lambda: False
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml())  # type: ignore[arg-type]
    assert first_device() == "torch 9 sees no CUDA device."


def test_memory_is_the_allocators_peaks_and_the_drivers_view(
    torch_on_a_gpu: SimpleNamespace,
) -> None:
    meter = meter_of(ComputeRunningProcesses=[process(1, 7), process(os.getpid(), 300)])
    assert meter.device_memory() == DeviceMemory(allocated=100, reserved=200, process=300)
    meter.reset_device_memory()
    assert torch_on_a_gpu.resets == 1


def test_a_runtime_with_its_own_allocator_has_the_drivers_view_only(
    torch_on_a_gpu: SimpleNamespace,
) -> None:
    torch_on_a_gpu.max_memory_allocated = torch_on_a_gpu.max_memory_reserved = lambda: 0
    meter = meter_of(ComputeRunningProcesses=[process(os.getpid(), 300)])
    assert meter.device_memory() == DeviceMemory(process=300)
    torch_on_a_gpu.is_initialized = lambda: False
    meter.reset_device_memory()
    assert torch_on_a_gpu.resets == 0
    assert meter.device_memory() == DeviceMemory(process=300)


@pytest.mark.parametrize(
    ("listed", "ours"),
    [
        ([], None),
        ([process(10**9, 300)], 300),  # in a container, the only one must be this one
        ([process(10**9, 300), process(10**9 + 1, 400)], None),
        ([process(os.getpid(), None)], None),  # some drivers do not tell
    ],
)
def test_the_drivers_view_is_taken_only_where_it_is_ours(
    torch_on_a_gpu: SimpleNamespace, listed: list[SimpleNamespace], ours: int | None
) -> None:
    memory = meter_of(ComputeRunningProcesses=listed).device_memory()
    assert memory is not None
    assert memory.process == ours


def test_the_state_names_clocks_power_modes_and_other_processes(
    torch_on_a_gpu: SimpleNamespace,
) -> None:
    meter = meter_of(
        ClockInfo=lambda _, kind: {1: 1_500, 2: 2_600}[kind],
        MaxClockInfo=lambda *_: 1_980,
        ApplicationsClock=lambda *_: 1_755,
        CurrentClocksEventReasons=0x4 | 0x20,
        EnforcedPowerLimit=700_000,
        PowerUsage=650_000,
        Temperature=lambda _, sensor: 71,
        PersistenceMode=1,
        EccMode=[1, 0],
        MigMode=[0, 1],
        CurrPcieLinkGeneration=5,
        CurrPcieLinkWidth=16,
        ComputeRunningProcesses=[process(os.getpid()), process(1), process(2)],
    )
    assert meter.device_state() == {
        "sm_mhz": 1_500,
        "memory_mhz": 2_600,
        "sm_max_mhz": 1_980,
        "sm_application_mhz": 1_755,
        "throttle_reasons": ["sw_power_cap", "sw_thermal_slowdown"],
        "temperature_celsius": 71,
        "power_w": 650.0,
        "power_cap_w": 700.0,
        "persistence": True,
        "ecc": True,
        "mig": False,
        "pcie_generation": 5,
        "pcie_width": 16,
        "other_processes": 2,
    }


def test_what_a_device_does_not_tell_is_left_out() -> None:
    assert meter_of(MigMode=refuse, Temperature=lambda *_: 30).device_state() == {
        "temperature_celsius": 30
    }


def test_older_libraries_know_throttle_reasons_by_their_older_name() -> None:
    state = meter_of(CurrentClocksThrottleReasons=0x40).device_state()
    assert state["throttle_reasons"] == ["hw_thermal_slowdown"]


def test_a_container_whose_numbers_differ_is_still_one_of_the_processes(
    torch_on_a_gpu: SimpleNamespace,
) -> None:
    listed = [process(10**9), process(10**9 + 1)]
    meter = meter_of(ComputeRunningProcesses=listed)
    assert meter.device_state()["other_processes"] == 1


def test_a_process_that_only_asked_about_the_device_is_none_of_those_that_use_it(
    torch_on_a_gpu: SimpleNamespace,
) -> None:
    torch_on_a_gpu.has_context = False  # is_initialized is true nevertheless
    meter = meter_of(ComputeRunningProcesses=[process(10**9), process(10**9 + 1)])
    assert meter.device_state()["other_processes"] == 2


def test_throttle_reasons_that_nobody_named_keep_their_bits() -> None:
    assert throttle_reasons(0) == []
    assert throttle_reasons(0x1 | 0x400) == ["gpu_idle", "0x400"]
