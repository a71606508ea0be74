"""Which provider an ONNX graph runs on, and that it never quietly becomes another."""

from __future__ import annotations

import gc
import inspect
import weakref
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from benchorch.domain.artifact import Format
from benchorch.domain.tensors import Example
from benchorch.errors import MeasureError
from benchorch.frameworks import onnx_files
from benchorch.interfaces.runtime import LoadRequest
from benchorch.runtimes import onnx_session
from benchorch.runtimes.onnx_session import PROVIDERS, assignment, open_session
from benchorch.runtimes.onnxruntime import OnnxExecutable, OnnxRuntime
from support import conversions as lab


class FakeSession:
    """With the parameters of onnxruntime 1.31's ``InferenceSession``."""

    made: ClassVar[list[object]] = []

    def __init__(
        self,
        path_or_bytes: object,
        sess_options: object = None,
        providers: object = None,
        provider_options: object = None,
        **kwargs: object,
    ) -> None:
        self.made.append(providers)

    def get_providers(self) -> list[str]:
        return ["CPUExecutionProvider"]


@pytest.mark.parametrize("name", ["cuda", "tensorrt", "openvino"])
def test_a_session_that_stepped_back_to_the_cpu_is_a_failure(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(onnxruntime, "InferenceSession", FakeSession)
    with pytest.raises(MeasureError, match=f"CPU.* instead of {PROVIDERS[name].name}") as caught:
        open_session(Path("model.onnx"), PROVIDERS[name], 1, tmp_path)
    assert caught.value.kind == "provider_fallback"


@pytest.mark.parametrize("name", ["cuda", "tensorrt"])
def test_providers_of_gpus_need_one(name: str) -> None:
    reason = OnnxRuntime(provider=name).unavailable("cpu")  # type: ignore[arg-type]
    assert reason is not None
    assert "NVIDIA GPU" in reason


@pytest.mark.parametrize(
    ("provider", "device", "installed", "missing"),
    [
        ("device", "cpu", {"onnxruntime"}, None),
        ("device", "cpu", {"onnxruntime-gpu"}, None),
        ("device", "cpu", set(), "onnxruntime"),
        ("device", "cuda", set(), "onnxruntime-gpu"),
        ("device", "cuda", {"onnxruntime-gpu"}, None),
        ("tensorrt", "cuda", set(), "onnxruntime-gpu"),
        ("openvino", "cpu", set(), "onnxruntime-openvino"),
        ("openvino", "cpu", {"onnxruntime-openvino"}, None),
    ],
)
def test_a_missing_package_is_named_with_what_installs_it(
    monkeypatch: pytest.MonkeyPatch,
    provider: str,
    device: str,
    installed: set[str],
    missing: str | None,
) -> None:
    pretend(monkeypatch, installed)
    reason = OnnxRuntime(provider=provider).unavailable(device)  # type: ignore[arg-type]
    assert reason == (missing and f"{missing} is not installed: pip install {missing}")


def test_distributions_that_cannot_stand_side_by_side_are_to_be_exchanged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pretend(monkeypatch, {"onnxruntime"})
    reason = OnnxRuntime().unavailable("cuda")
    assert reason is not None
    assert reason.endswith("pip uninstall onnxruntime && pip install onnxruntime-gpu")


def pretend(monkeypatch: pytest.MonkeyPatch, installed: set[str]) -> None:
    for module in (onnx_files, onnx_session):
        monkeypatch.setattr(module, "is_installed", installed.__contains__)


def part(provider: str, n_nodes: int) -> SimpleNamespace:
    return SimpleNamespace(ep_name=provider, get_nodes=lambda: [None] * n_nodes)


def test_nodes_that_another_provider_took_are_counted() -> None:
    cuda, cpu = "CUDAExecutionProvider", "CPUExecutionProvider"
    session = SimpleNamespace(
        get_provider_graph_assignment_info=lambda: [part(cuda, 3), part(cpu, 2), part(cuda, 1)],
        get_providers=lambda: [cuda, cpu],
    )
    found = assignment(session)
    assert (found["nodes"], found["fallback_nodes"]) == ({cuda: 4, cpu: 2}, 2)


def test_a_version_that_does_not_tell_who_took_which_node_leaves_it_unsaid() -> None:
    assert assignment(SimpleNamespace()) == {}


@pytest.mark.parametrize(
    ("provider", "device", "threads", "together"),
    [
        ("device", "cpu", 1, True),
        ("device", "cpu", 2, False),
        ("openvino", "cpu", 2, False),
        ("device", "cuda", 2, True),
        ("cuda", "cuda", 2, True),
    ],
)
def test_a_pool_of_threads_shares_no_process_with_another_runtime(
    provider: str, device: str, threads: int, together: bool
) -> None:
    runtime = OnnxRuntime(provider=provider)  # type: ignore[arg-type]
    assert runtime.cohabits(device, threads) is together


@pytest.mark.parametrize("spinning", [True, False])
def test_whether_waiting_threads_keep_processors_busy_is_as_asked_and_a_fact(
    spinning: bool, tmp_path: Path
) -> None:
    made = lab.built(lab.chain_of("onnxruntime_cpu"), tmp_path)
    model = made.sources[Format.ONNX] / onnx_files.MODEL_FILE
    session = open_session(model, PROVIDERS["cpu"], 2, tmp_path, spinning=spinning)
    assert OnnxExecutable(session=session, place="cpu").facts()["spinning"] is spinning


def bfloat16_session(tmp_path: Path) -> onnxruntime.InferenceSession:
    """An identity in bfloat16 beside one in float16."""
    kinds = {"past": TensorProto.BFLOAT16, "mask": TensorProto.FLOAT16}
    graph = helper.make_graph(
        [helper.make_node("Identity", [name], [f"{name}_after"]) for name in kinds],
        "halves",
        [helper.make_tensor_value_info(name, kind, ["n", 2]) for name, kind in kinds.items()],
        [
            helper.make_tensor_value_info(f"{name}_after", kind, ["n", 2])
            for name, kind in kinds.items()
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, tmp_path / "model.onnx")
    return open_session(tmp_path / "model.onnx", PROVIDERS["cpu"], 1, tmp_path)


@pytest.mark.parametrize("rows", [1, 0])
def test_values_in_bfloat16_are_placed_and_widened_on_the_host(tmp_path: Path, rows: int) -> None:
    session = bfloat16_session(tmp_path)
    arrays = {name: np.full((rows, 2), 1.5, np.float32) for name in ("past", "mask")}
    executable = OnnxExecutable(session=session, place="cpu")
    program = executable.program()
    again = dict(zip(arrays, program.call(program.place(arrays)), strict=True))
    outputs = executable.outputs(executable.bind(arrays)())
    values = program.call(again)
    assert list(map(program.size_bytes, values)) == [rows * 2 * 2] * 2
    for found in (*outputs.values(), *map(program.fetch, values)):
        assert found.dtype == np.float32
        assert np.array_equal(found, arrays["past"])


def test_operators_of_a_graph_in_bfloat16_are_counted(tmp_path: Path) -> None:
    bfloat16_session(tmp_path)
    arrays = {name: np.ones((1, 2), np.float32) for name in ("past", "mask")}
    request = LoadRequest(
        module=lambda: pytest.fail("the graph is enough"),
        source=None,
        sources={Format.ONNX: tmp_path},
        example=Example(arrays=arrays, keywords={}, specs=()),
        device="cpu",
        threads=1,
        scratch_dir=tmp_path,
    )
    assert "executed_nodes" in OnnxRuntime().load(request).facts()


class ForgetfulBinding:
    """As of ONNX Runtime 1.22 to 1.29, whose binding holds no ``OrtValue`` that it is given."""

    def __init__(self) -> None:
        self.bound: dict[str, weakref.ref[onnxruntime.OrtValue]] = {}

    def bind_ortvalue_input(self, name: str, value: onnxruntime.OrtValue) -> None:
        self.bound[name] = weakref.ref(value)


def test_inputs_live_as_long_as_the_call_that_reads_them() -> None:
    binding = ForgetfulBinding()
    session = SimpleNamespace(
        io_binding=lambda: binding,
        get_inputs=lambda: [SimpleNamespace(name="x", type="tensor(float)")],
        get_outputs=lambda: [],
        run_with_iobinding=lambda bound: None,
    )
    call = OnnxExecutable(session=session, place="cpu").bind({"x": np.ones(3, np.float32)})
    gc.collect()
    value = binding.bound["x"]()
    assert value is not None
    assert np.array_equal(value.numpy(), np.ones(3))
    assert call() is binding


def test_the_fake_session_has_the_parameters_of_the_real_one() -> None:
    real = inspect.signature(onnxruntime.InferenceSession.__init__).parameters
    assert list(real) == list(inspect.signature(FakeSession.__init__).parameters)


@pytest.mark.parametrize(("tf32", "said"), [(False, "0"), (True, "1")])
@pytest.mark.parametrize("name", ["cuda", "tensorrt"])
def test_products_are_rounded_only_where_the_protocol_lets_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, said: str, *, tf32: bool
) -> None:
    """``use_tf32`` is 1 by default and "0" turns it off; what TensorRT leaves goes to CUDA too.

    https://onnxruntime.ai/docs/execution-providers/CUDA-ExecutionProvider.html#use_tf32. The
    TensorRT provider of onnxruntime-gpu 1.31.1 has no such option and obeys the environment.
    """
    monkeypatch.setattr(onnxruntime, "InferenceSession", FakeSession)
    monkeypatch.setattr(FakeSession, "made", [])
    with pytest.raises(MeasureError):
        open_session(Path("model.onnx"), PROVIDERS[name], 1, tmp_path, tf32=tf32)
    (providers,) = FakeSession.made
    options = dict(providers)  # type: ignore[call-overload]
    assert options["CUDAExecutionProvider"] == {"use_tf32": said}
    assert not any("tf32" in key for key in options.get("TensorrtExecutionProvider", {}))


def test_engines_with_and_without_tf32_are_kept_apart(tmp_path: Path) -> None:
    """ONNX Runtime knows its cached engines by the graph alone."""
    with_it, without = (PROVIDERS["tensorrt"].options(1, tmp_path, tf32=on) for on in (True, False))
    assert with_it["trt_engine_cache_path"] != without["trt_engine_cache_path"]


def test_cuda_libraries_are_loaded_before_a_session_on_a_gpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """``preload_dlls(cuda, cudnn, msvc, directory)``, all with defaults, of onnxruntime 1.31."""
    did: list[str] = []
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: did.append("preloaded"))
    monkeypatch.setattr(
        onnxruntime, "InferenceSession", lambda *_, **__: did.append("session") or FakeSession("m")
    )
    for name in ("cuda", "cpu"):
        with suppress(MeasureError):
            open_session(Path("model.onnx"), PROVIDERS[name], 1, tmp_path)
    assert did == ["preloaded", "session", "session"]


def test_a_onnx_runtime_that_cannot_preload_is_used_as_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delattr(onnxruntime, "preload_dlls")
    monkeypatch.setattr(onnxruntime, "InferenceSession", FakeSession)
    with pytest.raises(MeasureError, match="instead of"):
        open_session(Path("model.onnx"), PROVIDERS["cuda"], 1, tmp_path)
