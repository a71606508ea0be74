from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from benchorch.cli.commands.doctor import command, examination
from benchorch.cli.commands.doctor.examination import QUICK, Examination, Repeats, examine
from benchorch.cli.commands.doctor.overhead import Overhead, summarise
from benchorch.cli.commands.doctor.report import as_json, as_text
from benchorch.cli.commands.doctor.self_comparison import Controls
from benchorch.cli.commands.doctor.timer_accuracy import Agreement
from benchorch.domain.estimate import Comparison, Estimate
from benchorch.domain.measurement import Calibration, Observations, ProcessRecord, TransferBreakdown
from benchorch.domain.trial import Plan, Skip
from benchorch.errors import ConfigError, ExecutorError
from benchorch.host.advice import BAD, GOOD, NOTE, HostFinding
from benchorch.host.environment import describe_host
from benchorch.host.noise_grade import Grade, judge
from benchorch.stats.pairs import ALTERNATED, Pair
from benchorch.stats.ratio_test import compare_pairs

MS = 1_000_000
S = 1_000_000_000


def ratio(value: float, reach: float) -> Estimate:
    return Estimate(
        value=value,
        low=value - reach,
        high=value + reach,
        level_ratio=0.95,
        n=60,
        unit="ratio",
        method="a test's",
    )


def timing(value: float = 1.0, reach: float = 0.002) -> Agreement:
    return Agreement(ratio=ratio(value, reach), bare_ratio=ratio(1.0, 0.001), band_ratio=0.01)


def met(factor: float) -> Comparison:
    """What comparing says of a candidate that takes `factor` times as long."""
    pairs = [Pair(factor * (100 + noise), 100 - noise) for noise in (0.1, -0.1, 0.2, -0.2)]
    found = compare_pairs(pairs, ALTERNATED)
    assert found is not None
    return found


def own() -> Overhead:
    return summarise([process(2.0)], [1.0])


def process(elapsed_s: float) -> ProcessRecord:
    """Blocks of 0.5 s in all, passes of 0.1 s, and two reads of 50 ns for each block of 1 ms."""
    return ProcessRecord(
        load_s=0.1,
        first_call_s=0.2,
        observations=Observations(
            durations_ns=(MS,) * 500,
            started_ns=tuple(range(0, 500 * MS, MS)),
            calls_per_block=10,
            items_per_call=1,
        ),
        steady_from=0,
        calibration=Calibration(pair_cost_ns=50.0, step_ns=10.0, loop_turn_ns=5.0),
        peak_rss_bytes=1,
        facts={},
        elapsed_s=elapsed_s,
        split=TransferBreakdown(
            stages_ns={"compute": (40 * MS,), "post": (20 * MS,)}, joined_ns=(40 * MS,)
        ),
    )


def grade_of(rare_ratio: float) -> Grade:
    return judge([MS] * 900 + [round(rare_ratio * MS)] * 100, 0.0)


@pytest.fixture
def sound() -> Examination:
    return Examination(
        host=describe_host(),
        grade=grade_of(1.0),
        findings=[HostFinding(subject="governor", seen="performance")],
        bare_loop=timing(),
        controls=Controls(same=met(1.0), slower=met(1.1)),
        overhead=own(),
        missing={},
        elapsed_s=42.0,
    )


def test_programs_get_grade_ratio_overhead_and_verdicts(sound) -> None:
    data = json.loads(json.dumps(as_json(sound)))
    assert data["grade"] == "A"
    assert data["bare_loop_ratio"]["low"] < data["bare_loop_ratio"]["value"] == 1.0
    assert data["bare_loop_ratio"]["agrees"] is True
    assert data["self_overhead"]["value"] == pytest.approx(0.2)
    assert data["a_a"]["same"]["verdict"] == "equivalent"
    assert data["a_a"]["slower_by_a_tenth"]["verdict"] == "slower"
    assert data["reasons"] == data["advice"] == []
    assert data["missing"] == {}


def test_a_sound_machine_is_told_what_to_run_next(sound) -> None:
    text = as_text(sound)
    assert "grade A" in text
    assert "1.0000 [0.9980, 1.0020] of a bare loop's time" in text
    assert "next  python -m benchorch model=bert" in text
    assert "what to change" not in text
    assert "no settings changed" in text


