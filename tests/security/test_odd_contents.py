"""Files with what their readers did not expect: each ends with a sentence, within some CPU seconds.

Found by reading the code: numbers of millions of digits, digits that are none, names that repeat,
tables that never end, headers that nest.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sqlite3
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from support.command_lines import Commands, Done
from support.nsight_tables import tables
from support.slices import one_in
from support.synthetic_runs import result, trial, write_run
from support.trace_files import event, steps, write, write_tables

MANY = 300_000
HEAD = "defaults: [config, override model: mlp, override recorder: none, _self_]\n"
FACTORY = HEAD.replace("mlp", "factory") + "model:\n  factory: torch.nn:Linear\n"
FACTORY += "  arguments: {in_features: 4, out_features: 4}\n"
HUGE = "0x" + "f" * 5000


def ended(commands: Commands, folder: Path, line: str, cpu_s: int = 20) -> Done:
    """The command's end: a sentence, no traceback, nothing beside the folder."""
    before = set(folder.parent.iterdir())
    words = [word.replace("@D", str(folder)) for word in line.split()]
    done = commands.run(folder, words, cpu_s)
    assert "Traceback (most recent call last)" not in done.output, done.output[-3000:]
    assert done.code in (0, 1, 2, 3, 4), (done.code, done.output[-2000:])
    assert done.output.strip()
    assert len(done.output) < 60_000
    assert set(folder.parent.iterdir()) == before
    return done


@pytest.fixture
def run(tmp_path: Path) -> Path:
    eager = trial()
    fast = trial("fast", baseline=eager)
    pairs = (eager, result(eager)), (fast, result(fast, 5e5, baseline_ns=1e6))
    return write_run(tmp_path / "a" / "run", *pairs)


RECIPES = {
    "a number to the base of sixty": "name: 1" + ":1" * MANY,
    "a float to the base of sixty": "name: 1" + ":1" * MANY + ".5",
    "a number of five thousand digits": f"workload: {{batch_size: {HUGE}}}",
    "such a number for a name": f"name: {HUGE}",
    "such a number for a count": f"stopping: {{processes: {HUGE}}}",
    "such a number in the matrix": f"matrix: {{workload.batch_size: [{HUGE}]}}",
    "such a number as a key": f"workload: {{{HUGE}: 1}}",
    "such a decimal number": "workload: {batch_size: " + "9" * 5000 + "}",
    "an index that is a superscript": "model: {widths: [8, 4]}\nname: ${model.widths.²}",
    "an index of thousands of digits": "name: ${model.widths." + "9" * 5000 + "}",
    "brackets in an override": 'each: ["stopping.calls=' + "[" * 20_000 + '"]',
    "calls in an override": 'each: ["stopping.calls=' + "choice(" * 5_000 + '"]',
    "a long override": 'each: ["name=' + "a b " * 50_000 + '"]',
    "brackets in the matrix": 'matrix: {model: ["' + "[" * 20_000 + '"]}',
    "a recipe that begins with itself": "defaults: [theirs]",
    "a recipe that begins with itself in a group": "defaults: [{model: ../theirs}]",
    "a default that is a number": "defaults: [config, 5]",
    "a default that is a list": "defaults: [config, [mlp]]",
    "a default of lists": "defaults: [config, {model: [[mlp]]}]",
    "a default that is a mapping": "defaults: [config, {model: {mlp: eager}}]",
    "a default elsewhere": "defaults: [config, {model: ../../../../etc/passwd}]",
    "no defaults": "defaults: {}",
    "defaults in a word": "defaults: config",
    "a reference of spaces": "name: '${" + " " * MANY + "'",
    "a name without end": "name: " + "a" * MANY,
    "two documents": "name: a\n---\nname: b",
    "a version of YAML": "%YAML 9.9\n---\nname: a",
    "a tag of its own": "%TAG ! tag:yaml.org,2002:\n---\nname: !int a",
    "a key that is a list": "? [1, 2]\n: 3",
    "a key that is a mapping": "? {a: 1}\n: 3",
    "a merge of a number": "<<: 5",
    "a merge of itself": "a: &a {<<: *a}",
    "a package without end": "# @package " + "a." * 50_000 + "a",
    "a package of interpolations": "# @package ${hydra:runtime.cwd}\nname: a",
    **{
        f"{tag} {value}": f"name: !!{tag} {value}\nworkload: {{seed: !!{tag} {value}}}"
        for tag, value in (
            *(("bool", "maybe"), ("int", '""'), ("int", "x"), ("float", "x"), ("null", "x")),
            *(("timestamp", "x"), ("timestamp", "2001-99-99"), ("str", "[1]"), ("map", "[1]")),
            *(("set", "{a}"), ("omap", "[a: 1]"), ("omap", "x"), ("pairs", "[a: 1]")),
            *(("seq", "{a: 1}"), ("binary", "é"), ("value", "="), ("merge", "x"), ("yaml", "x")),
        )
    },
}


