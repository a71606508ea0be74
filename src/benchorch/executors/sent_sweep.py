"""A sweep on a stack's head: what is sent there, and what is read of it in the stack's bucket.

Below its name the bucket has what a run's directory has, as `benchorch keep` copies it while the
sweep goes on, and besides::

    files/...        what the trials name, by absolute path
    attempts/...     large files of the trials, from the nodes where they ran (`journal.uploads`)
    sent.json        when it was sent
    fetched.json     that somebody has followed it to its end
"""

import filecmp
import hashlib
import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import final

from benchorch import __version__
from benchorch.domain.codec import Json, decode, encode
from benchorch.domain.result import TrialResult
from benchorch.domain.session import Session
from benchorch.domain.spending import Spending
from benchorch.domain.trial import Plan, Trial, node_of
from benchorch.errors import ExecutorError
from benchorch.executors.scheduling.file_transfer import FolderContent, ShippedFiles
from benchorch.files import check_inside
from benchorch.interfaces.stack import Stack
from benchorch.journal import chain, run_directory, uploads
from benchorch.journal.lock import FILE as STATUS
from benchorch.journal.reader import JournalEntry, entry_of
from benchorch.journal.registry import others_running

FILES, SENT, FETCHED = "files", "sent.json", "fetched.json"
DIRECTORY = "/var/lib/benchorch"
"""Directory of the sweeps on the head."""

STOPPED = "no coordinator runs"
"""Printed on the head by `look_command`."""

_DIGITS = 12
_IS_RUNNING = (
    "import pathlib, sys; from benchorch.journal.lock import is_running; "
    "sys.exit(not is_running(pathlib.Path(sys.argv[1])))"
)
_PLACE_FILES = (
    "import pathlib, sys; from benchorch.executors.sent_sweep import place_files; "
    "place_files(*map(pathlib.Path, sys.argv[1:]))"
)


def digest_of(trials: Sequence[Trial], files: ShippedFiles) -> str:
    """The same for the same trials and contents of files, whoever sends them and whenever."""
    ids = ",".join(sorted(trial.trial_id for trial in trials))
    base = files.working_directory or "/"
    contents = [
        f"{os.path.relpath(f'/{path}', base)}:{hashlib.sha256(data).hexdigest()}"
        for path, data in sorted(files.content.files.items())
    ]
    text = "\n".join((f"{__version__}:{ids}", *contents))
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:_DIGITS]


def unfetched(stack: Stack, digest: str) -> str | None:
    """The newest sweep of this digest that was not followed to its end, or None."""
    for name in reversed([one for one in stack.sweeps() if one.endswith(f"-{digest}")]):
        if run_directory.is_id(name) and is_unfetched(stack, name):  # it gets into commands there
            return name
    return None


def new_name(stack: Stack, plan_id: str, digest: str) -> str:
    """A name that no sweep of the run has had; a resumed run may send the same trials again."""
    name, number = f"{plan_id}-{digest}", 1
    while stack.read(f"{name}/{SENT}"):
        number += 1
        name = f"{plan_id}-{number}-{digest}"
    return name


def is_unfetched(stack: Stack, name: str) -> bool:
    """Whether a sweep was sent and not followed to its end."""
    return bool(stack.read(f"{name}/{SENT}")) and not stack.read(f"{name}/{FETCHED}")


def plan_to_send(
    session: Session, trials: Sequence[Trial], name: str, nodes: Mapping[str, Json]
) -> Plan:
    """The plan of these trials for the head's own executor and store; nothing is recorded there."""
    plan = run_directory.read_plan(session.directory)
    settings = {**plan.session, "keep_at": nodes["keep_at"], "executor": nodes["executor"]}
    settings["store"] = nodes["store"]
    settings["tracking"] = {"_target_": "benchorch.recorders.none.Nowhere"}
    spending = session.spending
    if spending.max_usd is not None:  # what earlier sweeps of this run have left of it
        budget = node_of(settings, "budget")
        settings["budget"] = {**budget, "max_usd": spending.max_usd - spending.spent_usd}
    return replace(plan, plan_id=name, trials=tuple(trials), skips=(), session=settings)


