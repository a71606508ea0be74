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
import os
import py_compile
import shutil
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from . import wheels  # noqa: TID252 - the corpus is one folder and may lie anywhere

if TYPE_CHECKING:
    from torch import Tensor

Edit = Callable[[Path], None]


def nothing(folder: Path) -> None:
    """Change nothing."""


@dataclass(frozen=True)
class Case:
    """One change. In the environment, {folder} and {PATH} stand for their values.

    moved: the second build runs in a copy of the folder under another path.
    linked: the second build reaches the same folder through a symbolic link.
    needs: import names without which the case cannot run.
    """

    name: str
    before: Edit
    expected: Literal["miss", "hit", "never"]
    why: str
    after: Edit = nothing
    target: str = "mod:make"
    arguments: Mapping[str, object] = field(default_factory=dict)
    arguments_after: Mapping[str, object] | None = None
    env_before: Mapping[str, str] = field(default_factory=dict)
    env_after: Mapping[str, str] = field(default_factory=dict)
    conversion: Literal["eager", "inductor", "aot_inductor"] = "eager"
    moved: bool = False
    linked: bool = False
    debatable: bool = False
    needs: tuple[str, ...] = ()

    def environment(self, folder: Path, *, changed: bool) -> dict[str, str]:
        """The variables to set for the first or the second build; others of the case are unset."""
        chosen = self.env_after if changed else self.env_before
        path = os.environ.get("PATH", "")
        return {
            name: value.replace("{folder}", str(folder)).replace("{PATH}", path)
            for name, value in chosen.items()
        }


CASES: list[Case] = []


def add(case: Case) -> None:
    """Add a case to the corpus."""
    CASES.append(case)


def example_input() -> Tensor:
    """The input that every model of the corpus takes."""
    import torch

    return torch.linspace(-1.5, 2.0, 8, dtype=torch.float32).reshape(2, 4)


# Edits


def write(contents: Mapping[str, str]) -> Edit:
    """Write text files."""

    def edit(folder: Path) -> None:
        for relative, text in contents.items():
            path = folder / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="")
        wheels.forget_bytecode(folder)

    return edit


def replace(relative: str, old: str, new: str) -> Edit:
    """Replace a text that must occur in a file."""

    def edit(folder: Path) -> None:
        path = folder / relative
        text = path.read_bytes().decode()
        if old not in text:
            raise ValueError(f"{relative} does not contain {old!r}")
        path.write_bytes(text.replace(old, new).encode())
        wheels.forget_bytecode(folder)

    return edit


def rewrite(relative: str, change: Callable[[str], str]) -> Edit:
    """Pass a text file through a function that must change it."""

    def edit(folder: Path) -> None:
        path = folder / relative
        text = path.read_bytes().decode()
        changed = change(text)
        if changed == text:
            raise ValueError(f"{relative} stays as it was")
        path.write_bytes(changed.encode())
        wheels.forget_bytecode(folder)

    return edit


def keeping_time(relative: str, edit: Edit) -> Edit:
    """Make an edit, then give the file back its former modification time."""

    def timed(folder: Path) -> None:
        path = folder / relative
        former = path.stat()
        edit(folder)
        os.utime(path, ns=(former.st_atime_ns, former.st_mtime_ns))
        if path.stat().st_size != former.st_size:
            raise ValueError(f"{relative} should keep its size")

    return timed


def both(*edits: Edit) -> Edit:
    """Make several edits in order."""

    def edit(folder: Path) -> None:
        for one in edits:
            one(folder)

    return edit


def wheel(
    name: str,
    version: str,
    contents: Mapping[str, str],
    *,
    top_level: tuple[str, ...] | None = None,
    requires: tuple[str, ...] = (),
    entry_points: str = "",
    installer: str = "pip",
) -> Edit:
    """Install a distribution, or another version in its place."""

    def edit(folder: Path) -> None:
        wheels.install(
            folder / "site",
            name,
            version,
            contents,
            top_level=top_level,
            requires=requires,
            entry_points=entry_points,
            installer=installer,
        )

    return edit


def tensors(relative: str, **values: list[float]) -> Edit:
    """Write a file that torch.load reads: a mapping from names to tensors."""

    def edit(folder: Path) -> None:
        import torch

        torch.save({name: torch.tensor(value) for name, value in values.items()}, folder / relative)

    return edit


def array(relative: str, values: list[float]) -> Edit:
    """Write a .npy file of float32."""

    def edit(folder: Path) -> None:
        import numpy

        path = folder / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        numpy.save(path, numpy.array(values, dtype=numpy.float32))

    return edit


# Projects

IMPORTS = """\
import json
import os
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
"""

RETURNS = "return Net().eval()"


def module(
    forward: str = "return self.linear(x)", *, top: str = "", init: str = "", make: str = RETURNS
) -> str:
    """The text of a mod.py: a module with one seeded linear layer, and make()."""

    def block(text: str, depth: int) -> str:
        return textwrap.indent(textwrap.dedent(text).strip("\n"), " " * depth) + "\n"

    return (
        f"{IMPORTS}\n"
        f"{textwrap.dedent(top)}\n\n"
        "class Net(nn.Module):\n"
        "    def __init__(self, held=None):\n"
        "        super().__init__()\n"
        "        torch.manual_seed(0)\n"
        "        self.linear = nn.Linear(4, 4)\n"
        "        self.held = held\n"
        f"{block(init, 8) if init else ''}\n"
        "    def forward(self, x):\n"
        f"{block(forward, 8)}\n\n"
        "def make():\n"
        f"{block(make, 4)}"
    )


def project(
    forward: str = "return self.linear(x)", *, top: str = "", init: str = "", make: str = RETURNS
) -> Edit:
    """Write mod.py."""
    return write({"mod.py": module(forward, top=top, init=init, make=make)})


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

VENDOR_LAYER = """\
from torch import nn


class Layer(nn.Module):
    def forward(self, x):
        return x * 3
"""

VENDOR_FUNCTION = """\
def scaled(x):
    return x * 3
"""

USES_LAYER = module(
    "return self.layer(self.linear(x))",
    top="from vendorlib.layers import Layer",
    init="self.layer = Layer()",
)

USES_FUNCTION = module(
    "return scaled(self.linear(x))", top="from vendorlib.functions import scaled"
)


def vendor(version: str, **sources: str) -> Edit:
    """Install vendorlib with the given modules."""
    contents = {"vendorlib/__init__.py": ""}
    contents |= {f"vendorlib/{name}.py": text for name, text in sources.items()}
    return wheel("vendorlib", version, contents, top_level=("vendorlib",))


add(
    Case(
        "wheel_layer_upgraded",
        both(write({"mod.py": USES_LAYER}), vendor("1.0", layers=VENDOR_LAYER)),
        "miss",
        "the class of a layer comes from a distribution that was upgraded",
        vendor("2.0", layers=VENDOR_LAYER.replace("x * 3", "x * 1")),
    )
)
add(
    Case(
        "wheel_layer_downgraded_compiled",
        both(write({"mod.py": USES_LAYER}), vendor("2.0", layers=VENDOR_LAYER)),
        "miss",
        "a compiled build of a layer whose distribution was downgraded",
        vendor("1.0", layers=VENDOR_LAYER.replace("x * 3", "x * 1")),
        conversion="inductor",
    )
)
add(
    Case(
        "wheel_function_of_function_upgraded",
        both(
            write({"mod.py": USES_FUNCTION}),
            vendor(
                "1.0",
                functions="import kernels\n\n\ndef scaled(x):\n    return kernels.apply(x)\n",
            ),
            wheel("kernels", "0.1", {"kernels.py": "def apply(x):\n    return x * 3\n"}),
        ),
        "miss",
        "forward calls a function that calls one of another distribution, and that was upgraded",
        wheel("kernels", "0.2", {"kernels.py": "def apply(x):\n    return x * 5\n"}),
    )
)
add(
    Case(
        "wheel_patched_same_size_and_time",
        both(write({"mod.py": USES_FUNCTION}), vendor("1.0", functions=VENDOR_FUNCTION)),
        "miss",
        "an installed file was edited, and its size and modification time stay as they were",
        keeping_time(
            "site/vendorlib/functions.py",
            replace("site/vendorlib/functions.py", "x * 3", "x * 7"),
        ),
    )
)
add(
    Case(
        "wheel_rebuilt_at_same_version",
        both(write({"mod.py": USES_FUNCTION}), vendor("1.0", functions=VENDOR_FUNCTION)),
        "miss",
        "another wheel with the same name and version was installed",
        vendor("1.0", functions=VENDOR_FUNCTION.replace("x * 3", "x + 3")),
    )
)


def editable(*, finder: bool) -> Edit:
    """Install vendorlib in place from checkouts/vendorlib."""

    def edit(folder: Path) -> None:
        source = folder / "checkouts" / "vendorlib" / "src"
        wheels.install_editable(
            folder / "site", "vendorlib", "1.0", source, packages=["vendorlib"], finder=finder
        )

    return edit


