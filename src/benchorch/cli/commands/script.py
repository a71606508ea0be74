"""``benchorch script``: find the models in a script and benchmark them."""

from __future__ import annotations

import argparse
import glob
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from benchorch.cli.commands import script_report
from benchorch.domain.codec import Json
from benchorch.domain.reply import Reply
from benchorch.domain.trial import ConfigNode
from benchorch.errors import ConfigError
from benchorch.frontends.scripts.discover import Enough, Script, labels_of
from benchorch.frontends.scripts.discover_all import Discovery
from benchorch.frontends.scripts.model_configs import words_for, write_configs
from benchorch.host import sandbox
from benchorch.models.script_run import MODEL_SUFFIXES
from benchorch.models.trust import grant, is_users_own

_SEPARATOR = "::"
_MAGIC = "*?["
NO_CAPTURE_HELP = "run the script again in each process instead of exporting its modules once"
LABELS_HELP = "only scripts whose first line is '# labels: KEY::VALUE'; VALUE may be a,b"
DESCRIPTION = """Runs each script, finds every torch module that it calls, and benchmarks them.

A script is executed as it is: run only what you trust. With --analyze-only, a script outside your
own git work tree runs in a sandbox, where the system has one. Arguments key=value are overrides,
as everywhere: hardware=local conversion=[eager,onnxruntime] stopping=quick. Arguments after a lone
:: are the scripts' own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The models found, and the arguments of the run that benchmarks them.

    Attributes:
        words: empty where nothing is benchmarked.
    """

    reply: Reply
    words: tuple[str, ...] = ()


def run(arguments: Sequence[str], say: Callable[[str], None]) -> Prepared:
    """Find the models, and with ``--build-only`` build them."""
    options, scripts, overrides = parse(arguments)
    analyze = options.analyze_only or options.json
    grant(*(str(script.path) for script in scripts))
    enclosed = _is_enclosed(options, scripts, say)
    founds = Discovery(
        timeout_s=options.timeout,
        keep=not analyze,
        jobs=min(options.jobs, len(scripts)),
        resume=options.resume,
        sandboxed=frozenset(script for script in scripts if enclosed[script]),
        enough=Enough(quiet_s=options.until_quiet, first=options.first),
    ).run(scripts, say)
    reply = Reply(
        text=script_report.overview(founds),
        data=_data(founds),
        exit_code=1 if script_report.failed(founds) else 0,
    )
    if analyze:
        return Prepared(reply=reply)
    configs = {
        script: write_configs(script, found)
        for script, found in zip(scripts, founds, strict=True)
        if found["models"]
    }
    if not any(configs.values()):
        return Prepared(reply=Reply(text=reply.text, data=reply.data, exit_code=1))
    words = [*words_for(configs, founds), *overrides]
    if options.build_only:
        return Prepared(reply=_built(reply, configs, words, say))
    return Prepared(reply=reply, words=tuple(words))


def _is_enclosed(
    options: argparse.Namespace, scripts: Sequence[Script], say: Callable[[str], None]
) -> Mapping[Script, bool]:
    """Which scripts run in a sandbox: those that are only looked at and are not the user's own."""
    if options.sandbox and not (options.analyze_only or options.json):
        raise ConfigError(
            [
                "--sandbox: a script that is measured runs with your rights; look at it first, "
                "with --analyze-only."
            ]
        )
    looks = options.sandbox is not False and (options.analyze_only or options.json)
    wanted = {
        script: looks and (bool(options.sandbox) or not is_users_own(script.path))
        for script in scripts
    }
    why = sandbox.problem() if any(wanted.values()) else ""
    if why and options.sandbox:
        raise ConfigError([f"--sandbox: {why}. --no-sandbox runs the script with your rights."])
    if why:
        say(f"{why}: the script runs with your rights")
    return {script: wish and not why for script, wish in wanted.items()}


def _built(
    reply: Reply,
    configs: Mapping[Script, Mapping[str, Path]],
    words: Sequence[str],
    say: Callable[[str], None],
) -> Reply:
    from benchorch.run.build_only import build_only

    directories = [script.folder / "conf" for script, written in configs.items() if written]
    overrides = [word for word in words if "=" in word]
    rows = build_only(directories, overrides, next(iter(configs)).folder / "builds", say)
    failed = any("failed" in row for row in rows)
    data = {**cast("dict[str, Json]", reply.data), "builds": cast(Json, rows)}
    text = f"{reply.text}\n\n{script_report.builds(rows)}"
    return Reply(text=text, data=data, exit_code=1 if failed else reply.exit_code)


