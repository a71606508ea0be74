"""Files of a TorchScript module in a directory, its calling convention included."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from benchorch.errors import BuildError
from benchorch.frameworks.upstream_errors import wrap_errors

SCRIPT_FILE = "model.pt"
CALL_FILE = "call.json"
Method = Literal["trace", "script"]
"""A trace is called by position, what was compiled from its source by keyword."""


def write_script(
    script: Any, directory: Path, *, method: Method, dtypes: Sequence[str], device: str
) -> None:
    """``model.pt`` and ``call.json``; BuildError where torch cannot read its own file again.

    Args:
        script: a ``torch.jit.ScriptModule``.
        directory: where to.
        method: how it was made.
        dtypes: floating dtypes of its weights, which its inputs take.
        device: where it is to be loaded.
    """
    import torch

    path = directory / SCRIPT_FILE
    torch.jit.save(script, str(path))
    with wrap_errors(BuildError, "torch.jit saved a file that it cannot load again"):
        torch.jit.load(str(path), map_location=device)  # type: ignore[no-untyped-call]
    call = {"method": method, "dtypes": list(dtypes)}
    (directory / CALL_FILE).write_text(json.dumps(call), encoding="utf-8")
