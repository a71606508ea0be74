"""Judgement of one floating-point output: as a whole, what varies in it, and slice by slice."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy import float64, int64
from numpy.typing import NDArray

from benchorch.domain.verdict import SliceParity
from benchorch.results.parity.limits import LOST_FACTOR, REFEREE_FACTOR, ErrorLimits
from benchorch.results.parity.slices import OF_A_ROW, Compared, Slices, errors, tenth

Floats = NDArray[float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Figures of one output, and messages about its errors.

    Attributes:
        centred_ratio: the worst error against what varies, or None where nothing does.
        excused: whether it passes only because float32 is no better here.
    """

    reasons: tuple[str, ...]
    centred_ratio: float | None
    slices: tuple[SliceParity, ...]
    excused: bool = False


def judge_floats(
    parts: Sequence[Compared],
    limits: ErrorLimits,
    *,
    ours_ratio: float | None,
    baseline_ratio: float | None,
) -> Judged:
    """The judgement of one output.

    Parameters
    ----------
    parts : sequence of Compared
        Its inputs, those of one shape together.
    ours_ratio, baseline_ratio : float or None
        Relative L2 error of the output and of the reference against float64.
    """
    strict = _judged(parts, limits)
    if not strict.reasons or ours_ratio is None or baseline_ratio is None:
        return strict
    if ours_ratio > REFEREE_FACTOR * baseline_ratio:
        return strict
    lenient = _judged(parts, limits.excused(baseline_ratio))
    if lenient.reasons:
        return strict
    return replace(lenient, excused=True)


def _judged(parts: Sequence[Compared], limits: ErrorLimits) -> Judged:
    reasons = [reason for part in parts for reason in _whole(part, limits)][:1]
    varying = [found for part in parts for found in _varying(part, limits)]
    cut = [found for part in parts for found in _cut(part, limits)]
    groups = [reason for part in parts for reason in (*_groups(part, limits), *_rows(part, limits))]
    reasons += [reason for _, reason in varying if reason][:1]
    reasons += groups[:1]
    # The worst of all slices says best where to look.
    worst_first = sorted(cut, key=lambda each: -each[0].worst_ratio)
    reasons += [reason for _, reason in worst_first if reason][:1]
    return Judged(
        reasons=tuple(reasons),
        centred_ratio=max(
            (each.worst_ratio for each, _ in varying if each.cut == "output"), default=None
        ),
        slices=tuple(each for each, _ in (*varying, *cut) if each.cut != "output"),
    )


def _whole(part: Compared, limits: ErrorLimits) -> Iterator[str]:
    """Each input's whole output beyond the tolerance, the worst one first."""
    sums = part.whole
    found, norms = np.sqrt(sums.error_squares), np.sqrt(sums.value_squares)
    explained = part.rounding * sums.size**0.5
    wrong = (found > limits.tolerance_ratio * norms) & (found > explained)
    # Against zeros alone the error is counted in what rounding explains.
    ratios = np.where(wrong, found / np.where(norms > 0, norms, explained or 1.0), 0.0)
    for index in np.argsort(-ratios)[: int(wrong.sum())]:
        yield (
            f"relative L2 error {ratios[index]:.3g} exceeds {limits.tolerance_ratio:.3g} "
            f"on input {part.inputs[index]}."
        )


def _varying(part: Compared, limits: ErrorLimits) -> Iterator[tuple[SliceParity, str]]:
    """Losses of the reference's variation, within outputs and from row to row."""
    for slices in part.variations(low_precision=limits.low_precision):
        ratios = errors(slices, part.rounding)
        worst = int(ratios.argmax())
        inside = slices.cut == "output"
        loss = SliceParity(
            cut=slices.cut if inside else f"variation of a {slices.cut}",
            allowed_ratio=limits.centred_ratio if inside else limits.surviving_ratio,
            tenth_ratio=tenth(ratios),
            worst_ratio=float(ratios[worst]),
            worst=slices.named(worst),
        )
        yield loss, _lost_inside(loss) if inside else _lost_between(slices, loss, ratios, limits)


def _lost_inside(found: SliceParity) -> str:
    if found.worst_ratio <= found.allowed_ratio:
        return ""
    return (
        f"without what all values have in common the error is {found.worst_ratio:.3g} "
        f"({found.worst}); {found.allowed_ratio:.3g} is allowed."
    )