def parse(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[Script], list[str]]:
    """Options, scripts and overrides; ConfigError with every problem."""
    own, behind = _split(arguments)
    options = _parser().parse_intermixed_args(own)
    overrides = [word for word in options.words if _is_override(word)]
    names = [word for word in options.words if word not in overrides]
    problems = [
        f"{text}: the models are those of the script; give script.py::hash to choose among them."
        for text in overrides
        if text.lstrip("+").startswith(("model=", "model.inputs"))
    ]
    if not names:
        problems.append("script: no script is named; for example: benchorch script my_script.py")
    problems += [
        f"{name}: expected {least}."
        for name, wrong, least in (
            ("--timeout", options.timeout <= 0, "seconds above 0"),
            ("--max-depth", options.max_depth < 0, "0 or more"),
            ("--jobs", options.jobs < 1, "1 or more"),
            ("--until-quiet", (options.until_quiet or 1) <= 0, "seconds above 0"),
        )
        if wrong
    ]
    if problems:
        raise ConfigError(problems)
    import shlex

    given = (*shlex.split(options.script_args), *behind)
    scripts = _scripts(names, given, options)
    return options, _labelled(scripts, options.labels), overrides


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Arguments before and after a lone ``::``, which may stand at the end of a script's name."""
    words = list(arguments)
    at = next((n for n, word in enumerate(words) if word.endswith(_SEPARATOR)), None)
    if at is None:
        return words, []
    name = words[at].removesuffix(_SEPARATOR)
    return [*words[:at], *filter(None, [name])], words[at + 1 :]


def _is_override(word: str) -> bool:
    return "=" in word and not Path(word.partition(_SEPARATOR)[0]).exists()


def _scripts(
    names: Sequence[str], given: tuple[str, ...], options: argparse.Namespace
) -> list[Script]:
    chosen = [
        (path, tuple(filter(None, hashes.split(","))))
        for name in names
        for text, _, hashes in [name.partition(_SEPARATOR)]
        for path in _paths(text)
    ]
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
        )
        for path, hashes in chosen
    ]
    return list(dict.fromkeys(scripts))


def _labelled(scripts: list[Script], wanted: Sequence[str]) -> list[Script]:
    """Those whose first line has one of the values of each label; ConfigError for none."""
    asked = [word.partition(_SEPARATOR) for text in wanted for word in text.split()]
    unclear = [f"--labels: expected key::value, got {key!r}." for key, sign, _ in asked if not sign]
    if unclear:
        raise ConfigError(unclear)
    chosen = [
        script
        for script in scripts
        if all(
            set(values.split(",")) & set(labels_of(script.path).get(key, ()))
            for key, _, values in asked
        )
    ]
    if scripts and not chosen:
        raise ConfigError([f"--labels: no script has {' '.join(wanted)} on its first line."])
    return chosen


def _paths(text: str) -> list[Path]:
    """The scripts of an argument, which may be a pattern that the shell left unexpanded."""
    if Path(text).exists() or not any(sign in text for sign in _MAGIC):
        return [Path(text).absolute()]
    found = sorted(glob.glob(text, recursive=True))  # noqa: PTH207 patterns may be absolute
    if not found:
        raise ConfigError([f"script: no file matches {text!r}."])
    return [Path(path).absolute() for path in found]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="benchorch script",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        usage="benchorch script SCRIPT.py[::HASH,...] ... [options] [key=value ...] [:: arguments]",
    )
    add, cores = parser.add_argument, os.cpu_count() or 1
    add("words", nargs="*", metavar="SCRIPT", help="scripts, each with the hashes to take from it")
    add("--analyze-only", action="store_true", help="only show what is found")
    add("--build-only", action="store_true", help="build what is found, measure nothing")
    add("--json", action="store_true", help="what is found, for programs; as --analyze-only")
    add(
        "--sandbox",
        action=argparse.BooleanOptionalAction,
        help="without network, home and writing; the default for --analyze-only and --json of "
        "scripts outside your own git work tree",
    )
    add("--max-depth", type=int, default=0, metavar="N", help="parts of models too, N levels deep")
    add("--labels", action="append", default=[], metavar="KEY::VALUE", help=LABELS_HELP)
    add("--name", default="", metavar="PATTERN", help="only models of such names: 'net.encoder.*'")
    add("--script-args", default="", metavar="WORDS", help="arguments of the scripts")
    add("--until-quiet", type=float, metavar="S", help="end a script S seconds after its last find")
    add("--first", action="store_true", help="end a script at its first call that can be measured")
    add("--jobs", type=int, default=max(1, cores // 2), metavar="N", help="scripts run at a time")
    add("--no-capture", action="store_true", help=NO_CAPTURE_HELP)
    add("--resume", action="store_true", help="take what was found before where nothing changed")
    add("--timeout", type=float, default=600, metavar="S", help="seconds a script may run: 600")
    return parser


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
