"""What a model calls its outputs, and those that are no tensors, beside an exported file.

Exported files return a flat tuple of tensors. The first step that flattens what the model returns
writes here what it was; each later step's files are given the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import final

from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json, decode, encode

OUTPUTS_FILE = "outputs.json"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """The leaves of what a model returns, in the order of torch's flattening.

    Attributes:
        tensors: dotted path of each tensor, ``past.0.1``; empty where it is all that is returned.
        constants: value of everything else by its path, as it was when it was traced; None also
            where it depends on an open size.
        operators: those of the program by dtype, and how many of them are casts; what a compiler
            makes of a program keeps its dtypes.
    """

    tensors: tuple[str, ...]
    constants: Mapping[str, Json] = field(default_factory=dict)
    operators: Mapping[str, Json] = field(default_factory=dict)

    def file_names(self, taken: Sequence[str] = ()) -> list[str]:
        """Unique names for a file's outputs; empty where the model names none of them.

        Args:
            taken: names that no output may have, such as the inputs'.
        """
        if all(path.replace(".", "").isdigit() or not path for path in self.tensors):
            return []
        names: list[str] = []
        for path in self.tensors:
            name = path if not path[:1].isdigit() else f"output_{path}"
            while name in (*taken, *names):
                name += "_out"
            names.append(name)
        return names


def dotted(path: str) -> str:
    """``past.0`` of what torch spells as ``['past'][0]``."""
    return re.sub(r"\W+", ".", path).strip(".")


def write_outputs(outputs: Outputs, directory: Path) -> None:
    """Write them beside the files of a step."""
    (directory / OUTPUTS_FILE).write_text(json.dumps(encode(outputs)))


def read_outputs(directory: Path) -> Outputs | None:
    """What `write_outputs` wrote, or None."""
    path = directory / OUTPUTS_FILE
    return decode(Outputs, json.loads(path.read_bytes())) if path.exists() else None


def carry_outputs(source: Path | None, directory: Path) -> None:
    """Give a step's files what was known of the files that it made them from."""
    before = read_outputs(source) if source is not None else None
    if before is not None:
        own = read_outputs(directory)
        operators = own.operators if own is not None else before.operators
        write_outputs(replace(before, operators=operators), directory)


def output_facts(sources: Mapping[Format, Path]) -> dict[str, Json]:
    """Names and constants of the outputs of what runs, and the program's operators."""
    found = next(filter(None, map(read_outputs, reversed(list(sources.values())))), None)
    if found is None:
        return {}
    constants: dict[str, Json] = dict(found.constants)
    return {
        **found.operators,
        **({"outputs": list(found.tensors)} if any(found.tensors) else {}),
        **({"constant_outputs": constants} if constants else {}),
    }
