"""``benchorch script``: find the models in a script and benchmark them."""

from __future__ import annotations

import argparse
import glob
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from benchorch.cli.commands import script_report
from benchorch.domain.codec import Json
from benchorch.domain.reply import Reply
from benchorch.domain.trial import ConfigNode
from benchorch.errors import ConfigError
from benchorch.frontends.scripts.discover import Enough, Script
from benchorch.frontends.scripts.discover_all import Discovery
from benchorch.frontends.scripts.model_configs import words_for, write_configs
from benchorch.models.trust import grant

_SEPARATOR = "::"
_MAGIC = "*?["
DESCRIPTION = """Runs each script, finds every torch module that it calls, and benchmarks them.

A script is executed as it is: run only what you trust. Arguments key=value are overrides, as
everywhere: hardware=local conversion=[eager,onnxruntime] stopping=quick. Arguments after a
lone :: are the scripts' own."""


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
    founds = Discovery(
        timeout_s=options.timeout,
        keep=not analyze,
        jobs=min(options.jobs, len(scripts)),
        resume=options.resume,
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
    return options, _scripts(names, given, options), overrides


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Arguments before and after a lone ::."""
    words = list(arguments)
    if _SEPARATOR not in words:
        return words, []
    at = words.index(_SEPARATOR)
    return words[:at], words[at + 1 :]


def _is_override(word: str) -> bool:
    return "=" in word and not Path(word.partition(_SEPARATOR)[0]).exists()


def _scripts(
    names: Sequence[str], given: tuple[str, ...], options: argparse.Namespace
) -> list[Script]:
    scripts = [
        Script(
            path=path,
            arguments=given,
            hashes=tuple(filter(None, hashes.split(","))),
            max_depth=options.max_depth,
            pattern=options.name,
        )
        for name in names
        for text, _, hashes in [name.partition(_SEPARATOR)]
        for path in _paths(text)
    ]
    return list(dict.fromkeys(scripts))


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
    add("--max-depth", type=int, default=0, metavar="N", help="parts of models too, N levels deep")
    add("--name", default="", metavar="PATTERN", help="only models of such names: 'net.encoder.*'")
    add("--script-args", default="", metavar="WORDS", help="arguments of the scripts")
    add("--until-quiet", type=float, metavar="S", help="end a script S seconds after its last find")
    add("--first", action="store_true", help="end a script at its first call that can be measured")
    add("--jobs", type=int, default=max(1, cores // 2), metavar="N", help="scripts run at a time")
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
