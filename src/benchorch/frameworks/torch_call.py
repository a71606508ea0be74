"""Calls of torch callables: arrays become tensors, and outputs become arrays."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, final
from zipfile import BadZipFile

from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.domain.outputs import Outputs
from benchorch.domain.tensors import Array, Arrays
from benchorch.errors import BuildError, MeasureError
from benchorch.frameworks.host_arrays import BFLOAT16, dtype_name
from benchorch.frameworks.model_caches import is_cache, know_cache
from benchorch.frameworks.module_precision import CAST_FROM, parameter_dtypes
from benchorch.frameworks.output_paths import attributes, is_flat, plain, returned
from benchorch.frameworks.torch_operators import operator_facts
from benchorch.frameworks.torch_program import load_program
from benchorch.frameworks.upstream_errors import wrap_errors
from benchorch.interfaces.conversion import BuildRequest
from benchorch.interfaces.generation import Program
from benchorch.interfaces.runtime import Executable, LoadRequest

if TYPE_CHECKING:
    import torch

Bound = Callable[[], object]

_OF_GRADIENTS = ("does not require grad", "nference tensor")
"""What errors of torch say of a model that computes gradients in inference mode."""


def module_in(request: BuildRequest | LoadRequest) -> torch.nn.Module:
    """The chain's exported program as a module, or else the module, on the request's device."""
    if Format.EXPORTED_PROGRAM not in request.sources:
        module = request.module()
        module.to(request.device)  # in place: a class's own may return nothing
        return module
    return program_on(program_in(request), request.device).module()


def program_in(request: BuildRequest | LoadRequest) -> torch.export.ExportedProgram:
    """The chain's exported program; BuildError or MeasureError where it cannot be loaded."""
    kind = BuildError if isinstance(request, BuildRequest) else MeasureError
    with wrap_errors(kind, "The exported program cannot be loaded", BadZipFile):
        program: torch.export.ExportedProgram = load_program(
            request.sources[Format.EXPORTED_PROGRAM]
        )
    return program


def program_on(program: torch.export.ExportedProgram, device: str) -> torch.export.ExportedProgram:
    """The program with its weights and the tensors that it makes on that device."""
    if device == "cpu":
        return program
    from torch.export.passes import move_to_device_pass

    return move_to_device_pass(program, device)


def autocast_dtype(module: torch.nn.Module) -> str | None:
    """The dtype that the module's operators are cast to while they run, or None for their own."""
    import torch.fx

    for part in module.modules():
        dtype = getattr(part, "autocast_dtype", None)
        if isinstance(dtype, str):
            return dtype
        for node in part.graph.nodes if isinstance(part, torch.fx.GraphModule) else ():
            if str(node.target) == "wrap_with_autocast":
                return str(node.args[1]).removeprefix("torch.")
    return None


def tensors_of(arrays: Arrays, device: str, dtypes: tuple[str, ...]) -> dict[str, torch.Tensor]:
    """The inputs on the device; floating ones take the module's dtype where it has just one."""
    import torch

    only = getattr(torch, dtypes[0]) if len(dtypes) == 1 else None
    placed = {}
    for name, array in arrays.items():
        is_bfloat16 = array.dtype.name == BFLOAT16  # which torch reads from no array
        tensor = (
            torch.tensor(array.astype("float32")).bfloat16() if is_bfloat16 else torch.tensor(array)
        )
        target = only if only and tensor.is_floating_point() else tensor.dtype
        placed[name] = tensor.to(device=device, dtype=target)
    return placed


def live_tensors(module: torch.nn.Module, arrays: Arrays, device: str) -> dict[str, torch.Tensor]:
    """The inputs of a live module: images follow the memory format of its weights."""
    import torch

    tensors = tensors_of(arrays, device, parameter_dtypes(module))
    if not _has_channels_last(module):
        return tensors
    return {
        name: each.contiguous(memory_format=torch.channels_last) if each.dim() == 4 else each
        for name, each in tensors.items()
    }


def _has_channels_last(module: torch.nn.Module) -> bool:
    import torch

    # A 1x1 kernel is contiguous either way and says nothing.
    return any(
        weight.dim() == 4
        and weight.is_contiguous(memory_format=torch.channels_last)
        and not weight.is_contiguous()
        for weight in module.parameters()
    )


def tensors_in(raw: object) -> list[torch.Tensor]:
    """The tensors of a nested result, in the order of torch's own flattening."""
    import torch
    from torch.utils import _pytree

    know_dataclasses(raw)
    return [leaf for leaf in _pytree.tree_leaves(plain(raw)) if isinstance(leaf, torch.Tensor)]


