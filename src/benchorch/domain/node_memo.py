"""Values computed once for nodes that many cells share."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar, cast, final

T = TypeVar("T")


@final
class NodeMemo:
    """Cache of values derived from configuration nodes, keyed by node identity.

    The cells of a sweep share the nodes that they have in common, and comparing two nodes would
    cost more than most of what is computed from them.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Hashable, ...], tuple[object, Sequence[Any]]] = {}

    def of(self, what: Hashable, nodes: Sequence[Any], work: Callable[[], T]) -> T:
        """The value of that name for these nodes, computed the first time; errors are not kept."""
        key = (what, *map(id, nodes))
        known = self._known.get(key)
        if known is None:  # the nodes are kept with it, so that no other takes their identities
            known = self._known[key] = (work(), nodes)
        return cast(T, known[0])
