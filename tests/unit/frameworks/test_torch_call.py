from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils import _pytree

from benchorch.domain.tensors import Example, TensorSpec
from benchorch.errors import MeasureError
from benchorch.frameworks.output_paths import leaf_paths, plain, returned
from benchorch.frameworks.torch_call import (
    TorchExecutable,
    arrays_in,
    call_by_keyword,
    call_live,
    live_tensors,
    tensors_in,
    tensors_of,
)
from benchorch.frameworks.torch_program import return_tensors
from benchorch.frameworks.torch_tracing import open_shapes, traceable


def test_floating_inputs_take_the_modules_one_dtype_and_others_stay() -> None:
    arrays = {"x": np.ones(2, np.float32), "ids": np.arange(2), "mask": np.ones(2, np.bool_)}
    tensors = tensors_of(arrays, "cpu", ("bfloat16",))
    dtypes = [each.dtype for each in tensors.values()]
    assert dtypes == [torch.bfloat16, torch.int64, torch.bool]


@pytest.mark.parametrize("dtypes", [(), ("bfloat16", "float32")])
def test_inputs_stay_as_they_are_where_the_module_has_no_one_dtype(dtypes: tuple[str, ...]) -> None:
    tensors = tensors_of({"x": np.ones(2, np.float64)}, "cpu", dtypes)
    assert tensors["x"].dtype == torch.float64


def test_images_follow_the_memory_format_of_the_kernels() -> None:
    image = {"image": np.ones((1, 3, 4, 4), np.float32), "row": np.ones((1, 3), np.float32)}
    kernel = torch.nn.Conv2d(3, 2, 3)
    plain = live_tensors(kernel, image, "cpu")
    last = live_tensors(kernel.to(memory_format=torch.channels_last), image, "cpu")
    assert plain["image"].is_contiguous()
    assert last["image"].is_contiguous(memory_format=torch.channels_last)
    assert last["row"].is_contiguous()


def test_a_nested_result_is_numbered_in_order_and_half_precision_widened() -> None:
    raw = {"b": torch.ones(1, dtype=torch.bfloat16), "a": (torch.arange(2), None, [torch.ones(3)])}
    arrays = arrays_in(raw)
    assert [(name, each.dtype.name) for name, each in arrays.items()] == [
        ("0", "float32"),
        ("1", "int64"),
        ("2", "float32"),
    ]


def test_a_result_without_tensors_is_a_failed_measurement() -> None:
    with pytest.raises(MeasureError, match="returned str") as caught:
        arrays_in("text")
    assert caught.value.kind == "no_output_tensors"


def test_a_complex_input_with_gaps_is_not_written_by_a_call_that_reads_it() -> None:
    executable = TorchExecutable(
        place=lambda arrays: tensors_of(arrays, "cpu", ()),
        prepare=lambda placed: lambda: placed["x"] * 2,
        provider="",
        dtypes=(),
        device="cpu",
    )
    assert executable.written({"x": np.array([1 + 2j, complex(np.nan, 0)])}) == {}


class Watched(torch.nn.Module):
    """Tells how it was called."""

    def forward(self, *taken: torch.Tensor, **named: object) -> tuple[int, list[str], bool]:
        return len(taken), list(named), torch.is_inference_mode_enabled()


class One(Watched):
    def forward(self, x: torch.Tensor, scale: float = 1.0) -> object:  # type: ignore[override]
        return super().forward(x)


@pytest.mark.parametrize("inside", [True, False])
def test_no_call_records_anything_for_gradients(inside: bool) -> None:
    call = call_by_keyword(Watched(), {})({"x": torch.ones(1)})
    with torch.inference_mode(mode=inside):
        assert call() == (0, ["x"], True)


