"""Terminal output, questions and exit codes."""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchorch.domain.codec import Json
from benchorch.domain.json_text import indented
from benchorch.domain.reply import Reply
from benchorch.errors import BenchorchError, ConfigError, NoMachine, RecordError, StoreError
from benchorch.files import write_text
from benchorch.formatting import printable, printable_with_colours

OK, FAILED, WRONG_REQUEST, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143
HELP = "benchorch --help"

# What programs tell errors apart by; the nearest base class counts.
_CODES: Mapping[type[BenchorchError], str] = {
    NoMachine: "no_machine",
    ConfigError: "wrong_request",
    StoreError: "store",
    RecordError: "record",
}


def ask(question: str) -> str:
    """A person's answer; empty where there is no terminal."""
    try:
        return input(question).strip()
    except EOFError:
        return ""


def print_out(text: str) -> None:
    """Print a part of the answer at once."""
    print(printable(text), flush=True)


def print_err(text: str) -> None:
    """Print progress beside the answer."""
    print(f"  {printable(text)}", file=sys.stderr, flush=True)


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
        self.part(text)

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
            shown = printable_with_colours if reply.is_coloured else printable
            print(shown(reply.text))
        return reply.exit_code

    def _write(self, reply: Reply, path: Path) -> None:
        text = "".join(indented(reply.data)) if self.wants_json else printable(reply.text)
        try:
            write_text(path, f"{text}\n")
        except OSError as error:
            raise ConfigError([f"--output: {path} cannot be written: {error.strerror}."]) from error
        self.say(f"wrote {path}")


def print_error(error: BenchorchError, *, as_json: bool = False) -> int:
    """Print an error, for people each problem on a line of its own; the exit code."""
    if as_json:
        print(json.dumps(_error_data(error), indent=2))
    elif isinstance(error, NoMachine):
        print(error.plan, flush=True)
        print(f"\n{error.ways}", file=sys.stderr)
    elif isinstance(error, ConfigError):
        count = len(error.problems)
        print(f"{count} problem{'' if count == 1 else 's'}; nothing was run:", file=sys.stderr)
        for problem in error.problems:
            print(
                printable("\n".join(f"  {line}" for line in problem.splitlines())), file=sys.stderr
            )
        print(f"Try: {printable(error.next or HELP)}", file=sys.stderr)
    else:
        print(printable(str(error)), file=sys.stderr)
    return WRONG_REQUEST if isinstance(error, ConfigError) else FAILED


def _error_data(error: BenchorchError) -> Json:
    """An error for programs: its kind, what it says, and the next command."""
    code = next((_CODES[kind] for kind in type(error).__mro__ if kind in _CODES), "failed")
    data: dict[str, Json] = {"code": code, "message": str(error), "next": ""}
    if isinstance(error, ConfigError):
        data |= {"problems": list(error.problems), "next": error.next or HELP}
    return data
