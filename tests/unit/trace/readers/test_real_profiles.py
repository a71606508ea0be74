"""What the installed profilers write, read back."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from benchorch.trace.events import Category, Events
from benchorch.trace.nesting import nest
from benchorch.trace.readers.open import read_events
from benchorch.trace.steps import find_steps


@pytest.fixture(scope="module")
def pytorch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two calls of a tiny model, its backward pass and a second thread."""
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function

    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    inputs = torch.randn(2, 4)

    def work() -> None:
        with record_function("mod:worker"):
            model(inputs)

    everything = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    with profile(
        activities=[ProfilerActivity.CPU], record_shapes=True, experimental_config=everything
    ) as profiler:
        for _ in range(2):
            with record_function("benchorch:call"):
                thread = threading.Thread(target=work)
                thread.start()
                model(inputs).sum().backward()
                with record_function("wait:thread"):
                    thread.join()
    path = tmp_path_factory.mktemp("pytorch") / "t.json.gz"
    profiler.export_chrome_trace(str(path))
    return path


def names(events: Events, category: Category) -> set[str]:
    return {events.names[index] for index in events.name[events.category == category]}


def test_a_profile_of_pytorch_is_read_without_repairs(pytorch: Path) -> None:
    events = read_events(pytorch)
    assert events.repairs == {}
    assert names(events, Category.ANNOTATION) == {"benchorch:call", "mod:worker", "wait:thread"}
    assert "aten::addmm" in names(events, Category.OPERATOR)
    assert len(find_steps(events).start_ns) == 2


def test_operators_nest_in_the_range_of_their_thread(pytorch: Path) -> None:
    events = read_events(pytorch)
    nesting = nest(events)
    addmm = np.flatnonzero(events.name == events.names.index("aten::addmm"))
    parents = {events.names[events.name[index]] for index in nesting.parent[addmm]}
    assert parents == {"aten::linear"}
    assert nesting.clipped == 0


def test_backward_operators_know_their_forward_lane(pytorch: Path) -> None:
    events = read_events(pytorch)
    backward = events.name == events.names.index("AddmmBackward0")
    call = events.name == events.names.index("benchorch:call")
    assert set(events.forward_lane[backward].tolist()) == set(events.lane[call].tolist())


def test_shapes_are_among_the_details(pytorch: Path) -> None:
    events = read_events(pytorch)
    index = int(np.flatnonzero(events.name == events.names.index("aten::addmm"))[0])
    assert events.details([index])[index]["Input Dims"] == [[4], [2, 4], [4, 4], [], []]


def test_a_profile_of_onnx_runtime_is_read_without_repairs(tmp_path: Path) -> None:
    import onnxruntime
    from onnx import TensorProto, helper

    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="/layer/relu"),
        helper.make_node("Exp", ["a"], ["y"], name="exp"),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "ort")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    for _ in range(2):
        session.run(None, {"x": np.ones(2, np.float32)})
    events = read_events(Path(session.end_profiling()))
    assert events.repairs == {}
    assert names(events, Category.NODE) == {"/layer/relu", "exp"}
    found = find_steps(events)
    assert (found.name, len(found.start_ns)) == ("model_run", 2)
    index = int(np.flatnonzero(events.category == Category.NODE)[0])
    assert events.details([index])[index]["provider"] == "CPUExecutionProvider"
