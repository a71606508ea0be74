"""The processes of a trial's profile, with a stand-in for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchorch.domain.profile import BottleneckVerdict, ProfileRecord
from benchorch.domain.result import BuildRecord, Failure, ModelCounts
from benchorch.profilers.nsys import Nsys
from benchorch.trial import profile_stage
from benchorch.trial.stages import Built, BuiltTrial, Stage, StageFailed

RECORD = ProfileRecord(
    profiler="torch", trace="profile/trace.json.gz", unprofiled_ns=(10, 12), profiled_ns=(11, 22)
)
FOUND = BottleneckVerdict(
    limit="device compute", sentence="It computes.", critical_path_ns=10, classes_ns={"cpu": 10}
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
        self.replies: dict[str, object] = dict(replies)
        self.ran: list[str] = []
        self.requests: dict[str, Any] = {}
        self.templates: dict[str, str] = {}
        self.partial: object = None

    def run(
        self,
        stage: Stage[Any, Any],
        request: Any,
        under: tuple[str, ...] = (),
        exit_s: float = 5.0,
        *,
        template: str = "",
    ) -> Any:
        assert isinstance(request, stage.request)
        self.templates[stage.name] = template
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
    run: Any, name: str = "auto.Auto", *, hardware: Any = None, threads: int = 1, **changes: Any
) -> ProfileRecord | None:
    trial = BuiltTrial(spec={"hardware": hardware or {}}, built=BUILT, threads=threads, pin=False)
    options = {"device": "cpu", "isolated": True, "folder": Path("trial"), **changes}
    node = {"_target_": f"benchorch.profilers.{name}"}
    return profile_stage.profiled(trial, node, runner=run, **options)


def crash(stage: str) -> Failure:
    return Failure(stage=stage, kind="crash:SIGSEGV", message="It ended.", remedy="less of it")


def test_a_profile_is_taken_then_it_is_explained() -> None:
    run = Stages(profile=RECORD, explain=FOUND)
    found = profiled(run)
    assert run.ran == ["profile", "explain"]
    assert found is not None
    assert (found.bottleneck, found.unavailable) == (FOUND, "")
    assert run.requests["profile"].directory == Path("trial/profile")


def test_a_profile_is_forked_from_the_template_of_its_runtime() -> None:
    run = Stages(profile=RECORD, explain=FOUND)
    profiled(run, template="torch")
    assert run.templates == {"profile": "torch", "explain": ""}


def test_a_process_that_a_profiler_starts_is_not_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Nsys, "unavailable", lambda self, device: None)
    run = Stages(profile=RECORD, explain=FOUND)
    profiled(run, "nsys.Nsys", template="torch")
    assert run.templates["profile"] == ""


def test_a_profile_many_times_slower_than_the_program_is_taken_once_more() -> None:
    slow = ProfileRecord(
        profiler="torch", trace="profile/trace.json.gz", unprofiled_ns=(10,), profiled_ns=(430,)
    )
    run = Stages(profile=slow, explain=FOUND)
    profiled(run)
    assert run.ran == ["profile", "profile", "explain"]


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
    assert profiled(run, "none.NoProfiler") is None
    assert run.ran == []


def test_a_profiler_that_cannot_work_here_says_so_and_nothing_runs() -> None:
    run = Stages()
    found = profiled(run, "nsys.Nsys")
    assert found is not None
    assert "records GPUs" in found.unavailable
    assert run.ran == []


def test_a_profiler_around_a_process_needs_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Nsys, "unavailable", lambda self, device: None)
    found = profiled(Stages(), "nsys.Nsys", isolated=False)
    assert found is not None
    assert found.unavailable == "nsys starts the process that it records: executor=process"


def test_dilation_is_the_ratio_of_medians() -> None:
    assert RECORD.dilation_ratio == pytest.approx(16.5 / 11)
    assert ProfileRecord().dilation_ratio is None
