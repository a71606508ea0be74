from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchorch.errors import TraceError
from benchorch.trace.dag import Class
from benchorch.trace.whatif.amdahl4ml import NodeSpeedups
from benchorch.trace.whatif.basis import Selector
from benchorch.trace.whatif.reading import CHANGES, parse, read
from benchorch.trace.whatif.transforms import Change

YAML = """
name: faster attention
changes:
  - {module: "layers.*.attention", class: [gpu_compute], speedup: 2}
  - {op: aten::copy_, self: true, remove: true}
  - host: .inf
  - residual: {scale: 0.5}
"""


def test_a_file_is_read_in_its_order(tmp_path: Path) -> None:
    path = tmp_path / "question.yaml"
    path.write_text(YAML)
    asked = read(path)
    attention = Selector(module="layers.*.attention", classes=(Class.GPU_COMPUTE,))
    assert asked.name == "faster attention"
    assert asked.changes == (
        Change(effect="speedup", select=attention, value=2.0),
        Change(effect="remove", select=Selector(op="aten::copy_", alone=True)),
        Change(effect="host", value=float("inf")),
        Change(effect="residual", value=0.5),
    )


def test_a_change_is_spelled_as_in_its_file() -> None:
    (change,) = parse({"changes": [{"op": "a", "class": ["lock", "sleep"], "speedup": 2}]}).changes
    assert str(change) == "speedup 2 of op a, classes lock|sleep"
    (change,) = parse({"changes": [{"host": 1.5}]}).changes
    assert str(change) == "host 1.5 of everything"


def test_a_file_without_a_name_has_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "faster.json"
    path.write_text('{"changes": [{"host": 2}]}')
    assert read(path).name == "faster"


def test_amdahl4mls_file_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "speedups.json"
    path.write_text(
        '{"speedups": [{"op_id": "2", "speedup": 2},'
        ' {"op_type": "add-normalization", "speedup": 4}, {"speedup": 3}]}'
    )
    assert read(path).changes == (NodeSpeedups(by_id={2: 2.0}, by_type={"add-normalization": 4.0}),)


@pytest.mark.parametrize("what", CHANGES)
def test_every_change_refuses_a_wrong_value(what: str) -> None:
    with pytest.raises(TraceError, match=what):
        parse({"changes": [{what: [1]}]})


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ([], "expected an object"),
        ({}, "there is no change in it"),
        ({"change": []}, "'change' is none of name, changes, speedups"),
        ({"changes": 3}, "expected a list, saw 3"),
        ({"changes": [3]}, "expected an object, saw 3"),
        ({"changes": [{"op": "a"}]}, "expected one of speedup, set_ns"),
        ({"changes": [{"op": "a", "speedup": 2, "remove": True}]}, "saw speedup and remove"),
        ({"changes": [{"op": "a", "speedupp": 2}]}, "Did you mean 'speedup'?"),
        ({"changes": [{"op": "a", "speedup": 0}]}, "speedup: Expected `float` >= 1e-06; saw 0"),
        ({"changes": [{"op": "a", "speedup": "fast"}]}, "saw 'fast'"),
        ({"changes": [{"op": "a", "speedup": True}]}, "saw True"),
        ({"changes": [{"op": "a", "set_ns": "inf"}]}, "Expected `float` <= "),
        ({"changes": [{"op": "a", "set_ns": -1}]}, ">= 0.0; saw -1"),
        ({"changes": [{"op": "a", "remove": False}]}, "expected true; saw False"),
        ({"changes": [{"op": "", "speedup": 2}]}, "op: Expected `str` of length >= 1"),
        ({"changes": [{"op": "/(/", "speedup": 2}]}, "no regular expression"),
        ({"changes": [{"class": "gpu_compile", "speedup": 2}]}, "Did you mean 'gpu_compute'?"),
        ({"changes": [{"phase": "sideways", "speedup": 2}]}, "forward, backward, optimizer"),
        ({"changes": [{"iteration": "1", "speedup": 2}]}, "Expected `int | null`"),
        ({"changes": [{"op": "a", "self": 1, "speedup": 2}]}, "Expected `bool`, got `int`"),
        ({"changes": [{"op": "a", "host": 2}]}, "is about everything"),
        ({"changes": [{"residual": "all"}]}, "residual: Invalid enum value 'all'"),
        ({"changes": [{"residual": {"scale": -1}}]}, ">= 0.0 - at `$.scale`"),
        ({"speedups": {}}, "expected a list"),
        ({"speedups": [2]}, "entry 1: Expected `object`"),
        ({"speedups": [{"op_id": "x", "speedup": 2}]}, "Expected `int | null`"),
        ({"speedups": [{"op_id": "1", "speedup": 0}]}, "Expected `float` >= 1e-06"),
    ],
)
def test_what_is_wrong_is_said(content: object, problem: str) -> None:
    with pytest.raises(TraceError) as caught:
        parse(content)
    assert problem in str(caught.value)


def test_every_problem_of_a_file_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "question.yaml"
    path.write_text("changes: [{speedup: 0}, {phase: x, klass: y, speedup: 2}]\nother: 1\n")
    with pytest.raises(TraceError) as caught:
        read(path)
    lines = str(caught.value).splitlines()
    assert len(lines) == 4
    assert all(line.startswith(f"{path}: ") for line in lines)
    assert sum("change 2: " in line for line in lines) == 2


@pytest.mark.parametrize("text", ["{", "a: [", "\x00", "- : :", f"a: {'9' * 20000}"])
def test_a_file_that_is_no_yaml_says_so(text: str, tmp_path: Path) -> None:
    path = tmp_path / "question.yaml"
    path.write_text(text)
    with pytest.raises(TraceError, match=r"question\.yaml"):
        read(path)


def test_json_that_nests_without_end_says_so(tmp_path: Path) -> None:
    path = tmp_path / "question.json"
    path.write_text("[" * 50_000)
    with pytest.raises(TraceError, match=r"question\.json"):
        read(path)


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "question.yaml")
    with pytest.raises(TraceError, match="and no file"):
        read(tmp_path / "question.yaml")


def test_a_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no what-if can be read"):
        read(tmp_path / "nothing.yaml")
