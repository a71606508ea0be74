"""Every error benchorch raises on purpose, as one tree.

::

    BenchorchError
    ├── ConfigError(problems)     the request is wrong; nothing has run
    │   ├── NoMachine             nothing here reaches the hardware; has the priced plan
    │   └── NoBaseline            a history has no session to compare with
    ├── TrialError                this trial failed; the others continue
    │   ├── BuildError            a step or a runtime refused the model
    │   └── MeasureError          a clock, a device or the model's own call failed
    │       └── MissedQuery       one query had no answer; a scenario of load counts it
    ├── ExecutorError             the worker died; trying again is reasonable
    ├── TraceError                a profile cannot be read, or a what-if cannot be asked of it
    ├── StoreError                an artifact can be neither read nor written
    ├── PriceUnavailable          nobody could be asked what a machine costs today
    └── RecordError               results exist but are not recorded; names the file that has them

A wrong number is not an error: it is a `Verdict`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

T = TypeVar("T")

_LONGEST = 300

_KEY = re.compile(r"[+~]*([\w-]+(?:[./][\w-]+)*)(?:=[^:]*)?: ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """Change to a line's words after which a problem is gone; an empty part changes nothing.

    Attributes:
        typed: a wrong word, or a wrong name in one; without `meant` the word is dropped.
        meant: what stands in its place.
        settings: ``KEY=VALUE``, each in place of the word that sets its key.
        allowed: values of the problem's key; the one nearest to the typed value is taken.
        added: words at the end of the line.
        run: a reference to a run that does not exist.
    """

    typed: str = ""
    meant: str = ""
    settings: Sequence[str] = ()
    allowed: Sequence[str] = ()
    added: Sequence[str] = ()
    run: str = ""


class Problem(str):
    """One problem in a sentence that begins with its key and a colon, where it is about a key.

    Attributes:
        correction: how the line is typed without it; None where the key's default answers it.
        key: the key that it is about, with dots; empty for none.
        in_file: whether it is corrected in a file, which it names, and not in the line.
    """

    correction: Correction | None
    key: str
    in_file: bool

    def __new__(
        cls,
        text: str,
        correction: Correction | None = None,
        *,
        key: str | None = None,
        in_file: bool = False,
    ) -> Self:
        """The sentence with its correction."""
        made = super().__new__(cls, text)
        found = _KEY.match(text)
        made.key = key if key is not None else found[1] if found else ""
        made.correction, made.in_file = correction, in_file
        return made

    def within(self, before: str, after: str = "") -> Problem:
        """A longer sentence with the same correction."""
        return Problem(f"{before}{self}{after}", self.correction)

    def under(self, where: str) -> Problem:
        """The same of a key below another."""
        key = f"{where}.{self.key}" if self.key else where
        return Problem(f"{where}: {self}", self.correction, key=key, in_file=self.in_file)


def as_problem(text: str) -> Problem:
    """A sentence as a problem without a correction, if it is none yet."""
    return text if isinstance(text, Problem) else Problem(text)


class BenchorchError(Exception):
    """Base of everything benchorch raises on purpose."""


class ConfigError(BenchorchError):
    """The request is wrong, with every problem found; nothing has run.

    Attributes:
        next: the command to type instead, where there is one.
    """

    def __init__(self, problems: Sequence[str], *, next: str = "") -> None:
        self.problems = tuple(map(as_problem, problems))
        self.next = next
        super().__init__("\n".join(self.problems))


class NoMachine(ConfigError):
    """Requested hardware that cannot be reached from here; nothing has run.

    Attributes:
        plan: what was requested, with minutes and dollars, for people.
        ways: why it is not reached and what can be done about it, for people.
        data: both for programs.
    """

    def __init__(
        self, problems: Sequence[str], *, plan: str, ways: str, data: object = None
    ) -> None:
        super().__init__(problems)
        self.plan = plan
        self.ways = ways
        self.data = data


class NoBaseline(ConfigError):
    """No session of a history can be a baseline: as for the first session of a machine."""


class Problems:
    """Every problem of a request, each once, collected before any is raised."""

    def __init__(self) -> None:
        self.found: dict[str, None] = {}

    def add(self, problems: Iterable[str]) -> None:
        """Add problems."""
        self.found.update(dict.fromkeys(problems))

    def attempt(self, work: Callable[[], T]) -> T | None:
        """The work's value, or None with the problems of its ConfigError."""
        try:
            return work()
        except ConfigError as error:
            self.add(error.problems)
            return None

    def stop(self) -> None:
        """Raise ConfigError with every problem, if there is one."""
        if self.found:
            raise ConfigError(list(self.found))


