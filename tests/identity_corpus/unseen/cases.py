"""Changes to a project between two builds of its model, and what the build cache must make of them.

Each case writes a project into a folder (`before`), and then changes it (`after`). The project is
loaded in a fresh process whose current folder is that folder, which comes first on sys.path;
`folder / "site"` is added with `site.addsitedir`, so that .pth files work. `mod:make` returns an
nn.Module that takes one float32 tensor, `example_input()`.

expected:
  miss   the second build must not be served from the cache of the first
  hit    the second build must be served from it
  never  a build must not be served from the cache even if nothing has changed

A case is `debatable` where careful engineers might decide otherwise; `why` then says so.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import textwrap
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from identity_corpus import wheels
from identity_corpus.cases import (
    COMPILED,
    CXX,
    EDITABLE_SOURCES,
    GEMMA,
    HELPED,
    LOADS_WEIGHTS,
    SCALED_BY,
    TIDY,
    USES_FUNCTION,
    USES_GEMMA,
    USES_LAYER,
    VENDOR_FUNCTION,
    VENDOR_LAYER,
    Case,
    Edit,
    array,
    both,
    bytecode,
    compiler,
    editable,
    keeping_time,
    module,
    nothing,
    project,
    replace,
    tensors,
    touched,
    vendor,
    wheel,
    write,
)

if TYPE_CHECKING:
    pass


CASES: list[Case] = []


def add(case: Case) -> None:
    """Add a case to the corpus."""
    CASES.append(case)


# Edits


# Projects


def held(
    name: str,
    why: str,
    build: str,
    use: str,
    old: object,
    new: object,
    *,
    top: str = "",
    by: Literal["file", "env"] = "file",
    needs: tuple[str, ...] = (),
    debatable: bool = False,
) -> None:
    """Add a case where an object that the model holds is built from a value that changes.

    The value comes from value.json or from the variable MODEL_VALUE; mod.py stays as it is. In
    `use`, y is the output of a linear layer, x the input and held the object.
    """
    source = "Path('value.json').read_text()" if by == "file" else "os.environ['MODEL_VALUE']"
    make = f"value = json.loads({source})\n{textwrap.dedent(build)}\nreturn Net(held).eval()\n"
    forward = "y, held = self.linear(x), self.held\n" + textwrap.dedent(use)
    text = module(forward, top=top, make=make)
    if by == "file":
        before = write({"mod.py": text, "value.json": json.dumps(old)})
        after = write({"value.json": json.dumps(new)})
        add(Case(name, before, "miss", why, after, needs=needs, debatable=debatable))
        return
    env_before, env_after = {"MODEL_VALUE": json.dumps(old)}, {"MODEL_VALUE": json.dumps(new)}
    add(
        Case(
            name,
            write({"mod.py": text}),
            "miss",
            why,
            env_before=env_before,
            env_after=env_after,
            needs=needs,
            debatable=debatable,
        )
    )


def same(
    name: str,
    why: str,
    build: str,
    use: str,
    *,
    top: str = "",
    debatable: bool = False,
    seeds: bool = True,
) -> None:
    """Add a case where nothing changes but the hash seed of the process."""
    make = f"{textwrap.dedent(build)}\nreturn Net(held).eval()\n"
    forward = "y, held = self.linear(x), self.held\n" + textwrap.dedent(use)
    add(
        Case(
            name,
            project(forward, top=top, make=make),
            "hit",
            why,
            env_before={"PYTHONHASHSEED": "1"} if seeds else {},
            env_after={"PYTHONHASHSEED": "2"} if seeds else {},
            debatable=debatable,
        )
    )


def never(
    name: str,
    why: str,
    build: str = "held = None",
    use: str = "return y",
    *,
    top: str = "",
    debatable: bool = False,
) -> None:
    """Add a case that must never be served from the cache."""
    make = f"{textwrap.dedent(build)}\nreturn Net(held).eval()\n"
    forward = "y, held = self.linear(x), self.held\n" + textwrap.dedent(use)
    add(Case(name, project(forward, top=top, make=make), "never", why, debatable=debatable))


# Installed distributions


add(
    Case(
        "wheel_function_upgraded",
        both(write({"mod.py": USES_FUNCTION}), vendor("1.0", functions=VENDOR_FUNCTION)),
        "miss",
        "forward calls a function of a distribution that was upgraded",
        vendor("1.1", functions=VENDOR_FUNCTION.replace("x * 3", "x * 4")),
    )
)
add(
    Case(
        "wheel_base_class_upgraded",
        both(
            write(
                {
                    "mod.py": module(
                        "return self.block(self.linear(x))",
                        top="""
                        from vendorlib.layers import Base

                        class Block(Base):
                            def inner(self, x):
                                return x + 1
                        """,
                        init="self.block = Block()",
                    )
                }
            ),
            vendor(
                "1.0",
                layers=VENDOR_LAYER.replace("Layer", "Base").replace("x * 3", "self.inner(x) * 3"),
            ),
        ),
        "miss",
        "the base of a user's class comes from a distribution that was upgraded",
        vendor(
            "1.1",
            layers=VENDOR_LAYER.replace("Layer", "Base").replace("x * 3", "self.inner(x) * 2"),
        ),
    )
)
add(
    Case(
        "wheel_patched_in_place",
        both(write({"mod.py": USES_LAYER}), vendor("1.0", layers=VENDOR_LAYER)),
        "miss",
        "an installed file was edited by hand: version and RECORD stay as they were",
        lambda folder: wheels.patch(folder / "site", "vendorlib/layers.py", "x * 3", "x * 2"),
    )
)


add(
    Case(
        "editable_by_path_changed",
        both(write(EDITABLE_SOURCES), editable(finder=False)),
        "miss",
        "the source of an editable install (a path in a .pth file) was edited",
        replace("checkouts/vendorlib/src/vendorlib/layers.py", "x * 3", "x * 2"),
    )
)
add(
    Case(
        "namespace_portion_upgraded",
        both(
            project(
                "return double(Layer()(self.linear(x)))",
                top="""
                from acme.layers import Layer
                from acme.ops import double
                """,
            ),
            wheel("acme-layers", "1.0", {"acme/layers/__init__.py": VENDOR_LAYER}),
            wheel(
                "acme-ops", "1.0", {"acme/ops/__init__.py": "def double(x):\n    return x * 2\n"}
            ),
        ),
        "miss",
        "two distributions share a namespace package, and one of them was upgraded",
        wheel(
            "acme-ops", "1.1", {"acme/ops/__init__.py": "def double(x):\n    return x + x + 1\n"}
        ),
    )
)
add(
    Case(
        "wheel_with_other_import_name",
        both(
            project(
                "return self.layer(self.linear(x))",
                top="import vl",
                init="self.layer = vl.Layer()",
            ),
            wheel("Vendor-Layers.Pro", "1.0", {"vl/__init__.py": VENDOR_LAYER}),
        ),
        "miss",
        "the import name has nothing in common with the name of the distribution",
        wheel(
            "Vendor-Layers.Pro", "1.1", {"vl/__init__.py": VENDOR_LAYER.replace("x * 3", "x * 4")}
        ),
    )
)
add(
    Case(
        "optional_accelerator_installed",
        project(
            "return run(self.linear(x))",
            top="""
            try:
                from fastvendor import run
            except ImportError:
                def run(x):
                    return x * 2
            """,
        ),
        "miss",
        "an optional distribution was installed, and the model uses it where it is there",
        wheel("fastvendor", "1.0", {"fastvendor.py": "def run(x):\n    return (x * 2).half()\n"}),
    )
)
add(
    Case(
        "wheel_patches_torch_at_startup",
        project("return F.relu(self.linear(x))"),
        "miss",
        "a distribution was installed that replaces a function of torch when Python starts",
        wheel(
            "vendor-patch",
            "1.0",
            {
                "vendor_patch.py": (
                    "import torch\n\n\n"
                    "def relu(x, inplace=False):\n"
                    "    return x.clamp(min=0.5)\n\n\n"
                    "torch.nn.functional.relu = relu\n"
                ),
                "vendor_patch.pth": "import vendor_patch\n",
            },
        ),
    )
)
add(
    Case(
        "wheel_reads_environment_at_import",
        both(
            write({"mod.py": USES_FUNCTION}),
            vendor(
                "1.0",
                functions="import os\n\nSCALE = float(os.environ.get('VENDOR_SCALE', '1'))\n\n\n"
                "def scaled(x):\n    return x * SCALE\n",
            ),
        ),
        "miss",
        "an installed module reads a variable of the environment when it is imported",
        env_before={"VENDOR_SCALE": "2"},
        env_after={"VENDOR_SCALE": "3"},
    )
)

# Hugging Face configurations


add(
    Case(
        "hf_config_softcapping_compiled",
        write({"mod.py": USES_GEMMA, "model/config.json": json.dumps(GEMMA)}),
        "miss",
        "the same, and the build is compiled: the number is a constant in its code",
        write({"model/config.json": json.dumps(GEMMA | {"final_logit_softcapping": 0.7})}),
        conversion="inductor",
        needs=("transformers",),
    )
)
add(
    Case(
        "hf_config_attribute_set_by_environment",
        write(
            {
                "mod.py": USES_GEMMA.replace(
                    "    torch.manual_seed(1)\n",
                    "    config.final_logit_softcapping = float(os.environ['SOFTCAP'])\n"
                    "    torch.manual_seed(1)\n",
                ),
                "model/config.json": json.dumps(GEMMA),
            }
        ),
        "miss",
        "the factory overrides a value of the configuration from the environment",
        env_before={"SOFTCAP": "30"},
        env_after={"SOFTCAP": "0.5"},
        needs=("transformers",),
    )
)

# Objects that a model holds

held(
    "dataclass_hidden_from_repr",
    "a field of a dataclass that neither repr() nor == show",
    "held = Settings(scale=value)",
    "return y * held.scale",
    2.0,
    3.0,
    top="""
    from dataclasses import dataclass, field

    @dataclass
    class Settings:
        scale: float = field(repr=False, compare=False)
    """,
)
held(
    "frozen_dataclass_nested",
    "a field of a frozen dataclass inside another",
    "held = Outer(Inner(value))",
    "return y * held.inner.scale",
    2.0,
    3.0,
    top="""
    from dataclasses import dataclass

    @dataclass(frozen=True, slots=True)
    class Inner:
        scale: float

    @dataclass(frozen=True)
    class Outer:
        inner: Inner
    """,
)
held(
    "argparse_namespace",
    "a value in the result of an argument parser",
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", type=float)
    held = parser.parse_args(["--scale", str(value)])
    """,
    "return y * held.scale",
    2.0,
    3.0,
    top="import argparse",
)
held(
    "slots_inherited",
    "a slot that a base class declares",
    "held = Settings(value)",
    "return y * held.scale",
    2.0,
    3.0,
    top="""
    class Base:
        __slots__ = ("scale",)

    class Settings(Base):
        __slots__ = ("name",)

        def __init__(self, scale):
            self.scale = scale
    """,
)
held(
    "tensor_type",
    "a plain tensor of the same values in another type",
    "held = torch.ones(4, dtype=getattr(torch, value))",
    "return y * held",
    "float32",
    "float64",
    by="env",
)
held(
    "tensor_view_strides",
    "a view with other strides of the same storage",
    "held = torch.arange(16.0).reshape(4, 4)\nheld = held.t() if value else held",
    "return y @ held",
    False,
    True,
)
held(
    "tensor_lazy_conjugate",
    "a lazily conjugated view of the same storage",
    "held = torch.tensor([1 + 2j])\nheld = held.conj() if value else held",
    "return y * held.real + held.imag",
    False,
    True,
    by="env",
)
held("bytes", "bytes", "held = value.encode()", "return y * held[0]", "a", "b")
held(
    "complex_number",
    "the imaginary part of a complex number",
    "held = complex(1, value)",
    "return y * abs(held)",
    1.0,
    2.0,
)
held(
    "float_negative_zero",
    "zero and negative zero are equal, yet they differ",
    "held = float(value)",
    "return torch.copysign(y, torch.tensor(held))",
    "0.0",
    "-0.0",
)
held(
    "boolean_or_integer",
    "True and 1 are equal, yet the output has another type",
    "held = value",
    "return torch.full((2,), held)",
    True,
    1,
    by="env",
)
held(
    "none_or_string",
    "None in place of the string 'None'",
    "held = value",
    "return y if held is None else -y",
    None,
    "None",
)
held(
    "slice_object",
    "a slice",
    "held = slice(0, value)",
    "return y[:, held]",
    2,
    3,
)
held(
    "dict_key_type",
    "the key '1' in place of the key 1",
    "held = {value: 2.0}",
    "return y * held.get(1, 5.0)",
    1,
    "1",
)
held(
    "list_boundaries",
    "the same numbers in the same order, parted elsewhere",
    "held = value",
    "return y * len(held[0])",
    [[1], [2, 3]],
    [[1, 2], [3]],
)
held(
    "deque",
    "a queue",
    "held = deque(value, maxlen=4)",
    "return y * held[0]",
    [2, 3],
    [4, 3],
    top="from collections import deque",
    by="env",
)
held(
    "defaultdict_factory",
    "the factory of a defaultdict that holds nothing yet",
    "held = defaultdict(int if value == 'int' else two)",
    'return y * (1 + held["head"])',
    "int",
    "two",
    top="""
    from collections import defaultdict

    def two():
        return 2
    """,
)
held(
    "mapping_proxy",
    "a read-only view of a dictionary",
    'held = MappingProxyType({"scale": value})',
    'return y * held["scale"]',
    2.0,
    3.0,
    top="from types import MappingProxyType",
    by="env",
)
held(
    "deeply_nested",
    "a value sixty lists deep",
    """
    held = value
    for _ in range(60):
        held = [held]
    """,
    """
    while isinstance(held, list):
        held = held[0]
    return y * held
    """,
    2.0,
    3.0,
)
held(
    "partial",
    "a keyword of functools.partial",
    "held = partial(scaled_by, factor=value)",
    "return held(y)",
    2.0,
    3.0,
    top="from functools import partial\n" + SCALED_BY,
)
held(
    "closure_cell",
    "the variable of a closure",
    "held = scaled(value)",
    "return held(y)",
    2.0,
    3.0,
    top="""
    def scaled(factor):
        def inner(y):
            return y * factor

        return inner
    """,
    by="env",
)
held(
    "closure_in_closure",
    "a tensor in the closure of a function in a closure",
    "held = outer(scaled(torch.tensor(value)))",
    "return held(y)",
    2.0,
    3.0,
    top="""
    def scaled(factor):
        return lambda y: y * factor

    def outer(function):
        return lambda y: function(y) + 1
    """,
)
held(
    "numpy_ufunc",
    "a universal function of numpy",
    "held = getattr(np, value)",
    "return y + torch.from_numpy(held(x.numpy()))",
    "sin",
    "cos",
    top="import numpy as np",
    by="env",
)
held(
    "module_in_list",
    "a layer in a plain list: it is no submodule",
    "held = [nn.Linear(4, 4)]\nnn.init.constant_(held[0].weight, value)",
    "return held[0](y)",
    0.5,
    0.25,
)
held(
    "class_made_at_run_time",
    "two classes with the same name and another attribute",
    'held = type("Rule", (), {"scale": value})',
    "return y * held.scale",
    2.0,
    3.0,
)
held(
    "thread_local",
    "an attribute of a thread-local object",
    "held = threading.local()\nheld.scale = value",
    "return y * held.scale",
    2.0,
    3.0,
    top="import threading",
)
held(
    "context_variable",
    "the value of a context variable that the factory sets",
    "SCALE.set(value)\nheld = SCALE",
    "return y * held.get()",
    2.0,
    3.0,
    top='import contextvars\n\nSCALE = contextvars.ContextVar("SCALE", default=1.0)\n',
    by="env",
)
held(
    "script_unit",
    "a TorchScript function compiled from text that the model does not keep",
    'held = torch.jit.CompilationUnit(f"def apply(y):\\n    return y * {value}\\n")',
    "return held.apply(y)",
    2.0,
    3.0,
)
held(
    "fx_graph",
    "an fx graph in which another function is called",
    """
    held = torch.fx.symbolic_trace(Inner())
    for node in held.graph.nodes:
        if node.op == "call_function":
            node.target = getattr(torch, value)
    held.recompile()
    """,
    "return held(y)",
    "sin",
    "cos",
    top="""
    import torch.fx

    class Inner(nn.Module):
        def forward(self, y):
            return torch.sin(y)
    """,
)


