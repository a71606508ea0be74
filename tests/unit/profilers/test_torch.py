"""What torch's profiler leaves of a few calls, and which ranges are in it."""

from __future__ import annotations

import csv
import gzip
import json
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from benchorch.errors import MeasureError
from benchorch.frameworks.torch_call import TorchExecutable
from benchorch.hardware.cpu import CpuClock
from benchorch.interfaces.profiler import CapturedProfile, CaptureRequest, Loaded, Profiler
from benchorch.profilers import kineto_tables, ranges
from benchorch.profilers.auto import Auto
from benchorch.profilers.onnxruntime import OnnxRuntimeProfiler
from benchorch.profilers.torch import TorchProfiler
from support import conversions as lab

SHORT = {"wait": 2, "warmup": 1, "active": 3}


def request_of(chain: lab.TrialSetup, made: lab.Built, directory: Path) -> CaptureRequest:
    def load(profile_dir: Path | None) -> Loaded:
        executable = lab.loaded(chain, made, profile_dir=profile_dir)
        calls = [executable.bind(lab.inputs_of(chain, index)) for index in range(2)]
        calls[0]()
        return Loaded(executable=executable, calls=calls)

    return CaptureRequest(load=load, clock=CpuClock(), device="cpu", directory=directory)


@cache
def built(name: str, model: str, place: Path) -> tuple[lab.TrialSetup, lab.Built]:
    """What several tests profile, each after a load of its own."""
    chain = lab.chain_of(name, model)
    return chain, lab.built(chain, place / f"profiled {name} {model}")


def captured(name: str, profiler: Profiler, tmp_path: Path, model: str = "Mlp") -> CapturedProfile:
    chain, made = built(name, model, tmp_path.parent)
    directory = tmp_path / "profile"
    directory.mkdir()
    return profiler.capture(request_of(chain, made, directory))


def spans(trace: Path) -> list[dict[str, Any]]:
    """Every complete event."""
    told = json.loads(gzip.decompress(trace.read_bytes()))
    events = told["traceEvents"] if isinstance(told, dict) else told
    return [event for event in events if event.get("ph") == "X"]


def names(trace: Path, category: str) -> Counter[str]:
    return Counter(event["name"] for event in spans(trace) if event["cat"] == category)


def test_each_active_call_is_marked_and_each_module_is_known_by_its_own_name(
    tmp_path: Path,
) -> None:
    found = captured("eager", Auto(**SHORT), tmp_path)
    marked = names(found.trace, "user_annotation")
    assert marked["benchorch:call"] == 3
    assert marked["mod:layers.0"] == marked["mod:layers.2"] == 3
    assert names(found.trace, "cpu_op")["aten::linear"] == 3
    assert not [name for name in names(found.trace, "cpu_op") if name.startswith("mod:")]
    assert (len(found.unprofiled_ns), len(found.profiled_ns)) == (2, 3)
    assert found.profiler == "torch"


def test_operators_have_their_shapes(tmp_path: Path) -> None:
    found = captured("eager", TorchProfiler(**SHORT), tmp_path)
    linear = next(e for e in spans(found.trace) if e["name"] == "aten::linear")
    assert linear["args"]["Input Dims"][:2] == [[2, 16], [32, 16]]


def test_operators_lie_inside_the_range_of_their_module(tmp_path: Path) -> None:
    found = captured("eager", Auto(**SHORT), tmp_path)
    events = spans(found.trace)
    around = [e for e in events if e["name"] == "mod:layers.0"]
    for linear in (e for e in events if e["name"] == "aten::linear"):
        assert any(
            e["ts"] <= linear["ts"] and linear["ts"] + linear["dur"] <= e["ts"] + e["dur"]
            for e in around
        )


def test_the_tables_are_ordered_by_time_and_by_memory_and_leave_our_ranges_out(
    tmp_path: Path,
) -> None:
    directory = captured("eager", Auto(**SHORT), tmp_path).trace.parent
    by_time = list(csv.DictReader((directory / "operators_by_self_cpu.csv").open()))
    taken = [float(row["self_cpu_us"]) for row in by_time]
    assert taken == sorted(taken, reverse=True)
    assert not [row for row in by_time if row["operator"].startswith(("mod:", "benchorch:"))]
    by_memory = list(csv.DictReader((directory / "operators_by_self_cpu_memory.csv").open()))
    assert by_memory[0]["operator"] in {"aten::addmm", "aten::native_layer_norm", "aten::empty"}
    assert "aten::" in (directory / "operators_by_self_cpu.txt").read_text()
    assert not (directory / "operators_by_self_device.txt").exists()  # there is no device


