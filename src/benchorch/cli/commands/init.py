"""``benchorch init RECIPE``: write a recipe for a module of your own, plan it and run it."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import click

from benchorch.cli.arguments import parse
from benchorch.cli.command import command
from benchorch.cli.examples import free_recipe, own_module
from benchorch.cli.terminal import Terminal
from benchorch.domain.codec import Json
from benchorch.domain.reply import Reply
from benchorch.errors import BenchorchError, ConfigError, Correction, Problem, Problems

CONVERSIONS = "eager,inductor,onnxruntime"
_INPUT = re.compile(r"(?P<name>\w+)=(?P<shape>\w+(?:,\w+)*)(?::(?P<high>[1-9]\d*))?")
_INPUT_FORM = (
    "NAME=SIZE,SIZE or, for whole numbers below HIGH, NAME=SIZE,SIZE:HIGH; a size is a number or a "
    "name such as batch_size"
)
_EXAMPLE = "x=batch_size,16"
_EXISTS = " Name a file that does not exist, in a folder that does."


@command(
    "init",
    help="""Write a recipe for a module of your own, and plan it.

    At a terminal, a prompt appears for what the options leave out, and whether to run the recipe;
    not with --yes or --json.

    Example: benchorch init mine.yaml --module ranker.py:build --input x=batch_size,16
    --input ids=batch_size,seq_len:1000 --conversion eager,inductor
    """,
)
@click.argument("recipe", metavar="RECIPE.yaml", type=click.Path(path_type=Path))
@click.argument("words", nargs=-1, metavar="")
@click.option("--module", default="", metavar="REF", help="a callable that returns the module")
@click.option("--input", "inputs", multiple=True, metavar="SPEC", help=_INPUT_FORM)
@click.option("--conversion", default="", metavar="A,B", help=f"conversions ({CONVERSIONS})")
def run(
    terminal: Terminal,
    recipe: Path,
    words: tuple[str, ...],
    module: str,
    inputs: tuple[str, ...],
    conversion: str,
) -> Reply:
    """The recipe's path, what it would run, and the command that runs it.

    Raises:
        ConfigError: a recipe that cannot be written or planned; it is not left behind.
    """
    _check_words([str(recipe), *words])
    found = Problems()
    found.attempt(partial(_check_path, recipe))
    prompts = not (terminal.yes or terminal.wants_json)
    if prompts:
        found.stop()
        ask = terminal.question
        module = module or ask("Module (package.module:callable or file.py:callable): ")
        inputs = inputs or _asked_inputs(ask)
        conversion = conversion or ask(f"Conversions [{CONVERSIONS}]: ")
    line = ["benchorch", str(recipe), "--trust", module]
    chosen = [word for word in (conversion or CONVERSIONS).replace(" ", "").split(",") if word]
    if module:
        found.add(_module_problems(module))
    yaml_text = found.attempt(partial(recipe_text, recipe.stem, module, inputs, chosen))
    found.stop()
    yaml_text = f"# {shlex.join(line)}\n{yaml_text}"
    try:
        with recipe.open("x", encoding="utf-8") as file:
            file.write(yaml_text)
    except OSError as error:
        raise ConfigError([f"{recipe}: cannot be written ({error.strerror}).{_EXISTS}"]) from error
    try:
        plan = _plan(recipe)
    except BenchorchError as error:
        recipe.unlink()
        if isinstance(error, ConfigError):  # which is not corrected in the file that is gone
            error.problems = tuple(problem.within("") for problem in error.problems)
        raise
    text = f"{plan}\n\nwritten  {recipe}"
    if prompts:
        terminal.show(text)
        if terminal.confirm("Run it now? [y/N]: "):
            os.execv(sys.executable, [sys.executable, "-P", "-m", *line])
        text = ""
    data: Json = {"recipe": str(recipe), "command": shlex.join(line)}
    return Reply(text=f"{text}\nrun it   {shlex.join(line)}", data=data)


def recipe_text(name: str, module: str, inputs: Sequence[str], conversions: Sequence[str]) -> str:
    """A recipe as YAML; ConfigError with every problem of its words."""
    found = {word: _INPUT.fullmatch(re.sub(r"[\s()\[\]]", "", word)) for word in inputs}
    problems = [
        Problem(
            f"--input: expected {_INPUT_FORM}; got {word!r}.",
            Correction(typed=word, meant=_named(word)),
        )
        for word, one in found.items()
        if not one
    ]
    names = [one["name"] for one in found.values() if one]
    twice = sorted({name for name in names if names.count(name) > 1})
    problems += [Problem(f"--input {name}: is given twice.") for name in twice]
    if not module:
        text = "--module: is missing; name package.module:callable or file.py:callable."
        problems.append(Problem(text, Correction(added=["--module", own_module()])))
    if not inputs:
        text = f"--input: is missing; give {_INPUT_FORM}."
        problems.append(Problem(text, Correction(added=["--input", _EXAMPLE])))
    if problems:
        raise ConfigError(problems)
    recipe = {
        "defaults": ["config", {"override model": "factory"}, "_self_"],
        "name": name,
        "model": {
            "factory": module,
            "inputs": {one["name"]: _tensor(one) for one in found.values() if one},
        },
        "matrix": {"conversion": list(conversions), "workload.batch_size": [1]},
    }
    question = "Which conversion of this module is fastest, and is it still the same model?"
    return f"# {question}\n{_yaml(recipe)}"


def _named(shape: str) -> str:
    """A shape with the name that it lacks; an example for anything else."""
    found = _INPUT.fullmatch(f"x={shape}")
    return found[0] if found and "," in shape else _EXAMPLE


def _yaml(recipe: object) -> str:
    """Mappings and lists that hold no others on one line each."""
    import yaml

    return str(yaml.safe_dump(recipe, sort_keys=False, default_flow_style=None, width=100))


def _tensor(found: re.Match[str]) -> Json:
    """An input: normal numbers, or whole ones below a limit."""
    sizes = [int(size) if size.isdecimal() else size for size in found["shape"].split(",")]
    if not found["high"]:
        return {"shape": sizes, "generator": "normal"}
    high = int(found["high"])
    return {"shape": sizes, "dtype": "int64", "generator": "integers", "low": 0, "high": high}


def _check_words(words: Sequence[str]) -> None:
    """ConfigError for a run's words, with the command that they may have been meant for."""
    file, *others = sorted(words, key=lambda word: "=" in word or not word.endswith(".yaml"))
    if not others and "=" not in file:
        return
    settings = dict(word.split("=", 1) for word in words if "=" in word)
    name = free_recipe() if "=" in file else file
    meant = ["benchorch", "init", name, "--input", _EXAMPLE]
    meant += ["--module", settings.get("model.factory") or own_module()]
    meant += ["--conversion", settings["conversion"]] if settings.get("conversion") else []
    raise ConfigError(
        [
            f"init takes a file's name and options, not {shlex.join(others or [file])}. "
            "To run these settings without a recipe: benchorch KEY=VALUE ..."
        ],
        next=shlex.join(meant),
    )


