"""What events of a JSON trace say besides their columns, read from the file when asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import final

import numpy as np
from numpy.typing import NDArray

from benchorch.errors import TraceError
from benchorch.trace.readers.columns import ROW_BITS
from benchorch.trace.readers.records import UNREADABLE, arguments
from benchorch.trace.readers.source import TraceFile

_ROW = (1 << ROW_BITS) - 1


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class JsonDetails:
    """The arguments of records, by where their blocks stand in the file.

    Attributes:
        path: the file, which must still be what it was.
        blocks: where each block of records starts and ends in the unpacked file.
        place: (n,) block and row of each event.
    """

    path: Path
    blocks: Sequence[tuple[int, int]]
    place: NDArray[np.int64]

    def read(self, indices: Sequence[int]) -> Mapping[int, Mapping[str, object]]:
        """The arguments of some events by index; an empty mapping for those that have none."""
        found: dict[int, Mapping[str, object]] = {}
        by_place = sorted((int(self.place[index]), index) for index in indices)
        with TraceFile(self.path) as source:
            for block, group in groupby(by_place, key=lambda item: item[0] >> ROW_BITS):
                wanted = list(group)
                rows = [place & _ROW for place, _ in wanted]
                values = self._block(source, block, rows)
                found.update(
                    (index, value) for (_, index), value in zip(wanted, values, strict=True)
                )
        return found

    def _block(
        self, source: TraceFile, block: int, rows: Sequence[int]
    ) -> Sequence[Mapping[str, object]]:
        start, end = self.blocks[block]
        source.skip_to(start)
        text = source.read(end - start)
        try:
            return arguments(b"[" + text + b"]", rows)
        except (*UNREADABLE, IndexError) as error:
            raise TraceError(f"{self.path} has changed since it was read.") from error
