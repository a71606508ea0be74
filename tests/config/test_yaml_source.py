"""libyaml parses what OmegaConf's own loader parses, to the same values and each file once."""

from pathlib import Path

import pytest
from omegaconf import OmegaConf
from yaml.constructor import ConstructorError

from benchorch.config import yaml_source
from benchorch.config.composer import Composer, config_loader
from benchorch.config.directories import builtin_directory
from benchorch.config.yaml_source import YamlDirectory

ODD = """\
numbers: [1_000, 1e3, 1.5e-3, .5, 0x1F, 010, 1:30, 190:20:30.15, -.inf, .NaN, 1., +3]
words: [yes, No, on, OFF, null, ~, 2026-11-23, 2026-11-23 10:00:00, "1", '']
block: |
  two
    lines
folded: >-
  one
  line
base: &base {a: 1, b: [x, y]}
merged: {<<: *base, b: 2}
again: *base
interpolated: ${base.a}
unicode: "é \\u2028 😀"
path: !!python/object/apply:pathlib.PosixPath [a, b]
"""


def _read(directory: Path, name: str) -> object:
    found = YamlDirectory("test", str(directory)).load_config(name)
    return OmegaConf.to_container(found.config, resolve=False)


@pytest.mark.parametrize(
    "path", sorted(builtin_directory("conf").rglob("*.yaml")), ids=lambda path: path.stem
)
def test_every_builtin_file_reads_as_omegaconf_reads_it(path: Path) -> None:
    expected = OmegaConf.to_container(OmegaConf.load(path), resolve=False)
    assert _read(path.parent, path.name) == expected


@pytest.mark.parametrize("text", [ODD, "", "# nothing\n", "words\n", "[a, 1]\n", "---\na: 1\n"])
def test_odd_values_read_as_omegaconf_reads_them(tmp_path: Path, text: str) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(text)
    expected = OmegaConf.to_container(OmegaConf.load(path), resolve=False)
    assert repr(_read(tmp_path, "odd")) == repr(expected)


@pytest.mark.parametrize(
    ("text", "problem"),
    [("a: 1\nb: 2\na: 3\n", "duplicate key a"), ("a: !!python/name:os.system\n", "python/name")],
)
def test_what_omegaconf_refuses_is_refused_with_its_place(
    tmp_path: Path, text: str, problem: str
) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    with pytest.raises(ConstructorError, match=problem) as expected:
        OmegaConf.load(path)
    with pytest.raises(ConstructorError, match=problem) as found:
        _read(tmp_path, "wrong")
    assert str(found.value) == str(expected.value)


def test_a_number_is_no_file_of_a_configuration(tmp_path: Path) -> None:
    (tmp_path / "number.yaml").write_text("3\n")
    with pytest.raises(OSError, match="Invalid loaded object type: int"):
        _read(tmp_path, "number")


def test_a_changed_file_is_read_anew_and_a_result_is_the_callers_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("a: {b: 1}\n")
    source = YamlDirectory("test", str(tmp_path))
    source.load_config("mine").config.a.b = 7
    assert _read(tmp_path, "mine") == {"a": {"b": 1}}
    path.write_text("a: {b: 22}\n")
    assert _read(tmp_path, "mine") == {"a": {"b": 22}}


def test_a_second_composition_parses_no_file_again() -> None:
    Composer(config_loader()).session([])
    parsed = yaml_source._parsed.cache_info().misses
    assert parsed
    Composer(config_loader()).session([])
    assert yaml_source._parsed.cache_info().misses == parsed