# Code of the user


def edited(
    name: str,
    why: str,
    contents: Mapping[str, str],
    path: str,
    old: str,
    new: str,
    *,
    debatable: bool = False,
    expected: Literal["miss", "hit"] = "miss",
    conversion: Literal["eager", "inductor", "aot_inductor"] = "eager",
) -> None:
    """Add a case where a text in one file is replaced."""
    add(
        Case(
            name,
            write(contents),
            expected,
            why,
            replace(path, old, new),
            debatable=debatable,
            conversion=conversion,
        )
    )


edited(
    "operator_changed",
    "an operator in forward",
    {"mod.py": module("return self.linear(x) + 2.0")},
    "mod.py",
    "+ 2.0",
    "* 2.0",
)
edited(
    "helper_by_name",
    "a function that is reached by its name only",
    {
        "mod.py": module(
            'return getattr(helpers, "scaled_" + "two")(self.linear(x))', top="import helpers"
        ),
        "helpers.py": "def scaled_two(y):\n    return y * 2\n",
    },
    "helpers.py",
    "y * 2",
    "y + y + 1",
)
edited(
    "base_class_of_user",
    "a method that a user's class inherits from another file",
    {
        "mod.py": module(
            "return self.block(self.linear(x))",
            top="""
            from base import Base

            class Block(Base):
                pass
            """,
            init="self.block = Block()",
        ),
        "base.py": (
            "from torch import nn\n\n\nclass Base(nn.Module):\n"
            "    def forward(self, y):\n        return y * 2\n"
        ),
    },
    "base.py",
    "y * 2",
    "y * 3",
)
edited(
    "single_dispatch_registration",
    "another module registers the variant of a generic function that a tensor gets",
    {
        "mod.py": module(
            "return scaled(self.linear(x))", top="import variants\nfrom generic import scaled"
        ),
        "generic.py": (
            "from functools import singledispatch\n\n\n@singledispatch\n"
            "def scaled(y):\n    return y\n"
        ),
        "variants.py": (
            "import torch\nfrom generic import scaled\n\n\n"
            "@scaled.register\ndef _(y: torch.Tensor):\n    return y * 2\n"
        ),
    },
    "variants.py",
    "y * 2",
    "y * 3",
)
edited(
    "autograd_function",
    "the forward of a torch.autograd.Function",
    {
        "mod.py": module(
            "return Scaled.apply(self.linear(x))",
            top="""
            class Scaled(torch.autograd.Function):
                @staticmethod
                def forward(ctx, y):
                    return y * 2

                @staticmethod
                def backward(ctx, gradient):
                    return gradient
            """,
        )
    },
    "mod.py",
    "y * 2",
    "y * 3",
)
edited(
    "expression_in_data_file",
    "an expression that forward evaluates from a text file",
    {
        "mod.py": module('return eval(Path("rule.txt").read_text(), {"y": self.linear(x)})'),
        "rule.txt": "y * 2",
    },
    "rule.txt",
    "* 2",
    "+ 2",
)
edited(
    "star_import",
    "a constant that comes by a star import",
    {
        "mod.py": module("return self.linear(x) * SCALE", top="from constants import *"),
        "constants.py": "SCALE = 2.0\n",
    },
    "constants.py",
    "2.0",
    "3.0",
)

