"""``benchorch run`` and its kin: a new run, an old one to its end, and failed trials once more."""

import re
import shutil
from collections.abc import Iterator, Sequence

import click

from benchorch.cli.arguments import parse
from benchorch.cli.command import Words, command, run_argument, words_argument
from benchorch.cli.run import benchmark, run_again
from benchorch.cli.terminal import Terminal
from benchorch.config.descriptions import groups, meanings, root_keys
from benchorch.domain.reply import Reply
from benchorch.errors import ConfigError
from benchorch.formatting import shell_word
from benchorch.journal.registry import find_invocation, latest_invocations

_EXAMPLES = "benchorch run model=bert"
_HEAD = """\
Usage: benchorch [run] [RECIPE.yaml] [KEY=VALUE ...] [OPTIONS]
  benchorch run model=mlp conversion=[eager,onnxruntime]   a list is a matrix
  benchorch run recipes/bert.yaml workload.seq_len=256     a recipe, overridden"""
_OPTIONS = """\
  -m, --multirun   cross comma-separated values  --config-dir DIR  own groups
  --only NAME      only these trials; * too      --cfg job     keys, resolved
  -x, --exitfirst  the first failure ends it     --hydra-help  Hydra's own flags
  --allow-skips    exit with 0 although a requested conversion cannot run"""
_NAME, _DEFAULT = 12, 16


class _RunCommand(Words):
    """A run, whose help describes the configuration."""

    def get_help(self, ctx: click.Context) -> str:
        """Every group and key with its meaning, in a screen."""
        lines = [_HEAD, "Groups (benchorch help GROUP: their options)"]
        lines += [_line(name, option, meanings()[name]) for name, option in groups().items()]
        lines.append("Keys (benchorch help KEY: all that are below it)")
        lines += _keys()
        return "\n".join([*lines, "Options", _OPTIONS])


def _keys() -> Iterator[str]:
    sections = set()
    for key in root_keys():
        section, dot, _ = key.name.partition(".")
        if not dot:
            yield _line(key.name, key.default, key.meaning)
        elif section not in sections:
            sections.add(section)
            yield _line(section, "", meanings()[section])


def _line(name: str, default: str, meaning: str) -> str:
    width = shutil.get_terminal_size().columns
    shown = default if len(default) < _DEFAULT else f"{default[: _DEFAULT - 2]}…"
    head = f"  {name:{_NAME}}{shown:{_DEFAULT}}"
    fits = len(head) + len(meaning) <= width
    return head + (meaning if fits else re.split(r"; | \(", meaning)[0])


@command("run", cls=_RunCommand)
@words_argument()
def run(terminal: Terminal, words: Sequence[str]) -> int:
    """A benchmark of what the words describe."""
    request = parse(words)
    if request.is_bare:
        raise ConfigError(["run: names no model and no recipe."], next=_EXAMPLES)
    return benchmark(request, terminal)


@command(
    "resume",
    cls=Words,
    help="""Resume a run that ended before its plan did: only trials without a result run.

    RUN is a run's directory or its name, its plan id, its MLflow run id, or `last`. With --head
    URL, or BENCHORCH_HEAD, it continues on that cluster. KEY=VALUE changes a setting for the rest,
    such as budget.minutes=10; with a model or a recipe its trials are added.
    """,
)
@run_argument()
@words_argument("[KEY=VALUE ...]")
@click.option("--head", metavar="URL", help="a Ray head's dashboard, this end of a tunnel")
@click.option("--here", is_flag=True, help="on this machine, whatever BENCHORCH_HEAD is")
def resume(
    terminal: Terminal, run: str, words: Sequence[str], head: str | None, here: bool
) -> Reply | int:
    """The rest of the run."""
    from benchorch.executors.ray_jobs import default_head

    url = None if here else head or default_head()
    if url is not None:
        from benchorch.cli.commands import submit

        return submit.run.reply(["resume", run, *words, "--head", url], output=terminal.output)
    return benchmark(parse([f"resume={run}", *words], "resume"), terminal)


@command(
    "rerun",
    help="""Run trials of a stored run again, in the same directory; the newest results count.

    RUN is the newest run of this folder that has ended, unless it is named.
    """,
)
@run_argument(metavar="[RUN]")
@click.option("--failed", is_flag=True, help="trials that failed or gave other outputs")
@click.option(
    "--only",
    multiple=True,
    metavar="NAME",
    help="trials of this conversion or name; 'int8*' matches several",
)
@click.option("--exitfirst", "-x", is_flag=True, help="stop at the first failure")
def rerun(
    terminal: Terminal, run: str | None, failed: bool, only: Sequence[str], exitfirst: bool
) -> int:
    """The chosen trials of the run, once more."""
    newest = latest_invocations(1)
    if run is None and not newest:
        raise ConfigError(["rerun: no run has started on this machine yet."], next=_EXAMPLES)
    directory = newest[0] if run is None else find_invocation(run, "rerun")
    chosen = [name for text in only for name in text.split(",")]
    if not (failed or chosen):
        what = f"benchorch rerun {shell_word(run or directory)} --failed"
        raise ConfigError(["rerun: choose trials by --failed or --only NAME."], next=what)
    return run_again(directory, terminal, failed=failed, only=chosen, exit_first=exitfirst)


@command("version", help="Print the installed version.")
def version(terminal: Terminal) -> Reply:
    """The installed version."""
    from benchorch import __version__

    return Reply(text=__version__, data={"version": __version__})
