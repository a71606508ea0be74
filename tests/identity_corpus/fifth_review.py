"""Changes of a fifth review, by somebody who knew the code and looked for what it leaves out.

State that only torch's dispatcher or a package holds, definitions that a later one of the same
name hides, files and variables by names that are put together, and what a load looked for and did
not find.
"""

from __future__ import annotations

from identity_corpus.cases import (
    Case,
    both,
    keeping_time,
    module,
    project,
    replace,
    tensors,
    wheel,
    write,
)

CASES: list[Case] = []


def miss(
    name: str,
    why: str,
    before: object,
    after: object = None,
    **more: object,
) -> None:
    """A change after which outputs are others."""
    given = {"after": after, **more} if after is not None else more
    CASES.append(Case(name, before, "miss", why, **given))  # type: ignore[arg-type]


def hit(name: str, why: str, before: object, after: object = None, **more: object) -> None:
    """A change that no output notices."""
    given = {"after": after, **more} if after is not None else more
    CASES.append(Case(name, before, "hit", why, **given))  # type: ignore[arg-type]


# What only the dispatcher, or a package, holds.

LIBRARY = (
    "import torch\nlib = torch.library.Library('corpus_{0}', 'DEF')\n"
    "lib.define('f(Tensor x) -> Tensor')\n"
)
SCALED = "def scaled(scale):\n    return lambda x: x * scale\n\n"

miss(
    "operator_of_a_constant_elsewhere",
    "an operator is made by a function of a constant that another module has",
    write(
        {
            "consts.py": "SCALE = 2.0\n",
            "mod.py": module(
                "return torch.ops.corpus_a.f(self.linear(x))",
                top=LIBRARY.format("a") + SCALED + "from consts import SCALE\n"
                "lib.impl('f', scaled(SCALE), 'CompositeImplicitAutograd')",
            ),
        }
    ),
    replace("consts.py", "2.0", "3.0"),
)
miss(
    "second_definition_of_one_name",
    "the first of two decorated functions called _ changes",
    write(
        {
            "mod.py": module(
                "return torch.ops.corpus_b.f(self.linear(x))",
                top=LIBRARY.format("b")
                + "@torch.library.impl(lib, 'f', 'CompositeImplicitAutograd')\n"
                "def _(x):\n    return x * 2\n\n"
                "def keep(function):\n    return function\n\n"
                "@keep\ndef _(x):\n    return x\n",
            )
        }
    ),
    replace("mod.py", "return x * 2", "return x * 3"),
)
miss(
    "decorator_that_returns_nothing",
    "a decorator registers a function and returns None",
    write(
        {
            "mod.py": module(
                "return torch.ops.corpus_c.f(self.linear(x))",
                top=LIBRARY.format("c") + "def register(function):\n"
                "    lib.impl('f', function, 'CompositeImplicitAutograd')\n\n"
                "@register\ndef doubled(x):\n    return x * 2\n",
            )
        }
    ),
    replace("mod.py", "return x * 2", "return x * 3"),
)
miss(
    "statement_in_a_class_body",
    "a statement in the body of a class registers an operator",
    write(
        {
            "mod.py": module(
                "return torch.ops.corpus_d.f(self.linear(x))",
                top=LIBRARY.format("d") + SCALED + "class Registration:\n"
                "    lib.impl('f', scaled(2.0), 'CompositeImplicitAutograd')\n",
            )
        }
    ),
    replace("mod.py", "scaled(2.0)", "scaled(3.0)"),
)
miss(
    "branch_beside_type_checking",
    "the else of TYPE_CHECKING registers an operator",
    write(
        {
            "mod.py": module(
                "return torch.ops.corpus_e.f(self.linear(x))",
                top=LIBRARY.format("e") + SCALED + "from typing import TYPE_CHECKING\n"
                "if TYPE_CHECKING:\n    import decimal\n"
                "else:\n    lib.impl('f', scaled(2.0), 'CompositeImplicitAutograd')\n",
            )
        }
    ),
    replace("mod.py", "scaled(2.0)", "scaled(3.0)"),
)
miss(
    "branch_where_it_is_not_main",
    "what a module does where it is not run as a program",
    write(
        {
            "mod.py": module(
                "return torch.ops.corpus_f.f(self.linear(x))",
                top=LIBRARY.format("f") + SCALED + "if __name__ != '__main__':\n"
                "    lib.impl('f', scaled(2.0), 'CompositeImplicitAutograd')\n",
            )
        }
    ),
    replace("mod.py", "scaled(2.0)", "scaled(3.0)"),
)
miss(
    "name_deleted_after_its_use",
    "a module calls a helper's function and deletes the helper's name",
    write(
        {
            "patches.py": "def patch(lib):\n"
            "    lib.impl('f', lambda x: x * 2, 'CompositeImplicitAutograd')\n",
            "mod.py": module(
                "return torch.ops.corpus_g.f(self.linear(x))",
                top=LIBRARY.format("g") + "import patches as _p\n_p.patch(lib)\ndel _p\n",
            ),
        }
    ),
    replace("patches.py", "x * 2", "x * 3"),
)
miss(
    "function_deleted_after_its_use",
    "a module calls a function of a helper and deletes the function's name",
    write(
        {
            "patches.py": "def patch(lib):\n"
            "    lib.impl('f', lambda x: x * 2, 'CompositeImplicitAutograd')\n",
            "mod.py": module(
                "return torch.ops.corpus_h.f(self.linear(x))",
                top=LIBRARY.format("h") + "from patches import patch\npatch(lib)\ndel patch\n",
            ),
        }
    ),
    replace("patches.py", "x * 2", "x * 3"),
)
miss(
    "attribute_of_a_function_of_torch",
    "a module puts an attribute on a function of torch, which forward reads",
    write(
        {
            "mod.py": module(
                "return self.linear(x) * F.layer_norm.corpus",
                top="F.layer_norm.corpus = float(Path('scale.txt').read_text())",
            ),
            "scale.txt": "2.0",
        }
    ),
    write({"scale.txt": "3.0"}),
)
miss(
    "defaults_of_a_function_of_torch",
    "a module replaces the defaults of a function of torch by a constant from elsewhere",
    write(
        {
            "consts.py": "EPS = 1e-5\n",
            "mod.py": module(
                "return F.layer_norm(self.linear(x), (4,))",
                top="from consts import EPS\nF.layer_norm.__defaults__ = (None, None, EPS)",
            ),
        }
    ),
    replace("consts.py", "1e-5", "1e-1"),
)
miss(
    "activation_put_into_a_registry_of_transformers",
    "a module registers an activation of a constant from elsewhere with transformers",
    write(
        {
            "consts.py": "SCALE = 2.0\n",
            "mod.py": module(
                "return ACT2FN['corpus'](self.linear(x))",
                top="from transformers.activations import ACT2FN\n"
                "from consts import SCALE\n"
                "class Act(nn.Module):\n"
                "    def __init__(self, scale=SCALE):\n"
                "        super().__init__()\n"
                "        self.scale = scale\n"
                "    def forward(self, x):\n"
                "        return x * self.scale\n"
                "ACT2FN['corpus'] = Act",
            ),
        }
    ),
    replace("consts.py", "2.0", "3.0"),
    needs=("transformers",),
)