# State that the factory or a file sets while mod.py stays as it is


def stateful(
    name: str,
    why: str,
    make: str,
    old: str,
    new: str,
    *,
    forward: str = "return self.linear(x)",
    top: str = "",
    init: str = "",
    by: Literal["file", "env"] = "file",
    expected: Literal["miss", "hit"] = "miss",
    debatable: bool = False,
) -> None:
    """Add a case where make() does something with `value`, a number in a file or a variable."""
    source = "Path('value.txt').read_text()" if by == "file" else "os.environ['MODEL_VALUE']"
    make = f"value = float({source})\nnet = Net().eval()\n{textwrap.dedent(make)}\nreturn net\n"
    text = module(forward, top=top, init=init, make=make)
    after = write({"value.txt": new}) if by == "file" else nothing
    add(
        Case(
            name,
            write({"mod.py": text} | ({"value.txt": old} if by == "file" else {})),
            expected,
            why,
            after,
            env_before={"MODEL_VALUE": old} if by == "env" else {},
            env_after={"MODEL_VALUE": new} if by == "env" else {},
            debatable=debatable,
        )
    )


stateful(
    "global_of_other_module_set_by_factory",
    "the factory sets a global of another module",
    "settings.SCALE = value",
    "2",
    "3",
    forward="return self.linear(x) * settings.SCALE",
    top="""
    import types

    settings = types.ModuleType("settings")
    """,
    by="env",
)
stateful(
    "forward_replaced_on_instance",
    "the factory replaces forward of one layer",
    "net.linear.forward = types.MethodType(first if value > 2 else second, net.linear)",
    "2",
    "3",
    top="""
    import types

    def first(self, x):
        return F.linear(x, self.weight) * 2

    def second(self, x):
        return F.linear(x, self.weight) * 3
    """,
    by="env",
)
stateful(
    "forward_replaced_on_torch_class",
    "the factory replaces forward of a class of torch",
    """
    if value > 2:
        nn.Linear.forward = doubled
    """,
    "2",
    "3",
    top="""
    def doubled(self, x):
        return F.linear(x, self.weight) * 2
    """,
    by="env",
)
stateful(
    "parametrization",
    "the state of a parametrization",
    'parametrize.register_parametrization(net.linear, "weight", Scaled(value))',
    "2",
    "3",
    top="""
    from torch.nn.utils import parametrize

    class Scaled(nn.Module):
        def __init__(self, factor):
            super().__init__()
            self.factor = [factor]

        def forward(self, weight):
            return weight * self.factor[0]
    """,
    by="env",
)
stateful(
    "buffer",
    "a buffer",
    'net.register_buffer("scale", torch.tensor(value))',
    "2",
    "3",
    forward="return self.linear(x) * self.scale",
)
stateful(
    "order_of_layers",
    "the order of layers in a Sequential",
    "layers = [nn.ReLU(), nn.Sigmoid()]\nnet.tail = nn.Sequential(*layers[:: int(value)])",
    "1",
    "-1",
    forward="return self.tail(self.linear(x) - 0.5)",
    by="env",
)
stateful(
    "default_type_of_torch",
    "the factory sets the default type of torch, and forward makes a tensor; a tool may keep "
    "the defaults of the process out of what the factory returns",
    "torch.set_default_dtype(torch.float64 if value > 2 else torch.float32)",
    "2",
    "3",
    forward="return self.linear(x) + torch.full((1,), 0.1)",
    by="env",
    debatable=True,
)
stateful(
    "flag_read_by_forward",
    "a flag of a layer that forward reads",
    "net.normalise = value > 2",
    "2",
    "3",
    forward="y = self.linear(x)\nreturn F.normalize(y) if self.normalise else y",
    by="env",
)
stateful(
    "dropout_probability",
    "in evaluation mode the probability changes no output; the model is another one all the same",
    "net.drop = nn.Dropout(value).eval()",
    "0.1",
    "0.5",
    forward="return self.drop(self.linear(x))",
    by="env",
    debatable=True,
)


