"""The help of a run: every group and key of the configuration with its meaning."""

import re
import shutil
from collections.abc import Iterator

from benchorch.config.descriptions import groups, meanings, root_keys

_HEAD = """\
Usage: benchorch [run] [RECIPE.yaml] [KEY=VALUE ...] [OPTIONS]
  benchorch run model=mlp conversion=[eager,onnxruntime]   a list is a matrix
  benchorch run recipes/bert.yaml workload.seq_len=256     a recipe, overridden"""
_OPTIONS = """\
  -m, --multirun   cross comma-separated values  --config-dir DIR  own groups
  --only NAME      only these trials; * too      --cfg job     keys, resolved
  -x, --exitfirst  the first failure ends it     --hydra-help  Hydra's own flags
  --allow-skips    exit with 0 although a requested conversion cannot run"""
_NAME, _DEFAULT = 12, 16


def run_help() -> str:
    """Every group and key of a run in a screen."""
    lines = [_HEAD, "Groups (benchorch help GROUP: their options)"]
    lines += [_line(name, option, meanings()[name]) for name, option in groups().items()]
    lines.append("Keys (benchorch help KEY: all that are below it)")
    lines += _keys()
    return "\n".join([*lines, "Options", _OPTIONS])


def _keys() -> Iterator[str]:
    sections = set()
    for key in root_keys():
        section, dot, _ = key.name.partition(".")
        if not dot:
            yield _line(key.name, key.default, key.meaning)
        elif section not in sections:
            sections.add(section)
            yield _line(section, "", meanings()[section])


def _line(name: str, default: str, meaning: str) -> str:
    width = shutil.get_terminal_size().columns
    shown = default if len(default) < _DEFAULT else f"{default[: _DEFAULT - 2]}…"
    head = f"  {name:{_NAME}}{shown:{_DEFAULT}}"
    fits = len(head) + len(meaning) <= width
    return head + (meaning if fits else re.split(r"; | \(", meaning)[0])
