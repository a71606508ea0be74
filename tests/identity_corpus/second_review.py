"""Changes that a second reviewer thought of before looking at the code.

What code reads about itself, what another process or package hands over by a name, and what stays
the same although something beside it moves.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

from identity_corpus import hostile, wheels
from identity_corpus.cases import Case, Edit, both, module, project, wheel, write

CASES: list[Case] = []
_known = len(hostile.CASES)

# What code reads about itself.

for _name, _forward, _top in (
    (
        "annotation_of_forward_by_alias",
        'return self.linear(x) * type(self).mark.__annotations__["y"].__metadata__[0]\n\n'
        "def mark(self, y: Scaled):\n    return y",
        "from typing import Annotated\n\nScaled = Annotated[float, 2.0]",
    ),
    (
        "annotation_not_evaluated",
        "import typing\n"
        'kind = typing.get_type_hints(Options, include_extras=True)["scale"]\n'
        "return self.linear(x) * kind.__metadata__[0]",
        "from typing import Annotated\n\nFACTOR = 2.0\n\n\n"
        'class Options:\n    scale: "Annotated[float, FACTOR]"',
    ),
    (
        "docstring_read_by_forward",
        "return self.linear(x) * float(factor.__doc__)",
        'def factor():\n    """2.0"""',
    ),
):
    hostile.edited(
        _name,
        "forward takes its factor from what usually computes nothing",
        {"mod.py": module(_forward, top=_top)},
        "mod.py",
        "2.0",
        "3.0",
    )
hostile.edited(
    "docstring_of_class_while_annotations_are_read",
    "forward reads annotations; a docstring is edited",
    {
        "mod.py": module(
            'return self.linear(x) * Options.__annotations__["scale"].__metadata__[0]',
            top="from typing import Annotated\n\n\n"
            'class Options:\n    """Two."""\n    scale: Annotated[float, 2.0]',
        )
    },
    "mod.py",
    '"""Two."""',
    '"""A factor of two."""',
    expected="hit",
)

# Code that runs because of a name, a base class or a hook.

hostile.edited(
    "init_subclass_stamps_a_scale",
    "a base class in another file of the user's sets an attribute of every class below it",
    {
        "mod.py": module(
            "return self.linear(x) * Options.scale", top="from options import Options"
        ),
        "options.py": "from bases import Stamped\n\n\nclass Options(Stamped):\n    pass\n",
        "bases.py": (
            "class Stamped:\n    def __init_subclass__(cls):\n        cls.scale = 1.0 + 1.0\n"
        ),
    },
    "bases.py",
    "1.0 + 1.0",
    "1.0 + 2.0",
)
hostile.edited(
    "metaclass_makes_the_object",
    "a metaclass's __call__ changes what a call of the class returns",
    {
        "mod.py": module("return self.linear(x) * Factor()", top="from meta import Factor"),
        "meta.py": (
            "class Meta(type):\n    def __call__(cls):\n        return 2.0\n\n\n"
            "class Factor(metaclass=Meta):\n    pass\n"
        ),
    },
    "meta.py",
    "return 2.0",
    "return 3.0",
)
hostile.edited(
    "module_getattr_imports_late",
    "a user's module imports a helper when an attribute is missing",
    {
        "mod.py": module("return self.linear(x) * lazy.factor()", top="import lazy"),
        "lazy.py": (
            "def __getattr__(name):\n    import helper\n    return getattr(helper, name)\n"
        ),
        "helper.py": "def factor():\n    return 2.0\n",
    },
    "helper.py",
    "return 2.0",
    "return 3.0",
)
hostile.edited(
    "registry_filled_by_import",
    "a file that is imported for its effect alone puts a number into another module's dictionary",
    {
        "mod.py": module(
            'return self.linear(x) * registry.FACTORS["a"]', top="import plugin\nimport registry"
        ),
        "registry.py": "FACTORS = {}\n",
        "plugin.py": 'import registry\n\nregistry.FACTORS["a"] = 2.0\n',
    },
    "plugin.py",
    "2.0",
    "3.0",
)
hostile.edited(
    "package_class_patched_by_user",
    "a user's file replaces a method of torch's own linear layer",
    {
        "mod.py": module("return self.linear(x)", top="import patches"),
        "patches.py": (
            "import torch.nn.functional as F\nfrom torch import nn\n\n\n"
            "def forward(self, x):\n    return F.linear(x, self.weight, self.bias) * 2.0\n\n\n"
            "nn.Linear.forward = forward\n"
        ),
    },
    "patches.py",
    "* 2.0",
    "* 3.0",
)
hostile.edited(
    "source_in_a_text_file",
    "a function's source is read from a text file and executed",
    {
        "mod.py": module(
            "return self.linear(x) * factor()",
            top='exec(Path("factor.txt").read_text(), globals())',
        ),
        "factor.txt": "def factor():\n    return 2.0\n",
    },
    "factor.txt",
    "return 2.0",
    "return 3.0",
)
hostile.edited(
    "cached_reader",
    "a cached function reads a file when forward calls it for the first time",
    {
        "mod.py": module(
            "return self.linear(x) * factor()",
            top="""
            import functools


            @functools.lru_cache
            def factor():
                return json.loads(Path("factor.json").read_text())["scale"]
            """,
        ),
        "factor.json": '{"scale": 2.0}',
    },
    "factor.json",
    "2.0",
    "3.0",
)
hostile.edited(
    "environment_by_alias",
    "forward reads a file whose name an alias of os.environ gives, or a default",
    {
        "mod.py": module(
            'return self.linear(x) * float(Path(env.get("FACTORS", "factors.txt")).read_text())',
            top="from os import environ as env",
        ),
        "factors.txt": "2.0",
    },
    "factors.txt",
    "2.0",
    "3.0",
)
for _variable, _expected in (("FACTOR_OF_MODEL", "miss"), ("ANOTHER_OF_MODEL", "hit")):
    CASES.append(
        Case(
            f"environment_through_alias_{_expected}",
            project(
                'return self.linear(x) * float(read("FACTOR_OF_MODEL", "2"))',
                top="from os import getenv as read",
            ),
            _expected,  # type: ignore[arg-type]
            "forward reads a variable through another name of os.getenv",
            env_before={_variable: "2"},
            env_after={_variable: "3"},
        )
    )

# What another package hands over.


def plugin(factor: str) -> Edit:
    return wheel(
        "factorplug",
        "1.0",
        {"factorplug.py": f"def factor():\n    return {factor}\n"},
        entry_points="[factors]\nusual = factorplug:factor\n",
    )


CASES.append(
    Case(
        "plugin_by_entry_point",
        both(
            project(
                "return self.linear(x) * self.held()",
                make=(
                    "from importlib.metadata import entry_points\n"
                    'found = next(iter(entry_points(group="factors")))\n'
                    "return Net(found.load()).eval()"
                ),
            ),
            plugin("2.0"),
        ),
        "miss",
        "the factory takes a function from an installed plugin, whose version stays",
        plugin("3.0"),
    )
)


def data_of_package(factor: str) -> Edit:
    return wheel("factordata", "1.0", {"factordata/__init__.py": "", "factordata/f.txt": factor})


CASES.append(
    Case(
        "data_file_of_package_read_in_forward",
        both(
            project(
                "from importlib.resources import files\n"
                'return self.linear(x) * float((files("factordata") / "f.txt").read_text())'
            ),
            data_of_package("2.0"),
        ),
        "miss",
        "forward reads a data file of an installed package, whose version stays",
        data_of_package("3.0"),
    )
)


def editable(factor: str) -> Edit:
    def edit(folder: Path) -> None:
        source = folder / "elsewhere"
        (source / "factorlib").mkdir(parents=True, exist_ok=True)
        (source / "factorlib" / "__init__.py").write_text(f"def factor():\n    return {factor}\n")
        wheels.install_editable(
            folder / "site", "factorlib", "1.0", source, packages=["factorlib"], finder=False
        )
        wheels.forget_bytecode(folder)

    return edit


CASES.append(
    Case(
        "editable_source_of_another_folder",
        both(
            project("return self.linear(x) * factorlib.factor()", top="import factorlib"),
            editable("2.0"),
        ),
        "miss",
        "a package that is installed in place is edited",
        editable("3.0"),
    )
)


def archive(factor: str) -> Edit:
    def edit(folder: Path) -> None:
        with zipfile.ZipFile(folder / "lib.zip", "w") as file:
            file.writestr(
                zipfile.ZipInfo("zipped.py", (2020, 1, 1, 0, 0, 0)),
                f"def factor():\n    return {factor}\n",
            )
        os.utime(folder / "lib.zip", (1_700_000_000, 1_700_000_000))

    return edit


CASES.append(
    Case(
        "module_in_a_zip",
        both(
            project(
                "return self.linear(x) * zipped.factor()",
                top='import sys\n\nsys.path.insert(0, "lib.zip")\nimport zipped',
            ),
            archive("2.0"),
        ),
        "miss",
        "a module is imported from a zip file, whose size and time stay",
        archive("3.0"),
    )
)

# What must stay a hit.


hostile.unchanged(
    "factory_appends_to_a_log",
    "the factory notes in a file that it ran",
    'held = None\nwith open("runs.log", "a") as log:\n    log.write("made\\n")',
    "return y",
)
hostile.unchanged(
    "factory_writes_its_settings",
    "the factory leaves its settings in a file, which nothing reads",
    'held = None\nPath("settings.out").write_text(json.dumps({"pid": os.getpid()}))',
    "return y",
)
hostile.unchanged(
    "unchanged_table",
    "the same table of pandas, made anew in another process",
    'import pandas\nheld = pandas.DataFrame({"scale": [1.0, 2.0], "name": ["a", "b"]})',
    'return y * float(held["scale"].iloc[1])',
    needs=("pandas",),
)
hostile.built_from(
    "table_with_another_name",
    "a table of pandas whose text changes",
    'import pandas\nheld = pandas.DataFrame({"scale": [1.0, 2.0], "name": ["a", str(value)]})',
    'return y * float(held["name"].iloc[1])',
    needs=("pandas",),
)
hostile.built_from(
    "table_with_another_index",
    "a table of pandas whose row names change",
    "import pandas\nheld = pandas.Series([1.0, 4.0], index=[value, 5.0])",
    "return y * float(held.index[0])",
    needs=("pandas",),
)


def touched(folder: Path) -> None:
    """Another time for every file."""
    for path in folder.rglob("*.py"):
        os.utime(path, (1_800_000_000, 1_800_000_000))
    wheels.forget_bytecode(folder)


CASES.append(
    Case(
        "files_touched",
        both(
            project("return helper.scaled(self.linear(x))", top="import helper"),
            write({"helper.py": "def scaled(y):\n    return y * 2\n"}),
        ),
        "hit",
        "every file has another time; compiled files are gone",
        touched,
    )
)
CASES += hostile.CASES[_known:]
del hostile.CASES[_known:]
