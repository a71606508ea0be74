"""JSON schema and reference page of recipes, from the configuration's files and classes.

A schema checks what one file shows: names of groups, options and keys, and kinds of values. What
depends on several values at once, such as a key of one scenario under another, is for `plan`.
"""

from __future__ import annotations

import inspect
import json
import pkgutil
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import yaml

from benchorch.config.conversion_aliases import other_names
from benchorch.config.parity_setup import ParitySetup
from benchorch.domain.estimate import METRICS
from benchorch.domain.parity_task import TASKS
from benchorch.domain.price import Market
from benchorch.domain.protocol import PAIRINGS, Protocol
from benchorch.domain.tensors import NOT_SYMBOLS
from benchorch.results.pricing.sweep_cost import SOURCES, Budget, Pricing
from benchorch.run.planner import REBUILD

Schema = dict[str, Any]
MOST_LISTED = 16
WORDS = {
    "integer": "whole number",
    "string": "text",
    "boolean": "`true`, `false`",
    "object": "mapping",
    "null": "`null`",
}
Meanings = Callable[[Path], Mapping[str, str]]
"""What a file of conf/ states of its keys."""

REFERENCE = r"\$\{"
"""Where a number is expected, an interpolation such as ${workload.seed} may stand for it."""
INTERPOLATION: Schema = {"type": "string", "pattern": REFERENCE}

CLASSES = {"protocol": Protocol, "pricing": Pricing, "budget": Budget, "parity": ParitySetup}
HINTS: Mapping[str, object] = {  # of keys that no class holds
    "name": str,
    "baseline": str | None,
    "control": typing.Literal["auto", True, False],
    "rebuild": typing.Literal[REBUILD],
    "resume": str | None,
    "keep_at": str | None,
    "profile": str | Sequence[str],
    "objective": typing.Literal[tuple(METRICS)],
    "each": Sequence[str],
    "limits.build_timeout_s": float,
    "limits.measure_timeout_s": float,
    "limits.memory_gib": float | None,
    "protocol.pairing": typing.Literal[PAIRINGS],
    "pricing.source": typing.Literal[SOURCES],
    "pricing.market": Market,
    "parity.task": typing.Literal[TASKS],
    "workload.dtype": str,
    "workload.seed": int,
    "workload.dynamic": Sequence[str] | Mapping[str, Sequence[int]] | None,
    "conversion.description": str,
    "conversion.tolerance_ratio": float | None,
    "conversion.steps": Mapping[str, Mapping[str, Any]],
    "conversion.runtime": Mapping[str, Any],
}
OTHER_NAMES = {  # of options without a file
    "model": r"^\w+$",  # a user's own conf/model
    "hardware": r"^\w+[./]\S+$",  # a size, or a machine with its conversion
}


def schema(conf: Path, meanings: Meanings) -> Schema:
    """The schema of a recipe, as draft 7, the one that editors support.

    Args:
        conf: the directory of the built-in configuration.
        meanings: the comments and docstrings of a file's keys.
    """
    root = yaml.safe_load((conf / "config.yaml").read_text())
    chosen = {
        key: value
        for entry in root.pop("defaults")
        if isinstance(entry, dict)
        for key, value in entry.items()
    }
    groups = [name for name in chosen if (conf / name).is_dir()]
    stated = meanings(conf / "config.yaml")
    nodes = {name: _group_node(conf / name, meanings) for name in groups}
    nodes |= {k: _root_node(k, v, stated) for k, v in root.items() if k not in ("hydra", "matrix")}
    options = {name: _axis({"$ref": f"#/definitions/{name}"}) for name in groups}
    axes = {name: _axes(name, node, options.get(name)) for name, node in nodes.items()}
    axes = {name: axis for name, axis in axes.items() if axis} | dict(_dotted_axes(nodes))
    own = {rf"^(?:{'|'.join(nodes)})\.[\w.]+$": _axis({})}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "benchorch recipe",
        "type": "object",
        "required": ["defaults"],
        "properties": {
            "defaults": _defaults(groups),
            **nodes,
            "matrix": {
                "description": stated["matrix"],
                "type": "object",
                "properties": axes,
                "patternProperties": own,
                "additionalProperties": False,
            },
            "hydra": {"type": "object", "description": "Hydra's own settings"},
        },
        "additionalProperties": False,
        "definitions": {name: _options(conf / name, chosen[name], meanings) for name in groups},
    }