def place_files(directory: Path, root: Path) -> None:
    """Copy a sweep's files to their paths below the head's root.

    Exits with a message where one differs from what is there while other runs may use that.
    """
    sent = directory / FILES
    names = [path.relative_to(sent) for path in sorted(sent.rglob("*")) if path.is_file()]
    there = [name for name in names if (root / name).exists()]
    differing = [name for name in there if not filecmp.cmp(sent / name, root / name, shallow=False)]
    others = others_running(directory) if differing else []
    if others:
        sys.exit(
            f"{root / differing[0]} differs from the file that was sent, and other runs there may "
            f"use it: {', '.join(map(str, others))}. Once they have ended or were cancelled, the "
            "same line starts this sweep."
        )
    for name in {*names} - {*there} | {*differing}:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(sent / name, root / name)


def start_command(name: str, results_url: str, cwd: str) -> str:
    """The shell command that begins a sweep on the head and returns; harmless where it runs."""
    place = f"{DIRECTORY}/{name}"
    lines = (
        "set -e",
        "export HOME=~root",
        ". /etc/profile.d/benchorch.sh",
        "there=$(python -c 'import benchorch; print(benchorch.__version__)')",
        f'[ "$there" = {__version__} ] || {{ echo "The stack has benchorch $there, this machine '
        f'has {__version__}: make provision, or install that version here."; exit 3; }}',
        f"mkdir -p {DIRECTORY} {shlex.quote(cwd)}",
        f"exec 9> {DIRECTORY}/start.lock && flock 9",  # another line may come at once
        f"[ -e {place} ] || python -m benchorch fetch {name} {place} --at {results_url}",
        f"if ! python -c '{_IS_RUNNING}' {place}; then",
        f"python -c '{_PLACE_FILES}' {place} /",
        f"python -m benchorch submit --here resume {place} --trust {place}",  # its owner sent it
        "fi",
    )
    return "\n".join(lines)


def look_command(name: str) -> str:
    """The shell command that prints `STOPPED` where no process on the head coordinates a sweep."""
    lines = (
        "export HOME=~root",
        ". /etc/profile.d/benchorch.sh",
        "python -c 'import benchorch'",  # fails by itself where nothing can be asked
        f"python -c '{_IS_RUNNING}' {DIRECTORY}/{name} || echo {shlex.quote(STOPPED)}",
    )
    return "\n".join(("set -e", *lines))


def cancel_command(name: str) -> str:
    """The shell command that ends a sweep on the head; its machines end when they are idle."""
    lines = (
        "export HOME=~root",
        ". /etc/profile.d/benchorch.sh",
        f"python -m benchorch cancel {DIRECTORY}/{name} --yes",
    )
    return "\n".join(lines)


