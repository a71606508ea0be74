from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchorch.domain.measurement import Calibration, Conditions
from benchorch.host.advice import BAD, GOOD, NOTE, HostFinding, HostReadings, findings
from benchorch.host.environment import describe_host
from benchorch.host.noise_grade import judge
from benchorch.host.pinning import PinnedCpus

HOST: dict[str, Any] = {
    "address_randomisation": 2,
    "clock_source": "tsc",
    "cpu_boost": False,
    "cpu_governor": "performance",
    "cpu_hyperthreads": False,
    "cpu_quota_cores": None,
    "load_average": [0.1, 0.1, 0.1],
    "swap_used_bytes": 0,
    "transparent_huge_pages": "madvise",
    "variables": {},
    "virtual_machine": False,
}
QUIET = HostReadings(
    host=HOST,
    threads=2,
    cores=4,
    placement=PinnedCpus(cpus=(1, 2)),
    conditions=Conditions(foreign_ratio=0.01, steal_ratio=0.0, throttled_periods=0),
    grade=judge([1_000_000] * 1000, 0.0),
    calibration=Calibration(pair_cost_ns=40.0, step_ns=10.0),
    device={},
)


def look(subject: str, looks: HostReadings) -> HostFinding:
    return next(finding for finding in findings(looks) if finding.subject == subject)


def host(**changed: object) -> HostReadings:
    return replace(QUIET, host={**HOST, **changed})


def conditions(**changed: Any) -> HostReadings:
    return replace(QUIET, conditions=replace(QUIET.conditions, **changed))


def test_nothing_is_to_be_changed_on_a_machine_that_is_as_it_should_be() -> None:
    assert {finding.weight for finding in findings(QUIET)} == {GOOD}
    assert [finding.advice for finding in findings(QUIET) if finding.advice] == []


@pytest.mark.parametrize(
    ("looks", "subject", "weight", "seen", "advice"),
    [
        (host(cpu_governor="powersave"), "governor", BAD, "powersave", "cpupower"),
        (host(cpu_boost=True), "boost", NOTE, "on", "cpufreq/boost"),
        (host(cpu_hyperthreads=True), "hyperthreads", NOTE, "on", "smt/control"),
        (host(address_randomisation=0), "layout", BAD, "same", "randomize_va_space"),
        (host(swap_used_bytes=3 << 20), "swap", BAD, "3.0 MiB", "swapoff"),
        (conditions(foreign_ratio=0.4), "other work", BAD, "40.0%", "top"),
        (conditions(steal_ratio=0.07), "stolen time", BAD, "7.00%", "instance"),
        (
            replace(conditions(throttled_periods=3), host={**HOST, "cpu_quota_cores": 1.5}),
            "quota",
            BAD,
            "1.5 cores, held back in 3 periods",
            "cpu.max",
        ),
        (host(cpu_quota_cores=2.0), "quota", NOTE, "2 cores, never held back", ""),
        (
            replace(conditions(throttled_periods=None), host={**HOST, "cpu_quota_cores": 2.0}),
            "quota",
            NOTE,
            "2 cores, whether it held anything back is not told",
            "",
        ),
        (replace(QUIET, threads=8), "threads", BAD, "8 for 4", "hardware.threads=4"),
        (replace(QUIET, threads=4), "pinning", NOTE, "all there are", "hardware.threads=3"),
        (
            replace(
                host(clock_source="hpet"), calibration=Calibration(pair_cost_ns=2e3, step_ns=70)
            ),
            "clock",
            BAD,
            "hpet: 2000 ns",
            "tsc",
        ),
        (replace(QUIET, device={"other_processes": 2}), "GPU", BAD, "2 other", "nvidia-smi"),
        (
            replace(QUIET, device={"throttle_reasons": ["gpu_idle", "sw_power_cap"]}),
            "GPU clocks",
            BAD,
            "held back by sw_power_cap",
            "power cap",
        ),
        (
            replace(QUIET, device={"throttle_reasons": ["applications_clocks_setting"]}),
            "GPU clocks",
            NOTE,
            "limited by a setting: applications_clocks_setting",
            "",
        ),
        (
            replace(QUIET, device={"throttle_reasons": ["sync_boost", "hw_thermal_slowdown"]}),
            "GPU clocks",
            BAD,
            "held back by hw_thermal_slowdown",
            "cooling",
        ),
        (
            replace(QUIET, device={"persistence": False}),
            "GPU driver",
            NOTE,
            "not kept loaded",
            "persistence-mode",
        ),
    ],
)
def test_what_sways_a_measurement_is_told_with_its_value_and_its_remedy(
    looks: HostReadings, subject: str, weight: str, seen: str, advice: str
) -> None:
    found = look(subject, looks)
    assert found.weight == weight
    assert seen in found.seen
    assert advice in found.advice


@pytest.mark.parametrize(
    ("subject", "goal"),
    [
        ("grade", "at most 1.02 times and below 0.5% stolen"),
        ("other work", "at most 5%"),
        ("stolen time", "below 0.5%"),
        ("threads", "at most one for each"),
        ("clock", "at most 200"),
    ],
)
def test_a_figure_has_its_goal_beside_it(subject: str, goal: str) -> None:
    found = look(subject, QUIET)
    assert found.weight == GOOD
    assert goal in found.seen


def test_a_noisy_virtual_machine_is_told_what_its_neighbours_cost() -> None:
    noisy = judge([1_000_000] * 900 + [3_000_000] * 100, 0.0)
    own = look("grade", replace(QUIET, grade=noisy))
    assert own.weight == BAD
    assert "3.00 times" in own.seen
    assert "neighbours" not in own.advice
    rented = look("grade", replace(host(virtual_machine=True), grade=noisy))
    assert "neighbours" in rented.advice


@pytest.mark.parametrize(
    ("looks", "subject"),
    [
        (host(cpu_governor=None), "governor"),
        (host(cpu_boost=None), "boost"),
        (host(cpu_hyperthreads=None), "hyperthreads"),
        (host(address_randomisation=None), "layout"),
        (host(transparent_huge_pages=None), "memory"),
        (conditions(foreign_ratio=None), "other work"),
        (conditions(steal_ratio=None), "stolen time"),
        (replace(QUIET, placement=PinnedCpus(reason="this platform cannot")), "pinning"),
        (replace(QUIET, device={"unavailable": "NVML cannot be used"}), "GPU"),
    ],
)
def test_what_the_platform_does_not_tell_is_a_note_and_no_reproach(looks, subject) -> None:
    found = look(subject, looks)
    assert found.weight == NOTE
    assert found.advice == ""
    assert found.seen


def test_a_quota_that_never_held_anything_back_is_a_note() -> None:
    assert look("quota", host(cpu_quota_cores=1.5)).weight == NOTE


def test_thread_counts_of_this_shell_are_said_not_to_matter() -> None:
    found = look("threads", host(variables={"OMP_NUM_THREADS": "64"}))
    assert found.weight == GOOD
    assert "OMP_NUM_THREADS=64 here do not reach" in found.seen


def test_a_slow_clock_that_no_source_could_replace_is_a_note() -> None:
    slow = Calibration(pair_cost_ns=900.0, step_ns=40.0)
    assert look("clock", replace(QUIET, calibration=slow)).weight == NOTE


def test_this_machines_own_description_holds_all_that_is_looked_at() -> None:
    assert findings(replace(QUIET, host=describe_host()))
