"""Generation of tokens: the calls it needs of an artifact, its models and its timing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from benchorch.domain.tensors import Array, Arrays

PROMPT, NEW, PAST = "prompt_tokens", "new_tokens", "past_tokens"
"""Symbols: tokens of a prompt, tokens to generate, tokens that a cache holds."""

DECODED, SOURCE_BATCH = "decoded_tokens", "source_batch"
"""Symbols of an encoder-decoder: tokens that one call decodes, sequences that it encodes."""

SOURCE, CROSS = "source_", "cross_"
"""Beginnings of names: inputs of an encoder, keys and values of its output."""

IDS, POSITIONS = "input_ids", "position_ids"
"""Inputs of a step besides its cache, each of shape (batch_size, tokens)."""

CONTINUATION = "continuation"
"""An input of comparisons alone: the tokens that a prompt is continued with, whatever scores."""


class Program(ABC):
    """A loaded artifact whose outputs can be the next call's inputs, without leaving the device.

    One that keeps its cache to itself has no inputs and outputs for it.
    """

    def begin(self, *, whole: bool = False) -> None:  # noqa: B027 - most keep nothing between calls
        """Forget the cache that earlier calls left behind.

        Args:
            whole: whether all scores are read; otherwise the likeliest token's may be all.
        """

    def kept_bytes(self) -> int:
        """Size of the cache that it keeps to itself."""
        return 0

    @abstractmethod
    def place(self, arrays: Arrays) -> dict[str, object]:
        """The arrays on the device, floats in the dtype that the artifact takes."""

    @abstractmethod
    def call(self, inputs: Mapping[str, object]) -> Sequence[object]:
        """Outputs of one call, on the device."""

    @abstractmethod
    def fetch(self, value: object) -> Array:
        """One output on the host, floats as float32 or float64; blocks until it is computed."""

    @abstractmethod
    def size_bytes(self, value: object) -> int:
        """Size of one output on the device."""


class TokenCall(ABC):
    """A call that generates tokens and notes when each was on the host."""

    @abstractmethod
    def __call__(self) -> object:
        """Generate all tokens."""

    @abstractmethod
    def take_times(self) -> list[tuple[int, ...]]:
        """Times of all calls since the last request, in order, each ``(start, token 0, ...)``.

        In nanoseconds of the clock that measures.
        """
