"""The verdict on a conversion's outputs, by all rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from benchorch.domain import parity_task
from benchorch.domain.verdict import OutputParity, Verdict
from benchorch.results.parity.comparable import obstacle, real, unmatched
from benchorch.results.parity.decisions import (
    flipped,
    have_many_values,
    moved_by_one,
    renamed,
    tied,
    undecided,
)
from benchorch.results.parity.figures import against_referees, far_larger, figures, measured
from benchorch.results.parity.floats import Judged, judge_floats
from benchorch.results.parity.limits import LEAST_VARYING, ErrorLimits
from benchorch.results.parity.slices import Compared
from benchorch.results.parity.tasks import task_of, violations

if TYPE_CHECKING:
    from numpy import generic
    from numpy.typing import NDArray

    Array = NDArray[generic]
    Outputs = Sequence[Mapping[str, Array]]
    Pairs = Sequence[tuple[Array, Array]]
    Sides = Sequence[tuple[Mapping[str, Array], ...]]


_AS_QUANTITIES = "holds whole numbers, which were judged as quantities are"


def parity(
    outputs: Outputs,
    references: Outputs,
    tolerance_ratio: float,
    *,
    referees: Outputs = (),
    near: Sequence[Outputs] = (),
    inputs: Outputs = (),
    task: str = parity_task.AUTO,
    model: str = "",
    judged: bool = True,
) -> Verdict:
    """Agrees, or differs with a sentence for each violated rule.

    Outputs are matched by name. Names, shapes and kinds (floating point, whole numbers, ...)
    must agree, and NaN and infinities must be at the same places. Floating-point outputs are
    judged as a whole, in what varies in them, and row by row, channel by channel and token by
    token; all others must be equal, but for ties and, in low precision, a small share. What a
    task adds is in `tasks`. docs/measuring/parity.md has every limit.

    Parameters
    ----------
    outputs, references : sequence of mapping from name to ndarray of any shape
        One mapping for each input, in the same order. No input at all fails.
    tolerance_ratio : float
        The relative L2 error of a whole output that is allowed, e.g. 1e-3, from which all other
        limits follow. An error equal to it passes.
    referees : sequence of mapping from name to ndarray, optional
        The reference in float64, one mapping for each input.
    near : sequence of sequence of mapping from name to ndarray, optional
        For each input, whole numbers of the reference with weights some epsilons away.
    inputs : sequence of mapping from name to ndarray, optional
        What was computed on; shows which outputs are scores of tokens.
    task : str
        One of `parity_task.TASKS`.
    model : str, optional
        The model's class.
    judged : bool, default True
        Whether values that differ are a reason to fail; if not, only outputs that cannot be
        compared and values that are no numbers are.

    Returns
    -------
    Verdict
        Its numbers are finite: values that are not count as 0 in them, and a reason has their
        number. Outputs that cannot be compared have a reason and no numbers.
    """
    judge = _Judge(
        limits=ErrorLimits.of(tolerance_ratio),
        referees=referees,
        near=near,
        inputs=inputs,
        task=task,
        model=model,
        judged=judged,
    )
    if len(outputs) != len(references) or not references:
        reasons = [f"{len(outputs)} outputs for {len(references)} references."]
        return judge.verdict(reasons, [])
    sides = list(zip(outputs, references, strict=True))
    reasons = list(dict.fromkeys(reason for side in sides for reason in unmatched(*side)))
    common = [[name for name in ref if name in y] for y, ref in sides]
    names = list(dict.fromkeys(name for each in common for name in each))
    empty = [name for name in names if not any(r[name].size for r in references if name in r)]
    outputs_found = [judge.output(name, sides) for name in names]
    found = judge.verdict(reasons, outputs_found)
    notes = (
        f"output {name} has no value for any input: nothing of it was compared" for name in empty
    )
    return replace(found, notes=(*notes, *(one.note for one in outputs_found if one.note)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Output:
    """Findings of one output."""

    reasons: tuple[str, ...]
    figures: OutputParity | None = None
    excused: bool = False
    task: str = parity_task.NONE
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judge:
    """Everything that outputs are judged by."""

    limits: ErrorLimits
    referees: Outputs
    near: Sequence[Outputs]
    inputs: Outputs
    task: str
    model: str
    judged: bool

    def verdict(self, reasons: Sequence[str], found: Sequence[_Output]) -> Verdict:
        """All of it together."""
        everything = [*reasons, *(reason for each in found for reason in each.reasons)]
        tasks = dict.fromkeys(each.task for each in found if each.task != parity_task.NONE)
        if self._is_asked and not tasks:
            everything.append(_unfit(self.task))
        return Verdict(
            passed=not everything,
            reasons=tuple(everything),
            outputs=tuple(each.figures for each in found if each.figures is not None),
            tolerance_ratio=self.limits.asked_ratio,
            referee=tuple(
                each.figures.name for each in found if each.excused and each.figures is not None
            ),
            task="+".join(tasks),
        )

    @property
    def _is_asked(self) -> bool:
        return self.judged and self.task not in (parity_task.AUTO, parity_task.NONE)

    def output(self, name: str, sides: Sides) -> _Output:
        """One output over all inputs that have it."""
        having = [number for number, (y, ref) in enumerate(sides) if name in y and name in ref]
        sides = [sides[number] for number in having]
        pairs = [(real(y[name]), real(ref[name])) for y, ref in sides]
        wrong = next(filter(None, (obstacle(name, *pair) for pair in pairs)), None)
        if wrong:
            return _Output(reasons=(wrong,))
        numeric = pairs[0][1].dtype.kind in "fiub"
        referees = [real(each[name]) for each in self.referees if name in each]
        compared = figures(name, pairs, referees, self.inputs) if numeric else _bare(name, pairs)
        reasons = list(_strange(compared, pairs))
        if not self.judged:
            return _Output(reasons=tuple(f"output {name}: {r}" for r in reasons), figures=compared)
        task = self._task(name, pairs, sides)
        note = ""
        if pairs[0][1].dtype.kind == "f":
            judged = self._floats(compared, pairs, referees)
        else:
            near = [self.near[number] for number in having] if self.near else ()
            others = [[real(one[name]) for one in each if name in one] for each in near]
            judged, note = self._others(name, pairs, sides, others)
            if judged.reasons and pairs[0][1].dtype.kind in "iu":
                found = self._quantities(compared, pairs, sides, others)
                judged, note = found or judged, f"output {name} {_AS_QUANTITIES}" if found else note
        compared = replace(compared, centred_ratio=judged.centred_ratio, slices=judged.slices)
        reasons += judged.reasons
        if not reasons and self.task != parity_task.REGRESSION:
            reasons += filter(None, [renamed(pairs)])
        if not reasons:
            reasons += violations(task, pairs, self._limits_for(compared, judged))
        return _Output(
            reasons=tuple(f"output {name}: {reason}" for reason in reasons),
            figures=compared,
            excused=judged.excused,
            task=task,
            note=note,
        )

    def _task(self, name: str, pairs: Pairs, sides: Sides) -> str:
        is_whole = pairs[0][1].dtype.kind in "iu"
        if self.task == parity_task.REGRESSION and is_whole and not _are_whole(sides):
            return parity_task.NONE
        inputs = self.inputs[0] if len(self.inputs) >= len(pairs) else {}
        return task_of(self.task, name, pairs[0][1], inputs, self.model)

    def _limits_for(self, compared: OutputParity, judged: Judged) -> ErrorLimits:
        baseline = compared.baseline_error_ratio
        return self.limits.excused(baseline) if judged.excused and baseline else self.limits

    def _floats(self, compared: OutputParity, pairs: Pairs, referees: Sequence[Array]) -> Judged:
        ratios = compared.referee_error_ratio, compared.baseline_error_ratio
        judged = self._floats_alike(pairs, referees, self.limits, *ratios)
        large = [] if judged.reasons else far_larger([ref for _, ref in pairs])
        if not large:
            return judged
        small = [
            (np.where(at, 0, y), np.where(at, 0, ref))
            for (y, ref), at in zip(pairs, large, strict=True)
        ]
        exact = [
            np.where(at, 0, each)
            for each, at in zip(referees, large, strict=False)
            if each.shape == at.shape
        ]
        limits = ErrorLimits.of(self.limits.tenth_ratio)  # as for groups of channels
        others = self._floats_alike(small, exact, limits, *against_referees(small, exact))
        reasons = (f"beside values that are far larger, {reason}" for reason in others.reasons)
        return replace(judged, reasons=tuple(reasons))

    def _floats_alike(
        self,
        pairs: Pairs,
        referees: Sequence[Array],
        limits: ErrorLimits,
        ours_ratio: float | None,
        baseline_ratio: float | None,
    ) -> Judged:
        exact = list(referees) if [r.shape for r in referees] == [r.shape for _, r in pairs] else []
        parts = list(_parts(pairs, exact, limits.asked_ratio))
        return judge_floats(parts, limits, ours_ratio=ours_ratio, baseline_ratio=baseline_ratio)

    def _quantities(
        self, compared: OutputParity, pairs: Pairs, sides: Sides, near: Sequence[Sequence[Array]]
    ) -> Judged | None:
        """The verdict on whole numbers that are quantities; None on ids.

        As many as the baseline's own rounding moves may be the next number.
        """
        moved = 0 if self.task == parity_task.IDS else moved_by_one(pairs, near)
        if not moved and not (self.task == parity_task.REGRESSION and _are_whole(sides)):
            return None
        if sum(int((y != ref).sum()) for y, ref in pairs) <= moved:
            return Judged(reasons=(), centred_ratio=None, slices=())
        floats = [(y.astype(np.float64), ref.astype(np.float64)) for y, ref in pairs]
        return self._floats(compared, floats, ())

    def _others(
        self, name: str, pairs: Pairs, sides: Sides, near: Sequence[Sequence[Array]]
    ) -> tuple[Judged, str]:
        """The verdict on whole numbers, booleans and texts; a note about those of no account."""
        ties = [
            tied(y, ref, _beside(name, *each), self.limits) if ref.dtype.kind in "iu" else None
            for (y, ref), each in zip(pairs, sides, strict=True)
        ]
        free = undecided(pairs, near)
        reason = flipped(pairs, ties, self.limits, free)
        if reason and self.task == parity_task.AUTO and have_many_values(pairs):
            hint = "parity.task=regression" if _are_whole(sides) else "parity.metric"
            reason += f" If they are quantities, such as pixels, use {hint}."
        count = sum(int((f & (y != ref)).sum()) for f, (y, ref) in zip(free, pairs, strict=False))
        note = count and (
            f"{count} values of output {name} are others, which the baseline gives too with its "
            "weights 8 float32 epsilons away"
        )
        judged = Judged(reasons=(reason,) if reason else (), centred_ratio=None, slices=())
        return judged, note or ""


def _are_whole(sides: Sides) -> bool:
    """Whether no output has floating-point numbers, which a regression would be of."""
    return not any(each.dtype.kind == "f" for _, ref in sides for each in ref.values())


def _beside(
    name: str, output: Mapping[str, Array], reference: Mapping[str, Array]
) -> list[tuple[Array, Array]]:
    """All other outputs of one input that both sides have."""
    return [(output[key], reference[key]) for key in reference if key != name and key in output]


def _unfit(task: str) -> str:
    shapes = {
        parity_task.LANGUAGE_MODEL: "of shape (batch, length, vocabulary)",
        parity_task.IDS: "of whole numbers",
        parity_task.REGRESSION: "of numbers",
        parity_task.DETECTION: "of floating-point numbers with two axes",
    }
    needed = shapes.get(task, "of shape (rows, at least 2)")
    return f"parity.task={task} needs an output {needed}, and there is none."


def _bare(name: str, pairs: Pairs) -> OutputParity:
    """The figures of outputs that are no numbers."""
    unequal = any(bool((y != ref).any()) for y, ref in pairs)
    return OutputParity(
        name=name,
        shape=pairs[0][1].shape,
        dtype=str(pairs[0][1].dtype),
        max_abs=0.0,
        relative_l2_ratio=float(unequal),
        cosine_ratio=float(not unequal),
        argmax_agreement_ratio=None,
    )


def _strange(compared: OutputParity, pairs: Pairs) -> Iterator[str]:
    if compared.not_finite:
        size = sum(ref.size for _, ref in pairs)
        yield (
            f"{compared.not_finite} of {size} values are NaN or infinite on one side only, or not "
            "the same infinity."
        )


def _parts(pairs: Pairs, exact: Sequence[Array], tolerance_ratio: float) -> Iterator[Compared]:
    """Inputs of one shape together; numbers without further axes are rows of one channel."""
    shapes: dict[tuple[int, ...], list[int]] = {}
    for number, (_, ref) in enumerate(pairs):
        shapes.setdefault(ref.shape, []).append(number)
    for shape, numbers in shapes.items():
        if not all(shape):
            continue
        given = [(*pairs[n], *exact[n : n + 1]) for n in numbers]
        rows = shape or (1,)
        varies = len(rows) == 1 and rows[0] * len(numbers) >= LEAST_VARYING
        inner = (*rows, 1) if varies else rows
        shaped = [[side.reshape(inner) for side in measured(*each)] for each in given]
        yield Compared(
            pairs=[(each[0], each[1]) for each in shaped],
            exact=[each[2] for each in shaped] if exact else (),
            tolerance_ratio=tolerance_ratio,
            inputs=tuple(numbers),
        )
