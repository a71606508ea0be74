"""``benchorch reproduce RUN|BUNDLE``: measured again, are the figures the same?

Exit codes: 0, reproduced; 1, it differs; 2, wrong arguments; 3, not comparable.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, final

import click

from benchorch.cli.command import Words, command, run_argument, words_argument
from benchorch.cli.commands.comparison_arguments import ACROSS, named_factors, value_text
from benchorch.cli.run import run_stored
from benchorch.cli.terminal import INTERRUPTED, Terminal
from benchorch.domain.codec import Json, encode
from benchorch.domain.estimate import Estimate
from benchorch.domain.reply import Reply
from benchorch.domain.trial import Plan
from benchorch.errors import ConfigError
from benchorch.files import expanded
from benchorch.formatting import shell_word
from benchorch.host.processes.sigterm import TERMINATED
from benchorch.journal.registry import find_invocation, new_directory
from benchorch.journal.run_directory import read_plan
from benchorch.results.compare.load_run import load
from benchorch.results.compare.matching import match
from benchorch.results.compare.metric_kinds import EXACT
from benchorch.results.compare.reproduction import (
    DIFFERS,
    NOT_COMPARABLE,
    REPRODUCED,
    FigureVerdict,
    judged,
    overall,
    too_vague,
)
from benchorch.results.compare.stored_run import StoredTrial
from benchorch.results.report.console_table import table_text, tidy
from benchorch.run.foreign_plan import refuse_foreign
from benchorch.run.selection import narrowed, split_trial

SCHEMA_VERSION = 1
_CODES: Mapping[str, int] = {REPRODUCED: 0, DIFFERS: 1, NOT_COMPARABLE: 3}
_HEADERS = ("trial", "figure", "first [expected]", "now", "verdict")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _First:
    """What was measured first.

    Attributes:
        files: SHA-256 of the user's files that its trials name, by that name.
    """

    reference: str
    plan: Plan
    trials: Sequence[StoredTrial]
    files: Mapping[str, str]


@command(
    "reproduce",
    cls=Words,
    help="""Measure a stored run again, and report whether its figures are reproduced.

    RUN is a run's directory or plan id, RUN:TRIAL one of its trials and its baseline, or the file
    that --bundle wrote on another machine. Code in a bundle runs only with --trust BUNDLE.
    KEY=VALUE chooses executor, store, recorder or profiler.

    \b
    Exit codes: 0  reproduced           1  differs
                2  wrong arguments      3  not comparable
    """,
)
@run_argument(metavar="RUN[:TRIAL]|BUNDLE")
@words_argument("[KEY=VALUE ...]")
@click.option(
    "--bundle",
    type=click.Path(path_type=Path),
    metavar="FILE.zip",
    help="write what another machine needs to measure it; measure nothing",
)
@click.option(
    "--with-code", is_flag=True, help="with --bundle: include the Python files that its trials name"
)
@click.option("--with-weights", is_flag=True, help="with --bundle: include checkpoints and inputs")
@click.option("--measured", metavar="RUN", help="compare with this run instead of measuring")
@click.option("--directory", type=click.Path(path_type=Path), help="where the new run is stored")
@ACROSS
def run(terminal: Terminal, run: str, words: Sequence[str], **options: Any) -> Reply | int:
    """The bundle that was written, or the verdict about what was measured again."""
    if options["bundle"] is not None:
        contents = {"code": options["with_code"], "weights": options["with_weights"]}
        return _bundled(run, options["bundle"], contents, terminal)
    if options["with_code"] or options["with_weights"]:
        raise ConfigError(["--with-code and --with-weights go with --bundle FILE.zip."])
    across = named_factors(options["across"])
    with _first(run, terminal, is_measured=options["measured"] is not None) as first:
        if options["measured"] is None:
            return _repeated(first, words, across, options["directory"], terminal)
        return _judged(first, options["measured"], across, terminal)


def _bundled(reference: str, path: Path, contents: Mapping[str, bool], terminal: Terminal) -> Reply:
    from benchorch.run.reproduce.bundle import member, write_bundle

    name, trial = split_trial(reference)
    patterns = [trial] if trial else []
    directory = find_invocation(name, "reproduce")
    flags = "".join(f" --with-{kind}" for kind, wanted in contents.items() if wanted)
    if flags:  # a stranger's plan may name any file of this machine
        typed = f"benchorch reproduce {shell_word(reference)} --bundle {shell_word(path)}{flags}"
        refuse_foreign(read_plan(directory), directory, typed)
    manifest = write_bundle(directory, patterns, path, terminal.say, **contents)
    lines = [f"{path} holds {len(manifest.trials)} trials of {manifest.plan_id}."]
    lines += [
        f"Not in it: {file}, which must lie there too."
        for file, digest in manifest.files.items()
        if member(file, digest) not in manifest.digests
    ]
    lines += [
        f"{one.labels['conversion']}: {name}: {why}."
        for one in manifest.trials.values()
        for name, figure in one.figures.items()
        if name not in EXACT and (why := too_vague(figure))
    ]
    lines += [f"  on another machine   benchorch reproduce {shell_word(path.name)}"]
    return Reply(text="\n".join(lines), data={"written": str(path), "manifest": encode(manifest)})


@contextmanager
def _first(reference: str, terminal: Terminal, *, is_measured: bool) -> Iterator[_First]:
    """What a reference leads to; a bundle is unpacked and checked, and gone in the end."""
    from benchorch.run.reproduce.opened import is_bundle, open_bundle
    from benchorch.run.reproduce.repeat import refuse_untrusted, renamed, unpacked_names

    path = expanded(reference)
    if not is_bundle(path):
        yield _stored(reference, terminal, is_measured=is_measured)
        return
    with TemporaryDirectory(prefix="benchorch-bundle-") as scratch:
        opened = open_bundle(path, Path(scratch), terminal.say)
        plan, trials = read_plan(opened.directory), opened.run.trials
        files = opened.manifest.files
        if not is_measured:
            names = unpacked_names(plan, files, opened.carried)
            plan = replace(plan, trials=tuple(renamed(one, names) for one in plan.trials))
            trials = tuple(replace(one, trial=renamed(one.trial, names)) for one in trials)
            files = {names.get(name, name): digest for name, digest in files.items()}
            refuse_untrusted(plan, path, {here: name for name, here in names.items()})
        yield _First(reference=reference, plan=plan, trials=trials, files=files)


def _stored(reference: str, terminal: Terminal, *, is_measured: bool) -> _First:
    from benchorch.run.reproduce.bundle import measured_files

    name, trial = split_trial(reference)
    directory = find_invocation(name, "reproduce")
    plan = read_plan(directory)
    if not is_measured:
        refuse_foreign(plan, directory, f"benchorch reproduce {shell_word(reference)}")
    plan = narrowed(plan, [trial] if trial else [])
    kept = {one.trial_id for one in plan.trials}
    trials = [
        one for one in load(str(directory), terminal.say).trials if one.trial.trial_id in kept
    ]
    files = {} if is_measured else measured_files(trials)
    return _First(reference=reference, plan=plan, trials=trials, files=files)


def _repeated(
    first: _First,
    words: Sequence[str],
    across: Collection[str],
    directory: Path | None,
    terminal: Terminal,
) -> Reply | int:
    """The verdict about a repetition on this machine, unless something stands in its way."""
    from benchorch.config.composer import Composer, config_loader
    from benchorch.run.planner import session_for
    from benchorch.run.reproduce.repeat import obstacles, refuse_unknown, repetition

    place = directory or Path(f"{new_directory()}-reproduction")
    if place.exists():
        raise ConfigError([f"--directory {place}: it exists; a repetition has one of its own."])
    defaults = [f"{key}=none" for key in ("recorder", "profiler") if not _sets(words, key)]
    session = session_for(Composer(config_loader()), [*defaults, *words])
    plan = repetition(first.plan, session)
    refuse_unknown(plan.trials)
    found = obstacles(first.trials, plan, first.files, across)
    if found:
        return _reply(first, None, (), [*found, "Nothing was measured."])
    code = run_stored(plan, place, replace(terminal, output=None))
    if code in (INTERRUPTED, TERMINATED):
        return code
    return _judged(first, str(place), across, terminal)


def _sets(words: Sequence[str], key: str) -> bool:
    return any(word.startswith((f"{key}=", f"{key}.")) for word in words)


def _judged(first: _First, measured: str, across: Collection[str], terminal: Terminal) -> Reply:
    again = load(measured, terminal.say)
    matches, alone = match(first.trials, again.trials, across)
    reasons = [f"{one.name} was not measured again." for one in alone if one.side == "A"]
    return _reply(first, measured, judged(matches, across), reasons)


def _reply(
    first: _First, measured: str | None, verdicts: Sequence[FigureVerdict], reasons: Sequence[str]
) -> Reply:
    """The verdict; not comparable where a reason is about all of it, unless a figure differs."""
    verdict = overall(verdicts)
    if reasons and verdict == REPRODUCED:
        verdict = NOT_COMPARABLE
    data: dict[str, Json] = {
        "schema_version": SCHEMA_VERSION,
        "verdict": verdict,
        "reasons": list(reasons),
        "first": first.reference,
        "repetition": measured,
        "figures": [encode(one) for one in verdicts],
    }
    text = tidy("\n".join(_lines(verdict, verdicts, reasons)))
    return Reply(text=text, data=data, exit_code=_CODES[verdict])


def _lines(
    verdict: str, verdicts: Sequence[FigureVerdict], reasons: Sequence[str]
) -> Iterator[str]:
    if verdicts:
        yield table_text([_HEADERS, *map(_row, verdicts)])
        yield ""
    for one in verdicts:
        if one.reason:
            yield f"{one.name}: {one.figure} {_word(one)}: {one.reason}"
    yield from reasons
    counts = f"{sum(one.verdict == REPRODUCED for one in verdicts)} of {len(verdicts)} figures"
    yield f"{verdict}: {counts} as expected." if verdicts else f"{verdict}."


def _word(one: FigureVerdict) -> str:
    return DIFFERS if one.verdict == DIFFERS else f"is {one.verdict}"


def _row(one: FigureVerdict) -> tuple[str, ...]:
    now = "" if one.found is None else f"{one.found:.4g}"
    return one.name, one.figure, _expected(one.expected), now, one.verdict


def _expected(figure: Estimate | None) -> str:
    """With its interval however wide that is: it is what the verdict follows from."""
    if figure is None or figure.low is None or figure.high is None:
        return "" if figure is None else value_text(figure)
    return f"{figure.value:.4g} [{figure.low:.4g}, {figure.high:.4g}]"