@pytest.mark.parametrize("case", one_in(11, RECIPES))
def test_a_recipe_of_odd_yaml_is_planned_or_refused(
    case: str, commands: Commands, folder: Path
) -> None:
    text = RECIPES[case]
    own_head = text.startswith(("%", "defaults", "#"))
    (folder / "theirs.yaml").write_text(text + "\n" if own_head else f"{HEAD}{text}\n")
    ended(commands, folder, "plan theirs.yaml conversion=eager")


@pytest.mark.parametrize(
    "content",
    one_in(
        3,
        [
            "name: a\n".encode("utf-16"),
            b"\xef\xbb\xbfname: a\n",
            b"name: a\0\n",
            b"\xff\xfe",
            b"\t",
        ],
    ),
)
def test_a_recipe_of_odd_bytes_is_planned_or_refused(
    content: bytes, commands: Commands, folder: Path
) -> None:
    (folder / "theirs.yaml").write_bytes(content)
    ended(commands, folder, "plan theirs.yaml model=mlp conversion=eager")


def test_recipes_that_begin_with_each_other_are_refused(commands: Commands, folder: Path) -> None:
    (folder / "theirs.yaml").write_text("defaults: [other, _self_]\n")
    (folder / "other.yaml").write_text("defaults: [theirs, _self_]\n")
    assert ended(commands, folder, "plan theirs.yaml model=mlp").code == 2


def npz(header: bytes, version: bytes = b"\x02\0") -> bytes:
    """A file of one array whose header is this."""
    buffer = io.BytesIO()
    content = b"\x93NUMPY" + version + struct.pack("<I", len(header)) + header
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("input.npy", content)
    return buffer.getvalue()


ARRAYS = {
    "a header that nests": b"-" * 10**5 + b"1",
    "a header of brackets": b"[" * 10**5,
    "a header that expands": b" " * 2**28,
    "a header of sets": b"{'descr': {1}, 'fortran_order': False, 'shape': (1,)}",
    "a size of thousands of digits": b"{'descr': '<f4', 'fortran_order': False, 'shape': (0x"
    + b"f" * 5000
    + b",)}",
}


@pytest.mark.parametrize("case", one_in(2, ARRAYS))
def test_an_odd_file_of_arrays_is_refused(case: str, commands: Commands, folder: Path) -> None:
    (folder / "rows.npz").write_bytes(npz(ARRAYS[case]))
    (folder / "theirs.yaml").write_text(f"{FACTORY}  inputs: {{file: rows.npz}}\n")
    done = ended(commands, folder, "plan theirs.yaml conversion=eager", 10)
    assert done.code == (0 if "digits" in case else 2)  # the size is a size, and none that is held
    assert done.code == 0 or "model.inputs" in done.output


def test_a_pipe_of_arrays_is_not_waited_for(commands: Commands, folder: Path) -> None:
    os.mkfifo(folder / "rows.npz")
    (folder / "theirs.yaml").write_text(f"{FACTORY}  inputs: {{file: rows.npz}}\n")
    assert ended(commands, folder, "plan theirs.yaml conversion=eager", 10).code == 2


def test_a_checkpoint_that_expands_is_refused(commands: Commands, folder: Path) -> None:
    with zipfile.ZipFile(folder / "weights.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("weights/data.pkl", b"\x80\x02}.")
        archive.writestr("weights/data/0", bytes(2**28))
    inputs = "inputs: {input: {shape: [1, 4], generator: normal}}"
    (folder / "theirs.yaml").write_text(f"{FACTORY}  checkpoint: weights.pt\n  {inputs}\n")
    done = ended(commands, folder, "plan theirs.yaml conversion=eager", 10)
    assert "expand" in done.output


