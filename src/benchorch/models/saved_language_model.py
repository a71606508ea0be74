"""A live language model of transformers, saved as its own library saves it, to generate tokens."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

from benchorch.domain.codec import Json
from benchorch.errors import summary_of
from benchorch.files import folder_digest
from benchorch.models.kept_programs import keep

WEIGHTS = "hub_id"
"""The key of ``model`` that names the folder."""
_SOUND = "input_features"


class NotSavedError(Exception):
    """Why a module cannot be measured as a language model, as a sentence without its end."""


def save_language_model(module: Any, folder: Path) -> dict[str, Json]:
    """Write configuration and weights below a folder; the keys of ``model`` that name them.

    Raises:
        NotSavedError: no class of transformers itself, or one that takes other inputs.
    """
    import transformers

    name = type(module).__name__
    if getattr(transformers, name, None) is not type(module):
        raise NotSavedError(f"{name} is no class of transformers itself")
    inputs = _inputs(module)

    def write(place: Path) -> str:
        with contextlib.redirect_stderr(io.StringIO()):  # its progress bar
            module.save_pretrained(place)
        return folder_digest(place)

    try:
        place, _ = keep(write, folder)
    except (ValueError, RuntimeError, TypeError, OSError) as error:
        raise NotSavedError(f"save_pretrained: {summary_of(error)}") from error
    return {"architecture": name, "hub_id": str(place), "pretrained": True, "inputs": inputs}


def _inputs(module: Any) -> dict[str, Json]:
    """The tensors of a prompt, and what an encoder–decoder's answer begins with."""
    config = module.config
    if module.main_input_name == _SOUND:
        length = 2 * config.max_source_positions
        shape: list[Json] = ["batch_size", config.num_mel_bins, length]
        source: dict[str, Json] = {_SOUND: {"shape": shape, "generator": "normal"}}
    elif module.main_input_name == "input_ids":
        vocabulary = config.get_text_config(decoder=True).vocab_size
        source = {"input_ids": _token_ids("seq_len", 0, vocabulary)}
    else:
        raise NotSavedError(f"it generates from {module.main_input_name}, not from tokens")
    if not config.is_encoder_decoder:
        return source
    settings = module.generation_config
    choices = (
        settings.decoder_start_token_id,
        config.decoder_start_token_id,
        settings.bos_token_id,
    )
    start = next((each for each in choices if each is not None), 0)
    return {**source, "decoder_input_ids": _token_ids(1, start, start + 1)}


def _token_ids(length: Json, low: int, high: int) -> dict[str, Json]:
    return {
        **{"shape": ["batch_size", length], "dtype": "int64"},
        **{"generator": "integers", "low": low, "high": high},
    }
