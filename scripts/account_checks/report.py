"""Findings as a table for people and as JSON."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from benchorch.hardware.aws_account.finding import AccountFinding, FindingState

NOT_READY, READY = 1, 0


def exit_code(findings: Sequence[AccountFinding]) -> int:
    """Whether `make provision` may go on."""
    return NOT_READY if any(one.state is FindingState.FAILED for one in findings) else READY


def as_json(findings: Sequence[AccountFinding]) -> str:
    """``ready`` and the findings, in one object."""
    content = {
        "ready": exit_code(findings) == READY,
        "findings": [asdict(finding) for finding in findings],
    }
    return json.dumps(content, indent=2)


def as_table(findings: Sequence[AccountFinding]) -> str:
    """Table with one finding per line, its remedy below it, and the counts at the end."""
    width = max((len(finding.subject) for finding in findings), default=0)
    lines = []
    for finding in findings:
        head = f"{finding.state:8} {finding.check:12} {finding.subject:{min(width, 32)}}"
        lines.append(f"{head}  {finding.observed}")
        if finding.remedy:
            lines.append(f"{'':21} -> {finding.remedy}")
    counts = Counter(finding.state for finding in findings)
    summary = ", ".join(f"{counts[state]} {state}" for state in FindingState if counts[state])
    return "\n".join([*lines, f"{summary}."])
