"""Energy, clocks and memory of an NVIDIA GPU, from NVML.

NVML, the driver's library, tells it; torch's allocator adds its own peaks. Nothing here changes a
setting of the device.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from threading import Event, Lock, Thread
from time import perf_counter_ns
from typing import Any, final

from benchorch.domain.codec import Json
from benchorch.domain.measurement import DeviceMemory
from benchorch.errors import MeasureError
from benchorch.interfaces.hardware import Meter
from benchorch.units import ns_to_s

SAMPLES_PER_S = 20
"""How often power and utilisation are read where they have to be summed up here."""

_MW_PER_W = 1000
_THROTTLE_REASONS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
"""NVML's bits; the same under its older name, throttle reasons, and its newer, event reasons."""


@final
class NvmlDevice:
    """NVML device.

    Attributes:
        sums: what has to be added up over time, because the driver tells it of the moment only.
    """

    def __init__(self, nvml: Any, handle: Any) -> None:
        self.nvml = nvml
        self.sums = SampledIntegrals(self)
        self._handle = handle

    def ask(self, function: str, *arguments: object) -> Any:
        """NVML's answer, or None where this device, driver or library has none."""
        try:
            return getattr(self.nvml, function)(self._handle, *arguments)
        except (AttributeError, self.nvml.NVMLError):
            return None

    def watts(self) -> float | None:
        """Power now; an average over up to a second on many devices."""
        milliwatts = self.ask("nvmlDeviceGetPowerUsage")
        return None if milliwatts is None else milliwatts / _MW_PER_W

    def joules(self) -> float | None:
        """The energy counter, from Volta on."""
        millijoules = self.ask("nvmlDeviceGetTotalEnergyConsumption")
        return None if millijoules is None else millijoules / _MW_PER_W

    def busy_ratio(self) -> float | None:
        """Share of the last sixth of a second, or second, in which a kernel ran."""
        rates = self.ask("nvmlDeviceGetUtilizationRates")
        return None if rates is None else rates.gpu / 100


@final
class SampledIntegrals:
    """Joules from watts and seconds from utilisation, by the trapezoid rule.

    A thread of its own samples from the first `follow` on, because a call may take longer than
    the time between two samples. Only energy is measured with it running.
    """

    def __init__(self, driver: NvmlDevice, now_ns: Callable[[], int] = perf_counter_ns) -> None:
        self.joules = 0.0
        self.busy_s = 0.0
        self._driver = driver
        self._now_ns = now_ns
        self._before: tuple[int, float, float] | None = None
        self._lock = Lock()
        self._stopped = Event()
        self._thread: Thread | None = None

    def follow(self) -> None:
        """Sample from now on, and once at once."""
        self.sample()
        if self._thread is None:
            self._thread = Thread(target=self._keep_on, name="benchorch-meter", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Sample no more."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def sample(self) -> None:
        """Add the energy and time since the last sample."""
        with self._lock:
            now_ns = self._now_ns()
            watts = self._driver.watts() or 0.0
            busy = self._driver.busy_ratio() or 0.0
            if self._before is not None:
                then_ns, watts_before, busy_before = self._before
                seconds = ns_to_s(now_ns - then_ns)
                self.joules += seconds * (watts + watts_before) / 2
                self.busy_s += seconds * (busy + busy_before) / 2
            self._before = now_ns, watts, busy

    def _keep_on(self) -> None:
        while not self._stopped.wait(1 / SAMPLES_PER_S):
            self.sample()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaMeter(Meter):
    """The GPU's own counters: its energy alone, without the host's.

    Attributes:
        driver: of the device, or why it cannot be asked.
    """

    driver: NvmlDevice | str

    def no_energy(self) -> str | None:
        """Reason why there is no energy counter, or None."""
        if isinstance(self.driver, str):
            return self.driver
        if self.driver.joules() is None and self.driver.watts() is None:
            return "the driver reports neither energy nor power of this device."
        return None

    @property
    def energy_source(self) -> str:
        """``nvml total``, or ``nvml power at 20 Hz`` where the device has no counter."""
        if isinstance(self.driver, str):
            return ""
        if self.driver.joules() is not None:
            return "nvml total"
        return "" if self.driver.watts() is None else f"nvml power at {SAMPLES_PER_S} Hz"

    def energy_j(self) -> float:
        """Joules of the device since its driver was loaded, or since the first reading."""
        driver = self._driver()
        joules = driver.joules()
        if joules is not None:
            return joules
        driver.sums.follow()
        return driver.sums.joules

    def busy_s(self) -> float | None:
        """Seconds in which a kernel ran, from samples since the first reading."""
        if isinstance(self.driver, str) or self.driver.busy_ratio() is None:
            return None
        self.driver.sums.follow()
        return self.driver.sums.busy_s

    def device_memory(self) -> DeviceMemory | None:
        """Peaks of torch's allocator, and this process's memory as the driver reports it.

        None for what nobody used: a runtime with an allocator of its own leaves torch's at 0.
        """
        import torch

        used = _in_use()
        process = None if isinstance(self.driver, str) else _own_bytes(_processes(self.driver))
        return DeviceMemory(
            allocated=(torch.cuda.max_memory_allocated() or None) if used else None,
            reserved=(torch.cuda.max_memory_reserved() or None) if used else None,
            process=process,
        )

    def reset_device_memory(self) -> None:
        """Start counting torch's peaks anew; the driver keeps none."""
        import torch

        if _in_use():
            torch.cuda.reset_peak_memory_stats()

    def device_state(self) -> Mapping[str, Json]:
        """Clocks, throttle reasons, temperature, power, modes and other processes.

        What this device does not tell is left out; ``unavailable`` says why it tells nothing.
        """
        if isinstance(self.driver, str):
            return {"unavailable": self.driver}
        state = {**_clocks(self.driver), **_power(self.driver), **_modes(self.driver)}
        others = _others(_processes(self.driver))
        return {name: value for name, value in (state | others).items() if value is not None}

    def _driver(self) -> NvmlDevice:
        if isinstance(self.driver, str):
            raise MeasureError(f"The GPU has no energy counter: {self.driver}", kind="no_energy")
        return self.driver


def _in_use() -> bool:
    """Whether torch has begun to use the device in this process."""
    import torch

    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]  # torch's own


