"""Engines of other projects that keep a decoder's cache to themselves: tokens in, scores out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import cast

from benchorch.domain.tensors import Array, Arrays, Example
from benchorch.interfaces.generation import Program
from benchorch.interfaces.runtime import Executable


class TokenEngine(Executable):
    """A loaded engine. A bound call is a prefill."""

    @abstractmethod
    def program(self) -> Program:
        """Calls that give the next token's scores, on the host."""

    def bind(self, arrays: Arrays) -> Callable[[], object]:
        """A prefill of these prompts."""
        program = self.program()
        placed = program.place(arrays)

        def call() -> object:
            program.begin()
            return program.call(placed)

        return call

    def outputs(self, raw: object) -> Arrays:
        """Scores of the next token, shape (batch_size, vocabulary)."""
        return {"0": cast("Sequence[Array]", raw)[0]}


class HostProgram(Program):
    """Calls whose outputs are numpy's arrays."""

    def fetch(self, value: object) -> Array:
        """They are on the host already."""
        return cast("Array", value)

    def size_bytes(self, value: object) -> int:
        """Size of the array's elements."""
        return self.fetch(value).nbytes


def cache_size(example: Example) -> tuple[int, int]:
    """The most tokens that a cache holds, and the numbers in the caches of all layers.

    The numbers are of one sequence.
    """
    held = [spec.shape for spec in example.specs if len(spec.shape) == 4]
    tokens = max(int(shape[2]) for shape in held)
    return tokens, sum(int(shape[1]) * int(shape[3]) * tokens for shape in held)