@final
@dataclass(slots=True, kw_only=True)
class SentSweep:
    """Sweep recorded in the bucket.

    Attributes:
        directory: the run's own, here.
        before_usd: what the run had spent when it sent the sweep.
        seen: the trials whose results have come.
        problems: what is wrong with the results there, by the line's number or the trial.
        taken: bytes of the results that were read.
        unfetched: the last entry of each trial whose files have not come.
    """

    stack: Stack
    name: str
    directory: Path
    before_usd: float = 0.0
    seen: set[str] = field(default_factory=set)
    problems: dict[int | str, str] = field(default_factory=dict)
    taken: int = 0
    checker: chain.Checker = field(default_factory=chain.Checker)
    unfetched: dict[str, JournalEntry] = field(default_factory=dict)

    def send(self, plan: Plan, files: FolderContent) -> None:
        """Put everything into the bucket, the plan last."""
        for path, data in files.files.items():
            self.stack.write(f"{self.name}/{FILES}/{path}", data)
        content = json.dumps(encode(plan)).encode()
        self.stack.write(f"{self.name}/{run_directory.PLAN}", content)
        # Before the head is told: whoever is interrupted now finds this sweep and sends no other.
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self.stack.write(f"{self.name}/{SENT}", json.dumps({"at": now}).encode())

    def status(self) -> Mapping[str, Json]:
        """The coordinator's status; empty before there is one, and where it is damaged."""
        found = self.stack.read(f"{self.name}/{STATUS}")
        try:
            return chain.mapping_of(found) if found else {}
        except ValueError:
            return {}

    def spending(self, status: Mapping[str, Json]) -> Spending | None:
        """Spending of the run so far, by the coordinator's status.

        None before its first report, and where that is damaged.
        """
        found, spending = status.get("spending"), None
        with suppress(*chain.UNREADABLE):
            spending = decode(Spending, found) if found else None
        if spending is None:
            return None
        most = None if spending.max_usd is None else spending.max_usd + self.before_usd
        return replace(spending, usd=spending.usd + self.before_usd, max_usd=most)

    def new_entries(self, *, ended: bool = True) -> Sequence[JournalEntry]:
        """Finished results that were not fetched yet; damaged lines go to `problems`.

        Args:
            ended: whether the sweep has; until then a raw series that is lost may still come, and
                a trial that failed for want of a machine may still be measured.
        """
        lines = self._new_lines()
        for line in map(self.checker.line, lines):
            try:
                entry = entry_of(line)
            except ValueError as error:
                self.problems[line.number] = f"line {line.number} is damaged there: {error}"
                continue
            if not line.follows and line.number - 1 not in self.problems:
                self.problems[line.number] = f"a line is missing there before line {line.number}"
            if entry.result.trial_id not in self.seen:
                self.unfetched[entry.result.trial_id] = entry
        found = self.unfetched.items()
        if ended:
            return [one for _, one in found if not one.result.unfinished]
        return [one for name, one in found if one.result.is_final and name not in self.problems]

    def _new_lines(self) -> Sequence[bytes]:
        """Lines since the last look, read from the newline before them."""
        name, start = f"{self.name}/{run_directory.RESULTS}", max(0, self.taken - 1)
        content = self.stack.read(name, start) or b""
        if start and content[:1] != b"\n":  # another file than before, such as a salvaged one
            self.taken, start, self.checker = 0, 0, chain.Checker()
            self.problems.clear()
            content = self.stack.read(name) or b""
        whole = content[self.taken - start : content.rfind(b"\n") + 1]
        self.taken += len(whole)
        return whole.splitlines()

    def fetch(self, entry: JournalEntry) -> TrialResult:
        """An entry's result, with the trial's files in the run's directory; SeriesError."""
        trial_id = entry.result.trial_id
        check_inside(trial_id, self.directory)
        run_directory.trial_directory(self.directory, trial_id)
        for name in self.stack.listed(f"{self.name}/trials/{trial_id}/"):
            relative = name.removeprefix(f"{self.name}/")
            if relative.endswith("/"):  # which consoles make for folders
                continue
            try:
                check_inside(relative, self.directory)
            except ValueError as error:
                raise ExecutorError(f"{self.name} is not fetched: {error}.") from error
            path = self.directory / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            self.stack.download(name, path)
        if entry.result.uploads:
            self._fetch_uploads(entry.result)
        result = entry.whole(self.directory)
        self.seen.add(trial_id)
        self.unfetched.pop(trial_id, None)
        self.problems.pop(trial_id, None)
        return result

    def _fetch_uploads(self, result: TrialResult) -> None:
        there = {*self.stack.listed(f"{self.name}/{uploads.ATTEMPTS}/{result.trial_id}/")}

        def download(key: str, path: Path) -> None:
            if f"{self.name}/{key}" in there:
                self.stack.download(f"{self.name}/{key}", path)

        uploads.complete(self.directory, result, download)

    def mark_fetched(self) -> None:
        """Note that it was followed to its end, so that the same line begins a new one."""
        self.stack.write(f"{self.name}/{FETCHED}", b"{}")