@pytest.mark.parametrize("text", one_in(2, ["store: {quota_gib: 0}", "store: {quota_gib: 0.5}"]))
def test_a_strangers_recipe_does_not_have_builds_deleted(
    text: str, commands: Commands, folder: Path
) -> None:
    (folder / "theirs.yaml").write_text(f"{HEAD}{text}\n")
    done = ended(commands, folder, "plan theirs.yaml conversion=eager")
    assert done.code == 2
    assert "store.quota_gib" in done.output
    typed = ended(commands, folder, f"plan theirs.yaml conversion=eager {text_as_word(text)}")
    assert typed.code == 0, typed.output


def text_as_word(text: str) -> str:
    return text.replace(": {", ".").replace(": ", "=").rstrip("}")


def test_a_strangers_recipe_chooses_no_store_that_keeps_nothing(
    commands: Commands, folder: Path
) -> None:
    (folder / "theirs.yaml").write_text(HEAD.replace("_self_", "override store: lean, _self_"))
    assert ended(commands, folder, "plan theirs.yaml conversion=eager").code == 2
    (folder / "theirs.yaml").write_text(HEAD)
    done = ended(commands, folder, "plan theirs.yaml conversion=eager store=lean")
    assert done.code == 0, done.output


def onnx_file(path: Path, change: Callable[[Any], None]) -> None:
    helper = pytest.importorskip("onnx.helper")
    x, y = (helper.make_tensor_value_info(name, 1, [2, 3]) for name in "xy")
    node = helper.make_node("Relu", ["x"], ["y"], name="relu")
    model = helper.make_model(helper.make_graph([node], "g", [x], [y]))
    change(model.graph)
    path.write_bytes(model.SerializeToString())


def with_scopes(text: str) -> Callable[[Any], None]:
    def change(graph: Any) -> None:
        entry = graph.node[0].metadata_props.add()
        entry.key, entry.value = "pkg.torch.onnx.name_scopes", text

    return change


def with_dtype(graph: Any) -> None:
    graph.input[0].type.tensor_type.elem_type = 999


def with_one_name(graph: Any) -> None:
    for _ in range(40_000):
        graph.node.add().CopyFrom(graph.node[0])


GRAPHS: dict[str, Callable[[Any], None]] = {
    "scopes that are a number": with_scopes("5"),
    "scopes that are a set": with_scopes("{1, 2}"),
    "scopes that are a mapping": with_scopes("{}"),
    "scopes that nest": with_scopes("-" * 10**5 + "1"),
    "scopes of brackets": with_scopes("[" * 10**5),
    "a dtype that there is not": with_dtype,
    "one name for all nodes": with_one_name,
}


@pytest.mark.parametrize("case", one_in(6, GRAPHS))
def test_an_odd_graph_beside_a_trace_is_read_or_refused(
    case: str, commands: Commands, folder: Path
) -> None:
    write(folder / "trace.json", steps())
    onnx_file(folder / "model.onnx", GRAPHS[case])
    ended(commands, folder, "analyze trace.json --model model.onnx --output out", 30)


MAPPINGS = "inductor_provenance_tracking_node_mappings"
PROVENANCE: dict[str, tuple[str, Any]] = {
    "a file of a superscript": (f"{MAPPINGS}_².json", {}),
    "a file of many digits": (f"{MAPPINGS}_{'9' * 200}.json", {}),
    "an operator without a name": (f"{MAPPINGS}_1.json", {"cppCodeToPost": {"torch.ops:1": ["a"]}}),
    "a call of many digits": (
        f"{MAPPINGS}_1.json",
        {"cppCodeToPost": {"cpp_fused_add_0:" + "9" * 5000: ["a"]}},
    ),
}


@pytest.mark.parametrize("case", one_in(3, PROVENANCE))
def test_odd_provenance_beside_a_trace_is_read_or_refused(
    case: str, commands: Commands, folder: Path
) -> None:
    name, content = PROVENANCE[case]
    write(folder / "trace.json", steps())
    (folder / name).write_text(json.dumps(content))
    ended(commands, folder, "analyze trace.json --output out", 30)


def nested(count: int) -> list[Any]:
    return [event("cpu_op", "aten::mm", 1 + 0.001 * n, 2 * count - 0.002 * n) for n in range(count)]


