"""Arguments of a module's call in a script: tensors by name, and all other values."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from benchorch.domain.codec import Json
from benchorch.domain.tensors import DTYPES, Array, Arrays, digest_of_arrays
from benchorch.frameworks.host_arrays import array_of, dtype_name
from benchorch.frameworks.model_caches import holds_tokens, is_cache, is_layer, is_written

if TYPE_CHECKING:
    import torch

_JSON = (bool, int, float, str, type(None))
_PLAIN = frozenset({"dtype", "device", "memory_format", "layout", "Size", "slice", "ellipsis"})
_BY_VALUE = (bool, str, type(None))  # other plain values count by their type: a step, a time


@final
@dataclass(frozen=True, slots=True)
class Slot:
    """Place of a tensor among the arguments."""

    name: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """An object that holds tensors, made anew for each call: calls may change it.

    Attributes:
        kind: its class.
        content: its attributes; of a mapping that is a dataclass, its items.
        copied: whether calls write into its tensors.
    """

    kind: type
    content: Mapping[str, object]
    copied: bool = False

    def filled(self, tensors: Mapping[str, torch.Tensor]) -> object:
        """The object on these tensors."""
        content = {name: _filled(value, tensors) for name, value in self.content.items()}
        if issubclass(self.kind, dict):
            return self.kind(**content)
        if self.copied:
            content = {key: _copy(value) for key, value in content.items()}
        made: object = self.kind.__new__(self.kind)
        vars(made).update(content)
        return made


def _copy(value: object) -> object:
    """A tensor's copy, also in a dict, as recurrent layers hold their states."""
    if isinstance(value, dict):
        return {key: _copy(each) for key, each in value.items()}
    return value.clone() if hasattr(value, "clone") else value


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedArguments:
    """Arguments of one call, tensors separated from other values.

    Attributes:
        tensors: by name, as they were before the call.
        positional, named: the rest, with a `Slot` for each tensor.
        signature: each argument in words that are the same in every run, however it was passed.
        keywords: where forward can be called by keyword alone: its arguments that are no tensors.
        obstacle: why nobody else can make this call, or "".
        held: of tensors inside of objects, such as a cache's, the argument that holds each.
    """

    tensors: Mapping[str, torch.Tensor]
    positional: tuple[object, ...]
    named: Mapping[str, object]
    signature: tuple[str, ...]
    keywords: Mapping[str, Json] | None
    obstacle: str
    held: Mapping[str, str] = field(default_factory=dict)


def spelled(tensor: torch.Tensor) -> str:
    """``float32[1, 3, 224, 224]``."""
    kind = "nested " if tensor.is_nested else ""
    return f"{kind}{dtype_name(tensor)}{sizes(tensor)}"


def sizes(tensor: torch.Tensor) -> list[int]:
    """Sizes of a tensor's axes; none of a nested one, whose rows differ in theirs."""
    return [] if tensor.is_nested else list(tensor.shape)


def raw_key(args: Sequence[object], kwargs: Mapping[str, object]) -> tuple[object, ...]:
    """Equal for calls of one signature that are spelled alike; quick, as every call makes one."""
    if not kwargs:
        return tuple([_value_key(value) for value in args])
    named = [(name, _value_key(kwargs[name])) for name in sorted(kwargs)]
    if any(map(holds_tokens, kwargs.values())):  # its mask grows with each token
        named = [(name, "mask" if "mask" in name else key) for name, key in named]
    return (*[_value_key(value) for value in args], *named)


def _value_key(value: object) -> object:
    if getattr(value, "is_nested", False):  # it has no shape
        return ("nested", getattr(value, "dtype", None))
    shape = getattr(value, "shape", None)
    if shape is not None:
        return (tuple(shape), getattr(value, "dtype", None))
    if isinstance(value, _BY_VALUE):
        return value
    if isinstance(value, Slot):
        return f"<{value.name}>"
    if isinstance(value, tuple | list):
        return tuple(_value_key(item) for item in value)
    if isinstance(value, Mapping):
        return tuple((str(key), _value_key(value[key])) for key in value)
    if isinstance(value, Made):
        return value.kind.__name__
    return f"{type(value).__name__}{' with tokens' if holds_tokens(value) else ''}"


