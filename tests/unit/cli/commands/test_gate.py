"""Is the candidate shown to be worse than its baseline by more than allowed?"""

from __future__ import annotations

import errno
import json
import math
import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from benchorch.cli import corrections, main
from benchorch.cli.commands import gate, report
from benchorch.domain.estimate import Estimate
from benchorch.domain.reply import Reply
from benchorch.domain.result import TrialResult
from benchorch.domain.trial import Trial
from benchorch.errors import ConfigError
from benchorch.journal import certificates
from benchorch.journal.registry import remember
from benchorch.results.compare.gate import Gated, gated
from benchorch.results.compare.gate import gate as judge_all
from benchorch.results.compare.load_run import load
from benchorch.results.compare.metric_kinds import FLOOR, LATENCY
from benchorch.results.compare.stored_run import StoredRun, StoredTrial
from benchorch.results.compare.verdicts import MetricVerdict
from benchorch.results.history.collect import collect
from support.calibrated_machines import machine
from support.loggers import unchanged_loggers
from support.synthetic_runs import CANARY_NS, DISAGREES, failed, result, trial, write_run

EAGER, FAST = trial(), trial("fast")


@pytest.fixture(autouse=True)
def _own_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def baseline(tmp_path: Path) -> Path:
    return write_run(tmp_path / "before", (EAGER, result(EAGER)), (FAST, result(FAST, 5e5)))


def candidate(tmp_path: Path, *pairs: tuple[Trial, TrialResult | None]) -> Path:
    return write_run(tmp_path / "after", *pairs)


def same(of: Trial, call_ns: float, **fields: Any) -> tuple[Trial, TrialResult]:
    return of, result(of, call_ns, seed=7, **fields)


def judged(before: Path, after: Path, *words: str) -> Reply:
    return gate.run.reply(
        ["--baseline", str(before), "--candidate", str(after), "--max-regression", "2%", *words]
    )


def data(reply: Reply) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], json.loads(json.dumps(reply.data, allow_nan=False)))


@pytest.mark.parametrize(
    ("call_ns", "fields", "state", "code"),
    [
        (1.0e6, {}, "pass", 0),
        (0.5e6, {}, "pass", 0),
        (1.005e6, {}, "pass", 0),
        (1.01e6, {}, "unclear", 4),  # sessions may differ as much as their processes
        (1.05e6, {}, "regression", 1),
        (1.02e6, {}, "unclear", 4),
        (1.03e6, {"process_spread": 0.03}, "unclear", 4),
        (1.05e6, {"canaries_ns": (1.05 * CANARY_NS, 1.05 * CANARY_NS)}, "unclear", 4),
        (1.50e6, {"steady": False}, "regression", 1),
        (1.50e6, {"grade": "C"}, "regression", 1),
        (1.50e6, {"processes": 1}, "unclear", 4),
        (1.00e6, {"environment": {"host": "other"}}, "refused", 3),
        (1.00e6, {"threads": 4}, "refused", 3),
        (1.00e6, {"parity": DISAGREES}, "refused", 3),
        (1.00e6, {"canaries_ns": None}, "refused", 3),
    ],
)
def test_the_state_and_the_exit_code_follow_from_the_evidence(
    baseline: Path, tmp_path: Path, call_ns: float, fields: dict[str, Any], state: str, code: int
) -> None:
    after = candidate(tmp_path, same(EAGER, call_ns, **fields), same(FAST, 5e5))
    reply = judged(baseline, after)
    assert (data(reply)["state"], reply.exit_code) == (state, code)
    assert [one["state"] for one in data(reply)["cases"]] == [state, "pass"]


@pytest.mark.parametrize("processes", [1, 2])
def test_two_processes_are_too_few_and_five_are_named(
    baseline: Path, tmp_path: Path, processes: int
) -> None:
    after = candidate(tmp_path, same(EAGER, 1.5e6, processes=processes), same(FAST, 5e5))
    reply = judged(baseline, after)
    assert data(reply)["cases"][0]["processes_needed"] == 5
    assert "only 5 processes of each side or more" in reply.text


