"""Real architectures, made small: conversions of them that are faithful must be said to be so.

All weights are random but seeded.  Where a part of a network needs trained statistics to behave as
it does in practice (BatchNorm, class margins), they are set from data in the factory.  The
conversions named here were seen to be faithful; ``refused`` is honest where an exporter may not
know an operator.
"""

from __future__ import annotations

import transformers
from torch import nn

from parity_corpus.architectures import SMALL, floats, ids, images, peaked
from parity_corpus.models import AGREES, SAME_OR_REFUSED, ModelCase, registering

ARCHITECTURES: dict[str, ModelCase] = {}
architecture = registering(ARCHITECTURES)


@architecture(
    ids(120, 2, 16),
    group="language",
    why="DistilBERT, which answers with two spans",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
)
def distilbert_spans() -> nn.Module:
    config = transformers.DistilBertConfig(
        vocab_size=120,
        dim=48,
        n_layers=2,
        n_heads=4,
        hidden_dim=96,
        max_position_embeddings=64,
        initializer_range=0.2,
    )
    return transformers.DistilBertForQuestionAnswering(config)


@architecture(
    ids(120, 2, 16),
    group="generation",
    why="Qwen 2, with biases in its projections",
    torchscript=SAME_OR_REFUSED,
    export=SAME_OR_REFUSED,
    onnxruntime=SAME_OR_REFUSED,
    quanto_int8=AGREES,
)
def qwen2() -> nn.Module:
    config = transformers.Qwen2Config(
        vocab_size=120, num_key_value_heads=2, use_cache=False, max_position_embeddings=64, **SMALL
    )
    return peaked(transformers.Qwen2ForCausalLM(config))


@architecture(
    ids(120, 2, 16, mask=True),
    group="language",
    why="the encoder of T5: relative positions, no biases",
    torchscript=SAME_OR_REFUSED,
    export=AGREES,
    onnxruntime=AGREES,
    bf16=AGREES,
)
def t5_encoder() -> nn.Module:
    config = transformers.T5Config(
        vocab_size=120, d_model=48, d_kv=12, d_ff=96, num_layers=2, num_heads=4
    )
    return transformers.T5EncoderModel(config)


@architecture(
    images("pixel_values", 8, 32),
    group="vision",
    why="a vision transformer",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
    bf16=AGREES,
    quanto_int8=AGREES,
)
def vit() -> nn.Module:
    config = transformers.ViTConfig(
        image_size=32, patch_size=8, num_labels=10, initializer_range=0.1, **SMALL
    )
    return transformers.ViTForImageClassification(config)


@architecture(
    floats("input_features", 1, 16, 64),
    group="speech",
    why="the encoder of Whisper on a spectrogram",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
    bf16=AGREES,
)
def whisper_encoder() -> nn.Module:
    config = transformers.WhisperConfig(
        d_model=48,
        encoder_layers=2,
        decoder_layers=1,
        encoder_attention_heads=4,
        encoder_ffn_dim=96,
        num_mel_bins=16,
        max_source_positions=32,
        vocab_size=60,
        pad_token_id=1,
        bos_token_id=2,
        eos_token_id=3,
        decoder_start_token_id=4,
    )
    return transformers.WhisperModel(config).get_encoder()


@architecture(
    images("pixel_values", 2, 64),
    group="vision",
    why="SegFormer: a map of classes",
    torchscript=AGREES,
    export=AGREES,
    onnxruntime=AGREES,
    bf16=AGREES,
)
def segformer() -> nn.Module:
    config = transformers.SegformerConfig(
        num_encoder_blocks=2,
        depths=[1, 1],
        sr_ratios=[2, 1],
        hidden_sizes=[16, 32],
        patch_sizes=[7, 3],
        strides=[4, 2],
        num_attention_heads=[1, 2],
        mlp_ratios=[2, 2],
        decoder_hidden_size=32,
        num_labels=5,
    )
    return transformers.SegformerForSemanticSegmentation(config)