TRACES: dict[str, Callable[[], list[Any]]] = {
    "names of operators that are cut": lambda: [
        event("kernel", name, 10 * at, 5, pid=0, tid=7, args={"device": 0, "stream": 7})
        for at, name in enumerate(["torch.ops.x", "torch.ops.", "graph_1_torch.ops.a"])
    ],
    "calls within calls": lambda: [*steps(), *nested(20_000)],
    "calls of one moment": lambda: [event("cpu_op", "aten::mm", 5, 5) for _ in range(20_000)],
    "calls of no time": lambda: [event("cpu_op", "aten::mm", 5, 0) for _ in range(20_000)],
    "a thread each": lambda: [event("cpu_op", "aten::mm", n, 5, tid=n) for n in range(5_000)],
    "a device each": lambda: [
        event("kernel", "gemm", n, 5, pid=n, tid=n, args={"device": n, "stream": n})
        for n in range(3_000)
    ],
    "parents in a circle": lambda: [
        event("python_function", f"f{n}", n, 5, args={"Python id": n, "Python parent id": 1 - n})
        for n in (0, 1)
    ],
    "one correlation": lambda: [
        each
        for n in range(5_000)
        for each in (
            event("cuda_runtime", "cudaLaunchKernel", n, 1, args={"correlation": 7}),
            event("kernel", "gemm", n + 1, 5, pid=0, tid=7, args={"correlation": 7, "stream": 7}),
        )
    ],
    "waits for each other": lambda: [
        event(
            "cuda_sync",
            "Stream Wait Event",
            n,
            1,
            pid=0,
            tid=n,
            args={
                "correlation": n,
                "device": 0,
                "stream": n,
                "wait_on_cuda_event_record_corr_id": 1 - n,
            },
        )
        for n in (0, 1)
    ],
    **{
        f"a name of {word!r}": lambda word=word: [  # type: ignore[misc]
            *steps(),
            event("python_function", word * 25_000, 5, 50, args={"Python id": 1}),
            event("cuda_runtime", word * 25_000, 60, 5, args={"correlation": 7}),
            event("cpu_op", word * 25_000 + "\n\n", 70, 5),
        ]
        for word in ("wait of ", "asyncio/", "Memcpy", "aten::is_", "asyncio/tasks.py")
    },
    "times without bounds": lambda: [
        event("cpu_op", "aten::mm", ts, dur)
        for ts, dur in ((1e308, 1e308), (-1e308, 5e-324), (0, 1e-9), (2**63, 2**63), (1, 2))
    ],
    "steps of huge numbers": lambda: [
        event("user_annotation", f"ProfilerStep#{'9' * 5000}{n}", 10 * n, 9) for n in range(4)
    ],
    "shapes that nest": lambda: [
        *steps(),
        event(
            "cpu_op", "aten::mm", 5000, 5, args={"Input Dims": json.loads("[" * 500 + "]" * 500)}
        ),
    ],
    "shapes of huge numbers": lambda: [
        event(
            "cpu_op",
            "aten::mm",
            10 * n,
            5,
            args={"Input Dims": [[10**4000, -1], "x"], "Input type": ["float", 5]},
        )
        for n in range(3)
    ],
    "constants that are no numbers": lambda: [
        event(
            "cpu_op",
            "aten::convolution",
            10 * n,
            5,
            args={
                "Input Dims": [[1, 2, 3, 4], [1, 2, 3, 4], [], [], [], [], [], [], []],
                "Input type": ["float"] * 9,
                "Concrete Inputs": ["", "", "", "[²]", f"[{'9' * 5000}]", "[]", "²", "[]", "²"],
            },
        )
        for n in range(3)
    ],
}


@pytest.mark.parametrize("case", one_in(7, TRACES))
def test_an_odd_trace_is_analysed_or_refused(case: str, commands: Commands, folder: Path) -> None:
    write(folder / "trace.json", TRACES[case]())
    ended(commands, folder, "analyze trace.json --output out", 60)


@pytest.mark.parametrize("size", [2**40, 2**33], ids=["a tebibyte", "8 GiB"])
def test_a_trace_with_a_hole_is_refused(size: int, commands: Commands, folder: Path) -> None:
    (folder / "trace.json").write_bytes(b'{"traceEvents": [\n')
    os.truncate(folder / "trace.json", size)
    done = ended(commands, folder, "analyze trace.json --output out", 30)
    assert done.code == 1, done.output


