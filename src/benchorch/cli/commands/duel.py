"""``benchorch duel``: two versions of the code or two environments, in processes back to back.

The same trials are run by both sides, process by process in an order drawn at random, on this
machine. REV is a commit, branch or tag of the repository that the current folder is in: its code is
checked out into a private temporary folder, without the repository's hooks, and run. Name only
revisions that you would run. What is not committed counts as new.

Exit codes: 0, no regression; 1, a regression, or with --strict one that is not ruled out; 2, wrong
arguments; 3, not comparable: a trial fails or disagrees on a side; 4, cannot tell.
"""

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, final

import click

from benchorch.cli.arguments import ALLOW_SKIPS, Request, is_recipe, parse
from benchorch.cli.command import Words, command, words_argument
from benchorch.cli.commands import duel_report
from benchorch.cli.commands.comparison_arguments import minutes, share
from benchorch.cli.commands.gate_report import exit_code, write_summary
from benchorch.cli.commands.plan import planned
from benchorch.cli.terminal import INTERRUPTED, Terminal
from benchorch.domain.reply import Reply
from benchorch.domain.trial import Plan
from benchorch.errors import ConfigError, Correction, ExecutorError, Problem
from benchorch.files import expanded, write_text
from benchorch.interfaces.executor import Way
from benchorch.journal.registry import new_directory
from benchorch.journal.run_directory import TABLE
from benchorch.models.trust import IN_FILE, references_of
from benchorch.results.compare.duels import LOOKS
from benchorch.results.compare.load_run import derive
from benchorch.results.report.plan_text import skip_text
from benchorch.run.duel.checkout import Checkout, checked_out
from benchorch.run.duel.contender import CodeVersion
from benchorch.run.duel.duel import (
    DuelExtent,
    fight,
    prepared,
    refuse_remote,
    refuse_several_rates,
    terms_of,
)
from benchorch.run.duel.messages import Origin

# All that a version is compared by is measured; nothing else is.
_ADDED = ("protocol.pairing=none", "protocol.repeats=0", "profiler=none", "recorder=none")


def _count(text: str) -> int:
    value = int(text) if text.isdecimal() else 0
    if value < LOOKS[0]:
        raise click.BadParameter(f"{text!r}: at least {LOOKS[0]} pairs are analysed")
    return value


@command(
    "duel",
    cls=Words,
    help="""Measure two versions of your code, or two environments, against each other.

    The same trials are run by both sides, process by process in an order drawn at random, on this
    machine. REV is a commit, branch or tag of the repository that the current folder is in: its
    code is checked out into a private temporary folder, without the repository's hooks, and run.
    Name only revisions that you would run. What is not committed counts as new. --output FILE.md
    writes a summary for reviewers. A conversion that is requested by name and cannot run is
    refused, unless --allow-skips leaves it out.

    \b
    Exit codes: 0  no regression    1  a regression, or with --strict undecided
                2  wrong arguments  3  not comparable: a trial fails or disagrees
                4  undecided
    """,
    writes_output=True,
    former={"--markdown": "--output"},
)
@words_argument()
@click.option("--against", metavar="REV", help="the revision that is the old version")
@click.option(
    "--env",
    nargs=2,
    metavar="A B",
    help="two environments, the old one first: folders or interpreters",
)
@click.option(
    "--max-regression",
    type=share,
    default="2%",
    metavar="SHARE",
    help="how much slower the new one may be (2%)",
)
@click.option(
    "--minutes",
    type=minutes,
    default="10",
    metavar="M",
    help="measure at most so long, all trials together (10)",
)
@click.option(
    "--pairs",
    type=_count,
    default="40",
    metavar="N",
    help="pairs of processes of each trial at most (40)",
)
@click.option("--directory", metavar="DIR", help="where results are stored")
@click.option("--strict", is_flag=True, help="unclear evidence fails, too")
def run(terminal: Terminal, words: Sequence[str], **given: Any) -> Reply:
    """The verdict over all trials, as text, Markdown and JSON."""
    return _fought(words, _DuelOptions(**given), terminal)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _DuelOptions:
    """Both sides and the extent of a duel, as the command line has them."""

    against: str | None
    env: tuple[str, str] | None
    max_regression: float
    minutes: float
    pairs: int
    directory: str | None
    strict: bool


def _fought(words: Sequence[str], options: _DuelOptions, terminal: Terminal) -> Reply:
    request = _request(words)
    if not (options.against or options.env):
        line = shlex.join(["benchorch", "duel", *words, "--against", "main"])
        raise ConfigError(["duel needs --against REV, or --env A B, or both."], next=line)
    made = planned(request)
    refuse_remote(made.plan, is_remote=made.way() is not Way.LOCAL)
    refuse_several_rates(made.plan)
    skips = [skip_text(skip) for skip in made.plan.skips if skip.requested]
    if skips and not request.allow_skips:
        accepting = Correction(added=(ALLOW_SKIPS,))
        raise ConfigError([Problem(f"cannot be measured: {one}", accepting) for one in skips])
    directory = Path(options.directory or f"{new_directory()}-duel")
    if directory.exists():
        raise ConfigError([f"--directory {directory}: it exists; a duel has a folder of its own."])
    with _sides(options, directory) as (sides, checkout, private):
        _check_references(made.plan, checkout)
        for side in sides:
            prepared(made.plan, side, private / side.name)
        terminal.say(
            f"{len(made.plan.trials)} trials, at most {options.minutes:g} minutes and "
            f"{options.pairs} pairs of each, besides what building takes"
        )
        try:
            found = fight(
                made.plan,
                sides,
                terms=terms_of(made.plan, options.max_regression),
                extent=DuelExtent(seconds=60 * options.minutes, pairs=options.pairs),
                modules=_modules(checkout),
                check=lambda origins: _check(origins, checkout),
                say=terminal.say,
            )
        except ExecutorError as error:
            return duel_report.not_begun(str(error))
    for side in sides:
        _write_table(side.directory)
    report = duel_report.DuelReport(found, sides, directory, checkout, skips)
    return _reply(report, options, terminal)


