"""An exported program's file, looked through before torch reads it: none of it may run code.

Torch itself unpickles what a ``.pt2`` holds, evaluates its symbolic sizes and guards as Python, and
calls whatever function of its own the graph names. So members, calls and expressions must be of the
kinds that torch writes, and pickles are read as weights only.
"""

from __future__ import annotations

import ast
import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile, is_zipfile

from benchorch.domain.codec import Json
from benchorch.errors import BuildError
from benchorch.files import ARCHIVE_DAMAGE

if TYPE_CHECKING:
    import torch

_DAMAGE = (*ARCHIVE_DAMAGE, OSError, ValueError)
_MOST_TIMES, _FREE_BYTES = 20, 2**26  # torch stores members uncompressed; some are of equal bytes
_CONTENT = r"""
    archive_format | archive_version | version | byteorder | \.data/\w+ | extra/.+
    | models/[\w.-]+\.json
    | data/weights/(weight_\d+ | [\w.-]+_config\.json)
    | data/constants/(tensor_\d+ | [\w.-]+_config\.json)
    | data/sample_inputs/[\w.-]+\.pt
"""
_MEMBER = re.compile(
    rf"""[^/]+/({_CONTENT}) | version | serialized_exported_program\.json
    | serialized_(state_dict|constants|example_inputs)\.pt | extra_files/.+""",
    re.VERBOSE,
)
_TARGET = re.compile(
    r"""torch\.ops\.(?!load_library|import_module|loaded_libraries|__)\w+
        \.(?!__|from_file)\w+(\.(?!__)\w+)?
    | torch\.ops\.aten\.__i?(and|or|xor|lshift|rshift)__(\.\w+)?
    | torch\._functorch\.predispatch\.(lazy_load_decompositions
        | _(add|remove)_batch_dim | _vmap_(in|de)crement_nesting)
    | _operator\.(?!call|attrgetter|methodcaller)\w+ | math\.\w+ | torch\._?sym_\w+""",
    re.VERBOSE,
)
_FUNCTION = re.compile(
    r"""Symbol | Integer | Float | Rational | Add | Mul | Pow | Abs | Max | Min | max | min
    | Mod | PythonMod | Eq | Ne | Ge | Gt | Le | Lt | And | Or | Not | Xor | ITE | Piecewise
    | Equality | Unequality | (Strict)?(Greater|Less)Than
    | FloorDiv | CleanDiv | CeilDiv
    | ModularIndexing | ToFloat | TruncToInt | TruncToFloat | CeilToInt | FloorToInt | RoundToInt
    | RoundDecimal | IntTrueDiv | FloatTrueDiv | PowByNatural | FloatPow | Where | Identity
    | LShift | RShift | OpaqueUnaryFn_\w+ | BitwiseFn_\w+""",
    re.VERBOSE,
)
_METHOD = re.compile(r"size|stride|storage_offset|dim|numel|item|dtype|device|shape")
_NAME = re.compile(r"[suz]\w*\d+|L|True|False|None|true|false|oo|int_oo|zoo|nan|torch|math")
_MOST_CHARACTERS, _MOST_POWER, _MOST_BITS, _LARGEST = 10_000, 64, 1000, 2**64
_POWERS = re.compile(r"Pow|PowByNatural|FloatPow|LShift")
_NUMBER = re.compile(r"Integer|Float|Rational")
_DECIMAL = re.compile(r"-?[0-9.]{1,40}(e[+-]?[0-9]{1,3})?")
_PLAIN = (
    *(ast.Expression, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.IfExp, ast.Tuple),
    *(ast.List, ast.Constant, ast.Subscript, ast.Load, ast.keyword, ast.boolop, ast.operator),
    *(ast.unaryop, ast.cmpop),
)


def read_program(path: Path) -> torch.export.ExportedProgram:
    """The program of a file.

    Raises:
        BuildError: it holds what could run code.
        RuntimeError, zipfile.BadZipFile: it is no program of this torch.
    """
    import torch

    check_program(path)
    with _weights_only():
        return torch.export.load(path)


def check_program(path: Path) -> None:
    """BuildError unless all that the file holds is data."""
    if not is_zipfile(path):
        return  # torch says what it thinks of it
    for found in _problems(path):
        raise BuildError(
            f"{path} may not be loaded: {found}, which torch would run or trust",
            kind="user_code",
            remedy="export the model again with torch.export.save, from inputs that are tensors",
        )


def _problems(path: Path) -> Iterator[str]:
    try:
        with ZipFile(path) as archive:
            yield from _member_problems(archive, path.stat().st_size)
            for name in archive.namelist():
                if name.endswith(".json"):
                    yield from _graph_problems(json.loads(archive.read(name)))
                elif name.endswith(".pt"):
                    yield from _pickle_problems(archive, name)
    except _DAMAGE as error:
        yield f"it is damaged ({error})"


