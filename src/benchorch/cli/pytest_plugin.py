"""The pytest plugin: `benchmark_model` measures in a test, ``--benchorch-gate`` fails it.

pytest imports this in every session that has benchorch installed: it imports nothing else of
benchorch before a test asks for it.
"""

from __future__ import annotations

import re
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, final

import pytest

if TYPE_CHECKING:
    from benchorch.domain.codec import Json
    from benchorch.domain.reply import Reply
    from benchorch.frontends.api.results import Results

_TOLD = pytest.StashKey[list[str]]()
_RUNS = "runs/pytest"
_MOST_CHARACTERS = 150
_PLAIN_NAME = re.compile(r"[\w./-]+(::\w+)+(\[[\w.-]*[\w.]\])?")
"""Names of tests that no other case's folder can have; ``[<8]`` and ``[>8]`` would share one.

The files ``a/b.py`` and ``a-b.py`` still share theirs: paths with ``-`` keep their histories.
"""
_DEFAULTS = {"recorder": "none", "profiler": "none"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of a benchmark in a test."""
    group = parser.getgroup("benchorch", "benchmarks of models (benchorch)")
    group.addoption(
        "--benchorch-gate",
        nargs="?",
        const="",
        metavar="RUN",
        help="fail a test whose model became slower than in this run, file of report --json, or "
        "folder of runs; without RUN, than in the test's own earlier sessions",
    )
    group.addoption("--benchorch-max-regression", default="5%", metavar="SHARE", help="5%%")
    group.addoption("--benchorch-strict", action="store_true", help="unclear evidence fails, too")
    group.addoption("--benchorch-runs", default=_RUNS, metavar="DIR", help=f"of runs: {_RUNS}")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelBenchmark:
    """Measures models in one test.

    Attributes:
        folder: of this test's runs, those of its second call in ``folder+2`` beside it.
        told: receives a table for each run, for the end of the session.
        calls: their numbers; each call has a history of its own.
    """

    config: pytest.Config
    name: str
    folder: Path
    told: list[str]
    calls: Iterator[int] = field(default_factory=lambda: count(1))

    def __call__(
        self,
        model: Any,
        inputs: object = None,
        conversions: str | list[str] | None = None,
        **overrides: object,
    ) -> Results:
        """Measure a model as `benchorch.benchmark` does; the test fails where the gate does.

        Nothing is recorded or profiled unless the overrides have `recorder` or `profiler`.
        """
        from benchorch import benchmark

        started = f"{datetime.now():%Y-%m-%d-%H-%M-%S-%f}"  # noqa: DTZ005 local, as Hydra's
        folder = self._next_folder()
        directory = folder / started
        settings: dict[str, Any] = {**_DEFAULTS, **overrides}
        results = benchmark(model, inputs, conversions, directory=directory, quiet=True, **settings)
        self.told.append(f"{self.name}\n{results}")
        baseline = self.config.getoption("--benchorch-gate")
        if baseline is not None:
            self._gate(str(baseline) or str(folder), directory)
        return results

    def _next_folder(self) -> Path:
        """The folder of this call's runs; no test's name has a plus in it."""
        number = next(self.calls)
        return self.folder if number == 1 else self.folder.with_name(f"{self.folder.name}+{number}")

    def _gate(self, baseline: str, directory: Path) -> None:
        reply = self._judged(baseline, directory)
        if reply.exit_code in (1, 3):
            told = _set_aside(directory, reply.text) if _is_worse(reply) else reply.text
            pytest.fail(told, pytrace=False)
        if reply.exit_code or cast("dict[str, Json]", reply.data)["state"] == "first":
            warnings.warn(f"{self.name}: {reply.text}", stacklevel=3)

    def _judged(self, baseline: str, directory: Path) -> Reply:
        from benchorch.cli.commands import gate

        words = ["--baseline", baseline, "--candidate", str(directory), "--quiet", "--allow-first"]
        words += ["--max-regression", str(self.config.getoption("--benchorch-max-regression"))]
        words += ["--strict"] if self.config.getoption("--benchorch-strict") else []
        return gate.run.reply(words)


def _set_aside(directory: Path, text: str) -> str:
    """Exclude a session from later baselines; the gate's text, and how to accept the session."""
    from benchorch.formatting import shell_word
    from benchorch.journal.run_directory import GATE_FAILED

    path = directory / GATE_FAILED
    path.write_text(text, encoding="utf-8")
    accepting = f"rm {shell_word(path)}"
    return f"{text}\nLater sessions are not compared with this one. To accept it: {accepting}"


def _is_worse(reply: Reply) -> bool:
    """Whether a trial regressed, newly fails, disagrees or is missing; not if defined anew."""
    data = cast("dict[str, Any]", reply.data)
    return bool(data["missing"]) or any(
        one["state"] == "regression"
        or (one["state"] == "refused" and not one["judged"]["refused_for"])
        for one in data["cases"]
    )


@pytest.fixture
def benchmark_model(request: pytest.FixtureRequest) -> ModelBenchmark:
    """Measures a model: ``benchmark_model(module, {"x": tensor}, conversions=["inductor"])``."""
    config = request.config
    if hasattr(config, "workerinput"):
        raise pytest.UsageError("benchmark_model: tests side by side disturb each other: use -n 0")
    baseline = config.getoption("--benchorch-gate")
    if baseline is not None:
        _check_baseline(baseline)
        _check_share(config.getoption("--benchorch-max-regression"))
    name = request.node.nodeid
    plain = re.sub(r"[^\w.-]+", "-", name).strip("-")
    if len(plain) > _MOST_CHARACTERS or not _PLAIN_NAME.fullmatch(name):
        plain = f"{plain[:_MOST_CHARACTERS]}-{zlib.crc32(name.encode()):08x}"
    # A test may change the folder, and its history stays.
    folder = config.invocation_params.dir / config.getoption("--benchorch-runs") / plain
    told = config.stash.setdefault(_TOLD, [])
    return ModelBenchmark(config=config, name=name, folder=folder, told=told)


def _check_baseline(text: str) -> None:
    """UsageError for a test's file behind the option, which takes it for its run."""
    if "::" in text or text.endswith(".py"):
        raise pytest.UsageError(
            f"--benchorch-gate takes {text!r}, the word after it, for a run. The tests come first: "
            f"pytest {text} --benchorch-gate"
        )


def _check_share(text: str) -> None:
    """UsageError for what is no share, before anything is measured."""
    import click

    from benchorch.cli.commands.comparison_arguments import share

    try:
        share(text)
    except click.BadParameter as error:
        raise pytest.UsageError(f"--benchorch-max-regression: {error.message}") from error


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """The table of each run."""
    told = config.stash.get(_TOLD, [])
    if told:
        terminalreporter.section("benchorch")
        terminalreporter.write_line("\n\n".join(told))
