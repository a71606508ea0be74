"""What trials are expected to take, and which of them share artifacts."""

import json
from pathlib import Path

import pytest

from benchorch.domain.codec import Json
from benchorch.domain.trial import Trial
from benchorch.executors.scheduling.duration_forecast import (
    PastDurations,
    forecasts,
    read_durations,
)
from benchorch.interfaces.conversion import Step

EAGER: dict[str, Json] = {"steps": {}}
EXPORT: dict[str, Json] = {"steps": {"export": {"strict": False}}}
COMPILED: dict[str, Json] = {"steps": {"export": {"strict": False}, "compile": {"level": 3}}}
NOTHING = PastDurations()


def trial(name: str, conversion: dict[str, Json], **more: Json) -> Trial:
    spec: dict[str, Json] = {
        "model": {"width": 8},
        "workload": {"batch_size": 1, "dynamic": []},
        "hardware": {"threads": None},
        "stopping": {"budget_s": 60.0},
        "protocol": {"pairing": "auto"},
        **more,
        "conversion": conversion,
    }
    labels = {"model": "mlp", "conversion": str(len(str(conversion))), "hardware_kind": "local"}
    return Trial(trial_id=name, labels=labels, spec=spec)


def ran(
    directory: Path,
    one: Trial,
    *,
    measure_s: float,
    build_s: float,
    outcome: str = "ok",
    unfinished: bool = False,
):
    line = {
        "trial_id": one.trial_id,
        "labels": one.labels,
        "outcome": outcome,
        "unfinished": unfinished,
        "stages_s": {"build": build_s, "measure": measure_s},
        "build": {"original_build_s": build_s},
    }
    directory.mkdir(exist_ok=True)
    with (directory / "results.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def test_chains_that_begin_alike_share_their_first_artifacts_and_the_reference() -> None:
    expected = forecasts([trial("1", EAGER), trial("2", EXPORT), trial("3", COMPILED)], NOTHING)
    names = [list(expected[one].builds) for one in "123"]
    assert [len(each) for each in names] == [1, 2, 3]
    assert names[2][:2] == names[1]
    assert names[1][:1] == names[0]


@pytest.mark.parametrize(
    "other",
    [
        {"model": {"width": 9}},
        {"workload": {"batch_size": 2, "dynamic": []}},
        {"hardware": {"threads": 1}},
    ],
)
def test_what_is_made_from_something_else_is_not_shared(other: dict[str, Json]) -> None:
    expected = forecasts([trial("1", COMPILED), trial("2", COMPILED, **other)], NOTHING)
    steps = [list(expected[one].builds)[1:] for one in "12"]
    assert set(steps[0]).isdisjoint(steps[1])


def test_a_size_that_stays_open_leaves_the_artifact_shared_but_not_the_reference() -> None:
    sizes = [{"batch_size": size, "dynamic": ["batch_size"]} for size in (1, 8)]
    expected = forecasts([trial(str(i), EXPORT, workload=w) for i, w in enumerate(sizes)], NOTHING)
    (reference, export), (other_reference, other_export) = (expected[i].builds for i in "01")
    assert export == other_export
    assert reference != other_reference


def test_a_pair_needs_its_baselines_artifact_too() -> None:
    from dataclasses import replace

    paired = replace(trial("1", EAGER), baseline_conversion=EXPORT)
    alone = replace(trial("2", EAGER, protocol={"pairing": "none"}), baseline_conversion=EXPORT)
    expected = forecasts([paired, alone, trial("3", EXPORT)], NOTHING)
    assert expected["1"].builds == expected["3"].builds
    assert len(expected["2"].builds) == 1


@pytest.mark.parametrize(
    ("stopping", "seconds"),
    [
        ({"budget_s": 12}, 12),
        ({"processes": 5, "window_s": 0.5}, 17.5),
        ({"something_of_ones_own": True}, 60),
    ],
)
def test_what_was_never_measured_takes_what_its_stopping_rule_allows(
    stopping: dict[str, Json], seconds: float
) -> None:
    expected = forecasts([trial("1", EXPORT, stopping=stopping)], NOTHING)
    assert expected["1"].measure_s == seconds
    assert list(expected["1"].builds.values())[-1] == Step.typical_build_s


def test_an_exporter_is_expected_to_take_less_than_a_compiler() -> None:
    step = "benchorch.conversions.{}"
    onnx, compiled = (
        trial(name, {"steps": {"one": {"_target_": step.format(name)}}})
        for name in ("onnx_export.OnnxExport", "inductor_cache.InductorCompile")
    )
    expected = forecasts([onnx, compiled], NOTHING)
    seconds = [sum(one.builds.values()) for one in expected.values()]
    assert seconds[0] < seconds[1]


def test_a_trial_that_was_measured_before_takes_as_long_and_has_its_artifacts(
    tmp_path: Path,
) -> None:
    again, alike = trial("1", COMPILED), trial("2", COMPILED, model={"width": 9})
    ran(tmp_path / "new", again, measure_s=7, build_s=90)
    ran(tmp_path / "old", again, measure_s=70, build_s=900)
    expected = forecasts([again, alike], read_durations([tmp_path / "new", tmp_path / "old"]))
    assert expected["1"].measure_s == 7
    assert set(expected["1"].builds.values()) == {0.0}
    assert expected["2"].measure_s == pytest.approx((7 + 70) / 2)
    assert list(expected["2"].builds.values())[1:] == [(90 + 900) / 4] * 2


def test_of_a_trial_that_was_interrupted_or_run_again_the_newest_whole_result_counts(
    tmp_path: Path,
) -> None:
    one, other = trial("1", COMPILED), trial("2", EXPORT)
    ran(tmp_path / "run", one, measure_s=4, build_s=0, unfinished=True)
    ran(tmp_path / "run", one, measure_s=70, build_s=0)
    ran(tmp_path / "run", one, measure_s=50, build_s=0)
    ran(tmp_path / "run", other, measure_s=4, build_s=0, unfinished=True)
    expected = forecasts([one, other], read_durations([tmp_path / "run"]))
    assert [expected[name].measure_s for name in "12"] == [50, 60]


def test_failures_and_unreadable_journals_teach_nothing(tmp_path: Path) -> None:
    ran(tmp_path / "failed", trial("1", EXPORT), measure_s=7, build_s=90, outcome="failed")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "results.jsonl").write_text('[1]\n{"outcome": "ok"}\nnot json\n')
    places = [tmp_path / name for name in ("failed", "foreign", "gone")]
    assert forecasts([trial("1", EXPORT)], read_durations(places))["1"].measure_s == 60


