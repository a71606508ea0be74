"""How does a captured graph get to another machine? As an exported program and its inputs.

What cannot travel stays here, with the reason in words.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchorch.analysis.parity import parity
from benchorch.domain.codec import Json
from benchorch.frontends.accelerate_capture import Seen, SeenGraph, is_weight
from benchorch.journal import write_text
from benchorch.live_model import common_rows, error_words, named_arrays, write_inputs, write_program

if TYPE_CHECKING:
    import torch

    from benchorch.live_model import Arrays

AGREES_RATIO = 1e-4
"""How far the exported graph's answers may be from those that the program got."""

_NAME = re.compile(r"^[lg]_(self_)?(\w+?)_$")
_RESERVED = ("file", "shapes", "self")
_DTYPES = {"torch.float32", "torch.float64", "torch.float16"}


class Stays(Exception):
    """Why a call of a graph cannot be repeated elsewhere, in one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traveller:
    """A call of a graph that can be repeated elsewhere.

    Attributes:
        model: the name of its file under ``conf/model`` in the run's directory.
        words: overrides that belong to it.
    """

    model: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Program:
    """A program that is written, and what of ``model`` says where."""

    program: torch.export.ExportedProgram
    node: dict[str, Json]


@dataclass(slots=True, kw_only=True)
class Departures:
    """Writes each graph once into the run's directory, and a configuration for each call of it.

    Attributes:
        directory: ``model`` in the run's own.
    """

    directory: Path
    _open: dict[tuple[object, ...], _Program] = field(default_factory=dict)
    _written: int = 0

    @property
    def configs(self) -> Path:
        """What a composer has to look into to find the models."""
        return self.directory / "conf"

    def depart(self, seen_graph: SeenGraph, seen: Seen) -> Traveller:
        """Write what is needed; raises Stays where that is not possible."""
        import torch

        place = _Place.of(seen_graph, seen)
        arrays, dtype = place.arrays(), place.dtype()
        with torch.no_grad():
            node = self._program(seen_graph, place, seen.outputs)
        return self._configured(f"{seen_graph.number}", seen, node, arrays, dtype)

    def _program(
        self, seen_graph: SeenGraph, place: _Place, outputs: Sequence[Any]
    ) -> dict[str, Json]:
        """One for all shapes where the graph is for all of them; else one for these."""
        key = (seen_graph.number, place.constants())
        known = self._open.get(key)
        if known is not None and _takes(known.program, place):
            _demand_same(known.program, place, outputs)
            return known.node
        is_open = known is None and bool(place.open_sizes())
        program = _exported(place, dynamic=is_open)
        _demand_same(program, place, outputs)
        self._written += 1
        node = write_program(program, self.directory / f"program_{self._written}")
        if is_open:
            self._open[key] = _Program(program=program, node=node)
        return node

    def _configured(
        self, number: str, seen: Seen, node: Mapping[str, Json], arrays: Arrays, dtype: str
    ) -> Traveller:
        import yaml

        name = f"graph_{number}" + (f"_shapes_{seen.number}" if seen.number > 1 else "")
        inputs = write_inputs(arrays, self.directory / name)
        config = {
            "_target_": "benchorch.models.exported.ExportedModel",
            **node,
            "checkpoint": None,
            "inputs": inputs,
            "kwargs": {},
        }
        path = self.configs / "model" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, yaml.safe_dump(config, sort_keys=False))
        rows = common_rows(arrays)
        words = [f"workload.dtype={dtype}"]
        words += [] if rows is None else [f"workload.batch_size={rows}"]
        return Traveller(model=name, words=tuple(words))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A graph's arguments, sorted: tensors by name, weights, and plain numbers.

    Attributes:
        slots: for each argument what it is: ``(kind, name or value)``.
        sizes: symbolic sizes by the argument's place: which tensor's which size it is.
    """

    module: torch.fx.GraphModule
    tensors: dict[str, torch.Tensor]
    weights: dict[str, torch.Tensor]
    slots: tuple[tuple[str, Any], ...]
    shapes: dict[str, Sequence[Any]]

    @classmethod
    def of(cls, seen_graph: SeenGraph, seen: Seen) -> _Place:
        import torch

        module = seen_graph.graph.module
        tensors: dict[str, torch.Tensor] = {}
        weights: dict[str, torch.Tensor] = {}
        shapes: dict[str, Sequence[Any]] = {}
        slots: list[tuple[str, Any]] = []
        for node, argument in zip(_placeholders(module), seen.arguments, strict=True):
            if isinstance(argument, torch.Tensor) and is_weight(argument):
                weights[f"weight_{len(weights)}"] = argument
                slots.append(("weight", f"weight_{len(weights) - 1}"))
            elif isinstance(argument, torch.Tensor) and _is_float(node, argument):
                slots.append(("number", (argument.item(), "")))
            elif isinstance(argument, torch.Tensor):
                name = _readable(node.name, tensors)
                tensors[name] = argument
                shapes[name] = getattr(node.meta.get("example_value"), "shape", ())
                slots.append(("tensor", name))
            elif isinstance(argument, bool | int | float):
                slots.append(("number", (argument, str(node.meta.get("example_value")))))
            else:
                kind = type(argument).__name__
                raise Stays(f"it takes a {kind}, which is no tensor and no number")
        return cls(
            module=module, tensors=tensors, weights=weights, slots=tuple(slots), shapes=shapes
        )

    def copies(self) -> dict[str, torch.Tensor]:
        """The tensors on the CPU, for a call that may change them."""
        return {name: each.cpu().clone() for name, each in self.tensors.items()}

    def arrays(self) -> Arrays:
        """The tensors as they are written; Stays with every one that cannot be."""
        from benchorch.errors import ConfigError

        if not self.tensors:
            raise Stays("it takes no tensor")
        odd = [name for name, each in self.tensors.items() if not _is_plain(each)]
        if odd:
            raise Stays(f"{odd[0]} is a {type(self.tensors[odd[0]]).__name__}, not a plain tensor")
        try:
            return named_arrays(self.tensors, None)
        except ConfigError as error:
            raise Stays("; ".join(problem.rstrip(".") for problem in error.problems)) from error

    def dtype(self) -> str:
        """What all weights are of; Stays where they differ, or nothing can cast to it."""
        held = [*self.weights.values(), *self.module.state_dict().values()]
        dtypes = sorted({str(each.dtype) for each in held if each.is_floating_point()})
        if len(dtypes) > 1:
            raise Stays(f"its weights are of several precisions: {', '.join(dtypes)}")
        if dtypes and dtypes[0] not in _DTYPES:
            raise Stays(f"its weights are {dtypes[0]}; expected float64, float32 or float16")
        return dtypes[0].removeprefix("torch.") if dtypes else "float32"

    def constants(self) -> tuple[object, ...]:
        """The plain numbers that are not the size of a tensor."""
        sizes = self._sizes()
        return tuple(
            value for kind, value in self.slots if kind == "number" and value[1] not in sizes
        )

    def open_sizes(self) -> dict[str, list[int]]:
        """Of each tensor the dimensions whose size the graph leaves open."""
        return {
            name: found
            for name, shape in self.shapes.items()
            if (found := [i for i, size in enumerate(shape) if not isinstance(size, int)])
        }

    def _sizes(self) -> dict[str, tuple[str, int]]:
        """Each symbol, with a tensor and the dimension that has this size."""
        return {
            str(shape[i]): (name, i)
            for name, places in self.open_sizes().items()
            for shape in [self.shapes[name]]
            for i in places
        }

    def arguments(self, weights: Mapping[str, Any], named: Mapping[str, Any]) -> list[Any]:
        """What the graph is called with."""
        sizes = self._sizes()
        found: list[Any] = []
        for kind, value in self.slots:
            if kind == "number":
                name, dimension = sizes.get(value[1], ("", 0))
                found.append(named[name].shape[dimension] if name else value[0])
            else:
                found.append((weights if kind == "weight" else named)[value])
        return found


