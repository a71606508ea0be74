"""Machines that a cluster's autoscaler has launched, as their cloud has them."""

from abc import ABC, abstractmethod
from collections.abc import Collection


class LaunchedMachines(ABC):
    """Ends machines that have not joined their cluster, which the cluster itself cannot."""

    @abstractmethod
    def end_booting(self, kinds: Collection[str], joined: Collection[str]) -> int:
        """Terminate the cluster's machines of these kinds that boot; how many. Never raises.

        Args:
            joined: private addresses of the machines that have joined, which are left alone.
        """
