"""What the JSON of an exported program may say: none of it may become code.

Torch calls the functions that a graph names, evaluates its sizes and guards, writes names of the
graph into source that it runs, and imports the classes of its trees. So each text must be what
torch writes in its place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from keyword import iskeyword

from benchorch.domain.codec import Json
from benchorch.frameworks.program_expressions import is_arithmetic

_OPERATOR = re.compile(
    r"""torch\.ops\.(
        aten\.(?!__|save\b|warn\b|from_file|_print|_test_)\w+
        | aten\.__i?(and|or|xor|lshift|rshift)__
        | (prims|quantized|quantized_decomposed)\.(?!__)\w+
        | torchvision\._?(nms|(ps_)?roi_(align|pool)|deform_conv2d)\w*
        | torchao\.(quantize|dequantize|choose_qparams)_\w+
        | transformers\.grouped_mm_fallback
    )\.(?!__)\w+
    | torch\.ops\.higher_order\.(
        cond | while_loop | scan | associative_scan | map_impl | out_dtype | flex_attention
        | wrap | wrap_with_(autocast|set_grad_enabled) | (tag|wrap)_activation_checkpoint
        | strict_mode | hints_wrapper | invoke_subgraph | run_const_graph | with_effects
        | auto_functionalized(_v2)? | autograd_function_apply
    )
    | torch\._functorch\.predispatch\.(lazy_load_decompositions
        | _(add|remove)_batch_dim | _vmap_(in|de)crement_nesting)
    | _operator\.(eq|ne|le|ge|lt|gt|neg|pos|mul|add|sub|floordiv|mod|pow|truediv|and_|or_|not_
        |lshift|rshift|getitem)
    | math\.(trunc|ceil|floor|sqrt)
    | torch\.(_sym_\w+ | sym_(not|int|float|ite|max|min|sqrt|sum))""",
    re.VERBOSE | re.ASCII,
)
_CUSTOM = re.compile(r"torch\.ops\.([A-Za-z]\w*)\.(?!__)(\w+)\.(?!__)\w+", re.ASCII)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w{0,999}", re.ASCII)
_PLACE = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029'\"\\]{0,999}")
_QUOTE = re.compile(r"[\x00-\x1f\"\\]")
_LARGEST = 2**64
_LONG_NUMBER = re.compile(r"\d{7}")
_TABLES = ("tensor_values", "sym_int_values", "sym_float_values", "sym_bool_values")


def graph_problems(node: Json, custom: Callable[[str], bool]) -> Iterator[str]:
    """What is wrong with one of a program's JSON files, in words.

    Args:
        node: what the file holds.
        custom: whether an operator that is not among torch's own, ``namespace::name``, may be
            called.
    """
    return _problems(node, custom, literal=False)


def _problems(node: Json, custom: Callable[[str], bool], *, literal: bool) -> Iterator[str]:
    """Args: literal: whether texts are arguments of a call, which torch quotes."""
    if isinstance(node, list):
        for value in node:
            yield from _problems(value, custom, literal=literal)
    if not isinstance(node, Mapping):
        return
    for key, value in node.items():
        if key in _KEYS and isinstance(value, Mapping):
            yield from (f"it has the name {_shown(name)}" for name in value if not _KEYS[key](name))
            yield from _problems([*value.values()], custom, literal=literal)
            continue
        for each in value if isinstance(value, list) else [value]:
            yield from _text_problems(key, each, custom, literal=literal)
        inner = key == "nodes" or (literal and key != "graph")
        yield from _problems(value, custom, literal=inner)


def _text_problems(
    key: str, value: Json, custom: Callable[[str], bool], *, literal: bool
) -> Iterator[str]:
    if key in ("target", "as_operator"):
        if not _is_operator(value, custom):
            yield f"its graph calls {_shown(value)}"
    elif key == "as_string":
        if not literal and not _is_place(value):
            yield f"it has the text {_shown(value)}"
    elif key in _RULES and not _RULES[key][0](value):
        yield f"{_RULES[key][1]} {_shown(value)}"


def _shown(value: object) -> str:
    return repr(str(value)[:80])


def _is_operator(value: object, custom: Callable[[str], bool]) -> bool:
    if not isinstance(value, str):
        return False
    if _OPERATOR.fullmatch(value):
        return True
    found = _CUSTOM.fullmatch(value)
    return found is not None and custom(f"{found[1]}::{found[2]}")


def _is_name(value: object) -> bool:
    """Whether it names a variable in the source that torch writes; it may be missing."""
    return not value or (isinstance(value, str) and bool(_IDENTIFIER.fullmatch(value)))


def _is_argument(value: object) -> bool:
    return bool(value) and _is_name(value) and not iskeyword(str(value))


def _is_place(value: object) -> bool:
    """Whether a text stays one between quotes."""
    return isinstance(value, str) and bool(_PLACE.fullmatch(value))


def _is_expression(value: object) -> bool:
    return not value or is_arithmetic(value)


def _is_symbol(value: str) -> bool:
    """Whether a range is one of a symbol's; torch counts up to the number in its name."""
    return is_arithmetic(value) and not _LONG_NUMBER.search(value)


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int) and abs(value) <= _LARGEST)