def test_a_column_that_is_made_when_it_is_read_is_left_alone(
    commands: Commands, folder: Path
) -> None:
    write_tables(folder / "trace.sqlite", tables())
    with sqlite3.connect(folder / "trace.sqlite") as base:
        for name in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"):
            base.execute(
                f"ALTER TABLE {name} ADD COLUMN big TEXT AS (printf('%.*c', 900000000, 'x'))"
            )
    done = ended(commands, folder, "analyze trace.sqlite --output out", 30)
    assert done.code == 0, done.output


WHATIFS = {
    "an operator of a superscript": ("x.json", {"speedups": [{"op_id": "²", "speedup": 2}]}),
    "an operator of many digits": ("x.json", {"speedups": [{"op_id": "9" * 5000, "speedup": 2}]}),
    "a speed-up without bounds": ("x.json", {"speedups": [{"op_type": "mm", "speedup": 10**400}]}),
    "a change without bounds": ("x.json", {"changes": [{"op": "*", "speedup": 10**400}]}),
    "a tiny speed-up": ("x.json", {"changes": [{"op": "*", "speedup": 5e-324}]}),
    "times without bounds": ("x.json", {"changes": [{"op": "*", "set_ns": 1e308}]}),
    "more than any time": ("x.json", {"changes": [{"op": "*", "add_ns": -1e308}]}),
    "a step without bounds": ("x.json", {"changes": [{"iteration": 10**30, "remove": True}]}),
    "a rank without bounds": ("x.json", {"changes": [{"rank": -(10**30), "remove": True}]}),
    "a name elsewhere": ("x.json", {"name": "../../x", "changes": [{"op": "*", "remove": True}]}),
    "stars": ("x.json", {"changes": [{"name": "*a" * 60 + "b", "remove": True}]}),
    "an expression": ("x.json", {"changes": [{"name": "/(a|a)*(a|a)*(a|a)*b/", "remove": True}]}),
    "no truth value": ("x.yaml", "name: !!bool maybe\nchanges: [{op: '*', remove: true}]"),
    "no moment": ("x.yaml", "name: 2001-99-99\nchanges: [{op: '*', remove: true}]"),
    "a number of digits": ("x.yaml", f"name: {HUGE}\nchanges: [{{op: '*', speedup: {HUGE}}}]"),
    "the base of sixty": ("x.yaml", "name: 1" + ":1" * MANY),
}


@pytest.mark.parametrize("case", one_in(8, WHATIFS))
def test_an_odd_what_if_is_answered_or_refused(case: str, commands: Commands, folder: Path) -> None:
    name, content = WHATIFS[case]
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    long = [event("cpu_op", "a" * 5000, 5, 3), event("cpu_op", "aten::mm", 5, 3)]
    write(folder / "trace.json", [*steps(), *long])
    ended(commands, folder, f"analyze trace.json --output out --whatif {name}", 40)


LIBRARIES = {
    "no truth value": "groups: [{name: !!bool maybe, seeds: [a]}]",
    "a number of digits": f"numbers: {{{HUGE}: a}}",
    "the base of sixty": "rankdir: 1" + ":1" * MANY,
    "a name of names": "hidden: [" + "a." * 100_000 + "]",
}


@pytest.mark.parametrize("case", one_in(2, LIBRARIES))
def test_an_odd_library_of_groups_is_read_or_refused(
    case: str, commands: Commands, folder: Path
) -> None:
    (folder / "groups.yaml").write_text(LIBRARIES[case])
    write(folder / "trace.json", steps())
    onnx_file(folder / "model.onnx", lambda graph: None)
    line = "analyze trace.json --output out --model model.onnx --groups groups.yaml"
    ended(commands, folder, line, 30)