def _request(words: Sequence[str]) -> Request:
    """What is run, with what a duel changes of it."""
    kept = [word for word in words if not word.startswith(("profiler=", "recorder="))]
    request = parse(kept)
    foreign = request.foreign_flags + ([f"resume={request.resume}"] if request.resume else [])
    unknown = [
        word for word in kept if "=" not in word and not (word[:1] == "-" or is_recipe(word))
    ]
    known = set(request.flags) | {word for word in kept if word.startswith(("--config", "-c"))}
    problems = [f"duel does not take {word}; see duel --help." for word in foreign]
    problems += [f"{word!r} is not key=value, nor a recipe." for word in unknown if not known]
    if problems:
        raise ConfigError(problems)
    return replace(request, overrides=(*request.overrides, *_ADDED))


@contextmanager
def _sides(
    options: _DuelOptions, directory: Path
) -> Iterator[tuple[tuple[CodeVersion, CodeVersion], Checkout | None, Path]]:
    """Both sides, the checkout of the old one, and a folder for what they build."""
    pythons = [_python(place) for place in options.env or ()] or [sys.executable, sys.executable]
    here = Path.cwd()
    with ExitStack() as stack:
        checkout = None
        if options.against:
            checkout = stack.enter_context(checked_out(options.against, here))
        private = Path(stack.enter_context(TemporaryDirectory(prefix="benchorch-duel-")))
        places = options.env or ("", "")
        old = CodeVersion(
            name="old",
            what=_named(options.against or "", places[0]),
            python=pythons[0],
            folder=checkout.folder if checkout else here,
            search=_search(checkout, old=True),
            directory=directory / "old",
        )
        new = replace(
            old,
            name="new",
            what=_named("this folder" if checkout else "", places[1]),
            python=pythons[1],
            folder=here,
            search=_search(checkout, old=False),
            directory=directory / "new",
        )
        yield (old, new), checkout, private


def _named(version: str, place: str) -> str:
    return " in ".join(filter(None, (version, place)))


def _python(place: str) -> str:
    """The interpreter of an environment; ConfigError where there is none."""
    path = expanded(place)
    for found in (path / "bin" / "python", path / "Scripts" / "python.exe", path):
        if found.is_file():
            return str(found.absolute())  # not resolved: a link is what makes an environment
    raise ConfigError([f"--env {place}: neither an environment's folder nor an interpreter."])


def _search(checkout: Checkout | None, *, old: bool) -> tuple[Path, ...]:
    """Folders of the repository that modules come from: of the checkout, or of this one."""
    if checkout is None:
        return ()
    places = [Path(place).resolve() for place in sys.path if place]
    inside = [place.relative_to(checkout.root) for place in places if _within(place, checkout.root)]
    top = checkout.top if old else checkout.root
    both = (checkout.top / place for place in dict.fromkeys((*inside, Path("src"))))
    return tuple(top / place.relative_to(checkout.top) for place in both if place.is_dir())


def _within(place: Path, folder: Path) -> bool:
    return place == folder or folder in place.parents


def _modules(checkout: Checkout | None) -> tuple[str, ...]:
    """Modules of the checkout that a side could have from somewhere else."""
    if checkout is None:
        return ()
    found: set[str] = set()
    for place in (checkout.folder, *_search(checkout, old=True)):
        found |= {file.stem for file in place.glob("*.py")}
        found |= {file.parent.name for file in place.glob("*/__init__.py")}
    return tuple(sorted(name for name in found if name.isidentifier()))


def _check_references(plan: Plan, checkout: Checkout | None) -> None:
    """ConfigError where a reference names a file of this folder by its absolute path."""
    if checkout is None:
        return
    problems = []
    for reference in filter(IN_FILE.fullmatch, references_of(plan)):
        name, _, attribute = reference.rpartition(":")
        file = Path(name).resolve()
        if Path(name).is_absolute() and _within(file, checkout.root):
            relative = os.path.relpath(file, Path.cwd().resolve())
            problems.append(
                f"--against: {reference} is this folder's: both sides would run the same code. "
                f"Name it by its path from the current folder: {relative}:{attribute}."
            )
    if problems:
        raise ConfigError(problems)


def _check(origins: tuple[Origin, Origin], checkout: Checkout | None) -> None:
    """ConfigError where the old side would run code of this folder."""
    if checkout is None:
        return
    foreign = [
        f"{name} of {checkout.commit[:12]} would come from {file}"
        for name, file in origins[0].modules.items()
        if _within(Path(file), checkout.root) and not _within(Path(file), checkout.top)
    ]
    if foreign:
        problem = (
            f"--against: {'; '.join(foreign)}, which is this folder's: both sides would run the "
            "same code. Run the duel where the package is not installed in editable mode, or from "
            "the folder that its modules are in."
        )
        raise ConfigError([problem])


def _write_table(directory: Path) -> None:
    """Write the table of a side, as every run has one; none where nothing was measured."""
    from benchorch.results.report.tables import full_markdown

    with suppress(ConfigError):
        write_text(directory / TABLE, full_markdown(derive(directory, str(directory))))


def _reply(report: duel_report.DuelReport, options: _DuelOptions, terminal: Terminal) -> Reply:
    code = INTERRUPTED if report.duel.interrupted else exit_code(report.state, options.strict)
    data = duel_report.data(report, code)
    write_summary(terminal, duel_report.markdown(report), data)
    return Reply(text=duel_report.text(report), data=data, exit_code=code)
