"""Sizes and guards of an exported program, which torch evaluates as Python: arithmetic alone."""

from __future__ import annotations

import ast
import math
import re

_FUNCTION = re.compile(
    r"""Integer | Float | Rational | Add | Mul | Pow | Abs | Max | Min | max | min
    | Mod | PythonMod | Eq | Ne | Ge | Gt | Le | Lt | And | Or | Not | Xor | ITE | Piecewise
    | Equality | Unequality | (Strict)?(Greater|Less)Than
    | FloorDiv | CleanDiv | CeilDiv
    | ModularIndexing | ToFloat | TruncToInt | TruncToFloat | CeilToInt | FloorToInt | RoundToInt
    | RoundDecimal | IntTrueDiv | FloatTrueDiv | PowByNatural | FloatPow | Where | Identity
    | LShift | RShift | OpaqueUnaryFn_\w+ | BitwiseFn_\w+""",
    re.VERBOSE,
)
_SYMBOL = "Symbol"
_METHOD = re.compile(
    r"size|stride|storage_offset|dim|numel|item|dtype|device|shape|trunc|ceil|floor|sqrt"
    r"|sym_(float|int|not|ite|max|min|sqrt|sum)"
)
_NAME = re.compile(r"[suz]\w*\d+|L|True|False|None|true|false|oo|int_oo|zoo|nan|torch|math")
_MOST_CHARACTERS, _MOST_POWER, _MOST_BITS, _LARGEST = 10_000, 64, 1000, 2**64
_POWERS = re.compile(r"Pow|PowByNatural|FloatPow|LShift")
_NUMBER = re.compile(r"Integer|Float|Rational")
_DECIMAL = re.compile(r"-?[0-9.]{1,40}(e[+-]?[0-9]{1,3})?")
_WORD = re.compile(r"[\w.:/@ -]{1,200}")
_PLAIN = (
    *(ast.Expression, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.IfExp, ast.Tuple),
    *(ast.List, ast.Subscript, ast.Load, ast.keyword, ast.boolop, ast.operator),
    *(ast.unaryop, ast.cmpop),
)


def is_arithmetic(text: object) -> bool:
    """Whether an expression is made of sizes, numbers and arithmetic alone, and soon evaluated."""
    if not isinstance(text, str) or len(text) > _MOST_CHARACTERS:
        return False
    try:
        tree = ast.parse(text, mode="eval")
        return (
            all(_is_plain(node) for node in ast.walk(tree))
            and _texts(tree) == sum(map(_named, ast.walk(tree)))
            and _power(tree) <= _MOST_POWER
        )
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _texts(tree: ast.AST) -> int:
    """How many texts an expression holds: sympy evaluates one wherever it expects a number."""
    return sum(_is_text(node) for node in ast.walk(tree))


def _named(node: ast.AST) -> int:
    """Texts in a node that stay texts: names, digits, indices and what a guard compares with."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        keeps = node.func.id == _SYMBOL or _NUMBER.fullmatch(node.func.id)
        return sum(map(_is_text, node.args)) if keeps else 0
    if isinstance(node, ast.Subscript):
        return int(_is_text(node.slice))
    if isinstance(node, ast.Compare):
        return sum(map(_is_text, (node.left, *node.comparators)))
    return 0


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


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
        return node.id == _SYMBOL or bool(_NAME.fullmatch(node.id) or _FUNCTION.fullmatch(node.id))
    if isinstance(node, ast.Attribute):
        return bool(_METHOD.fullmatch(node.attr))
    if isinstance(node, ast.Call):
        called = node.func
        if isinstance(called, ast.Name) and _NUMBER.fullmatch(called.id):
            return _is_number(node)
        return isinstance(called, ast.Attribute | ast.Name)  # which are looked at by themselves
    if isinstance(node, ast.BinOp):  # a factor makes any number of copies of a text or a list
        no_numbers = (ast.List, ast.Tuple, ast.Constant)
        return not any(
            isinstance(side, no_numbers) and not isinstance(_constant(side), int | float)
            for side in (node.left, node.right)
        )
    if isinstance(node, ast.Constant):
        value = node.value
        if isinstance(value, int | float):
            return abs(value) <= _LARGEST
        return value is None or bool(isinstance(value, str) and _WORD.fullmatch(value))
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