# Environment and files

add(
    Case(
        "weights_file",
        both(write({"mod.py": LOADS_WEIGHTS}), tensors("weights.pt", **{"linear.bias": [0.0] * 4})),
        "miss",
        "the file of the weights was written anew with other values",
        tensors("weights.pt", **{"linear.bias": [0.0, 0.0, 0.0, 1e-3]}),
    )
)
add(
    Case(
        "weights_file_same_size_and_time",
        both(write({"mod.py": LOADS_WEIGHTS}), tensors("weights.pt", **{"linear.bias": [0.0] * 4})),
        "miss",
        "other weights in a file of the same size and modification time",
        keeping_time("weights.pt", tensors("weights.pt", **{"linear.bias": [0.5, 0.0, 0.0, 0.0]})),
    )
)
add(
    Case(
        "memory_map",
        both(
            project(
                "return self.linear(x) * torch.from_numpy(np.array(self.held))",
                top="import numpy as np",
                make='return Net(np.load("table.npy", mmap_mode="r")).eval()',
            ),
            array("table.npy", [1.0, 2.0, 3.0, 4.0]),
        ),
        "miss",
        "the model holds a memory map of a data file",
        array("table.npy", [1.0, 2.0, 3.0, 5.0]),
    )
)
add(
    Case(
        "override_file_for_forward_appears",
        project(
            """
            override = Path("override.json")
            factor = json.loads(override.read_text()) if override.exists() else 1.0
            return self.linear(x) * factor
            """
        ),
        "miss",
        "a file that was absent appears, and forward looks for it",
        write({"override.json": "2.0"}),
    )
)
add(
    Case(
        "user_code_same_size_and_time",
        project("return self.linear(x) * 2.0"),
        "miss",
        "user code was edited, and its size and modification time stay as they were",
        keeping_time("mod.py", replace("mod.py", "2.0", "4.0")),
    )
)
add(
    Case(
        "file_in_home",
        both(
            project('return self.linear(x) * float((Path.home() / ".net").read_text())'),
            write({"home/a/.net": "2", "home/b/.net": "3"}),
        ),
        "miss",
        "forward reads a file in the home folder, and HOME leads elsewhere",
        env_before={"HOME": "{folder}/home/a"},
        env_after={"HOME": "{folder}/home/b"},
    )
)