def test_trials_of_an_unknown_shape_are_forecast_all_the_same() -> None:
    bare = Trial(trial_id="1", labels={"hardware_kind": "local"}, spec={"conversion": 3})
    assert forecasts([bare], NOTHING)["1"].measure_s == 60


DECIDE: dict[str, Json] = {"unpaired_processes": 3, "looks": [5, 8, 12], "max_window_s": 1.5}


@pytest.mark.parametrize(("baseline_id", "processes"), [(None, 3), ("eager", 5)])
def test_a_table_is_expected_to_be_decided_at_its_first_analysis(
    baseline_id: str | None, processes: int
) -> None:
    from dataclasses import replace

    one = replace(trial("1", EXPORT, stopping=DECIDE), baseline_id=baseline_id)
    assert forecasts([one], NOTHING)["1"].measure_s == processes * (3.0 + 1.5)


def test_a_similar_trial_teaches_what_a_process_takes(tmp_path: Path) -> None:
    ran(tmp_path / "run", trial("1", EAGER), measure_s=80, build_s=0)
    path = tmp_path / "run" / "results.jsonl"
    line = json.loads(path.read_text())
    path.write_text(json.dumps({**line, "processes": [{}] * 40}) + "\n")
    other = trial("2", EAGER, stopping=DECIDE)
    expected = forecasts([other], read_durations([tmp_path / "run"]))
    assert expected["2"].measure_s == 3 * 80 / 40