def _defaults(groups: Sequence[str]) -> Schema:
    """The list of the files that a recipe is composed of."""
    choices: Schema = {f"override {name}": {"$ref": f"#/definitions/{name}"} for name in groups}
    own = {r"^override hydra/\w+$": {}, r"^(?:optional )?[\w/]+(?:@[\w.]+)?$": {}}
    choice = {
        "type": "object",
        "properties": choices,
        "patternProperties": own,
        "additionalProperties": False,
        "maxProperties": 1,
    }
    return {
        "description": "what a recipe starts from: config, then an option of each group",
        "type": "array",
        "items": {"anyOf": [{"type": "string"}, choice]},
    }


def _options(folder: Path, default: str | None, meanings: Meanings) -> Schema:
    """The names that a group can have."""
    names: list[Schema] = [
        {"const": path.stem, "description": _first_comment(path)} for path in _files(folder)
    ]
    if folder.name == "conversion":
        names += [{"type": "string", "pattern": _chains(folder)}, {"type": "null"}]
    elif folder.name in OTHER_NAMES:
        names.append({"type": "string", "pattern": OTHER_NAMES[folder.name]})
    return {"anyOf": names, "default": default}


def _chains(folder: Path) -> str:
    """The pattern of conversions joined by +, and of other tools' names."""
    names = [path.stem for path in _files(folder)]
    names += other_names(folder.parent).chains
    word = "|".join(re.sub(r"([^\w-])", r"\\\1", name) for name in names)
    return rf"^(?:{word})(?:\+(?:{word}))*$"


def _group_node(folder: Path, meanings: Meanings) -> Schema:
    """The keys of a group: those of all of its options."""
    found: dict[str, list[Schema]] = {}
    described: dict[str, str] = {}
    for path in sorted(folder.glob("*.yaml")):
        node = yaml.safe_load(path.read_text())
        hints = _parameters(node.get("_target_"))
        described = {**meanings(path), **described}
        for key in {**node, **hints}:
            if key not in ("defaults", "_target_"):
                hint = HINTS.get(f"{folder.name}.{key}", hints.get(key, Any))
                found.setdefault(key, []).append(of_hint(hint))
    keys = {key: _described(_either(kinds), described.get(key)) for key, kinds in found.items()}
    result: Schema = {"type": "object", "properties": keys, "additionalProperties": False}
    if folder.name == "workload":
        size = _either([of_hint(int), of_hint(Sequence[int])])
        for key in keys.keys() - NOT_SYMBOLS:
            keys[key] = _described(size, described.get(key))
        result["additionalProperties"] = size  # the symbols of a model of one's own
    else:
        keys["_target_"] = {"type": "string"}
    return result


def _root_node(name: str, default: Any, stated: Mapping[str, str]) -> Schema:
    """A key of every run, with the keys below it."""
    if not isinstance(default, dict):
        return _described(of_hint(HINTS[name]), stated.get(name), default)
    types_of = typing.get_type_hints(CLASSES[name]) if name in CLASSES else {}
    keys = {}
    for key, value in default.items():
        path = f"{name}.{key}"
        kind = of_hint(HINTS[path] if path in HINTS else types_of[key])
        keys[key] = _described(kind, stated.get(path), value)
    return {"type": "object", "properties": keys, "additionalProperties": False}


def _dotted_axes(nodes: Mapping[str, Schema]) -> Iterator[tuple[str, Schema]]:
    for name, node in nodes.items():
        for key in node.get("properties", {}):
            yield f"{name}.{key}", _axis({"$ref": f"#/properties/{name}/properties/{key}"})


def _axes(name: str, node: Schema, options: Schema | None) -> Schema | None:
    """What a first word of the matrix can hold: options of a group, or keys with their values."""
    if "properties" not in node:
        return None
    below = {key.partition(".")[2]: axis for key, axis in _dotted_axes({name: node})}
    nested = {"type": "object", "properties": below}
    return {"anyOf": [options, nested]} if options else nested


def _axis(kind: Schema) -> Schema:
    """A list of values, at least one."""
    axis: Schema = {"type": "array", "minItems": 1, "items": kind}
    return axis


def _parameters(target: str | None) -> Mapping[str, object]:
    """The annotated parameters of a class by its dotted name."""
    if target is None:
        return {}
    found = pkgutil.resolve_name(target)
    hints = typing.get_type_hints(found)
    return {name: hints.get(name, Any) for name in inspect.signature(found).parameters}


