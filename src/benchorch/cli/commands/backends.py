"""``benchorch backends``: the values of ``hardware=``."""

from collections.abc import Mapping, Sequence
from typing import cast

import click

from benchorch.cli.command import command
from benchorch.cli.terminal import Terminal
from benchorch.config.hardware_aliases import HardwareNames, backends, known_names
from benchorch.domain.codec import Json
from benchorch.domain.reply import Reply
from benchorch.results.report.console_table import table_text


@command(
    "backends",
    help="""What hardware=NAME can be: a kind of machine (g5), one in another size (g5.12xlarge),
    and a machine with the one conversion to try on it (g5.xlarge/onnxruntime_cuda, or
    octoml-profile's g5.xlarge/onnxrt-cuda).
    """,
)
@click.argument("names", metavar="[NAME ...]", nargs=-1)
def run(terminal: Terminal, names: Sequence[str]) -> Reply:
    """The kinds of machines, or the ones of these names."""
    known = known_names()
    rows = [_facts(name, known) for name in names or backends()]
    if names:
        lines = [f"{row['name']}: {_as_overrides(row)}" for row in rows]
        return Reply(text="\n".join(lines), data=cast(Json, rows))
    table = [_HEADER, *(_row(hardware, known) for hardware in known.kinds)]
    return Reply(text=f"{table_text(table)}\n{_LEGEND}", data=cast(Json, rows))


_HEADER = ("hardware", "runs models on", "sizes", "default conversions")
_LEGEND = """\
* is the default size: hardware=g5 is g5.xlarge.
hardware=g5.12xlarge                 another size
hardware=g5.xlarge/onnxruntime_cuda  a machine, and the one conversion to try"""


def _facts(name: str, names: HardwareNames) -> Mapping[str, Json]:
    backend = names.open(name)
    return {
        "name": name,
        "hardware": backend.hardware,
        "size": backend.size,
        "conversion": backend.conversion,
        "device": names.device(backend.hardware),
    }


def _as_overrides(row: Mapping[str, Json]) -> str:
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
