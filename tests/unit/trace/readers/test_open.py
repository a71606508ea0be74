from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from benchorch.errors import TraceError
from benchorch.trace.analysis import analyze
from benchorch.trace.events import NOTHING, Category, Lane
from benchorch.trace.lookup import launches
from benchorch.trace.readers.open import read_events, read_json
from support.trace_files import COLUMNS, a_step, event, same, steps, write


def called(events, name: str) -> int:
    """The index of the first event of a name."""
    return int(np.flatnonzero(events.name == events.names.index(name))[0])


def lane_of(events, name: str) -> Lane:
    return events.lanes[events.lane[called(events, name)]]


def test_times_are_whole_nanoseconds(tmp_path: Path) -> None:
    late = 4_444_391_440_189.171
    events = read_events(write(tmp_path / "t.json", [event("cpu_op", "a", late, 0.001)]))
    assert events.start_ns.tolist() == [4_444_391_440_189_171]
    assert events.duration_ns.tolist() == [1]


def test_every_kind_of_record_goes_where_it_belongs(tmp_path: Path) -> None:
    events = read_events(write(tmp_path / "t.json", steps(1)))
    kinds = {
        events.names[n]: Category(c) for n, c in zip(events.name, events.category, strict=True)
    }
    assert kinds == {
        "ProfilerStep#0": Category.ANNOTATION,
        "aten::mm": Category.OPERATOR,
        "aten::empty": Category.OPERATOR,
        "cudaLaunchKernel": Category.RUNTIME,
        "gemm<0>(char*, int)": Category.KERNEL,
        "Stream Sync": Category.SYNC,
        "Stream Wait Event": Category.SYNC,
        "MmBackward0": Category.OPERATOR,
        "Buffer Flush": Category.OVERHEAD,
    }
    assert events.repairs == {}


def test_what_onnx_runtime_calls_kernels_is_on_a_device_and_may_be_a_copy(tmp_path: Path) -> None:
    on = {"pid": -1, "tid": -1, "args": {"stream": "13", "grid_x": "-1"}}
    names = ("sgemm", "MemcpyHostToDevice", "hipMemcpyAsync")
    rows = [event("Kernel", name, 10 * at, 5, **on) for at, name in enumerate(names)]
    events = read_events(write(tmp_path / "t.json", rows))
    kinds = [events.category[called(events, name)] for name in names]
    assert kinds == [Category.KERNEL, Category.COPY, Category.COPY]
    assert [(lane.device, lane.stream) for lane in events.lanes] == [(0, 13)]


def test_an_event_list_of_pytorch_names_no_categories(tmp_path: Path) -> None:
    names = ("my step", "aten::mm", "AddmmBackward0", "cudaLaunchKernel", "autograd::engine")
    bare = [{**event("", name, 0, 9), "pid": "CPU functions"} for name in names]
    path = tmp_path / "t.json"
    path.write_text(json.dumps([{k: v for k, v in row.items() if k != "cat"} for row in bare]))
    events = read_events(path)
    kinds = [events.category[called(events, name)] for name in names]
    operator = Category.OPERATOR
    assert kinds == [Category.ANNOTATION, operator, operator, Category.RUNTIME, operator]


def test_ranges_that_older_exporters_call_operators_are_ranges(tmp_path: Path) -> None:
    ranges = (
        "ProfilerStep#1",
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
        "Optimizer.step#SGD.step",
    )
    rows = [event("Operator", name, at, 1) for at, name in enumerate((*ranges, "aten::mm"))]
    events = read_events(write(tmp_path / "t.json", rows))
    kinds = [events.category[called(events, name)] for name in (*ranges, "aten::mm")]
    assert kinds == [Category.ANNOTATION] * 3 + [Category.OPERATOR]


def test_a_collective_of_a_profiler_is_on_a_thread_unless_it_names_a_stream(tmp_path: Path) -> None:
    rows = [
        event("collective_comm", "xccl::broadcast", 0, 5, args={"Communicator_id": 1}),
        event("collective_comm", "HcclAllReduce", 0, 5, pid=0, tid=3, args={"stream": 3}),
    ]
    events = read_events(write(tmp_path / "t.json", rows))
    kinds = [events.category[called(events, row["name"])] for row in rows]
    assert kinds == [Category.ANNOTATION, Category.KERNEL]
    assert not lane_of(events, "xccl::broadcast").on_device
    assert lane_of(events, "HcclAllReduce").stream == 3