def of_hint(hint: object) -> Schema:
    """The schema of YAML values that fit a parameter's annotation, as `components.fits` does."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _either([of_hint(member) for member in arguments])
    if origin is typing.Literal:
        return _one_of(arguments)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _one_of([member.value for member in hint])
    if origin in (list, tuple, Sequence):
        return {"type": "array", "items": of_hint(arguments[0])}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": of_hint(arguments[1])}
    if hint in (None, type(None)):
        return {"type": "null"}
    names: Mapping[object, str] = {int: "integer", float: "number", bool: "boolean"}
    if hint in names:
        return {"type": [names[hint], "string"], "pattern": REFERENCE}
    return {"type": "string"} if hint is str else {}


def _one_of(values: Sequence[object]) -> Schema:
    return {"anyOf": [{"enum": list(values)}, INTERPOLATION]}


def _either(kinds: Sequence[Schema]) -> Schema:
    """Any of several schemas, those that are alike once."""
    distinct = [kind for index, kind in enumerate(kinds) if kind not in kinds[:index]]
    if {} in distinct:
        return {}
    flat = [inner for kind in distinct for inner in kind.get("anyOf", [kind])]
    unique = [kind for index, kind in enumerate(flat) if kind not in flat[:index]]
    return unique[0] if len(unique) == 1 else {"anyOf": unique}


def _described(kind: Schema, meaning: str | None, default: object = ...) -> Schema:
    described = {"description": meaning, **kind} if meaning else dict(kind)
    return described if default is ... else {**described, "default": default}


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.yaml") if path.stem[0] != "_")


def _first_comment(path: Path) -> str:
    lines = path.read_text().splitlines()
    return lines[0].removeprefix("#").strip() if lines[0].startswith("#") else ""


def text(described: Schema) -> str:
    """The schema as it is stored in recipes/."""
    return json.dumps(described, indent=1) + "\n"


def page(described: Schema, conf: Path, recipes: Path) -> str:
    """What a page shows of the schema: the groups, the keys of every run and the examples."""
    lines = ["## Groups", "", "| `override` | default | options | keys |", "|---|---|---|---|"]
    for name, options in described["definitions"].items():
        names = [f"`{path.stem}`" for path in _files(conf / name)]
        listed = ", ".join(names) if len(names) <= MOST_LISTED else f"{len(names)} names"
        below = [key for key in described["properties"][name]["properties"] if key[0] != "_"]
        keys = ", ".join(f"`{key}`" for key in below)
        default = f"`{options['default']}`" if options["default"] else "the hardware's list"
        lines.append(f"| [`{name}`](configuration.md#{name}) | {default} | {listed} | {keys} |")
    lines += ["", "## Keys of every run", "", "| key | values | default |", "|---|---|---|"]
    for name, node in described["properties"].items():
        if name not in (*described["definitions"], "defaults", "matrix", "hydra"):
            inner = {f"{name}.{key}": kind for key, kind in node.get("properties", {}).items()}
            for key, kind in (inner or {name: node}).items():
                default = f"`{json.dumps(kind['default'])}`"
                lines.append(f"| `{key}` | {_words(kind)} | {default} |")
    lines += ["", "## Examples", "", "| recipe | question |", "|---|---|"]
    for path in sorted(recipes.glob("*.yaml")):
        question = path.read_text().splitlines()[1].removeprefix("# ")
        lines.append(f"| `recipes/{path.name}` | {question} |")
    return "\n".join(lines) + "\n"


def _words(kind: Schema) -> str:
    """The values that a schema accepts, in the words of `components.describe`."""
    if "anyOf" in kind:
        kinds = [inner for inner in kind["anyOf"] if inner != INTERPOLATION]
        return " or ".join(_words(inner) for inner in kinds)
    if "enum" in kind:
        values = [value if isinstance(value, str) else json.dumps(value) for value in kind["enum"]]
        listed = len(values) <= MOST_LISTED
        return ", ".join(f"`{value}`" for value in values) if listed else "[a metric](metrics.md)"
    names = kind.get("type", "anything")
    name = names[0] if isinstance(names, list) else names
    if name == "array":
        return f"list of {_words(kind['items'])}"
    return WORDS.get(name, name)
