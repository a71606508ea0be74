"""Measure five conversions of GPT-2 that generate tokens; write the table of the guide.

    python scripts/write_generation.py [--work runs/generation] [--write-only]

Runs recipes/gpt2_generation.yaml, some 20 minutes on a quiet machine of two cores. It can be ended
and started at any time: what has been measured is kept under --work. The page says on which machine
it was made, and whether other work ran there beside it: a table for readers needs a quiet one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "guides" / "generation.md"
START, END = "<!-- table of write_generation.py -->", "<!-- end of the table -->"
MADE = "made.json"
BUSY_RATIO = 0.25
"""A load average above this share of the processors is other work."""


def main() -> int:
    """Run what has not run, write the page; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "generation")
    parser.add_argument("--write-only", action="store_true", help="run nothing")
    options = parser.parse_args()
    run = options.work / "run"
    if not options.write_only and (code := _run(options.work, run)):
        print(f"benchorch ended with exit code {code}; run the script again to go on.")
        return code
    table = run / "table.md"
    if not table.exists():
        print(f"{table} does not exist: nothing has been measured; leave out --write-only.")
        return 1
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    _, found, after = rest.partition(END)
    if not found:
        print(f"{PAGE} lacks the lines {START} and {END}, between which the table goes.")
        return 1
    made = json.loads((options.work / MADE).read_text())
    text = f"{START}\n{_origin(made)}\n\n{_rows(table)}\n{END}"
    PAGE.write_text(before + text + after, encoding="utf-8")
    print(f"Wrote {PAGE}")
    return 0


def _run(work: Path, run: Path) -> int:
    """Start the recipe, or go on where it was ended."""
    program = [sys.executable, "-m", "benchorch"]
    words = ["resume", str(run)]
    load = os.getloadavg()[1]
    made = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "load": load, "processors": os.cpu_count()}
    if (work / MADE).exists():
        before = json.loads((work / MADE).read_text())
        made["load"] = max(load, before["load"])
    if not (run / "plan.json").exists():
        words = ["recipes/gpt2_generation.yaml", f"store.root={work / 'store'}"]
        words += [f"hydra.run.dir={run}", "recorder=none"]
    work.mkdir(parents=True, exist_ok=True)
    (work / MADE).write_text(json.dumps(made))
    return subprocess.run([*program, *words], cwd=ROOT, check=False).returncode


def _origin(made: dict[str, float]) -> str:
    busy = made["load"] > BUSY_RATIO * made["processors"]
    beside = (
        f"**Other work ran on the machine (load average {made['load']:.1f}): ratios between rows "
        "count, times do not.**"
        if busy
        else "Nothing else ran on the machine."
    )
    return (
        f"GPT-2 small, 128 prompt tokens, 32 new tokens, {made['processors']} processors, "
        f"{made['date']}. {beside} Made by `make generation`."
    )


def _rows(table: Path) -> str:
    """The table alone, of a page with sentences beside it."""
    lines = table.read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if line.startswith("|"))


if __name__ == "__main__":
    sys.exit(main())
