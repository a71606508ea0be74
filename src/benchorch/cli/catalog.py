"""Every command with its place and its one line, and the help that lists them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple


class Listed(NamedTuple):
    """A command.

    Attributes:
        place: its module below `cli.commands`, and after a colon what it is called there, if not
            ``run``.
        text: what it does, in one line.
    """

    place: str
    text: str


SECTIONS: Mapping[str, Mapping[str, Listed]] = {
    "Measure": {
        "run": Listed("run", "a model, a recipe, a matrix (the word may be left out)"),
        "plan": Listed("plan", "what would run, with minutes and dollars; starts nothing"),
        "init": Listed("init", "write a recipe for a module of your own, and plan it"),
        "script": Listed("script", "find and benchmark the models in any script"),
        "submit": Listed("submit", "start a run that outlives the terminal, here or on a cluster"),
        "resume": Listed("run:resume", "continue a run that was interrupted"),
        "rerun": Listed("run:rerun", "run failed or named trials of a run once more"),
        "reproduce": Listed("reproduce", "measure a stored run again: are its figures reproduced?"),
        "duel": Listed("duel", "measure two versions of your code against each other"),
    },
    "Results": {
        "report": Listed("report", "a run's table again, or as a page, a sheet or JSON"),
        "open": Listed("open", "a run's page in the browser, also during the run"),
        "export": Listed("export", "a measured model as files that serve it without benchorch"),
        "compare": Listed("compare", "what became faster or slower between two runs"),
        "gate": Listed("gate", "the same for CI: fails on a regression"),
        "history": Listed("history", "figures over time and commits, as a site of plain files"),
        "check": Listed("check", "recompute a stored run's figures from its raw data"),
        "analyze": Listed("analyze", "why a profile is as slow as it is, and what would help"),
        "ui": Listed("ui", "MLflow over the local results"),
        "status": Listed("status", "progress of running sweeps"),
        "logs": Listed("logs", "the output of a trial"),
        "cancel": Listed("cancel", "end a run; results are kept"),
        "record": Listed("record", "copy a run's results to MLflow"),
        "keep": Listed("archive:run_keep", "copy a run's results to a bucket"),
        "fetch": Listed("archive:run_fetch", "copy a run's results from a bucket"),
    },
    "What there is": {
        "conversions": Listed("conversions", "what can be tried, and whether it can run here"),
        "backends": Listed("backends", "machines, their sizes, and what can run models there"),
        "cache": Listed("cache", "builds: list, explain, delete"),
        "doctor": Listed("doctor.command", "is this machine fit to measure on?"),
        "help": Listed("help", "any key or group: benchorch help protocol"),
        "completion": Listed("completion", "tab completion for bash, zsh, fish"),
        "version": Listed("run:version", "the installed version"),
    },
}
COMMANDS: Mapping[str, Listed] = {
    name: entry for section in SECTIONS.values() for name, entry in section.items()
}

EXAMPLES: Mapping[str, str] = {
    "init": "init mine.yaml --module ranker.py:build --input x=batch_size,16",
    "script": "script my_script.py",
    "submit": "submit model=bert",
    "resume": "resume RUN",
    "rerun": "rerun RUN --failed",
    "reproduce": "reproduce RUN",
    "duel": "duel recipes/two_commits.yaml --against main",
    "report": "report RUN",
    "open": "open RUN",
    "export": "export RUN --output winner",
    "compare": "compare RUN_A RUN",
    "gate": "gate --baseline RUN_A --candidate RUN --max-regression 2%",
    "history": "history RUN --output history",
    "check": "check RUN",
    "analyze": "analyze trace.json",
    "logs": "logs RUN",
    "cancel": "status",
    "record": "record RUN",
    "keep": "keep RUN --at s3://bucket/prefix",
    "fetch": "fetch --at s3://bucket/prefix",
    "conversions": "conversions onnxruntime",
    "backends": "backends g5",
    "cache": "cache list",
    "doctor": "doctor",
    "help": "help protocol",
    "completion": "completion bash",
}
"""A correct line of each command that takes arguments; RUN stands for a run's id."""

ABOUT_A_RUN = frozenset(
    {"analyze", "cancel", "status", *(name for name, line in EXAMPLES.items() if "RUN" in line)}
)
"""Commands that are given a run, which ``last`` can name."""

ON_A_HEAD = frozenset({"cancel", "logs", "resume", "status", "submit"})
"""Commands that a cluster's head carries out where one is named."""

SYNONYMS: Mapping[str, str] = {
    **dict.fromkeys(("bench", "benchmark", "exec", "execute", "measure", "start"), "run"),
    **dict.fromkeys(("dry-run", "check-plan", "preview"), "plan"),
    **dict.fromkeys(("list", "ls", "ps", "results", "runs"), "status"),
    **dict.fromkeys(("abort", "kill", "stop"), "cancel"),
    **dict.fromkeys(("show", "table"), "report"),
    **dict.fromkeys(("diff", "cmp"), "compare"),
    **dict.fromkeys(("explain", "profile", "trace"), "analyze"),
    **dict.fromkeys(("hardware", "instances", "machines"), "backends"),
    "models": "help model",
    "recipes": "run recipes/tiny.yaml",
    "retry": "rerun",
    "continue": "resume",
    "upload": "keep",
    "download": "fetch",
    **dict.fromkeys(("mlflow", "server"), "ui"),
    **dict.fromkeys(("serve", "models serve"), "export"),
    **dict.fromkeys(("runs list", "experiments", "experiments search"), "status"),
    **dict.fromkeys(("env", "info", "system"), "doctor"),
    "keys": "run --help",
}
"""What other tools call a command."""

_HEAD = """\
benchorch: which conversion of a model is fastest, and is it still the same?
  benchorch run model=mlp conversion=[eager,onnxruntime]  a list is a matrix
  benchorch run recipes/bert.yaml workload.seq_len=256    a recipe, overridden"""
_FOOT = """\
Everywhere  --json  --output FILE  --quiet  --verbose  --yes  --trust PATH
More        benchorch COMMAND --help; run --help: all keys; help KEY: one"""


def command_called(name: str) -> Any:
    """The click command of a name, whose module is imported now."""
    module, _, function = COMMANDS[name].place.partition(":")
    return getattr(import_module(f"benchorch.cli.commands.{module}"), function or "run")


def commands_data() -> dict[str, dict[str, str]]:
    """The same for programs: each section's commands, with what they do."""
    sections = SECTIONS.items()
    return {title: {name: one.text for name, one in known.items()} for title, known in sections}


def overview() -> str:
    """The help of the program: it fits a screen of 80 columns and 40 lines."""
    lines = [_HEAD]
    for title, commands in SECTIONS.items():
        lines += [title, *(f"  {name:12}{entry.text}" for name, entry in commands.items())]
    return "\n".join([*lines, "", _FOOT])
