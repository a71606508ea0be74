"""Start reports of launched nodes, from before they join a cluster."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence


class NodeStarts(ABC):
    """Reads what nodes have written where the coordinator can find it."""

    @abstractmethod
    def failed(self) -> Mapping[str, Sequence[str]]:
        """Reasons of failed starts since this object was made, by hardware kind.

        Called again and again while nodes are awaited; what it could not read now, it reads later.
        """