def test_python_stacks_are_a_trace_of_their_own(tmp_path: Path) -> None:
    found = captured("eager", TorchProfiler(**SHORT, stacks=True), tmp_path)
    assert not names(found.trace, "python_function")
    assert names(found.trace.with_name("trace_with_stacks.json.gz"), "python_function")


def test_the_module_is_as_it_was_afterwards(tmp_path: Path) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(2, 2))
    with ranges.modules(module):
        assert module[0]._forward_hooks
    assert not module[0]._forward_hooks
    assert not module[0]._forward_pre_hooks


def recorded(work: Callable[[], object], tmp_path: Path) -> Counter[str]:
    config = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    with (
        ranges.waits(),
        torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], experimental_config=config
        ) as profiler,
    ):
        work()
    path = tmp_path / "trace.json"
    profiler.export_chrome_trace(str(path))
    told = json.loads(ranges.as_annotations(path.read_bytes()))["traceEvents"]
    return Counter(e["name"] for e in told if e.get("cat") == "user_annotation")


def test_waiting_for_a_thread_is_recorded(tmp_path: Path) -> None:
    def work() -> None:
        thread = threading.Thread(target=torch.ones, args=(4,))
        thread.start()
        thread.join()

    assert recorded(work, tmp_path)["wait:join"] >= 1  # a thread of another test may join one


def test_waiting_for_a_result_is_recorded(tmp_path: Path) -> None:
    def work() -> None:
        with ThreadPoolExecutor(max_workers=1) as pool:
            pool.submit(torch.ones, 4).result()

    assert recorded(work, tmp_path)["wait:future"] == 1


def test_nothing_stays_replaced() -> None:
    before = (threading.Thread.join, torch.cuda.synchronize, torch.cuda.Event.synchronize)
    with ranges.waits():
        assert threading.Thread.join is not before[0]
    assert (threading.Thread.join, torch.cuda.synchronize, torch.cuda.Event.synchronize) == before


def test_a_generated_file_s_kernels_are_seen_without_compiling_it_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kernel(value: int) -> int:
        return value + 1

    generated = SimpleNamespace(cpp_fused_add_0=kernel, other=kernel)
    cache = SimpleNamespace(PyCodeCache=SimpleNamespace(modules=[generated]))
    monkeypatch.setitem(ranges.sys.modules, "torch._inductor.codecache", cache)
    with ranges.compiled_kernels():
        assert generated.cpp_fused_add_0 is not kernel
        assert generated.other is kernel
        assert generated.cpp_fused_add_0(1) == 2
    assert generated.cpp_fused_add_0 is kernel


def test_only_our_ranges_become_annotations() -> None:
    line = b'{"ph": "X", "cat": "cpu_op", "name": "%s", "pid": 1}'
    for name in (b"mod:encoder", b"wait:join", b"benchorch:call"):
        assert b'"cat": "user_annotation"' in ranges.as_annotations(line % name)
    for name in (b"aten::add", b"model:x", b"cpp_fused_0"):
        assert ranges.as_annotations(line % name) == line % name


def test_what_an_operator_does_not_have_is_0() -> None:
    event = SimpleNamespace(
        key="aten::mm", count=2, self_cpu_time_total=1.5, self_device_time_total=7.0
    )
    (row,) = kineto_tables.rows_of([event])
    assert (row["self_device_us"], row["self_cpu_us"], row["device_us"]) == (7.0, 1.5, 0.0)


def test_a_table_with_a_device_is_written_where_there_is_one(tmp_path: Path) -> None:
    event = SimpleNamespace(key="aten::mm", count=2, self_device_time_total=7.0)
    written = kineto_tables.write_rows(kineto_tables.rows_of([event]), tmp_path)
    assert [path.name for path in written] == [
        "operators_by_self_device.txt",
        "operators_by_self_device.csv",
    ]


def test_shares_of_device_time_are_of_the_kernels_not_of_their_operators_too(
    tmp_path: Path,
) -> None:
    def event(key: str, device: str, taken: float, *, marked: bool = False) -> SimpleNamespace:
        return SimpleNamespace(
            key=key,
            self_device_time_total=taken,
            device_type=getattr(torch.autograd.DeviceType, device),
            is_user_annotation=marked,
        )

    events = [
        event("aten::mm", "CPU", 90.0),
        event("aten::relu", "CPU", 10.0),
        event("sgemm", "CUDA", 90.0),
        event("relu_kernel", "CUDA", 10.0),
        event("a user's range", "CUDA", 100.0, marked=True),
    ]
    kineto_tables.write_rows(kineto_tables.rows_of(events), tmp_path)
    _, *lines = (tmp_path / "operators_by_self_device.txt").read_text().splitlines()
    shares = {line[:14].strip(): line.split("%")[0].split()[-1] for line in lines}
    assert shares["aten::mm"] == shares["sgemm"] == "90.0"
    assert shares["aten::relu"] == "10.0"
    kinds = csv.DictReader((tmp_path / "operators_by_self_device.csv").open())
    assert {row["operator"]: row["kind"] for row in kinds} == {
        "aten::mm": "operator",
        "aten::relu": "operator",
        "sgemm": "kernel",
        "relu_kernel": "kernel",
        "a user's range": "range",
    }