# Classes.

miss(
    "metadata_of_a_dataclass_field",
    "forward reads the metadata of a dataclass's field",
    write(
        {
            "mod.py": module(
                "return self.linear(x) * dataclasses.fields(Config)[0].metadata['scale']",
                top="import dataclasses\n"
                "@dataclasses.dataclass\nclass Config:\n"
                "    scale: float = dataclasses.field(default=1.0, metadata={'scale': 2.0})\n",
            )
        }
    ),
    replace("mod.py", "{'scale': 2.0}", "{'scale': 3.0}"),
)
miss(
    "members_of_an_enumeration",
    "forward sums the values of an enumeration",
    write(
        {
            "mod.py": module(
                "return self.linear(x) * sum(one.value for one in Kind)",
                top="import enum\nclass Kind(enum.Enum):\n    ONE = 1.0\n    TWO = 2.0\n",
            )
        }
    ),
    replace("mod.py", "TWO = 2.0", "TWO = 3.0"),
)
miss(
    "order_of_an_enumeration",
    "forward takes the first member of an enumeration",
    write(
        {
            "mod.py": module(
                "return self.linear(x) * list(Kind)[0].value",
                top="import enum\nclass Kind(enum.Enum):\n    ONE = 1.0\n    TWO = 2.0\n",
            )
        }
    ),
    replace("mod.py", "    ONE = 1.0\n    TWO = 2.0\n", "    TWO = 2.0\n    ONE = 1.0\n"),
)
miss(
    "descriptor_with_a_weak_dictionary",
    "a descriptor keeps each owner's value in a weak dictionary",
    write(
        {
            "mod.py": module(
                "return self.linear(x) * self.scale",
                top="import weakref\n"
                "class Field:\n"
                "    def __init__(self):\n        self.values = weakref.WeakKeyDictionary()\n"
                "    def __get__(self, one, kind=None):\n"
                "        return self if one is None else self.values[one]\n"
                "    def __set__(self, one, value):\n        self.values[one] = value\n",
                make="net = Net().eval()\n"
                "net.scale = json.loads(Path('value.json').read_text())\nreturn net",
            ).replace("class Net(nn.Module):\n", "class Net(nn.Module):\n    scale = Field()\n"),
            "value.json": "2.0",
        }
    ),
    write({"value.json": "3.0"}),
)
miss(
    "first_line_of_a_function",
    "forward multiplies by the line on which it stands",
    write({"mod.py": module("return self.linear(x) * self.forward.__code__.co_firstlineno")}),
    replace("mod.py", "import json\n", "import json\n# one line more\n"),
)
miss(
    "source_with_comments",
    "forward counts the letters of its own source",
    write(
        {
            "mod.py": module(
                "# why\nreturn self.linear(x) * len(inspect.getsource(type(self)))",
                top="import inspect",
            )
        }
    ),
    replace("mod.py", "# why", "# why not"),
)