def capture_arguments(
    forward: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> CapturedArguments:
    """Arguments of one call by the names of forward, with copied tensors."""
    names, variadic = _names(forward, len(args))
    taken = _ArgumentReader()
    positional = tuple(taken.look(name, value) for name, value in zip(names, args, strict=True))
    named = {name: taken.look(name, value) for name, value in kwargs.items()}
    by_name = {**dict(zip(names, positional, strict=True)), **named}
    rest = {name: value for name, value in by_name.items() if not isinstance(value, Slot)}
    made = {name: list(_slots(value)) for name, value in rest.items() if isinstance(value, Made)}
    held = {slot: name for name, slots in made.items() for slot in slots}
    kinds = {name: _kinds(taken.tensors[slot] for slot in slots) for name, slots in made.items()}
    plain = taken.tensors.keys() - held.keys()
    direct = not variadic and len(rest) + len(taken.tensors) == len(by_name)
    simple = direct and all(_is_json(value) for value in rest.values())
    return CapturedArguments(
        tensors=taken.tensors,
        positional=positional,
        named=named,
        signature=(
            *sorted(f"{name}: {spelled(taken.tensors[name])}" for name in plain),
            *sorted(
                f"{name}={_value_key(value)}{kinds.get(name, '')}" for name, value in rest.items()
            ),
        ),
        keywords=rest if simple else None,  # type: ignore[arg-type]  # _is_json has looked
        obstacle=taken.obstacle or ("" if taken.tensors else "it takes no tensors"),
        held=held,
    )


def _kinds(tensors: Iterable[torch.Tensor]) -> str:
    """Of an object's tensors how many there are of each kind: `` of 4 float32[1, 2, 8, 16]``."""
    counted = Counter(map(spelled, tensors))
    return f" of {', '.join(f'{n} {kind}' for kind, n in counted.items())}" if counted else ""


def _slots(value: object) -> Iterator[str]:
    """Names of the tensors in a nested argument."""
    if isinstance(value, Slot):
        yield value.name
    elif isinstance(value, Made):
        yield from _slots(tuple(value.content.values()))
    elif isinstance(value, Mapping):
        yield from _slots(tuple(value.values()))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _slots(item)


def _names(forward: Callable[..., object], count: int) -> tuple[list[str], bool]:
    """Names of `count` positional arguments; whether some can go by position only."""
    parameters = _parameters(getattr(forward, "__func__", forward))
    bound = parameters[1:] if hasattr(forward, "__func__") else parameters
    names: list[str] = []
    for name, kind in bound:
        if kind is inspect.Parameter.VAR_POSITIONAL:
            break
        names.append(name)
    variadic = count > len(names)
    names = [*names, *(f"input_{index}" for index in range(len(names), count))][:count]
    alone = inspect.Parameter.POSITIONAL_ONLY
    return names, variadic or any(kind is alone for _, kind in bound[:count])


@lru_cache(maxsize=1024)
def _parameters(forward: Callable[..., object]) -> tuple[tuple[str, Any], ...]:
    try:
        signature = inspect.signature(forward)
    except (TypeError, ValueError):  # some that are not written in Python have none
        return ()
    return tuple((each.name, each.kind) for each in signature.parameters.values())


@dataclass(slots=True)
class _ArgumentReader:
    """The tensors of one call so far, and the obstacle to repeating it."""

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    obstacle: str = ""

    def look(self, name: str, value: object) -> object:
        """The value with slots in the place of tensors."""
        import torch

        if isinstance(value, torch.Tensor):
            return self._tensor(name, value)
        kind: Any = type(value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            fields = zip(value._fields, value, strict=True)
            # Not by its own constructor, which may look at what it is given.
            return kind._make(self.look(f"{name}_{key}", item) for key, item in fields)
        if isinstance(value, tuple | list) and kind in (tuple, list):
            return kind(self.look(f"{name}_{at}", item) for at, item in enumerate(value))
        if type(value) is dict:
            return {key: self.look(f"{name}_{key}", item) for key, item in value.items()}
        if _holds_tensors(value):
            items = value if isinstance(value, dict) else vars(value)
            content = {key: self.look(f"{name}_{key}", item) for key, item in items.items()}
            return Made(kind=kind, content=content, copied=is_written(value))
        if not isinstance(value, (*_JSON, type)) and type(value).__name__ not in _PLAIN:
            self.obstacle = self.obstacle or f"{name} is a {type(value).__name__}, not a tensor"
        return value

    def _tensor(self, name: str, tensor: torch.Tensor) -> Slot:
        name = _identifier(name, self.tensors)
        self.obstacle = self.obstacle or _tensor_obstacle(name, tensor)
        copy = not self.obstacle
        self.tensors[name] = tensor.detach().clone() if copy else tensor.detach()
        return Slot(name)


def _holds_tensors(value: object) -> bool:
    """Whether it is a cache, a part of one, or a dataclass, as what a model returns may be."""
    if is_cache(value) or is_layer(value):
        return True
    return is_dataclass(value) and not isinstance(value, type) and hasattr(value, "__dict__")


def _tensor_obstacle(name: str, tensor: torch.Tensor) -> str:
    import torch

    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return f"{name} is a {type(tensor).__name__}, which holds no plain numbers"
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested:
        return f"{name} is no dense tensor"
    if tensor.is_meta:
        return f"{name} is on the meta device and has no values"
    if dtype_name(tensor) not in DTYPES:
        return f"{name} holds {dtype_name(tensor)}, which no file of inputs can hold"
    if 0 in tensor.shape:
        return f"{name} is empty: its shape is {list(tensor.shape)}"
    return ""


def _identifier(name: str, taken: Mapping[str, object]) -> str:
    """A name that forward could have and no other tensor has."""
    plain = "".join(letter if letter.isalnum() else "_" for letter in name)
    plain = plain if plain.isidentifier() else f"input_{plain}"
    while plain in taken:
        plain += "_"
    return plain


def _is_json(value: object) -> bool:
    if type(value) is list:
        return all(_is_json(item) for item in value)
    return type(value) in _JSON


def fill(
    arguments: CapturedArguments, tensors: Mapping[str, torch.Tensor]
) -> tuple[tuple[object, ...], dict[str, object]]:
    """The call's arguments with these tensors in the places of its own."""
    positional = tuple(_filled(value, tensors) for value in arguments.positional)
    return positional, {name: _filled(value, tensors) for name, value in arguments.named.items()}


def _filled(value: object, tensors: Mapping[str, torch.Tensor]) -> object:
    if isinstance(value, Slot):
        return tensors[value.name]
    if isinstance(value, Made):
        return value.filled(tensors)
    kind: Any = type(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return kind._make([_filled(item, tensors) for item in value])  # of a list: Dynamo
    if isinstance(value, tuple | list):
        return kind(_filled(item, tensors) for item in value)
    if type(value) is dict:
        return {key: _filled(item, tensors) for key, item in value.items()}
    return value


def arrays_of(arguments: CapturedArguments) -> dict[str, Array]:
    """The tensors for a file, each in its own dtype."""
    return {name: array_of(tensor) for name, tensor in arguments.tensors.items()}


def save_arrays(arrays: Arrays, folder: Path) -> Path:
    """A file of inputs, named by what it holds: the same inputs are the same file in every run."""
    import numpy as np
    from safetensors.numpy import save_file

    path = folder / f"{digest_of_arrays(arrays)[:16]}.safetensors"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        # Not ascontiguousarray, which makes a single number an array of one.
        save_file({name: np.asarray(array, order="C") for name, array in arrays.items()}, partial)
        partial.replace(path)
    return path