def database(value: float) -> Edit:
    """Write a SQLite database with one number."""

    def edit(folder: Path) -> None:
        path = folder / "settings.db"
        path.unlink(missing_ok=True)
        connection = sqlite3.connect(path)
        connection.execute("create table settings (scale real)")
        connection.execute("insert into settings values (?)", (value,))
        connection.commit()
        connection.close()

    return edit


add(
    Case(
        "database",
        both(
            project(
                "return self.linear(x) * self.held",
                top="import sqlite3",
                make="""
                connection = sqlite3.connect("settings.db")
                scale = connection.execute("select scale from settings").fetchone()[0]
                return Net(scale).eval()
                """,
            ),
            database(2.0),
        ),
        "miss",
        "the factory reads a number from a database",
        database(3.0),
    )
)


def archive(text: str) -> Edit:
    """Write library.zip with one module."""

    def edit(folder: Path) -> None:
        with zipfile.ZipFile(folder / "library.zip", "w") as handle:
            handle.writestr("zipped.py", text)

    return edit


add(
    Case(
        "module_in_archive",
        both(
            project(
                "return zipped.scaled(self.linear(x))",
                top="""
                import sys

                sys.path.insert(0, str(Path(__file__).parent / "library.zip"))
                import zipped
                """,
            ),
            archive("def scaled(y):\n    return y * 2\n"),
        ),
        "miss",
        "a module is imported from an archive that was written anew",
        archive("def scaled(y):\n    return y * 3\n"),
    )
)