def test_a_synchronisation_is_on_the_stream_it_names_not_on_its_row(tmp_path: Path) -> None:
    events = read_events(write(tmp_path / "t.json", steps(1)))
    assert (lane_of(events, "Stream Sync").device, lane_of(events, "Stream Sync").stream) == (0, 7)
    assert (
        events.lane[called(events, "Stream Sync")]
        == events.lane[called(events, "gemm<0>(char*, int)")]
    )
    assert events.awaited[called(events, "Stream Wait Event")] == 4
    assert events.stream[called(events, "Stream Wait Event")] == 20
    assert events.stream[called(events, "cudaLaunchKernel")] == NOTHING


def test_collectives_of_the_same_ranks_are_of_one_group(tmp_path: Path) -> None:
    ranks = ("[0, 1]", [0, 1], "[2, 3]", None)
    rows = [
        event("kernel", "ncclDevKernel", at, 1, args={"Process Group Ranks": given})
        for at, given in enumerate(ranks)
    ]
    group = read_events(write(tmp_path / "t.json", rows)).group
    assert group[0] == group[1] != group[2] != group[3] == NOTHING


def test_a_backward_operator_has_the_lane_of_its_forward_pass(tmp_path: Path) -> None:
    events = read_events(write(tmp_path / "t.json", steps(2)))
    assert events.lanes[events.forward_lane[called(events, "MmBackward0")]].thread == "10"
    assert events.forward_lane[called(events, "aten::mm")] == NOTHING


def test_a_lane_is_called_what_the_metadata_says(tmp_path: Path) -> None:
    events = read_events(write(tmp_path / "t.json", steps(1)))
    assert [lane.label for lane in events.lanes] == [
        "thread 0",
        "main",
        "thread 11",
        "device 0 stream 7",
        "device 0 stream 20",
    ]


@pytest.mark.parametrize("word", ["Kernel", "kernel"])
@pytest.mark.parametrize("args", [{"stream": "0x7", "device": "0"}, {"stream": 7.0}, {}])
def test_a_stream_may_be_spelled_in_any_way(tmp_path: Path, word: str, args: dict) -> None:
    record = event(word, "k", 1, 2, pid="0", tid="stream 7", args={**args, "external id": "5"})
    events = read_events(write(tmp_path / "t.json", [record]))
    assert (events.lanes[0].device, events.lanes[0].stream) == (0, 7)
    assert events.category[0] == Category.KERNEL
    assert events.external_id[0] == 5


def test_a_begin_and_its_end_are_one_event(tmp_path: Path) -> None:
    halves = [
        {"ph": "B", "name": "outer", "cat": "user_annotation", "pid": 1, "tid": -5, "ts": 1},
        {"ph": "B", "name": "inner", "cat": "user_annotation", "pid": 1, "tid": -5, "ts": 2},
        {"ph": "E", "pid": 1, "tid": -5, "ts": 3},
        {"ph": "E", "pid": 1, "tid": -5, "ts": 7.5},
        {"ph": "E", "pid": 1, "tid": -5, "ts": 8},
        {"ph": "B", "name": "open", "pid": 1, "tid": -5, "ts": 8},
    ]
    events = read_events(write(tmp_path / "t.json", [*halves, event("cpu_op", "x", 9, 1)]))
    spans = {
        events.names[n]: (int(s), int(d))
        for n, s, d in zip(events.name, events.start_ns, events.duration_ns, strict=True)
    }
    assert spans["outer"] == (1000, 6500)
    assert spans["inner"] == (2000, 1000)
    assert spans["open"] == (8000, 2000)
    assert events.repairs == {"begin without an end": 1, "end without a begin": 1}


@pytest.mark.parametrize(
    ("record", "repair"),
    [
        ({"dur": -3}, "negative duration"),
        ({"dur": None}, "missing duration"),
        ({"dur": "long"}, "missing duration"),
        ({"ts": None}, "missing time"),
        ({"ts": 1e18}, "missing time"),
        ({"name": ["a", "list"]}, "wrong type"),
        ({"tid": {"an": "object"}}, "wrong type"),
        ({"ph": "?"}, "record of an unknown kind"),
    ],
)
def test_a_repair_is_counted_by_its_name(tmp_path: Path, record: dict, repair: str) -> None:
    good = event("cpu_op", "good", 1, 2)
    events = read_events(write(tmp_path / "t.json", [good, {**good, "name": "bad", **record}]))
    assert events.repairs == {repair: 1}
    assert (events.duration_ns >= 0).all()