def _is_device(value: object) -> bool:
    return isinstance(value, str) and bool(re.fullmatch(r"[a-z]\w{0,30}", value, re.ASCII))


def _is_file(value: object) -> bool:
    return isinstance(value, str) and bool(re.fullmatch(r"(weight|tensor)_\d+", value, re.ASCII))


def _is_tree(value: object) -> bool:
    """Whether it says how arguments are nested, and no more: torch imports what an enum is of."""
    if not isinstance(value, str):
        return False
    try:
        protocol, top = json.loads(value)
        return protocol == 1 and _is_branch(top) and _has_arguments(top)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return False


def _is_branch(node: Mapping[str, Json]) -> bool:
    kind, context, parts = node["type"], node["context"], node["children_spec"]
    said = json.loads(context) if isinstance(context, str) and kind != _NAMED else context
    return (
        isinstance(parts, list)
        and (kind is None or _is_place(kind))
        and _is_context(said)
        and all(isinstance(part, Mapping) and _is_branch(part) for part in parts)
    )


_NAMED = "collections.namedtuple"


def _is_context(value: Json) -> bool:
    if isinstance(value, Mapping):
        return value.get("default_factory_module", "builtins") == "builtins" and all(
            _is_place(key) and key != "__enum__" and _is_context(each)
            for key, each in value.items()
        )
    if isinstance(value, list):
        return all(map(_is_context, value))
    return not isinstance(value, str) or _is_place(value)


def _has_arguments(top: Mapping[str, Json]) -> bool:
    """Whether the keywords of a call, if this is one's tree, are names."""
    parts = top["children_spec"]
    if top["type"] != "builtins.tuple" or not isinstance(parts, list) or len(parts) != 2:
        return True
    last = parts[1]
    if not isinstance(last, Mapping) or last["type"] != "builtins.dict":
        return True
    return all(map(_is_argument, json.loads(str(last["context"]))))


def _is_nothing(value: object) -> bool:
    return not value


_NAMES = (_is_name, "it has the name")
_PLACES = (_is_place, "it has the name")
_NUMBERS = (_is_number, "it has the number")
_OBJECTS = (_is_nothing, "it holds the object")
_RULES: Mapping[str, tuple[Callable[[object], bool], str]] = {
    **dict.fromkeys(("name", "as_name"), _NAMES),
    **dict.fromkeys(("parameter_name", "buffer_name", "tensor_constant_name"), _PLACES),
    **dict.fromkeys(("user_input_name", "fqn"), _PLACES),
    "nn_module_stack": (lambda value: not _QUOTE.search(str(value)), "it has the name"),
    **dict.fromkeys(("as_int", "as_bool", "as_none", "min_val", "max_val", "index"), _NUMBERS),
    **dict.fromkeys(("custom_obj", "as_custom_obj", "custom_obj_values"), _OBJECTS),
    **dict.fromkeys(("in_spec", "out_spec"), (_is_tree, "it has the tree")),
    **dict.fromkeys(("expr_str", "guards_code"), (_is_expression, "it has the expression")),
    "forward_arg_names": (lambda value: value is None or _is_argument(value), "it has the name"),
    "type": (_is_device, "it has the device"),
    "path_name": (_is_file, "it reads"),
}
_KEYS: Mapping[str, Callable[[str], bool]] = {
    **dict.fromkeys(_TABLES, _is_name),
    **dict.fromkeys(("config", "as_string_to_argument"), _is_place),
    "range_constraints": _is_symbol,
}
