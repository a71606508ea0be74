"""``benchorch duel``: two versions of the code or two environments, in processes back to back.

The same trials are run by both sides, process by process in an order drawn at random, on this
machine. REV is a commit, branch or tag of the repository that the current folder is in: its code is
checked out into a private temporary folder, without the repository's hooks, and run. Name only
revisions that you would run. What is not committed counts as new.

Exit codes: 0, no regression; 1, a regression, or with --strict one that is not ruled out; 2, wrong
arguments; 3, not comparable: a trial fails or disagrees on a side; 4, cannot tell.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from benchorch.cli.arguments import Request, is_recipe, parse
from benchorch.cli.commands import duel_report
from benchorch.cli.commands.comparison_arguments import minutes, share
from benchorch.cli.commands.gate_report import exit_code, write_markdown
from benchorch.cli.commands.plan import planned
from benchorch.cli.terminal import INTERRUPTED
from benchorch.domain.reply import Reply
from benchorch.errors import ConfigError, ExecutorError
from benchorch.interfaces.executor import Way
from benchorch.journal.registry import new_directory
from benchorch.progress import Say, silent
from benchorch.results.compare.duels import LOOKS
from benchorch.run.duel.checkout import Checkout, checked_out
from benchorch.run.duel.contender import Side
from benchorch.run.duel.duel import Extent, fight, prepared, refuse_remote, terms_of
from benchorch.run.duel.messages import Origin

# All that a version is compared by is measured; nothing else is.
_ADDED = ("protocol.pairing=none", "protocol.repeats=0", "profiler=none", "recorder=none")


def run(arguments: Sequence[str], say: Say = silent) -> Reply:
    """The verdict over all trials, as text, Markdown and JSON.

    Args:
        arguments: those after ``duel``; or after ``gate``, with ``--against`` or ``--env``.
        say: receives progress.
    """
    options, words = _parser().parse_known_args(list(arguments))
    request = _request(words)
    if not (options.against or options.env):
        raise ConfigError(["duel takes --against REV, or --env A B, or both; see duel --help."])
    made = planned(request)
    refuse_remote(made.plan, is_remote=made.way() is not Way.LOCAL)
    directory = Path(options.directory or f"{new_directory()}-duel")
    if directory.exists():
        raise ConfigError([f"--directory {directory}: it exists; a duel has a folder of its own."])
    with _sides(options, directory) as (sides, checkout, private):
        for side in sides:
            prepared(made.plan, side, private / side.name)
        say(
            f"{len(made.plan.trials)} trials, at most {options.minutes:g} minutes and "
            f"{options.pairs} pairs of each, besides what building takes"
        )
        try:
            found = fight(
                made.plan,
                sides,
                terms=terms_of(made.plan, options.max_regression),
                extent=Extent(seconds=60 * options.minutes, pairs=options.pairs),
                modules=_modules(checkout),
                check=lambda origins: _check(origins, checkout),
                say=say,
            )
        except ExecutorError as error:
            return duel_report.not_begun(str(error))
    return _reply(duel_report.DuelReport(found, sides, directory, checkout), options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="benchorch duel",
        description=__doc__,
        usage="benchorch duel --against REV [options] [RECIPE.yaml] [key=value ...]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--against", metavar="REV", help="the revision that is the old version")
    parser.add_argument(
        "--env",
        nargs=2,
        metavar=("A", "B"),
        help="the old and the new version's environment: its folder, or its interpreter",
    )
    parser.add_argument(
        "--max-regression",
        type=share,
        default=0.02,
        metavar="SHARE",
        help="how much slower the new one may be (2%%)",
    )
    parser.add_argument(
        "--minutes", type=minutes, default=10.0, help="of measuring, all trials together (10)"
    )
    parser.add_argument(
        "--pairs", type=_count, default=40, metavar="N", help="of each trial at most (40)"
    )
    parser.add_argument("--directory", metavar="DIR", help="where what was measured is kept")
    parser.add_argument("--strict", action="store_true", help="unclear evidence fails, too")
    parser.add_argument("--markdown", metavar="FILE", type=Path, help="a summary for reviewers")
    parser.add_argument("--json", action="store_true", help="for programs")
    return parser


def _count(text: str) -> int:
    value = int(text) if text.isdecimal() else 0
    if value < LOOKS[0]:
        raise argparse.ArgumentTypeError(f"{text!r}: at least {LOOKS[0]} pairs are analysed")
    return value


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
    options: argparse.Namespace, directory: Path
) -> Iterator[tuple[tuple[Side, Side], Checkout | None, Path]]:
    """Both sides, the checkout of the old one, and a folder for what they build."""
    pythons = [_python(place) for place in options.env or ()] or [sys.executable, sys.executable]
    here = Path.cwd()
    with ExitStack() as stack:
        checkout = None
        if options.against:
            checkout = stack.enter_context(checked_out(options.against, here))
        private = Path(stack.enter_context(TemporaryDirectory(prefix="benchorch-duel-")))
        places = options.env or ("", "")
        old = Side(
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
    path = Path(place).expanduser()
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


def _reply(report: duel_report.DuelReport, options: argparse.Namespace) -> Reply:
    if options.markdown is not None:
        write_markdown(options.markdown, duel_report.markdown(report))
    code = INTERRUPTED if report.duel.interrupted else exit_code(report.state, options.strict)
    return Reply(text=duel_report.text(report), data=duel_report.data(report, code), exit_code=code)