# Files by names that are put together.


def reads(
    name: str, why: str, expression: str, relative: str, *, top: str = "", init: str = ""
) -> None:
    """Forward reads a number from a file, which changes."""
    miss(
        name,
        why,
        write(
            {
                "mod.py": module(
                    f"return self.linear(x) * float({expression})", top=top, init=init
                ),
                relative: "2.0",
            }
        ),
        write({relative: "3.0"}),
    )


reads(
    "file_in_a_folder_of_an_attribute",
    "an attribute names the folder, the code the file",
    "Path(self.folder, 'scale.txt').read_text()",
    "settings/scale.txt",
    init="self.folder = 'settings'",
)
reads(
    "file_in_a_path_of_an_attribute",
    "a path that is an attribute leads to the folder, the code names the file",
    "(self.folder / 'scale').read_text()",
    "settings/scale",
    init="self.folder = Path('settings')",
)
reads(
    "file_three_folders_deep",
    "each part of the path is a text of its own",
    "open(os.path.join('a', 'b', 'c', 'scale.txt')).read()",
    "a/b/c/scale.txt",
)
reads(
    "file_by_the_attribute_of_its_stem",
    "an attribute is the stem, the code adds the suffix",
    "Path(self.kind + '.txt').read_text()",
    "large.txt",
    init="self.kind = 'large'",
)
reads(
    "file_by_a_formatted_name",
    "the name is formatted from an attribute",
    "Path(f'settings/{self.kind}.txt').read_text()",
    "settings/large.txt",
    init="self.kind = 'large'",
)
reads(
    "file_by_a_percent_sign",
    "the name is formatted from a number",
    "Path('layer-%02d.txt' % self.number).read_text()",
    "layer-07.txt",
    init="self.number = 7",
)
reads(
    "file_with_a_space",
    "the name has a space",
    "Path('scale factor.txt').read_text()",
    "scale factor.txt",
)
reads(
    "file_with_other_letters",
    "the name has letters beyond ASCII",
    "Path('größe.txt').read_text()",
    "größe.txt",
)
reads(
    "file_by_bytes",
    "the name is bytes",
    "open(b'scale.txt').read()",
    "scale.txt",
)
miss(
    "file_beside_the_code_in_a_subfolder",
    "a package of the project reads from a folder of its own",
    write(
        {
            "net/__init__.py": "",
            "net/scales.py": "from pathlib import Path\n"
            "def scale():\n"
            "    return float((Path(__file__).parent / 'data' / 'scale.txt').read_text())\n",
            "net/data/scale.txt": "2.0",
            "mod.py": module("return self.linear(x) * scale()", top="from net.scales import scale"),
        }
    ),
    write({"net/data/scale.txt": "3.0"}),
)
miss(
    "file_above_the_code",
    "a package of the project reads from a folder beside it, above its own file",
    write(
        {
            "src/net/__init__.py": "",
            "src/net/scales.py": "from pathlib import Path\n"
            "def scale():\n"
            "    root = Path(__file__).resolve().parents[1]\n"
            "    return float((root / 'assets' / 'scale.txt').read_text())\n",
            "src/assets/scale.txt": "2.0",
            "mod.py": module(
                "return self.linear(x) * scale()",
                top="import sys\nsys.path.insert(0, 'src')\nfrom net.scales import scale",
            ),
        }
    ),
    write({"src/assets/scale.txt": "3.0"}),
)
miss(
    "file_that_a_variable_names",
    "an environment variable leads to a file, which changes",
    write(
        {
            "mod.py": module(
                "return self.linear(x) * float(Path(os.environ['MODEL_FILE']).read_text())"
            ),
            "scale.txt": "2.0",
        }
    ),
    write({"scale.txt": "3.0"}),
    env_before={"MODEL_FILE": "{folder}/scale.txt"},
    env_after={"MODEL_FILE": "{folder}/scale.txt"},
)
miss(
    "folder_of_an_attribute_listed",
    "an attribute names the folder that forward lists",
    write(
        {
            "mod.py": module(
                "return self.linear(x) * len(list(Path(self.folder).iterdir()))",
                init="self.folder = 'parts'",
            ),
            "parts/a.txt": "a",
        }
    ),
    write({"parts/b.txt": "b"}),
)
miss(
    "weights_in_a_file_of_same_size_and_time",
    "forward loads a table whose file keeps its size and time",
    both(
        project("return self.linear(x) * torch.load('table.pt')['t']"),
        tensors("table.pt", t=[2.0]),
    ),
    keeping_time("table.pt", tensors("table.pt", t=[3.0])),
)