def know_dataclasses(raw: object) -> None:
    """Teach torch to flatten dataclasses and caches of a nested result, as exporters must."""
    from torch.utils import _pytree

    for leaf in _pytree.tree_leaves(plain(raw)):
        if is_cache(leaf):
            know_cache(type(leaf))
        elif is_dataclass(leaf) and not isinstance(leaf, type):
            if type(leaf) not in _pytree.SUPPORTED_NODES:
                _know_dataclass(leaf)
            know_dataclasses(leaf)


def _know_dataclass(value: Any) -> None:
    """Teach torch to flatten a dataclass; with the tensors that no argument of it gives, too."""
    import torch
    from torch.utils import _pytree

    kind = type(value)
    given = [each.name for each in fields(value) if each.init]
    more = [
        name
        for name, each in attributes(value).items()
        if name not in given
        and any(isinstance(leaf, torch.Tensor) for leaf in _pytree.tree_leaves(plain(each)))
    ]
    if not more:
        torch.export.register_dataclass(kind)
        return

    def held(one: object) -> dict[str, object]:
        found = {name: getattr(one, name, None) for name in (*given, *more)}
        return {name: each for name, each in found.items() if each is not None}

    def made(leaves: Iterable[object], names: Iterable[str]) -> object:
        one: object = object.__new__(kind)  # its own constructor computes with tensors
        found = dict(zip(names, leaves, strict=True))
        for name in (*given, *more):
            object.__setattr__(one, name, found.get(name))
        return one

    _pytree.register_pytree_node(
        kind,
        lambda one: ([*held(one).values()], [*held(one)]),
        made,
        flatten_with_keys_fn=lambda one: (
            [(_pytree.GetAttrKey(name), each) for name, each in held(one).items()],
            [*held(one)],
        ),
    )


def arrays_in(raw: object) -> dict[str, Array]:
    """The tensors of a nested result on the host, dense, less than float32 widened to it."""
    tensors = tensors_in(raw)
    if not tensors:
        raise MeasureError(
            f"The model returned {type(raw).__name__}, in which there is no tensor to compare.",
            kind="no_output_tensors",
            remedy="return a tensor, a tuple, a list or a dict of tensors",
        )
    return {str(index): _array(index, each) for index, each in enumerate(tensors)}


def _array(index: int, tensor: torch.Tensor) -> Array:
    """A tensor of any layout by the values that it stands for."""
    kind = f"{type(tensor).__name__} of dtype {dtype_name(tensor)} and layout {tensor.layout}"
    try:
        return dense_array(tensor)
    except (TypeError, ValueError, RuntimeError, NotImplementedError) as error:
        raise MeasureError(
            f"Output {index} of the model is a {kind}, whose values cannot be compared.",
            kind="unreadable_output",
            remedy="return dense tensors: pad what has rows of several lengths",
        ) from error


