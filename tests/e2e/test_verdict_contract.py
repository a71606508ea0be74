"""What a run concludes, with all that is missing, is one sentence wherever it is read."""

import html
import json

import pytest

FAST = (
    *("stopping=fixed", "stopping.processes=2", "stopping.calls=5", "stopping.window_s=0.05"),
    *("protocol.canary_tolerance_ratio=null", "protocol.pair_window_s=0.05", "control=false"),
    *("profiler=none", "hydra.run.dir=out"),
)
MODEL = (
    *("model=factory", "model.factory=my_zoo:unexportable", "name=picky"),
    "model.inputs={x: {shape: [batch_size, 4], generator: normal}}",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory, make_place):
    """A run of four requested conversions: one undecided, one that fails, one that cannot run."""
    place = make_place(tmp_path_factory.mktemp("contract"))
    conversions = "conversion=[eager,bf16,export,tensorrt]"
    # In one process, whose failures show tracebacks.
    words = ("run", *MODEL, conversions, *FAST, "executor=inline")
    done = place.commands.run(place.path, words, 120, environment=place.environment)
    assert done.code == 1, done.output
    return place, done


@pytest.fixture(scope="module")
def told(run):
    """What programs are given."""
    place, _ = run
    (found,) = json.loads(place.run("report", "out", "--json").stdout)["conclusions"]
    return found


def test_programs_get_what_is_missing_with_its_reason_and_what_is_undecided(told):
    assert (told["requested"], told["ranked"]) == (4, 2)
    assert told["missing"]["export"].startswith("failed (")
    assert told["missing"]["tensorrt"].startswith("skipped (")
    assert told["undecided"] == ["bf16"]
    assert "; undecided against the baseline: bf16" in told["sentence"]


def test_terminal_table_and_page_say_the_same(run, told):
    place, done = run
    sentence = told["sentence"]
    assert sentence in done.stdout
    assert "1 requested cell could not run, so the exit code is 1; --allow-skips" in done.stdout
    assert sentence in place.run("report", "out").stdout
    assert sentence in (place.path / "out" / "table.md").read_text()
    page = html.unescape((place.path / "out" / "report.html").read_text())
    assert f"<h1>{sentence}</h1>" in page


def test_mlflow_says_the_same(run, told):
    place, _ = run
    from mlflow.tracking import MlflowClient  # noqa: TID251 - looks at what was recorded

    client = MlflowClient(f"sqlite:///{place.path}/mlflow.db")
    run_id = json.loads((place.path / "out" / "tracking.json").read_text())["parent_run_id"]
    assert told["sentence"] in client.get_run(run_id).data.tags["mlflow.note.content"]


def test_a_run_for_programs_has_the_same_exit_code_inside_and_outside(run):
    place, _ = run
    quick = [*FAST[:-1], "executor=inline", "recorder=none"]
    words = ["run", *MODEL, "conversion=[eager,tensorrt]", *quick, "--json"]
    assert json.loads(place.run(*words, code=1).stdout)["exit_code"] == 1
    allowed = place.run(*words, "--allow-skips")
    assert json.loads(allowed.stdout)["exit_code"] == 0
