"""The line that the project exists for, typed on a laptop without credentials, stack or cluster.

What is printed is a file of ``tests/data/golden``, with the trials' ids left out; to accept another
text, write it there and read it line by line as a new user would.
"""

import json
import platform
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
GOLDEN = CHECKOUT / "tests" / "data" / "golden"
NOT_A_LAPTOP = ("AWS_", "RAY_", "BENCHORCH_")
THREE = ("-m", "model=bert", "hardware=local,g5,c8g")

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the texts tell what an x86_64 laptop can simulate"
)


@pytest.fixture
def laptop(place):
    @dataclass(frozen=True)
    class Laptop(type(place)):
        """Without credentials, cluster and GPU."""

        @property
        def environment(self):
            mine = super().environment
            return {
                **{k: v for k, v in mine.items() if not k.startswith(NOT_A_LAPTOP)},
                "AWS_EC2_METADATA_DISABLED": "true",
                "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
                "AWS_CONFIG_FILE": "/dev/null",
                "BENCHORCH_CACHE_DIR": mine["BENCHORCH_CACHE_DIR"],
                "BENCHORCH_HARDWARE_KIND": "laptop",
                "CUDA_VISIBLE_DEVICES": "",
            }

    return Laptop(**vars(place))


def printed(done):
    said = (done.stdout + done.stderr).replace(str(CHECKOUT), "CHECKOUT")
    return re.sub(r"\b[0-9a-f]{16}\b", "0" * 16, said)


@pytest.mark.parametrize(
    ("name", "words", "code"),
    [
        ("line", ("model=bert", "hardware=g5"), 2),
        ("plan", ("plan", "model=bert", "hardware=g5"), 0),
        ("three-types", THREE, 2),
        ("cheapest", ("plan", "--cheapest", *THREE), 0),
        ("region", ("plan", "--cheapest", *THREE, "pricing.region=eu-central-1"), 0),
    ],
)
def test_what_is_printed_on_a_laptop(laptop, name, words, code):
    before = sorted(path.name for path in laptop.path.iterdir())
    said = printed(laptop.run(*words, code=code))
    assert said == (GOLDEN / f"laptop-{name}.txt").read_text()
    assert "conversion   p50" not in said  # no table without a measurement
    assert sorted(path.name for path in laptop.path.iterdir()) == before


def test_a_plan_for_programs_prices_what_is_not_here(laptop):
    words = ("plan", "--json", "model=bert", "hardware=[local,g5,c8g]")
    plan = json.loads(laptop.run(*words).stdout)
    assert plan["how"] == "none"
    by_kind = {trial["labels"]["hardware_kind"]: trial for trial in plan["trials"]}
    assert {kind: trial["how"] for kind, trial in by_kind.items()} == {
        "local": "local",
        "g5.xlarge": "none",
        "c8g.xlarge": "none",
    }
    assert by_kind["local"]["cost_usd"] is None
    assert by_kind["g5.xlarge"]["cost_usd"] > 0
    assert by_kind["g5.xlarge"]["minutes"] == pytest.approx(by_kind["g5.xlarge"]["expected_s"] / 60)
    machines = {machine["kind"]: machine["cost_usd"] for machine in plan["machines"]}
    assert set(machines) == {"g5.xlarge", "c8g.xlarge", "head"}
    assert plan["cost_usd"] == pytest.approx(sum(machines.values()))
    assert any("priced by the list of" in note for note in plan["notes"])
    assert any(note.startswith("cost_usd of a trial") for note in plan["notes"])
    assert set(plan["unreachable"]) == {"g5.xlarge", "c8g.xlarge"}


def test_the_line_for_programs_has_the_plan_and_the_ways_on(laptop):
    error = json.loads(laptop.run("--json", "model=bert", "hardware=g5", code=2).stdout)
    assert (error["code"], error["next"]) == ("no_machine", "")
    assert {one["labels"]["hardware_kind"] for one in error["plan"]["trials"]} == {"g5.xlarge"}
    assert error["plan"]["cost_usd"] > 0
    commands = [way["command"] for way in error["plan"]["ways"]]
    assert (commands[0], commands[2]) == ("aws configure", "executor.address=HOST:6379")
    assert re.match(r"make .*provision ARGS='--var fleet={\"g5.xlarge\"=1}'", commands[1])


def test_a_gpu_that_this_machine_lacks_is_a_note_of_a_plan_and_refused_by_a_run(laptop):
    words = ("model=mlp", "hardware=local_gpu", "conversion=eager")
    assert "note  hardware=local_gpu: a CUDA device is needed" in laptop.run("plan", *words).stdout
    said = laptop.run(*words, code=2)
    assert "hardware=local_gpu: a CUDA device is needed" in said.stderr
    assert "Try: benchorch model=mlp hardware=local conversion=eager" in said.stderr
    assert not [*laptop.path.glob("runs/*")]


def test_a_plan_for_programs_sums_nothing_up_where_a_price_is_unknown(laptop):
    plan = json.loads(laptop.run("plan", "--json", "model=bert", "hardware=[g5,p5e]").stdout)
    costs = {machine["kind"]: machine["cost_usd"] for machine in plan["machines"]}
    assert costs["g5.xlarge"] > 0
    assert costs["p5e.48xlarge"] is None
    assert plan["cost_usd"] is None


@pytest.mark.parametrize(
    "words", [("executor=ec2",), ("executor=ray", "executor.address=auto"), ("executor=process",)]
)
def test_a_plan_needs_no_executor_store_or_token(laptop, words):
    said = laptop.run("plan", "model=bert", "hardware=g5", *words).stdout
    assert "2 trials, 0 skips" in said
    assert " USD" in said


def test_what_can_run_here_runs_where_the_rest_may_be_skipped(laptop):
    words = ("model=mlp", "hardware=[local,g5]", "conversion=eager", "recorder=none")
    fast = ("stopping=fixed", "stopping.processes=1", "stopping.calls=5", "profiler=none")
    fast += (
        "stopping.window_s=0.05",
        "protocol.pairing=none",
        "protocol.canary_tolerance_ratio=null",
        "executor.isolated=false",
    )
    assert laptop.run(*words, *fast, code=2).stdout
    said = laptop.run(*words, *fast, "--allow-skips").stdout
    assert "skip mlp / eager / g5" in said
    assert len(list(laptop.path.glob("runs/*/*/results.jsonl"))) == 1
