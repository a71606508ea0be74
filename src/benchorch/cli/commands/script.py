"""``benchorch script``: find the models in a script and benchmark them."""

from __future__ import annotations

import contextlib
import glob
import os
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias, cast, final

import click

from benchorch.cli.arguments import ALLOW_SKIPS, Request, is_recipe
from benchorch.cli.arguments import parse as parse_run
from benchorch.cli.command import Words, command
from benchorch.cli.commands import script_report
from benchorch.cli.run import benchmark, check_output
from benchorch.cli.terminal import Terminal
from benchorch.config.components import make, misspelt
from benchorch.config.composer import Composer, config_loader
from benchorch.config.overrides import set_before
from benchorch.domain.codec import Json
from benchorch.domain.reply import Reply
from benchorch.domain.trial import ConfigNode, node_of
from benchorch.errors import ConfigError, Problem, RecordError
from benchorch.frontends.scripts.discover import Enough, Script, labels_of
from benchorch.frontends.scripts.discover_all import Discovery
from benchorch.frontends.scripts.model_configs import (
    bundled_sources,
    prompt_words,
    words_for,
    write_configs,
)
from benchorch.host import sandbox
from benchorch.interfaces.executor import Executor
from benchorch.interfaces.scenario import Scenario
from benchorch.journal import run_directory
from benchorch.journal.registry import find_invocation, new_directory
from benchorch.models.script_files import MODEL_SUFFIXES
from benchorch.models.trust import grant, is_users_own