@pytest.mark.parametrize("change", [0.0, 0.01, 0.03])
def test_more_processes_do_not_make_the_change_of_the_machine_smaller(change: float) -> None:
    def of(n: int) -> Gated:
        reach = 0.06 / math.sqrt(n)
        ratio = Estimate(
            value=1.0, low=math.exp(-reach), high=math.exp(reach + change), level_ratio=0.95, n=n,
            unit="ratio", method="",
        )  # fmt: skip
        case = MetricVerdict(
            name="x", metric=FLOOR, a=ratio, b=ratio, ratio=ratio, verdict="inconclusive",
            drift_ratio=math.expm1(change), is_evidence=True,
        )  # fmt: skip
        return gated(case, None, 0.02)

    found = of(8)
    assert found.state == "unclear"
    assert (found.processes_needed is None) == (change > 0.02)
    if found.processes_needed is not None:
        assert of(found.processes_needed).state == "pass"
        assert of(found.processes_needed - 1).state == "unclear"


def test_strict_fails_where_the_evidence_is_unclear_and_only_there(
    baseline: Path, tmp_path: Path
) -> None:
    after = candidate(tmp_path, same(EAGER, 1.02e6), same(FAST, 5e5))
    alike = write_run(tmp_path / "alike", same(EAGER, 1e6), same(FAST, 5e5))
    assert judged(baseline, after, "--strict").exit_code == 1
    assert judged(baseline, alike, "--strict").exit_code == 0


def test_a_regression_is_graver_than_a_refusal(baseline: Path, tmp_path: Path) -> None:
    after = candidate(tmp_path, same(EAGER, 2e6), same(FAST, 5e5, threads=4))
    assert judged(baseline, after).exit_code == 1


@pytest.mark.parametrize(
    ("pair", "told"),
    [
        ((FAST, failed(FAST)), "failed in B (oom: no memory)"),
        ((FAST, None), "failed in B (never ran)"),
        (same(FAST, 5e5, parity=DISAGREES), "output 0 is off by 0.5"),
        (same(FAST, 5e5, environment={"packages": {"torch": "9"}}), "2.13.0 in A, 9 in B"),
    ],
)
def test_what_newly_goes_wrong_is_refused_by_name(
    baseline: Path, tmp_path: Path, pair: tuple[Trial, TrialResult | None], told: str
) -> None:
    reply = judged(baseline, candidate(tmp_path, same(EAGER, 1e6), pair))
    assert reply.exit_code == 3
    assert told in reply.text