class TrialError(BenchorchError):
    """Failure of one trial, with its class.

    Attributes:
        kind: the class of failure shown to people and stored, e.g. ``build_refused``.
        remedy: the next thing to try, or an empty string.
    """

    kind = "failed"

    def __init__(self, message: str, *, kind: str | None = None, remedy: str = "") -> None:
        super().__init__(message)
        self.kind = kind or type(self).kind
        self.remedy = remedy


class BuildError(TrialError):
    """A step or a runtime refused this model."""

    kind = "build_refused"


class MeasureError(TrialError):
    """A clock, a device or the model's own call failed while measuring."""

    kind = "measure_failed"


class MissedQuery(MeasureError):
    """One query without an answer: scenarios of load count it, others fail.

    Attributes:
        cause: the status code, or ``refused``, ``reset`` or ``timeout``.
        retry_after_s: when the server asks to be called again; None where it does not say.
    """

    def __init__(
        self, message: str, *, cause: str, remedy: str, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message, kind="endpoint", remedy=remedy)
        self.cause = cause
        self.retry_after_s = retry_after_s


class ExecutorError(BenchorchError):
    """The worker died; the trial may be innocent, so trying again is reasonable."""


class StoreError(BenchorchError):
    """An artifact can be neither read nor written."""


class RecordError(BenchorchError):
    """Results exist on disk but did not reach the tracking server."""


class TraceError(BenchorchError):
    """A profile that cannot be read, or a question that cannot be asked of it."""


class PriceUnavailable(BenchorchError):
    """Current price that no source provides; older prices may do."""


def text_of(error: BaseException) -> str:
    """An error's text; why there is none where its class, which may be a user's, raises."""
    try:
        return str(error)
    except Exception as failed:  # whatever a user's class does
        return f"(its message cannot be read: __str__ raised {type(failed).__name__})"


def summary_of(error: BaseException) -> str:
    """The error's class and the first line of its message that is not empty, if long cut off."""
    lines = (line.strip() for line in text_of(error).splitlines())
    line = next(filter(None, lines), "no message")
    return f"{type(error).__name__}: {line if len(line) <= _LONGEST else f'{line[:_LONGEST]}...'}"


def causes(error: BaseException | None, *, implied: bool = False) -> Iterator[BaseException]:
    """The error, what it was raised from, and so on: each once, as `raise error from error` allows.

    Args:
        error: where it begins.
        implied: whether an error during whose handling another was raised is its cause, too.
    """
    passed: list[BaseException] = []
    while error is not None and not any(error is one for one in passed):
        passed.append(error)
        yield error
        cause = error.__cause__
        error = error.__context__ if cause is None and implied else cause


def check_options(owner: object, rules: Mapping[str, bool]) -> None:
    """Raise ValueError for the first rule that is not kept, with the option's value.

    Args:
        owner: has the options as attributes.
        rules: whether each is kept, by its text, e.g. ``repeats: at least 0``.
    """
    for rule, kept in rules.items():
        if not kept:
            option = rule.partition(":")[0]
            raise ValueError(f"{rule}; got {option}={getattr(owner, option)!r}")
