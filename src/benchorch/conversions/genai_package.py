"""A folder for onnxruntime-genai: a decoder's ONNX graph by its rules, and its configuration."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from benchorch.domain.artifact import Format
from benchorch.domain.tensors import TensorSpec
from benchorch.errors import BuildError
from benchorch.frameworks.onnx_files import MODEL_FILE, is_large, write_graph
from benchorch.frameworks.upstream_errors import wrap_errors
from benchorch.interfaces.conversion import BuildRequest, FileStep
from benchorch.interfaces.generation import IDS, PAST, POSITIONS

_CONFIG_FILE = "genai_config.json"
_MOST_TOKENS = 2**17
_NEVER = -1e30
"""The score of the token that ends a sequence: none ends early."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GenaiPackage(FileStep):
    """Outputs are named by layer, and scores get a column for the end, which is never reached.

    Source: https://onnxruntime.ai/docs/genai/reference/config.html
    """

    generates = True
    consumes = (Format.ONNX,)
    produces = Format.ONNX_GENAI
    requires = ("onnx",)

    def build(self, request: BuildRequest) -> None:
        """Writes ``model.onnx`` and ``genai_config.json``; BuildError but for a decoder alone."""
        import onnx

        source = request.sources[Format.ONNX]
        cache = [spec for spec in request.example.specs if PAST in spec.shape]
        with wrap_errors(BuildError, "The graph cannot be made one for onnxruntime-genai"):
            model = onnx.load(source / MODEL_FILE)
            if not cache or len(model.graph.output) != len(cache) + 1:
                raise BuildError(
                    "The model has no cache of a decoder alone that grows with each token.",
                    kind="cache",
                    remedy="scenario=generate with a causal language model",
                )
            vocabulary = _adapt(model.graph, [spec.name for spec in cache])
            write_graph(model, request.out_dir, large=is_large(source))
        config = json.dumps(_config(cache[0], len(cache) // 2, vocabulary), indent=1)
        (request.out_dir / _CONFIG_FILE).write_text(config, encoding="utf-8")


def _adapt(graph: Any, cache: Sequence[str]) -> int:
    """Name the cache by layer, give scores the shape (batch_size, 1, words + 1); how many words."""
    from onnx import TensorProto, helper

    scores, *grown = graph.output
    renamed = {port.name: _present(name) for port, name in zip(grown, cache, strict=True)}
    for node in graph.node:
        for names in (node.input, node.output):
            names[:] = [renamed.get(name, name) for name in names]
    for port in grown:
        port.name = renamed[port.name]
    kind = scores.type.tensor_type.elem_type
    vocabulary = int(scores.type.tensor_type.shape.dim[1].dim_value)
    graph.initializer.extend(
        [
            helper.make_tensor("genai_pads", TensorProto.INT64, [4], [0, 0, 0, 1]),
            helper.make_tensor("genai_never", kind, [], [_lowest(kind)]),
            helper.make_tensor("genai_axis", TensorProto.INT64, [1], [1]),
        ]
    )
    pad = helper.make_node("Pad", [scores.name, "genai_pads", "genai_never"], ["genai_scores"])
    graph.node.extend(
        [pad, helper.make_node("Unsqueeze", ["genai_scores", "genai_axis"], ["logits"])]
    )
    logits = helper.make_tensor_value_info("logits", kind, ["batch_size", 1, vocabulary + 1])
    graph.output[0].CopyFrom(logits)
    return vocabulary


def _lowest(kind: int) -> float:
    from onnx import TensorProto

    return -6e4 if kind == TensorProto.FLOAT16 else _NEVER


def _present(name: str) -> str:
    return name.replace("past_", "present_", 1)


def _config(layer: TensorSpec, layers: int, vocabulary: int) -> Mapping[str, object]:
    _, heads, _, size = layer.shape
    names = {part: f"past_%d_{part}" for part in ("key", "value")}
    decoder: dict[str, object] = {
        "filename": MODEL_FILE,
        "head_size": size,
        "hidden_size": int(heads) * int(size),
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "num_hidden_layers": layers,
        "session_options": {"provider_options": []},
        "inputs": {
            "input_ids": IDS,
            "position_ids": POSITIONS,
            **{f"past_{part}_names": name for part, name in names.items()},
        },
        "outputs": {
            "logits": "logits",
            **{f"present_{part}_names": _present(name) for part, name in names.items()},
        },
    }
    ends = {"eos_token_id": vocabulary, "pad_token_id": vocabulary, "bos_token_id": 0}
    size_of = {"vocab_size": vocabulary + 1, "context_length": _MOST_TOKENS}
    return {
        "model": {"type": "decoder", **size_of, **ends, "decoder": decoder},
        "search": {"max_length": _MOST_TOKENS, "past_present_share_buffer": False},
    }