# Compiled code: compiler, environment, processor


def compiled(
    name: str,
    why: str,
    env_before: Mapping[str, str],
    env_after: Mapping[str, str],
    *,
    before: Edit = nothing,
    after: Edit = nothing,
    expected: Literal["miss", "hit"] = "miss",
    conversion: Literal["eager", "inductor", "aot_inductor"] = "inductor",
    debatable: bool = False,
) -> None:
    """Add a case about the surroundings of a compiled build."""
    add(
        Case(
            name,
            both(write({"mod.py": COMPILED}), before),
            expected,
            why,
            after,
            env_before=env_before,
            env_after=env_after,
            conversion=conversion,
            debatable=debatable,
        )
    )


compiled(
    "compiler_upgraded",
    "the compiler behind CXX is another version; its path is the same",
    CXX,
    CXX,
    before=compiler("tools/cxx", "12.2.0"),
    after=compiler("tools/cxx", "14.1.0"),
)
compiled(
    "compiler_first_on_path",
    "CXX is not set, and another g++ comes first on PATH",
    {"PATH": "{folder}/tools/old:{PATH}"},
    {"PATH": "{folder}/tools/new:{PATH}"},
    before=both(compiler("tools/old/g++", "11.4.0"), compiler("tools/new/g++", "13.1.0")),
)
compiled(
    "inductor_dynamic_threads",
    "a variable of Inductor: the number of threads is found when the code runs",
    {},
    {"TORCHINDUCTOR_CPP_DYNAMIC_THREADS": "1"},
    conversion="aot_inductor",
)
compiled(
    "inductor_cpp_wrapper",
    "a variable of Inductor: the calls are written in C++",
    {},
    {"TORCHINDUCTOR_CPP_WRAPPER": "1"},
)
compiled(
    "dynamo_disabled",
    "a variable by which nothing is compiled at all",
    {},
    {"TORCHDYNAMO_DISABLE": "1"},
)
compiled(
    "openblas_core",
    "the kernels of OpenBLAS; where torch has MKL instead, nothing changes",
    {},
    {"OPENBLAS_CORETYPE": "Nehalem"},
    debatable=True,
)
compiled(
    "compiler_of_eager",
    "nothing is compiled, so the compiler has no part in it; a coarse key may still hold it",
    CXX,
    CXX,
    before=compiler("tools/cxx", "12.2.0"),
    after=compiler("tools/cxx", "14.1.0"),
    expected="hit",
    conversion="eager",
    debatable=True,
)
compiled(
    "unrelated_variables_compiled",
    "variables of the terminal and the user",
    {"TERM": "xterm", "LOGNAME": "ada", "SHLVL": "1"},
    {"TERM": "dumb", "LOGNAME": "bob", "SHLVL": "3"},
    expected="hit",
    conversion="aot_inductor",
)


