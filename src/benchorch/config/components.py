"""The one safe door from a YAML node to an object: refuse, resolve, check, bind, construct.

A node's ``_target_`` names a class. It must lie under an allowed prefix *before* anything is
imported, must resolve to a concrete subclass of the interface that the caller expects, and its
parameters must fit the constructor. All problems of a node are found in one pass.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import shlex
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, TypeVar, Union

from benchorch.config.descriptions import example
from benchorch.config.extensions import GROUP, extension_prefixes
from benchorch.domain.codec import Json
from benchorch.domain.trial import ConfigNode
from benchorch.errors import ConfigError, Correction, Problem, summary_of

ALLOWED_PREFIXES = (
    "benchorch.models.",
    "benchorch.conversions.",
    "benchorch.runtimes.",
    "benchorch.hardware.",
    "benchorch.scenarios.",
    "benchorch.stopping.",
    "benchorch.profilers.",
    "benchorch.executors.",
    "benchorch.stores.",
    "benchorch.recorders.",
)
"""Where members live, besides installed extensions.

A user's own code that is not installed enters as a *factory*, which has its own rule.
"""

TARGET = "_target_"

MOVED = {
    "benchorch.executors.here.Here": "benchorch.executors.local.Local",
    "benchorch.scenarios.curve.ThroughputLatency": (
        "benchorch.scenarios.throughput_latency.ThroughputLatency"
    ),
}
"""Former dotted names, which stored plans and users' YAML may still have."""

_TUPLES = ("consumes", "requires", "depends_on")
"""Class attributes of links that list names."""

T = TypeVar("T")


