"""``benchorch conversions``: the conversions, whether each runs here, and what would enable it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import click

from benchorch.cli.command import command, completed
from benchorch.cli.commands import conversions_report
from benchorch.cli.commands.conversion_catalog import Catalog, Conversion, missing_packages, targets
from benchorch.cli.terminal import Terminal
from benchorch.config.components import make, misspelt
from benchorch.config.directories import builtin_directory
from benchorch.config.extensions import extension_directories
from benchorch.domain.codec import Json
from benchorch.domain.reply import Reply
from benchorch.errors import ConfigError, Problem
from benchorch.host.packages import install_command, needs
from benchorch.interfaces.conversion import FileStep, ModuleStep, StateStep

if TYPE_CHECKING:
    from benchorch.domain.trial import ConfigNode
    from benchorch.interfaces.conversion import Link


_COMPLETED = completed("conversion_names")


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """Availability of a conversion on this machine.

    Attributes:
        hardware: the hardware configuration that runs it here; empty where none does.
        reason: why there is none.
        enable: what would change that; empty where nothing would.
    """

    hardware: str
    reason: str = ""
    enable: str = ""


@command(
    "conversions",
    help="""The values of conversion=NAME: what each does, its chain, whether it runs on this
    machine and if not what would enable it, and whether it leaves an artifact that later runs
    reuse. Names joined by + and other tools' names are explained too.
    """,
)
@click.argument("names", metavar="[NAME ...]", nargs=-1, shell_complete=_COMPLETED)
@click.option(
    "--all", "everything", is_flag=True, help="other tools' names, too, and what they select"
)
def run(terminal: Terminal, names: Sequence[str], everything: bool) -> Reply:
    """The conversions by family, or these in detail."""
    catalog = Catalog([*extension_directories(), builtin_directory("conf")])
    problem = _unknown_name(names, catalog)
    if problem:
        raise ConfigError([problem])
    if names:
        opened = [catalog.open(name) for name in names]
        rows = [_row(each, catalog) for each in opened]
        return Reply(text="\n\n".join(map(conversions_report.detail, rows)), data=rows)
    ours = [_row(catalog.open(name), catalog) for name in catalog.names]
    if not (everything or terminal.as_json):
        return Reply(text=conversions_report.overview(ours, _count_of_others(catalog)), data=ours)
    others = {
        tool: [_row(catalog.open(name), catalog) for name in listed]
        for tool, listed in catalog.other.listed.items()
    }
    text = conversions_report.everything(ours, others)
    return Reply(text=text, data=cast(Json, {"conversions": ours, "names": others}))


def _count_of_others(catalog: Catalog) -> int:
    return sum(map(len, catalog.other.listed.values()))


def _unknown_name(names: Sequence[str], catalog: Catalog) -> Problem | None:
    known = [*catalog.names, *catalog.other.chains, *catalog.other.retired]
    for name in names:
        conversion = catalog.open(name)
        if conversion.retired or conversion.runtime or catalog.path(name):
            continue
        problem = conversion.problems[0]
        missing = next((part for part in conversion.parts if f"{part!r}" in problem), name)
        return misspelt(f"{name}: {problem}", missing, known)
    return None


def availability(conversion: Conversion) -> Availability:
    """Whether it runs here, on the processor or on a GPU; the missing package is named first."""
    if conversion.retired:
        gone = conversion.retired
        enable = f"instead: conversion={gone.successor}" if gone.successor else ""
        return Availability(hardware="", reason=f"retired: {gone.reason}", enable=enable)
    if conversion.problems:
        return Availability(hardware="", reason=conversion.problems[0])
    missing = missing_packages(conversion)
    on_cpu, on_gpu = (conversion.unavailable(device) for device in ("cpu", "cuda"))
    if missing:
        where = "" if on_cpu is None or on_gpu is not None else f", and a GPU: {on_cpu}"
        return Availability(
            hardware="", reason=f"{needs(missing)}{where}", enable=install_command(missing)
        )
    if on_cpu is None:
        return Availability(hardware="local")
    if on_gpu is None:
        absent = _no_gpu()
        if absent is None:
            return Availability(hardware="local_gpu")
        return Availability(hardware="", reason=on_cpu, enable="hardware with an NVIDIA GPU")
    there = "" if on_cpu == on_gpu else f"hardware with an NVIDIA GPU, where: {on_gpu}"
    return Availability(hardware="", reason=on_cpu, enable=there)


def _no_gpu() -> str | None:
    """Why this machine has no usable GPU; needs no CUDA driver."""
    from benchorch.config.conversion_aliases import read_yaml
    from benchorch.interfaces.hardware import Hardware

    node = read_yaml(builtin_directory("conf") / "hardware" / "local_gpu.yaml")
    return make(cast("ConfigNode", node), Hardware, "hardware").mismatch()


def _row(conversion: Conversion, catalog: Catalog) -> dict[str, Json]:
    """A conversion's facts, for programs and for the text."""
    here = availability(conversion)
    path = catalog.path(conversion.name)
    dotted = dict(targets(conversion)) if conversion.node else {}
    steps = [_link(name, step, dotted[name]) for name, step in conversion.steps]
    last = conversion.runtime
    return {
        "name": conversion.name,
        "description": conversion.description,
        "parts": list(conversion.parts),
        "chain": "+".join(conversion.parts),
        "steps": steps,
        "runtime": _link("runtime", last, dotted["runtime"]) if last else None,
        "runs_here": bool(here.hardware),
        "hardware": here.hardware,
        "reason": here.reason,
        "enable": here.enable,
        "leaves": list(conversion.leaves),
        "requires": list(conversion.requires),
        "retired": conversion.retired is not None,
        "successor": conversion.retired.successor if conversion.retired else "",
        "problems": list(conversion.problems),
        "file": str(path) if path else "",
    }


def _link(name: str, link: Link, dotted: str) -> dict[str, Json]:
    kind = type(link)
    produces = getattr(kind, "produces", None)
    return {
        "name": name,
        "target": dotted,
        "file": _source(kind),
        "does": (kind.__doc__ or "").strip().partition("\n")[0],
        "kind": _kind(link),
        "consumes": list(kind.consumes),
        "produces": produces,
        "requires": list(kind.requires),
        "tolerance_ratio": link.tolerance_ratio,
    }


def _kind(link: Link) -> str:
    kinds: Mapping[type, str] = {
        StateStep: "changes the module and keeps its state",
        ModuleStep: "changes the module",
        FileStep: "leaves files",
    }
    return next((word for kind, word in kinds.items() if isinstance(link, kind)), "runs it")


def _source(kind: type) -> str:
    """The file in which a class is written."""
    import sys

    return str(getattr(sys.modules[kind.__module__], "__file__", ""))