def test_what_is_wrong_comes_before_what_could_be_better_and_nothing_is_lost(sound) -> None:
    long = "an advice that needs a line and a half, because it holds a whole command: " + "x " * 20
    ill = replace(
        sound,
        grade=grade_of(2.0),
        findings=[
            HostFinding(subject="boost", seen="on [really]", weight=NOTE, advice="switch it off"),
            HostFinding(subject="grade", seen="C: uneven", weight=BAD, advice=long),
        ],
    )
    assert ill.reasons == ["grade: C: uneven"]
    assert ill.advice == [f"grade: {long}", "boost: switch it off"]
    text = as_text(ill)
    assert "1. grade: an advice" in text
    assert "2. boost" in text
    assert "on [really]" in text
    assert "conversion=[eager,onnxruntime]" in text
    assert max(map(len, text.splitlines())) <= 100


def test_timing_that_does_not_agree_speaks_against_every_number(sound) -> None:
    (reason,) = replace(sound, bare_loop=timing(1.05)).reasons
    assert "+5.0%" in reason


@pytest.mark.parametrize(("same", "slower"), [(1.1, 1.1), (1.0, 1.0)])
def test_comparisons_that_err_are_a_reason(sound, same, slower) -> None:
    found = replace(sound, controls=Controls(same=met(same), slower=met(slower)))
    (reason,) = found.reasons
    assert "identical work was judged" in reason


def test_a_ratio_agrees_where_its_interval_reaches_into_the_band() -> None:
    assert timing(1.011, 0.002).agrees
    assert not timing(1.02, 0.002).agrees
    assert not timing(0.98, 0.002).agrees
    assert timing(0.989, 0.002).agrees


@pytest.mark.parametrize(
    ("value", "half_width", "mark"),
    [(1.0, 0.002, GOOD), (1.0, 0.05, NOTE), (1.009, 0.002, NOTE), (1.064, 0.013, BAD)],
)
def test_a_timed_call_is_ticked_where_its_whole_interval_is_within_the_goal(
    value: float, half_width: float, mark: str
) -> None:
    assert timing(value, half_width).weight == mark


def test_identical_work_that_is_not_known_to_be_equal_is_not_ticked() -> None:
    found = Controls(same=met(1.0), slower=met(1.1))
    assert (found.same_weight, found.slower_weight) == (GOOD, GOOD)
    unclear = replace(met(1.0), verdict="inconclusive")
    assert Controls(same=unclear, slower=unclear).same_weight == NOTE
    assert Controls(same=met(1.1), slower=met(1.0)).same_weight == BAD
    assert Controls(same=met(1.1), slower=met(1.0)).slower_weight == BAD


@pytest.mark.parametrize(
    ("low", "high", "mark"),
    [(0.1, 0.2, GOOD), (0.1, 0.4, NOTE), (0.3, 0.4, BAD), (-0.68, 0.2, NOTE), (-0.9, -0.5, NOTE)],
)
def test_an_own_share_below_zero_or_above_the_goal_is_not_ticked(
    low: float, high: float, mark: str
) -> None:
    found = own()
    share = replace(found.share, value=(low + high) / 2, low=low, high=high)
    assert replace(found, share=share).weight == mark


def test_every_line_has_its_goal(sound) -> None:
    text = " ".join(as_text(sound).split())
    assert text.count("goal:") == 5


def test_overhead_is_all_but_the_models_calls_and_what_a_bare_process_takes() -> None:
    # 0.5 s of blocks and 0.1 s of passes are the model's; the floor is 1.0, 0.8 and 0.7 s.
    found = summarise([process(2.0), process(1.6), process(2.6)], [1.0, 0.8, 0.7])
    assert found.calls_s == pytest.approx(0.6)
    assert found.floor_s == 0.8
    assert found.process_s == 2.0
    assert [found.share.low, found.share.value, found.share.high] == pytest.approx(
        [0.2 / 1.6, 0.4 / 2.0, 1.3 / 2.6]
    )
    assert found.over_floor.value == pytest.approx(1.4 / 1.0)