def dense_array(tensor: torch.Tensor) -> Array:
    """A tensor's values on the host, less than float32 widened to it; perhaps in its memory."""
    array: Array = _dense(tensor.detach().cpu()).resolve_conj().resolve_neg().numpy()
    return array


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    import torch

    if tensor.layout is not torch.strided and not tensor.is_nested:
        tensor = tensor.to_dense()
    if tensor.is_quantized:
        return tensor.dequantize()
    if tensor.dtype is torch.complex32:
        return tensor.to(torch.complex64)
    narrow = tensor.is_floating_point() and tensor.element_size() < 4
    return tensor.float() if narrow else tensor


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TorchExecutable(Executable):
    """Executable of a torch callable.

    Attributes:
        place: puts arrays on the device.
        prepare: makes the call from the placed inputs.
        provider: what runs it, for people.
        dtypes: floating dtypes of its parameters, or of its buffers where it has none.
        autocast: the dtype that operators are cast to while they run, where it is another.
        device: where its inputs go.
        module: whose submodules are called one by one, or None where a compiler came between.
        counts: further facts, read when they are asked for.
        resources: what `close` gives back.
    """

    place: Callable[[Arrays], dict[str, torch.Tensor]]
    prepare: Callable[[dict[str, torch.Tensor]], Bound]
    provider: str
    dtypes: tuple[str, ...]
    device: str
    autocast: str | None = None
    module: torch.nn.Module | None = None
    counts: Callable[[], Mapping[str, Json]] = dict
    resources: ExitStack = field(default_factory=ExitStack)

    def bind(self, arrays: Arrays) -> Bound:
        """A call with its inputs on the device."""
        import torch

        with torch.inference_mode(mode=False):
            placed = self.place(arrays)
        return self.prepare(placed)

    def program(self) -> Program:
        """The callable on tensors that stay where they are."""
        import torch

        only = getattr(torch, self.dtypes[0]) if len(self.dtypes) == 1 else None
        return TorchProgram(prepare=self.prepare, device=self.device, dtype=only)

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Context without recording of gradients, in which calls are measured."""
        import torch

        from benchorch.frameworks.opaque_module import OpaqueModule

        opaque = self.module if isinstance(self.module, OpaqueModule) else None
        with torch.inference_mode(), opaque.timed() if opaque else nullcontext():
            yield

    def outputs(self, raw: object) -> Arrays:
        """Outputs of a call, flattened, on the host."""
        return arrays_in(raw)

    def returned(self, raw: object) -> Outputs | None:
        """Paths in the nested result, and what is no tensor in it."""
        know_dataclasses(raw)
        opened = plain(raw)
        return None if is_flat(opened) else returned(opened)

    def written(self, arrays: Arrays) -> Arrays:
        """Inputs whose tensors are others after a call, on the host."""
        import numpy as np
        import torch

        with torch.inference_mode(mode=False):
            placed = self.place(arrays)
        before = {name: np.array(dense_array(each)) for name, each in placed.items()}
        self.prepare(placed)()
        after = {name: dense_array(each) for name, each in placed.items()}
        return {
            name: each
            for name, each in after.items()
            if not np.array_equal(before[name], each, equal_nan=each.dtype.kind in "fc")
        }

    def facts(self) -> Mapping[str, Json]:
        """The settings and what was counted."""
        return {**self.settings(), **self.counts()}

    def settings(self) -> Mapping[str, Json]:
        """The weights' dtype and the threads read back from torch."""
        import torch

        cast: dict[str, Json] = {"autocast": self.autocast} if self.autocast else {}
        return {
            "dtype": "+".join(self.dtypes) or "none",
            **cast,
            "threads": torch.get_num_threads(),
            "provider": self.provider,
            "device": self.device,
        }

    def close(self) -> None:
        """Undo what loading changed in this process."""
        self.resources.close()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TorchProgram(Program):
    """Calls of a torch callable whose outputs are inputs of the next.

    Attributes:
        prepare: makes a call from placed inputs.
        dtype: of floating inputs; None to leave each its own.
    """

    prepare: Callable[[dict[str, torch.Tensor]], Bound]
    device: str
    dtype: torch.dtype | None

    def place(self, arrays: Arrays) -> dict[str, object]:
        """Tensors on the device."""
        import torch

        found: dict[str, object] = {}
        with torch.inference_mode(mode=False):  # compiled code tells the two kinds apart
            for name, array in arrays.items():
                tensor = torch.from_numpy(array)
                target = self.dtype if tensor.is_floating_point() else None
                found[name] = tensor.to(device=self.device, dtype=target)
        return found

    def call(self, inputs: Mapping[str, object]) -> Sequence[object]:
        """The flat tuple of tensors that the callable returns."""
        made: Sequence[object] = self.prepare({**inputs})()  # type: ignore[dict-item,assignment]
        return made

    def fetch(self, value: object) -> Array:
        """Value on the host, types narrower than float32 widened to it."""
        return arrays_in(value)["0"]

    def size_bytes(self, value: object) -> int:
        """Size of the tensor's elements."""
        size: int = value.nbytes  # type: ignore[attr-defined]
        return size


def live_executable(
    request: LoadRequest,
    module: torch.nn.Module,
    function: Callable[..., object],
    provider: str,
    counts: Callable[[], Mapping[str, Json]] = dict,
    resources: ExitStack | None = None,
) -> TorchExecutable:
    """A module on the request's device, called through `function`.

    Args:
        module: whose weights tell dtype and layout of the inputs.
        function: the module itself, or what a compiler made of it.
        provider: what runs it, for people.
        counts: further facts, read when they are asked for.
        resources: what closing gives back.
    """
    live = function is module and Format.EXPORTED_PROGRAM not in request.sources
    example, device = request.example, request.device
    keywords = example.keywords
    return TorchExecutable(
        place=partial(live_tensors, module, device=request.device),
        prepare=call_live(module, keywords) if live else call_by_keyword(function, keywords),
        provider=provider,
        dtypes=parameter_dtypes(module),
        autocast=autocast_dtype(module),
        device=request.device,
        module=module if function is module else None,
        counts=cache(
            lambda: {
                **quantised_parts(module, compiled=function is not module),
                **layer_facts(module),
                **operator_facts(module, live_tensors(module, example.arrays, device), keywords),
                **counts(),
            }
        ),
        resources=resources or ExitStack(),
    )


