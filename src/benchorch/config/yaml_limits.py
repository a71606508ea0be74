"""How much a YAML file may hold: aliases let a few hundred bytes stand for billions of values."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from benchorch.config.yaml_places import odd_nodes, shortest, syntax_problem
from benchorch.errors import ConfigError, Problem
from benchorch.files import open_regular, yaml_loader

if TYPE_CHECKING:
    from yaml.events import Event

MOST_BYTES = 4 * 2**20
MOST_DEPTH = 50
MOST_VALUES = 50_000
"""What a file may stand for once every alias is replaced by what it names."""

MOST_REFERRING = 2_000
"""Characters of a text with a reference, for which OmegaConf's pattern takes their square."""


def check_yaml(path: Path) -> None:
    """ConfigError for a file that is too large, too deep or too much once it is expanded.

    Also for what is no YAML, with the place of the mistake. What is not there is left to whoever
    reads it.
    """
    if path.exists() and not path.is_dir():
        open_regular(path).close()
        status = path.stat()
        _check(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=1024)  # a plan reads the same files many times
def _check(path: Path, size: int, _: int) -> None:
    import yaml

    if size > MOST_BYTES:
        raise _refused(path, f"is larger than {MOST_BYTES} bytes")
    loader = yaml_loader()
    count = _Count()
    try:
        for event in yaml.parse(path.read_text(encoding="utf-8"), Loader=loader):
            excess = count.add(event)
            if excess:
                raise _refused(path, excess)
        problems = list(
            odd_nodes(path, yaml.compose(path.read_text(encoding="utf-8"), Loader=loader))
        )
    except yaml.MarkedYAMLError as error:
        problems = [syntax_problem(path, error)]
    except UnicodeDecodeError as error:
        byte = f"byte 0x{error.object[error.start]:02x} at position {error.start}"
        problem = f"{shortest(path)}: is not UTF-8 text ({byte}); save it as UTF-8."
        problems = [Problem(problem, in_file=True)]
    except yaml.YAMLError as error:
        problem = f"{shortest(path)}: is not YAML text: {str(error).splitlines()[0]}."
        problems = [Problem(problem, in_file=True)]
    if problems:
        raise ConfigError(problems)


class _Count:
    """Values so far, and those that each anchor stands for."""

    def __init__(self) -> None:
        self._total = 0
        self._by_anchor: dict[str, int] = {}
        self._open: list[tuple[str | None, int]] = []

    def add(self, event: Event) -> str:
        """Count an event; what is too much, or empty."""
        from yaml import events

        if isinstance(event, events.CollectionEndEvent):
            anchor, before = self._open.pop()
            if anchor is not None:
                self._by_anchor[anchor] = self._total - before
        elif isinstance(event, events.AliasEvent):
            if any(anchor == event.anchor for anchor, _ in self._open):
                return f"has the alias *{event.anchor} within what it names"
            self._total += self._by_anchor.get(str(event.anchor), 1)
        elif isinstance(event, events.CollectionStartEvent):
            self._open.append((event.anchor, self._total))
            self._total += 1
        elif isinstance(event, events.ScalarEvent):
            self._total += 1
            if "${" in event.value and len(event.value) > MOST_REFERRING:
                return f"has a text of more than {MOST_REFERRING} characters that refers to others"
        if len(self._open) > MOST_DEPTH:
            return f"nests deeper than {MOST_DEPTH}"
        return f"stands for more than {MOST_VALUES} values" if self._total > MOST_VALUES else ""


def _refused(path: Path, why: str) -> ConfigError:
    return ConfigError([f"{path} {why}, so it is not read; write less, or use a matrix."])
