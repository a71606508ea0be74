"""Files that a node puts where the run's directory is archived, without the coordinator's help."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from benchorch.domain.result import UploadedFile


class AttemptFiles(ABC):
    """The place in a run's archive where nodes add files and replace none."""

    @abstractmethod
    def add(self, folder: Path, names: Sequence[str], trial_id: str) -> tuple[UploadedFile, ...]:
        """Upload files of a trial's folder below a name that no other attempt has.

        StoreError where one of them could not be stored.
        """