def test_device_work_that_is_recorded_twice_counts_once(tmp_path: Path) -> None:
    kernel = event("kernel", "k", 5, 6, pid=0, tid=7, args={"correlation": 1, "stream": 7})
    events = read_events(write(tmp_path / "t.json", [kernel, kernel]))
    assert len(events) == 1
    assert events.repairs == {"duplicate device event": 1}


def test_of_calls_with_one_correlation_the_outermost_keeps_it(tmp_path: Path) -> None:
    outer = event("cuda_runtime", "outer", 1, 9, args={"correlation": 3})
    inner = event("cuda_driver", "inner", 2, 1, args={"correlation": 3})
    events = read_events(write(tmp_path / "t.json", [inner, outer]))
    assert events.correlation[called(events, "outer")] == 3
    assert events.correlation[called(events, "inner")] == NOTHING
    assert events.repairs == {"duplicate correlation": 1}


def test_work_with_0_as_its_node_is_of_no_graph(tmp_path: Path) -> None:
    nodes = (0, 17)
    rows = [
        event("kernel", f"k{node}", 1, 2, args={"stream": 7, "graph node id": node})
        for node in nodes
    ]
    events = read_events(write(tmp_path / "t.json", rows))
    found = [events.graph_node[called(events, f"k{node}")] for node in nodes]
    assert found == [NOTHING, 17]


def test_processes_that_a_merger_labelled_are_read_apart(tmp_path: Path) -> None:
    merged = [
        {**record, "pid": f"[{label}] {record['pid']}", "ts": record["ts"] + shift}
        for label, shift in (("TP00", 0), ("TP01", 33))
        for record in a_step(1)
        if "ts" in record and record["ph"] == "X"
    ]
    events = read_events(write(tmp_path / "t.json", merged))
    alone = read_events(write(tmp_path / "s.json", a_step(1)))
    assert events.repairs == alone.repairs == {}
    kernels = np.flatnonzero(events.category == Category.KERNEL)
    launch = launches(events)[kernels]
    assert (events.start_ns[kernels] - events.start_ns[launch] == 40_000).all()
    programs = events.programs[events.lane]
    assert programs[kernels].tolist() == programs[launch].tolist() == [0, 1]
    backward = [at for at in range(len(events)) if events.forward_lane[at] != NOTHING]
    assert len(backward) == 2
    assert (programs[backward] == events.programs[events.forward_lane[backward]]).all()
    assert {lane.label for lane in events.lanes if lane.stream == 7} == {
        f"device 0 stream 7 of process [TP0{number}]" for number in (0, 1)
    }


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("block_bytes", [1, 150, 1000, 10**9])
def test_the_size_of_a_block_changes_nothing(
    tmp_path: Path, block_bytes: int, indent: int | None
) -> None:
    hostile = 'a"},{"ph": "X", "name": "b"}, \\ {"ts": 1}]'
    nested = {"l": [{"name": 1}, {"name": 2}, {"name": 3}]}
    records = [*steps(2), event("cpu_op", hostile, 1, 2, args=nested), *steps(1)]
    path = write(tmp_path / "t.json", records, indent=indent, deviceProperties=[{"id": 0}])
    whole, blocks = read_json(path), read_json(path, block_bytes)
    assert same(whole, blocks)
    assert whole.repairs == {"duplicate correlation": 1, "duplicate device event": 1}
    every = range(len(whole))
    assert blocks.details(every) == whole.details(every)


def test_packed_or_plain_is_the_same(tmp_path: Path) -> None:
    plain = read_events(write(tmp_path / "t.json", steps()))
    packed = read_events(write(tmp_path / "t.json.gz", steps()))
    misnamed = tmp_path / "plain.txt"
    misnamed.write_bytes((tmp_path / "t.json.gz").read_bytes())
    assert same(plain, packed)
    assert same(plain, read_events(misnamed))
    assert plain.details([3, 1]) == packed.details([3, 1])


def test_the_order_of_the_file_changes_neither_names_nor_lanes(tmp_path: Path) -> None:
    records = steps()
    events = read_events(write(tmp_path / "t.json", records))
    random.Random(3).shuffle(records)
    shuffled = read_events(write(tmp_path / "s.json", records))
    assert (events.names, events.lanes) == (shuffled.names, shuffled.lanes)
    tables = [
        sorted(zip(*(getattr(each, name).tolist() for name in COLUMNS), strict=True))
        for each in (events, shuffled)
    ]
    assert tables[0] == tables[1]


