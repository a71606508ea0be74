"""Every command that README and the pages without a test of their own show is a command."""

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OWN_TEST = ("cloud/cache.md", "guides/compare-and-gate.md", "guides/lightning.md")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NEEDS_A_RUN = (
    *("ui", "record", "doctor", "report", "compare", "gate", "analyze", "script", "init"),
    *("open", "export", "rerun", "check", "history", "reproduce"),
)
DETACHED = ("submit", "status", "logs", "cancel", "resume")
FENCE = re.compile(r"```(?:bash|sh)\n(.*?)```", re.DOTALL)
COMMAND = re.compile(r"^(?:\S+/)?python -m benchorch (.*?)(?:\s+#.*)?$", re.MULTILINE)


FIRST_READ = ("README.md", "getting-started.md")


def commands():
    """What is run for each command of the pages, the same only once.

    By default those that are read first, and one in six of the others.
    """
    tried = {}
    for page in PAGES:
        if str(page).endswith(OWN_TEST):
            continue
        for block in FENCE.findall(page.read_text()):
            for words in map(shlex.split, COMMAND.findall(block.replace("\\\n", " "))):
                tried.setdefault(tuple(attempt(words)), page.name)
    return [
        pytest.param(
            words,
            id=f"{page}: {' '.join(words)}",
            marks=() if page in FIRST_READ or number % 6 == 0 else pytest.mark.slow,
        )
        for number, (words, page) in enumerate(tried.items())
    ]


def attempt(words):
    """The nearest that can be run without its files and without measuring."""
    if words[0] in (*NEEDS_A_RUN, *DETACHED) or words[0].startswith("resume="):
        return [words[0].partition("=")[0], "--help"]
    is_complete = words[0] in ("cache", "plan", "conversions", "backends") or "--cfg" in words
    return words if is_complete else ["plan", *words]


@pytest.mark.parametrize("words", commands())
def test_a_documented_command_is_one(place, words):
    place.run(*words)