def test_onnx_runtime_profiles_itself_and_keeps_its_graph(tmp_path: Path) -> None:
    import onnx

    found = captured("onnxruntime", Auto(**SHORT), tmp_path)
    assert found.profiler == "onnxruntime"
    assert names(found.trace, "Session")["model_run"] == 3  # warming up is cut away
    assert set(names(found.trace, "Node"))
    directory = found.trace.parent
    graph = onnx.load(directory / "optimized.onnx", load_external_data=False).graph
    kernels = {f"{node.name}_kernel_time" for node in graph.node}
    assert set(names(found.trace, "Node")) <= kernels
    assert {path.name for path in directory.iterdir()} == {"trace.json.gz", "optimized.onnx"}


def test_a_runtime_outside_torch_is_refused_by_torch_s_profiler(tmp_path: Path) -> None:
    with pytest.raises(MeasureError, match="does not run through torch") as caught:
        captured("onnxruntime", TorchProfiler(**SHORT), tmp_path)
    assert caught.value.remedy == "profiler=auto"


def test_a_call_in_which_torch_does_nothing_is_no_profile(tmp_path: Path) -> None:
    executable = TorchExecutable(
        place=lambda arrays: {},
        prepare=lambda tensors: lambda: None,
        provider="another engine",
        dtypes=(),
        device="cpu",
    )
    loaded = Loaded(executable=executable, calls=[executable.bind({})])
    request = CaptureRequest(
        load=lambda _: loaded, clock=CpuClock(), device="cpu", directory=tmp_path
    )
    with pytest.raises(MeasureError, match="another engine does not run through torch"):
        Auto(**SHORT).capture(request)


def test_compiled_code_that_names_no_kernel_is_its_library_s(tmp_path: Path) -> None:
    executable = TorchExecutable(
        place=lambda arrays: {},
        prepare=lambda tensors: lambda: torch.ones(3),
        provider="aot inductor",
        dtypes=(),
        device="cpu",
    )
    loaded = Loaded(executable=executable, calls=[executable.bind({})])
    request = CaptureRequest(
        load=lambda _: loaded, clock=CpuClock(), device="cpu", directory=tmp_path
    )
    found = Auto(**SHORT).capture(request)
    assert names(found.trace, "cpu_op")["AOTInductor's library"] == SHORT["active"]
    assert ["AOTInductor's library" in note for note in found.notes] == [True]


def test_a_runtime_that_keeps_no_profile_is_refused_by_one_that_reads_it(tmp_path: Path) -> None:
    with pytest.raises(MeasureError, match="torch eager keeps no profile of its own"):
        captured("eager", OnnxRuntimeProfiler(**SHORT), tmp_path)


@pytest.mark.slow
def test_a_compiled_model_tells_its_kernels_and_where_they_come_from(tmp_path: Path) -> None:
    found = captured("inductor", Auto(**SHORT), tmp_path)
    kernels = [n for n in names(found.trace, "cpu_op") if n.startswith("cpp_fused")]
    told = json.loads(
        (found.trace.parent / "inductor_provenance_tracking_node_mappings_0.json").read_text()
    )
    assert kernels
    known = {name.rpartition(":")[0] for name in told["cppCodeToPost"]}
    assert all(any(name.endswith(kernel) for name in known) for kernel in kernels)


def test_what_runs_in_another_library_is_not_seen_by_torch() -> None:
    from benchorch.frameworks.opaque_module import OpaqueModule
    from benchorch.frameworks.torch_call import TorchExecutable
    from benchorch.profilers import kineto

    class Elsewhere(OpaqueModule):
        def answer(self, **tensors: torch.Tensor) -> object:
            return tensors

    def executable(module: torch.nn.Module) -> TorchExecutable:
        return TorchExecutable(
            place=lambda arrays: {},
            prepare=lambda placed: lambda: None,
            provider="lightgbm predict",
            dtypes=(),
            device="cpu",
            module=module,
        )

    assert kineto.sees(executable(torch.nn.Linear(2, 2)))
    assert not kineto.sees(executable(Elsewhere()))
