from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from benchorch.errors import MeasureError
from benchorch.hardware.host_meter import HostMeter

FULL_UJ = 1_000_000


def zone(root: Path, number: str, name: str, microjoules: int = 0) -> Path:
    folder = root / f"intel-rapl:{number}"
    folder.mkdir(parents=True)
    (folder / "name").write_text(f"{name}\n")
    (folder / "energy_uj").write_text(f"{microjoules}\n")
    (folder / "max_energy_range_uj").write_text(f"{FULL_UJ}\n")
    return folder


def count(folder: Path, microjoules: int) -> None:
    (folder / "energy_uj").write_text(f"{microjoules}\n")


def test_a_machine_without_rapl_says_so(tmp_path: Path) -> None:
    for root in (tmp_path / "none", tmp_path):
        meter = HostMeter(powercap=root)
        assert "no RAPL package; virtual machines" in (meter.no_energy() or "")
        assert meter.energy_source == ""
        with pytest.raises(MeasureError, match="no energy counter"):
            meter.energy_j()


def test_energy_is_counted_from_the_first_reading_on(tmp_path: Path) -> None:
    package = zone(tmp_path, "0", "package-0", 500_000)
    meter = HostMeter(powercap=tmp_path)
    assert meter.no_energy() is None
    assert meter.energy_j() == 0.0
    count(package, 750_000)
    assert meter.energy_j() == 0.25
    assert meter.energy_j() == 0.25


def test_packages_and_their_memory_are_added_and_parts_of_a_package_are_not(
    tmp_path: Path,
) -> None:
    folders = [
        zone(tmp_path, "0", "package-0"),
        zone(tmp_path, "0:0", "core"),
        zone(tmp_path, "0:1", "dram"),
        zone(tmp_path, "1", "package-1"),
        zone(tmp_path, "2", "psys"),
    ]
    (tmp_path / "intel-rapl-mmio:0").mkdir()  # the first package once more
    meter = HostMeter(powercap=tmp_path)
    assert meter.energy_source == "rapl package+dram"
    meter.energy_j()
    for folder, microjoules in zip(folders, (1_000, 20_000, 300_000, 4_000, 50_000), strict=True):
        count(folder, microjoules)
    assert meter.energy_j() == pytest.approx(0.305)


def test_a_counter_that_begins_again_goes_on_rising(tmp_path: Path) -> None:
    package = zone(tmp_path, "0", "package-0", 900_000)
    meter = HostMeter(powercap=tmp_path)
    readings = [meter.energy_j()]
    for microjoules in (950_000, 50_000, 10_000, 20_000):
        count(package, microjoules)
        readings.append(meter.energy_j())
    # Up by 0.05, then past the end by 0.1, then nearly once around, then by 0.01.
    assert readings == pytest.approx([0.0, 0.05, 0.15, 1.11, 1.12])


def test_a_counter_that_may_not_be_read_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = zone(tmp_path, "0", "package-0")
    read = Path.read_text

    def refuse(path: Path, *args: Any, **more: Any) -> str:
        if path == package / "energy_uj":
            raise PermissionError(13, "Permission denied", str(path))
        return read(path, *args, **more)

    # Not by its mode: whoever runs the tests may be root, who can read everything.
    monkeypatch.setattr(Path, "read_text", refuse)
    meter = HostMeter(powercap=tmp_path)
    assert f"sudo chmod a+r {tmp_path}/intel-rapl:*/energy_uj" in (meter.no_energy() or "")
    with pytest.raises(MeasureError, match="Permission denied"):
        meter.energy_j()


@pytest.mark.parametrize("content", ["", "many\n"])
def test_a_counter_without_a_number_is_no_counter(tmp_path: Path, content: str) -> None:
    package = zone(tmp_path, "0", "package-0")
    (package / "energy_uj").write_text(content)
    assert "cannot be read" in (HostMeter(powercap=tmp_path).no_energy() or "")


def test_a_zone_without_a_name_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "intel-rapl:0").mkdir()
    assert HostMeter(powercap=tmp_path).energy_source == ""


def test_busy_seconds_are_the_mean_of_the_processors_this_process_may_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat = tmp_path / "stat"
    stat.write_text(
        "cpu  99999 0 0 0 0 0 0 0 0 0\n"
        # user nice system idle iowait irq softirq steal guest guest_nice
        "cpu0 10 20 30 4000 5000 40 50 60 700 800\n"
        "cpu1 400 0 0 6000 0 0 0 0 0 0\n"
        "cpu2 99999 0 0 0 0 0 0 0 0 0\n"
        "ctxt 12\n"
    )
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    assert HostMeter(stat=stat).busy_s() == pytest.approx((150 + 400) / 2 / ticks_per_s)


def test_busy_seconds_are_unknown_where_nobody_tells(tmp_path: Path) -> None:
    assert HostMeter(stat=tmp_path / "none").busy_s() is None


def test_a_machine_without_a_device_tells_nothing_of_one() -> None:
    meter = HostMeter()
    meter.reset_device_memory()
    assert meter.device_memory() is None
    assert meter.device_state() == {}


def test_this_machine_is_read_without_an_error() -> None:
    meter = HostMeter()
    busy_s = meter.busy_s()
    assert busy_s is None or busy_s > 0
    assert (meter.no_energy() is None) <= meter.energy_source.startswith("rapl ")
