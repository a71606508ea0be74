from __future__ import annotations

from benchorch.trace.operators.shapes import Operands, integers, recorded, spelled


def test_a_profile_of_pytorch_says_which_operands_are_tensors() -> None:
    call = recorded(
        {
            "Input Dims": [[768], [1024, 256], [256, 768], [], []],
            "Input type": ["float", "float", "float", "Scalar", "Scalar"],
            "Input Strides": [[1], [256, 1], [1, 256], [], []],
            "Concrete Inputs": ["", "", "", "1", "1"],
        }
    )
    assert call == Operands(dtype="float32", shapes="768, 1024x256, 256x768")


def test_a_list_of_tensors_gives_each_of_them() -> None:
    call = recorded({"Input Dims": [[[8, 2], [8, 3]], []], "Input type": ["TensorList", "Scalar"]})
    assert call == Operands(dtype="", shapes="8x2, 8x3")


def test_a_profile_of_onnx_runtime_says_operands_too() -> None:
    call = recorded({"input_type_shape": [{"float16": [8, 4]}, {"int64": [2]}]})
    assert call == Operands(dtype="float16", shapes="8x4, 2")


def test_arguments_without_shapes_say_nothing() -> None:
    assert recorded({"External id": 3}) is None


def test_values_that_make_no_sense_are_no_tensors() -> None:
    call = recorded({"Input Dims": "oops", "Input type": None})
    assert call == Operands(dtype="", shapes="")


def test_dtypes_have_one_spelling() -> None:
    spellings = ("c10::BFloat16", "bfloat16", "torch.bfloat16", "tensor(bfloat16)")
    assert {spelled(one) for one in spellings} == {"bfloat16"}
    assert spelled("c10::Float8_e4m3fn") == "float8"
    assert spelled("Scalar") == ""


def test_a_constant_may_be_a_list() -> None:
    assert integers("[2, -1]") == (2, -1)
    assert integers("True") == ()
