"""GGUF, llama.cpp's file of weights and sizes, from a decoder of transformers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, final

from benchorch.domain.artifact import Format
from benchorch.domain.tensors import Array
from benchorch.errors import BuildError
from benchorch.frameworks.upstream_errors import ANOTHER_CONVERSION, wrap_errors
from benchorch.interfaces.conversion import BuildRequest, FileStep, by_option

if TYPE_CHECKING:
    import torch

MODEL_FILE = "model.gguf"
_TOLERANCE_RATIOS = {"f32": 1e-3, "q8_0": 3e-2, "q4_0": 2e-1}  # GELU is looked up in float16


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GgufWrite(FileStep):
    """The weights by llama.cpp's names, without a vocabulary: token ids go in and scores come out.

    As in llama.cpp's own ``convert_hf_to_gguf.py``, queries and keys of Llama are reordered, since
    it rotates neighbouring elements where transformers rotates halves.

    Args:
        weights: the type of every matrix whose rows are whole blocks of 32; others are float32.
    """

    generates = True
    fixes_cache = True
    consumes = (Format.MODULE,)
    produces = Format.GGUF
    requires = ("torch", "gguf")
    requested_precision = by_option("weights", {"f32": "", "q8_0": "int8", "q4_0": "int4"})
    tolerance_ratio = by_option("weights", _TOLERANCE_RATIOS)

    weights: Literal["f32", "q8_0", "q4_0"] = "f32"

    def build(self, request: BuildRequest) -> None:
        """Writes ``model.gguf``; BuildError for an architecture that is not written here."""
        import gguf

        model: Any = getattr(request.module(), "model", None)
        kind = getattr(getattr(model, "config", None), "model_type", type(model).__name__)
        if kind not in _ARCHITECTURES:
            raise BuildError(
                f"{kind} has no GGUF form here; supported are {', '.join(_ARCHITECTURES)}.",
                kind="architecture",
                remedy="conversion=onnxruntime",
            )
        with wrap_errors(BuildError, "The model cannot be written as GGUF"):
            writer = gguf.GGUFWriter(request.out_dir / MODEL_FILE, kind)
            writer.add_tokenizer_model("no_vocab")
            writer.add_vocab_size(model.config.vocab_size)
            for name, value in _ARCHITECTURES[kind](model.config).items():
                getattr(writer, f"add_{name}")(value)
            for name, array in _tensors(model, kind):
                data, dtype = self._stored(array)
                writer.add_tensor(name, data, raw_dtype=dtype)
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_tensors_to_file()
            writer.close()

    def _stored(self, array: Array) -> tuple[Array, Any]:
        import gguf

        stored_type = gguf.GGMLQuantizationType[self.weights.upper()]
        block = gguf.GGML_QUANT_SIZES[stored_type][0]
        if array.ndim < 2 or array.shape[-1] % block:
            stored_type = gguf.GGMLQuantizationType.F32
        return gguf.quants.quantize(array, stored_type), stored_type


def _tensors(model: torch.nn.Module, kind: str) -> Iterator[tuple[str, Array]]:
    """Each weight in float32 by llama.cpp's name; one that is tied to another once."""
    import gguf

    config: Any = model.config
    arch = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == kind)
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    linear = {f"{name}.weight" for name, each in model.named_modules() if _is_transposed(each)}
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        known = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if known is None:
            raise BuildError(
                f"llama.cpp has no place for {name}.",
                kind="architecture",
                remedy=ANOTHER_CONVERSION,
            )
        array = tensor.detach().float().cpu()
        array = array.T.contiguous() if name in linear else array
        yield known, _reordered(array, name, config).numpy()


def _is_transposed(module: torch.nn.Module) -> bool:
    return type(module).__name__ == "Conv1D"  # of transformers: a linear layer, inputs first


def _reordered(tensor: torch.Tensor, name: str, config: Any) -> torch.Tensor:
    """Rows of Llama's queries and keys: halves of a head become neighbours."""
    heads = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}
    found = next((heads[part] for part in name.split(".") if part in heads), None)
    if config.model_type != "llama" or found is None:
        return tensor
    split = tensor.reshape(getattr(config, found), 2, -1, *tensor.shape[1:])
    return split.transpose(1, 2).flatten(0, 2)


def _gpt2(config: Any) -> dict[str, Any]:
    return {
        "context_length": config.n_positions,
        "embedding_length": config.n_embd,
        "feed_forward_length": config.n_inner or 4 * config.n_embd,
        "block_count": config.n_layer,
        "head_count": config.n_head,
        "layer_norm_eps": config.layer_norm_epsilon,
    }


def _llama(config: Any) -> dict[str, Any]:
    rope = config.rope_parameters
    if rope.get("rope_type", "default") != "default":
        raise BuildError(
            f"Rotary positions of kind {rope['rope_type']} have no GGUF form here.",
            kind="architecture",
            remedy=ANOTHER_CONVERSION,
        )
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return {
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "feed_forward_length": config.intermediate_size,
        "block_count": config.num_hidden_layers,
        "head_count": config.num_attention_heads,
        "head_count_kv": config.num_key_value_heads,
        "key_length": head,
        "value_length": head,
        "layer_norm_rms_eps": config.rms_norm_eps,
        "rope_dimension_count": head,
        "rope_freq_base": rope["rope_theta"],
    }


_ARCHITECTURES: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "gpt2": _gpt2,
    "llama": _llama,
    "qwen2": _llama,
}
"""Metadata of a GGUF file by architecture, under the name that both libraries use."""