EDITABLE_SOURCES = {
    "mod.py": USES_LAYER,
    "checkouts/vendorlib/src/vendorlib/__init__.py": "",
    "checkouts/vendorlib/src/vendorlib/layers.py": VENDOR_LAYER,
}
add(
    Case(
        "editable_by_finder_changed",
        both(write(EDITABLE_SOURCES), editable(finder=True)),
        "miss",
        "the source of an editable install (an import hook) was edited",
        replace("checkouts/vendorlib/src/vendorlib/layers.py", "x * 3", "x * 2"),
    )
)
add(
    Case(
        "wheel_of_one_module",
        both(
            project("return vendorops.shifted(self.linear(x))", top="import vendorops"),
            wheel("vendorops", "1.0", {"vendorops.py": "def shifted(x):\n    return x + 1\n"}),
        ),
        "miss",
        "a distribution of one top-level module was upgraded",
        wheel("vendorops", "1.1", {"vendorops.py": "def shifted(x):\n    return x + 2\n"}),
    )
)

READS_PACKAGE_DATA = """\
import json
from pathlib import Path

TABLE = json.loads(Path(__file__).with_name("table.json").read_text())


def scaled(x):
    return x * TABLE["scale"]
"""

add(
    Case(
        "wheel_data_file_upgraded",
        both(
            write({"mod.py": USES_FUNCTION}),
            wheel(
                "vendorlib",
                "1.0",
                {
                    "vendorlib/__init__.py": "",
                    "vendorlib/functions.py": READS_PACKAGE_DATA,
                    "vendorlib/table.json": '{"scale": 2}',
                },
            ),
        ),
        "miss",
        "only a data file of the distribution changed, not its Python files",
        wheel(
            "vendorlib",
            "1.1",
            {
                "vendorlib/__init__.py": "",
                "vendorlib/functions.py": READS_PACKAGE_DATA,
                "vendorlib/table.json": '{"scale": 5}',
            },
        ),
    )
)
add(
    Case(
        "wheel_data_file_patched",
        both(
            write({"mod.py": USES_FUNCTION}),
            wheel(
                "vendorlib",
                "1.0",
                {
                    "vendorlib/__init__.py": "",
                    "vendorlib/functions.py": READS_PACKAGE_DATA,
                    "vendorlib/table.json": '{"scale": 2}',
                },
            ),
        ),
        "miss",
        "a data file of the distribution was edited in place; RECORD stays as it was",
        replace("site/vendorlib/table.json", "2", "5"),
    )
)
add(
    Case(
        "wheel_imported_by_name_in_forward",
        both(
            project(
                """
                name = "vendor" + "_backend"
                return getattr(importlib.import_module(name), "run")(self.linear(x))
                """,
                top="import importlib",
            ),
            wheel("vendor-backend", "1.0", {"vendor_backend.py": "def run(x):\n    return -x\n"}),
        ),
        "miss",
        "forward imports an installed module by a name that it puts together",
        wheel("vendor-backend", "1.1", {"vendor_backend.py": "def run(x):\n    return x * x\n"}),
    )
)
add(
    Case(
        "plugin_installed",
        both(
            project(
                "return self.held(self.linear(x))",
                top="from importlib.metadata import entry_points",
                make="""
                found = sorted(entry_points(group="acme.activations"), key=lambda e: e.name)
                return Net(found[0].load()).eval()
                """,
            ),
            wheel(
                "acme-basic",
                "1.0",
                {"acme_basic.py": "def act(x):\n    return x * 2\n"},
                entry_points="[acme.activations]\nbasic = acme_basic:act\n",
            ),
        ),
        "miss",
        "a newly installed distribution registers a plugin that the factory prefers",
        wheel(
            "acme-accelerated",
            "1.0",
            {"acme_accelerated.py": "def act(x):\n    return x * 3\n"},
            entry_points="[acme.activations]\naccelerated = acme_accelerated:act\n",
        ),
    )
)
add(
    Case(
        "wheel_decorator_upgraded",
        both(
            project(
                "return act(self.linear(x))",
                top="""
                from vendorlib.functions import tuned

                @tuned
                def act(x):
                    return x + 1
                """,
            ),
            vendor(
                "1.0",
                functions=(
                    "import functools\n\n\n"
                    "def tuned(function):\n"
                    "    @functools.wraps(function)\n"
                    "    def inner(x):\n"
                    "        return function(x) * 2\n\n"
                    "    return inner\n"
                ),
            ),
        ),
        "miss",
        "a user's function is wrapped by a decorator that hides behind its name and module",
        vendor(
            "1.1",
            functions=(
                "import functools\n\n\n"
                "def tuned(function):\n"
                "    @functools.wraps(function)\n"
                "    def inner(x):\n"
                "        return function(x) * 4\n\n"
                "    return inner\n"
            ),
        ),
    )
)
add(
    Case(
        "wheel_constant_upgraded",
        both(
            project("return self.linear(x) * SCALE", top="from vendorlib.constants import SCALE"),
            vendor("1.0", constants="SCALE = 2.0\n"),
        ),
        "miss",
        "forward uses a plain number that it imports from a distribution",
        vendor("1.1", constants="SCALE = 2.5\n"),
    )
)
add(
    Case(
        "user_module_shadows_installed",
        both(
            project("return vendorops.shifted(self.linear(x))", top="import vendorops"),
            wheel("vendorops", "1.0", {"vendorops.py": "def shifted(x):\n    return x + 1\n"}),
        ),
        "miss",
        "a new user file has the name of an installed module, and is imported in its place",
        write({"vendorops.py": "def shifted(x):\n    return x - 1\n"}),
    )
)
add(
    Case(
        "wheel_registry_by_string",
        both(
            project(
                "return self.held(self.linear(x))",
                top="from vendorlib.registry import build",
                make='return Net(build("gated")).eval()',
            ),
            vendor(
                "1.0",
                registry="from vendorlib import gated\n\n\ndef build(name):\n"
                "    return globals()[name].Gated()\n",
                gated=VENDOR_LAYER.replace("Layer", "Gated"),
            ),
        ),
        "miss",
        "the layer comes from a registry of the distribution, by its name as a string",
        vendor(
            "1.1",
            registry="from vendorlib import gated\n\n\ndef build(name):\n"
            "    return globals()[name].Gated()\n",
            gated=VENDOR_LAYER.replace("Layer", "Gated").replace("x * 3", "x * x"),
        ),
    )
)
add(
    Case(
        "egg_info_upgraded",
        both(
            write({"mod.py": USES_FUNCTION}),
            lambda folder: wheels.install_egg(
                folder / "site",
                "vendorlib",
                "1.0",
                {"vendorlib/__init__.py": "", "vendorlib/functions.py": VENDOR_FUNCTION},
            ),
        ),
        "miss",
        "an old-style install without hashes was upgraded",
        lambda folder: wheels.install_egg(
            folder / "site",
            "vendorlib",
            "1.1",
            {
                "vendorlib/__init__.py": "",
                "vendorlib/functions.py": VENDOR_FUNCTION.replace("x * 3", "x * 8"),
            },
        ),
    )
)
add(
    Case(
        "package_without_metadata_changed",
        write(
            {
                "mod.py": USES_FUNCTION,
                "site/vendorlib/__init__.py": "",
                "site/vendorlib/functions.py": VENDOR_FUNCTION,
            }
        ),
        "miss",
        "a package was copied into site-packages by hand: no distribution owns it",
        replace("site/vendorlib/functions.py", "x * 3", "x * 9"),
    )
)
add(
    Case(
        "wheel_metaclass_upgraded",
        both(
            project(
                "return self.block(self.linear(x))",
                top="""
                from vendorlib.meta import Traced

                class Block(nn.Module, metaclass=Traced):
                    def forward(self, x):
                        return x + 1
                """,
                init="self.block = Block()",
            ),
            vendor(
                "1.0",
                meta="class Traced(type):\n"
                "    def __call__(cls, *args, **kwargs):\n"
                "        made = super().__call__(*args, **kwargs)\n"
                "        made.register_forward_hook(lambda module, args, out: out * 2)\n"
                "        return made\n",
            ),
        ),
        "miss",
        "a metaclass from a distribution adds a hook to every layer that it makes",
        vendor(
            "1.1",
            meta="class Traced(type):\n"
            "    def __call__(cls, *args, **kwargs):\n"
            "        made = super().__call__(*args, **kwargs)\n"
            "        made.register_forward_hook(lambda module, args, out: out * 5)\n"
            "        return made\n",
        ),
    )
)

# Hugging Face configurations

GEMMA = {
    "model_type": "gemma2",
    "vocab_size": 11,
    "hidden_size": 4,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "head_dim": 4,
    "pad_token_id": 0,
    "final_logit_softcapping": 30.0,
}

USES_GEMMA = module(
    "return self.held(inputs_embeds=self.linear(x)[None], use_cache=False).logits * 100",
    top="from transformers import Gemma2Config, Gemma2ForCausalLM",
    make="""
    folder = Path(__file__).resolve().parent / "model"
    config = Gemma2Config.from_pretrained(str(folder))
    torch.manual_seed(1)
    return Net(Gemma2ForCausalLM(config)).eval()
    """,
)

