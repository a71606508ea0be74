"""What changes the build key of a user's model, what does not, and what is never a hit."""

from __future__ import annotations

import base64
import hashlib
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest

from support import identity_lab
from support.identity_lab import Identity
from support.slices import one_in, only

NET = """
import torch

{top}

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        {init}

    def forward(self, x):
        {forward}


def make():
    {make}
    return Net()
"""


def identity_of(folder: Path, target: str, *, inputs: str = "x", **options: object) -> Identity:
    """That of a model whose forward takes x alone."""
    return identity_lab.identity_of(folder, target, inputs=[inputs], **options)  # type: ignore[arg-type]


def net(
    *, top: str = "", init: str = "pass", forward: str = "return self.linear(x)", make: str = "pass"
) -> dict[str, str]:
    return {"mm.py": NET.format(top=textwrap.dedent(top), init=init, forward=forward, make=make)}


def write(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def site_with(
    folder: Path, version: str, files: Mapping[str, str], name: str = "vendorlib"
) -> Path:
    """A site-packages folder with one distribution, as an installer leaves it."""
    write(folder, files)
    rows = []
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        rows.append(f"{path},sha256={digest.decode()},{len(text)}")
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    record = "\n".join([*rows, f"{info}/METADATA,,", f"{info}/RECORD,,", ""])
    write(folder, {f"{info}/METADATA": metadata, f"{info}/RECORD": record})
    return folder


def both(
    place: Path, before: Mapping[str, str], after: Mapping[str, str], **options: object
) -> tuple[Identity, Identity]:
    first, second = write(place / "a", before), write(place / "b", after)
    return (
        identity_of(first, "mm:make", **options),
        identity_of(second, "mm:make", server=1, **options),
    )


CONFIGS = """
import types, dataclasses, functools, numpy as np
@dataclasses.dataclass
class Config:
    scale: float = 1.0
import collections
plus, minus = (lambda x: x), (lambda x: -x)
def scaled(k):
    return lambda x: x * k
def made(k):
    class Made:
        scale = k
    return Made
"""
ATTRIBUTES = [
    ("types.SimpleNamespace(scale=1.0)", "types.SimpleNamespace(scale=2.0)"),
    ("Config(1.0)", "Config(2.0)"),
    ("torch.tensor([1.0, 2.0])", "torch.tensor([1.0, 3.0])"),
    ("np.array([1.0, 2.0])", "np.array([1.0, 3.0])"),
    ("functools.partial(torch.mul, other=2)", "functools.partial(torch.mul, other=3)"),
    ("{1, 2}", "{1, 3}"),
    ("torch.float32", "torch.float64"),
    ("(lambda k: lambda x: x * k)(2)", "(lambda k: lambda x: x * k)(3)"),
    ("1", "1.0"),
    ("1", "True"),
    ("{'a': 1, 'b': 2}", "{'b': 2, 'a': 1}"),
    ("[torch.nn.Linear(2, 2), 1]", "[torch.nn.Linear(2, 2), 2]"),
    ("b'ab'", "b'ac'"),
    ("torch.Generator().manual_seed(1)", "torch.Generator().manual_seed(2)"),
    ("np.random.default_rng(1)", "np.random.default_rng(2)"),
    ("list(range(500))", "list(range(499)) + [7]"),
    ("torch.nn.functional.relu", "torch.nn.functional.gelu"),
    ("[scaled(2), scaled(2), scaled(3)]", "[scaled(2), scaled(3), scaled(3)]"),
    ("[made(2)(), made(2)(), made(3)()]", "[made(2)(), made(3)(), made(3)()]"),
    ("[plus, minus]", "[minus, plus]"),
    ("collections.defaultdict(lambda: 1)", "collections.defaultdict(lambda: 2)"),
]


@pytest.mark.parametrize(("before", "after"), one_in(6, ATTRIBUTES))
def test_another_value_of_an_attribute_is_another_model(
    tmp_path: Path, before: str, after: str
) -> None:
    # It is read from a file, so that the code is the same.
    made = "import os; self.held = eval(open('value.txt').read(), globals())"
    files = net(top=CONFIGS, init=made)
    first, second = both(tmp_path, {**files, "value.txt": before}, {**files, "value.txt": after})
    assert first.key is not None
    assert second.key is not None
    assert first.key != second.key
    assert "model.module.held" in first.why


CALLS_HELPER = net(top="import helper", forward="return helper.f(x)")
PLUGIN = "from base import Base\nimport plugin"


def helped(call: str, *, top: str = "", init: str = "pass") -> tuple[dict[str, str], ...]:
    """A model that calls helper.f in some way, and another helper.f."""
    calls = net(top=f"import helper\n{top}", init=init, forward=f"return {call}")
    return tuple({**calls, "helper.py": f"def f(x): return {y}"} for y in ("x", "-x"))


def plugin(value: str) -> dict[str, str]:
    """A class that nothing names."""
    code = f"from base import Base\nclass P(Base):\n    def __call__(self, x): return {value}\n"
    return {"base.py": "class Base:\n    pass\n", "plugin.py": code}


LOGS = net(
    top="import logging\nlog = logging.getLogger(__name__)", forward="log.debug(1); return x"
)


CODE = {
    "operator": (net(), net(forward="return -self.linear(x)")),
    "constant": (net(forward="return x * 2"), net(forward="return x * 2.0")),
    "global": (
        net(top="SCALE = 2", forward="return x * SCALE"),
        net(top="SCALE = 3", forward="return x * SCALE"),
    ),
    "function of a function": (
        net(top="def f(x):\n    return g(x)\ndef g(x):\n    return x", forward="return f(x)"),
        net(top="def f(x):\n    return g(x)\ndef g(x):\n    return -x", forward="return f(x)"),
    ),
    "default": (
        net(top="def f(x, k=1):\n    return x * k", forward="return f(x)"),
        net(top="def f(x, k=2):\n    return x * k", forward="return f(x)"),
    ),
    "helper module": (
        {
            **CALLS_HELPER,
            "helper.py": "def f(x): return x",
        },
        {
            **CALLS_HELPER,
            "helper.py": "def f(x): return -x",
        },
    ),
    "helper of a local import": (
        {**net(forward="from helper import f; return f(x)"), "helper.py": "def f(x): return x"},
        {**net(forward="from helper import f; return f(x)"), "helper.py": "def f(x): return -x"},
    ),
    "base class": (
        {
            **net(top="from base import B", init="self.b = B()", forward="return self.b(x)"),
            "base.py": "class A:\n    def __call__(self, x): return x\nclass B(A):\n    pass",
        },
        {
            **net(top="from base import B", init="self.b = B()", forward="return self.b(x)"),
            "base.py": "class A:\n    def __call__(self, x): return -x\nclass B(A):\n    pass",
        },
    ),
    "function named by a text": (
        {
            **net(top="import helper", forward="return getattr(helper, 'f' + 'g')(x)"),
            "helper.py": "def fg(x): return x",
        },
        {
            **net(top="import helper", forward="return getattr(helper, 'f' + 'g')(x)"),
            "helper.py": "def fg(x): return -x",
        },
    ),
    "module in an attribute": helped("self.lib.f(x)", init="self.lib = helper"),
    "module in a container": helped("LIBS['a'].f(x)", top="LIBS = {'a': helper}"),
    "module that a function returns": helped("lib().f(x)", top="def lib():\n    return helper"),
    "module as an argument": helped("by(helper, x)", top="def by(lib, x):\n    return lib.f(x)"),
    "module of a local import": helped(
        "by(x)", top="def by(x):\n    import helper as h\n    g = h\n    return g.f(x)"
    ),
    "module in evaluated text": helped("eval('hel' + 'per.f(x)')"),
    "module by the list of all": helped("sys.modules['hel' + 'per'].f(x)", top="import sys"),
    "class by its base": (
        {**net(top=PLUGIN, forward="return Base.__subclasses__()[0]()(x)"), **plugin("x")},
        {**net(top=PLUGIN, forward="return Base.__subclasses__()[0]()(x)"), **plugin("-x")},
    ),
    "class attribute": (
        net(top="class C:\n    k = 1", init="self.c = C()", forward="return x * self.c.k"),
        net(top="class C:\n    k = 2", init="self.c = C()", forward="return x * self.c.k"),
    ),
    "hook": (
        net(init="self.register_forward_hook(lambda m, i, o: o)"),
        net(init="self.register_forward_hook(lambda m, i, o: -o)"),
    ),
    "patch of torch": (
        {**net(top="import patches", forward="return torch.relu(x)"), "patches.py": ""},
        {
            **net(top="import patches", forward="return torch.relu(x)"),
            "patches.py": "import torch\ntorch.relu = torch.sigmoid\n",
        },
    ),
    "method put into a class of torch": (
        net(top="def f(self, x): return x", make="torch.nn.Linear.forward = f"),
        net(top="def f(self, x): return -x", make="torch.nn.Linear.forward = f"),
    ),
    "parametrization": (
        net(
            top="class P(torch.nn.Module):\n    def forward(self, w): return w",
            init="torch.nn.utils.parametrize.register_parametrization(self.linear, 'weight', P())",
        ),
        net(
            top="class P(torch.nn.Module):\n    def forward(self, w): return -w",
            init="torch.nn.utils.parametrize.register_parametrization(self.linear, 'weight', P())",
        ),
    ),
    "order of the parts": (
        net(init="self.s = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh())"),
        net(init="self.s = torch.nn.Sequential(torch.nn.Tanh(), torch.nn.ReLU())"),
    ),
    "setting of torch": (net(), net(make="torch.set_float32_matmul_precision('medium')")),
    "oneDNN's rounding": (
        net(make="torch.backends.mkldnn.matmul.fp32_precision = open('value.txt').read()")
        | {"value.txt": "ieee"},
        net(make="torch.backends.mkldnn.matmul.fp32_precision = open('value.txt').read()")
        | {"value.txt": "bf16"},
    ),
    "registered operator": (
        net(
            top="@torch.library.custom_op('lab::f', mutates_args=())\n"
            "def f(x: torch.Tensor) -> torch.Tensor:\n    return x * 1",
            forward="return torch.ops.lab.f(x)",
        ),
        net(
            top="@torch.library.custom_op('lab::f', mutates_args=())\n"
            "def f(x: torch.Tensor) -> torch.Tensor:\n    return x * 2",
            forward="return torch.ops.lab.f(x)",
        ),
    ),
    "hints that a decorator reads": tuple(
        net(
            top="def scaled(f):\n    return lambda x: f(x) * f.__annotations__['x']\n"
            f"@scaled\ndef f(x: {k}):\n    return x",
            forward="return f(x)",
        )
        for k in (2, 3)
    ),
    "fields of a dataclass in another order": tuple(
        net(
            top="import dataclasses\n@dataclasses.dataclass\n"
            f"class A:\n    {a}: float\n    {b}: float",
            forward="a = A(1.5, 0.25); return x * a.gain + a.shift",
        )
        for a, b in (("gain", "shift"), ("shift", "gain"))
    ),
    "one negated weight": (
        net(),
        net(init="torch.nn.init.zeros_(self.linear.bias)"),
    ),
}


@pytest.mark.parametrize("case", one_in(4, CODE))
def test_other_code_or_state_is_another_model(tmp_path: Path, case: str) -> None:
    first, second = both(tmp_path, *CODE[case])
    assert first.key is not None
    assert first.key != second.key


VALIDATED = """
import pydantic
class Settings(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")
    scale: float = pydantic.Field(2.0, gt=0)
    @pydantic.field_validator("scale")
    @classmethod
    def doubled(cls, value):
        return value * 2.0
    @pydantic.model_validator(mode="after")
    def sound(self):
        return self
    @pydantic.computed_field
    @property
    def twice(self) -> float:
        return self.scale * 2
"""
HELD = "self.settings = Settings(scale=2.0)"

ALL_OF_IT = """
import logging
from pathlib import Path
import helper

HERE = Path(__file__).parent
log = logging.getLogger(__name__)
"""
TYPED = "def g(x, k=1.5):\n    y = x * k\n    return y\n"
HINTED = (
    "from typing import Any\nLike = Any\n"
    "def g(x: 'torch.Tensor', k: float = 1.5) -> Like:\n    y: Like = x * k\n    return y\n"
)
KEPT = f"{HELD}; self.here = HERE; self.names = {{'a', 'b', 'c', 'd', 'e'}}"

SAME = {
    "all but graphs": (
        {
            **net(
                top=f"{ALL_OF_IT}{VALIDATED}{TYPED}A = 1",
                init=KEPT,
                forward="log.debug(1); return helper.f(g(self.linear(x)))",
            ),
            "helper.py": "def f(x): return x",
        },
        {
            **net(
                top=f"{ALL_OF_IT}{VALIDATED}{HINTED}A = 2\ndef unused(x):\n    return 7\n"
                "if __name__ == '__main__':\n    print(1)",
                init=KEPT,
                forward="'''Says it.'''\n        log.debug(1)\n"
                "        return (\n            helper.f( g(self.linear( x )) )  # so\n        )",
            ),
            "helper.py": "# new\ndef f(x):\n    return x",
            "other.py": "X = 1\n",
        },
    ),
    "comment": (net(), net(forward="return self.linear(x)  # as before")),
    "hints of types": (
        net(top="def f(x, k=1.5):\n    y = x * k\n    return y", forward="return f(x)"),
        net(
            top="from typing import Any\nLike = Any\n"
            "def f(x: 'torch.Tensor', k: float = 1.5) -> Like:\n    y: Like = x * k\n    return y",
            forward="return f(x)",
        ),
    ),
    "docstring": (net(), net(forward="'''Says it.'''\n        return self.linear(x)")),
    "formatting": (net(), net(forward="return (\n            self.linear( x )\n        )")),
    "unrelated file": (net(), {**net(), "other.py": "X = 1\n"}),
    "unrelated function": (net(), net(top="def unused(x):\n    return 7\n")),
    "unrelated constant": (net(top="A = 1"), net(top="A = 2")),
    "path of a file": (
        net(top="from pathlib import Path\nHERE = Path(__file__).parent", init="self.here = HERE"),
        net(top="from pathlib import Path\nHERE = Path(__file__).parent", init="self.here = HERE"),
    ),
    "comment in a helper": (
        {
            **CALLS_HELPER,
            "helper.py": "def f(x): return x",
        },
        {
            **CALLS_HELPER,
            "helper.py": "# new\ndef f(x):\n    return x",
        },
    ),
    "what only runs as a script": (net(), net(top="if __name__ == '__main__':\n    print(1)")),
    "logger": (LOGS, LOGS),
    "graph": (
        net(make="return torch.fx.symbolic_trace(Net())"),
        net(make="return torch.fx.symbolic_trace(Net())"),
    ),
    "TorchScript": (
        net(make="return torch.jit.trace(Net(), torch.ones(1, 4))"),
        net(make="return torch.jit.trace(Net(), torch.ones(1, 4))"),
    ),
    "validated settings": (net(top=VALIDATED, init=HELD), net(top=VALIDATED, init=HELD)),
    "set of texts": (
        net(init="self.names = {'a', 'b', 'c', 'd', 'e'}"),
        net(init="self.names = {'a', 'b', 'c', 'd', 'e'}"),
    ),
}


# One that counted would make the whole another model.
@pytest.mark.parametrize("case", only(["all but graphs", "graph", "TorchScript"], SAME))
def test_what_changes_nothing_is_the_same_model(tmp_path: Path, case: str) -> None:
    first, second = both(tmp_path, *SAME[case])
    assert first.key is not None
    assert first.why == second.why
    assert first.key == second.key


NEVER = {
    "open file": "self.f = open(__file__)",
    "generator": "self.g = (i for i in (1, 2))",
    "socket": "import socket; self.s = socket.socket()",
}


@pytest.mark.parametrize("case", NEVER)
def test_what_cannot_be_looked_into_is_never_a_hit(tmp_path: Path, case: str) -> None:
    folder = write(tmp_path, net(init=NEVER[case]))
    found = identity_of(folder, "mm:make")
    assert found.key is None
    assert "model.unhashable.module." in found.why


VENDOR = net(top="import vendorlib", forward="return vendorlib.op(self.linear(x))")


def test_an_upgraded_package_is_another_model(tmp_path: Path) -> None:
    folder = write(tmp_path / "user", VENDOR)
    keys = [
        identity_of(folder, "mm:make", site=site_with(tmp_path / name, version, {file: text}))
        for name, version, file, text in (
            ("one", "1.0", "vendorlib/__init__.py", "def op(x): return x\n"),
            ("two", "2.0", "vendorlib/__init__.py", "def op(x): return x * 3\n"),
            ("three", "1.0", "vendorlib/__init__.py", "def op(x): return x * 3\n"),
            ("four", "1.0", "vendorlib/__init__.py", "def op(x): return x\n"),
        )
    ]
    assert "model.packages.vendorlib: 1.0 " in keys[0].why
    assert "model.packages.vendorlib: 2.0 " in keys[1].why
    assert len({one.key for one in keys[:3]}) == 3
    assert keys[3].key == keys[0].key


def test_a_package_edited_in_place_is_another_model(tmp_path: Path) -> None:
    folder = write(tmp_path / "user", VENDOR)
    site = site_with(tmp_path / "site", "1.0", {"vendorlib/__init__.py": "def op(x): return x\n"})
    first = identity_of(folder, "mm:make", site=site)
    (site / "vendorlib/__init__.py").write_text("def op(x): return -x\n")
    assert identity_of(folder, "mm:make", site=site).key != first.key


def test_a_package_of_a_package_counts_and_an_unused_one_does_not(tmp_path: Path) -> None:
    folder = write(tmp_path / "user", VENDOR)
    vendor = {"vendorlib/__init__.py": "import deplib\ndef op(x): return deplib.scale(x)\n"}

    def found(name: str, dep: str, other: str) -> Identity:
        site = site_with(tmp_path / name, "1.0", vendor)
        site_with(site, dep, {"deplib.py": "def scale(x): return x\n"}, "deplib")
        site_with(site, other, {"otherlib.py": "X = 1\n"}, "otherlib")
        return identity_of(folder, "mm:make", site=site)

    first = found("one", "1.0", "1.0")
    assert "model.packages.deplib" in first.why
    assert found("two", "2.0", "1.0").key != first.key
    assert found("three", "1.0", "2.0").key == first.key


def test_an_environment_variable_that_the_code_names_counts(tmp_path: Path) -> None:
    text = "return x * float(os.environ.get('LAB_SCALE', '1'))"
    folder = write(tmp_path, net(top="import os", forward=text))
    keys = [
        identity_of(folder, "mm:make", env=env, store=tmp_path / "store").key
        for env in ({"LAB_SCALE": "1"}, {"LAB_SCALE": "2"}, {"LAB_SCALE": "1", "LAB_OTHER": "3"})
    ]
    assert keys[0] != keys[1]
    assert keys[0] == keys[2]


@pytest.mark.parametrize(
    "read",
    one_in(
        2,
        [
            "os.environ.get(PREFIX + '_SCALE', 1)",
            "os.environ[self.variable]",
            "(lambda PREFIX: os.getenv(PREFIX))('LAB_SCALE')",
            "os.getenv(f'{self.variable}')",
        ],
    ),
)
def test_a_variable_whose_name_is_put_together_counts(tmp_path: Path, read: str) -> None:
    folder = write(
        tmp_path,
        net(
            top="import os\nPREFIX = 'LAB'",
            init="self.variable = 'LAB_SCALE'",
            forward=f"return x * float({read})",
        ),
    )
    first, second, third = (
        identity_of(
            folder,
            "mm:make",
            env={"LAB_SCALE": value, "SSH_TTY": tty},
            store=tmp_path / "store",
        )
        for value, tty in (("1", "a"), ("2", "a"), ("1", "b"))
    )
    assert first.key is not None
    assert first.key != second.key
    assert first.key == third.key


def test_arguments_of_the_factory_count(tmp_path: Path) -> None:
    text = NET.format(top="", init="pass", forward="return x", make="pass")
    folder = write(tmp_path, {"mm.py": text.replace("def make():", "def make(k=1):")})
    assert (
        identity_of(folder, "mm:make", arguments={"k": 1}).key
        != identity_of(folder, "mm:make", arguments={"k": 2}).key
    )


def test_only_a_configuration_of_transformers_may_note_where_it_came_from(tmp_path: Path) -> None:
    made = "from transformers import BertConfig; self.name_or_path = 'a'; self.c = BertConfig()"
    why = identity_of(write(tmp_path, net(init=made)), "mm:make").why
    assert "model.module.name_or_path" in why
    assert "model.module.c.vocab_size" in why
    assert "model.module.c._name_or_path" not in why


def test_the_place_of_a_file_does_not_count_when_it_is_named_by_its_path(tmp_path: Path) -> None:
    first, second = (write(tmp_path / name, net()) for name in ("a", "b"))
    assert identity_of(first, "mm.py:make").key == identity_of(second, "mm.py:make").key


BESIDE = {
    **net(
        top="""
        import sys
        from pathlib import Path

        HERE = Path(__file__).resolve().parent
        sys.path.insert(0, str(HERE / "lib"))
        from acts import act
        """,
        init="self.table, self.gain = HERE / 'tables', float((HERE / 'gain.txt').read_text())",
        forward="return act(self.linear(x)) * float((HERE / 'scale.txt').read_text())",
    ),
    "lib/acts.py": "def act(x):\n    return x * 2.0\n",
    "tables/one.txt": "1",
    "gain.txt": "1.5",
    "scale.txt": "2",
}


def test_a_checkout_is_the_same_by_any_path_and_from_any_folder(tmp_path: Path) -> None:
    checkout = write(tmp_path / "checkout", BESIDE)
    elsewhere, store = tmp_path / "elsewhere", tmp_path / "store"
    elsewhere.mkdir()

    def key(folder: Path, target: str) -> tuple[str | None, str | None]:
        found = (identity_of(folder, target), identity_of(folder, target, store=store))
        return (found[0].key, found[1].key)

    first = key(checkout, "mm.py:make")
    assert key(tmp_path, "checkout/mm.py:make") == first
    assert key(elsewhere, f"{checkout}/mm.py:make") == first
    renamed = checkout.rename(tmp_path / "renamed")
    assert key(elsewhere, f"{renamed}/mm.py:make") == first
    write(renamed, {"scale.txt": "3"})
    assert key(renamed, "mm.py:make")[1] != first[1]  # what forward reads shows in its calls


@pytest.mark.slow  # the test of BertConfig has that a configuration's values determine the key
def test_a_value_of_a_transformers_configuration_counts(tmp_path: Path) -> None:
    text = """
import json, torch, transformers

def make():
    config = transformers.Gemma2Config(
        vocab_size=32, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, head_dim=4, **json.load(open('config.json')),
    )
    return transformers.Gemma2ForCausalLM(config)
"""
    found = [
        identity_of(
            write(tmp_path / str(cap), {"mm.py": text, "config.json": values}),
            "mm:make",
            inputs="input_ids",
        )
        for cap, values in (
            (30, '{"final_logit_softcapping": 30.0}'),
            (0.5, '{"final_logit_softcapping": 0.5}'),
        )
    ]
    assert found[0].key is not None
    assert found[0].key != found[1].key
    assert "model.module.config.final_logit_softcapping: 0.5" in found[1].why


def test_compiled_code_depends_on_its_compiler_and_on_options_in_the_environment(
    tmp_path: Path,
) -> None:
    folder = write(tmp_path, net())
    compilers = []
    for version in ("12.2", "13.1"):
        compilers.append(tmp_path / f"c++-{version}")
        compilers[-1].write_text(f"#!/bin/sh\necho g++ {version}\n")
        compilers[-1].chmod(0o700)
    environments = [
        {},
        *({"CXX": str(compiler)} for compiler in compilers),
        {"TORCHINDUCTOR_CPP_WRAPPER": "1"},
        {"CXXFLAGS": "-O1"},
        {"ATEN_CPU_CAPABILITY": "default"},
    ]
    found = [identity_of(folder, "mm:make", env=env, conversion="inductor") for env in environments]
    assert len({one.key for one in found}) == len(environments)
    assert "hardware.compiler.c++: g++ 13.1 at" in found[2].why
    elsewhere = {"TORCHINDUCTOR_CACHE_DIR": "/elsewhere"}
    again = identity_of(folder, "mm:make", env=elsewhere, conversion="inductor")
    assert again.key == found[0].key
    every = {name: value for one in environments for name, value in one.items()}
    plain = {
        identity_of(folder, "mm:make", env=one, conversion="export").key for one in ({}, every)
    }
    assert len(plain) == 1


def test_a_file_that_code_names_and_a_module_that_it_imports_late_count(tmp_path: Path) -> None:
    forward = "from late.parts import scaled; return scaled(x, open('k.txt').read())"
    texts = {
        **net(forward=forward),
        "k.txt": "2",
        "late/__init__.py": "",
        "late/parts.py": "def scaled(x, k):\n    return x * float(k)\n",
    }
    commented = {**texts, "late/parts.py": f"# a\n{texts['late/parts.py']}"}
    store = tmp_path / "store"
    first, same = both(tmp_path / "same", texts, commented, store=store)
    other = texts["late/parts.py"].replace("x * float", "x - float")
    after = {**texts, "k.txt": "3"}, {**texts, "late/parts.py": other}
    read, late = both(tmp_path / "other", *after, store=store)
    assert first.key is not None
    assert first.key == same.key
    assert len({first.key, read.key, late.key}) == 3


def test_a_long_value_names_no_file(tmp_path: Path) -> None:
    folder = write(tmp_path, net(init="self.text = '/long' * 2000"))
    assert identity_of(folder, "mm:make").key is not None
