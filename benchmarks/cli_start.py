"""How long ``--help``, ``--cfg job`` and ``plan`` take against a minimal Hydra application."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from _harness import interleave, python, ratio_row, run_process, table

MINIMAL = """
import hydra

@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def main(config):
    print(config)

main()
"""


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        application = Path(scratch) / "app.py"
        application.write_text(MINIMAL)
        (Path(scratch) / "conf").mkdir()
        (Path(scratch) / "conf" / "config.yaml").write_text("a: 1\n")
        runs = f"hydra.run.dir={scratch}/run"
        ours = ("-m", "benchorch")
        sides = {
            "floor": lambda: run_process(python(str(application), runs)),
            "help": lambda: run_process(python(*ours, "--help")),
            "cfg": lambda: run_process(python(*ours, "--cfg", "job")),
            "plan": lambda: run_process(python(*ours, "plan", "model=mlp", "conversion=eager")),
        }
        seen = interleave(sides, rounds)
    names = {"help": "`--help`", "cfg": "`--cfg job`", "plan": "`plan`, one cell"}
    print(table([ratio_row(text, seen, side, "floor", "1.3") for side, text in names.items()]))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
