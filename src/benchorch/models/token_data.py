"""A user's own text on which generation is compared: token ids, or words that a tokenizer reads."""

from __future__ import annotations

from pathlib import Path

from benchorch.config.decoder import Decoder
from benchorch.domain.tensors import Array, Arrays, Workload
from benchorch.errors import BuildError
from benchorch.files import read_text
from benchorch.frameworks.numpy_files import read_npy, read_npz
from benchorch.interfaces.generation import CONTINUATION, IDS, NEW, POSITIONS, PROMPT
from benchorch.models.start_folder import from_start

TEXT = ".txt"
_MOST_SETS = 16
"""Limit of compared sets of a long text: each takes as long as a generation."""


def token_sets(reference: str, model: Decoder, workload: Workload) -> list[Arrays]:
    """Prompts with the tokens that follow them in the text, one mapping a call.

    The text is cut into pieces of ``prompt_tokens`` and ``new_tokens``; a last one that is too
    short is left out. Rows of a file of two dimensions are pieces already.

    Raises:
        BuildError: of kind ``inputs`` where the data does not fit the model.
    """
    import numpy as np

    if model.sources:
        raise _refused(reference, "is compared with models that have no encoder only")
    symbols = workload.symbols
    prompt, width = symbols[PROMPT], symbols[PROMPT] + symbols[NEW]
    batch = symbols.get("batch_size", 1)
    ids = _ids(from_start(reference), model)
    if ids.dtype.kind not in "iu" or ids.ndim not in (1, 2):
        raise _refused(reference, f"holds {ids.dtype} of shape {list(ids.shape)}, not token ids")
    if ids.ndim == 1:
        ids = ids[: len(ids) // width * width].reshape(-1, width)
    count = min(len(ids) // batch, _MOST_SETS)
    if not count or ids.shape[1] < width:
        needed = f"{batch} times {width} tokens (prompt_tokens and new_tokens)"
        raise _refused(reference, f"has shape {list(ids.shape)}; one call takes {needed}")
    ids = np.ascontiguousarray(ids[: count * batch, :width], dtype=np.int64)
    places = np.tile(np.arange(prompt), (batch, 1))
    return [
        {IDS: rows[:, :prompt], POSITIONS: places, CONTINUATION: rows[:, prompt:]}
        for rows in np.split(ids, count)
    ]


def _ids(path: Path, model: Decoder) -> Array:
    import numpy as np

    try:
        if path.suffix == TEXT:
            return np.asarray(model.token_ids(read_text(path)))
        if path.suffix == ".npy":
            return read_npy(path)
        if path.suffix == ".npz":
            found = read_npz(path)
            return found[IDS] if IDS in found else next(iter(found.values()))
    except (OSError, ValueError, StopIteration) as error:
        raise _refused(str(path), f"cannot be read: {error}") from error
    raise _refused(str(path), "is no .txt, .npy or .npz file, which generation is compared on")


def _refused(reference: str, reason: str) -> BuildError:
    return BuildError(
        f"parity.data: {reference} {reason}.",
        kind="inputs",
        remedy="a text, or a .npy file of token ids, long enough for one call",
    )
