"""Result of one account check."""

from dataclasses import dataclass
from enum import StrEnum


class FindingState(StrEnum):
    """How a finding bears on a stack."""

    OK = "ok"
    WARNING = "warning"  # the stack works, perhaps not all of it
    UNKNOWN = "unknown"  # AWS did not answer, or only a running machine can
    FAILED = "failed"  # the stack will not work


@dataclass(frozen=True, slots=True)
class AccountFinding:
    """Row of the table of account checks.

    Attributes:
        check: name of the check.
        subject: what was examined, e.g. ``g5.xlarge``.
        observed: what AWS reports.
        remedy: the next command or action; empty where nothing is to do.
    """

    check: str
    state: FindingState
    subject: str
    observed: str
    remedy: str = ""
