"""Terminal output, questions and exit codes."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from benchorch.domain.codec import Json
from benchorch.domain.json_text import indented
from benchorch.domain.reply import Reply
from benchorch.errors import (
    BenchorchError,
    ConfigError,
    Correction,
    NoMachine,
    Problem,
    RecordError,
    StoreError,
)
from benchorch.files import write_text
from benchorch.formatting import plural, printable, printable_with_colours
from benchorch.results.report.console_table import folded

OK, FAILED, WRONG_REQUEST, INTERRUPTED = 0, 1, 2, 130
HELP = "benchorch --help"
_LONGEST_LINE = 4000

# What programs tell errors apart by; the nearest base class counts.
_CODES: Mapping[type[BenchorchError], str] = {
    NoMachine: "no_machine",
    ConfigError: "wrong_request",
    StoreError: "store",
    RecordError: "record",
}


def ask(question: str) -> str:
    """A person's answer; empty where there is no terminal."""
    if sys.stdin is None or not sys.stdin.isatty():
        return ""
    try:
        return input(question).strip()
    except EOFError:
        return ""


def print_out(text: str) -> None:
    """Print a part of the answer at once."""
    print(printable(text), flush=True)


def print_err(text: str) -> None:
    """Print progress beside the answer."""
    print(folded(f"  {printable(text)}", sys.stderr), file=sys.stderr, flush=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """The folder of what ``--output`` names, made; ConfigError where it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        text = f"--output: {path} cannot be written: {error.strerror}."
        meant = str(path / "result.txt") if path.is_dir() else f"/tmp/{path.name or 'result.txt'}"
        raise ConfigError([Problem(text, Correction(typed=str(path), meant=meant))]) from error


def unlinked(folder: Path) -> Path:
    """A command's default folder; ConfigError where the current folder, a stranger's, links it."""
    if folder.is_symlink():
        text = f"{folder} is a link to {folder.readlink()}, so nothing is written there unasked."
        raise ConfigError([Problem(text, Correction(added=("--output", str(folder))))])
    return folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """Where a command's answer goes, as the options that every command takes have it.

    Attributes:
        as_json: whether the answer is for programs.
        quiet: whether only the answer and errors are printed.
        verbose: whether every step is printed.
        yes: whether questions are answered by yes.
        output: the file or folder that the answer is written to in place of the terminal.
        progress: prints progress beside the answer.
        part: prints a part of the answer at once.
        question: asks a person; returns the answer.
    """

    as_json: bool = False
    quiet: bool = False
    verbose: bool = False
    yes: bool = False
    output: Path | None = None
    progress: Callable[[str], None] = print_err
    part: Callable[[str], None] = print_out
    question: Callable[[str], str] = ask

    @property
    def wants_json(self) -> bool:
        """Whether the answer is for programs, in a file or not."""
        return self.as_json or (self.output is not None and self.output.suffix == ".json")

    def say(self, text: str) -> None:
        """Print progress, unless the command is to be quiet."""
        if not self.quiet:
            self.progress(text)

    def show(self, text: str) -> None:
        """Print a part of the answer at once."""
        self.part(text if self.as_json else folded(_cut_lines(text), sys.stdout))

    def confirm(self, question: str) -> bool:
        """Whether a person agrees, on the command line or when asked."""
        return self.yes or self.question(question).lower() in ("y", "yes")

    def reply(self, reply: Reply) -> int:
        """Print a reply, or write it to the named file; its exit code."""
        if reply.exit_code == WRONG_REQUEST:
            raise ConfigError([reply.text])
        if self.output is not None:
            self._write(reply, self.output)
        elif self.as_json:
            sys.stdout.writelines(indented(reply.data))
            print()
        elif reply.text:
            text = (printable_with_colours if reply.is_coloured else printable)(reply.text)
            print(text if reply.verbatim else folded(_cut_lines(text), sys.stdout))
        return reply.exit_code

    def _write(self, reply: Reply, path: Path) -> None:
        text = "".join(indented(reply.data)) if self.wants_json else printable(reply.text)
        with writing(path):
            write_text(path, f"{text}\n")
        self.say(f"wrote {path}")


def print_error(error: BenchorchError, *, as_json: bool = False) -> int:
    """Print an error, for people each problem on a line of its own; the exit code."""
    if as_json:
        print(json.dumps(_error_data(error), indent=2))
    elif isinstance(error, NoMachine):
        print(error.plan, flush=True)
        _print_wrong(f"\n{error.ways}")
    elif isinstance(error, ConfigError):
        _print_wrong(f"{plural(len(error.problems), 'problem')}; nothing was run:")
        for problem in error.problems:
            _print_wrong("\n".join(f"  {line}" for line in problem.splitlines()))
        in_file = all(problem.in_file for problem in error.problems)
        _print_wrong(f"{'Correct the file, then' if in_file else 'Try'}: {error.next or HELP}")
    else:
        _print_wrong(str(error))
    return WRONG_REQUEST if isinstance(error, ConfigError) else FAILED


def _print_wrong(text: str) -> None:
    print(folded(_cut_lines(printable(text)), sys.stderr), file=sys.stderr)


def _cut_lines(text: str) -> str:
    return "\n".join(map(_cut, text.split("\n")))


def _cut(line: str) -> str:
    """A line without the middle of a value that fills a screen, as a stranger's file may have."""
    end = _LONGEST_LINE // 4
    return line if len(line) <= _LONGEST_LINE else f"{line[: 3 * end]} ... {line[-end:]}"


def _error_data(error: BenchorchError) -> Json:
    """An error for programs: its kind, what it says, and the next command."""
    code = next((_CODES[kind] for kind in type(error).__mro__ if kind in _CODES), "failed")
    data: dict[str, Json] = {"code": code, "message": str(error), "next": ""}
    if isinstance(error, ConfigError):
        data |= {"problems": list(error.problems), "next": error.next or HELP}
    if isinstance(error, NoMachine):
        data |= {"next": "", "plan": cast(Json, error.data)}
    return data
