"""Errors of an output as a whole and of each row, channel and token of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy import float64, generic, int64
from numpy.typing import NDArray

from benchorch.results.parity.limits import (
    FAINT_RATIO,
    FAINT_SIGNAL_RATIO,
    FLOAT32_EPSILON,
    FLOAT64_EPSILON,
    GROUP_GAP,
    GROUP_SHARE,
    LEAST_VARYING,
    ROUNDING_EPSILONS,
    ROWS_LEAST,
    ROWS_SHARE,
)
from benchorch.results.parity.sums import TERMS, FineSums, fine_sums

Array = NDArray[generic]
Floats = NDArray[float64]


OF_A_ROW = " of a row"
"""How the name of a cut ends whose slices are channels, or tokens, of single rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceSums:
    """Sums over the elements of each slice; all of shape (slices,), float64.

    Attributes:
        size: number of elements in each slice.
        error, error_squares: of ``y - ref``.
        value, value_squares: of ``ref``.
        noise_squares: of the reference's own error against float64; zeros where it is unknown.
    """

    size: int
    error: Floats
    error_squares: Floats
    value: Floats
    value_squares: Floats
    noise_squares: Floats

    def norms(self, members: NDArray[generic]) -> tuple[float, float]:
        """Error and value of these slices together, by a mask or by their numbers."""
        squares = self.error_squares[members].sum(), self.value_squares[members].sum()
        return float(np.sqrt(squares[0])), float(np.sqrt(squares[1]))

    @property
    def centred(self) -> SliceSums:
        """The same with each slice's own mean taken out of error and reference."""
        zeros = np.zeros_like(self.error)
        return SliceSums(
            size=self.size,
            error=zeros,
            error_squares=_without_mean(self.error, self.error_squares, self.size),
            value=zeros,
            value_squares=_without_mean(self.value, self.value_squares, self.size),
            noise_squares=self.noise_squares,
        )


