"""References may not stand for more than anybody writes."""

from __future__ import annotations

import pytest
from omegaconf import OmegaConf

from benchorch.config.composition import plain_node
from benchorch.config.interpolation_limits import check_interpolations
from benchorch.errors import ConfigError


def chain(levels: int, reference: str, times: int = 10) -> dict:
    nodes = {f"b{level}": reference.format(level - 1) * times for level in range(1, levels)}
    return {"model": {"b0": "xxxxxxxxxx", **nodes}}


@pytest.mark.parametrize(
    "config",
    [
        chain(10, "${{model.b{}}}"),
        chain(10, "${{.b{}}}"),
        chain(10, "${{oc.decode:${{.b{}}}}}"),
        {
            "c0": {"text": "x"},
            **{f"c{n}": [f"${{c{n - 1}}}"] * 10 for n in range(1, 9)},
        },
        {"a": [1, "${b}"], "b": {"c": "${c[0]}"}, "c": ["${d}" * 1000], "d": "x" * 2000},
    ],
)
def test_a_bomb_is_refused_before_it_is_resolved(config: dict) -> None:
    with pytest.raises(ConfigError, match="stands for more than 1048576 characters"):
        plain_node(OmegaConf.create(config), resolve=True)


def test_a_long_chain_of_references_is_refused() -> None:
    with pytest.raises(ConfigError, match="more than 100 deep"):
        check_interpolations(dict(reversed(chain(200, "${{.b{}}}", times=1)["model"].items())))


def test_ordinary_references_are_resolved() -> None:
    config = {"a": {"b": "${c}", "d": "${.b}", "e": "${..c}-${oc.env:NONE,x}"}, "c": "y" * 1000}
    plain = plain_node(OmegaConf.create(config), resolve=True)
    assert plain["a"] == {"b": "y" * 1000, "d": "y" * 1000, "e": "y" * 1000 + "-x"}


@pytest.mark.parametrize("text", ["${a}", "${.a}", "${nothing.at.all}", "${a.b.c}"])
def test_what_refers_to_itself_or_to_nothing_is_left_to_omegaconf(text: str) -> None:
    check_interpolations({"a": text})
