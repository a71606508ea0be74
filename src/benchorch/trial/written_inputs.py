"""Inputs that calls write in place: what a caller finds in its arguments afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchorch.domain import parity_task
from benchorch.domain.verdict import Kind, Verdict
from benchorch.frameworks.host_arrays import is_floating
from benchorch.frameworks.numpy_files import save_arrays, saved
from benchorch.interfaces.runtime import Executable
from benchorch.results.parity.judge import parity
from benchorch.results.parity.noise import noise_between

if TYPE_CHECKING:
    from numpy import generic
    from numpy.typing import NDArray

    Array = NDArray[generic]
    Arrays = Mapping[str, Array]

_CARRIED = (
    "; what eager leaves in it comes from other inputs and is in no output, so that a caller which "
    "passes it on, as a decoder does its cache, continues with another one "
    "(parity.ignore_written_inputs=true accepts that)."
)
_NOTED = "; a caller that reads it after the call finds another value than after eager's."


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Inputs that eager writes in place.

    Attributes:
        names: of all that any of the compared inputs shows.
        carried: those of them whose new content comes from other inputs and is in no output: a
            decoder's cache, a state.
    """

    names: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()


def written_file(directory: Path, index: int) -> Path:
    """File with what eager leaves in the inputs that it writes, of an input set; if it does."""
    return directory / f"{index}.written.npz"


def find_written(
    eager: Executable, given: Mapping[int, Arrays], outputs: Mapping[int, Arrays], out: Path
) -> Written:
    """The inputs that eager writes, whose new content goes into files.

    Args:
        eager: is called once more with each input set.
        given: input sets by number.
        outputs: eager's, by the same.
        out: the reference's directory.
    """
    found = {number: eager.written(one) for number, one in given.items()}
    for number, one in found.items():
        if one:
            save_arrays(written_file(out, number), one)
    first: dict[str, int] = {}
    for number, one in found.items():
        for name in one:
            first.setdefault(name, number)
    return Written(
        names=tuple(first),
        carried=tuple(
            name
            for name, number in first.items()
            if not _is_among(found[number][name], outputs[number])
            and _follows_from_others(eager, name, number, given, found[number][name])
        ),
    )


def _is_among(array: Array, outputs: Arrays) -> bool:
    import numpy as np

    return any(
        np.array_equal(array, each, equal_nan=array.dtype.kind == each.dtype.kind == "f")
        for each in outputs.values()
    )


def _follows_from_others(
    eager: Executable, name: str, number: int, given: Mapping[int, Arrays], content: Array
) -> bool:
    """Whether an input's new content is another where only the other inputs are.

    Yes as well where that cannot be tried.
    """
    own = given[number]
    if len(own) == 1:
        return False
    shapes = {each: array.shape for each, array in own.items()}
    others = (one for one in given.values() if one is not own)
    alike = next(
        (one for one in others if {each: array.shape for each, array in one.items()} == shapes),
        None,
    )
    if alike is None:
        return True
    try:
        after = eager.written({**alike, name: own[name]})
    except MemoryError:
        raise
    except Exception:  # inputs that do not fit each other, which a user's model may refuse anyhow
        return True
    return noise_between([{name: content}], [{name: after.get(name, own[name])}]).beyond_rounding


def with_written(
    verdict: Verdict,
    executable: Executable,
    given: Mapping[int, Arrays],
    eager: Written,
    reference: Path,
    *,
    ignored: bool,
) -> Verdict:
    """The verdict with inputs that a conversion leaves otherwise than eager.

    What a caller gets nowhere else is compared as outputs are. Of other inputs it is noted: that a
    model normalises its input in place is common, and few callers read that input again. An input
    that the conversion alone overwrites is a reason to fail.

    Args:
        verdict: on the outputs.
        executable: of the conversion.
        given: input sets by number.
        eager: the inputs that eager writes.
        reference: the directory of eager's outputs.
        ignored: whether all of it is only noted.
    """
    if verdict.kind is Kind.NOT_DETERMINISTIC or not given:
        return verdict
    files = {number: written_file(reference, number) for number in given}
    theirs = {number: saved(file) for number, file in files.items() if file.exists()}
    first = next(iter(given))
    ours = {number: executable.written(given[number]) for number in {first, *theirs}}
    reasons: list[str] = []
    unwritten: dict[str, str] = {}
    for name, found in _differing(ours, theirs, given, verdict.tolerance_ratio):
        if not ignored and (name in eager.carried or name not in eager.names):
            reasons.append(f"{found}{_CARRIED if name in eager.carried else '.'}")
        else:
            unwritten[name] = f"{found[0].upper()}{found[1:]}{_NOTED}"
    if not reasons:
        return replace(verdict, unwritten=unwritten)
    return replace(
        verdict,
        passed=False,
        kind=Kind.DIFFERS,
        reasons=(*verdict.reasons, *reasons),
        unwritten=unwritten,
    )


def _differing(
    ours: Mapping[int, Arrays],
    theirs: Mapping[int, Arrays],
    given: Mapping[int, Arrays],
    tolerance_ratio: float,
) -> Iterator[tuple[str, str]]:
    """Each input that is another one after the conversion's calls than after eager's, and how."""
    names = (name for side in (theirs, ours) for one in side.values() for name in one)
    for name in dict.fromkeys(names):
        by_us, by_eager = (
            [
                {name: side.get(number, {}).get(name, _as_given(given[number][name]))}
                for number in sorted(ours)
            ]
            for side in (ours, theirs)
        )
        found = parity(by_us, by_eager, tolerance_ratio, task=parity_task.NONE)
        if found.passed:
            continue
        if not any(name in one for one in ours.values()):
            how = f"eager writes input {name} in place, and this conversion leaves it as it was"
        elif not any(name in one for one in theirs.values()):
            how = f"this conversion overwrites input {name}, which eager leaves as it was"
        else:
            error = found.reasons[0].removeprefix(f"output {name}: ").rstrip(".")
            how = f"this conversion writes input {name} in place otherwise than eager ({error})"
        yield name, how


def _as_given(array: Array) -> Array:
    """An input as what is compared: half precision widened."""
    narrow = is_floating(array) and array.dtype.itemsize < 4
    return array.astype("float32") if narrow else array
