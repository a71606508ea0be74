"""Catalog of the conversions and their links.

It is read without Hydra, whose import takes longer than reading all files; a test compares both.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

from benchorch.config.components import TARGET, make
from benchorch.config.conversion_aliases import Names, RetiredName
from benchorch.config.conversion_chains import ConversionFiles, joined
from benchorch.config.trial_setup import EAGER, chain_problems
from benchorch.domain.artifact import Format
from benchorch.domain.trial import ConfigNode, node_of
from benchorch.errors import ConfigError, Problems
from benchorch.host.environment import is_installed
from benchorch.interfaces.conversion import FileStep, Link, Step
from benchorch.interfaces.runtime import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """A value of ``conversion=``.

    Attributes:
        parts: the files it is made of; empty for one that is retired.
        description: one sentence.
        node: its configuration.
        steps: the named links before the runtime.
        runtime: the last link, or None where there are problems or nothing is left of it.
        problems: why it is no valid chain; usually empty.
        retired: the reason and successor, where nothing can run it any more.
    """

    name: str
    parts: tuple[str, ...]
    description: str
    node: ConfigNode
    steps: tuple[tuple[str, Step], ...] = ()
    runtime: Runtime | None = None
    problems: tuple[str, ...] = ()
    retired: RetiredName | None = None

    @property
    def links(self) -> tuple[Link, ...]:
        """All of them, in order."""
        last = (self.runtime,) if self.runtime else ()
        return (*(step for _, step in self.steps), *last)

    @property
    def requires(self) -> tuple[str, ...]:
        """Distributions that its links import, without repeats."""
        return tuple(dict.fromkeys(name for link in self.links for name in link.requires))

    @property
    def leaves(self) -> tuple[Format, ...]:
        """Formats that a store keeps; empty where each process makes it anew."""
        kept = (type(step).produces for _, step in self.steps if isinstance(step, FileStep))
        return tuple(dict.fromkeys(kept))

    def unavailable(self, device: str) -> str | None:
        """Why it cannot run on such a device, packages apart, or None."""
        if self.retired:
            return self.retired.reason
        if self.problems:
            return self.problems[0]
        reasons = (link.unavailable(device) for link in self.links)
        return next((reason for reason in reasons if reason), None)


class Catalog:
    """The conversions that configuration directories hold; of two files of a name the first."""

    def __init__(self, directories: Sequence[Path]) -> None:
        """Look into ``conversion`` in each; the last directory is the one with names.yaml."""
        self._files = ConversionFiles(directories)
        self.other: Names = self._files.names

    @property
    def names(self) -> tuple[str, ...]:
        """Those that a file spells out, sorted."""
        return tuple(sorted(name for name in self._files.paths if not name.startswith("_")))

    def path(self, name: str) -> Path | None:
        """The file of a name, where there is one."""
        return self._files.paths.get(name)

    def open(self, name: str) -> Conversion:
        """The conversion of a name; the result has its problems."""
        gone = None if name in self._files.paths else self.other.retirement(name)
        if gone:
            return Conversion(name=name, parts=(), description="", node={}, retired=gone)
        parts = self._files.parts(name)
        missing = [part for part in parts if part not in self._files.paths]
        if missing or not parts:
            problems = tuple(f"there is no conversion {part!r}." for part in missing or [name])
            return Conversion(name=name, parts=parts, description="", node={}, problems=problems)
        try:
            nodes = [(part, self._files.node(part)) for part in parts]
            node = joined(nodes)
        except ConfigError as error:
            return Conversion(
                name=name, parts=parts, description="", node={}, problems=error.problems
            )
        described = str(node.get("description", ""))
        if len(parts) > 1:
            described = "; then ".join(str(n["description"]).rstrip(".") for _, n in nodes) + "."
        steps, runtime, problems = _links(node)
        return Conversion(
            name=name,
            parts=parts,
            description=described,
            node=node,
            steps=steps,
            runtime=runtime,
            problems=problems,
        )


def _links(
    node: ConfigNode,
) -> tuple[tuple[tuple[str, Step], ...], Runtime | None, tuple[str, ...]]:
    """The objects of a conversion's node, and everything wrong with them."""
    problems = Problems()
    steps: list[tuple[str, Step]] = []
    for name, step in cast("Mapping[str, ConfigNode]", node_of(node, "steps")).items():
        link = problems.attempt(partial(make, step, Step, f"conversion.steps.{name}"))
        steps += [(name, link)] if link else []
    last = node_of(node, "runtime") or EAGER
    runtime = problems.attempt(lambda: make(last, Runtime, "conversion.runtime"))
    if runtime and not problems.found:
        problems.add(chain_problems(steps, runtime))
    return tuple(steps), runtime, tuple(problems.found)


def missing_packages(conversion: Conversion) -> tuple[str, ...]:
    """The distributions it needs and that are not installed."""
    return tuple(name for name in conversion.requires if not is_installed(name))


def targets(conversion: Conversion) -> Iterator[tuple[str, str]]:
    """Each link's name with the dotted class that it is made of."""
    steps = cast("Mapping[str, ConfigNode]", node_of(conversion.node, "steps"))
    for name, step in steps.items():
        yield name, str(step[TARGET])
    yield "runtime", str((node_of(conversion.node, "runtime") or EAGER)[TARGET])