def quantised_parts(module: torch.nn.Module, *, compiled: bool) -> dict[str, Json]:
    """Counts of quantised weights, layers and roundings by kind; empty without any.

    The dtype of such a weight is that of what it stands for, and tells nothing. Roundings in a
    graph become part of its products only where they are compiled: run one by one, what was
    rounded is multiplied in floating point.
    """
    import torch.fx

    kinds = [type(weight.data).__name__ for weight in module.parameters()]
    found = Counter(kind for kind in kinds if kind not in ("Tensor", "Parameter"))
    for part in module.modules():
        home, name = type(part).__module__, type(part).__name__
        if home.startswith("torch.ao.nn") and "PackedParam" not in name:
            found[f"{'fake-quantised' if '.qat.' in home else 'quantised'} {name}"] += 1
        for node in part.graph.nodes if isinstance(part, torch.fx.GraphModule) else ():
            name = str(node.target)
            if name.startswith("quantized_decomposed.quantize_"):
                found[name.split(".")[1]] += 1
    if not found:
        return {}
    in_floats = not compiled and any(kind.startswith("quantize_") for kind in found)
    return {"quantised": dict(found), **({"quantized_share": 0.0} if in_floats else {})}


def layer_facts(module: torch.nn.Module) -> dict[str, Json]:
    """Counts of floating tensors, of layers that oneDNN packed and of those in channels_last."""
    packed = [each for each in module.modules() if _is_packed(each)]
    before = getattr(module, CAST_FROM, None)
    return {
        **({CAST_FROM: before} if before else {}),
        "floating_tensors": sum(
            each.is_floating_point() for each in (*module.parameters(), *module.buffers())
        )
        + len(packed),
        "packed_layers": len(packed),
        "channels_last_layers": sum(each.dim() == 4 for each in module.parameters()),
    }


def _is_packed(layer: torch.nn.Module) -> bool:
    """Whether torch.utils.mkldnn has packed the layer: it scripts what it puts in its place."""
    return getattr(layer, "original_name", "").startswith("Mkldnn")


def call_by_keyword(
    function: Callable[..., object], keywords: Mapping[str, Json]
) -> Callable[[dict[str, torch.Tensor]], Bound]:
    """Makes calls that pass every input by keyword and record nothing for gradients."""

    def prepare(tensors: dict[str, torch.Tensor]) -> Bound:
        return unrecorded(function, (), {**tensors, **keywords})

    return prepare


def call_live(
    module: torch.nn.Module, keywords: Mapping[str, Json]
) -> Callable[[dict[str, torch.Tensor]], Bound]:
    """The same for a live module, whose only input goes by position.

    A name would cost a small model a hundredth of its time.
    """
    by_keyword = call_by_keyword(module, keywords)

    def prepare(tensors: dict[str, torch.Tensor]) -> Bound:
        if not keywords and list(tensors) == _first_parameter(module):
            return unrecorded(module, tuple(tensors.values()), {})
        return by_keyword(tensors)

    return prepare


def _first_parameter(module: torch.nn.Module) -> list[str]:
    """Name of the module's first parameter, if it may go by position."""
    try:
        parameters = inspect.signature(module.forward).parameters.values()
    except (TypeError, ValueError):  # a scripted module has none
        return []
    by_position = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [each.name for each in parameters if each.kind is by_position][:1]


def unrecorded(
    function: Callable[..., object],
    positional: tuple[object, ...],
    named: Mapping[str, object],
) -> Bound:
    """A call that records nothing for gradients, on whatever thread it is made.

    Seeing to that costs some 3 µs, a twentieth of a small model's time, and is spared where
    `TorchExecutable.calling` was entered. A model that computes gradients itself, such as forces,
    cannot in inference mode: once it has said so, it is called outside.
    """
    import torch

    nothing_is_recorded, see_to_it = torch.is_inference_mode_enabled, torch.inference_mode
    computes_gradients = False

    def call() -> object:
        if not computes_gradients:
            try:
                if nothing_is_recorded():
                    return function(*positional)
                with see_to_it():
                    return function(*positional)
            except RuntimeError as error:
                learn(error)
        return call_with_gradients()

    def call_with_names() -> object:
        if not computes_gradients:
            try:
                if nothing_is_recorded():
                    return function(*positional, **named)
                with see_to_it():
                    return function(*positional, **named)
            except RuntimeError as error:
                learn(error)
        return call_with_gradients()

    def call_with_gradients() -> object:
        with see_to_it(mode=False), torch.enable_grad():
            return function(*positional, **named)

    def learn(error: RuntimeError) -> None:
        nonlocal computes_gradients
        computes_gradients = any(words in str(error) for words in _OF_GRADIENTS)
        if not computes_gradients:
            raise error

    return call_with_names if named else call
