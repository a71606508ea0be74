"""``benchorch check RUN``: what of a stored run holds, recomputed from its raw series."""

from collections.abc import Sequence

from benchorch.cli.command import command, run_argument
from benchorch.cli.terminal import Terminal
from benchorch.domain.reply import Reply
from benchorch.journal.registry import find_invocation
from benchorch.results.report.console_table import table_text
from benchorch.run.check import FAILS, RunFinding, check

_SHOWN = 20


@command("check", help="Recompute the figures of a stored run from its raw data, and compare them.")
@run_argument()
def run(terminal: Terminal, run: str) -> Reply:
    """Each question with its verdict; exit code 1 where something does not hold."""
    directory = find_invocation(run, "check")
    findings = check(directory, terminal.say)
    failed = any(finding.verdict == FAILS for finding in findings)
    data = [
        {"name": one.name, "verdict": one.verdict, "problems": list(one.problems)}
        for one in findings
    ]
    return Reply(
        text="\n".join(_lines(findings, failed=failed)),
        data={"directory": str(directory), "holds": not failed, "findings": data},
        exit_code=1 if failed else 0,
    )


def _lines(findings: Sequence[RunFinding], *, failed: bool) -> list[str]:
    rows: list[tuple[str, ...]] = [("asked", "verdict")]
    rows += [(one.name, one.verdict) for one in findings]
    lines = [table_text(rows), ""]
    for one in findings:
        lines += [f"{one.name}: {problem}" for problem in one.problems[:_SHOWN]]
        if len(one.problems) > _SHOWN:
            lines.append(f"{one.name}: and {len(one.problems) - _SHOWN} more; --json lists them")
    held = "Not all of this run holds." if failed else "All that was checked holds."
    return [*lines, f"{held} Digests are no signatures: they find damage and edits, not forgery."]