RULE = "-------  ---------  ---------  ----------\n"
REPORTS = {
    "a mean of nothing": "FIT Profiler Report\n\n| Action | Mean duration (s) | Total time (s) |\n"
    "| a | 1e-300 | 1e300 |\n| b | nan | nan |\n| c | inf | inf |\n",
    "calls of many digits": "FIT Profiler Report\n\nProfile stats for: a\n"
    f"   {'9' * 5000} function calls in 0.5 seconds\n"
    f"   {'9' * 5000}    0.1    0.1    0.1    0.1 a.py:1(f)\n",
    "rows without a name": f"FIT Profiler Report\n\nProfile stats for: a\n{RULE}"
    f"Nothing  Self CPU   CPU total  # of Calls\n{RULE}aten::mm 1.000ms    2.000ms    ²\n{RULE}",
    "calls that are a superscript": f"FIT Profiler Report\n\nProfile stats for: a\n{RULE}"
    f"Name     Self CPU   CPU total  # of Calls\n{RULE}aten::mm 1.000ms    2.000ms    ²\n{RULE}",
    "rules without rows": f"FIT Profiler Report\n\nProfile stats for: a\n{RULE}{RULE}{RULE}",
}


@pytest.mark.parametrize("case", one_in(4, REPORTS))
def test_an_odd_report_of_lightning_is_shown(case: str, commands: Commands, folder: Path) -> None:
    (folder / "report.txt").write_text(REPORTS[case])
    ended(commands, folder, "analyze report.txt")
    ended(commands, folder, "analyze report.txt --json")


SESSIONS: Mapping[str, Any] = {
    "pricing": [{"market": "x"}, {"market": 5}, {"usd_per_hour": "x"}, [], "x", 5],
    "tracking": [{"uri": 5}, {"uri": "\x1b[2J"}, {"uri": "//["}, [], "x"],
    "executor": [{"_target_": 5}, {}, [], "x"],
    "store": [{"_target_": "os.system"}, {"root": 5}, [], "x"],
    "profile": [5, {}, [[]], None],
    "objective": [5, [], "nope", None],
    "budget": [{"minutes": "x"}, {"max_usd": []}, [], "x"],
    "baseline": [5, [], {}],
    "control": [5, [], {}],
    "name": [5, [], None],
    "cwd": [5, [], "\0", "x" * 5000],
    "keep_at": [5, [], "s3://x/../.."],
    "profiler": [5, [], {"_target_": "os.system"}],
}
COMMANDS = (
    *("status @D/run", "report @D/run", "check @D/run", "compare @D/run @D/run", "logs @D/run"),
    *("open @D/run --no-browser", "history @D/run", "report @D/run --json", "resume @D/run"),
    *("record @D/run --uri sqlite:///x.db", "reproduce @D/run --bundle b.zip", "ui --check"),
    *("gate --baseline @D/run --candidate @D/run --max-regression 2%", "rerun @D/run --only *"),
    *(
        "resume @D/run --trust @D/run",
        "reproduce @D/run --trust @D/run",
        "export @D/run --output e",
    ),
)


SETTINGS = {
    f"{key} {at}": (key, odd) for key, all_ in SESSIONS.items() for at, odd in enumerate(all_)
}


@pytest.mark.parametrize(
    ("case", "line"), one_in(89, [(case, line) for case in SETTINGS for line in COMMANDS])
)
def test_odd_settings_of_a_plan_are_data(
    case: str, line: str, commands: Commands, folder: Path, run: Path
) -> None:
    run = run.rename(folder / "run")
    plan = json.loads((run / "plan.json").read_text())
    key, odd = SETTINGS[case]
    session = {**plan["session"], key: odd}
    (run / "plan.json").write_text(json.dumps({**plan, "session": session}))
    done = commands.run(folder, line.replace("@D", str(folder)).split(), 20)
    assert "Traceback (most recent call last)" not in done.output, done.output[-2000:]
    assert done.code in (0, 1, 2, 3, 4), (done.code, done.output[-2000:])


@pytest.mark.parametrize("label", one_in(3, ["1²2", "9" * 5000, "1" * 20, "batch_size=²"]))
def test_odd_labels_of_a_plan_are_names(
    label: str, commands: Commands, folder: Path, tmp_path: Path
) -> None:
    eager = trial(labels={"workload": label})
    fast = trial("fast", baseline=eager, labels={"workload": "batch_size=10"})
    pairs = (eager, result(eager)), (fast, result(fast, 5e5, baseline_ns=1e6))
    write_run(folder / "run", *pairs)
    for line in ("report @D/run", "status @D/run", "compare @D/run @D/run"):
        assert ended(commands, folder, line).code in (0, 1), line


