"""What nodes that were launched say of their start before they could join a cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence


class NodeStarts(ABC):
    """Reads what nodes have written where the coordinator can find it."""

    @abstractmethod
    def failed(self) -> Mapping[str, Sequence[str]]:
        """By hardware kind, each node whose start failed since this was made, and why.

        Called again and again while nodes are awaited; what it could not read now, it reads later.
        """
