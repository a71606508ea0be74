"""A ``.pt2`` file is data: what would run is refused before torch reads it."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import pytest

from benchorch.errors import BuildError
from benchorch.frameworks.program_archive import read_program
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


def test_a_bomb_is_not_expanded(good: Path, tmp_path: Path) -> None:
    evil = added(good, tmp_path / "bomb.pt2", "extra/zeros", bytes(2**27), ZIP_DEFLATED)
    with pytest.raises(BuildError, match="expand to"):
        read_program(evil)