def _member_problems(archive: ZipFile, size: int) -> Iterator[str]:
    members = archive.infolist()
    names = [member.filename for member in members]
    if len({name.casefold() for name in names}) < len(names):
        yield "two members have one name"
    yield from (
        f"it holds {name[:80]!r}"
        for name in names
        if not _MEMBER.fullmatch(name) or {"..", "."} & {*name.split("/")}
    )
    total = sum(member.file_size for member in members)
    if total > _MOST_TIMES * size + _FREE_BYTES:
        yield f"its {size} bytes expand to {total}"


def _pickle_problems(archive: ZipFile, name: str) -> Iterator[str]:
    import io
    import pickle

    import torch

    content = archive.read(name)
    if not content:
        return
    try:
        torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        yield f"{name} holds more than tensors ({str(error).splitlines()[0][:80]})"


def _graph_problems(node: Json) -> Iterator[str]:
    if isinstance(node, Mapping):
        if "target" in node and "inputs" in node and not _TARGET.fullmatch(str(node["target"])):
            yield f"its graph calls {str(node['target'])[:80]!r}"
        for key, value in node.items():
            texts = value if isinstance(value, list) else [value]
            if key in ("expr_str", "guards_code"):
                wrong = [text for text in texts if text and not _is_arithmetic(str(text))]
                yield from (f"it has the expression {str(text)[:80]!r}" for text in wrong)
            yield from _graph_problems(value)
    elif isinstance(node, list):
        for value in node:
            yield from _graph_problems(value)


def _is_arithmetic(text: str) -> bool:
    """Whether an expression is made of sizes, numbers and arithmetic alone, and soon evaluated."""
    if len(text) > _MOST_CHARACTERS:
        return False
    try:
        tree = ast.parse(text, mode="eval")
        return all(_is_plain(node) for node in ast.walk(tree)) and _power(tree) <= _MOST_POWER
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _power(node: ast.AST) -> float:
    """To which power an expression may raise a number: ``9**9**9`` takes longer than anyone has."""
    inner = max(map(_power, ast.iter_child_nodes(node)), default=1.0)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow | ast.LShift):
        return inner * _size(node.right)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return inner
    if not _POWERS.fullmatch(node.func.id):
        return inner
    return inner * _size(node.args[1]) if len(node.args) == 2 else math.inf


def _size(exponent: ast.AST) -> float:
    """Of an exponent as Python or sympy spells it, at least 1; infinite for what is no number."""
    if isinstance(exponent, ast.Call) and isinstance(exponent.func, ast.Name) and exponent.args:
        return _size(exponent.args[0]) if _NUMBER.fullmatch(exponent.func.id) else math.inf
    value = _constant(exponent)
    return max(1.0, abs(value)) if isinstance(value, int | float) else math.inf


def _is_plain(node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        return bool(_NAME.fullmatch(node.id) or _FUNCTION.fullmatch(node.id))
    if isinstance(node, ast.Attribute):
        return bool(_METHOD.fullmatch(node.attr))
    if isinstance(node, ast.Call):
        called = node.func
        if isinstance(called, ast.Name) and _NUMBER.fullmatch(called.id):
            return _is_number(node)
        return isinstance(called, ast.Attribute) or (
            isinstance(called, ast.Name) and bool(_FUNCTION.fullmatch(called.id))
        )
    if isinstance(node, ast.BinOp):  # a factor makes any number of copies of a text or a list
        no_numbers = (ast.List, ast.Tuple, ast.Constant)
        return not any(
            isinstance(side, no_numbers) and not isinstance(_constant(side), int | float)
            for side in (node.left, node.right)
        )
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return abs(node.value) <= _LARGEST
    return isinstance(node, _PLAIN)


def _is_number(call: ast.Call) -> bool:
    """Whether sympy makes a number of some digits of these arguments: not of ``'1e1000000000'``."""
    values = [_constant(each) for each in call.args]
    precise = [_constant(each.value) for each in call.keywords]
    return all(
        isinstance(value, int | float) or bool(_DECIMAL.fullmatch(str(value))) for value in values
    ) and all(isinstance(value, int) and value <= _MOST_BITS for value in precise)


def _constant(node: ast.AST) -> object:
    """The value of a constant, its sign dropped; None for anything else."""
    if isinstance(node, ast.UnaryOp):
        return _constant(node.operand)
    return node.value if isinstance(node, ast.Constant) else None


@contextmanager
def _weights_only() -> Iterator[None]:
    """Torch's own switch: it falls back to reading objects otherwise."""
    name = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