def _without_mean(total: Floats, squares: Floats, size: int) -> Floats:
    """``sum((x - mean)^2)``, from ``sum(x)`` and ``sum(x^2)``; 0 for what is cancelled."""
    if size < 2:
        return np.zeros_like(squares)
    found = squares - total**2 / size
    return np.where(found > 1e-12 * squares, found, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """All slices of one cut.

    Attributes:
        cut: for people: ``row``, ``channel``, ``position on axis 1 of a row``.
        sums: of each.
        groups: which slices are alike in size, a number each, shape (slices,).
        shape: of the slices' own numbers, the input first where they are not pooled.
        axes: what a place on each axis is called, e.g. ``row {}``.
        numbers: which slices of that shape these are; None for all of them.
    """

    cut: str
    sums: SliceSums
    groups: NDArray[int64]
    shape: tuple[int, ...]
    axes: tuple[str, ...]
    numbers: NDArray[int64] | None = None

    def named(self, index: int) -> str:
        """``row 3 of input 0``."""
        number = index if self.numbers is None else int(self.numbers[index])
        place = [int(each) for each in np.unravel_index(number, self.shape)]
        parts = [name.format(number) for name, number in zip(self.axes, place, strict=True)]
        return " of ".join(reversed(parts))


@dataclass(frozen=True, eq=False, kw_only=True)
class Compared:
    """Output over all inputs of one shape.

    Attributes:
        pairs: output and reference of each input, finite, of one shape that has an axis.
        exact: the reference in float64 of each, or empty.
        inputs: the number of each input, for people.
        tolerance_ratio: what is asked for; nobody is granted more rounding than that.
    """

    pairs: Sequence[tuple[Array, Array]]
    tolerance_ratio: float
    exact: Sequence[Array] = ()
    inputs: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape over all inputs; the input is the first axis."""
        return (len(self.pairs), *self.pairs[0][1].shape)

    @cached_property
    def _fine(self) -> FineSums:
        return fine_sums(self.pairs, self.exact)

    @cached_property
    def rounding(self) -> float:
        """Error of one element that rounding alone explains.

        It is float32's, and of an output in float64 what the reference's own error there explains.
        """
        size = int(np.prod(self.shape, dtype=np.int64))
        usual, own = (
            float(np.sqrt(squares.sum() / size)) if size else 0.0
            for squares in (self.whole.value_squares, self.whole.noise_squares)
        )
        most = min(ROUNDING_EPSILONS * FLOAT32_EPSILON, self.tolerance_ratio) * (usual or 1.0)
        if not self.exact or self.pairs[0][1].dtype != np.float64:
            return most
        return min(most, ROUNDING_EPSILONS * max(own, FLOAT64_EPSILON * (usual or 1.0)))

    def sums(self, kept: tuple[int, ...]) -> SliceSums:
        """Over all axes but those kept, which are inputs, rows and one of the channel axes."""
        own = kept[-1]
        ends = self._fine.last if own == len(self.shape) - 1 > 1 else self._fine.first
        fine = self._fine.between.get(own - 1, ends)
        if len(self.shape) < 4 and kept == (0, 1):
            added = fine.reshape(TERMS, -1)  # the rows are the axis that was kept
        elif len(kept) == 3:
            added = fine.reshape(TERMS, -1)
        else:
            over = {(0,): (2, 3), (0, 1): (3,)}.get(kept, (1, 2))
            added = fine.sum(axis=over).reshape(TERMS, -1)
        error, error_squares, value, value_squares, noise_squares = added
        others = [size for axis, size in enumerate(self.shape) if axis not in kept]
        return SliceSums(
            size=int(np.prod(others, dtype=np.int64)),
            error=error,
            error_squares=error_squares,
            value=value,
            value_squares=value_squares,
            noise_squares=noise_squares,
        )

    @cached_property
    def whole(self) -> SliceSums:
        """Each input's output as a whole."""
        return self.sums((0,))

    def channel_axes(self) -> tuple[int, ...]:
        """Axes of channels: all after inputs and rows."""
        return tuple(range(2, len(self.shape)))

    def groups_along(self, axis: int) -> NDArray[int64]:
        """Channels of one axis in groups of like size, shape (channels,)."""
        return self._groups[axis]

    @cached_property
    def _groups(self) -> dict[int, NDArray[int64]]:
        return {axis: self._grouped(axis) for axis in self.channel_axes()}

    def _grouped(self, axis: int) -> NDArray[int64]:
        sums = self.sums((axis,))
        usual = np.sqrt(sums.value_squares / max(sums.size, 1))
        others = tuple(other for other in range(len(self.shape) - 1) if other != axis - 1)

        def is_dense(members: NDArray[int64]) -> bool:
            parts = [np.take(ref, members, axis=axis - 1) != 0 for _, ref in self.pairs]
            return bool(np.mean([part.mean(axis=others) for part in parts], axis=0).min() > 0.5)

        return grouped(usual, self.rounding, is_dense)

    def row_groups(self) -> list[NDArray[int64]]:
        """Numbers of rows of all inputs in groups of like size; empty where all are alike."""
        sums = self.sums((0, 1))
        usual = np.sqrt(sums.value_squares / max(sums.size, 1))
        order = np.argsort(usual)
        order = order[usual[order] > self.rounding]
        jumps = np.flatnonzero(usual[order][1:] > GROUP_GAP * usual[order][:-1]) + 1
        least = max(ROWS_LEAST, ROWS_SHARE * len(usual))
        groups = [np.sort(one) for one in np.split(order, jumps) if len(one) >= least]
        return groups if len(groups) > 1 else []

    def cuts(self) -> Iterator[Slices]:
        """Every way to cut it, rows first."""
        shape, last = self.shape, len(self.shape) - 1
        if last < 1:
            return
        rows = self.sums((0, 1))
        yield self._slices("row", rows, np.zeros(len(rows.error), np.int64), (0, 1))
        for axis in self.channel_axes():
            groups = self.groups_along(axis)
            yield self._slices(self._axis_name(axis), self.sums((axis,)), groups, (axis,))
        for axis in self.channel_axes() if last > 2 else ():
            kept = (0, 1, axis)
            groups = np.tile(self.groups_along(axis), shape[0] * shape[1])
            yield self._slices(f"{self._axis_name(axis)}{OF_A_ROW}", self.sums(kept), groups, kept)

    def variations(self, *, low_precision: bool) -> Iterator[Slices]:
        """Variations: of each input's output as a whole, and of each channel over the rows."""
        ones = np.zeros(len(self.inputs), dtype=np.int64)
        about = self._about_its_mean
        cuts = [self._slices("output", about.whole, ones, (0,))]
        cuts = cuts if self.whole.size >= LEAST_VARYING else []
        cuts += [
            self._slices(
                self._axis_name(axis), about.sums((axis,)), self.groups_along(axis), (axis,)
            )
            for axis in self.channel_axes()
        ]
        for cut in cuts:
            offsets = cut.sums.value / max(cut.sums.size, 1)
            centred = replace(cut, sums=cut.sums.centred)
            found = carrying(centred, offsets, self.rounding, low_precision=low_precision)
            if found.sums.error.size:
                yield found

    @cached_property
    def _about_its_mean(self) -> Compared:
        """The same about the mean of float64: in sums of its squares, what varies would be lost."""
        if self.pairs[0][1].dtype != np.float64:
            return self
        mean = float(np.mean([ref.mean() for _, ref in self.pairs]))
        return replace(
            self,
            pairs=[(_minus(y, mean), _minus(ref, mean)) for y, ref in self.pairs],
            exact=[_minus(each, mean) for each in self.exact],
        )

    def _axis_name(self, axis: int) -> str:
        """Name of an axis: channel, token or another."""
        return "channel" if len(self.shape) < 4 else f"position on axis {axis - 1}"

    def _place(self, axis: int) -> str:
        channel = "channel {}" if len(self.shape) < 4 else f"position {{}} on axis {axis - 1}"
        return {0: "input {}", 1: "row {}"}.get(axis, channel)

    def _slices(
        self, cut: str, sums: SliceSums, groups: NDArray[int64], kept: tuple[int, ...]
    ) -> Slices:
        return Slices(
            cut=cut,
            sums=sums,
            groups=groups,
            shape=tuple(self.shape[axis] for axis in kept),
            axes=tuple(map(self._place, kept)),
        )


def _minus(values: Array, mean: float) -> Floats:
    return np.asarray(values, dtype=np.float64) - mean


def grouped(usual: Floats, rounding: float, is_dense: object) -> NDArray[int64]:
    """Numbers of groups: channels in order of size, cut where the next one is much larger.

    Parameters
    ----------
    usual : ndarray, shape (channels,)
        Root mean square of each.
    rounding : float
        Channels no larger than this are dead and join the smallest group.
    is_dense : callable
        Of the indices of a small group, whether it is hardly ever exactly zero; otherwise it
        joins the next larger one.
    """
    found = np.zeros(len(usual), dtype=np.int64)
    order = np.argsort(usual)
    order = order[usual[order] > rounding]
    if len(order) < 2:
        return found
    jumps = np.flatnonzero(usual[order][1:] > GROUP_GAP * usual[order][:-1]) + 1
    number = 0
    for members in np.split(order, jumps):
        found[members] = number
        large = len(members) >= GROUP_SHARE * len(usual)
        number += int(large or is_dense(members))  # type: ignore[operator]
    return found


def errors(slices: Slices, rounding: float) -> Floats:
    """Each slice's error against its own size, shape (slices,).

    A slice is measured against its own norm; one that is much fainter than those of its group,
    against a part of theirs, the larger the fewer elements it has: few numbers may all be near
    zero by chance. An error that rounding explains is none.

    Parameters
    ----------
    rounding : float
        Of one element.
    """
    sums = slices.sums
    part = FAINT_RATIO**2 + 1 / max(sums.size, 1)
    norms = np.sqrt(sums.value_squares + part * _usual_squares(slices))
    found = np.sqrt(sums.error_squares)
    left = np.where(found > rounding * sums.size**0.5, found, 0.0)
    # An error against nothing is as large as one can be told.
    with np.errstate(over="ignore"):
        return np.minimum(left / np.maximum(norms, np.finfo(float).tiny), np.finfo(np.float32).max)


def _usual_squares(slices: Slices) -> Floats:
    """The median square of each slice's group, shape (slices,)."""
    squares = slices.sums.value_squares
    usual = np.zeros_like(squares)
    for group in np.unique(slices.groups):
        members = slices.groups == group
        live = squares[members]
        usual[members] = np.median(live) if live.size else 0.0
    return usual


def carrying(slices: Slices, offsets: Floats, rounding: float, *, low_precision: bool) -> Slices:
    """Only those slices that vary by more than rounding does.

    Parameters
    ----------
    slices : Slices
        Each without its own mean.
    offsets : ndarray, shape (slices,)
        The mean of each that was taken out.
    """
    sums = slices.sums
    deviations = np.sqrt(sums.value_squares / max(sums.size, 1))
    explained = rounding + 4 * np.sqrt(sums.noise_squares / max(sums.size, 1))
    if low_precision:
        explained = explained + FAINT_SIGNAL_RATIO * np.abs(offsets)
    kept = np.flatnonzero(deviations > explained)
    fields = ("error", "error_squares", "value", "value_squares", "noise_squares")
    few = replace(sums, **{name: getattr(sums, name)[kept] for name in fields})
    return replace(slices, sums=few, groups=slices.groups[kept], numbers=kept)


def tenth(values: Floats) -> float:
    """Threshold of the worst tenth: nine of ten values are no larger; the maximum of few."""
    return float(np.quantile(values, 0.9, method="higher")) if values.size else 0.0
