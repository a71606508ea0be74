"""Every command that README and the pages without a test of their own show is a command."""

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *(f"docs/{name}.md" for name in ("fleet", "ray", "measurement", "resources")),
    *(f"docs/{name}.md" for name in ("scenarios", "sweeps")),
]
DETACHED = ("submit", "status", "logs", "cancel", "resume")
FENCE = re.compile(r"```(?:bash|sh)\n(.*?)```", re.DOTALL)
COMMAND = re.compile(r"^(?:\S+/)?python -m benchorch (.*?)(?:\s+#.*)?$", re.MULTILINE)


def commands():
    for page in PAGES:
        for block in FENCE.findall((ROOT / page).read_text()):
            for words in COMMAND.findall(block):
                yield pytest.param(shlex.split(words), id=f"{page}: {words}")


@pytest.mark.parametrize("words", list(commands()))
def test_a_documented_command_is_one(place, words):
    first = words[0]
    if first in ("ui", "record", "doctor", "report", "compare", "gate", "analyze", *DETACHED):
        place.run(first, "--help")
    elif first in ("cache", "plan", "conversions") or "--cfg" in words:
        place.run(*words)
    elif "<" not in " ".join(words) and not first.startswith("resume="):
        place.run("plan", *words)
