"""Outputs of a model in processes whose first call it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchorch.domain.noise import Noise
from benchorch.frameworks.numpy_files import save_arrays, saved
from benchorch.host.processes import template
from benchorch.host.processes.earlier_state import kept_state

if TYPE_CHECKING:
    from numpy import generic
    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[generic]]
    FirstCalls = Callable[[Sequence[int], float], dict[int, Arrays]]

_CAUSE = "the first call fixes what later ones answer, in something that no module holds"


@contextmanager
def first_calls(answer: Callable[[int], Arrays] | None) -> Iterator[FirstCalls]:
    """Keep the model as it is now, before any call.

    Args:
        answer: outputs of the input of a number, with one thread: forked processes lack the others.
            None where the model cannot be forked.

    Yields:
        A function that returns the outputs of inputs by number, each the first call of a process
        that continues from here; without those that took longer than so many seconds.
    """
    if answer is None or not template.is_possible():
        yield lambda numbers, seconds: {}
        return
    with TemporaryDirectory() as place:
        folder = Path(place)
        with kept_state(lambda n: save_arrays(folder / f"{n}.npz", answer(n))) as run:
            yield lambda numbers, seconds: {
                n: saved(folder / f"{n}.npz") for n in numbers if run(n, seconds)
            }


def not_compared(numbers: Sequence[int], alone: Mapping[int, Arrays], seconds: float) -> str:
    """Note about inputs that no process answered as its first call; empty where all did."""
    missing = ", ".join(str(number) for number in numbers if number not in alone)
    why = f"no process that was forked before answered within {seconds:.3g} s"
    if not template.is_possible():
        why = "processes cannot be forked on this system"
    return missing and (
        f"outputs of a process's first call were not compared with later ones for input {missing}: "
        f"{why}, so an effect of the first call on all later ones would not be found"
    )


def noise_of_first_calls(
    later: Mapping[int, Arrays], alone: Mapping[int, Arrays], epsilon: float, changed: Sequence[str]
) -> Noise:
    """How far answers of first calls are from those of later ones; none within rounding."""
    from benchorch.results.parity.noise import noise_between

    noise = noise_between([later[n] for n in alone], [*alone.values()], epsilon=epsilon)
    if not noise.beyond_rounding:
        return Noise()
    where, _, place = noise.where.rpartition(" ")
    where = f"{where} {[*alone][int(place)]}, as the first call of all"
    return replace(noise, where=where, causes=tuple(changed) or (_CAUSE,))
