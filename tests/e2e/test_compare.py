"""Stored runs as a user meets them again: reported, exported, compared and gated."""

import json
import subprocess
import sys

import pytest

SHORT = ("stopping=fixed", "stopping.processes=2", "stopping.calls=5", "stopping.window_s=0.05")
SHORT += ("profiler=none",)
PLAIN = ("recorder=none", "protocol.split_passes=0", "protocol.pair_window_s=0.1")
PLAIN += ("executor=inline",)


@pytest.fixture(scope="module")
def place(tmp_path_factory, make_place):
    """Two runs: before with two conversions, after with one of them."""
    made = make_place(tmp_path_factory.mktemp("compare"))
    both = "conversion=[eager,bf16]"
    made.run("model=mlp", both, *SHORT, *PLAIN, "hydra.run.dir=before")
    made.run("model=mlp", "conversion=eager", *SHORT, *PLAIN, "hydra.run.dir=after")
    made.run("report", "before", "--json", "--output", "before.json")
    return made


CANNOT_TELL = 4  # two pairs decide nothing
DECIDED_OR_NOT = (0, CANNOT_TELL)  # two processes a side may


def answer(place, *words, code=0):
    return json.loads(place.run(*words, "--json", code=code).stdout)


def test_o7_published_numbers_follow_again_from_what_is_on_disk(place):
    again = {one["trial_id"]: one for one in answer(place, "report", "before")["trials"]}
    for line in place.results("before"):
        found = again[line["trial_id"]]["metrics"]
        values = {name: estimate["value"] for name, estimate in found.items()}
        published = {name: line["metrics"][name] for name in values}
        assert published == values
        assert len(values) > 10
    place.run("report", "before", "--output", "again.md")
    assert (place.path / "again.md").read_text() == (place.path / "before/table.md").read_text()


def test_a_report_repeats_the_table_of_the_run(place):
    plan = json.loads((place.path / "before/plan.json").read_text())["plan_id"]
    said = place.run("report", plan).stdout
    assert "bf16" in said
    assert "vs eager" in said
    kept = place.run("report", "before.json").stdout
    assert kept.replace(f"<directory of {plan}>", "before") == place.run("report", "before").stdout


def test_two_conversions_of_a_run_are_compared_by_their_pairs(place):
    sides = "before::eager", "before::bf16"
    found = answer(place, "compare", *sides, code=CANNOT_TELL)["comparisons"]
    back = answer(place, "compare", *reversed(sides), code=CANNOT_TELL)["comparisons"]
    assert [one["metric"] for one in found] == ["latency_ms/p50"]
    assert found[0]["design"] in ("alternated", "adjacent")
    assert found[0]["ratio"]["n"] == 2
    assert found[0]["ratio"]["value"] * back[0]["ratio"]["value"] == pytest.approx(1)


def test_two_sessions_are_compared_with_what_the_machine_drifted(place):
    found = answer(place, "compare", "before.json", "after", code=DECIDED_OR_NOT)
    (one,) = found["comparisons"]
    assert one["design"] == "sequential"
    assert one["drift_ratio"] > 0
    assert [each["side"] for each in found["alone"]] == ["A"]


def test_a_gate_refuses_a_missing_trial_and_names_it_in_markdown(place):
    words = ("gate", "--baseline", "before.json", "--candidate", "after", "--max-regression", "2%")
    found = answer(place, *words, "--markdown", "summary.md", code=3)
    assert (found["state"], found["exit_code"]) == ("refused", 3)
    assert [one["name"] for one in found["missing"]] == ["bf16"]
    text = (place.path / "summary.md").read_text()
    assert text.startswith("## benchorch gate: REFUSED")
    assert "missing: bf16" in text


def test_a_gate_rejects_a_run_that_is_its_own_baseline(place):
    words = ("gate", "--baseline", "before", "--candidate", "before.json", "--max-regression=0%")
    (problem,) = answer(place, *words, code=2)["problems"]
    assert problem.startswith("The candidate is the baseline itself")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("compare", "before", "nowhere"), "neither a run's directory"),
        (("compare", "before::egaer", "after"), "Did you mean 'eager'?"),
        (("compare", "before", "after", "--metric=latncy_ms/p50"), "Did you mean 'latency_ms/p50'"),
        (("compare", "before", "after", "--across=hardwear"), "Did you mean 'hardware'?"),
        (("compare", "before::bf16", "after::eager"), ""),
        (("compare", "before", "before/plan.json"), "is not an exported run"),
        (("gate", "--baseline=before", "--max-regression=2"), "write 2% or 0.02"),
        (("gate", "--baseline=before", "--max-regression=1%", "--metric=macs/total"), "neither"),
        (("report", "/proc"), "neither a run's directory"),
        (("report",), "RUN"),
    ],
)
def test_wrong_arguments_have_a_message(place, words, told):
    if told:
        assert told in place.run(*words, code=2).stderr
    else:  # conversions that were picked are the factor
        assert (
            answer(place, *words, code=DECIDED_OR_NOT)["comparisons"][0]["name"] == "bf16 → eager"
        )


PROBE = """
import contextlib, io, json, sys
from benchorch.cli.main import run
def absent(*packages): return not {*packages} & {*sys.modules}
with contextlib.redirect_stdout(io.StringIO()):
    for words in (["compare", "--help"], ["gate", "--help"]):
        with contextlib.suppress(SystemExit):
            run(words)
        assert absent("torch", "mlflow", "ray", "onnxruntime", "numpy", "scipy", "rich"), words
    run(["compare", "before", "after"])
    assert absent("torch", "mlflow", "ray", "onnxruntime")
"""


def test_reading_a_run_imports_no_heavy_package(place):
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        cwd=place.path,
        env=place.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