add(
    Case(
        "hf_config_softcapping",
        write({"mod.py": USES_GEMMA, "model/config.json": json.dumps(GEMMA)}),
        "miss",
        "a number in config.json that no module holds: forward reads it from the configuration",
        write({"model/config.json": json.dumps(GEMMA | {"final_logit_softcapping": 0.5})}),
        needs=("transformers",),
    )
)

MISTRAL = {
    "model_type": "mistral",
    "vocab_size": 11,
    "hidden_size": 4,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "head_dim": 4,
    "sliding_window": 8,
}

add(
    Case(
        "hf_config_sliding_window",
        write(
            {
                "mod.py": USES_GEMMA.replace("Gemma2", "Mistral"),
                "model/config.json": json.dumps(MISTRAL),
            }
        ),
        "miss",
        "an integer in config.json from which forward computes the attention mask",
        write({"model/config.json": json.dumps(MISTRAL | {"sliding_window": 1})}),
        needs=("transformers",),
    )
)

BERT = {
    "model_type": "bert",
    "vocab_size": 11,
    "hidden_size": 4,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "hidden_act": "gelu",
}

add(
    Case(
        "hf_config_activation",
        write(
            {
                "mod.py": USES_GEMMA.replace("Gemma2ForCausalLM", "BertModel")
                .replace("Gemma2", "Bert")
                .replace(", use_cache=False).logits", ").last_hidden_state"),
                "model/config.json": json.dumps(BERT),
            }
        ),
        "miss",
        "the name of the activation in config.json",
        write({"model/config.json": json.dumps(BERT | {"hidden_act": "relu"})}),
        needs=("transformers",),
    )
)
add(
    Case(
        "hf_config_nested",
        write(
            {
                "mod.py": module(
                    "return self.linear(x) * self.held.vision_config.initializer_factor",
                    top="from transformers import CLIPConfig",
                    make='return Net(CLIPConfig.from_pretrained("model")).eval()',
                ),
                "model/config.json": json.dumps(
                    {"model_type": "clip", "vision_config": {"initializer_factor": 1.0}}
                ),
            }
        ),
        "miss",
        "a value in a configuration inside a configuration",
        replace("model/config.json", "1.0", "1.5"),
        needs=("transformers",),
    )
)

# Objects that a model holds

SCALED_BY = """
def scaled_by(y, factor):
    return y * factor
"""

