"""Matching of the trials of two runs, by what they measure.

Their ids change with any option, and options are often what changed.
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchorch.formatting import axes_of, cell_name, varying_labels
from benchorch.results.compare.compatibility import factor_of
from benchorch.results.compare.stored_run import StoredTrial

_LABELS = ("model", "conversion", "hardware", "workload", "scenario")


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Two trials that are compared: B against A.

    Attributes:
        name: for people, without what all matches of a table share.
    """

    name: str
    a: StoredTrial
    b: StoredTrial

    def sides_that(self, is_so: Callable[[StoredTrial], object]) -> str:
        """``A``, ``B``, ``A and B`` or nothing: those of which something holds."""
        sides = {"A": self.a, "B": self.b}
        return " and ".join(name for name, side in sides.items() if is_so(side))


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmatched:
    """A trial without a counterpart.

    Attributes:
        side: ``A`` or ``B``.
        reason: one sentence.
    """

    name: str
    side: str
    stored: StoredTrial
    reason: str


def match(
    a: Sequence[StoredTrial], b: Sequence[StoredTrial], across: Collection[str]
) -> tuple[tuple[Match, ...], tuple[Unmatched, ...]]:
    """Every trial of both sides, either with its counterpart or alone with the reason.

    First those with the same content, then those with the same labels and swept keys, then those
    with the same labels whose swept keys do not contradict each other. Where several fit, none
    is chosen.

    Args:
        across: factors that may differ, so that their labels do not count.
    """
    names = _names((*a, *b))
    rounds = (
        _Criterion(lambda stored: stored.trial.trial_id, _always),
        _Criterion(_labels_and_axes(across), _always),
        _Criterion(_labels(across), _no_contradiction(across)),
    )
    found: dict[int, tuple[StoredTrial, StoredTrial]] = {}
    taken: set[int] = set()
    for fitting in rounds:
        for one, other in fitting.pairs(_left(a, found), _left(b, taken)):
            found[id(one)] = one, other
            taken.add(id(other))
    pairs = [found[id(one)] for one in a if id(one) in found]
    matches = tuple(Match(name=_name(names, *pair), a=pair[0], b=pair[1]) for pair in pairs)
    left_a, left_b = _left(a, found), _left(b, taken)
    alone = [_alone("A", one, rounds[-1].fitting(one, left_b), names) for one in left_a]
    alone += [_alone("B", one, rounds[-1].fitting(one, left_a), names) for one in left_b]
    return matches, tuple(alone)


@dataclass(frozen=True, slots=True)
class _Criterion:
    """Criterion of a match: an equal key, and further agreement."""

    key: Callable[[StoredTrial], Hashable]
    agree: Callable[[StoredTrial, StoredTrial], bool]

    def pairs(
        self, a: Sequence[StoredTrial], b: Sequence[StoredTrial]
    ) -> Iterator[tuple[StoredTrial, StoredTrial]]:
        """The pairs in which each is the other's only candidate."""
        groups: dict[Hashable, tuple[list[StoredTrial], list[StoredTrial]]] = {}
        for index, side in enumerate((a, b)):
            for stored in side:
                groups.setdefault(self.key(stored), ([], []))[index].append(stored)
        for of_a, of_b in groups.values():
            for one in of_a:
                candidates = self.fitting(one, of_b)
                if len(candidates) == 1 and len(self.fitting(candidates[0], of_a)) == 1:
                    yield one, candidates[0]

    def fitting(self, stored: StoredTrial, others: Sequence[StoredTrial]) -> list[StoredTrial]:
        """Trials among the others that match this one."""
        key = self.key(stored)
        return [one for one in others if self.key(one) == key and self.agree(stored, one)]


def _left(side: Sequence[StoredTrial], taken: Collection[int]) -> list[StoredTrial]:
    return [stored for stored in side if id(stored) not in taken]


def _names(stored: Sequence[StoredTrial]) -> Mapping[int, str]:
    varying = varying_labels([one.trial.labels for one in stored])
    return {id(one): cell_name(one.trial.labels, varying) for one in stored}


def _name(names: Mapping[int, str], a: StoredTrial, b: StoredTrial) -> str:
    of_a, of_b = names[id(a)], names[id(b)]
    return of_a if of_a == of_b else f"{of_a} → {of_b}"


def _alone(
    side: str, stored: StoredTrial, fitting: Sequence[StoredTrial], names: Mapping[int, str]
) -> Unmatched:
    other = "B" if side == "A" else "A"
    if fitting:
        several = ", ".join(names[id(one)] for one in fitting)
        reason = f"no one-to-one counterpart in {other} ({several}): name one with RUN::CONVERSION."
    else:
        reason = f"{other} has no such trial."
    return Unmatched(name=names[id(stored)], side=side, stored=stored, reason=reason)


def _labels(across: Collection[str]) -> Callable[[StoredTrial], Hashable]:
    names = [name for name in _LABELS if name not in across]
    return lambda stored: tuple(stored.trial.labels.get(name, "") for name in names)


def _labels_and_axes(across: Collection[str]) -> Callable[[StoredTrial], Hashable]:
    labels = _labels(across)
    return lambda stored: (labels(stored), frozenset(_axes(stored, across).items()))


def _always(a: StoredTrial, b: StoredTrial) -> bool:
    return True


def _no_contradiction(across: Collection[str]) -> Callable[[StoredTrial, StoredTrial], bool]:
    def agree(a: StoredTrial, b: StoredTrial) -> bool:
        of_a, of_b = _axes(a, across), _axes(b, across)
        return all(of_a[key] == of_b[key] for key in of_a.keys() & of_b.keys())

    return agree


def _axes(stored: StoredTrial, across: Collection[str]) -> Mapping[str, str]:
    """The swept keys with their values, without those of the factors."""
    pairs = (word.partition("=") for word in axes_of(stored.trial.labels))
    return {key: value for key, _, value in pairs if factor_of(key) not in across}
