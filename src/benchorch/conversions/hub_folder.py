"""A folder as transformers' ``save_pretrained`` writes it, from a decoder of transformers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from benchorch.domain.artifact import Format
from benchorch.errors import BuildError
from benchorch.frameworks.upstream_errors import wrap_errors
from benchorch.interfaces.conversion import BuildRequest, FileStep


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class HubFolder(FileStep):
    """Configuration and weights without a tokenizer: token ids go in."""

    generates = True
    fixes_cache = True
    consumes = (Format.MODULE,)
    produces = Format.HUB_FOLDER
    requires = ("torch", "transformers")

    def build(self, request: BuildRequest) -> None:
        """Writes ``config.json`` and safetensors; BuildError for an encoder-decoder."""
        model: Any = getattr(request.module(), "model", None)
        config: Any = getattr(model, "config", None)
        kind = getattr(config, "model_type", type(model).__name__)
        if config is None or config.is_encoder_decoder:
            raise BuildError(
                f"{kind} is not a decoder alone, which servers of language models require.",
                kind="architecture",
                remedy="conversion=onnxruntime",
            )
        with wrap_errors(BuildError, "The model cannot be written by save_pretrained"):
            model.save_pretrained(request.out_dir)
