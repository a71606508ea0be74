"""Commands on a cluster's head: submitting runs, and status, logs and cancel of them."""

import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click

from benchorch.cli.command import Command
from benchorch.cli.terminal import Terminal
from benchorch.domain.reply import Reply
from benchorch.errors import ConfigError
from benchorch.executors.ray_jobs import RUNNING, RayJobs, default_head
from benchorch.recorders.location import strike_out
from benchorch.run.planner import new_plan_id
from benchorch.units import format_bytes

MOST_BYTES = 50 * 2**20
"""Limit of what is copied with a run: recipes and code, no weights and no data."""

SECRET = (
    *("*.pem", "*.key", "*.ppk", "*.p12", "*.pfx", "*.jks", "*.keystore", "*credentials*"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*"),
    *("*secret*.json", "*secret*.toml", "*secret*.yaml", "*secret*.yml"),  # but no module's name
)
DATABASES = ("*.db", "*.db-*", "*.sqlite*", "*.duckdb*")
IGNORED = ("__pycache__", "*.pyc", "runs", "mlruns", "mlartifacts", "node_modules")
"""Besides everything whose name begins with a dot: .git, .env, .aws, .ssh, .venv."""

# `ray job stop` ends a run as Ctrl-C does, with time to write its results.
_JOB = {"RAY_JOB_STOP_SIGNAL": "SIGINT", "RAY_JOB_STOP_WAIT_TIME_S": "120"}
_START_S = 180.0
_LOOK_S = 0.5
# Ray writes it into the command's output, at any moment.
_RAY_LINE = re.compile(r"^Running entrypoint for job .*\n?", re.MULTILINE)


UNCHANGED = Reply(text="Nothing was changed.", data={"changed": False}, exit_code=1)


def named(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """The head that the arguments or the environment name, and the other arguments."""
    url, words = "", []
    rest = iter(arguments)
    for word in rest:
        name, _, value = word.partition("=")
        if name == "--head":
            url = value or next(rest, "")
            if not url:
                raise ConfigError(["--head: needs the URL of a Ray head's dashboard."])
        elif word != "--here":
            words.append(word)
    return (None if "--here" in arguments else url or default_head()), words


class HeadCommand(Command):
    """A command that a cluster's head carries out where one is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The words without the head's; that, and the words, noted in `meta`."""
        ctx.meta["head"], words = named(args)
        ctx.meta["words"] = tuple(words)
        return super().parse_args(ctx, words)

    def invoke(self, ctx: click.Context) -> int:
        """Carry it out here, or there."""
        url = ctx.meta["head"]
        if url is None:
            return super().invoke(ctx)
        if ctx.params["output"] is not None:
            why = "it would be written on the head. Redirect what is printed: > FILE."
            raise ConfigError([f"--output: {why}"])
        return relay(str(self.name), ctx.meta["words"], url)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """How a head is named, too."""
        formatter.write_paragraph()
        formatter.write_text(
            "--head URL, or BENCHORCH_HEAD, is a cluster's head; --here this machine."
        )
        super().format_epilog(ctx, formatter)


def refuse_secrets(words: Sequence[str]) -> None:
    """ConfigError for arguments with passwords, which the head would show to others."""
    secret = [word.partition("=")[0] for word in words if strike_out(word) != word]
    if secret:
        raise ConfigError(
            [
                f"{key}: holds a password, which everybody who sees the head's jobs could read. "
                "Set it in the head's environment instead."
                for key in secret
            ]
        )


def submit(jobs: RayJobs, url: str, words: Sequence[str], working_dir: Path | None) -> Reply:
    """Start a run's coordinator on the head; returns once its plan is known.

    Args:
        url: of the head's dashboard, for the next commands.
        words: the run's arguments; the head checks them, as it has the files that they name.
        working_dir: what is copied; nothing where it is None.
    """
    refuse_secrets(words)
    name = f"benchorch-{new_plan_id()}"
    flags = ["--with-code"] if working_dir else []
    command = shlex.join(["python", "-m", "benchorch", "submit", "--as", name, *flags, *words])
    if working_dir is None:
        jobs.submit(name, command, _JOB)
    else:
        with tempfile.TemporaryDirectory(prefix="benchorch-") as copy:
            pack(working_dir, Path(copy))
            jobs.submit(name, command, _JOB, Path(copy))
    state, log = _first_output(jobs, name)
    if state in ("FAILED", "STOPPED"):
        text = f"The run did not start: {jobs.reason(name)}\n{log}"
        code = jobs.exit_code(name) or 1
        return Reply(text=text, data={"job": name, "state": state}, exit_code=code)
    text = f"{log.strip()}\n{next_words(name, f' --head {url}')}"
    return Reply(text=text.lstrip(), data={"job": name, "state": state, "head": url})


def next_words(reference: str, flags: str) -> str:
    """The commands that follow the run."""
    words = (
        ("status", f"status {reference} --watch"),
        ("log", f"logs {reference} --follow"),
        ("end", f"cancel {reference}"),
    )
    return "\n".join(f"  {title:9} python -m benchorch {word}{flags}" for title, word in words)


def _first_output(jobs: RayJobs, name: str) -> tuple[str, str]:
    """The job's state and output, once it has printed its plan or ended."""
    until_s = time.monotonic() + _START_S
    while True:
        state, log = jobs.status(name), _RAY_LINE.sub("", jobs.log(name))
        planned = [line for line in log.splitlines() if " plan " in line]
        if planned or state not in RUNNING or time.monotonic() > until_s:
            return state, planned[0] if planned and state in RUNNING else log
        time.sleep(_LOOK_S)


def relay(command: str, words: Sequence[str], url: str) -> int:
    """Run a command on a head and print what it writes there; its exit code."""
    terminal = Terminal(as_json="--json" in words)
    if command == "cancel" and not {"--yes", "-y"} & set(words):
        if not terminal.confirm(f"End {' '.join(words)} on {url}? [yes/no] "):
            return terminal.reply(UNCHANGED)
        words = [*words, "--yes"]  # nobody can answer there
    return ask(RayJobs(url), [command, *words], terminal.part)


def ask(jobs: RayJobs, words: Sequence[str], say: Callable[[str], None]) -> int:
    """Run a benchorch command on the head and pass on its output; its exit code."""
    name = f"benchorch-{words[0]}-{new_plan_id()}"
    command = shlex.join(["python", "-m", "benchorch", *words])
    jobs.submit(name, f"echo {name}; {command}", _JOB)
    try:
        for text in _output(jobs, name):
            say(text)
        code = jobs.exit_code(name)
    except KeyboardInterrupt:
        jobs.stop(name)
        raise
    jobs.forget(name)
    return 1 if code is None else code


def _output(jobs: RayJobs, name: str) -> Iterator[str]:
    """A job's output after the line with its own name: whole lines, as they come."""
    printed = 0
    goes_on = True
    while goes_on:
        goes_on = jobs.status(name) in RUNNING
        log = _RAY_LINE.sub("", jobs.log(name))
        _, mark, text = log.partition(f"{name}\n")
        if not mark and not goes_on and log:
            yield log  # Ray's own output: the command never started
        end = text.rfind("\n") + 1 if goes_on else len(text)
        if end > printed:
            yield text[printed:end].rstrip("\n")
            printed = end
        if goes_on:
            time.sleep(_LOOK_S)


def pack(directory: Path, copy: Path) -> None:
    """Copy a directory without links, secrets and ignored files; ConfigError if it is too large."""
    if not directory.is_dir():
        raise ConfigError([f"--working-dir: there is no directory {directory}."])
    sizes = {path: path.stat().st_size for path in _shipped(directory)}
    total = sum(sizes.values())
    if total > MOST_BYTES:
        largest = sorted(sizes, key=lambda path: sizes[path], reverse=True)[:3]
        listed = ", ".join(f"{p.relative_to(directory)} {format_bytes(sizes[p])}" for p in largest)
        raise ConfigError(
            [
                f"--working-dir: {directory} holds {format_bytes(total)}, and "
                f"at most {format_bytes(MOST_BYTES)} are copied. The largest: {listed}. Name a "
                "directory with the recipes and the code alone."
            ]
        )
    for path in sizes:
        place = copy / path.relative_to(directory)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, place)


def _shipped(directory: Path) -> Iterator[Path]:
    for path in sorted(directory.iterdir()):
        stays = path.is_symlink() or path.name.startswith(".")
        if stays or any(path.match(pattern) for pattern in (*SECRET, *DATABASES, *IGNORED)):
            continue
        if path.is_dir():
            yield from _shipped(path)
        elif path.is_file():
            yield path