held(
    "dataclass",
    "a field of a dataclass",
    "held = Settings(value)",
    "return y * held.scale",
    2.0,
    3.0,
    top="""
    from dataclasses import dataclass

    @dataclass
    class Settings:
        scale: float
        name: str = "net"
    """,
    by="env",
)
held(
    "namespace_nested",
    "a value in a SimpleNamespace inside another",
    "held = SimpleNamespace(head=SimpleNamespace(scale=value))",
    "return y * held.head.scale",
    2.0,
    3.0,
    top="from types import SimpleNamespace",
    by="env",
)
held(
    "attrs_class",
    "a field of an attrs class (it has slots)",
    "held = Settings(scale=value)",
    "return y * held.scale",
    2.0,
    3.0,
    top="""
    import attrs

    @attrs.define
    class Settings:
        scale: float
    """,
    by="env",
    needs=("attrs",),
)
held(
    "pydantic_model",
    "a field of a pydantic model",
    "held = Settings(scale=value)",
    "return y * held.scale",
    2.0,
    3.0,
    top="""
    from pydantic import BaseModel

    class Settings(BaseModel):
        scale: float
    """,
    needs=("pydantic",),
)
held(
    "pydantic_private",
    "a private attribute of a pydantic model, which a dump of its fields leaves out",
    "held = Settings()\nheld._scale = value",
    "return y * held._scale",
    2.0,
    3.0,
    top="""
    from pydantic import BaseModel, PrivateAttr

    class Settings(BaseModel):
        _scale: float = PrivateAttr(default=1.0)
    """,
    by="env",
    needs=("pydantic",),
)
held(
    "omegaconf_nested",
    "a value in an OmegaConf tree",
    'held = OmegaConf.create({"head": {"scale": value}})',
    "return y * held.head.scale",
    2.0,
    3.0,
    top="from omegaconf import OmegaConf",
    needs=("omegaconf",),
)
held(
    "enum_member",
    "another member of an enumeration",
    "held = Mode(value)",
    "return torch.sin(y) if held is Mode.SIN else torch.cos(y)",
    "sin",
    "cos",
    top="""
    from enum import Enum

    class Mode(Enum):
        SIN = "sin"
        COS = "cos"
    """,
    by="env",
)
held(
    "enum_value_object",
    "the same member of an enumeration, whose value is an object with state; one may hold that "
    "a member is its name",
    "Mode.MAIN.value.scale = value\nheld = Mode.MAIN",
    "return y * held.value.scale",
    2.0,
    3.0,
    top="""
    from enum import Enum
    from types import SimpleNamespace

    class Mode(Enum):
        MAIN = SimpleNamespace(scale=1.0)
    """,
    debatable=True,
)
held(
    "namedtuple",
    "a field of a named tuple",
    "held = Settings(value, 'net')",
    "return y * held.scale",
    2.0,
    3.0,
    top="""
    from typing import NamedTuple

    class Settings(NamedTuple):
        scale: float
        name: str
    """,
    by="env",
)
held(
    "numpy_scalar",
    "a numpy scalar",
    "held = np.float32(value)",
    "return y * float(held)",
    0.5,
    0.75,
    top="import numpy as np",
    by="env",
)
held(
    "numpy_array_middle",
    "one element in the middle of a large array, which repr() leaves out",
    "held = np.zeros(5000, dtype=np.float32)\nheld[value] = 1",
    "return y * torch.from_numpy(held[2000:2004])",
    2001,
    2002,
    top="import numpy as np",
)
held(
    "numpy_object_array",
    "an object inside an array of objects",
    'held = np.array([{"scale": value}, None], dtype=object)',
    'return y * held[0]["scale"]',
    2.0,
    3.0,
    top="import numpy as np",
    by="env",
)
held(
    "numpy_same_bytes_other_type",
    "an array with the same bytes read as another type",
    "held = np.array([1 << 30, 2, 3, 4], dtype=np.int32).view(value)",
    "return y + torch.from_numpy(held.copy())",
    "int32",
    "float32",
    top="import numpy as np",
)
held(
    "numpy_same_memory_other_order",
    "an array with the same memory in rows or in columns",
    "held = np.arange(16, dtype=np.float32).reshape(4, 4, order=value)",
    "return y @ torch.from_numpy(np.ascontiguousarray(held))",
    "C",
    "F",
    top="import numpy as np",
    by="env",
)
held(
    "plain_tensor",
    "a tensor that is an attribute but no buffer",
    "held = torch.tensor([1.0, 2.0, 3.0, value])",
    "return y * held",
    4.0,
    5.0,
)
held(
    "plain_tensor_middle",
    "one element in the middle of a large tensor, which repr() leaves out",
    "held = torch.zeros(100, 100)\nheld[50, value] = 1",
    "return y + held[50, 48:52]",
    49,
    50,
    by="env",
)
held(
    "tensor_in_dict",
    "a tensor in a dictionary",
    'held = {"anchors": [torch.tensor([value])]}',
    'return y * held["anchors"][0]',
    4.0,
    5.0,
)
held(
    "tensor_shape",
    "a plain tensor of the same values in another shape",
    "held = torch.tensor([1.0, 2.0]).reshape(value)",
    "return y[:, :2] * held",
    [2, 1],
    [1, 2],
)
held(
    "tensor_view_offset",
    "a view that starts elsewhere in the same storage",
    "held = torch.arange(8.0)[value : value + 4]",
    "return y * held",
    0,
    3,
    by="env",
)
held(
    "tensor_attribute",
    "a Python attribute on a parameter",
    "held = nn.Parameter(torch.ones(4))\nheld.gain = value",
    "return y * held * held.gain",
    2.0,
    3.0,
)
held(
    "tensor_subclass_attribute",
    "an attribute of a tensor subclass",
    "held = torch.ones(4).as_subclass(Scaled)\nheld.gain = value",
    "return y * held.as_subclass(torch.Tensor) * held.gain",
    2.0,
    3.0,
    top="""
    class Scaled(torch.Tensor):
        pass
    """,
    by="env",
)
held(
    "sparse_coo",
    "the place of one value in a sparse tensor",
    "held = torch.sparse_coo_tensor([[0], [value]], [2.0], (4, 4))",
    "return y + torch.sparse.mm(held, x.t()).t()",
    1,
    2,
)
held(
    "sparse_csr",
    "a value in a compressed sparse tensor",
    "held = torch.tensor([[0.0, value], [0.0, 0.0]]).to_sparse_csr()",
    "return y[:, :2] @ held.to_dense()",
    1.0,
    2.0,
    by="env",
)
held(
    "quantized_scale",
    "the scale of a quantized tensor whose integers stay as they were",
    "held = torch.quantize_per_tensor(torch.ones(4) * value, value, 0, torch.qint8)",
    "return y * held.dequantize()",
    0.5,
    0.25,
)
held("set_of_integers", "a set", "held = set(value)", "return y * sum(held)", [1, 2], [1, 3])
held(
    "frozenset_of_strings",
    "a frozen set of names",
    "held = frozenset(value)",
    'return y * 2 if "head" in held else y',
    ["body", "head"],
    ["body", "tail"],
    by="env",
)
held(
    "bytearray",
    "a byte array",
    "held = bytearray(value, 'ascii')",
    "return y * held[1]",
    "ab",
    "ac",
    by="env",
)
held(
    "float_nan",
    "not a number in place of zero",
    "held = float(value)",
    "return y + held",
    "0.0",
    "nan",
    by="env",
)
held(
    "float_last_digit",
    "a float that differs in its last bit",
    "held = value",
    "return y.double() * held",
    1.0,
    1.0000000000000002,
    by="env",
)
held(
    "integer_or_float",
    "2 and 2.0 are equal, yet the output has another type",
    "held = value",
    "return torch.full((2,), held) + y.shape[0]",
    2,
    2.0,
)
held(
    "torch_dtype",
    "a torch.dtype",
    "held = getattr(torch, value)",
    "return y.to(held)",
    "float32",
    "float64",
    by="env",
)
held(
    "torch_device",
    "a torch.device",
    "held = torch.device(value)",
    'return y if held.type == "cpu" else -y',
    "cpu",
    "meta",
)
held(
    "torch_size",
    "a torch.Size",
    "held = torch.Size(value)",
    "return y.reshape(held)",
    [4, 2],
    [8],
    by="env",
)
held(
    "fraction",
    "a fraction",
    "held = Fraction(1, value)",
    "return y * float(held)",
    2,
    3,
    top="from fractions import Fraction",
    by="env",
)
held(
    "timedelta",
    "a time span",
    "held = timedelta(seconds=value)",
    "return y * held.total_seconds()",
    2,
    3,
    top="from datetime import timedelta",
)
held(
    "pattern_flags",
    "the flags of a regular expression",
    'held = re.compile("LIN", value)',
    'return -y if held.match("linear") else y',
    0,
    2,
    top="import re",
    by="env",
)
held(
    "list_or_tuple",
    "a list in place of a tuple indexes another way",
    "held = tuple(value[1:]) if value[0] == 'tuple' else list(value[1:])",
    "return y[held]",
    ["tuple", 0, 1],
    ["list", 0, 1],
)
held(
    "dict_order",
    "the order of a dictionary that forward walks through",
    "held = dict(value)",
    """
    for name, number in held.items():
        y = y * number if name == "times" else y + number
    return y
    """,
    [["plus", 1], ["times", 2]],
    [["times", 2], ["plus", 1]],
    by="env",
)
held(
    "string_boundaries",
    "the same characters in the same order, parted elsewhere",
    "held = value",
    "return y * len(held[0])",
    ["ab", "c"],
    ["a", "bc"],
    by="env",
)
held(
    "dict_subclass_attribute",
    "an attribute of a dictionary, beside its items",
    "held = Config(name='net')\nheld.scale = value",
    "return y * held.scale",
    2.0,
    3.0,
    top="""
    class Config(dict):
        pass
    """,
)
held(
    "array_module",
    "an array of the standard library",
    'held = array.array("d", [value])',
    "return y * held[0]",
    2.0,
    3.0,
    top="import array",
    by="env",
)
held(
    "cycle",
    "a value in an object that points back to itself",
    "held = Node()\nheld.children = [Node(held)]\nheld.children[0].scale = value",
    "return y * held.children[0].scale",
    2.0,
    3.0,
    top="""
    class Node:
        def __init__(self, parent=None):
            self.parent = parent or self
    """,
    by="env",
)
held(
    "object_equal_to_all",
    "an object that says it equals every other of its class",
    "held = Settings(value)",
    "return y * held.scale",
    2.0,
    3.0,
    top="""
    class Settings:
        def __init__(self, scale):
            self.scale = scale

        def __eq__(self, other):
            return True

        def __hash__(self):
            return 1

        def __repr__(self):
            return "Settings()"
    """,
)
held(
    "object_pickled_without_state",
    "an object that leaves its state out when it is pickled",
    "held = Settings(value)",
    "return y * held.scale",
    2.0,
    3.0,
    top="""
    class Settings:
        def __init__(self, scale=1.0):
            self.scale = scale

        def __reduce__(self):
            return (Settings, ())
    """,
    by="env",
)
held(
    "partial_nested",
    "an argument of a partial inside a partial",
    "held = partial(applied, partial(scaled_by, factor=value))",
    "return held(y)",
    2.0,
    3.0,
    top="from functools import partial\n"
    + SCALED_BY
    + "\ndef applied(function, y):\n    return function(y)\n",
    by="env",
)
held(
    "lambda_on_one_line",
    "one of two lambdas that stand on the same line",
    "held = (lambda y: y * 2) if value == 'two' else (lambda y: y * 3)",
    "return held(y)",
    "two",
    "three",
)
held(
    "default_argument",
    "the default of an argument",
    """
    def held(y, factor=value):
        return y * factor
    """,
    "return held(y)",
    2.0,
    3.0,
    by="env",
)
held(
    "default_of_keyword",
    "the default of a keyword-only argument",
    """
    def held(y, *, factor=value):
        return y * factor
    """,
    "return held(y)",
    2.0,
    3.0,
)
held(
    "function_attribute",
    "an attribute of a function",
    "scaled.factor = value\nheld = scaled",
    "return held(y)",
    2.0,
    3.0,
    top="""
    def scaled(y):
        return y * scaled.factor
    """,
    by="env",
)
held(
    "bound_method",
    "the object to which a method is bound",
    "held = Scaler(value).apply",
    "return held(y)",
    2.0,
    3.0,
    top="""
    class Scaler:
        def __init__(self, factor):
            self.factor = factor

        def apply(self, y):
            return y * self.factor
    """,
)
held(
    "bound_builtin_method",
    "the dictionary to which a built-in method is bound",
    "held = {'scale': value}.get",
    "return y * held('scale')",
    2.0,
    3.0,
    by="env",
)
held(
    "lru_cache",
    "a function behind functools.lru_cache",
    "held = lru_cache(maxsize=None)(scaled(value))",
    "return y * held(1)",
    2.0,
    3.0,
    top="""
    from functools import lru_cache

    def scaled(factor):
        return lambda number: number * factor
    """,
)
held(
    "callable_object",
    "the state of an object that is called",
    "held = Scaler(value)",
    "return held(y)",
    2.0,
    3.0,
    top="""
    class Scaler:
        def __init__(self, factor):
            self.factor = factor

        def __call__(self, y):
            return y * self.factor
    """,
    by="env",
)
held(
    "itemgetter",
    "the place that operator.itemgetter takes",
    "held = operator.itemgetter(value)",
    "return y * held([1.0, 2.0, 3.0])",
    1,
    2,
    top="import operator",
)
held(
    "torch_builtin",
    "a built-in function of torch",
    "held = getattr(torch, value)",
    "return held(y)",
    "sin",
    "cos",
)
held(
    "torch_operator",
    "an operator of torch.ops",
    "held = getattr(torch.ops.aten, value).default",
    "return held(y)",
    "sin",
    "cos",
    by="env",
)
held(
    "module_in_closure",
    "a layer in the closure of a function",
    """
    layer = nn.Linear(4, 4)
    nn.init.constant_(layer.weight, value)
    held = lambda y: layer(y)
    """,
    "return held(y)",
    0.5,
    0.25,
    by="env",
)
held(
    "weak_reference",
    "the object behind a weak reference",
    "KEPT.scale = value\nheld = weakref.ref(KEPT)",
    "return y * held().scale",
    2.0,
    3.0,
    top="""
    import weakref

    class Settings:
        scale = 1.0

    KEPT = Settings()
    """,
    by="env",
)
held(
    "traced_constant",
    "a constant inside a traced module: no parameter, no attribute",
    "held = torch.jit.trace(lambda y: y * value + 1, torch.ones(2, 4))",
    "return held(y)",
    2.0,
    3.0,
    by="env",
)
held(
    "user_module_object",
    "another imported module, held as an attribute",
    "import importlib\nheld = importlib.import_module('json' if value == 'json' else 'os')",
    "return y if hasattr(held, 'loads') else -y",
    "json",
    "os",
    by="env",
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
    "operator_changed_compiled",
    "an operator in forward, and the build is compiled ahead of time",
    {"mod.py": module("return self.linear(x) + 2.0")},
    "mod.py",
    "+ 2.0",
    "- 2.0",
    conversion="aot_inductor",
)
edited(
    "constant_in_nested_function",
    "a constant in a function inside a function",
    {
        "mod.py": module(
            "return outer(self.linear(x))",
            top="""
            def outer(y):
                def inner(z):
                    return [part * 2.0 for part in z.unbind()]

                return torch.stack(inner(y))
            """,
        )
    },
    "mod.py",
    "2.0",
    "2.5",
)
edited(
    "class_attribute",
    "an attribute of the class",
    {
        "mod.py": module(
            "return self.linear(x) * Settings.scale",
            top="class Settings:\n    scale = 2.0\n",
        )
    },
    "mod.py",
    "2.0",
    "3.0",
)
edited(
    "property",
    "the code of a property",
    {
        "mod.py": module(
            "return self.linear(x) * Settings().scale",
            top="""
            class Settings:
                @property
                def scale(self):
                    return 2.0
            """,
        )
    },
    "mod.py",
    "2.0",
    "3.0",
)
edited(
    "helper_imported_in_forward",
    "a helper that forward imports when it runs",
    {
        "mod.py": module("from helpers.scaling import scaled\nreturn scaled(self.linear(x))"),
        "helpers/__init__.py": "",
        "helpers/scaling.py": "def scaled(y):\n    return y * 2\n",
    },
    "helpers/scaling.py",
    "y * 2",
    "y * 3",
)
edited(
    "module_by_name_from_data",
    "a module that is imported by a name which stands in a data file",
    {
        "mod.py": module(
            """
            spec = json.loads(Path("spec.json").read_text())
            return importlib.import_module(spec["module"]).run(self.linear(x))
            """,
            top="import importlib",
        ),
        "spec.json": '{"module": "stages.last"}',
        "stages/__init__.py": "",
        "stages/last.py": "def run(y):\n    return y * 2\n",
    },
    "stages/last.py",
    "y * 2",
    "y * 4",
)
edited(
    "helper_of_helper_in_package",
    "a function that a package imports from a module of its own and passes on",
    {
        "mod.py": module("return scaled(self.linear(x))", top="from project import scaled"),
        "project/__init__.py": "from .scaling import scaled\n",
        "project/scaling.py": (
            "from . import constants\n\n\ndef scaled(y):\n    return y * constants.SCALE\n"
        ),
        "project/constants.py": "SCALE = 2.0\n",
    },
    "project/constants.py",
    "2.0",
    "3.0",
)
edited(
    "decorator_of_user",
    "a decorator in another file",
    {
        "mod.py": module(
            "return act(self.linear(x))",
            top="""
            from decorators import doubled

            @doubled
            def act(y):
                return y + 1
            """,
        ),
        "decorators.py": (
            "import functools\n\n\ndef doubled(function):\n"
            "    @functools.wraps(function)\n    def inner(y):\n"
            "        return function(y) * 2\n\n    return inner\n"
        ),
    },
    "decorators.py",
    "* 2",
    "* 4",
)
edited(
    "special_method_of_user_class",
    "the operator of a user's class by which a tensor is multiplied",
    {
        "mod.py": module(
            "return self.linear(x) * self.gain",
            top="from gains import Gain",
            init="self.gain = Gain()",
        ),
        "gains.py": "class Gain:\n    def __rmul__(self, y):\n        return y + 1\n",
    },
    "gains.py",
    "y + 1",
    "y + 2",
)
edited(
    "custom_operator",
    "the implementation of a custom operator that forward calls through torch.ops",
    {
        "mod.py": module("return torch.ops.judged.scaled(self.linear(x))", top="import operators"),
        "operators.py": (
            "import torch\n\n\n@torch.library.custom_op('judged::scaled', mutates_args=())\n"
            "def scaled(y: torch.Tensor) -> torch.Tensor:\n    return y * 2\n\n\n"
            "@scaled.register_fake\ndef _(y):\n    return torch.empty_like(y)\n"
        ),
    },
    "operators.py",
    "y * 2",
    "y * 3",
)
edited(
    "context_manager",
    "a context manager in which forward runs",
    {
        "mod.py": module(
            "with gained() as gain:\n    return self.linear(x) * gain",
            top="from gains import gained",
        ),
        "gains.py": (
            "from contextlib import contextmanager\n\n\n@contextmanager\n"
            "def gained():\n    yield 2.0\n"
        ),
    },
    "gains.py",
    "2.0",
    "3.0",
)
edited(
    "descriptor",
    "a descriptor in another file computes an attribute",
    {
        "mod.py": module(
            "return self.linear(x) * Settings().scale",
            top="""
            from descriptors import Scale

            class Settings:
                scale = Scale()
            """,
        ),
        "descriptors.py": (
            "class Scale:\n    def __get__(self, instance, owner):\n        return 2.0\n"
        ),
    },
    "descriptors.py",
    "2.0",
    "3.0",
)
edited(
    "branch_for_this_input_only",
    "a branch of forward that the example input takes",
    {
        "mod.py": module("y = self.linear(x)\nif x.sum() > 0:\n    y = y * 2\nreturn y"),
    },
    "mod.py",
    "x.sum() > 0",
    "x.sum() > 5",
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
    "global_set_by_factory",
    "the factory sets a global of the module that forward reads",
    "global SCALE\nSCALE = value",
    "2",
    "3",
    forward="return self.linear(x) * SCALE",
    top="SCALE = 1.0",
    by="env",
)
stateful(
    "class_attribute_set_by_factory",
    "the factory sets an attribute of the class",
    "Net.scale = value",
    "2",
    "3",
    forward="return self.linear(x) * self.scale",
    by="env",
)
stateful(
    "registry_filled_by_factory",
    "the factory fills a dictionary at module level",
    'REGISTRY["scale"] = value',
    "2",
    "3",
    forward='return self.linear(x) * REGISTRY["scale"]',
    top="REGISTRY = {}",
    by="env",
)
stateful(
    "function_of_torch_replaced",
    "the factory replaces a function of torch that forward calls",
    """
    if value > 2:
        F.silu = F.gelu
    """,
    "2",
    "3",
    forward="return F.silu(self.linear(x))",
    by="env",
)
stateful(
    "forward_hook",
    "a forward hook",
    "net.linear.register_forward_hook(lambda layer, args, out: out * value)",
    "2",
    "3",
    by="env",
)
stateful(
    "forward_pre_hook",
    "a forward pre-hook",
    "net.register_forward_pre_hook(lambda layer, args: (args[0] * value,))",
    "2",
    "3",
    by="file",
)
stateful(
    "global_forward_hook",
    "a forward hook on all modules of the process",
    """
    nn.modules.module.register_module_forward_hook(
        lambda layer, args, out: out * value if isinstance(layer, nn.Linear) else None
    )
    """,
    "2",
    "3",
    by="env",
)
stateful(
    "buffer_not_persistent",
    "a buffer that state_dict() leaves out",
    'net.register_buffer("scale", torch.tensor(value), persistent=False)',
    "2",
    "3",
    forward="return self.linear(x) * self.scale",
    by="env",
)
stateful(
    "activation_function",
    "the activation is a function of torch",
    "net.act = F.relu if value > 2 else F.gelu",
    "2",
    "3",
    forward="return self.act(self.linear(x))",
    by="env",
)
stateful(
    "activation_approximation",
    "the variant of an activation layer",
    'net.act = nn.GELU(approximate="tanh" if value > 2 else "none")',
    "2",
    "3",
    forward="return self.act(self.linear(x))",
    by="env",
)
stateful(
    "parameters_swapped",
    "two parameters of the same shape that change places",
    """
    with torch.no_grad():
        first, second = net.linear.weight.clone(), torch.eye(4)
        net.linear.weight.copy_(second if value > 2 else first)
        net.other.weight.copy_(first if value > 2 else second)
    """,
    "2",
    "3",
    forward="return self.other(torch.relu(self.linear(x)))",
    init="self.other = nn.Linear(4, 4, bias=False)",
    by="env",
)
stateful(
    "epsilon_of_normalisation",
    "the epsilon of a normalisation layer",
    "net.norm = nn.LayerNorm(4, eps=value)",
    "1e-5",
    "1e-1",
    forward="return self.norm(self.linear(x))",
    by="env",
)
stateful(
    "requires_grad_only",
    "whether gradients are wanted changes no output; one may still count it as another model",
    "net.linear.weight.requires_grad_(value > 2)",
    "2",
    "3",
    by="env",
    expected="hit",
    debatable=True,
)
stateful(
    "training_flag",
    "dropout in training; a tool may put every model in evaluation mode first",
    "net.drop = nn.Dropout(0.5)\nnet.drop.train(value > 2)",
    "2",
    "3",
    forward="return self.drop(self.linear(x))",
    by="env",
    debatable=True,
)
stateful(
    "weights_shared_or_copied",
    "equal weights, shared or not: outputs agree, yet a build may have another size",
    """
    shared = net.linear.weight
    net.other.weight = shared if value > 2 else nn.Parameter(shared.clone())
    """,
    "2",
    "3",
    forward="return self.other(self.linear(x))",
    init="self.other = nn.Linear(4, 4)",
    by="env",
    debatable=True,
)

