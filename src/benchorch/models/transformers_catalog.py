"""Catalog of the installed transformers package, parsed from its sources without importing it.

Importing it takes seconds and pulls in torch; a plan has neither the time nor the need. Where the
sources are not laid out as expected the answer is None, and loading will tell.
"""

import ast
import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import final

from benchorch.config.components import suggest

_BASE_CONFIG = "PreTrainedConfig"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """A model class.

    Attributes:
        arguments: of its forward, or None where they cannot be read.
        settings: of its configuration, or None where they cannot be read.
    """

    arguments: frozenset[str] | None
    settings: frozenset[str] | None


@cache
def architecture(name: str) -> Architecture | None:
    """The class of that name, or None where the installed package has none."""
    root = _root()
    if root is None or not name.isidentifier():
        return None
    file = _modeling_file(root, name)
    if file is None:
        return None
    return Architecture(
        arguments=_forward_arguments(file.read_text(encoding="utf-8"), name),
        settings=_settings(root, file),
    )


@cache
def is_readable() -> bool:
    """Whether there is an installed package with readable sources."""
    return _root() is not None


def near(name: str) -> str:
    """`` Did you mean 'BertModel'?`` or an empty string."""
    root = _root()
    return "" if root is None else suggest(name, re.findall(r'", "(\w+)"\)', _index(root)))


@cache
def _root() -> Path | None:
    spec = PathFinder.find_spec("transformers")
    root = Path(spec.origin).parent if spec is not None and spec.origin else None
    return root if root is not None and (root / "models/auto/modeling_auto.py").is_file() else None


@cache
def _index(root: Path) -> str:
    return (root / "models/auto/modeling_auto.py").read_text(encoding="utf-8")


def _modeling_file(root: Path, name: str) -> Path | None:
    """File that defines the class: most are in the index, a search finds the others."""
    types = re.findall(rf'\("([\w-]+)", "{name}"\)', _index(root))
    folders = [root / "models" / kind.replace("-", "_") for kind in types]
    listed = [folder / f"modeling_{folder.name}.py" for folder in folders]
    others = (root / "models").glob("*/modeling_*.py")
    files = itertools.chain(filter(Path.is_file, listed), others)
    return next((file for file in files if _offers(file, name)), None)


def _offers(file: Path, name: str) -> bool:
    """Whether a file defines the class and exports it in ``__all__``."""
    text = file.read_text(encoding="utf-8")
    return f"\nclass {name}(" in text and f'"{name}"' in text


def _class_body(text: str, name: str) -> ast.ClassDef | None:
    """Definition of one class, parsed alone: a modeling file takes tens of milliseconds."""
    start = text.find(f"\nclass {name}(")
    end = re.compile(r"\n(?=[^\s#)])").search(text, start + 1)
    if start < 0:
        return None
    try:
        parsed = ast.parse(text[start : end.start() if end else None]).body[0]
    except SyntaxError:
        return None
    return parsed if isinstance(parsed, ast.ClassDef) else None


def _forward_arguments(text: str, name: str) -> frozenset[str] | None:
    body = _class_body(text, name)
    for statement in body.body if body else ():
        if isinstance(statement, ast.FunctionDef) and statement.name == "forward":
            arguments = statement.args
            return frozenset(a.arg for a in (*arguments.args[1:], *arguments.kwonlyargs))
    return None


def _settings(root: Path, modeling: Path) -> frozenset[str] | None:
    """Names that a configuration takes; None unless one plain class beside the model has them."""
    file = modeling.with_name(modeling.name.replace("modeling_", "configuration_"))
    if not file.is_file():
        return None
    tree = ast.parse(file.read_text(encoding="utf-8"))
    made = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    if len(made) != 1 or [ast.unparse(base) for base in made[0].bases] != [_BASE_CONFIG]:
        return None
    base = root / "configuration_utils.py"
    inherited = _class_body(base.read_text(encoding="utf-8"), _BASE_CONFIG)
    if inherited is None:
        return None
    quoted = _quoted((file, base, root / "modeling_rope_utils.py"))
    return _declared(made[0]) | _declared(inherited) | quoted


def _quoted(files: Iterable[Path]) -> frozenset[str]:
    """Words that code looks up by name: settings that are taken from keywords, old spellings."""
    texts = [file.read_text(encoding="utf-8") for file in files if file.is_file()]
    return frozenset(word for text in texts for word in re.findall(r"[\"'](\w+)[\"']", text))


def _declared(body: ast.ClassDef) -> frozenset[str]:
    """Fields, properties, arguments of ``__init__`` and other names for the same fields."""
    names: set[str] = set()
    for statement in body.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            names.add(statement.target.id)
        elif isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            names |= {argument.arg for argument in statement.args.args[1:]}
        elif isinstance(statement, ast.FunctionDef) and statement.decorator_list:
            names.add(statement.name)
        elif isinstance(statement, ast.Assign):
            names |= _other_names(statement)
    return frozenset(names)


def _other_names(statement: ast.Assign) -> set[str]:
    """The keys of ``attribute_map``, by which fields may be set too."""
    target, value = statement.targets[0], statement.value
    if (
        isinstance(target, ast.Name)
        and target.id == "attribute_map"
        and isinstance(value, ast.Dict)
    ):
        return {str(key.value) for key in value.keys if isinstance(key, ast.Constant)}
    return set()
