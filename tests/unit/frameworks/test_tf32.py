"""TensorFloat-32 is one setting, whatever was set before it and through whichever interface."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
import torch

from benchorch.frameworks.tf32 import OVERRIDE, set_tf32, tf32_in_use


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(OVERRIDE, raising=False)
    yield
    set_tf32(allowed=False)
    torch.backends.cudnn.allow_tf32 = True  # torch's own default
    monkeypatch.delenv(OVERRIDE, raising=False)


def flags() -> tuple[bool, bool]:
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


def test_torch_rounds_convolutions_unless_told() -> None:
    """Why there is a setting at all: https://docs.pytorch.org/docs/2.13/notes/cuda.html#tf32."""
    assert torch.backends.cudnn.allow_tf32 is True
    assert tf32_in_use() is None


def by_old_name() -> None:
    torch.backends.cudnn.allow_tf32 = True


def by_precision() -> None:
    torch.set_float32_matmul_precision("medium")


def by_new_names() -> None:
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    torch.backends.cudnn.conv.fp32_precision = "tf32"


def for_everything() -> None:
    torch.backends.fp32_precision = "tf32"


@pytest.mark.parametrize("before", [by_old_name, by_precision, by_new_names, for_everything])
@pytest.mark.parametrize("allowed", [False, True])
def test_it_wins_over_what_a_model_set(before: Callable[[], None], *, allowed: bool) -> None:
    before()
    set_tf32(allowed=allowed)
    assert flags() == (allowed, allowed)
    exact = torch.backends.mkldnn.matmul.fp32_precision in ("none", "ieee")
    assert exact, "the reference is computed on the processor"
    assert tf32_in_use() is allowed


def test_libraries_without_an_option_read_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OVERRIDE, "1")
    set_tf32(allowed=False)
    assert os.environ[OVERRIDE] == "0"
    set_tf32(allowed=True)
    assert OVERRIDE not in os.environ


def test_what_a_model_changed_later_is_not_reported_as_set() -> None:
    set_tf32(allowed=False)
    by_old_name()
    assert tf32_in_use() is None