# Environment and files

add(
    Case(
        "environment_read_in_forward",
        project('return self.linear(x) * float(os.environ.get("NET_SCALE", "1"))'),
        "miss",
        "forward reads a variable of the environment",
        env_before={"NET_SCALE": "2"},
        env_after={"NET_SCALE": "3"},
    )
)
add(
    Case(
        "environment_unset",
        project('return self.linear(x) * float(os.getenv("NET_SCALE") or "1")'),
        "miss",
        "a variable that forward reads is no longer set",
        env_before={"NET_SCALE": "2"},
    )
)
add(
    Case(
        "environment_newly_set",
        project('return self.linear(x) * (2 if "NET_DOUBLE" in os.environ else 1)'),
        "miss",
        "a variable is set whose absence forward has seen",
        env_after={"NET_DOUBLE": ""},
    )
)
add(
    Case(
        "environment_read_in_helper",
        write(
            {
                "mod.py": module("return self.linear(x) * settings.scale()", top="import settings"),
                "settings.py": (
                    "from os import environ as variables\n\n\n"
                    "def scale():\n    return float(variables['NET_SCALE'])\n"
                ),
            }
        ),
        "miss",
        "a helper reads the environment under another name",
        env_before={"NET_SCALE": "2"},
        env_after={"NET_SCALE": "3"},
    )
)
add(
    Case(
        "environment_read_in_factory",
        project(
            make='torch.manual_seed(int(os.environ["SEED"]))\nreturn Seeded().eval()',
            top="""
            class Seeded(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.linear = nn.Linear(4, 4)

                def forward(self, x):
                    return self.linear(x)
            """,
        ),
        "miss",
        "the factory takes the seed of the weights from the environment",
        env_before={"SEED": "1"},
        env_after={"SEED": "2"},
    )
)
add(
    Case(
        "environment_of_interpreter_path",
        both(
            project("return scaling.scaled(self.linear(x))", top="import scaling"),
            write(
                {
                    "variants/a/scaling.py": "def scaled(y):\n    return y * 2\n",
                    "variants/b/scaling.py": "def scaled(y):\n    return y * 3\n",
                }
            ),
        ),
        "miss",
        "PYTHONPATH leads to another copy of an imported module",
        env_before={"PYTHONPATH": "{folder}/variants/a"},
        env_after={"PYTHONPATH": "{folder}/variants/b"},
    )
)
LOADS_WEIGHTS = module(
    make="""
    net = Net().eval()
    net.load_state_dict(torch.load("weights.pt"), strict=False)
    return net
    """
)
add(
    Case(
        "weights_link_switched",
        both(
            write({"mod.py": LOADS_WEIGHTS}),
            tensors("first.pt", **{"linear.bias": [0.0] * 4}),
            tensors("second.pt", **{"linear.bias": [1.0] * 4}),
            lambda folder: (folder / "weights.pt").symlink_to("first.pt"),
        ),
        "miss",
        "a symbolic link leads to another file of weights",
        both(
            lambda folder: (folder / "weights.pt").unlink(),
            lambda folder: (folder / "weights.pt").symlink_to("second.pt"),
        ),
    )
)