def test_a_journal_of_garbage_is_summed_up(commands: Commands, folder: Path, run: Path) -> None:
    run = run.rename(folder / "run")
    with (run / "results.jsonl").open("ab") as file:
        file.write(b"garbage\n" * 50_000)
    for line in ("report @D/run", "status @D/run", "check @D/run"):
        done = ended(commands, folder, line)
        assert "49980 lines more" in done.output or line != "report @D/run", done.output


@pytest.fixture(scope="module")
def tracker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tracker's file that MLflow made itself, which is none of others."""
    pytest.importorskip("mlflow")
    from benchorch.recorders.mlflow import create_store

    path = tmp_path_factory.mktemp("tracker") / "mlflow.db"
    for _ in range(2):
        create_store(f"sqlite:///{path}")
    return path


@pytest.mark.parametrize("kind", ["trigger", "view"])
def test_a_tracker_that_runs_statements_of_its_own_is_refused(
    kind: str, commands: Commands, folder: Path, run: Path, tracker: Path
) -> None:
    shutil.copy(tracker, folder / "mlflow.db")
    endless = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT x FROM t"
    with sqlite3.connect(folder / "mlflow.db") as base:
        for statement in {
            "trigger": [
                "CREATE VIEW mine AS SELECT * FROM runs",
                "CREATE TRIGGER evil AFTER INSERT ON Tags "
                f"BEGIN SELECT max(x) FROM ({endless}); END",
            ],
            "view": [
                "ALTER TABLE alembic_version RENAME TO former",
                f"CREATE VIEW Alembic_Version AS SELECT x AS version_num FROM ({endless})",
            ],
        }[kind]:
            base.execute(statement)
    run.rename(folder / "run")
    done = ended(commands, folder, "record @D/run --uri sqlite:///mlflow.db", 60)
    assert done.code == 1
    found = {"trigger": "the trigger 'evil' on Tags,", "view": "the view 'Alembic_Version',"}[kind]
    assert found in " ".join(done.output.split())


@pytest.mark.parametrize("name", one_in(2, ["[" * 200_000, "a" * 200_000, "a[1, " * 50_000]))
def test_a_long_label_is_shown(name: str, commands: Commands, run: Path) -> None:
    plan = json.loads((run / "plan.json").read_text())
    for each in plan["trials"]:
        each["labels"]["model"] = name
    (run / "plan.json").write_text(json.dumps(plan))
    words = ["open", str(run), "--no-browser"]
    done = commands.run(run, words, 20)
    assert "Traceback (most recent call last)" not in done.output, done.output[-3000:]
    assert done.code in (0, 2), (done.code, done.output[-2000:])


@pytest.mark.parametrize("kind", ["operators within one another", "threads"])
def test_a_trace_of_many_names_is_read_once(kind: str, commands: Commands, folder: Path) -> None:
    count = 15_000
    records = [
        event("cpu_op", f"a{one}", one, 2 * (count - one), pid=1, tid=1)
        if kind.startswith("operators")
        else event("cpu_op", f"a{one}", one, 5, pid=one, tid=one)
        for one in range(count)
    ]
    write(folder / "theirs.json", records)
    ended(commands, folder, "analyze theirs.json")


PLANNED: dict[str, tuple[str, Any]] = {
    "a workload of a list": ("workload", [1]),
    "a conversion of a word": ("conversion", "eager"),
    "a runtime of a number": ("conversion", {"runtime": 5}),
    "hardware of a number": ("hardware", 5.0),
    "sizes of a list": ("hardware", {"kind": "local", "size": "s", "sizes": ["s"]}),
    "processors of a word": (
        "hardware",
        {"kind": "x", "size": "s", "sizes": {"s": {"vcpus": "x"}}},
    ),
    "a size that is no number": ("workload", {"batch_size": float("nan")}),
}


@pytest.mark.parametrize("line", ["open @D --no-browser", "report @D --json"])
@pytest.mark.parametrize("case", one_in(3, PLANNED))
def test_odd_nodes_of_a_stored_plan_are_shown_or_refused(
    case: str, line: str, commands: Commands, run: Path
) -> None:
    key, node = PLANNED[case]
    plan = json.loads((run / "plan.json").read_text())
    for each in plan["trials"]:
        each["spec"][key] = node
    (run / "plan.json").write_text(json.dumps(plan))
    ended(commands, run, line)
