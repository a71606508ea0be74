"""Names of a model's outputs and its non-tensor outputs, stored beside an exported file.

Exported files return a flat tuple of tensors. The first step that flattens what the model returns
writes here what it was; each later step's files are given the same.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json, decode, encode
from benchorch.domain.outputs import Outputs
from benchorch.files import read_json

OUTPUTS_FILE = "outputs.json"


def write_outputs(outputs: Outputs, directory: Path) -> None:
    """Write them beside the files of a step."""
    (directory / OUTPUTS_FILE).write_text(json.dumps(encode(outputs)), encoding="utf-8")


def read_outputs(directory: Path) -> Outputs | None:
    """Outputs that `write_outputs` stored, or None."""
    path = directory / OUTPUTS_FILE
    return decode(Outputs, read_json(path)) if path.exists() else None


def carry_outputs(source: Path | None, directory: Path) -> None:
    """Give a step's files what was known of the files that it made them from."""
    before = read_outputs(source) if source is not None else None
    if before is not None:
        own = read_outputs(directory)
        operators = own.operators if own is not None else before.operators
        write_outputs(replace(before, operators=operators), directory)


def recorded_outputs(sources: Mapping[Format, Path]) -> Outputs | None:
    """Outputs stored beside the last of a chain's files, or None."""
    return next(filter(None, map(read_outputs, reversed(list(sources.values())))), None)


def output_facts(sources: Mapping[Format, Path]) -> dict[str, Json]:
    """Names and constants of the outputs of what runs, and the program's operators."""
    found = recorded_outputs(sources)
    if found is None:
        return {}
    constants: dict[str, Json] = dict(found.constants)
    return {
        **found.operators,
        **({"outputs": list(found.tensors)} if any(found.tensors) else {}),
        **({"constant_outputs": constants} if constants else {}),
    }
