"""A ``.pt2`` file is data: what would run is refused before torch reads it."""

from __future__ import annotations

import io
import json
import os
import re
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo, is_zipfile

import pytest

from benchorch.errors import BuildError
from benchorch.frameworks.program_archive import read_program
from benchorch.frameworks.program_graph import graph_problems
from benchorch.frameworks.torch_program import (
    PROGRAM_FILE,
    is_own_operator,
    load_program,
    save_program,
)
from benchorch.models.script_run import run_script
from benchorch.models.script_watch import Watch

torch = pytest.importorskip("torch")


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)
        self.register_buffer("scale", torch.ones(2))

    def forward(self, x: Any) -> Any:
        return self.layer(x) * self.scale + x.shape[0]


class Evil:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.marker),)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("programs") / "good.pt2"
    sizes = {0: torch.export.Dim("rows", min=2, max=64)}
    torch.export.save(
        torch.export.export(Net(), (torch.ones(3, 4),), dynamic_shapes=(sizes,)), path
    )
    return path


def changed(good: Path, path: Path, change: Callable[[str, bytes], bytes | None]) -> Path:
    with ZipFile(good) as old, ZipFile(path, "w", ZIP_STORED) as new:
        for name in old.namelist():
            content = change(name, old.read(name))
            if content is not None:
                new.writestr(name, content)
    return path


def added(good: Path, path: Path, name: str, content: bytes, kind: int = ZIP_STORED) -> Path:
    changed(good, path, lambda _, content: content)
    with ZipFile(path, "a", kind) as archive:
        archive.writestr(f"good/{name}", content)
    return path