def _is_plain(tensor: torch.Tensor) -> bool:
    import torch

    return type(tensor) in (torch.Tensor, torch.nn.Parameter)


def _readable(name: str, taken: Mapping[str, object]) -> str:
    """``x`` of Dynamo's ``l_x_``, made distinct."""
    found = _NAME.match(name.lower())
    short = found[2] if found and found[2].isidentifier() else name
    if short in taken or short in _RESERVED:
        short = name
    return short if short not in taken else f"{name}_{len(taken)}"


def _exported(place: _Place, *, dynamic: bool) -> torch.export.ExportedProgram:
    """The graph as a program of its named tensors; Stays where torch.export refuses."""
    import torch

    auto, sizes = torch.export.Dim.AUTO, place.open_sizes()
    shapes = {name: dict.fromkeys(sizes.get(name, ()), auto) for name in place.tensors}
    open_shapes = shapes if dynamic else None
    try:
        return torch.export.export(
            _as_module(place), (), place.copies(), dynamic_shapes=open_shapes
        )
    except Exception as error:
        raise Stays(f"torch.export refuses it: {error_words(error)}") from error


def _as_module(place: _Place) -> torch.nn.Module:
    """The graph with its weights inside, called by its tensors' names, answering tensors only."""
    import torch

    class Segment(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.graph_module = _with_numbers(place)
            for name, tensor in place.weights.items():
                self.register_buffer(name, tensor.detach().cpu())

        def forward(self, **named: torch.Tensor) -> tuple[torch.Tensor, ...]:
            weights = {name: getattr(self, name) for name in place.weights}
            outputs = self.graph_module(*place.arguments(weights, named))
            return tuple(each for each in outputs if isinstance(each, torch.Tensor))

    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = [inspect.Parameter(name, keyword) for name in ("self", *place.tensors)]
    Segment.forward.__signature__ = inspect.Signature(names)  # type: ignore[attr-defined]
    return Segment()


def _with_numbers(place: _Place) -> torch.fx.GraphModule:
    """The graph with the floats inside that Dynamo hands over as tensors of one number."""
    import torch

    whole = torch.fx.GraphModule(place.module, copy.deepcopy(place.module.graph))
    values = [value[0] if kind == "number" else None for kind, value in place.slots]
    for node, value in zip(_placeholders(whole), values, strict=True):
        for item in [user for user in node.users if _is_item(user) and isinstance(value, float)]:
            for user in list(item.users):
                user.args = torch.fx.map_arg(user.args, _instead(item, value))
                user.kwargs = torch.fx.map_arg(user.kwargs, _instead(item, value))
            whole.graph.erase_node(item)
    whole.recompile()
    return whole


def _instead(node: torch.fx.Node, value: Any) -> Callable[[torch.fx.Node], Any]:
    return lambda each: value if each is node else each


def _placeholders(module: torch.fx.GraphModule) -> list[torch.fx.Node]:
    return [node for node in module.graph.nodes if node.op == "placeholder"]


def _is_item(node: torch.fx.Node) -> bool:
    return node.op == "call_method" and node.target == "item"


def _is_float(node: torch.fx.Node, argument: torch.Tensor) -> bool:
    """Whether Dynamo made a tensor of a Python float."""
    import torch

    number = argument.dtype is torch.float64 and argument.ndim == 0
    return number and bool(node.users) and all(map(_is_item, node.users))


def _takes(program: torch.export.ExportedProgram, place: _Place) -> bool:
    """Whether a program of another call holds for the shapes of this one."""
    try:
        program.module()(**place.copies())
    except (AssertionError, RuntimeError, ValueError):
        return False
    return True


def _demand_same(
    program: torch.export.ExportedProgram, place: _Place, outputs: Sequence[Any]
) -> None:
    """Stays where the exported graph is no function, or another one than the captured graph."""
    import torch

    module = program.module()
    tensors, again = place.copies(), place.copies()
    state = list(module.state_dict().values())
    inputs_before, state_before = _versions(tensors.values()), _versions(state)
    with torch.random.fork_rng(devices=[]):
        answers = _answers(module(**tensors))
        if _versions(tensors.values()) != inputs_before:
            raise Stays("it changes what it is called with, so that each call would see another")
        if _versions(state) != state_before:
            raise Stays("it changes the model's own state, as in training mode; call .eval() first")
        if not answers:
            raise Stays("it answers no tensor")
        if not parity([_answers(module(**again))], [answers], AGREES_RATIO).passed:
            raise Stays("it draws random numbers, as dropout in training mode; call .eval() first")
    told = _answers([each for each in outputs if isinstance(each, torch.Tensor)])
    verdict = parity([answers], [told], AGREES_RATIO)
    if not verdict.passed:
        raise Stays(f"exported, it answers otherwise than here: {verdict.explanation}")


def _versions(tensors: Iterable[torch.Tensor]) -> list[int]:
    """How often each was changed in place."""
    return [each._version for each in tensors]


def _answers(outputs: Any) -> dict[str, Any]:
    return {f"{i}": _numbers(each) for i, each in enumerate(outputs)}


def _numbers(tensor: torch.Tensor) -> Any:
    import torch

    whole = tensor.detach().cpu()
    return (whole.float() if whole.dtype is torch.bfloat16 else whole).numpy()