def _lost_between(slices: Slices, found: SliceParity, ratios: Floats, limits: ErrorLimits) -> str:
    """Loss of variation from row to row: in a group's channels together, and in single ones."""
    for group in np.unique(slices.groups):
        members = slices.groups == group
        error, value = slices.sums.norms(members)
        if error > limits.surviving_ratio * value and ratios[members].any():
            return (
                f"how it varies over rows and inputs is lost: the error is {error / value:.3g} of "
                f"that variation; {limits.surviving_ratio:.3g} is allowed."
            )
    allowed = max(limits.worst_ratio, LOST_FACTOR * float(np.median(ratios)))
    if found.worst_ratio <= allowed:
        return ""
    return (
        f"how {found.worst} varies over rows and inputs is lost: the error is "
        f"{found.worst_ratio:.3g} of that variation; {allowed:.3g} is allowed."
    )


def _groups(part: Compared, limits: ErrorLimits) -> Iterator[str]:
    """Groups of channels that are much smaller or larger than the others, each as a whole."""
    for axis in part.channel_axes():
        sums, groups = part.sums((axis,)), part.groups_along(axis)
        numbers = np.unique(groups)
        for number in numbers if len(numbers) > 1 else ():
            members = np.flatnonzero(groups == number).astype(np.int64)
            error, value = sums.norms(members)
            explained = part.rounding * (sums.size * len(members)) ** 0.5
            if error > limits.tenth_ratio * value and error > explained:
                yield (
                    f"{_listed(members)} on axis {axis - 1}, which are of another size than the "
                    f"rest, have a relative L2 error of {error / value if value else 1:.3g}; "
                    f"{limits.tenth_ratio:.3g} is allowed."
                )


def _rows(part: Compared, limits: ErrorLimits) -> Iterator[str]:
    """Groups of rows that are much smaller or larger than the others, each as a whole."""
    sums = part.sums((0, 1))
    for members in part.row_groups():
        error, value = sums.norms(members)
        explained = part.rounding * (sums.size * len(members)) ** 0.5
        if error > limits.tenth_ratio * value and error > explained:
            number, row = divmod(int(members[0]), part.shape[1])
            yield (
                f"{len(members)} rows of another size than the rest, the first of them row {row} "
                f"of input {part.inputs[number]}, have a relative L2 error of {error / value:.3g}; "
                f"{limits.tenth_ratio:.3g} is allowed."
            )


def _listed(members: NDArray[int64]) -> str:
    first, last = int(members[0]), int(members[-1])
    if len(members) == 1:
        return f"channel {first}"
    word = "to" if last - first == len(members) - 1 else "and others up to"
    return f"channels {first} {word} {last}"


def _cut(part: Compared, limits: ErrorLimits) -> Iterator[tuple[SliceParity, str]]:
    """Rows, channels and tokens: where the worst tenth begins, and the worst of all."""
    for slices in part.cuts():
        ratios = errors(slices, part.rounding)
        if not ratios.size:
            continue
        worst = int(ratios.argmax())
        loss = SliceParity(
            cut=slices.cut,
            allowed_ratio=limits.tenth_ratio,
            tenth_ratio=tenth(ratios),
            worst_ratio=float(ratios[worst]),
            worst=slices.named(worst),
        )
        yield loss, _said(loss, limits)


def _said(found: SliceParity, limits: ErrorLimits) -> str:
    many = found.cut.endswith(OF_A_ROW)
    most = limits.worst_of_many_ratio if many else limits.worst_ratio
    if found.worst_ratio > most:
        return (
            f"{found.worst} has a relative error of {found.worst_ratio:.3g}; no {found.cut} may "
            f"exceed {most:.3g}."
        )
    if found.tenth_ratio > limits.tenth_ratio:
        return (
            f"a tenth of all {_many(found.cut)} have a relative error of {found.tenth_ratio:.3g} "
            f"or more; {limits.tenth_ratio:.3g} is allowed."
        )
    return ""


def _many(cut: str) -> str:
    head, _, rest = cut.partition(" ")
    return f"{head}s {rest}".rstrip()