# Edits that change nothing


def tidied(
    name: str,
    why: str,
    old: str,
    new: str,
    *,
    debatable: bool = False,
    conversion: Literal["eager", "inductor", "aot_inductor"] = "eager",
) -> None:
    """Add a case where a text of TIDY is replaced by an equal one."""
    edited(
        name,
        why,
        {"mod.py": TIDY},
        "mod.py",
        old,
        new,
        debatable=debatable,
        expected="hit",
        conversion=conversion,
    )


tidied(
    "comment_added",
    "a comment above forward",
    "        y = self",
    "        # Apply.\n        y = self",
)
tidied("quotes", "single quotes", '{"first": 1, "second": 2}', "{'first': 1, 'second': 2}")
tidied("spaces", "spaces around operators", "y * factor", "y*factor")
tidied("parentheses", "parentheses that change nothing", "y * factor", "(y * (factor))")
tidied(
    "import_order",
    "two imports that do not depend on each other change places",
    "import json\nimport os\n",
    "import os\nimport json\n",
)
tidied(
    "byte_order_mark",
    "a byte order mark at the head of the file",
    '"""A network',
    '\ufeff"""A network',
)
tidied("line_endings", "the line endings of another system", "\n", "\r\n")
tidied(
    "unused_import_removed",
    "an import that nothing uses; an engineer may count it as a change of code",
    "import json\n",
    "",
    debatable=True,
)
tidied(
    "annotation_added",
    "annotations that nothing reads; some tools compile by them",
    "(y, factor=2.0)",
    "(y: torch.Tensor, factor: float = 2.0) -> torch.Tensor",
    debatable=True,
)


def beside(
    name: str,
    why: str,
    after: Edit,
    *,
    before: Edit = nothing,
    env_before: Mapping[str, str] | None = None,
    env_after: Mapping[str, str] | None = None,
    moved: bool = False,
    linked: bool = False,
    debatable: bool = False,
    conversion: Literal["eager", "inductor", "aot_inductor"] = "eager",
) -> None:
    """Add a case where something beside the model changes."""
    add(
        Case(
            name,
            both(write(HELPED), before),
            "hit",
            why,
            after,
            env_before=env_before or {},
            env_after=env_after or {},
            moved=moved,
            linked=linked,
            debatable=debatable,
            conversion=conversion,
        )
    )


def recreated(relative: str) -> Edit:
    """Write a file anew with the same content."""

    def edit(folder: Path) -> None:
        path = folder / relative
        data = path.read_bytes()
        path.unlink()
        (folder / "filler").write_text("takes the place")
        path.write_bytes(data)
        (folder / "filler").unlink()

    return edit


def copied(relative: str, target: str) -> Edit:
    """Copy a file."""

    def edit(folder: Path) -> None:
        shutil.copy(folder / relative, folder / target)

    return edit