def test_a_trial_that_is_missing_is_refused_by_name(baseline: Path, tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    after = candidate(tmp_path, same(EAGER, 1e6))
    reply = judged(baseline, after, "--output", str(summary))
    assert reply.exit_code == 3
    assert "missing: fast: B has no such trial." in reply.text
    assert "\n- missing: fast: " in summary.read_text()  # which infra/ci/gate.sh looks for
    assert data(reply)["missing"][0]["name"] == "fast"


def test_where_nothing_can_be_compared_the_next_command_shows_the_candidate(
    baseline: Path, tmp_path: Path
) -> None:
    after = candidate(tmp_path, same(trial("new"), 1e6))
    reply = judged(baseline, after)
    assert data(reply)["next"] == f"python -m benchorch report {after}"


def test_a_new_trial_is_reported_and_left_out(baseline: Path, tmp_path: Path) -> None:
    new = trial("new")
    after = candidate(tmp_path, same(EAGER, 1e6), same(FAST, 5e5), same(new, 1e9))
    reply = judged(baseline, after)
    assert reply.exit_code == 0
    assert "not judged: new: new: no baseline has it" in reply.text


def test_a_trial_that_failed_before_is_reported_and_left_out(tmp_path: Path) -> None:
    before = write_run(tmp_path / "before", (EAGER, result(EAGER)), (FAST, failed(FAST)))
    reply = judged(before, candidate(tmp_path, same(EAGER, 1e6), same(FAST, 5e5)))
    assert reply.exit_code == 0
    assert "not judged: fast: already so in the baseline: oom: no memory" in reply.text


def test_a_baseline_without_a_correct_trial_is_refused(tmp_path: Path) -> None:
    before = write_run(tmp_path / "before", (EAGER, failed(EAGER)))
    reply = judged(before, candidate(tmp_path, same(EAGER, 1e6)))
    assert reply.exit_code == 3
    assert "nothing to compare" in reply.text


def test_the_gain_of_baselines_alone_is_refused_with_the_reason(tmp_path: Path) -> None:
    before = write_run(tmp_path / "before", (EAGER, result(EAGER)))
    after = candidate(tmp_path, same(EAGER, 1e6))
    reply = judged(before, after, "--metric", "speedup_ratio/p50")
    assert reply.exit_code == 3
    assert "a baseline has no gain over itself, so there is nothing to compare" in reply.text


@pytest.mark.parametrize(("call_ns", "code"), [(1e6, 0), (1.1e6, 1), (0.9e6, 0)])
def test_of_throughput_less_is_worse(
    baseline: Path, tmp_path: Path, call_ns: float, code: int
) -> None:
    after = candidate(tmp_path, same(EAGER, call_ns), same(FAST, 5e5))
    reply = judged(baseline, after, "--metric", "throughput_items_per_s/mean")
    assert reply.exit_code == code
    assert "≥ 0.980" in reply.text


def test_several_metrics_are_judged_together(baseline: Path, tmp_path: Path) -> None:
    after = candidate(tmp_path, same(EAGER, 1e6, rss=2 * 10**8), same(FAST, 5e5))
    words = ("--metric", "latency_ms/p50,peak_rss_bytes/max")
    cases = data(judged(baseline, after, *words))["cases"]
    assert [one["state"] for one in cases] == ["pass", "regression", "pass", "pass"]


def test_a_named_factor_may_differ(baseline: Path, tmp_path: Path) -> None:
    there = {"environment": {"host": "runner-77"}}
    after = candidate(tmp_path, same(EAGER, 1e6, **there), same(FAST, 5e5, **there))
    assert judged(baseline, after).exit_code == 3
    assert judged(baseline, after, "--across", "host").exit_code == 0


def test_an_exported_baseline_judges_as_the_run_itself(baseline: Path, tmp_path: Path) -> None:
    kept = tmp_path / "baseline.json"
    report.run.reply([str(baseline), "--json", "--output", str(kept)])
    after = candidate(tmp_path, same(EAGER, 1.05e6), same(FAST, 5e5))
    one, other = data(judged(baseline, after)), data(judged(kept, after))
    assert one["cases"] == other["cases"]
    assert one["exit_code"] == 1


def test_the_newest_run_is_the_candidate(baseline: Path, tmp_path: Path) -> None:
    older = write_run(tmp_path / "older", same(EAGER, 1e6), same(FAST, 5e5))
    newest = write_run(tmp_path / "newest", same(EAGER, 3e6), same(FAST, 5e5))
    for run in (baseline, older, newest):
        remember(run.name, run)
    reply = gate.run.reply(["--baseline", str(baseline), "--max-regression", "2%"])
    assert reply.exit_code == 1
    assert data(reply)["candidate"] == str(newest)


def test_without_a_newer_run_there_is_no_candidate(baseline: Path, tmp_path: Path) -> None:
    older = write_run(tmp_path / "older", same(EAGER, 1e6))
    for known in ([], [older], [baseline]):
        for run in known:
            remember(run.name, run)
    with pytest.raises(ConfigError, match="no run on this machine that is newer"):
        gate.run.reply(["--baseline", str(baseline), "--max-regression", "2%"])


@pytest.mark.parametrize("share", ["2", "two", "-1%", "nan", "inf%", "2%%", "", "1.0"])
def test_a_limit_that_is_no_share_is_refused(share: str, baseline: Path) -> None:
    with pytest.raises(ConfigError, match=r"write 2% or 0\.02"):
        gate.run.reply(["--baseline", str(baseline), f"--max-regression={share}"])


@pytest.mark.parametrize("share", ["2%", "0.02", " 2 % ", "2.0%"])
def test_a_share_is_written_either_way(share: str, baseline: Path, tmp_path: Path) -> None:
    after = candidate(tmp_path, same(EAGER, 1e6), same(FAST, 5e5))
    words = ["--baseline", str(baseline), "--candidate", str(after)]
    reply = gate.run.reply([*words, f"--max-regression={share}"])
    assert data(reply)["max_regression_ratio"] == 0.02


@pytest.mark.parametrize(
    ("metric", "told"),
    [("latency_ms/p5", "Did you mean 'latency_ms/p"), ("macs/total", "neither more nor less")],
)
def test_a_metric_that_cannot_become_worse_is_refused(
    baseline: Path, metric: str, told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        judged(baseline, baseline, "--metric", metric)


def test_the_markdown_summary_starts_with_the_verdict(baseline: Path, tmp_path: Path) -> None:
    named = trial("a|b <i>", baseline=None)
    before = write_run(tmp_path / "b", (EAGER, result(EAGER)), (named, result(named, 5e5)))
    after = candidate(tmp_path, same(EAGER, 2e6), same(named, 5e5))
    path = tmp_path / "summary.md"
    judged(before, after, "--markdown", str(path))
    text = path.read_text()
    assert text.startswith(
        "## benchorch gate: REGRESSION: worse than its baseline by more than 2 %"
    )
    assert "2 cases: 1 pass, 1 regression." in text
    assert "**REGRESSION**" in text
    assert "a\\|b &lt;i>" in text
    assert text.count("<details>") == text.count("</details>") == 1
    assert "Some CPU, 2 cores, 2 threads" in text
    assert "python -m benchorch compare" in text
    assert text.isascii() or not set(text) - set("≤≥–→") - {chr(c) for c in range(128)}
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert {line.replace("\\|", "").count("|") for line in rows} == {8}


def test_a_first_session_passes_where_that_is_allowed(baseline: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    summary = tmp_path / "summary.md"
    reply = judged(tmp_path / "empty", baseline, "--allow-first", "--output", str(summary))
    found = data(reply)
    assert (found["state"], found["exit_code"], reply.exit_code) == ("first", 0, 0)
    after = candidate(tmp_path, same(EAGER, 1e6), same(FAST, 5e5))
    assert set(found) == set(data(judged(baseline, after)))
    assert "this session is the first one" in reply.text
    assert summary.read_text().startswith("## benchorch gate: first")
    assert str(tmp_path / "empty") in summary.read_text()


@pytest.mark.parametrize("beside", [False, True])
def test_a_history_that_cannot_be_read_is_no_first_session(
    beside: bool, baseline: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    report.run.reply([str(baseline), "--json", "--output", str(folder / "one.json")])
    content = (folder / "one.json").read_text()
    (folder / "one.json").write_text(content[: len(content) // 2])
    after = write_run((folder if beside else tmp_path) / "after", same(EAGER, 1e6))
    with pytest.raises(ConfigError, match=r"one\.json"):
        judged(folder, after, "--allow-first")


@pytest.mark.parametrize("name", ["folder", "one.json"])
def test_a_history_that_may_not_be_read_is_no_first_session(
    name: str, baseline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "kept" / "folder" / "one.json"
    kept.parent.mkdir(parents=True)
    report.run.reply([str(baseline), "--json", "--output", str(kept)])
    after = candidate(tmp_path, same(EAGER, 1e6))
    refuse(name, monkeypatch)
    with pytest.raises(ConfigError, match=f"{name} cannot be read: Permission denied"):
        judged(tmp_path / "kept", after, "--allow-first")


def test_a_folder_of_the_volume_or_of_a_trial_that_may_not_be_read_is_no_lost_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kept" / "lost+found").mkdir(parents=True)
    after = candidate(tmp_path, same(EAGER, 1e6))
    refuse("lost+found", monkeypatch)
    assert data(judged(tmp_path / "kept", after, "--allow-first"))["state"] == "first"
    before = write_run(tmp_path / "kept" / "before", same(EAGER, 1e6))
    (before / "trials" / EAGER.trial_id / "profile").mkdir(parents=True)
    refuse("profile", monkeypatch)
    told: list[str] = []
    assert len(collect([str(tmp_path / "kept")], told.append)) == 1
    assert told == []


def refuse(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody may read what is called so; root may read everything."""

    def refusing(call: Callable[..., Any]) -> Callable[..., Any]:
        def refused(path: Any, *words: Any, **more: Any) -> Any:
            if Path(path).name == name:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return call(path, *words, **more)

        return refused

    monkeypatch.setattr(os, "scandir", refusing(os.scandir))
    monkeypatch.setattr(os, "open", refusing(os.open))


@pytest.mark.parametrize("content", [None, b"", b'{"trial_id'])
def test_a_run_that_has_no_result_yet_is_no_earlier_session(
    content: bytes | None, baseline: Path, tmp_path: Path
) -> None:
    begun = write_run(tmp_path / "kept" / "begun", same(EAGER, 1e6))
    (begun / "results.jsonl").unlink()
    if content is not None:
        (begun / "results.jsonl").write_bytes(content)
    assert data(judged(tmp_path / "kept", baseline, "--allow-first"))["state"] == "first"


def test_a_mistyped_baseline_is_no_first_session(baseline: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="neither a run nor a folder") as refused:
        judged(tmp_path / "typo", baseline, "--allow-first")
    assert refused.value.next == f"mkdir -p {tmp_path / 'typo'}"


def test_a_first_session_is_refused_with_the_command_that_allows_it(
    baseline: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    for limit in ("2%", "150%"):
        with pytest.raises(ConfigError, match="no run below it has a result") as refused:
            judged(tmp_path / "empty", baseline, "--max-regression", limit)
        words = shlex.split(refused.value.next)
        assert words[:2] == ["benchorch", "gate"]
        assert gate.run.reply(words[2:]).data["max_regression_ratio"] == float(limit[:-1]) / 100
    with pytest.raises(ConfigError, match="is neither a run's directory"):
        judged(tmp_path / "absent", baseline)


def test_a_baseline_that_exists_is_compared_with_although_a_first_session_may_pass(
    baseline: Path, tmp_path: Path
) -> None:
    slower = candidate(tmp_path, same(EAGER, 1.5e6), same(FAST, 5e5))
    assert judged(baseline, slower, "--allow-first").exit_code == 1


@pytest.mark.parametrize("exported", [False, True])
def test_a_run_is_not_its_own_baseline(exported: bool, baseline: Path, tmp_path: Path) -> None:
    kept = tmp_path / "baseline.json" if exported else baseline
    if exported:
        report.run.reply([str(baseline), "--json", "--output", str(kept)])
    with pytest.raises(ConfigError, match=r"^The candidate is the baseline itself") as refused:
        judged(kept, baseline)
    (problem,) = refused.value.problems
    assert "plan-before" in problem
    assert problem.count(".") == 1  # one sentence


def test_two_conversions_of_one_run_may_be_gated(baseline: Path) -> None:
    words = ["--baseline", f"{baseline}::eager", "--candidate", f"{baseline}::fast"]
    assert gate.run.reply([*words, "--max-regression", "2%"]).exit_code == 0


@pytest.mark.parametrize(
    ("own", "meant"),
    [
        ("second", "--baseline plan-first --candidate second"),
        ("first", "--baseline first --candidate plan-second"),
        ("third", "--baseline plan-second --candidate third"),
        ("last", "--baseline plan-second --candidate last"),
    ],
)
def test_a_run_that_is_its_own_baseline_is_answered_with_the_run_next_to_it(
    own: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("first", "second", "third"):
        remember(f"plan-{name}", write_run(tmp_path / name, same(EAGER, 1e6)))
    words = ["gate", "--baseline", own, "--candidate", own, "--max-regression", "7%", "--strict"]
    with unchanged_loggers():
        with pytest.raises(ConfigError, match="the baseline itself") as refused:
            main.run(words)
        line = corrections.next_line(words, refused.value)
        assert line == f"benchorch gate {meant} --max-regression 7% --strict"
        assert main.run(shlex.split(line)[1:]) in (0, 1)


def test_a_session_that_counts_already_is_refused(
    baseline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    after = candidate(tmp_path, same(EAGER, 1e6), same(FAST, 5e5))
    other = write_run(tmp_path / "other", same(EAGER, 1e6), same(FAST, 5e5))
    sides = ["gate", "--baseline", "before", "--candidate", "after", "--max-regression", "2%"]
    for twice in (baseline, after, other):
        words = [*sides, "--session", "other", "--session", twice.name]
        with pytest.raises(ConfigError, match="counts already") as refused:
            gate.run.reply(words[1:])
        line = corrections.next_line(words, refused.value)
        assert line == shlex.join(["benchorch", *sides, "--session", "other"])


@pytest.mark.parametrize("width", [60, 80])
def test_a_narrow_terminal_shows_every_verdict(
    width: int, baseline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    after = candidate(tmp_path, same(EAGER, 1.05e6), same(FAST, 5e5))
    rows = judged(baseline, after).text.splitlines()
    (header,) = (row for row in rows if row.lstrip().startswith("trial"))
    assert header.endswith("verdict")
    cells = [row for row in rows if row.lstrip().startswith(("eager   ", "fast   "))]
    assert {"REGRESSION", "pass"} <= {row.split()[-1] for row in cells}


def test_the_same_runs_give_the_same_text(baseline: Path, tmp_path: Path) -> None:
    after = candidate(tmp_path, same(EAGER, 1.05e6), same(FAST, 5e5))
    one, other = judged(baseline, after), judged(baseline, after)
    assert one == other


def test_identical_code_rarely_fails_the_gate(tmp_path: Path) -> None:
    """60 gates over 5 trials each, processes 3 % apart, at no allowance at all.

    A failure in one of 20 would be 3 with a standard error of 1.7: 8 is three of them above it.
    """
    rng = np.random.default_rng(3)
    names = [f"c{i}" for i in range(5)]
    before, after = (
        load(str(write_run(tmp_path / side, *((trial(n), result(trial(n))) for n in names))))
        for side in ("a", "b")
    )

    def redrawn(run: StoredRun) -> list[StoredTrial]:
        values = ({LATENCY: tuple(rng.lognormal(0, 0.03, 8))} for _ in run.trials)
        return [
            replace(one, evidence=replace(one.evidence, values=drawn))
            for one, drawn in zip(run.trials, values, strict=True)
        ]

    states = [judge_all(redrawn(before), redrawn(after), limit_ratio=0.0).state for _ in range(60)]
    assert states.count("regression") <= 8
    assert set(states) <= {"pass", "unclear", "regression"}


def test_the_gain_is_judged_where_there_is_one(tmp_path: Path) -> None:
    met = trial("met", baseline=EAGER)

    def run(name: str, gain: float, seed: int) -> Path:
        own = result(met, 1e6 / gain, seed=seed, baseline_ns=1e6, canaries_ns=None, grade="C")
        eager = result(EAGER, seed=seed, canaries_ns=None)
        return write_run(tmp_path / name, (EAGER, eager), (met, own))

    before, same, worse = run("before", 2.0, 0), run("same", 2.0, 1), run("worse", 1.8, 2)
    words = ("--metric", "speedup_ratio/p50")
    assert [one["judged"]["name"] for one in data(judged(before, same, *words))["cases"]] == ["met"]
    assert judged(before, same, *words).exit_code == 0
    assert judged(before, worse, *words).exit_code == 1


@pytest.mark.parametrize(("host", "remarks"), [("node-1", 1), ("node-2", 0)])
def test_a_limit_below_what_the_machine_can_tell_is_said(
    host: str, remarks: int, baseline: Path, tmp_path: Path
) -> None:
    certificates.keep(machine(process_sd=0.05, host=host, cpu_model="Some CPU"))
    after = candidate(tmp_path, same(EAGER, 1e6), same(FAST, 5e5))
    reply = judged(baseline, after)
    said = reply.text.count("below what medians of two sessions can tell on this machine")
    assert said == remarks == len(data(reply)["machine"])
