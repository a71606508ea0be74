"""``benchorch init RECIPE``: write a recipe for a module of your own, and plan it."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from benchorch.domain.codec import Json
from benchorch.domain.reply import Reply
from benchorch.errors import BenchorchError, ConfigError

CONVERSIONS = "eager,inductor,onnxruntime"
_INPUT = re.compile(r"(?P<name>\w+)=(?P<shape>\w+(?:,\w+)*)(?::(?P<high>[1-9]\d*))?")
_INPUT_FORM = (
    "NAME=SIZE,SIZE or, for whole numbers below HIGH, NAME=SIZE,SIZE:HIGH; a size is a number or a "
    "name such as batch_size"
)


def run(arguments: Sequence[str], ask: Callable[[str], str]) -> Reply:
    """The recipe's path, what it would run, and the command that runs it.

    Args:
        arguments: those after ``init``.
        ask: asks a person; returns the answer, empty where nobody is there.

    Raises:
        ConfigError: a recipe that cannot be written or planned; it is not left behind.
    """
    options = _parser().parse_args(list(arguments))
    path = Path(options.recipe)
    _check_path(path)
    if not (options.yes or options.json):
        _complete(options, ask)
    text = recipe_text(
        path.stem, options.module, options.input, _words(options.conversion or CONVERSIONS)
    )
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ConfigError([f"{path}: cannot be written ({error.strerror}).{_EXISTS}"]) from error
    try:
        plan = _plan(path, options.module)
    except BenchorchError:
        path.unlink()
        raise
    command = shlex.join(["python", "-m", "benchorch", str(path), "--trust", options.module])
    data: Json = {"recipe": str(path), "command": command}
    return Reply(text=f"{plan}\n\nwritten  {path}\nrun it   {command}", data=data)


def _words(text: str) -> list[str]:
    return [word for word in text.replace(" ", "").split(",") if word]


_EXISTS = " Name a file that does not exist, in a folder that does."


def recipe_text(
    name: str, module: str | None, inputs: Sequence[str], conversions: Sequence[str]
) -> str:
    """A recipe as YAML; ConfigError with every problem of its words."""
    found = {word: _INPUT.fullmatch(word.replace(" ", "")) for word in inputs}
    problems = [
        f"--input: expected {_INPUT_FORM}; got {word!r}." for word, one in found.items() if not one
    ]
    names = [one["name"] for one in found.values() if one]
    twice = sorted({name for name in names if names.count(name) > 1})
    problems += [f"--input {name}: is given twice." for name in twice]
    if not module:
        problems.append("--module: is missing; name package.module:callable or file.py:callable.")
    if not inputs:
        problems.append(f"--input: is missing; give {_INPUT_FORM}.")
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
    return f"# python -m benchorch {name}.yaml\n# {question}\n{_yaml(recipe)}"


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


def _check_path(path: Path) -> None:
    if path.suffix != ".yaml" or "=" in path.name:
        raise ConfigError([f"{str(path)!r}: a recipe's file ends in .yaml, for example mine.yaml."])
    if path.stem == "config":
        raise ConfigError([f"{path}: a recipe needs another name; config is benchorch's own root."])
    if path.exists():
        raise ConfigError([f"{path}: exists already; name another file or delete it."])


def _complete(options: argparse.Namespace, ask: Callable[[str], str]) -> None:
    """Ask for what the words leave out."""
    if not options.module:
        options.module = ask("Module (package.module:callable or file.py:callable): ")
    if options.module and not options.input:
        question = f"Input ({_INPUT_FORM}): "
        while word := ask(question):
            options.input.append(word)
            question = "Next input (empty: no more): "
    if options.module and options.input and not options.conversion:
        options.conversion = ask(f"Conversions [{CONVERSIONS}]: ")


def _plan(path: Path, module: str) -> str:
    """What the recipe would run; its module is trusted, as the user named it."""
    from benchorch.cli.commands import plan
    from benchorch.models import trust

    trust.grant(module)
    return plan.run([str(path)]).text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchorch init",
        description="Write a recipe for a module of your own, and plan it. What the options leave "
        "out is asked for on a terminal.",
        epilog="example: python -m benchorch init mine.yaml --module ranker.py:build "
        "--input x=batch_size,16 --input ids=batch_size,seq_len:1000 --conversion eager,inductor",
    )
    parser.add_argument("recipe", metavar="RECIPE.yaml", help="the file to write; it must be new")
    parser.add_argument("--module", metavar="REF", help="a callable that returns the module")
    parser.add_argument("--input", action="append", default=[], metavar="SPEC", help=_INPUT_FORM)
    parser.add_argument("--conversion", metavar="A,B", help=f"conversions (default {CONVERSIONS})")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--json", action="store_true", help="for programs")
    return parser