def _has_context() -> bool:
    """Whether this process has a context on the device, by which the driver lists it.

    Asking torch about the device initialises it without one.
    """
    import torch

    return bool(torch._C._cuda_hasPrimaryContext(0))  # type: ignore[attr-defined]


@cache
def first_device() -> NvmlDevice | str:
    """The device that torch calls ``cuda:0``, cached; or the reason why NVML is unavailable."""
    import torch

    try:
        import pynvml
    except ModuleNotFoundError:
        return "nvidia-ml-py is not installed: pip install 'benchorch[nvidia]'"
    if not torch.cuda.is_available():
        return f"torch {torch.__version__} sees no CUDA device."
    return find_device(pynvml, str(torch.cuda.get_device_properties(0).uuid))


def find_device(nvml: Any, uuid: str) -> NvmlDevice | str:
    """The device with that UUID: torch and NVML number devices differently."""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return f"NVML cannot be used here: {error}"
    for kind in ("GPU", "MIG"):
        try:
            return NvmlDevice(nvml, nvml.nvmlDeviceGetHandleByUUID(f"{kind}-{uuid}"))
        except nvml.NVMLError as error:
            reason = error
    return f"NVML does not know the device with UUID {uuid}: {reason}"


def _clocks(driver: NvmlDevice) -> dict[str, Json]:
    streaming, memory = driver.nvml.NVML_CLOCK_SM, driver.nvml.NVML_CLOCK_MEM
    reasons = driver.ask("nvmlDeviceGetCurrentClocksEventReasons")
    if reasons is None:
        reasons = driver.ask("nvmlDeviceGetCurrentClocksThrottleReasons")
    return {
        "sm_mhz": driver.ask("nvmlDeviceGetClockInfo", streaming),
        "memory_mhz": driver.ask("nvmlDeviceGetClockInfo", memory),
        "sm_max_mhz": driver.ask("nvmlDeviceGetMaxClockInfo", streaming),
        "sm_application_mhz": driver.ask("nvmlDeviceGetApplicationsClock", streaming),
        "throttle_reasons": None if reasons is None else throttle_reasons(reasons),
    }


def throttle_reasons(bits: int) -> list[str]:
    """The names of NVML's bits, e.g. ``sw_power_cap``; none where the clock runs free."""
    known = [name for bit, name in _THROTTLE_REASONS.items() if bits & bit]
    unknown = bits & ~sum(_THROTTLE_REASONS)
    return known + ([hex(unknown)] if unknown else [])


def _power(driver: NvmlDevice) -> dict[str, Json]:
    cap = driver.ask("nvmlDeviceGetEnforcedPowerLimit")
    return {
        "temperature_celsius": driver.ask("nvmlDeviceGetTemperature", _core(driver)),
        "power_w": driver.watts(),
        "power_cap_w": None if cap is None else cap / _MW_PER_W,
    }


def _core(driver: NvmlDevice) -> object:
    return driver.nvml.NVML_TEMPERATURE_GPU


def _modes(driver: NvmlDevice) -> dict[str, Json]:
    """Whether each mode is on; of ECC and MIG the current state, not the pending one."""
    persistence = driver.ask("nvmlDeviceGetPersistenceMode")
    ecc, mig = driver.ask("nvmlDeviceGetEccMode"), driver.ask("nvmlDeviceGetMigMode")
    return {
        "persistence": None if persistence is None else bool(persistence),
        "ecc": None if ecc is None else bool(ecc[0]),
        "mig": None if mig is None else bool(mig[0]),
        "pcie_generation": driver.ask("nvmlDeviceGetCurrPcieLinkGeneration"),
        "pcie_width": driver.ask("nvmlDeviceGetCurrPcieLinkWidth"),
    }


def _processes(driver: NvmlDevice) -> Sequence[Any] | None:
    found: Sequence[Any] | None = driver.ask("nvmlDeviceGetComputeRunningProcesses")
    return found


def _others(processes: Sequence[Any] | None) -> dict[str, Json]:
    """Number of other processes that compute on the device.

    In a container the driver's numbers are not ours. This one is then among them all the same
    once it has a context.
    """
    if processes is None:
        return {}
    ours = any(each.pid == os.getpid() for each in processes) or _has_context()
    return {"other_processes": max(0, len(processes) - ours)}


def _own_bytes(processes: Sequence[Any] | None) -> int | None:
    """Bytes of this process; of the only process where process numbers differ."""
    listed = processes or ()
    own = [each for each in listed if each.pid == os.getpid()]
    if not own and len(listed) == 1:
        own = list(listed)
    used = own[0].usedGpuMemory if own else None
    return None if used is None else int(used)