def suggest(word: str, known: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` or an empty string."""
    close = nearest(word, known)
    return f" Did you mean {close!r}?" if close else ""


def misspelt(text: str, typed: str, known: Iterable[str], listed: str = "") -> Problem:
    """A problem about a name, with the nearest known one as its correction.

    Args:
        listed: what follows the suggestion, such as all known names.
    """
    known = list(known)
    meant = nearest(typed, known)
    correction = Correction(typed=typed, meant=meant) if meant else None
    return Problem(f"{text}{suggest(typed, known)}{listed}", correction)


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The known word that was probably meant, or an empty string."""
    typed = word.lower()
    by_text = {str(name).lower(): str(name) for name in known}
    close = difflib.get_close_matches(typed, list(by_text), n=len(by_text) or 1, cutoff=cutoff)
    best = [name for name in by_text if close and _ratio(typed, name) >= _ratio(typed, close[0])]
    best += [name for name in by_text if len(typed) > 2 and name.startswith(typed)]
    best += [name for name in by_text if name.endswith(f"/{typed}")]
    return by_text[best[0]] if best else ""


def _ratio(typed: str, name: str) -> float:
    return difflib.SequenceMatcher(a=name, b=typed).ratio()


def make(node: ConfigNode, interface: type[T], where: str) -> T:
    """The object a node describes.

    Args:
        node: ``_target_`` and the constructor's keywords.
        interface: the abstract class it must implement.
        where: the node's place in the configuration, for messages.

    Raises:
        ConfigError: with every problem of the node.
    """
    target = resolve(node, interface, where)
    made = construct(target, {key: value for key, value in node.items() if key != TARGET}, where)
    _check_attributes(made, target, interface, where)
    return made


def _check_attributes(made: object, target: type, interface: type, where: str) -> None:
    """ConfigError for options that hide an attribute of the interface, which is of another type."""
    hidden = [
        f"{where}.{name}: this option of {target.__name__} takes the place of "
        f"{interface.__name__}.{name}, whose type is {describe(hint)}; give it another name."
        for name, hint in _overridden(target, interface).items()
        if not fits(hint, getattr(made, name))
    ]
    if hidden:
        raise ConfigError(hidden)


@cache
def _overridden(target: type, interface: type) -> Mapping[str, object]:
    """Options that take the place of an attribute of the interface, with the type that it has."""
    held = {
        name: inspect.getattr_static(interface, name, None)
        for name in inspect.signature(target).parameters
    }
    return {name: _declared(one) for name, one in held.items() if one is not None}


def _declared(held: object) -> object:
    """The type of an attribute of an interface; that of a method is a function's."""
    if not isinstance(held, property):
        return type(held)
    try:
        return typing.get_type_hints(held.fget)["return"]
    except NameError:  # of an import for annotations alone
        return Any


def construct(target: type[T], keywords: ConfigNode, where: str) -> T:
    """An object of a class that nobody had to name; ConfigError with every problem."""
    problems = _signature_problems(target, keywords, where)
    if problems:
        early = getattr(target, "early_problems", None)
        raise ConfigError([*(early(keywords) if early else ()), *problems])
    try:
        return target(**keywords)
    except ConfigError as error:
        raise ConfigError([problem.under(where) for problem in error.problems]) from error
    except (ValueError, TypeError) as error:  # begins with the option that it is about
        option = str(error).partition(" ")[0].rstrip(":")
        key = f"{where}.{option}" if option in keywords else where
        raise ConfigError([Problem(f"{where}: {error}", key=key)]) from error


def resolve(node: ConfigNode, interface: type[T], where: str) -> type[T]:
    """The concrete class that a node names; ConfigError if it may not or cannot be used."""
    dotted = node.get(TARGET) if isinstance(node, Mapping) else None
    if not isinstance(dotted, str):
        raise ConfigError([f"{where}: has no {TARGET}; it must name a class."])
    dotted = MOVED.get(dotted, dotted)
    if not is_allowed(dotted):
        raise ConfigError(
            [
                f"{where}: {dotted!r} is not one of benchorch's own components, nor of a package "
                f"that is installed as one of {GROUP}, so it is not loaded."
            ]
        )
    module_name, _, class_name = dotted.rpartition(".")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ConfigError([f"{where}: there is no module {error.name!r}."]) from error
    except Exception as error:
        if dotted.startswith(ALLOWED_PREFIXES):
            raise  # a mistake of ours, whose place somebody will want to see
        raise ConfigError(
            [
                f"{where}: the package {dotted.partition('.')[0]!r}, installed as one of {GROUP}, "
                f"cannot be imported: {module_name} raised {summary_of(error)}."
            ]
        ) from error
    found = getattr(module, class_name, None)
    if found is None:
        raise ConfigError(
            [f"{where}: {module_name} has no {class_name!r}.{suggest(class_name, dir(module))}"]
        )
    if not _implements(found, interface):
        raise ConfigError([f"{where}: {dotted!r} is not a {interface.__name__}."])
    for name in _TUPLES:
        value = getattr(found, name, ())
        if isinstance(value, str):  # otherwise each of its letters would count
            raise ConfigError(
                [f"{where}: {dotted}.{name}: got {str(value)!r}, it must be a tuple (a comma?)."]
            )
    return typing.cast(type[T], found)


def is_allowed(dotted: str) -> bool:
    """Whether a dotted name is of ours, or of an extension; those are asked for only then."""
    return dotted.startswith(ALLOWED_PREFIXES) or dotted.startswith(extension_prefixes())


def _implements(found: object, interface: type) -> bool:
    return (
        isinstance(found, type)
        and issubclass(found, interface)
        and not inspect.isabstract(found)
        and is_allowed(f"{found.__module__}.")
    )


def _signature_problems(target: type, keywords: ConfigNode, where: str) -> list[Problem]:
    """Unknown keys first, then missing ones, then wrong types."""
    parameters = inspect.signature(target).parameters
    hints = _hints(target)
    made = f"{target.__module__}.{target.__qualname__}"
    problems = [
        misspelt(
            f"{where}.{key}: unknown option.",
            key,
            parameters,
            f" Options: {', '.join(parameters) or 'none'}.",
        )
        for key in keywords
        if key not in parameters
    ]
    problems += [
        missing(f"{where}.{name}", example(f"{where}.{name}", made))
        for name, parameter in parameters.items()
        if parameter.default is inspect.Parameter.empty and keywords.get(name, "???") == "???"
    ]
    problems += [
        mistyped(f"{where}.{key}", hints[key], value)
        for key, value in keywords.items()
        if key in hints and value != "???" and not fits(hints[key], value)
    ]
    return problems


def missing(key: str, example: str, sign: str = "") -> Problem:
    """A required key that is not set, with an example of its value.

    Args:
        example: as a shell takes it; ``...`` where there is none.
        sign: ``+`` where the key is not in any file.
    """
    setting = f"{sign}{key}={example}"
    correction = None if example == "..." else Correction(settings=shlex.split(setting))
    return Problem(f"{key}: is missing; set {setting}", correction)


def mistyped(key: str, hint: object, value: Json) -> Problem:
    """A value that a key's annotation does not allow."""
    is_literal = typing.get_origin(hint) is Literal
    allowed = [str(one) for one in typing.get_args(hint)] if is_literal else []
    return Problem(
        f"{key}: expected {describe(hint)}, got {value!r}.",
        Correction(allowed=allowed) if allowed else None,
    )


@cache
def _hints(target: type) -> Mapping[str, object]:
    return typing.get_type_hints(target)


def takes(node: ConfigNode, option: str) -> bool:
    """Whether a node's class takes the node's value of an option; True where nobody can tell."""
    anything: type[Any] = object
    try:
        target: type = resolve(node, anything, "")
    except ConfigError:
        return True
    return option not in node or fits(_hints(target).get(option, Any), node[option])


def fits(hint: object, value: Json) -> bool:
    """Whether a YAML value can stand for a parameter annotated so."""
    if hint is Any:
        return True
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return any(fits(member, value) for member in arguments)
    if origin is Literal:
        return value in arguments
    if origin in (tuple, list) or (origin is not None and origin is Sequence):
        sequence = isinstance(value, list | tuple)
        return sequence and all(fits(arguments[0], item) for item in typing.cast(list[Json], value))
    if origin is Mapping or origin is dict:
        return isinstance(value, Mapping) and all(
            fits(arguments[1], item) for item in value.values()
        )
    if hint is type(None) or hint is None:
        return value is None
    if hint in (int, float):
        return isinstance(value, int if hint is int else int | float) and not isinstance(
            value, bool
        )
    if isinstance(hint, type):
        return isinstance(value, hint)
    return True


def describe(hint: object) -> str:
    """An annotation in words a person writes in YAML."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(describe(member) for member in arguments)
    if origin is Literal:
        return "one of " + ", ".join(repr(choice) for choice in arguments)
    if origin in (tuple, list) or origin is Sequence:
        return f"a list of {describe(arguments[0])}"
    if origin in (Mapping, dict):
        return "a mapping"
    words = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
    if isinstance(hint, type):
        return "null" if hint is type(None) else words.get(hint, hint.__name__)
    return str(hint)
