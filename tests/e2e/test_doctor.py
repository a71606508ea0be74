"""The doctor as a user meets it: on this machine, through the command line."""

import json

import pytest

pytestmark = pytest.mark.slow  # a whole examination; tests/unit/commands has its parts


@pytest.fixture(scope="module")
def examined(tmp_path_factory, make_place):
    """One quick examination: what it answered to a program, and what it said meanwhile."""
    place = make_place(tmp_path_factory.mktemp("doctor"))
    done = place.run("doctor", "--quick", "--json")
    return place, json.loads(done.stdout), done.stderr


def test_every_part_is_examined_and_has_its_interval(examined):
    _, data, _ = examined
    assert data["missing"] == {}
    assert data["grade"] in ("A", "B", "C")
    for ratio in (data["bare_loop_ratio"], data["self_overhead"], data["a_a"]["same"]["ratio"]):
        assert ratio["low"] <= ratio["value"] <= ratio["high"]
    assert 0.8 < data["bare_loop_ratio"]["value"] < 1.25
    assert 0 < data["self_overhead"]["timed_call_ratio"] < 0.01
    assert isinstance(data["reasons"], list)
    assert isinstance(data["advice"], list)


def test_what_is_being_done_is_said_apart_from_the_answer(examined):
    _, _, said = examined
    assert [line.split(":")[0].strip() for line in said.splitlines()] == [
        *("machine", "conversions", "timing", "comparisons", "overhead"),
    ]


def test_it_leaves_nothing_behind(examined):
    place, _, _ = examined
    assert {path.name for path in place.path.iterdir()} <= {".git", "my_zoo.py", "state"}


def test_it_is_listed_where_help_is_looked_for(place):
    assert "doctor  " in place.run("--help").stdout
    assert "improve" in place.run("doctor", "--help").stdout
    assert "no option --now" in place.run("doctor", "--now", code=2).stderr
