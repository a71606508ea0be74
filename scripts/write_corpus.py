"""Write a corpus of scripts: each architecture of transformers, tiny and with random weights.

``python scripts/write_corpus.py FOLDER`` writes FOLDER/masked_lm/bert.py and so on, as a user has
them, for ``benchorch script 'FOLDER/**/*.py'``. Not every one runs: the corpus report counts those
that do not, too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

SCRIPT = """\
# labels: name::{name} family::{family}
import torch
from transformers import AutoConfig, {auto}

SMALL = {{
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "emb_dim"), 32),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim"), 64),
    **dict.fromkeys(("num_hidden_layers", "encoder_layers", "decoder_layers", "n_layer"), 2),
    **dict.fromkeys(("n_layers", "num_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "encoder_attention_heads", "n_head"), 4),
    **dict.fromkeys(("decoder_attention_heads", "n_heads", "num_heads"), 4),
    **{{"num_key_value_heads": 2, "head_dim": 8, "vocab_size": 128, "image_size": 32}},
    **{{"patch_size": 8, "embedding_size": 32, "num_experts": 4, "num_local_experts": 4}},
    **dict.fromkeys(("num_experts_per_tok", "num_experts_per_token", "moe_topk"), 2),
}}
LAYERS = {{key: value for key, value in SMALL.items() if "layer" in key or "vocab" in key}}


def made(sizes):
    # The model with these sizes where its configuration has them, called once.
    config = AutoConfig.for_model("{name}")
    for key, value in sizes.items():
        if isinstance(getattr(config, key, None), int):
            setattr(config, key, value)
    for key in ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"):
        if isinstance(getattr(config, key, None), int):
            setattr(config, key, 1)
    with torch.device("meta"):
        size = sum(p.numel() for p in {auto}.from_config(config).parameters())
    if size > 50_000_000:
        raise SystemExit(f"{{size:,}} parameters are not tiny")
    side = getattr(config, "image_size", 32)
    side = side if isinstance(side, int) else 32
    model = {auto}.from_config(config).eval()
    with torch.no_grad():
        model({call})
    return model


# Sizes that do not fit together, and then the configuration's own with fewer layers, or as it is.
for sizes in (SMALL, LAYERS, {{}}):
    try:
        model = made(sizes)
        break
    except ImportError:
        raise
    except Exception as error:
        problem = error
else:
    raise problem
"""
TOKENS = "input_ids=torch.randint(2, 100, (1, 16))"
PIXELS = "pixel_values=torch.randn(1, getattr(config, 'num_channels', 3), side, side)"
FAMILIES = {
    "masked_lm": ("AutoModelForMaskedLM", "MODEL_FOR_MASKED_LM_MAPPING_NAMES", TOKENS),
    "causal_lm": (
        "AutoModelForCausalLM",
        "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
        f"{TOKENS}, use_cache=False",
    ),
    "image": (
        "AutoModelForImageClassification",
        "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
        PIXELS,
    ),
}


def scripts() -> Iterator[tuple[str, str]]:
    """The path below the folder and the text of each script."""
    from transformers.models.auto import modeling_auto

    for family, (auto, mapping, call) in FAMILIES.items():
        for name in getattr(modeling_auto, mapping):
            text = SCRIPT.format(name=name, family=family, auto=auto, call=call)
            yield f"{family}/{name.replace('-', '_')}.py", text


def main() -> None:
    """Write them all."""
    folder = Path(sys.argv[1])
    for place, text in scripts():
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
