"""Coverage and gains over the scripts of a corpus, by folder and conversion."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchorch.domain.estimate import Comparison, Estimate, Summary
from benchorch.domain.trial import Skip
from benchorch.frontends.scripts.corpus_report import Gain, ScriptCoverage, corpus_report
from benchorch.results.compare.stored_run import StoredRun, StoredTrial
from support.synthetic_runs import AGREES, OOM, brief, trial


def found(script: str, *calls: dict[str, Any]) -> dict[str, Any]:
    return {"script": script, "models": [{"invocations": list(calls)}] if calls else []}


def measured(
    script: str, conversion: str, ratio: float | None = None, verdict: str = "", **fields: Any
) -> StoredTrial:
    labels = {"model": f"{script}:net", "script": script}
    stored = brief(trial(conversion, labels=labels), **fields)
    if ratio is None:
        return stored
    estimate = Estimate(
        value=ratio, low=None, high=None, level_ratio=0.95, n=1, unit="ratio", method="test"
    )
    verdict = verdict or ("faster" if ratio > 1 else "slower")
    comparison = Comparison(ratio=estimate, verdict=verdict)
    return replace(stored, summary=Summary(metrics={}, speedup=comparison, steady=True))


EXPORTED: dict[str, Any] = {"model": {"program": "x", "digest": "y"}}
FOUNDS = [
    found("/c/a/one.py", EXPORTED, {"model": {}, "not_captured": "it branches"}),
    found("/c/a/two.py"),
    found("/c/b/three.py", EXPORTED, {"obstacle": "it takes no tensors"}),
]
PLACES = {f"/c/{name}": name for name in ("a/one.py", "a/two.py", "b/three.py")}
RUN = StoredRun(
    reference="r",
    plan_id="p",
    name="n",
    trials=(
        measured("a/one.py", "onnxruntime", 4.0),
        measured("a/one.py", "onnxruntime", 9.0, parity=replace(AGREES, passed=False)),
        measured("b/three.py", "onnxruntime", 0.25),
        measured("b/three.py", "inductor", outcome="failed", failure=OOM),
    ),
)
REPORT = corpus_report(PLACES, FOUNDS, RUN)


def test_each_folder_has_its_coverage_after_that_of_all() -> None:
    names = ("scripts", "with_models", "calls", "benchmarkable", "exported")
    assert REPORT.coverage == tuple(
        ScriptCoverage(folder=folder, **dict(zip(names, counts, strict=True)))
        for folder, *counts in (("all", 3, 2, 4, 3, 2), ("a", 2, 1, 2, 2, 1), ("b", 1, 1, 2, 1, 1))
    )


def test_gains_are_of_models_that_stayed_the_same() -> None:
    whole, failed = REPORT.gains[:2]
    assert whole == Gain(
        folder="all",
        conversion="onnxruntime",
        trials=3,
        ran=3,
        same_model=2,
        faster=1,
        speedup_ratio=1.0,  # of 4 and 1/4: the geometric mean
    )
    assert (failed.conversion, failed.ran, failed.speedup_ratio) == ("inductor", 0, None)
    ratios = {(gain.folder, gain.conversion): gain.speedup_ratio for gain in REPORT.gains}
    assert ratios["a", "onnxruntime"] == 4.0
    assert ratios["b", "onnxruntime"] == 0.25


def with_ratio(**fields: Any) -> Gain:
    """The gain with one more model of an undecided comparison."""
    more = measured("a/two.py", "onnxruntime", 8.0, "inconclusive")
    assert more.summary is not None
    assert more.summary.speedup is not None
    ratio = replace(more.summary.speedup.ratio, **fields)
    speedup = replace(more.summary.speedup, ratio=ratio)
    more = replace(more, summary=replace(more.summary, speedup=speedup))
    return corpus_report(PLACES, FOUNDS, replace(RUN, trials=(*RUN.trials, more))).gains[0]


def test_a_gain_counts_ratios_of_single_processes_and_none_that_is_not_known() -> None:
    """``stopping=quick`` has no others, and over many models their mean says enough."""
    assert with_ratio(n=1).speedup_ratio == pytest.approx(2.0)
    unknown = with_ratio(n=5, low=0.01, high=900.0)
    assert (unknown.same_model, unknown.speedup_ratio) == (3, 1.0)


def test_none_is_said_to_be_faster_or_not_where_no_process_was_repeated() -> None:
    single = replace(RUN, trials=(measured("a/one.py", "onnxruntime", 8.0, "inconclusive"),))
    report = corpus_report(PLACES, FOUNDS, single)
    assert (report.gains[0].faster, report.tables()[1][1][-2:]) == (None, ("–", "8x"))
    assert with_ratio(n=5, low=0.5, high=9.0).faster == 1


def test_what_has_no_result_is_named_with_its_reason() -> None:
    ended = {**FOUNDS[1], "problem": {"message": "it raised <ValueError>"}}
    report = corpus_report(PLACES, [FOUNDS[0], ended, FOUNDS[2]], RUN)
    script, wrong, failed = report.losses
    assert (script.what, script.reason) == ("a/two.py", "it raised <ValueError>")
    assert (wrong.what, wrong.conversion) == ("a/one.py:net", "onnxruntime")
    assert failed.conversion == "inductor"
    assert "it raised &lt;ValueError&gt;" in report.html()
    assert "no result" not in corpus_report(PLACES, FOUNDS, replace(RUN, trials=())).html()


def test_a_model_that_was_not_planned_is_named_with_its_reason() -> None:
    labels = {"model": "b/three.py:net", "conversion": "eager"}
    skip = Skip(labels=labels, reason="model.program: it is gone.")
    loss, *_ = corpus_report(PLACES, FOUNDS, replace(RUN, skips=(skip,))).losses
    assert (loss.what, loss.reason) == ("b/three.py:net", "model.program: it is gone.")


def test_scripts_of_one_folder_have_no_second_row() -> None:
    report = corpus_report({"/c/a/one.py": "one.py"}, FOUNDS[:1], RUN)
    assert [row.folder for row in report.coverage] == ["all"]


def test_the_report_is_written_as_a_page_a_table_and_for_programs(tmp_path: Path) -> None:
    page = REPORT.write(tmp_path)
    assert "<th>exported</th>" in page.read_text()
    assert json.loads((tmp_path / "corpus.json").read_text())["coverage"][0]["scripts"] == 3
    rows = list(csv.DictReader((tmp_path / "corpus.csv").open()))
    assert (rows[0]["folder"], rows[0]["exported"], rows[0]["speedup_ratio"]) == ("all", "2", "1.0")
    assert "onnxruntime" in REPORT.text()
