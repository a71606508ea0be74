"""A user's text, cut into prompts and what follows them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from benchorch.config.composer import Composer, config_loader
from benchorch.config.trial_setup import open_trial
from benchorch.errors import BuildError
from benchorch.models.token_data import token_sets
from benchorch.run.expand import SPEC_KEYS


def setup_of(model: str = "gpt2_tiny") -> Any:
    sizes = ["workload.prompt_tokens=3", "workload.new_tokens=2", "workload.batch_size=2"]
    words = [f"model={model}", "conversion=eager", "scenario=generate", *sizes]
    (cell,) = Composer(config_loader()).cells(words)
    return open_trial({key: cell.config[key] for key in SPEC_KEYS})


def sets(reference: Path, model: str = "gpt2_tiny") -> Any:
    setup = setup_of(model)
    return token_sets(str(reference), cast("Any", setup.model), setup.workload)


def test_a_stream_of_tokens_is_cut_into_prompts_and_continuations(tmp_path: Path) -> None:
    np.save(tmp_path / "text.npy", np.arange(24))
    (one, two) = sets(tmp_path / "text.npy")[:2]
    assert one["input_ids"].tolist() == [[0, 1, 2], [5, 6, 7]]
    assert one["continuation"].tolist() == [[3, 4], [8, 9]]
    assert one["position_ids"].tolist() == [[0, 1, 2]] * 2
    assert two["input_ids"][0, 0] == 10


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.arange(9), "takes 2 times 5 tokens"),
        (np.ones(50), "not token ids"),
        (np.zeros((4, 4), dtype=np.int64), "takes 2 times 5 tokens"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_a_call_takes(
    tmp_path: Path, values: Any, said: str
) -> None:
    np.save(tmp_path / "text.npy", values)
    with pytest.raises(BuildError, match=said):
        sets(tmp_path / "text.npy")


def test_words_need_a_tokenizer_and_an_encoder_has_none_of_this(tmp_path: Path) -> None:
    text = tmp_path / "words.txt"
    text.write_text("To be, or not to be")
    with pytest.raises(BuildError, match="no tokenizer"):
        sets(text)
    with pytest.raises(BuildError, match="no encoder"):
        sets(text, "t5_tiny")


def test_a_text_without_end_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "words.txt"
    text.touch()
    os.truncate(text, 2**40)
    with pytest.raises(BuildError, match="more than 1024 MiB"):
        sets(text)
