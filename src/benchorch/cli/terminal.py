"""Terminal output, questions and exit codes."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from benchorch.domain.reply import Reply
from benchorch.errors import BenchorchError, ConfigError, NoMachine

OK, FAILED, WRONG_REQUEST, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143


def ask(question: str) -> str:
    """A person's answer; empty where there is no terminal."""
    try:
        return input(question).strip()
    except EOFError:
        return ""


def print_out(text: str) -> None:
    """Print a part of the answer at once."""
    print(text, flush=True)


def print_err(text: str) -> None:
    """Print progress beside the answer."""
    print(f"  {text}", file=sys.stderr, flush=True)


def print_reply(reply: Reply, arguments: Sequence[str]) -> int:
    """Print a reply for people or, with ``--json``, for programs; its exit code."""
    if "--json" in arguments:
        print(json.dumps(reply.data, indent=2))
    elif reply.text:
        print(reply.text, file=sys.stderr if reply.exit_code == WRONG_REQUEST else sys.stdout)
    return reply.exit_code


def print_error(error: BenchorchError) -> int:
    """Print an error, of a wrong request each problem on a line of its own; the exit code."""
    if not isinstance(error, ConfigError):
        print(error, file=sys.stderr)
        return FAILED
    if isinstance(error, NoMachine):
        print(error.plan, flush=True)
        print(f"\n{error.ways}", file=sys.stderr)
        return WRONG_REQUEST
    count = len(error.problems)
    print(f"{count} problem{'' if count == 1 else 's'}; nothing was run:", file=sys.stderr)
    for problem in error.problems:
        print(f"  {problem}", file=sys.stderr)
    print("Try: python -m benchorch --help", file=sys.stderr)
    return WRONG_REQUEST
