"""How many cases of each kind have passed, where `FUZZ` says how many shall."""

from __future__ import annotations

import os

import pytest

from support.mutations import COUNTS, passed_cases


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    """A line of each kind; those that are done are forgotten, as the next run is of newer code."""
    whole = int(os.environ.get("FUZZ", 0))
    for path in sorted(COUNTS.glob("test_*")) if whole else ():
        passed = passed_cases(path.name)
        terminalreporter.write_line(f"{passed:>7} of {whole} cases  {path.name}")
        if exitstatus == 0 and passed >= whole:
            path.unlink()
