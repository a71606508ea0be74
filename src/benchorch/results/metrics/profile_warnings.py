"""What should a reader of a trial's profile doubt in it, or miss?"""

from __future__ import annotations

from benchorch.domain.profile import DILATION_LIMIT_RATIO, ProfileRecord


def profile_doubts(record: ProfileRecord | None) -> tuple[str, ...]:
    """One sentence each; nothing where no profile was asked for."""
    if record is None:
        return ()
    missing = (f"What limits it is not known: {record.unavailable}",) * bool(record.unavailable)
    return (*missing, *_dilation_doubts(record))


def _dilation_doubts(record: ProfileRecord) -> tuple[str, ...]:
    ratio = record.dilation_ratio
    if ratio is None or ratio <= DILATION_LIMIT_RATIO:
        return ()
    return (
        "The profiler made its calls longer by more than "
        f"{100 * (DILATION_LIMIT_RATIO - 1):.0f} %: what limits them is told from slowed calls.",
    )
