"""What a machine can do at best: measured once, then known."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from benchorch.host import peaks
from benchorch.host.noise_grade import judge
from benchorch.trace.operators.roofline import Peaks

MADE_UP = Peaks(flops_per_s={"float32": 2e9}, bytes_per_s=3e9, caveats=("made up",))


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "benchorch" / "peaks"


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peaks, "grade", lambda: judge([1_000_000] * 100, 0.0))


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Instead of measuring, what was asked for is noted."""
    asked: list[tuple[str, int]] = []

    def measure(device: str, threads: int) -> Peaks:
        asked.append((device, threads))
        return MADE_UP

    monkeypatch.setattr(peaks, "measure_peaks", measure)
    return asked


def test_a_machine_is_measured_once_for_each_number_of_threads(
    measured: list[tuple[str, int]],
) -> None:
    assert peaks.known_peaks("cpu", 2) is None
    found = [peaks.find_peaks("cpu", threads) for threads in (2, 2, 1, 2)]
    assert measured == [("cpu", 2), ("cpu", 1)]
    assert found == [MADE_UP] * 4
    assert peaks.known_peaks("cpu", 2) == MADE_UP


def test_peaks_of_a_disturbed_machine_are_measured_again_and_the_better_kept(
    monkeypatch: pytest.MonkeyPatch, state: Path
) -> None:
    disturbed = f"{peaks._NOT_ITSELF}: it was busy"
    turns = iter(
        [
            Peaks(flops_per_s={"float32": 2e9}, bytes_per_s=1e9, caveats=(disturbed,)),
            Peaks(flops_per_s={"float32": 1e9, "int8": 5e9}, bytes_per_s=3e9),
        ]
    )
    monkeypatch.setattr(peaks, "measure_peaks", lambda device, threads: next(turns))
    first = peaks.find_peaks("cpu", 1)
    assert peaks.find_peaks("cpu", 1) == first  # for a while
    (note,) = state.glob("*.json")
    os.utime(note, (0, 0))
    better = Peaks(flops_per_s={"float32": 2e9, "int8": 5e9}, bytes_per_s=3e9)
    assert peaks.known_peaks("cpu", 1) is None
    assert peaks.find_peaks("cpu", 1) == better
    assert peaks.known_peaks("cpu", 1) == better


@pytest.mark.parametrize("content", ["", "{broken", "[]", "3"])
def test_a_damaged_note_is_measured_anew(
    content: str, measured: list[tuple[str, int]], state: Path
) -> None:
    peaks.find_peaks("cpu", 1)
    (note,) = state.glob("*.json")
    note.write_text(content)
    assert peaks.find_peaks("cpu", 1) == MADE_UP
    assert len(measured) == 2


def test_another_version_of_torch_may_have_other_kernels(
    measured: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    peaks.find_peaks("cpu", 1)
    monkeypatch.setattr(peaks, "package_versions", lambda names: {"torch": "another"})
    peaks.find_peaks("cpu", 1)
    assert len(measured) == 2


def test_every_rate_that_is_told_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peaks, "_WINDOW_NS", 1)
    monkeypatch.setattr(peaks, "_SIDES", {"cpu": 64})
    monkeypatch.setattr(peaks, "_VECTOR_BYTES", {"cpu": 2**20})
    found = peaks.measure_peaks("cpu", 1)
    told = [*found.flops_per_s.values(), found.bytes_per_s]
    assert all(math.isfinite(rate) and rate > 0 for rate in told)
    assert found.flops_per_s.keys() <= set(peaks.DTYPES)
    assert "float32" in found.flops_per_s
    assert found.source == "measured"


def test_a_dtype_without_products_is_named_and_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peaks, "_triad_bytes_per_s", lambda device: 1.0)
    monkeypatch.setattr(
        peaks, "_products_per_s", lambda device, dtype: None if dtype == "int8" else 1.0
    )
    found = peaks.measure_peaks("cpu", 1)
    assert "int8" not in found.flops_per_s
    assert found.caveats == ("no product of int8 matrices on this device",)


def test_a_machine_that_was_not_itself_is_said_to_be_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peaks, "_triad_bytes_per_s", lambda device: 1.0)
    monkeypatch.setattr(peaks, "_products_per_s", lambda device, dtype: 1.0)
    assert peaks.measure_peaks("cpu", 1).caveats == ()
    uneven = judge([1_000_000] * 80 + [3_000_000] * 20, 0.0)
    monkeypatch.setattr(peaks, "grade", lambda: uneven)
    (caveat,) = peaks.measure_peaks("cpu", 1).caveats
    assert "was not itself: 1 ms of work takes 3.00 times its median" in caveat


def test_devices_are_told_apart_by_what_their_driver_calls_them(tmp_path: Path) -> None:
    for number, model in enumerate(("A10G", "T4")):
        folder = tmp_path / "proc/driver/nvidia/gpus" / str(number)
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model:  NVIDIA {model}\nIRQ: 3\n")
    assert sorted(peaks._gpus(tmp_path)) == ["Model:  NVIDIA A10G", "Model:  NVIDIA T4"]