def safetensors_file(relative: str, value: float) -> Edit:
    """Write a .safetensors file with one tensor."""

    def edit(folder: Path) -> None:
        import torch
        from safetensors.torch import save_file

        save_file({"scale": torch.tensor([value])}, folder / relative)

    return edit


add(
    Case(
        "safetensors_read_in_forward",
        both(
            project(
                'return self.linear(x) * load_file("scale.safetensors")["scale"]',
                top="from safetensors.torch import load_file",
            ),
            safetensors_file("scale.safetensors", 2.0),
        ),
        "miss",
        "forward reads a file through a library that does not use Python's open()",
        safetensors_file("scale.safetensors", 3.0),
        needs=("safetensors",),
    )
)
add(
    Case(
        "array_read_in_forward",
        both(
            project(
                'return self.linear(x) * torch.from_numpy(np.load("table.npy"))',
                top="import numpy as np",
            ),
            array("table.npy", [1.0, 2.0, 3.0, 4.0]),
        ),
        "miss",
        "forward reads a data file",
        array("table.npy", [1.0, 2.0, 3.0, 5.0]),
    )
)
add(
    Case(
        "path_read_in_forward",
        both(
            write(
                {
                    "mod.py": module(
                        "return self.linear(x) * float(self.held.read_text())",
                        make='return Net(Path("scale.txt")).eval()',
                    ),
                    "scale.txt": "2",
                }
            ),
        ),
        "miss",
        "the model holds a path only; forward reads the file",
        write({"scale.txt": "3"}),
    )
)
add(
    Case(
        "override_file_appears",
        project(
            "return self.linear(x) * self.held",
            make="""
            override = Path("override.json")
            return Net(json.loads(override.read_text()) if override.exists() else 1.0).eval()
            """,
        ),
        "miss",
        "a file that was absent appears, and the factory looks for it",
        write({"override.json": "2.0"}),
    )
)
add(
    Case(
        "file_added_to_listed_folder",
        both(
            project(
                "return self.linear(x) * self.held",
                make="""
                parts = sorted(Path("shards").glob("*.npy"))
                return Net(float(sum(np.load(part).sum() for part in parts))).eval()
                """,
                top="import numpy as np",
            ),
            array("shards/0.npy", [1.0, 2.0]),
        ),
        "miss",
        "the factory reads all files of a folder, and there is one more",
        array("shards/1.npy", [5.0]),
    )
)
add(
    Case(
        "package_resource",
        write(
            {
                "mod.py": module(
                    """
                    text = resources.files("project").joinpath("table.json").read_text()
                    return self.linear(x) * json.loads(text)["scale"]
                    """,
                    top="from importlib import resources",
                ),
                "project/__init__.py": "",
                "project/table.json": '{"scale": 2}',
            }
        ),
        "miss",
        "forward reads a resource of the user's package",
        replace("project/table.json", "2", "3"),
    )
)
add(
    Case(
        "module_on_added_path",
        both(
            project(
                "return scaling.scaled(self.linear(x))",
                top="""
                import sys

                sys.path.insert(0, str(Path(__file__).parent / "library" / "src"))
                import scaling
                """,
            ),
            write({"library/src/scaling.py": "def scaled(y):\n    return y * 2\n"}),
        ),
        "miss",
        "a module lies in a folder that the user's code adds to sys.path",
        replace("library/src/scaling.py", "y * 2", "y * 3"),
    )
)
add(
    Case(
        "program_run_by_factory",
        both(
            project(
                "return self.linear(x) * self.held",
                top="import subprocess",
                make="""
                ran = subprocess.run(["sh", "scale.sh"], capture_output=True, text=True, check=True)
                return Net(float(ran.stdout)).eval()
                """,
            ),
            write({"scale.sh": "echo 2\n"}),
        ),
        "miss",
        "the factory takes a number from a program, and the program changed",
        write({"scale.sh": "echo 3\n"}),
    )
)
add(
    Case(
        "argument_changed",
        write(
            {
                "mod.py": module(
                    "return self.linear(x) * self.held", make="return Net(scale).eval()"
                ).replace("def make():", "def make(scale):")
            }
        ),
        "miss",
        "another argument of the factory",
        arguments={"scale": 2.0},
        arguments_after={"scale": 3.0},
    )
)

# Compiled code: compiler, environment, processor

COMPILED = module("return torch.relu(self.linear(x)) * 2")


def compiler(relative: str, version: str) -> Edit:
    """Write a C++ compiler that says another version and passes all else on to the real one."""

    def edit(folder: Path) -> None:
        real = shutil.which("g++") or shutil.which("c++") or "c++"
        path = folder / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            "#!/bin/sh\n"
            'case "$1" in\n'
            "  --version|-v|-dumpversion|-dumpfullversion)\n"
            f'    echo "g++ (Vendor) {version}"; exit 0;;\n'
            "esac\n"
            f'exec {real} "$@"\n'
        )
        path.chmod(0o755)

    return edit


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


