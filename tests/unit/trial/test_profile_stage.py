"""Which processes a trial's profile has, with a stand-in for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchorch.domain.codec import Json, decode, encode
from benchorch.domain.profile import BottleneckVerdict, ProfileRecord
from benchorch.domain.result import Failure
from benchorch.profilers.auto import Auto
from benchorch.profilers.none import NoProfiler
from benchorch.profilers.nsys import Nsys
from benchorch.trace.operators.roofline import Peaks
from benchorch.trial import profile_stage
from benchorch.trial.repetitions import StageFailed

PEAKS = encode(Peaks(flops_per_s={"float32": 1e9}, bytes_per_s=1e9))
RECORD = ProfileRecord(
    profiler="torch", trace="profile/trace.json.gz", unprofiled_ns=(10, 12), profiled_ns=(11, 22)
)
FOUND = BottleneckVerdict(
    limit="compute-bound", sentence="It computes.", critical_path_ns=10, classes_ns={"cpu": 10}
)


class Stages:
    """Answers each stage as it was told to."""

    def __init__(self, **answers: Json | Failure) -> None:
        self.answers: dict[str, Any] = {"peaks": PEAKS, **answers}
        self.asked: list[str] = []
        self.requests: dict[str, Any] = {}
        self.seen: Json = None

    def __call__(
        self, stage: str, request: Any, under: tuple[str, ...] = (), exit_s: float = 5.0
    ) -> Json:
        self.asked.append(stage)
        self.requests[stage] = request
        answer = self.answers[stage]
        if isinstance(answer, Failure):
            raise StageFailed(answer, self.seen)
        return answer


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def profiled(ask: Stages, profiler: Any = None, **changes: Any) -> ProfileRecord | None:
    words = {"device": "cpu", "isolated": True, "folder": Path("trial"), **changes}
    return profile_stage.profiled({"threads": 1}, profiler or Auto(), ask=ask, **words)


def crash(stage: str) -> Failure:
    return Failure(stage=stage, kind="crash:SIGSEGV", message="It ended.", remedy="less of it")


def test_a_profile_is_taken_then_the_machine_is_measured_once_then_it_is_explained() -> None:
    ask = Stages(profile=encode(RECORD), explain={"bottleneck": encode(FOUND)})
    found = profiled(ask)
    assert ask.asked == ["profile", "peaks", "explain"]
    assert found is not None
    assert (found.bottleneck, found.unavailable) == (FOUND, "")
    assert ask.requests["explain"]["peaks"] == PEAKS
    assert ask.requests["profile"]["profile_dir"] == "trial/profile"


def test_what_is_known_of_the_machine_is_not_measured_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = Peaks(flops_per_s={"float32": 5.0}, bytes_per_s=7.0)
    monkeypatch.setattr(profile_stage, "known_peaks", lambda device, threads: known)
    ask = Stages(profile=encode(RECORD), explain={"bottleneck": encode(FOUND)})
    profiled(ask)
    assert ask.asked == ["profile", "explain"]
    assert ask.requests["explain"]["peaks"] == encode(known)


def test_without_peaks_there_is_an_explanation_all_the_same() -> None:
    ask = Stages(profile=encode(RECORD), peaks=crash("peaks"), explain={"bottleneck": None})
    found = profiled(ask)
    assert ask.requests["explain"]["peaks"] is None
    assert found is not None
    assert found.unavailable == ""


def test_a_profiler_that_crashes_leaves_a_sentence() -> None:
    ask = Stages(profile=crash("profile"))
    found = profiled(ask)
    assert found == ProfileRecord(
        unavailable="not profiled: crash:SIGSEGV: It ended. (try: less of it)"
    )
    assert ask.asked == ["profile"]


def test_an_analysis_that_fails_keeps_the_trace() -> None:
    found = profiled(Stages(profile=encode(RECORD), explain=crash("explain")))
    assert found is not None
    assert found.trace == RECORD.trace
    assert found.unavailable.startswith("not analysed: crash:SIGSEGV")
    assert found.bottleneck is None


def test_pages_that_cannot_be_drawn_take_nothing_away() -> None:
    ask = Stages(profile=encode(RECORD), explain=crash("explain"))
    ask.seen = {"bottleneck": encode(FOUND)}
    found = profiled(ask)
    assert found is not None
    assert found.bottleneck == FOUND
    assert found.unavailable


def test_nothing_runs_where_no_profile_is_wanted() -> None:
    ask = Stages()
    assert profiled(ask, NoProfiler()) is None
    assert ask.asked == []


def test_a_profiler_that_cannot_work_here_says_so_and_nothing_runs() -> None:
    ask = Stages()
    found = profiled(ask, Nsys())
    assert found is not None
    assert "records GPUs" in found.unavailable
    assert ask.asked == []


def test_a_profiler_around_a_process_needs_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Nsys, "unavailable", lambda self, device: None)
    found = profiled(Stages(), Nsys(), isolated=False)
    assert found is not None
    assert found.unavailable == "nsys starts the process that it records: executor=process"


def test_dilation_is_the_ratio_of_medians() -> None:
    assert RECORD.dilation_ratio == pytest.approx(16.5 / 11)
    assert ProfileRecord().dilation_ratio is None


SHEET = {
    "of": "core",
    "flops_per_s": {"float32": 3e9, "int8": 9e9},
    "bytes_per_s": 4e9,
    "source": "its maker",
}


def explained(ask: Stages, hardware: Any, device: str = "cpu") -> Peaks | None:
    """The peaks that the explanation is made with."""
    request: Json = {"threads": 2, "spec": {"hardware": hardware}}
    profile_stage.profiled(
        request, Auto(), device=device, isolated=True, folder=Path("trial"), ask=ask
    )
    found = ask.requests["explain"]["peaks"]
    return decode(Peaks, found) if found else None


def test_a_data_sheet_stands_in_for_peaks_that_could_not_be_measured() -> None:
    ask = Stages(profile=encode(RECORD), explain={"bottleneck": None}, peaks=crash("peaks"))
    found = explained(ask, {"peaks": SHEET})
    assert found is not None
    assert (found.source, found.bytes_per_s) == ("data sheet", 4e9)
    assert found.flops_per_s == {"float32": 6e9, "int8": 18e9}, "of two cores"


def test_what_was_measured_is_told_beside_its_data_sheet() -> None:
    ask = Stages(profile=encode(RECORD), explain={"bottleneck": None})
    found = explained(ask, {"peaks": SHEET})
    assert found is not None
    assert (found.source, found.flops_per_s) == ("measured", {"float32": 1e9})
    told = "1e+09 of 6e+09 flop/s in float32, 1e+09 of 4e+09 bytes/s (its maker)"
    assert found.promised == told


@pytest.mark.parametrize("hardware", [{}, {"peaks": {}}, {"peaks": {**SHEET, "of": "accelerator"}}])
def test_what_is_said_of_another_device_or_not_at_all_changes_nothing(hardware: Any) -> None:
    ask = Stages(profile=encode(RECORD), explain={"bottleneck": None})
    found = explained(ask, hardware)
    assert found is not None
    assert found.promised == ""
    failing = Stages(profile=encode(RECORD), explain={"bottleneck": None}, peaks=crash("peaks"))
    assert explained(failing, hardware) is None