class Forces(torch.nn.Module):
    """Its second answer is a gradient, which inference mode does not compute."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = x.detach().requires_grad_()
        energy = (x**2).sum()
        return energy, torch.autograd.grad(energy, x)[0]


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("make", [call_by_keyword, call_live])
def test_a_model_may_compute_gradients(make: Callable[..., Any], inside: bool) -> None:
    call = make(Forces(), {})({"x": torch.ones(2)})
    with torch.inference_mode(mode=inside):
        for _ in range(2):
            assert arrays_in(call())["1"].tolist() == [2, 2]


def test_another_error_of_a_model_stays_its_own() -> None:
    def fails(x: torch.Tensor) -> None:
        raise RuntimeError("no such layer")

    with pytest.raises(RuntimeError, match="no such layer"):
        call_by_keyword(fails, {})({"x": torch.ones(2)})()


def test_a_call_on_another_thread_records_nothing_either() -> None:
    seen: list[object] = []
    with torch.inference_mode():
        call = call_by_keyword(Watched(), {})({"x": torch.ones(1)})
        thread = threading.Thread(target=lambda: seen.append(call()))
        thread.start()
        thread.join()
    assert seen == [(0, ["x"], True)]


@pytest.mark.parametrize(
    ("module", "tensors", "keywords", "by_position"),
    [
        (One(), ["x"], {}, 1),
        (One(), ["x"], {"scale": 2.0}, None),
        (One(), ["x", "scale"], {}, None),
        (Watched(), ["x"], {}, 0),
    ],
)
def test_a_live_module_s_only_input_goes_by_position(
    module: Watched, tensors: list[str], keywords: dict[str, Any], by_position: int | None
) -> None:
    given = {name: torch.ones(1) for name in tensors}
    taken = []
    module.register_forward_pre_hook(lambda _, args: taken.append(len(args)))
    call_live(module, keywords)(given)()
    assert taken == [by_position or 0]


def example(batch_size: int, dynamic: tuple[str, ...]) -> Example:
    shape = ("batch_size", 1)
    spec = TensorSpec(name="x", shape=shape, dtype="float32")
    arrays = {"x": np.ones((batch_size, 1), np.float32)}
    return Example(arrays=arrays, keywords={"flag": True}, specs=(spec,), dynamic=dynamic)


@pytest.mark.parametrize(("batch_size", "shown"), [(1, 2), (2, 2), (5, 5)])
def test_an_open_size_of_one_is_shown_to_tracers_as_two(batch_size: int, shown: int) -> None:
    assert traceable(example(batch_size, ("batch_size",)))["x"].shape == (shown, 1)


def test_a_fixed_size_of_one_stays() -> None:
    assert traceable(example(1, ()))["x"].shape == (1, 1)


def test_only_open_axes_are_declared_open() -> None:
    assert open_shapes(example(2, ())) is None
    shapes = open_shapes(example(2, ("batch_size",)))
    assert shapes is not None
    assert shapes["flag"] is None
    assert list(shapes["x"] or ()) == [0]


def test_a_dataclass_may_occur_more_than_once_in_a_result() -> None:
    @dataclasses.dataclass
    class Box:
        corner: torch.Tensor

    found = tensors_in([Box(torch.zeros(2)), Box(torch.ones(2))])
    assert [float(each.sum()) for each in found] == [0.0, 2.0]


@dataclasses.dataclass
class Scored:
    logits: torch.Tensor
    scores: torch.Tensor = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.scores = self.logits.softmax(-1)


class Scoring(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Scored:
        return Scored(x * 2)


def test_a_tensor_that_a_dataclass_computes_is_an_output_of_it_and_of_its_export() -> None:
    x = torch.ones(2, 4)
    assert [each.mean().item() for each in tensors_in(Scoring()(x))] == [2.0, 0.25]
    program = torch.export.export(Scoring(), (x,))
    assert return_tensors(program).tensors == ("logits", "scores")
    assert [each.mean().item() for each in program.module()(x)] == [2.0, 0.25]


class Pair(tuple[torch.Tensor, torch.Tensor]):
    """A tuple whose constructor takes something else."""

    def __new__(cls, first: torch.Tensor, second: torch.Tensor) -> Pair:
        return super().__new__(cls, (first, second))


def test_a_subclass_of_tuple_is_opened_like_a_tuple() -> None:
    raw = {"pair": Pair(torch.ones(1), torch.zeros(2))}
    assert [each.shape for each in arrays_in(raw).values()] == [(1,), (2,)]


class Fields:
    """As detectors return them: an object of a class that torch does not know."""

    __slots__ = ("__dict__", "__size")

    def __init__(self, size: tuple[int, int], **fields: object) -> None:
        self.__size = size
        self.fields, self.itself = fields, self


def test_an_object_of_any_class_is_opened_by_its_attributes() -> None:
    scores = torch.ones(2)
    found = returned(plain([Fields((4, 8), scores=scores, names=np.array(["cat"]))]))
    assert found.tensors == ("0.fields.scores",)
    assert found.constants == {
        **{"0._Fields__size.0": 4, "0._Fields__size.1": 8, "0.itself": None},
        "0.fields.names.0": "cat",
    }


def test_arrays_and_sets_are_outputs_and_what_shows_no_values_is_unknown() -> None:
    raw = {"a": np.arange(3), "b": {2, 1}, "c": iter(()), "d": np.float32(0.5)}
    found = returned(plain(raw))
    assert (found.tensors, found.unknown) == (("a",), ("c",))
    assert found.constants == {"b.0": 1, "b.1": 2, "d": 0.5}


class Keyless:
    """Registered with torch as people register what only has to be flattened."""

    def __init__(self, *tensors: torch.Tensor) -> None:
        self.tensors = tensors


_pytree.register_pytree_node(Keyless, lambda it: (list(it.tensors), None), lambda x, _: Keyless(*x))


def test_a_node_without_keys_has_positions() -> None:
    found = leaf_paths({"boxes": Keyless(torch.ones(1), torch.zeros(2))})
    assert [path for path, _ in found] == ["boxes.0", "boxes.1"]


@pytest.mark.parametrize(
    "tensor",
    [
        torch.eye(3).to_sparse(),
        torch.eye(3).to_sparse_csr(),
        torch.quantize_per_tensor(torch.eye(3), 0.5, 0, torch.qint8),
        torch.eye(3, dtype=torch.complex64).conj(),
    ],
)
def test_an_output_of_any_layout_is_compared_by_the_values_it_stands_for(
    tensor: torch.Tensor,
) -> None:
    assert arrays_in(tensor)["0"].real.tolist() == torch.eye(3).tolist()


def test_an_output_that_has_no_dense_values_is_a_failure_with_a_remedy() -> None:
    jagged = torch.nested.nested_tensor([torch.ones(1), torch.ones(2)], layout=torch.jagged)
    with pytest.raises(MeasureError, match="Output 1 of the model is a NestedTensor") as caught:
        arrays_in([torch.ones(1), jagged])
    assert "pad" in str(caught.value.remedy)