def test_details_are_read_again_from_the_file(tmp_path: Path) -> None:
    events = read_json(write(tmp_path / "t.json", steps()), block_bytes=400)
    index = called(events, "aten::empty")
    assert events.details([index, 0]) == {index: {"Input Dims": [[2, 3], []]}, 0: {}}


def test_details_of_a_file_that_changed_are_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", steps())
    events = read_events(path)
    path.write_text("{}")
    with pytest.raises(TraceError, match="has changed"):
        events.details([0])


def test_facts_after_the_records_are_no_records(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    devices = [{"id": number, "name": "a GPU"} for number in range(200)]
    path.write_text(json.dumps({"traceEvents": [event("cpu_op", "x", 1, 2)], "devices": devices}))
    for block_bytes in (50, 10**6):
        events = read_json(path, block_bytes)
        assert len(events) == 1
        assert events.repairs == {}


def test_a_damaged_record_costs_itself_only(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", [event("cpu_op", f"op{k}", k, 1) for k in range(100)])
    text = path.read_bytes().replace(b'"name": "op50"', b'"name": op50"')
    for block_bytes in (64, 10**6):
        path.write_bytes(text)
        events = read_json(path, block_bytes)
        assert len(events) == 99
        assert events.repairs == {"undecodable record": 1}


@pytest.mark.parametrize("space", [b"\x0c", b"\x1e", b"\x85"])
def test_what_only_python_takes_for_white_space_is_damage(tmp_path: Path, space: bytes) -> None:
    path = write(tmp_path / "t.json", [event("cpu_op", f"op{k}", k, 1) for k in range(20)])
    broken = path.read_bytes().replace(b'}, {"ph": "X"', b"}," + space + b'{"ph": "X"', 5)
    path.write_bytes(broken)
    for block_bytes in (64, 10**6):
        events = read_json(path, block_bytes)
        assert 14 <= len(events) <= 20
        assert "op19" in events.names


@pytest.mark.parametrize("data", [r"C:\data\users\x", r"^\d+\.pt$"])
def test_facts_whose_backslashes_are_not_escaped_are_read(data: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    records = json.dumps(steps(1))
    path.write_text(f'{{"data": "{data}", "traceEvents": {records}, "traceName": "{data}"}}')
    events = read_events(path)
    assert len(events) > 0
    assert events.repairs == {}


def test_a_truncated_file_keeps_what_is_whole(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", [event("cpu_op", f"op{k}", k, 1) for k in range(100)])
    text = path.read_bytes()
    path.write_bytes(text[: text.index(b"op50")])
    events = read_events(path)
    assert len(events) == 50
    assert events.repairs == {"truncated file": 1, "undecodable record": 1}
    assert "The file ends in the middle" in " ".join(analyze(path).warnings)


def test_what_only_a_lenient_reader_understands_is_understood(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", [event("cpu_op", "NAME", 1, 2), event("cpu_op", "b", 3, 4)])
    text = path.read_bytes()
    path.write_bytes(text.replace(b"NAME", b"C:\\Users\x01\xff \\\\U \\n"))
    events = read_events(path)
    assert events.names == ("C:\\Users\x01\ufffd \\U \n", "b")
    path.write_bytes(text.replace(b'"dur": 2', b'"dur": NaN'))
    assert read_events(path).repairs == {"missing duration": 1}


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "nothing in it"),
        (b"  \n ", "nothing in it"),
        (b"hello", "text that begins with 'hello'"),
        (b"\x00\x01\x02", "binary data"),
        (b"PK\x03\x04rest", "a zip archive"),
        (b'{"a": 1, "b": []}', "keys: 'a', 'b'"),
        (b'{"traceEvents": 5}', "keys: 'traceEvents'"),
        (b'{"traceEvents": []}', "a list of 0 records"),
        (b"[1, 2]", "none is an event"),
        (b'{"traceEvents": [', "none is an event"),
    ],
)
def test_the_error_of_a_file_without_a_trace_names_what_it_holds(
    tmp_path: Path, content: bytes, found: str
) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=r"(?s)holds no trace.*Accepted") as raised:
        read_events(path)
    assert found in str(raised.value)


def test_what_is_no_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no file"):
        read_events(tmp_path / "missing.json")
    with pytest.raises(TraceError, match="not a file"):
        read_events(tmp_path)


def test_a_report_of_nsight_systems_gets_the_command_that_exports_it(tmp_path: Path) -> None:
    path = tmp_path / "t.nsys-rep"
    path.write_bytes(b"\x00\x01")
    with pytest.raises(TraceError, match="nsys export --type sqlite"):
        read_events(path)
