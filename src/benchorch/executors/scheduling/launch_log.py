"""Refusals of the cloud in the autoscaler's log: its status omits them."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import final

LOG = "monitor.log"
TAIL_BYTES = 65536
_REFUSED = re.compile(
    rb"Failed to launch \d+ nodes of type (?P<type>\S+): (?P<why>[^\r\n]+)"
    rb"|ClientError: An error occurred (?P<error>\([\w.]+\)) "
    rb"when calling the (?P<call>\w+) operation"
    rb"(?: \([^)]*\))?: (?P<reason>[^\r\n]+)"
)
"""Of a launch, or of a call without which nothing is launched, in whose traceback it stands."""


@final
@dataclass(slots=True)
class LaunchLog:
    """The autoscaler's log from a position on, so that refusals of earlier sweeps do not count.

    Attributes:
        path: of the log; it exists on the head only.
        from_byte: where this sweep's part begins.
    """

    path: Path
    from_byte: int

    def last_refusal(self) -> str:
        """Node type or call, and the reason, of the last refusal, or an empty string."""
        try:
            with self.path.open("rb") as log:
                end = log.seek(0, os.SEEK_END)
                log.seek(max(min(self.from_byte, end), end - TAIL_BYTES))
                refused = list(_REFUSED.finditer(log.read(TAIL_BYTES)))
        except OSError:
            return ""
        if not refused:
            return ""
        found = {
            k: v.decode(errors="replace").strip() for k, v in refused[-1].groupdict(b"").items()
        }
        if found["type"]:
            return f"{found['type']}: {found['why']}"
        return f"{found['call']}: {found['error']} {found['reason']}"


def launch_log(folder: Path) -> LaunchLog:
    """The log in a folder of Ray's logs, from its present end on."""
    path = folder / LOG
    try:
        return LaunchLog(path, path.stat().st_size)
    except OSError:
        return LaunchLog(path, 0)