def test_inside_a_call_the_clock_and_the_loop_are_benchorchs_own() -> None:
    assert own().timed_call_ratio == pytest.approx((50 + 10 * 5) / MS)


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return examination._plan(str(tmp_path_factory.mktemp("doctor")), QUICK)


@pytest.fixture
def without_experiments(monkeypatch: pytest.MonkeyPatch, plan: Plan) -> Callable[..., None]:
    def replace_them(**results: object) -> None:
        defaults: dict[str, object] = {"agreement": timing(), "overhead": own()}
        defaults["controls"] = Controls(same=met(1.0), slower=met(1.1))
        for name, result in {**defaults, **results}.items():
            monkeypatch.setattr(examination, name, _answering(result))
        monkeypatch.setattr(examination, "grade", lambda: grade_of(1.0))
        monkeypatch.setattr(examination, "_plan", lambda *_: plan)

    return replace_them


def _answering(result: object) -> Callable[..., object]:
    def answer(*_: object, **__: object) -> object:
        if isinstance(result, Exception):
            raise result
        return result

    return answer


def test_what_is_being_done_is_said_as_it_is_begun(without_experiments) -> None:
    without_experiments()
    said: list[str] = []
    found = examine(said.append, Repeats(pairs=6, controls=7, processes=8))
    assert [line.partition(":")[0] for line in said] == [
        *("machine", "conversions", "timing", "comparisons", "overhead"),
    ]
    assert "7 processes" in said[3]
    assert "8 processes" in said[4]
    assert found.missing == {}
    assert {"conversions", "compiler", "grade"} <= {each.subject for each in found.findings}


def test_a_part_that_cannot_be_examined_costs_only_itself(without_experiments) -> None:
    without_experiments(controls=ExecutorError("no child process could be started"))
    found = examine(lambda _: None, QUICK)
    assert found.controls is None
    assert found.overhead is not None
    data = as_json(found)
    assert data["a_a"] is None
    assert data["missing"] == {"a_a": "no child process could be started"}
    assert "not examined: no child process could be started" in as_text(found)


def test_every_conversion_is_planned_and_one_trial_is_there_to_look_at(plan) -> None:
    names = [each.labels["conversion"] for each in (*plan.trials, *plan.skips)]
    assert {"eager", "onnxruntime", "aot_inductor", "channels_last"} <= set(names)


def test_conversions_that_lack_something_are_counted_and_the_command_that_tells_them_named(
    without_experiments, monkeypatch, plan
) -> None:
    labels = {"model": "mlp", "conversion": "onnxruntime"}
    skip = Skip(labels=labels, reason="onnxruntime is not installed.", remedy="pip install it")
    without_experiments()
    monkeypatch.setattr(examination, "_plan", lambda *_: replace(plan, skips=(skip,)))
    monkeypatch.setattr("shutil.which", lambda _: None)
    found = examine(lambda _: None, QUICK)
    seen = {each.subject: each for each in found.findings}
    count = len(plan.trials)
    assert seen["conversions"].seen == f"{count} of {count + 1} can run here"
    assert "python -m benchorch conversions" in seen["conversions"].advice
    assert "g++" in seen["compiler"].advice
    assert any("g++" in line for line in found.advice)


def test_the_answer_is_given_whatever_is_found(without_experiments, monkeypatch) -> None:
    without_experiments(agreement=timing(1.5))
    monkeypatch.setattr(examination, "grade", lambda: grade_of(9.0))
    reply = command.run.reply(["--quick"], progress=lambda _: None)
    assert reply.exit_code == 0
    assert isinstance(reply.data, dict)
    assert reply.data["grade"] == "C"


def test_an_unknown_word_is_a_wrong_request() -> None:
    with pytest.raises(ConfigError, match="there is no option --fast"):
        command.run.reply(["--fast"], progress=lambda _: None)


def test_where_neither_proc_nor_sys_tells_anything_it_still_answers(sound) -> None:
    bare: dict[str, Any] = dict.fromkeys(sound.host, None)
    bare |= {"cpu_physical_count": 2, "architecture": "arm64", "system": "Darwin", "variables": {}}
    assert "arm64, 2 cores" in as_text(replace(sound, host=bare))
