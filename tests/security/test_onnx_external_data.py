"""A stranger's ONNX graph names files with its weights: none outside its folder is read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchorch.errors import ConfigError
from benchorch.frameworks import onnx_external
from benchorch.frameworks.onnx_external import external_files

onnx = pytest.importorskip("onnx")
pytest.importorskip("torch")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

BYTES = 4 * 16
WEIGHT = np.arange(16, dtype=np.float32).reshape(4, 4)


def external(location: str | None, **more: object) -> TensorProto:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4, 4])
    tensor.data_location = TensorProto.EXTERNAL
    named = {} if location is None else {"location": location}
    for key, value in {**named, **more}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def graph_of(*tensors: TensorProto, nodes: tuple[onnx.NodeProto, ...] = ()) -> onnx.GraphProto:
    product = helper.make_node("MatMul", ["x", "w"], ["y"])
    taken = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])
    given = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])
    return helper.make_graph([product, *nodes], "g", [taken], [given], [*tensors])


def written(folder: Path, graph: onnx.GraphProto) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "net.onnx"
    opset = [helper.make_opsetid("", 18)]
    path.write_bytes(
        helper.make_model(graph, opset_imports=opset, ir_version=10).SerializeToString()
    )
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With data of its own, and beside a file that is none of its business."""
    (tmp_path / "secret").write_bytes(WEIGHT.tobytes())
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "own.data").write_bytes(WEIGHT.tobytes())
    return tmp_path / "net"


def opened(path: Path) -> object:
    from benchorch.frameworks.onnx_module import OnnxGraph

    return OnnxGraph(path)


def test_data_in_the_graphs_own_folder_is_read(folder: Path) -> None:
    import torch

    graph = opened(written(folder, graph_of(external("own.data", offset=0, length=BYTES))))
    rows = torch.ones(2, 4)
    assert torch.allclose(graph(x=rows), rows @ torch.from_numpy(WEIGHT))


def test_other_data_is_another_model(folder: Path) -> None:
    path = written(folder, graph_of(external("own.data")))
    before = opened(path).content
    (folder / "own.data").write_bytes(bytes(BYTES))
    assert not opened(path).content.equal(before)


def link(name: str, target: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).symlink_to(target)


def nothing(folder: Path) -> None:
    return None


@pytest.mark.parametrize(
    ("location", "plant", "words"),
    [
        ("{outside}/secret", nothing, "outside its folder"),
        ("../secret", nothing, "outside its folder"),
        ("inner/../../secret", lambda at: (at / "inner").mkdir(), "outside its folder"),
        ("linked", link("linked", "../secret"), "outside its folder"),
        ("up/secret", link("up", ".."), "outside its folder"),
        ("/dev/zero", nothing, "outside its folder"),
        ("zeros", link("zeros", "/dev/zero"), "outside its folder"),
        ("loop", link("loop", "loop"), "cannot be read"),
        ("fifo", lambda at: os.mkfifo(at / "fifo"), "not a regular file"),
        (".", nothing, "not a regular file"),
        (None, nothing, "not a regular file"),
        ("none", nothing, "No such file"),
        ("own.data\0", nothing, "cannot be read"),
        ("*/_ORT_MEM_ADDR_/*", nothing, "from memory"),
    ],
)
def test_what_is_no_file_of_its_folder_is_refused(
    folder: Path, location: str | None, plant: Callable[[Path], None], words: str
) -> None:
    plant(folder)
    named = location and location.replace("{outside}", str(folder.parent))
    path = written(folder, graph_of(external(named)))
    with pytest.raises(ConfigError, match=words):
        opened(path)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ({"offset": BYTES + 1}, "which has 64"),
        ({"offset": 4, "length": BYTES}, "bytes 4 to 68"),
        ({"length": BYTES + 1}, "bytes 0 to 65"),
        ({"length": 2**62}, "which has 64"),
        ({"length": 10**30}, "not a number of bytes"),
        ({"offset": -1}, "not a number of bytes"),
        ({"offset": "0x10"}, "not a number of bytes"),
        ({"offset": "9" * 5000}, "not a number of bytes"),
    ],
)
def test_a_tensor_lies_within_its_file(folder: Path, place: dict[str, object], words: str) -> None:
    path = written(folder, graph_of(external("own.data", **place)))
    with pytest.raises(ConfigError, match=words):
        opened(path)


def test_a_tensor_has_one_place(folder: Path) -> None:
    tensor = external("own.data")
    tensor.external_data.add(key="location", value="../secret")
    with pytest.raises(ConfigError, match="two places"):
        opened(written(folder, graph_of(tensor)))


def inner(tensor: TensorProto) -> tuple[onnx.NodeProto, ...]:
    """A branch with the tensor among its weights, and one with it as a constant."""
    given = [helper.make_tensor_value_info("z", TensorProto.FLOAT, [4, 4])]
    keep = helper.make_node("Identity", ["w"], ["z"])
    constant = helper.make_node("Constant", [], ["z"], value=tensor)
    held = helper.make_graph([keep], "held", [], given, [tensor])
    made = helper.make_graph([constant], "made", [], given)
    return (helper.make_node("If", ["c"], ["z"], then_branch=held, else_branch=made),)


@pytest.mark.parametrize("branch", [0, 1])
def test_branches_are_looked_at(folder: Path, branch: int) -> None:
    (node,) = inner(external("../secret"))
    del node.attribute[1 - branch]
    with pytest.raises(ConfigError, match="outside its folder"):
        opened(written(folder, graph_of(numpy_helper.from_array(WEIGHT, "w"), nodes=(node,))))


def test_sparse_weights_and_functions_are_looked_at(folder: Path) -> None:
    for change in ("sparse", "function"):
        model = helper.make_model(graph_of(numpy_helper.from_array(WEIGHT, "w")))
        if change == "sparse":
            model.graph.sparse_initializer.add().values.CopyFrom(external("../secret"))
        else:
            model.functions.add(name="f").node.extend(inner(external("../secret")))
        with pytest.raises(ConfigError, match="outside its folder"):
            external_files(model, folder / "net.onnx")


def test_files_are_bounded_without_being_read(folder: Path) -> None:
    with (folder / "own.data").open("wb") as file:
        file.truncate(onnx_external.MOST_BYTES + 1)  # a hole
    with pytest.raises(ConfigError, match="more than 274877906944"):
        opened(written(folder, graph_of(external("own.data"))))


def test_bytes_are_not_taken_many_times_over(folder: Path) -> None:
    (folder / "own.data").write_bytes(bytes(2**20))
    many = [external("own.data") for _ in range(100)]
    path = written(folder, graph_of(*many[:60]))
    assert external_files(onnx.load(path, load_external_data=False), path)
    path = written(folder, graph_of(*many))
    with pytest.raises(ConfigError, match="expand to 104857600"):
        opened(path)


def test_a_cache_of_linked_downloads_is_one_folder(tmp_path: Path) -> None:
    blobs = tmp_path / "blobs"
    written(blobs, graph_of(external("own.data"))).rename(blobs / "a1")
    (blobs / "b2").write_bytes(WEIGHT.tobytes())
    snapshot = tmp_path / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    (snapshot / "net.onnx").symlink_to("../../blobs/a1")
    (snapshot / "own.data").symlink_to("../../blobs/b2")
    model = onnx.load(snapshot / "net.onnx", load_external_data=False)
    assert external_files(model, snapshot / "net.onnx") == (snapshot / "own.data",)
