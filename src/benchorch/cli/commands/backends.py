"""``benchorch backends``: what can be named after ``hardware=``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from benchorch.config.backend_names import backends, known_names
from benchorch.config.hardware_aliases import HardwareNames
from benchorch.domain.codec import Json
from benchorch.domain.reply import Reply
from benchorch.errors import ConfigError
from benchorch.results.report.console_table import table_text

_WRONG_REQUEST = 2
HELP = """usage: python -m benchorch backends [NAME ...] [--json]

What hardware=NAME can be: a kind of machine (g5), one in another size (g5.12xlarge), and a machine
with the one conversion to try on it (g5.xlarge/onnxruntime_cuda, or octoml-profile's
g5.xlarge/onnxrt-cuda).

  NAME      what this one stands for
  --json    every kind of machine with its own conversions and octoml-profile's, for programs"""


def run(arguments: Sequence[str]) -> Reply:
    """The answer to ``benchorch backends ARGUMENTS``."""
    if {"-h", "--help"} & set(arguments):
        return Reply(text=HELP, data={"help": HELP})
    wrong = [word for word in arguments if word.startswith("-")]
    if wrong:
        raise ConfigError([f"backends does not take {wrong[0]}; see backends --help."])
    names = known_names()
    told = [_told(name, names) for name in arguments or backends()]
    if arguments:
        lines = [f"{row['name']}: {_in_words(row)}" for row in told]
        return Reply(text="\n".join(lines), data=cast(Json, told))
    rows = [_HEADER, *(_row(hardware, names) for hardware in names.kinds)]
    return Reply(text=f"{table_text(rows)}\n{_LEGEND}", data=cast(Json, told))


_HEADER = ("hardware", "runs models on", "sizes", "tried by default")
_LEGEND = """\
* is what the kind alone means: hardware=g5 is g5.xlarge. hardware=g5.12xlarge is another size,
hardware=g5.xlarge/onnxruntime_cuda a machine with the one conversion to try on it."""


def _told(name: str, names: HardwareNames) -> Mapping[str, Json]:
    told = names.open(name)
    return {
        "name": name,
        "hardware": told.hardware,
        "size": told.size,
        "conversion": told.conversion,
        "device": names.device(told.hardware),
    }


def _in_words(row: Mapping[str, Json]) -> str:
    words = [f"hardware={row['hardware']}"]
    words += [f"hardware.size={row['size']}"] if row["size"] else []
    words += [f"conversion={row['conversion']}"] if row["conversion"] else []
    return " ".join(words)


def _row(hardware: str, names: HardwareNames) -> Sequence[str]:
    node = names.node(hardware)
    device = names.device(hardware)
    runs_on = str(node.get("accelerator") or device) if device != "cpu" else device
    sizes = [f"{size}*" if size == node["size"] else size for size in names.sizes(hardware)]
    conversions = cast("Sequence[str]", node["conversions"])
    return hardware, runs_on, " ".join(sizes), " ".join(conversions)
