"""The processes of a trial's profile, with a stand-in for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchorch.domain.profile import BottleneckVerdict, ProfileRecord
from benchorch.domain.result import BuildRecord, Failure, ModelCounts
from benchorch.profilers.auto import Auto
from benchorch.profilers.none import NoProfiler
from benchorch.profilers.nsys import Nsys
from benchorch.trace.operators.roofline import Peaks
from benchorch.trial import profile_stage
from benchorch.trial.stages import Built, BuiltTrial, Stage, StageFailed

PEAKS = Peaks(flops_per_s={"float32": 1e9}, bytes_per_s=1e9)
RECORD = ProfileRecord(
    profiler="torch", trace="profile/trace.json.gz", unprofiled_ns=(10, 12), profiled_ns=(11, 22)
)
FOUND = BottleneckVerdict(
    limit="compute-bound", sentence="It computes.", critical_path_ns=10, classes_ns={"cpu": 10}
)


BUILT = Built(
    record=BuildRecord(
        key="", cache="none", build_s=0, original_build_s=0, artifact_bytes=0, model_digest=""
    ),
    source=None,
    sources={},
    states={},
    reference=Path("reference"),
    scratch=Path("scratch"),
    counts=ModelCounts(parameters=1, parameter_bytes=4, macs=None, flops=None),
)


class Stages:
    """Replies to each stage as it was given."""

    def __init__(self, **replies: object) -> None:
        self.replies: dict[str, object] = {"peaks": PEAKS, **replies}
        self.ran: list[str] = []
        self.requests: dict[str, Any] = {}
        self.partial: object = None

    def __call__(
        self,
        stage: Stage[Any, Any],
        request: Any,
        under: tuple[str, ...] = (),
        exit_s: float = 5.0,
    ) -> Any:
        assert isinstance(request, stage.request)
        self.ran.append(stage.name)
        self.requests[stage.name] = request
        reply = self.replies[stage.name]
        if isinstance(reply, Failure):
            raise StageFailed(reply, self.partial)
        return reply


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def profiled(
    run: Stages, profiler: Any = None, *, hardware: Any = None, threads: int = 1, **changes: Any
) -> ProfileRecord | None:
    trial = BuiltTrial(spec={"hardware": hardware or {}}, built=BUILT, threads=threads, pin=False)
    options = {"device": "cpu", "isolated": True, "folder": Path("trial"), **changes}
    return profile_stage.profiled(trial, profiler or Auto(), profiler_node={}, run=run, **options)


def crash(stage: str) -> Failure:
    return Failure(stage=stage, kind="crash:SIGSEGV", message="It ended.", remedy="less of it")


def test_a_profile_is_taken_then_the_machine_is_measured_once_then_it_is_explained() -> None:
    run = Stages(profile=RECORD, explain=FOUND)
    found = profiled(run)
    assert run.ran == ["profile", "peaks", "explain"]
    assert found is not None
    assert (found.bottleneck, found.unavailable) == (FOUND, "")
    assert run.requests["explain"].peaks == PEAKS
    assert run.requests["profile"].directory == Path("trial/profile")


def test_what_is_known_of_the_machine_is_not_measured_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = Peaks(flops_per_s={"float32": 5.0}, bytes_per_s=7.0)
    monkeypatch.setattr(profile_stage, "known_peaks", lambda device, threads: known)
    run = Stages(profile=RECORD, explain=FOUND)
    profiled(run)
    assert run.ran == ["profile", "explain"]
    assert run.requests["explain"].peaks == known


def test_without_peaks_there_is_an_explanation_all_the_same() -> None:
    run = Stages(profile=RECORD, peaks=crash("peaks"), explain=FOUND)
    found = profiled(run)
    assert run.requests["explain"].peaks is None
    assert found is not None
    assert found.unavailable == ""


def test_a_profiler_that_crashes_leaves_a_sentence() -> None:
    run = Stages(profile=crash("profile"))
    found = profiled(run)
    assert found == ProfileRecord(
        unavailable="not profiled: crash:SIGSEGV: It ended. (try: less of it)"
    )
    assert run.ran == ["profile"]


def test_an_analysis_that_fails_keeps_the_trace() -> None:
    found = profiled(Stages(profile=RECORD, explain=crash("explain")))
    assert found is not None
    assert found.trace == RECORD.trace
    assert found.unavailable.startswith("not analysed: crash:SIGSEGV")
    assert found.bottleneck is None


def test_pages_that_cannot_be_drawn_take_nothing_away() -> None:
    run = Stages(profile=RECORD, explain=crash("explain"))
    run.partial = FOUND
    found = profiled(run)
    assert found is not None
    assert found.bottleneck == FOUND
    assert found.unavailable


def test_nothing_runs_where_no_profile_is_wanted() -> None:
    run = Stages()
    assert profiled(run, NoProfiler()) is None
    assert run.ran == []


def test_a_profiler_that_cannot_work_here_says_so_and_nothing_runs() -> None:
    run = Stages()
    found = profiled(run, Nsys())
    assert found is not None
    assert "records GPUs" in found.unavailable
    assert run.ran == []


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


def explained(run: Stages, hardware: Any, device: str = "cpu") -> Peaks | None:
    """The peaks that the explanation is made with."""
    profiled(run, hardware=hardware, threads=2, device=device)
    peaks: Peaks | None = run.requests["explain"].peaks
    return peaks


def test_a_data_sheet_stands_in_for_peaks_that_could_not_be_measured() -> None:
    run = Stages(profile=RECORD, explain=FOUND, peaks=crash("peaks"))
    found = explained(run, {"peaks": SHEET})
    assert found is not None
    assert (found.source, found.bytes_per_s) == ("data sheet", 4e9)
    assert found.flops_per_s == {"float32": 6e9, "int8": 18e9}, "of two cores"


def test_what_was_measured_is_told_beside_its_data_sheet() -> None:
    run = Stages(profile=RECORD, explain=FOUND)
    found = explained(run, {"peaks": SHEET})
    assert found is not None
    assert (found.source, found.flops_per_s) == ("measured", {"float32": 1e9})
    told = "1e+09 of 6e+09 flop/s in float32, 1e+09 of 4e+09 bytes/s (its maker)"
    assert found.promised == told


@pytest.mark.parametrize("hardware", [{}, {"peaks": {}}, {"peaks": {**SHEET, "of": "accelerator"}}])
def test_what_is_said_of_another_device_or_not_at_all_changes_nothing(hardware: Any) -> None:
    run = Stages(profile=RECORD, explain=FOUND)
    found = explained(run, hardware)
    assert found is not None
    assert found.promised == ""
    failing = Stages(profile=RECORD, explain=FOUND, peaks=crash("peaks"))
    assert explained(failing, hardware) is None
