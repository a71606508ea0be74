from __future__ import annotations

from benchorch.trace.operators.shapes import Operands, recorded, spelled


def test_a_profile_of_pytorch_says_which_operands_are_tensors() -> None:
    arguments = {
        "Input Dims": [[768], [1024, 256], [256, 768], [], []],
        "Input type": ["float", "float", "float", "Scalar", "Scalar"],
        "Input Strides": [[1], [256, 1], [1, 256], [], []],
        "Concrete Inputs": ["", "", "", "1", "1"],
    }
    assert recorded(arguments) == Operands(shapes="768, 1024x256, 256x768", dtype="float32")


def test_a_list_of_tensors_gives_each_of_them() -> None:
    call = recorded({"Input Dims": [[[8, 2], [8, 3]], []], "Input type": ["TensorList", "Scalar"]})
    assert call == Operands(shapes="8x2, 8x3", dtype="")


def test_a_profile_of_onnx_runtime_says_operands_too() -> None:
    call = recorded({"input_type_shape": [{"int64": [2]}, {"float16": [8, 4]}, {"float": []}]})
    assert call == Operands(shapes="2, 8x4, 1", dtype="float16")


def test_arguments_without_shapes_say_nothing() -> None:
    assert recorded({"External id": 3}) is None


def test_values_that_make_no_sense_are_no_tensors() -> None:
    assert recorded({"Input Dims": "oops", "Input type": None}) == Operands(shapes="", dtype="")


def test_dtypes_have_one_spelling() -> None:
    spellings = ("c10::BFloat16", "bfloat16", "torch.bfloat16", "tensor(bfloat16)")
    assert {spelled(one) for one in spellings} == {"bfloat16"}
    assert [spelled(one) for one in ("long int", "long", "double", "tensor(float)")] == [
        *("int64", "int64", "float64", "float32")
    ]
    assert spelled("c10::Float8_e4m3fn") == "float8"
    assert spelled("Scalar") == ""