# What a load looked for.

miss(
    "file_that_appears_under_a_computed_name",
    "the factory reads a file if there is one, by a name that it puts together",
    write(
        {
            "mod.py": module(
                "return self.linear(x) * self.held",
                make="place = Path('over') / ('_'.join(['scale', 'new']) + '.t' + 'xt')\n"
                "held = float(place.read_text()) if place.exists() else 1.0\n"
                "return Net(held).eval()",
            )
        }
    ),
    write({"over/scale_new.txt": "2.0"}),
)
miss(
    "variable_newly_set_of_a_copied_environment",
    "a module copies the environment, and forward reads a variable of the copy",
    write(
        {
            "mod.py": module(
                "return self.linear(x) * float(ENV.get('CORPUS_' + self.kind, '1'))",
                top="ENV = {**os.environ}",
                init="self.kind = 'SCALE'",
            )
        }
    ),
    env_after={"CORPUS_SCALE": "2"},
)
miss(
    "variables_by_what_they_start_with",
    "the factory collects the variables that start with a text",
    write(
        {
            "mod.py": module(
                "return self.linear(x) * self.held",
                make="found = [v for k, v in os.environ.items() if k.startswith('CORPUS')]\n"
                "held = sum(map(float, found))\n"
                "return Net(held).eval()",
            )
        }
    ),
    env_before={"CORPUSA": "2"},
    env_after={"CORPUSA": "2", "CORPUSB": "3"},
)
miss(
    "version_of_a_distribution",
    "forward reads the version of a package",
    both(
        wheel("corpuslib", "1.0", {"corpuslib/__init__.py": "\n"}),
        project(
            "return self.linear(x) * float(metadata.version('corpuslib'))",
            top="from importlib import metadata",
        ),
    ),
    wheel("corpuslib", "2.0", {"corpuslib/__init__.py": "\n"}),
)

# Variables whose names are partly known.

PREFIXED = module(
    "return self.linear(x) * float(os.environ.get(f'MODEL_{self.kind}_SCALE', '1'))",
    init="self.kind = 'BIG'",
)
miss(
    "variable_with_an_unknown_middle",
    "the middle of a variable's name is an attribute",
    write({"mod.py": PREFIXED}),
    env_before={"MODEL_BIG_SCALE": "1"},
    env_after={"MODEL_BIG_SCALE": "5"},
)
hit(
    "other_variable_beside_an_unknown_middle",
    "a variable of another pattern changes",
    write({"mod.py": PREFIXED}),
    env_before={"MODEL_BIG_SCALE": "2", "OTHER": "1"},
    env_after={"MODEL_BIG_SCALE": "2", "OTHER": "5"},
)

# What must stay a hit.

hit(
    "log_by_a_formatted_name",
    "forward appends to a log whose name it formats",
    write(
        {
            "mod.py": module(
                "with open(f'log-{self.kind}.txt', 'a') as file:\n    file.write('x')\n"
                "return self.linear(x)",
                init="self.kind = 'a'",
            )
        }
    ),
    write({"log-a.txt": "xxx"}),
)
hit(
    "comment_in_a_class_body",
    "a comment beside a statement in the body of a class",
    write(
        {
            "mod.py": module(
                "return self.linear(x) * KINDS['a']",
                top="KINDS = {}\nclass Registration:\n    KINDS['a'] = 2.0\n",
            )
        }
    ),
    replace("mod.py", "    KINDS['a'] = 2.0\n", "    # the first one\n    KINDS['a'] = 2.0\n"),
)
hit(
    "constant_beside_the_one_in_use",
    "another constant of the module that an effect takes one from",
    write(
        {
            "consts.py": "SCALE = 2.0\nOTHER = 1.0\n",
            "mod.py": module(
                "return self.linear(x) * KINDS['a']",
                top="import consts\nKINDS = {}\nKINDS['a'] = consts.SCALE",
            ),
        }
    ),
    replace("consts.py", "OTHER = 1.0", "OTHER = 7.0"),
)
hit(
    "file_beside_a_folder_of_an_attribute",
    "another file of the folder changes, which no code names",
    write(
        {
            "mod.py": module(
                "return self.linear(x) * float(Path(self.folder, 'scale.txt').read_text())",
                init="self.folder = 'settings'",
            ),
            "settings/scale.txt": "2.0",
            "settings/notes.md": "a",
        }
    ),
    write({"settings/notes.md": "b"}),
)
