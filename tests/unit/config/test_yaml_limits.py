"""A YAML file that stands for too much is refused at once; ordinary anchors are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchorch.config.composer import Composer, config_loader
from benchorch.config.yaml_limits import check_yaml
from benchorch.errors import ConfigError

HEAD = "defaults:\n  - config\n  - override model: mlp\n  - _self_\n"


def bomb(levels: int, width: int) -> str:
    lines = ["a0: &a0 [x, x]"]
    for level in range(1, levels):
        aliases = ", ".join([f"*a{level - 1}"] * width)
        lines.append(f"a{level}: &a{level} [{aliases}]")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (bomb(6, 10), "stands for more"),
        (bomb(12, 3), "stands for more"),
        ("a: " + "[" * 3000 + "]" * 3000, "nests deeper"),
        ("a: &a [*a]", "has the alias"),
        ("a: " + "x" * 5_000_000, "is larger than"),
    ],
)
def test_too_much_is_refused_with_the_file(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "bomb.yaml").write_text(f"{HEAD}{text}\n")
    with pytest.raises(ConfigError, match=rf"bomb\.yaml {said}"):
        Composer(config_loader([tmp_path]), "bomb").cells([])


def test_an_option_of_a_group_is_looked_at_too(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.yaml").write_text(bomb(6, 10))
    with pytest.raises(ConfigError, match=r"mine\.yaml stands for more"):
        Composer(config_loader([tmp_path])).cells(["model=mine"])


def test_ordinary_anchors_are_read(tmp_path: Path) -> None:
    path = tmp_path / "fine.yaml"
    path.write_text("a: &a {x: 1}\nb: *a\nc: {<<: *a, y: 2}\n")
    check_yaml(path)
    check_yaml(tmp_path / "missing.yaml")