def _check_path(path: Path) -> None:
    if path.suffix != ".yaml" or "=" in path.name:
        meant = str(path.with_suffix(".yaml"))
        problem = f"{str(path)!r}: a recipe's file ends in .yaml. Did you mean {meant!r}?"
        raise ConfigError([Problem(problem, Correction(typed=str(path), meant=meant))])
    if path.stem == "config":
        problem = f"{path}: a recipe needs another name; config is benchorch's own root."
        raise ConfigError([Problem(problem, Correction(typed=str(path), meant=free_recipe()))])
    if path.exists():
        problem = f"{path}: exists already; name another file or delete it."
        raise ConfigError([Problem(problem, Correction(typed=str(path), meant=free_recipe()))])


def _module_problems(module: str) -> Sequence[str]:
    """Why a module cannot be called; it is trusted, as the user named it."""
    from benchorch.models import callables, trust

    trust.grant(module)
    return callables.reference_problems("--module", module)


def _asked_inputs(ask: Callable[[str], str]) -> tuple[str, ...]:
    """The inputs that a person gives, until an answer is empty."""
    found = []
    question = f"Input ({_INPUT_FORM}): "
    while word := ask(question):
        found.append(word)
        question = "Next input (empty: no more): "
    return tuple(found)


def _plan(path: Path) -> str:
    """What the recipe would run."""
    from benchorch.cli.commands.plan import planned
    from benchorch.run.ways_on import priced

    return "\n".join(priced(planned(parse([str(path)], "plan"))))