def pickled(value: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def graph(**new: str) -> Callable[[str, bytes], bytes]:
    """Every value of these keys in the graph replaced."""

    def replaced(node: Any) -> Any:
        if isinstance(node, dict):
            return {k: new.get(k, replaced(v)) if k in node else v for k, v in node.items()}
        return [replaced(each) for each in node] if isinstance(node, list) else node

    def change(name: str, content: bytes) -> bytes:
        if not name.endswith("models/model.json"):
            return content
        return json.dumps(replaced(json.loads(content))).encode()

    return change


CODE = """__import__('os').mkdir('{marker}')""".replace("'", '"')
SYMPY_EVALUATES = (
    *("Max('@')", "Where('@', 1, 2)", "Eq(Symbol('s0'), '@')", "Max('@' if 1 else 'b')"),
    *("Max('' or '@')", "Max(['@'][0])", "Piecewise(('@', True))", "Max(1, evaluate='@')"),
)


def test_what_torch_writes_is_read(good: Path) -> None:
    module = read_program(good).module()
    assert module(torch.ones(5, 4)).shape == (5, 2)


def test_bounds_that_torch_writes_in_python_are_read(good: Path, tmp_path: Path) -> None:
    guard = "min(2*L['x'].size()[0], 4*L['x'].size()[0]) == max(2*L['x'].size()[0], 1)"

    def change(name: str, content: bytes) -> bytes:
        if not name.endswith("models/model.json"):
            return content
        program = json.loads(content)
        assert "guards_code" in program
        return json.dumps({**program, "guards_code": [guard]}).encode()

    module = read_program(changed(good, tmp_path / "guarded.pt2", change)).module()
    assert module(torch.ones(5, 4)).shape == (5, 2)


class Squares(torch.nn.Module):
    """Its sizes are powers, quotients and remainders of others."""

    def forward(self, x: Any) -> Any:
        rows = x.shape[0]
        return x.new_ones((rows * rows * rows, rows // 2 + 1)), x.reshape(-1)[: rows % 7 + 2]


def test_powers_that_torch_writes_are_read(tmp_path: Path) -> None:
    sizes = {0: torch.export.Dim("rows", min=2, max=64)}
    path = tmp_path / "squares.pt2"
    program = torch.export.export(Squares(), (torch.ones(3, 4),), dynamic_shapes=(sizes,))
    torch.export.save(program, path)
    with ZipFile(path) as archive:
        assert any(b"Pow(" in archive.read(name) for name in archive.namelist())
    assert read_program(path).module()(torch.ones(5, 4))[0].shape == (125, 3)


def test_a_script_that_is_a_program_unpickles_nothing(good: Path, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    sample = pickled(((Evil(marker),), {}))
    torch.load(io.BytesIO(sample), weights_only=False)  # it does work
    marker.rmdir()
    evil = changed(
        good, tmp_path / "evil.pt2", lambda name, old: sample if name.endswith(".pt") else old
    )
    with pytest.raises(BuildError, match="holds more than tensors"):
        run_script(evil, (), Watch(0, lambda _: None), 0)
    assert not marker.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("__import__('os').mkdir('{marker}')", "expression"),
        ("Symbol('s0').__class__", "expression"),
        ("sympify('1')", "expression"),
        ("[x for x in (1,)]", "expression"),
        ("eval('1')", "expression"),
        ("9**9**9**9", "expression"),
        ("((2**64)**64)**64", "expression"),
        ("1 << 10**12", "expression"),
        ("Pow(Integer(9), Pow(Integer(9), Integer(9)))", "expression"),
        ("Pow(Integer(9), Symbol('s0'))", "expression"),
        ("Pow(Integer(9), Integer(10000000000))", "expression"),
        ("LShift(Integer(1), Integer(10000000000))", "expression"),
        ("Rational('1e10000000000')", "expression"),
        ("Float('0.1', precision=10000000000)", "expression"),
        ("'x' * 10000000000", "expression"),
        ("'%10000000000d' % 1", "expression"),
        ("[1] * 10000000000", "expression"),
        ("9" * 5000, "expression"),
        ("+".join(["Symbol('s0')"] * 10_000), "expression"),
        *((text.replace("@", CODE), "expression") for text in SYMPY_EVALUATES),
    ],
)
def test_sizes_are_arithmetic(good: Path, tmp_path: Path, text: str, said: str) -> None:
    marker = tmp_path / "marker"
    evil = changed(good, tmp_path / "evil.pt2", graph(expr_str=text.format(marker=marker)))
    with pytest.raises(BuildError, match=said):
        read_program(evil)
    assert not marker.exists()


@pytest.mark.parametrize(
    "target",
    [
        *("torch.hub.load", "torch.utils.collect_env.run", "torch.ops.load_library.__call__"),
        *("torch.os.system", "torch.ops.import_module", "_operator.methodcaller", "os.system"),
        *("_operator.__call__", "torchx.os.system", "math.factorial", "#aten:add", "torch.save"),
        *("torch.ops.aten.from_file.default", "torch.ops.aten.save.default"),
        *("torch.ops.image.read_file.default", "torch.ops.image.write_file.default"),
        *("torch.ops.torchaudio.sox_io_load.default", "torch.ops.debugprims.load_tensor.default"),
        *("torch.ops._c10d_functional.all_reduce.default", "torch.ops.prim.rpc_sync.default"),
        *("torch.ops.profiler._record_function_enter.default", "torch.ops.aten._print.default"),
        *("torch.ops.higher_order.aoti_call_delegate", "torch.ops.higher_order.call_torchbind"),
        *("torch.ops.mylib.evil.default", "torch.ops.aten.add.__call__"),
    ],
)
def test_a_graph_calls_operators_alone(good: Path, tmp_path: Path, target: str) -> None:
    evil = changed(good, tmp_path / "evil.pt2", graph(target=target))
    with pytest.raises(BuildError, match="graph calls"):
        read_program(evil)


@pytest.mark.parametrize(
    "name",
    [
        *("data/constants/opaque_obj_0", "data/constants/custom_obj_0", "../../outside"),
        *("data/aotinductor/model/model.so", "data/weights/WEIGHT_0", "MODELS/model.json"),
    ],
)
def test_no_other_members_are_let_in(good: Path, tmp_path: Path, name: str) -> None:
    evil = added(good, tmp_path / "evil.pt2", name, b"x")
    with pytest.raises(BuildError, match="may not be loaded"):
        read_program(evil)


def test_a_pickled_weight_is_read_as_weights(good: Path, tmp_path: Path) -> None:
    marker = tmp_path / "marker"

    def change(name: str, content: bytes) -> bytes:
        if name.endswith("weights/weight_0"):
            return pickled(Evil(marker))
        if name.endswith("model_weights_config.json"):
            return content.replace(b'"use_pickle": false', b'"use_pickle": true')
        return content

    evil = changed(good, tmp_path / "evil.pt2", change)
    with pytest.raises(Exception, match=r"(?i)weights.only|unsupported"):
        read_program(evil)
    assert not marker.exists()


def as_torch_2_8(good: Path, path: Path, weights: object) -> Path:
    """Weights and constants in a pickle each."""
    dropped = re.compile(r".*/data/(weights|constants)/.*")
    old = changed(good, path, lambda name, content: None if dropped.match(name) else content)
    with ZipFile(old, "a") as archive:
        archive.writestr("good/data/weights/model.pt", pickled(weights))
        archive.writestr("good/data/constants/model.pt", pickled({}))
    return old


def test_what_torch_2_8_wrote_is_read(good: Path, tmp_path: Path) -> None:
    program = read_program(good)
    old = read_program(as_torch_2_8(good, tmp_path / "old.pt2", program.state_dict))
    x = torch.ones(5, 4)
    assert torch.equal(old.module()(x), program.module()(x))


def test_a_pickle_of_weights_holds_tensors_alone(good: Path, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    evil = as_torch_2_8(good, tmp_path / "evil.pt2", Evil(marker))
    with pytest.raises(BuildError, match=r"model\.pt holds more than tensors"):
        read_program(evil)
    assert not marker.exists()


def test_a_bomb_is_not_expanded(good: Path, tmp_path: Path) -> None:
    evil = added(good, tmp_path / "bomb.pt2", "extra/zeros", bytes(2**27), ZIP_DEFLATED)
    with pytest.raises(BuildError, match="expand to"):
        read_program(evil)


def test_no_operator_that_takes_a_file_or_an_address_may_be_called() -> None:
    """All that torch has registered, but for words that choose a method or say what went wrong."""
    harmless = re.compile(
        "mode|approximate|reduce|driver|norm|side|padding|padding_side|equation|indexing|ord|UPLO|p"
        "|assert_msg|interpolation|rounding_mode|pad_mode|activation|algorithm|api_name|self"
    )
    names = {*torch._C._dispatch_get_all_op_names(), "aten::save"}
    taking_text = [
        (schema, argument.name)
        for schema in torch._C._jit_get_all_schemas()
        for argument in schema.arguments
        if schema.name in names and "str" in str(argument.type)
    ]
    assert ("aten::save", "filename") in {(schema.name, name) for schema, name in taking_text}
    allowed = [
        f"{schema.name} takes {name}"
        for schema, name in taking_text
        if not harmless.fullmatch(name)
        if not [*graph_problems({"target": target_of(schema)}, lambda _: False)]
    ]
    assert allowed == []


def target_of(schema: Any) -> str:
    return f"torch.ops.{schema.name.replace('::', '.')}.{schema.overload_name or 'default'}"


def edited(good: Path, path: Path, change: Callable[[Any], None]) -> Path:
    """The program with its graph changed in place."""

    def change_graph(name: str, content: bytes) -> bytes:
        if not name.endswith("models/model.json"):
            return content
        program = json.loads(content)
        change(program)
        return json.dumps(program).encode()

    return changed(good, path, change_graph)


def renamed(old: str, new: str) -> Callable[[Any], None]:
    def change(program: Any) -> None:
        text = json.dumps(program).replace(json.dumps(old), json.dumps(new))
        program.clear()
        program.update(json.loads(text))

    return change


def tree(**node: Any) -> str:
    return json.dumps([1, {"children_spec": [], **node}])


LEAF = {"type": None, "context": None, "children_spec": []}
ARGUMENTS = {"type": "builtins.tuple", "context": "null", "children_spec": []}


def signature(program: Any) -> Any:
    return program["graph_module"]["module_call_graph"][0]["signature"]


def call_with_keyword(name: str) -> Callable[[Any], None]:
    empty: Any = {"inputs": [], "outputs": [], "nodes": [], "sym_int_values": {}}
    graph = {**empty, "tensor_values": {}, "sym_bool_values": {}}
    node: Any = {
        "target": "torch.ops.higher_order.wrap_with_set_grad_enabled",
        "inputs": [
            {"name": "", "arg": {"as_bool": False}, "kind": 1},
            {"name": "", "arg": {"as_graph": {"name": "part", "graph": graph}}, "kind": 1},
            {"name": name, "arg": {"as_int": 1}, "kind": 2},
        ],
        "outputs": [{"as_none": True}],
        "metadata": {},
        "is_hop_single_tensor_return": None,
    }
    return lambda program: program["graph_module"]["graph"]["nodes"].insert(0, node)


def text_input(**value: str) -> Callable[[Any], None]:
    def change(program: Any) -> None:
        program["graph_module"]["graph"]["inputs"].append(value)
        spec = {"constant_input": {"name": "y", "value": value}}
        program["graph_module"]["signature"]["input_specs"].append(spec)

    return change


def imports(module: str) -> dict[str, Any]:
    return {"__enum__": True, "fqn": f"{module}:Kind", "name": "a"}


BECOMES_CODE: dict[str, Callable[[str], Callable[[Any], None]]] = {
    "an input's name": lambda code: renamed("x", f"x={code}"),
    "a result's name": lambda code: renamed("linear", f"y={code};z"),
    "a keyword": lambda code: call_with_keyword(f"x={code},y"),
    "a parameter's place": lambda code: renamed("layer.weight", f'w" if {code} else "w'),
    "an argument's name": lambda code: (
        lambda program: signature(program).update(forward_arg_names=[f"x=(lambda:{code})()"])
    ),
    "a keyword of a call": lambda code: (
        lambda program: signature(program).update(
            in_spec=tree(
                type="builtins.tuple",
                context="null",
                children_spec=[
                    ARGUMENTS,
                    {
                        "type": "builtins.dict",
                        "context": json.dumps([f"x=(lambda:{code})(),y"]),
                        "children_spec": [LEAF],
                    },
                ],
            )
        )
    ),
    "a guard's text": lambda code: (
        lambda program: program.update(guards_code=[f"""L['x'].size()[0] != "+{code}+str('')+\""""])
    ),
    "a list of guards": lambda code: lambda program: program.update(guards_code=[[code]]),
    "a text": lambda code: text_input(as_string=f"' or {code} or '"),
    "a text in a truth value's place": lambda code: text_input(as_bool=f"' or {code} or '"),
    "a module of an enum": lambda _: (
        lambda program: signature(program).update(
            out_spec=tree(type="builtins.dict", context=json.dumps([imports("antigravity")]))
        )
    ),
    "a module of a default": lambda _: (
        lambda program: signature(program).update(
            out_spec=tree(
                type="collections.defaultdict",
                context={
                    "default_factory_module": "antigravity",
                    "default_factory_name": "x",
                    "dict_context": [],
                },
            )
        )
    ),
    "an operator among the arguments": lambda _: (
        lambda program: program["graph_module"]["graph"]["nodes"][0]["inputs"].append(
            {"name": "", "arg": {"as_operator": "torch.os.system"}, "kind": 1}
        )
    ),
    "an object": lambda _: (
        lambda program: program["graph_module"]["graph"].update(
            custom_obj_values={"x": {"name": "x", "class_fqn": "__torch__.Evil"}}
        )
    ),
    "a count of symbols": lambda _: (
        lambda program: program["range_constraints"].update(u999999999999={"min_val": 0})
    ),
}


@pytest.mark.parametrize("place", BECOMES_CODE)
def test_no_text_of_a_graph_becomes_code(good: Path, tmp_path: Path, place: str) -> None:
    marker = tmp_path / "marker"
    code = (
        f"exec({'+'.join(f'chr({ord(each)})' for each in f'import os;os.mkdir({str(marker)!r})')})"
    )
    evil = edited(good, tmp_path / "evil.pt2", BECOMES_CODE[place](code))
    with pytest.raises(BuildError, match="may not be loaded"):
        read_program(evil).module()
    assert not marker.exists()
    assert "antigravity" not in sys.modules


# Instructions that nothing wrote: an empty stack, an unknown place, a key that is none.
ODD_PICKLES = (
    b"\x80\x02.",
    b"\x80\x02h\x05.",
    b"\x80\x02]]K\x01s.",
    b"\x80\x02}]K\x01s.",
    b"\x80\x02G.",
)


@pytest.mark.parametrize("instructions", ODD_PICKLES)
def test_a_pickle_of_odd_instructions_is_a_sentence(
    good: Path, tmp_path: Path, instructions: bytes
) -> None:
    sample = io.BytesIO()
    with ZipFile(io.BytesIO(pickled(1))) as old, ZipFile(sample, "w") as new:
        for name in old.namelist():
            new.writestr(name, instructions if name.endswith("data.pkl") else old.read(name))
    odd = changed(
        good,
        tmp_path / "odd.pt2",
        lambda name, old: sample.getvalue() if name.endswith(".pt") else old,
    )
    with pytest.raises(BuildError, match="holds more than tensors"):
        read_program(odd)


def archive_of(good: Path, tmp_path: Path, expression: str, filled: int) -> bytes:
    path = changed(good, tmp_path / "part.pt2", graph(expr_str=expression))
    with ZipFile(path, "a") as archive:
        archive.writestr("good/extra/filled", bytes(filled))
    return path.read_bytes()


def directory_of(archive: bytes) -> tuple[int, int, int]:
    """Offset of the record at its end, its directory's length and its offset."""
    end = archive.rindex(b"PK\x05\x06")
    return (end, *struct.unpack("<II", archive[end + 12 : end + 20]))


@pytest.mark.parametrize("kind", ["behind the other", "behind a record of 64 bits"])
def test_an_archive_has_one_directory(good: Path, tmp_path: Path, kind: str) -> None:
    """Python reads the second; torch would read the first."""
    marker = tmp_path / "marker"
    code = CODE.format(marker=marker)
    seen = archive_of(good, tmp_path, "Symbol('s0')", 4096)
    short = archive_of(good, tmp_path, code, 0)
    evil = archive_of(good, tmp_path, code, directory_of(seen)[2] - directory_of(short)[2])
    end, length, start = directory_of(evil)
    assert directory_of(seen)[1:] == (length, start)
    hidden, last = evil[:end], seen[end:]
    if kind == "behind a record of 64 bits":
        count = len(ZipFile(io.BytesIO(seen)).namelist())
        record = struct.pack(
            "<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, count, count, length, start
        )
        locator = struct.pack("<IIQI", 0x07064B50, 0, len(hidden), 1)
        hidden, last = hidden + record, record + locator + last
    path = tmp_path / "evil.pt2"
    path.write_bytes(hidden + seen[:end] + last)
    with pytest.raises(BuildError, match=r"two directories|damaged"):
        read_program(path)
    assert not marker.exists()


def test_a_member_has_one_place(good: Path, tmp_path: Path) -> None:
    """Of two fields for members beyond 4 GiB Python takes the last one, torch the first."""
    changed(good, path := tmp_path / "evil.pt2", lambda _, content: content)
    with ZipFile(path, "a") as archive:
        member = ZipInfo("good/extra/x")
        member.extra = 2 * struct.pack("<HHQ", 1, 8, 0)
        archive.writestr(member, b"x")
    with pytest.raises(BuildError, match="two places"):
        read_program(path)


def test_an_archive_that_python_does_not_see_is_not_left_to_torch(
    good: Path, tmp_path: Path
) -> None:
    """Python takes the last signature for the end; torch looks on where that cannot be one."""
    marker = tmp_path / "marker"
    path = tmp_path / "evil.pt2"
    path.write_bytes(archive_of(good, tmp_path, CODE.format(marker=marker), 0) + b"PK\x05\x06xx")
    assert not is_zipfile(path)
    assert torch._C.PyTorchFileReader(str(path)).get_all_records()
    with pytest.raises(BadZipFile, match="is no archive"):
        read_program(path)
    assert not marker.exists()


ODD: dict[str, Callable[[Any], None]] = {
    "no graph": lambda program: program["graph_module"].pop("graph"),
    "nodes that are text": lambda program: program["graph_module"]["graph"].update(nodes="x"),
    "no nodes": lambda program: program["graph_module"]["graph"].update(nodes=None),
    "an unknown argument": lambda program: program["graph_module"]["graph"]["inputs"].append({}),
    "a missing result": lambda program: program["graph_module"]["graph"]["nodes"].reverse(),
    "another version": lambda program: program.update(schema_version="8.20"),
    "a later version": lambda program: program.update(schema_version={"major": 99, "minor": 0}),
    "an unknown dialect": lambda program: program.update(verifiers=["EDGE"]),
    "division by zero": lambda program: program["graph_module"]["graph"]["tensor_values"]["x"][
        "sizes"
    ].insert(0, {"as_expr": {"expr_str": "FloorDiv(1, 0)", "hint": None}}),
}


@pytest.mark.parametrize("kind", ODD)
def test_what_torch_cannot_read_is_a_sentence(
    good: Path, tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    odd = edited(good, tmp_path / "odd.pt2", ODD[kind])
    with pytest.raises(
        BuildError, match=r"odd\.pt2 (is no exported program|may not be loaded)"
    ) as caught:
        read_program(odd)
    assert "check the warnings above" not in str(caught.value)
    assert not caplog.records


class Named(torch.nn.Module):
    """Its arguments are called as parts of a program's file are."""

    def forward(self, target: Any, index: Any, config: Any) -> Any:
        return target + index + config


def test_an_argument_may_be_called_as_a_part_of_the_file_is(tmp_path: Path) -> None:
    path = tmp_path / "named.pt2"
    torch.export.save(torch.export.export(Named(), (torch.ones(2),) * 3), path)
    assert read_program(path).module()(*[torch.ones(2)] * 3).tolist() == [3, 3]


class Custom(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.ops.trustcorpus.twice(x, "fast") + torch.ops.trustcorpus.thrice(x)


def test_an_operator_of_the_models_own_is_read_from_its_chain_alone(tmp_path: Path) -> None:
    @torch.library.custom_op("trustcorpus::twice", mutates_args=())
    def twice(x: torch.Tensor, how: str) -> torch.Tensor:
        return x * 2

    twice.register_fake(lambda x, how: torch.empty_like(x))
    library = torch.library.Library("trustcorpus", "FRAGMENT")
    library.define("thrice(Tensor x) -> Tensor")
    library.impl("thrice", lambda x: x * 3, "CompositeExplicitAutograd")
    torch.library.register_fake("trustcorpus::thrice", torch.empty_like)
    save_program(torch.export.export(Custom(), (torch.ones(2),)), tmp_path)
    assert load_program(tmp_path).module()(torch.ones(2))[0].tolist() == [5, 5]
    with pytest.raises(BuildError, match=r"graph calls 'torch\.ops\.trustcorpus"):
        read_program(tmp_path / PROGRAM_FILE)
    assert not is_own_operator("aten::save")