beside(
    "unrelated_module_added",
    "a new Python file that nothing imports",
    write({"plots.py": "import helpers\n\nhelpers.SCALE = 7\n"}),
)
beside("test_changed", "a test of the user", replace("tests/test_mod.py", "pass", "assert True"))
beside(
    "unrelated_wheel_installed",
    "a distribution was installed that the model does not use",
    wheel("bystander", "1.0", {"bystander/__init__.py": "VALUE = 1\n"}),
)
beside("files_touched", "other modification times of all files", touched)
beside("file_recreated", "a file with the same content was written anew", recreated("helpers.py"))
beside("bytecode_present", "compiled files lie beside the source", bytecode)
beside(
    "shell_variables",
    "what a shell sets: the former folder, the depth, the terminal, the user",
    nothing,
    env_before={"OLDPWD": "/", "SHLVL": "1", "TERM": "xterm", "USER": "ada"},
    env_after={"OLDPWD": "/tmp", "SHLVL": "2", "TERM": "dumb", "USER": "bob"},
)
add(
    Case(
        "wheel_reinstalled",
        both(write({"mod.py": USES_LAYER}), vendor("1.0", layers=VENDOR_LAYER)),
        "hit",
        "the same wheel was installed again",
        both(
            lambda folder: wheels.uninstall(folder / "site", "vendorlib"),
            vendor("1.0", layers=VENDOR_LAYER),
            touched,
        ),
    )
)
add(
    Case(
        "wheel_moved",
        both(write({"mod.py": USES_LAYER}), vendor("1.0", layers=VENDOR_LAYER)),
        "hit",
        "the folder was copied to another path together with its installed distributions",
        moved=True,
    )
)
add(
    Case(
        "weights_link_replaced_by_file",
        both(
            write({"mod.py": LOADS_WEIGHTS}),
            tensors("first.pt", **{"linear.bias": [0.5] * 4}),
            lambda folder: (folder / "weights.pt").symlink_to("first.pt"),
        ),
        "hit",
        "a file with the same content stands in the place of a symbolic link",
        both(
            lambda folder: (folder / "weights.pt").unlink(),
            copied("first.pt", "weights.pt"),
        ),
    )
)
add(
    Case(
        "json_reformatted",
        write(
            {
                "mod.py": module(
                    "return self.linear(x) * self.held",
                    make='return Net(json.loads(Path("c.json").read_text())["scale"]).eval()',
                ),
                "c.json": '{"scale": 2.0}',
            }
        ),
        "hit",
        "a data file with the same meaning in other spelling; its bytes differ",
        write({"c.json": '{\n  "scale": 2.0\n}\n'}),
        debatable=True,
    )
)


# Unchanged models: what can be hashed must be hashed alike in every process

same(
    "unchanged_settings",
    "named tuples, enumerations, data classes, namespaces and objects without repr()",
    "held = [Point(1, 2), Mode.A, Settings(3.0), SimpleNamespace(a=1), Plain()]",
    "return y * held[2].scale + held[4].number",
    top="""
    from dataclasses import dataclass
    from enum import Enum
    from types import SimpleNamespace
    from typing import NamedTuple

    class Point(NamedTuple):
        x: int
        y: int

    class Mode(Enum):
        A = 1

    @dataclass
    class Settings:
        scale: float

    class Plain:
        def __init__(self):
            self.number = 1
    """,
)
same(
    "unchanged_cycle",
    "objects that point to each other",
    "held = Node()\nheld.other = Node(held)\nheld.me = [held]",
    "return y * len(held.me)",
    top="""
    class Node:
        def __init__(self, parent=None):
            self.parent = parent
    """,
)
same(
    "unchanged_logger",
    "a logger holds locks and streams, yet it changes no output; one may also never trust it",
    'held = logging.getLogger("net")',
    'held.debug("forward")\nreturn y',
    top="import logging",
    debatable=True,
)


# Models that must never be served from the cache

never(
    "opaque_parser",
    "a parser implemented in C, whose callbacks and progress cannot be reached",
    'held = pyexpat.ParserCreate()\nheld.Parse("<a><b/>")',
    "return y * (1 + held.CurrentByteIndex)",
    top="import pyexpat",
)
never(
    "date_in_helper",
    "a function that forward calls reads the date and time",
    use="return y * stamp()",
    top="""
    from datetime import datetime

    def stamp():
        return datetime.now().microsecond + 1
    """,
)
never(
    "process_in_forward",
    "forward uses the number of the process",
    use="return y * os.getpid()",
)
never(
    "running_thread",
    "a thread changes the factor while the model runs",
    """
    held = {"factor": 1}
    threading.Thread(target=count, args=(held,), daemon=True).start()
    """,
    'time.sleep(0.02)\nreturn y * held["factor"]',
    top="""
    import threading
    import time

    def count(state):
        while True:
            state["factor"] = time.perf_counter_ns() % 1_000_003 + 1
            time.sleep(0.001)
    """,
)
never(
    "unpicklable_counter",
    "an object that refuses to show its state, and counts calls",
    "held = Counter()",
    "return y * held()",
    top="""
    class Counter:
        __slots__ = ("_next",)

        def __init__(self):
            self._next = iter(open("/dev/urandom", "rb").read(64)).__next__

        def __reduce_ex__(self, protocol):
            raise TypeError("a counter cannot be copied")

        def __call__(self):
            return self._next() + 1
    """,
)
never(
    "random_numbers_of_torch_in_forward",
    "forward draws from the generator of torch; a tool may seed it, and serve the build",
    use="return y * torch.rand(())",
    debatable=True,
)