_SEPARATOR = "::"
_MAGIC = "*?["
_LOST = "{}: there is no such option. Arguments of the script follow ' :: ', after all other words."
_DIRECTORY = "hydra.run.dir="
_Composed: TypeAlias = tuple[Composer, Request] | None
_JOBS = max(1, (os.cpu_count() or 1) // 2)


class _Script(Words):
    """A command whose words after a lone :: are the script's own, whatever they look like."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The words before ::, which may end a script's name; those after it noted."""
        at = next((n for n, word in enumerate(args) if _ends_names(word)), len(args))
        word = "".join(args[at : at + 1])
        name, _, first = word.partition(_SEPARATOR)
        if word.endswith(_SEPARATOR):
            name, first = word.removesuffix(_SEPARATOR), ""
        ctx.meta[_SEPARATOR] = (*filter(None, [first]), *args[at + 1 :])
        return super().parse_args(ctx, [*args[:at], *filter(None, [name])])


def _ends_names(word: str) -> bool:
    """Whether the script's own arguments follow: ``::``, ``a.py::``, ``a.py::--epochs``."""
    return word.endswith(_SEPARATOR) or word.partition(_SEPARATOR)[2].startswith("-")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is looked for in scripts, and what becomes of it."""

    allow_skips: bool
    analyze_only: bool
    build_only: bool
    sandbox: bool | None
    max_depth: int
    labels: tuple[str, ...]
    name: str
    script_args: str
    until_quiet: float | None
    first: bool
    jobs: int
    no_capture: bool
    resume: bool
    timeout: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The models found, and the arguments of the run that benchmarks them.

    Attributes:
        words: empty where nothing is benchmarked.
        directory: of that run, where several scripts end with a corpus report; else None.
        founds: what was found in each script.
        places: of each script's path, its name below the folder that all share.
    """

    reply: Reply
    words: tuple[str, ...] = ()
    directory: Path | None = None
    founds: tuple[ConfigNode, ...] = ()
    places: Mapping[str, str] = field(default_factory=dict)

    def corpus(self, *, complete: bool) -> str:
        """The corpus report, in the run's directory and its tracker; empty for a single script."""
        from benchorch.cli.commands.record import recorder_of
        from benchorch.frontends.scripts.corpus_report import corpus_report
        from benchorch.journal.run_directory import read_plan
        from benchorch.results.compare.load_run import load

        if self.directory is None or not (self.directory / run_directory.PLAN).is_file():
            return ""
        try:
            stored = load(str(self.directory))
        except ConfigError:  # it ended before its first result
            return ""
        report = corpus_report(self.places, self.founds, stored)
        page = report.write(self.directory)
        plan = read_plan(self.directory)
        recorder = recorder_of(self.directory, plan, None)
        if recorder.address:
            with contextlib.suppress(RecordError):  # the run has said so of its own results
                recorder.open(plan, self.directory)
                recorder.close(plan, self.directory, complete=complete)
        return f"{report.text()}\n\ncorpus    {page}"


@command(
    "script",
    cls=_Script,
    help="""Run each script, find every torch module that it calls, and benchmark them.

    A script is executed as it is: run only what you trust. Arguments key=value are overrides, as
    everywhere: hardware=local conversion=[eager,onnxruntime] stopping=quick. SCRIPT.py::HASH takes
    only the models of these hashes. With --json it shows what is found, as --analyze-only; a script
    outside your own git work tree is then run in a sandbox, where the system has one.
    """,
)
@click.argument(
    "words",
    metavar="SCRIPT.py[::HASH,...] ... [RECIPE.yaml] [key=value ...] [:: ARGUMENTS]",
    nargs=-1,
    type=click.UNPROCESSED,
)
@click.option(
    ALLOW_SKIPS, is_flag=True, help="exit with 0 although a requested conversion cannot run"
)
@click.option("--analyze-only", is_flag=True, help="only show what is found")
@click.option("--build-only", is_flag=True, help="build what is found, measure nothing")
@click.option(
    "--sandbox/--no-sandbox",
    default=None,
    help="no network, home or writing; the default to analyse other people's scripts",
)
@click.option(
    "--max-depth", type=int, default=0, metavar="N", help="also parts of models, down to N levels"
)
@click.option(
    "--labels",
    multiple=True,
    metavar="KEY::VALUE",
    help="only scripts whose first line is '# labels: KEY::VALUE'; VALUE may be a,b",
)
@click.option(
    "--name", default="", metavar="PATTERN", help="only models of this name: 'net.encoder.*'"
)
@click.option("--script-args", default="", metavar="WORDS", help="arguments of the scripts")
@click.option(
    "--until-quiet", type=float, metavar="S", help="end a script S seconds after its last new model"
)
@click.option("--first", is_flag=True, help="end a script at its first call that can be measured")
@click.option(
    "--jobs",
    type=int,
    default=_JOBS,
    metavar="N",
    help="how many scripts run at a time; with --build-only also how many models are built",
)
@click.option(
    "--no-capture", is_flag=True, help="run the script in each process, instead of one export"
)
@click.option("--resume", is_flag=True, help="reuse earlier results of scripts that did not change")
@click.option(
    "--timeout", type=float, default=600, metavar="S", help="seconds a script may run: 600"
)
def run(terminal: Terminal, words: Sequence[str], **options: Any) -> Reply | int:
    """What was found, and the run that benchmarks it."""
    context = click.get_current_context()
    behind = context.meta[_SEPARATOR]
    own = {name for option in context.command.params for name in option.opts}
    if given := own.intersection(word.partition("=")[0] for word in behind):
        terminal.say(f"{', '.join(sorted(given))} after :: is an argument of the script")
    prepared = prepare(words, behind, Options(**options), terminal)
    if not prepared.words:
        return prepared.reply
    code = replace(terminal, output=None).reply(prepared.reply)  # the file is the run's
    code = max(code, benchmark(parse_run(prepared.words), terminal))
    report = prepared.corpus(complete=code <= 1)
    if report:
        terminal.show(report)
    return code


def prepare(
    words: Sequence[str], behind: Sequence[str], options: Options, terminal: Terminal
) -> Prepared:
    """Find the models, and with ``--build-only`` build them."""
    scripts, overrides = parse(words, behind, options)
    composed = _composed(overrides)
    if _generates(composed):
        scripts = [replace(script, generation=True) for script in scripts]
    say = terminal.say
    analyze = options.analyze_only or terminal.as_json
    if not (analyze or options.build_only):
        check_output(terminal)
    grant(*(str(script.path) for script in scripts))
    founds = Discovery(
        timeout_s=options.timeout,
        keep=not analyze,
        jobs=min(options.jobs, len(scripts)),
        resume=options.resume,
        sandboxed=_sandboxed(scripts, say, looks=analyze, wanted=options.sandbox),
        enough=Enough(quiet_s=options.until_quiet, first=options.first),
        executor=_executor(composed),
    ).run(scripts, say)
    reply = Reply(
        text=script_report.overview(founds),
        data=_data(founds),
        exit_code=1 if script_report.failed(founds) else 0,
    )
    if analyze:
        return Prepared(reply=reply)
    grant(*bundled_sources(founds))  # code of the scripts that the user has named
    configs = {
        script: write_configs(script, found)
        for script, found in zip(scripts, founds, strict=True)
        if found["models"]
    }
    if not any(configs.values()):
        return Prepared(reply=Reply(text=reply.text, data=reply.data, exit_code=1))
    own = [*words_for(configs, founds), *_prompts(founds, overrides)]
    words = [*(word for word in own if not _is_typed(word, overrides)), *overrides]
    words += [ALLOW_SKIPS] if options.allow_skips else []
    if options.build_only:
        return Prepared(reply=_built(reply, configs, words, say, options.jobs))
    directory = None
    if len(scripts) > 1 and not {"-m", "--multirun"} & set(overrides):
        directory, words = _with_directory(words)
    return Prepared(
        reply=reply,
        words=tuple(words),
        directory=directory,
        founds=tuple(founds),
        places={str(script.path): script.place for script in scripts},
    )


def _composed(overrides: Sequence[str]) -> _Composed:
    """The run's configuration; ConfigError for mistaken words, None where there are none."""
    if not overrides:  # composing costs a quarter of a second, and often nothing is measured
        return None
    request = parse_run(overrides, "script")
    composer = Composer(config_loader(request.directories), request.config_name)
    problems = composer.problems(composer.lifted(request.overrides), sweep=request.multirun)
    if problems:
        raise ConfigError(problems)
    return composer, request


def _generates(composed: _Composed) -> bool:
    """Whether a scenario of the run generates tokens."""
    if composed is None:
        return False
    composer, request = composed
    jobs = composer.jobs(request.overrides, sweep=request.multirun)
    nodes = [cell.config["scenario"] for job in jobs for cell in composer.cells(job)]
    return any(make(cast(ConfigNode, each), Scenario, "scenario").sampling for each in nodes)


def _executor(composed: _Composed) -> Executor | None:
    """The run's executor, on whose nodes scripts run too where it has any."""
    if composed is None:
        return None
    composer, request = composed
    (job, *_) = composer.jobs(request.overrides, sweep=request.multirun)
    return make(node_of(composer.session(job), "executor"), Executor, "executor")


def _prompts(founds: Sequence[ConfigNode], overrides: Sequence[str]) -> list[str]:
    """The script's own size of prompts, unless a recipe says it."""
    return [] if any(map(is_recipe, overrides)) else prompt_words(founds)


def _is_typed(word: str, overrides: Sequence[str]) -> bool:
    """Whether the user sets the key of a word that follows from the script."""
    return word.startswith("workload.") and bool(set_before(word, overrides))


def _with_directory(words: Sequence[str]) -> tuple[Path, list[str]]:
    """The directory of a run, and the words that put it there; that of a run that goes on."""
    resumed = parse_run(words).resume
    if resumed is not None:
        return find_invocation(resumed), [*words]
    given = [word.removeprefix(_DIRECTORY) for word in words if word.startswith(_DIRECTORY)]
    if given:
        return Path(given[-1]), [*words]
    directory = new_directory()
    return directory, [*words, f"{_DIRECTORY}{directory}"]


def _sandboxed(
    scripts: Sequence[Script], say: Callable[[str], None], *, looks: bool, wanted: bool | None
) -> frozenset[Script]:
    """Which scripts run in a sandbox: those that are only looked at and are not the user's own.

    Args:
        looks: whether nothing is measured.
        wanted: what the command line chose; None for neither.
    """
    if wanted and not looks:
        raise ConfigError(
            [
                "--sandbox: a script that is measured runs with your rights; look at it first, "
                "with --analyze-only."
            ]
        )
    if not looks or wanted is False:
        return frozenset()
    chosen = frozenset(one for one in scripts if wanted or not is_users_own(one.path))
    why = sandbox.problem() if chosen else ""
    if why and wanted:
        raise ConfigError([f"--sandbox: {why}. --no-sandbox runs the script with your rights."])
    if why:
        say(f"{why}: the script runs with your rights")
    return frozenset() if why else chosen


def _built(
    reply: Reply,
    configs: Mapping[Script, Mapping[str, Path]],
    words: Sequence[str],
    say: Callable[[str], None],
    jobs: int,
) -> Reply:
    from benchorch.run.build_only import build_only

    directories = [script.folder / "conf" for script, written in configs.items() if written]
    overrides = [word for word in words if "=" in word]
    folder = next(iter(configs)).folder / "builds"
    rows = build_only(directories, overrides, folder, say, jobs)
    failed = any("failed" in row for row in rows)
    data = {**cast("dict[str, Json]", reply.data), "builds": cast(Json, rows)}
    text = f"{reply.text}\n\n{script_report.builds(rows)}"
    return Reply(text=text, data=data, exit_code=1 if failed else reply.exit_code)


def parse(
    words: Sequence[str], behind: Sequence[str], options: Options
) -> tuple[list[Script], list[str]]:
    """Scripts and overrides; ConfigError with every problem."""
    overrides = [word for word in words if _is_override(word)]
    names = [word for word in words if word not in overrides]
    next_line = ""
    if lost := _lost_arguments(names):
        names = [name for name in names if name not in lost]
        typed = ["benchorch", "script", *names, *overrides, _SEPARATOR]
        next_line = shlex.join([*typed, *lost])
    problems = [_LOST.format(" ".join(lost))] if lost else []
    problems += [
        f"{text}: the models are those of the script; give script.py::hash to choose among them."
        for text in overrides
        if text.lstrip("+").startswith(("model=", "model.inputs"))
    ]
    if options.build_only and any(map(is_recipe, overrides)):
        problems.append("--build-only: builds what a script has for every conversion, no recipe.")
    if not names:
        problems.append("script: no script is named; for example: benchorch script my_script.py")
    quiet_s = options.until_quiet
    problems += [
        f"{name}: expected {least}."
        for name, wrong, least in (
            ("--timeout", not options.timeout > 0, "seconds above 0"),
            ("--max-depth", options.max_depth < 0, "0 or more"),
            ("--jobs", options.jobs < 1, "1 or more"),
            ("--until-quiet", quiet_s is not None and not quiet_s > 0, "seconds above 0"),
        )
        if wrong
    ]
    if problems:
        raise ConfigError(problems, next=next_line if len(problems) == 1 else "")
    given = (*_words(options.script_args), *behind)
    return _labelled(_scripts(names, given, options), options.labels), overrides


def _words(text: str) -> list[str]:
    """The words of ``--script-args``, as a shell parts them; ConfigError where a quote is open."""
    try:
        return shlex.split(text)
    except ValueError as error:
        problem = f"--script-args: {text!r} cannot be split into words: {error}."
        raise ConfigError([problem]) from error


def _lost_arguments(names: Sequence[str]) -> list[str]:
    """Words that can only be a script's own: an unknown option, and what behind it is no file."""
    at = next((n for n, name in enumerate(names) if name[:1] == "-"), None)
    if at is None:
        return []
    return [*names[at : at + 1], *(name for name in names[at + 1 :] if not _is_path(name))]


def _is_path(name: str) -> bool:
    text = name.partition(_SEPARATOR)[0]
    return bool(set(_MAGIC) & set(text)) or Path(text).exists()


def _is_override(word: str) -> bool:
    """Whether a word is the run's: an override or a recipe, which is no script."""
    return is_recipe(word) or ("=" in word and not Path(word.partition(_SEPARATOR)[0]).exists())


def _scripts(names: Sequence[str], given: tuple[str, ...], options: Options) -> list[Script]:
    chosen = [
        (path, tuple(filter(None, hashes.split(","))))
        for name in names
        for text, _, hashes in [name.partition(_SEPARATOR)]
        for path in _paths(text)
    ]
    if not any(path.exists() for path, _ in chosen):
        raise ConfigError([_no_such_script(name.partition(_SEPARATOR)[0]) for name in names])
    names_of = Counter(path.name for path in {path for path, _ in chosen})
    above = os.path.commonpath([path.parent for path, _ in chosen])
    scripts = [
        Script(
            path=path,
            arguments=given,
            hashes=hashes,
            max_depth=options.max_depth,
            pattern=options.name,
            capture=not options.no_capture and path.suffix not in MODEL_SUFFIXES,
            title="" if names_of[path.name] == 1 else path.relative_to(above).as_posix(),
            place=path.relative_to(above).as_posix(),
        )
        for path, hashes in chosen
    ]
    return list(dict.fromkeys(scripts))


def _labelled(scripts: list[Script], labels: Sequence[str]) -> list[Script]:
    """Those whose first line has one of the values of each label; ConfigError for none."""
    requested = [word.partition(_SEPARATOR) for text in labels for word in text.split()]
    unclear = [
        f"--labels: expected key::value, got {key!r}." for key, sign, _ in requested if not sign
    ]
    if unclear:
        raise ConfigError(unclear)
    chosen = [
        script
        for script in scripts
        if all(
            set(values.split(",")) & set(labels_of(script.path).get(key, ()))
            for key, _, values in requested
        )
    ]
    if scripts and not chosen:
        raise ConfigError([f"--labels: no script has {' '.join(labels)} on its first line."])
    return chosen


def _no_such_script(name: str) -> Problem:
    beside = sorted(path.name for path in Path(name).absolute().parent.glob("*.py"))
    return misspelt(f"script: there is no {name}.", Path(name).name, beside)


def _paths(text: str) -> list[Path]:
    """The scripts of an argument, which may be a pattern that the shell left unexpanded."""
    if Path(text).exists() or not any(sign in text for sign in _MAGIC):
        return [Path(text).absolute()]
    found = sorted(set(_matching(text)))
    if not found:
        raise ConfigError([f"script: no file matches {text!r}."])
    return [Path(path).absolute() for path in found]


def _matching(pattern: str) -> Iterator[str]:
    """The paths that fit; ``**`` follows no links, which lead around in a circle where two meet."""
    pattern = f"{pattern}/*" if pattern.endswith("/**") else pattern
    head, stars, tail = pattern.partition("**/")
    if not stars or (head and not head.endswith("/")):
        yield from glob.glob(pattern)  # noqa: PTH207 patterns may be absolute
        return
    for root in glob.glob(head) if head else ["."]:  # noqa: PTH207
        for folder, inner, _ in os.walk(root):
            inner[:] = [name for name in inner if not name.startswith(".")]
            place = glob.escape(os.path.normpath(folder))
            yield from _matching(tail if place == "." else f"{place}/{tail}")


def _data(founds: Sequence[ConfigNode]) -> Json:
    """Every model with its invocations, and every script with how it ended."""
    models = [
        {"script": found["script"], "labels": found["labels"], **_public(model)}
        for found in founds
        for model in cast("list[ConfigNode]", found["models"])
    ]
    scripts = [{k: v for k, v in found.items() if k != "models"} for found in founds]
    return cast(Json, {"models": models, "scripts": scripts})


def _public(model: ConfigNode) -> dict[str, Json]:
    calls = [
        {key: value for key, value in call.items() if key != "model"}
        for call in cast("list[ConfigNode]", model["invocations"])
    ]
    return {**model, "invocations": cast(Json, calls)}