CXX = {"CXX": "{folder}/tools/cxx"}
compiled(
    "compiler_upgraded_ahead_of_time",
    "the same for a build that is compiled ahead of time",
    CXX,
    CXX,
    before=compiler("tools/cxx", "12.2.0"),
    after=compiler("tools/cxx", "12.3.0"),
    conversion="aot_inductor",
)
compiled(
    "compiler_behind_wrapper_upgraded",
    "CXX is a wrapper that stays as it is; the compiler that it calls is another version",
    {"CXX": "{folder}/tools/wrapper"},
    {"CXX": "{folder}/tools/wrapper"},
    before=both(
        compiler("tools/cxx", "12.2.0"),
        write({"tools/wrapper": '#!/bin/sh\nexec "$(dirname "$0")/cxx" "$@"\n'}),
        lambda folder: (folder / "tools" / "wrapper").chmod(0o755),
    ),
    after=compiler("tools/cxx", "14.1.0"),
)
compiled(
    "compiler_other_path",
    "CXX names another compiler of another version",
    {"CXX": "{folder}/tools/old"},
    {"CXX": "{folder}/tools/new"},
    before=both(compiler("tools/old", "11.4.0"), compiler("tools/new", "13.1.0")),
)
compiled(
    "compiler_flags",
    "other flags for the C++ compiler, though Inductor itself does not read this variable",
    {},
    {"CXXFLAGS": "-O1 -fno-fast-math"},
    debatable=True,
)
compiled(
    "inductor_tiling",
    "a variable of Inductor: how loops are cut into tiles",
    {"TORCHINDUCTOR_CPP_ENABLE_TILING_HEURISTIC": "1"},
    {"TORCHINDUCTOR_CPP_ENABLE_TILING_HEURISTIC": "0"},
    conversion="aot_inductor",
)
compiled(
    "inductor_freezing",
    "a variable of Inductor: weights are folded into the code",
    {"TORCHINDUCTOR_FREEZING": "0"},
    {"TORCHINDUCTOR_FREEZING": "1"},
)
compiled(
    "inductor_max_autotune",
    "a variable of Inductor: kernels are chosen by measuring",
    {},
    {"TORCHINDUCTOR_MAX_AUTOTUNE": "1"},
)
compiled(
    "inductor_unsafe_math",
    "a variable of Inductor: the compiler may reorder float arithmetic",
    {"TORCHINDUCTOR_CPP_ENABLE_UNSAFE_MATH_OPT_FLAG": "0"},
    {"TORCHINDUCTOR_CPP_ENABLE_UNSAFE_MATH_OPT_FLAG": "1"},
)
compiled(
    "processor_capability",
    "the capability that torch takes the processor to have",
    {},
    {"ATEN_CPU_CAPABILITY": "default"},
)
compiled(
    "onednn_instruction_set",
    "the instruction set that oneDNN may use",
    {},
    {"ONEDNN_MAX_CPU_ISA": "SSE41"},
)
compiled(
    "onednn_math_mode",
    "the precision in which oneDNN may compute float32",
    {"ONEDNN_DEFAULT_FPMATH_MODE": "STRICT"},
    {"ONEDNN_DEFAULT_FPMATH_MODE": "BF16"},
)
compiled(
    "mkl_reproducibility",
    "the code path of MKL",
    {},
    {"MKL_CBWR": "COMPATIBLE"},
)
compiled(
    "number_of_threads",
    "Inductor writes the number of threads into its code; a tool may set the number itself",
    {"OMP_NUM_THREADS": "1"},
    {"OMP_NUM_THREADS": "2"},
    debatable=True,
)
compiled(
    "inductor_cache_folder",
    "where Inductor keeps its files changes no code, though the name of the variable fits",
    {"TORCHINDUCTOR_CACHE_DIR": "{folder}/cache/a"},
    {"TORCHINDUCTOR_CACHE_DIR": "{folder}/cache/b"},
    expected="hit",
    debatable=True,
)
compiled(
    "unrelated_folder_on_path",
    "a folder without programs at the end of PATH",
    {"PATH": "{PATH}"},
    {"PATH": "{PATH}:{folder}/empty"},
    expected="hit",
)
compiled(
    "home_compiled",
    "another home folder",
    {"HOME": "{folder}/home/a"},
    {"HOME": "{folder}/home/b"},
    before=write({"home/a/.keep": "", "home/b/.keep": ""}),
    expected="hit",
)
compiled(
    "compiler_moved_compiled",
    "the same compiler under another path",
    {"CXX": "{folder}/tools/a/g++"},
    {"CXX": "{folder}/tools/b/g++"},
    before=both(compiler("tools/a/g++", "12.2.0"), compiler("tools/b/g++", "12.2.0")),
    expected="hit",
    debatable=True,
)


# Edits that change nothing

TIDY = '''\
"""A network."""

import json
import os

import torch
from torch import nn

SCALE = 1000.0


def scaled(y, factor=2.0):
    """Multiply."""
    return y * factor


class Net(nn.Module):
    """A layer and a factor."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(4, 4)
        self.names = {"first": 1, "second": 2}

    def forward(self, x):
        y = self.linear(x)
        return scaled(y, factor=self.names["second"]) + SCALE


def unused(y):
    return y - 1


def make():
    return Net().eval()
'''


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
    "comment_added_compiled",
    "a comment at the head of the file moves every line; the build is compiled",
    '"""A network."""\n',
    '"""A network."""\n# For the tests.\n# Keep it small.\n',
    conversion="inductor",
)
tidied("comment_at_end_of_line", "a comment behind code", "* factor\n", "* factor  # noqa: X1\n")
tidied("docstring_of_module", "the docstring of the module", "A network.", "A small network.")
tidied("docstring_of_class", "the docstring of the class", "A layer and a factor.", "One layer.")
tidied("docstring_removed", "a docstring is gone", '    """Multiply."""\n', "")
tidied("blank_lines", "blank lines", "\n\n\nclass", "\n\n\n\n\n\nclass")
tidied(
    "line_breaks",
    "a line broken in four",
    'scaled(y, factor=self.names["second"]) + SCALE',
    '(\n            scaled(\n                y, factor=self.names["second"],\n            )\n'
    "            + SCALE\n        )",
)
tidied("number_spelled_otherwise", "the same number in other words", "1000.0", "1_000.0")
tidied(
    "trailing_spaces", "spaces at the end of a line", "super().__init__()", "super().__init__()  "
)
tidied(
    "constant_folded",
    "1 + 1 in place of 2 compiles to the same code; a key of source text would not see that",
    "factor=2.0",
    "factor=1.0 + 1.0",
    debatable=True,
)
tidied(
    "unused_function_changed",
    "a function that nothing calls; an engineer may count the file as a whole",
    "y - 1",
    "y - 2",
    debatable=True,
)
tidied(
    "local_variable_renamed",
    "another name of a local variable: the code does the same, yet it is other code",
    "        y = self.linear(x)\n        return scaled(y,",
    "        z = self.linear(x)\n        return scaled(z,",
    debatable=True,
)
add(
    Case(
        "indentation",
        write({"mod.py": TIDY}),
        "hit",
        "tabs in place of spaces",
        rewrite("mod.py", lambda text: text.replace("    ", "\t")),
    )
)

HELPED = {
    "mod.py": module("return scaled(self.linear(x))", top="from helpers import scaled"),
    "helpers.py": "SCALE = 2\n\n\ndef scaled(y):\n    return y * SCALE\n",
    "experiments/other.py": "SCALE = 5\n",
    "tests/test_mod.py": "def test_make():\n    pass\n",
    "notes.md": "First try.\n",
    "README.md": "A project.\n",
    "pyproject.toml": '[project]\nname = "project"\nversion = "0.1"\n',
}


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


def touched(folder: Path) -> None:
    """Give every file another modification time."""
    for path in sorted(folder.rglob("*")):
        os.utime(path, (1_600_000_000, 1_600_000_000))


def bytecode(folder: Path) -> None:
    """Compile the user's files, as an import does."""
    for path in sorted(folder.glob("*.py")):
        py_compile.compile(str(path))


def permissions(folder: Path) -> None:
    """Let everybody read and run the user's files."""
    for path in sorted(folder.glob("*.py")):
        path.chmod(0o755)


