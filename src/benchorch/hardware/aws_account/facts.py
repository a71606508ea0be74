"""The table of what the stack relies on: names, limits and behaviour of AWS, with their sources."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchorch.errors import ConfigError
from benchorch.files import yaml_loader

KNOWN = ("documented", "model", "reported", "unverified")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Name, limit or behaviour of AWS, with its source.

    Attributes:
        statement: a sentence that can be false.
        value: the same for programs.
        known: one of `KNOWN`.
        source: address of the page; None where unverified.
        read: ISO date.
        model: where botocore's service model has it.
        check: the check that reads it from the account.
    """

    identifier: str
    statement: str
    value: Any
    known: str
    source: str | None
    read: str | None
    model: str | None
    check: str | None


Facts = Mapping[str, Fact]


def read_facts(path: Path) -> Facts:
    """The facts of a table, by identifier."""
    try:
        rows = yaml_loader()(path.read_text(encoding="utf-8")).get_single_data()
        return {identifier: _fact(identifier, row) for identifier, row in rows.items()}
    except (OSError, yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
        raise ConfigError([f"{path}: not a table of facts: {error!r}"]) from error


def _fact(identifier: str, row: Mapping[str, Any]) -> Fact:
    read = row.get("read")
    return Fact(
        identifier=identifier,
        statement=row["says"],
        value=row["value"],
        known=row["known"],
        source=row.get("source"),
        read=None if read is None else str(read),
        model=row.get("model"),
        check=row.get("check"),
    )