beside(
    "comment_in_helper",
    "a comment in an imported helper",
    replace("helpers.py", "SCALE = 2\n", "# Chosen by hand.\nSCALE = 2\n"),
)
beside(
    "docstring_in_helper",
    "a docstring in an imported helper",
    replace("helpers.py", "def scaled(y):\n", 'def scaled(y):\n    """Multiply."""\n'),
)
beside("unrelated_file_added", "a new file that nothing reads", write({"todo.txt": "sleep\n"}))
beside("unrelated_text_changed", "a text that nothing reads", write({"notes.md": "Second.\n"}))
beside(
    "unrelated_module_changed",
    "a Python file that nothing imports",
    replace("experiments/other.py", "5", "6"),
)
beside(
    "project_metadata_changed",
    "the user's pyproject.toml and README",
    both(replace("pyproject.toml", "0.1", "0.2"), write({"README.md": "My project.\n"})),
)
beside(
    "unrelated_wheel_upgraded",
    "a distribution was upgraded that the model does not use",
    wheel("bystander", "2.0", {"bystander/__init__.py": "VALUE = 2\n"}),
    before=wheel("bystander", "1.0", {"bystander/__init__.py": "VALUE = 1\n"}),
)
beside(
    "unrelated_wheel_removed",
    "a distribution was removed that the model did not use",
    lambda folder: wheels.uninstall(folder / "site", "bystander"),
    before=wheel("bystander", "1.0", {"bystander/__init__.py": "VALUE = 1\n"}),
)
beside("checkout_moved", "the folder was copied to another path", nothing, moved=True)
beside(
    "checkout_moved_compiled",
    "the folder was copied to another path, and the build is compiled",
    nothing,
    moved=True,
    conversion="inductor",
)
beside("checkout_linked", "the folder is reached through a symbolic link", nothing, linked=True)
beside("permissions", "other permissions of the files", permissions)
beside(
    "version_control",
    "a folder of a version control system appears, and its state changes",
    write({".git/HEAD": "ref: refs/heads/other\n", ".git/index": "x\n"}),
)
beside(
    "hash_seed",
    "another hash seed of the process",
    nothing,
    env_before={"PYTHONHASHSEED": "1"},
    env_after={"PYTHONHASHSEED": "2"},
)
beside(
    "unrelated_variable",
    "a variable of the environment that nothing reads",
    nothing,
    env_before={"EDITOR": "vi"},
    env_after={"EDITOR": "ed", "PROJECT_NOTE": "second"},
)
beside(
    "home",
    "another home folder",
    nothing,
    before=write({"home/a/.keep": "", "home/b/.keep": ""}),
    env_before={"HOME": "{folder}/home/a"},
    env_after={"HOME": "{folder}/home/b"},
)
beside(
    "temporary_folder",
    "another folder for temporary files",
    nothing,
    before=write({"tmp/a/.keep": "", "tmp/b/.keep": ""}),
    env_before={"TMPDIR": "{folder}/tmp/a"},
    env_after={"TMPDIR": "{folder}/tmp/b"},
)
add(
    Case(
        "wheel_bytecode_present",
        both(write({"mod.py": USES_FUNCTION}), vendor("1.0", functions=VENDOR_FUNCTION)),
        "hit",
        "compiled files lie beside the installed ones, and RECORD does not name them",
        lambda folder: bytecode(folder / "site" / "vendorlib"),
    )
)
add(
    Case(
        "wheel_by_other_installer",
        both(write({"mod.py": USES_FUNCTION}), vendor("1.0", functions=VENDOR_FUNCTION)),
        "hit",
        "another installer wrote the same files; a digest of RECORD as a whole would not see that",
        wheel(
            "vendorlib",
            "1.0",
            {"vendorlib/__init__.py": "", "vendorlib/functions.py": VENDOR_FUNCTION},
            top_level=("vendorlib",),
            installer="uv",
        ),
        debatable=True,
    )
)
add(
    Case(
        "hf_config_moved",
        write({"mod.py": USES_GEMMA, "model/config.json": json.dumps(GEMMA)}),
        "hit",
        "the checkout was moved; the configuration remembers the path that it was loaded from",
        moved=True,
        needs=("transformers",),
    )
)
add(
    Case(
        "hf_config_unchanged",
        write({"mod.py": USES_GEMMA, "model/config.json": json.dumps(GEMMA)}),
        "hit",
        "a model of transformers, unchanged",
        env_before={"PYTHONHASHSEED": "3"},
        env_after={"PYTHONHASHSEED": "4"},
        needs=("transformers",),
    )
)
add(
    Case(
        "arguments_reordered",
        write(
            {
                "mod.py": module(
                    "return self.linear(x) * self.held", make="return Net(scale + shift).eval()"
                ).replace("def make():", "def make(scale, shift):")
            }
        ),
        "hit",
        "the same arguments by name in another order",
        arguments={"scale": 2.0, "shift": 1.0},
        arguments_after={"shift": 1.0, "scale": 2.0},
    )
)
add(
    Case(
        "data_file_touched",
        both(write({"mod.py": LOADS_WEIGHTS}), tensors("weights.pt", **{"linear.bias": [0.5] * 4})),
        "hit",
        "a file of weights with another modification time",
        touched,
    )
)
add(
    Case(
        "weights_saved_anew_by_other_name",
        both(write({"mod.py": LOADS_WEIGHTS}), tensors("weights.pt", **{"linear.bias": [0.5] * 4})),
        "hit",
        "the same weights beside one more entry that the model ignores; the file differs",
        tensors("weights.pt", **{"linear.bias": [0.5] * 4, "epoch": [3.0]}),
        debatable=True,
    )
)
add(
    Case(
        "log_written_by_factory",
        project(
            make="""
            with open("make.log", "a") as log:
                log.write("made\\n")
            return Net().eval()
            """
        ),
        "hit",
        "the factory appends to a log, so the folder differs after each load",
    )
)
add(
    Case(
        "path_held",
        project(
            "return self.linear(x) * len(self.held.name)",
            make='return Net(Path(__file__).resolve().parent / "data.bin").eval()',
        ),
        "hit",
        "the model holds a path inside the checkout, and the checkout was moved; forward could "
        "depend on all of it",
        moved=True,
        debatable=True,
    )
)

# Unchanged models: what can be hashed must be hashed alike in every process

same(
    "unchanged_functions",
    "lambdas, closures and partials have other addresses in every process",
    """
    factor = 2.0
    held = [lambda y: y * factor, partial(torch.mul, other=3.0), F.relu, torch.sin, scaled]
    """,
    """
    for function in held:
        y = function(y)
    return y
    """,
    top="""
    from functools import lru_cache, partial

    @lru_cache
    def gain(number):
        return number * 2

    def scaled(y, *, factor=gain(2)):
        return y * factor * gain(3)
    """,
)
same(
    "unchanged_sets",
    "the order of sets depends on the hash seed",
    'held = ({"head", "body", "tail"}, frozenset({"a", "b", ("c", 1)}))',
    'return y * len(held[0]) if "head" in held[0] else y',
)
same(
    "unchanged_set_of_objects",
    "a set of classes and functions, whose hashes are addresses",
    "held = {nn.ReLU, nn.Tanh, F.gelu, torch.cos}",
    "return y * 2 if nn.ReLU in held else y",
    seeds=False,
)
same(
    "unchanged_arrays",
    "arrays, plain tensors, views, sparse tensors, types and sizes",
    """
    base = torch.arange(16.0).reshape(4, 4)
    held = [np.arange(4), base, base.t(), base[1:], base.to_sparse(), torch.float16,
            torch.Size([2, 4]), torch.device("cpu"), np.float32(2), np.array(["a", "b"])]
    """,
    "return y @ held[2]",
    top="import numpy as np",
)
same(
    "unchanged_not_a_number",
    "not a number does not equal itself",
    'held = [float("nan"), torch.tensor([float("nan")])]',
    "return y * len(held)",
)
same(
    "unchanged_hooks",
    "hooks and parametrizations",
    """
    held = nn.Linear(4, 4)
    nn.init.constant_(held.weight, 0.5)
    nn.init.zeros_(held.bias)
    parametrize.register_parametrization(held, "weight", Scaled())
    held.register_forward_hook(lambda layer, args, out: out * 2)
    """,
    "return held(y)",
    top="""
    from torch.nn.utils import parametrize

    class Scaled(nn.Module):
        def forward(self, weight):
            return weight * 2
    """,
)
same(
    "unchanged_lock",
    "a lock changes no output; one may also never trust what cannot be hashed",
    "held = threading.Lock()",
    "with held:\n    return y * 2",
    top="import threading",
    debatable=True,
)

# Models that must never be served from the cache

never(
    "generator_object",
    "the state of a running generator cannot be hashed",
    """
    def numbers():
        factor = 1.0
        while True:
            factor = factor * 1.5
            yield factor

    held = numbers()
    """,
    "return y * next(held)",
)
never(
    "open_file",
    "every call reads the next line of an open file",
    'Path("numbers.txt").write_text("1\\n2\\n3\\n4\\n")\nheld = open("numbers.txt")',
    'return y * float(held.readline() or "0")',
)
never(
    "foreign_callback",
    "a C function pointer says nothing about what it runs",
    "held = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(lambda number: number * 2)",
    "return y * held(1.5)",
    top="import ctypes",
)
never(
    "foreign_pointer",
    "a pointer to memory whose content can change under the model",
    "held = ctypes.cast(BUFFER, ctypes.POINTER(ctypes.c_double))",
    "return y * held[0]",
    top="import ctypes\n\nBUFFER = (ctypes.c_double * 2)(2.0, 3.0)\n",
)
never(
    "opaque_decompressor",
    "the state of an object implemented in C cannot be reached",
    """
    held = zlib.decompressobj()
    held.decompress(zlib.compress(b"\\x02\\x03\\x04" * 50)[:10], 1)
    """,
    "return y * (len(held.unconsumed_tail) + 1)",
    top="import zlib",
)
never(
    "socket",
    "what comes over a connection",
    'held, OTHER["end"] = socket.socketpair()\nOTHER["end"].sendall(b"234")',
    "return y * float(held.recv(1))",
    top="import socket\n\nOTHER = {}\n",
)
never(
    "clock_in_forward",
    "forward reads the clock",
    use="return y * (time.time_ns() % 1_000_003)",
    top="import time",
)
never(
    "random_bytes_in_factory",
    "the factory takes the weights from the random numbers of the system: they differ each time",
    """
    numbers = [byte / 255 for byte in os.urandom(4)]
    held = torch.tensor(numbers)
    """,
    "return y * held",
)
never(
    "random_identifier_in_factory",
    "the factory takes a factor from a random identifier, and keeps it in a closure",
    "factor = uuid.uuid4().int % 1009\nheld = lambda y: y * factor",
    "return held(y)",
    top="import uuid",
)
never(
    "time_in_factory",
    "the factory keeps the time at which the model was made",
    "held = time.time_ns() % 1_000_003",
    "return y * held",
    top="import time",
)
never(
    "random_bytes_in_forward",
    "forward takes random numbers of the system, which no seed fixes",
    use="return y * (1 + secrets.randbelow(1_000_000))",
    top="import secrets",
)
never(
    "random_weights_of_torch",
    "weights without a seed; a tool may set one before it calls the factory",
    "torch.seed()\nheld = torch.rand(4)",
    "return y * held",
    debatable=True,
)
