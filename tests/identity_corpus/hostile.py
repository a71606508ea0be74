"""Ways in which a project's meaning changes where identity might not look.

Written from the promise of the cache's page and from what Python and torch allow, not from the
code: names that are put together at run time, state that is global to the process, objects whose
content another library keeps, files that are replaced behind their time and size.
"""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

from identity_corpus.cases import Case, Edit, both, keeping_time, module, project, replace, write

CASES: list[Case] = []

SETTINGS = "scale_small = 2.0\nscale_large = 8.0\n"


def edited(
    name: str,
    why: str,
    files: dict[str, str],
    where: str,
    old: str,
    new: str,
    *,
    expected: str = "miss",
) -> None:
    """Add a case where one text in one file of the project changes."""
    CASES.append(Case(name, write(files), expected, why, replace(where, old, new)))  # type: ignore[arg-type]


def built_from(name: str, why: str, build: str, use: str, *, top: str = "", **more: object) -> None:
    """Add a case where what the factory does depends on a number in a file.

    ``build`` has it as ``value`` and sets ``held``; ``use`` has ``y``, ``x`` and ``held``.
    """
    make = (
        f"value = json.loads(Path('value.json').read_text())\nheld = None\n"
        f"{textwrap.dedent(build)}\nreturn Net(held).eval()\n"
    )
    forward = "y, held = self.linear(x), self.held\n" + textwrap.dedent(use)
    before = write({"mod.py": module(forward, top=top, make=make), "value.json": "2.0"})
    CASES.append(Case(name, before, "miss", why, write({"value.json": "3.0"}), **more))  # type: ignore[arg-type]


def unchanged(name: str, why: str, build: str, use: str, *, top: str = "", **more: object) -> None:
    """Add a case where only the process is another one."""
    make = f"{textwrap.dedent(build)}\nreturn Net(held).eval()\n"
    forward = "y, held = self.linear(x), self.held\n" + textwrap.dedent(use)
    seeds = {"env_before": {"PYTHONHASHSEED": "1"}, "env_after": {"PYTHONHASHSEED": "2"}}
    CASES.append(Case(name, project(forward, top=top, make=make), "hit", why, **seeds, **more))  # type: ignore[arg-type]


# Names that are put together at run time.

edited(
    "setting_by_getattr",
    "forward reads a constant of a user's module by a name that it computes",
    {
        "mod.py": module(
            'return self.linear(x) * getattr(settings, "scale_" + self.kind)',
            top="import settings",
            init='self.kind = "small"',
        ),
        "settings.py": SETTINGS,
    },
    "settings.py",
    "scale_small = 2.0",
    "scale_small = 3.0",
)
edited(
    "setting_by_vars",
    "forward reads a constant through the dictionary of a user's module",
    {
        "mod.py": module(
            'return self.linear(x) * vars(settings)["scale_small"]', top="import settings"
        ),
        "settings.py": SETTINGS,
    },
    "settings.py",
    "scale_small = 2.0",
    "scale_small = 3.0",
)
edited(
    "global_by_key",
    "forward looks a constant of its own module up by a string",
    {"mod.py": module('return self.linear(x) * globals()["SC" + "ALE"]', top="SCALE = 2.0")},
    "mod.py",
    "SCALE = 2.0",
    "SCALE = 3.0",
)
edited(
    "global_by_eval",
    "forward evaluates an expression that names a constant of its module",
    {"mod.py": module('return self.linear(x) * eval("SCALE")', top="SCALE = 2.0")},
    "mod.py",
    "SCALE = 2.0",
    "SCALE = 3.0",
)
edited(
    "method_by_computed_name",
    "forward calls a method whose name it computes",
    {
        "mod.py": module(
            'return getattr(self, "head_" + self.kind)(self.linear(x))\n\n'
            "    def head_a(self, y):\n        return y * 2\n".replace("\n    ", "\n"),
            init='self.kind = "a"',
        )
    },
    "mod.py",
    "y * 2",
    "y * 3",
)
edited(
    "wrapper_hides_what_it_wraps",
    "a decorator's object multiplies, and functools.update_wrapper shows the wrapped function",
    {
        "mod.py": module(
            "return scaled(self.linear(x))",
            top="""
            from wraps import Times


            @Times(2.0)
            def scaled(y):
                return y
            """,
        ),
        "wraps.py": (
            "import functools\n\n\nclass Times:\n"
            "    def __init__(self, by):\n        self.by = by\n\n"
            "    def __call__(self, function):\n        @functools.wraps(function)\n"
            "        def call(y):\n            return function(y) * self.by * 5\n\n"
            "        return call\n"
        ),
    },
    "wraps.py",
    "self.by * 5",
    "self.by * 6",
)
edited(
    "annotation_read_by_forward",
    "forward takes its factor from an annotation of its class",
    {
        "mod.py": module(
            'return self.linear(x) * Options.__annotations__["scale"].__metadata__[0]',
            top="""
            from typing import Annotated


            class Options:
                scale: Annotated[float, 2.0]
            """,
        )
    },
    "mod.py",
    "Annotated[float, 2.0]",
    "Annotated[float, 3.0]",
)

# State that is global to the process, set by the factory.

built_from(
    "builtin_added",
    "the factory adds a name to builtins, and forward uses it as a global",
    "import builtins\nbuiltins.SCALE_OF_ALL = value",
    "return y * SCALE_OF_ALL",
)
built_from(
    "module_made_by_hand",
    "the factory puts an object into sys.modules, and forward imports it",
    """
    import sys, types
    sys.modules["made_by_hand"] = types.SimpleNamespace(scale=value)
    """,
    "import made_by_hand\nreturn y * made_by_hand.scale",
)
built_from(
    "torch_function_mode_entered",
    "the factory enters a mode that scales what every linear layer gives, and never leaves it",
    "Scales(value).__enter__()",
    "return y",
    top="""
    from torch.overrides import TorchFunctionMode


    class Scales(TorchFunctionMode):
        def __init__(self, by):
            super().__init__()
            self.by = by

        def __torch_function__(self, function, types, args=(), kwargs=None):
            found = function(*args, **(kwargs or {}))
            return found * self.by if function is torch.nn.functional.linear else found
    """,
)
built_from(
    "matmul_precision_of_torch",
    "the factory lets float32 products be computed in bfloat16",
    'torch.set_float32_matmul_precision("highest" if value == 2 else "medium")',
    "return y",
)
built_from(
    "autocast_left_on",
    "the factory switches autocast on for the thread",
    'torch.set_autocast_enabled("cpu", value == 3)',
    "return y",
)
built_from(
    "decimal_context",
    "forward rounds by the precision of the decimal context, which the factory sets",
    "import decimal\ndecimal.getcontext().prec = int(value)",
    "return y * float(+decimal.Decimal('1.23456'))",
    top="import decimal",
)

# Objects whose content another library keeps.

built_from(
    "data_frame",
    "a table of pandas in which one cell changes",
    'import pandas\nheld = pandas.DataFrame({"scale": [1.0, value, 1.0]})',
    'return y * float(held["scale"].iloc[1])',
    needs=("pandas",),
)
built_from(
    "scaler_of_scikit_learn",
    "a fitted scaler in front of the model, fitted on other data",
    """
    import numpy
    from sklearn.preprocessing import StandardScaler
    held = StandardScaler().fit(numpy.eye(4) * value)
    """,
    "return self.linear(torch.from_numpy(held.transform(x.numpy())).float())",
    needs=("sklearn",),
)
built_from(
    "sparse_matrix_of_scipy",
    "a sparse matrix in which one value changes",
    "import scipy.sparse\nheld = scipy.sparse.csr_matrix([[0.0, value], [1.0, 0.0]])",
    "return y * float(held.max())",
)
built_from(
    "tokenizer_vocabulary",
    "a tokenizer written in Rust gives a word another id",
    """
    from tokenizers import Tokenizer, models
    held = Tokenizer(models.WordLevel({"cat": int(value), "[UNK]": 0}, unk_token="[UNK]"))
    """,
    'return y * held.encode("cat").ids[0]',
    needs=("tokenizers",),
)
built_from(
    "generation_settings",
    "a generation config of transformers beside the module",
    "from transformers import GenerationConfig\nheld = GenerationConfig(temperature=value)",
    "return y / held.temperature",
)
built_from(
    "program_of_export",
    "the module is an exported program that was saved with another constant",
    """
    class Times(nn.Module):
        def forward(self, y):
            return y * value
    torch.export.save(torch.export.export(Times(), (torch.ones(2, 4),)), "times.pt2")
    held = [torch.export.load("times.pt2").module()]
    """,
    "return held[0](y)",
)
built_from(
    "session_of_onnxruntime",
    "half of the model is an ONNX file that a session holds",
    """
    from onnx import TensorProto, helper
    import onnxruntime
    node = helper.make_node("Mul", ["y", "by"], ["z"])
    by = helper.make_tensor("by", TensorProto.FLOAT, [1], [value])
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 4]) for n in "yz"]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], [by])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    held = onnxruntime.InferenceSession(made.SerializeToString())
    """,
    'return torch.from_numpy(held.run(None, {"y": y.detach().numpy()})[0])',
)
built_from(
    "value_of_ctypes",
    "a C float that the model holds",
    "import ctypes\nheld = ctypes.c_float(value)",
    "return y * held.value",
)
built_from(
    "generator_of_numpy",
    "a generator of numpy that starts from another seed",
    "import numpy\nheld = numpy.random.default_rng(int(value))",
    "return y * held.spawn(1)[0].random()",
)

# Files behind their time and size.


def extension(constant: str) -> Edit:
    """Compile an extension module that returns a number."""

    def edit(folder: Path) -> None:
        import subprocess
        import sysconfig

        source = folder / "fast.c"
        source.write_text(
            "#include <Python.h>\n"
            "static PyObject *scale(PyObject *s, PyObject *a) "
            f"{{ return PyFloat_FromDouble({constant}); }}\n"
            'static PyMethodDef m[] = {{"scale", scale, METH_NOARGS, 0}, {0}};\n'
            'static struct PyModuleDef d = {PyModuleDef_HEAD_INIT, "fast", 0, -1, m};\n'
            "PyMODINIT_FUNC PyInit_fast(void) { return PyModule_Create(&d); }\n"
        )
        place = folder / f"fast{sysconfig.get_config_var('EXT_SUFFIX')}"
        include = sysconfig.get_paths()["include"]
        command = ["cc", "-shared", "-fPIC", f"-I{include}", str(source), "-o", str(place)]
        subprocess.run(command, check=True)
        source.unlink()
        os.utime(place, (1_700_000_000, 1_700_000_000))

    return edit


USES_EXTENSION = project("return self.linear(x) * fast.scale()", top="import fast")
CASES.append(
    Case(
        "extension_rebuilt",
        both(USES_EXTENSION, extension("2.0")),
        "miss",
        "a C extension beside the project was compiled again, with the time that it had",
        extension("3.0"),
    )
)
CASES.append(
    Case(
        "extension_rebuilt_alike",
        both(USES_EXTENSION, extension("2.0")),
        "hit",
        "a C extension was compiled again from the same source, byte by byte the same",
        extension("2.0"),
    )
)


def link_to(version: str) -> Edit:
    def edit(folder: Path) -> None:
        link = folder / "current"
        link.unlink(missing_ok=True)
        link.symlink_to(version)

    return edit


CASES.append(
    Case(
        "folder_link_switched",
        both(
            project(
                'return self.linear(x) * float(Path("current/scale.txt").read_text())',
            ),
            write({"v1/scale.txt": "2", "v2/scale.txt": "3"}),
            link_to("v1"),
        ),
        "miss",
        "forward reads through a link to a folder, which now points to another folder",
        link_to("v2"),
    )
)
CASES.append(
    Case(
        "size_of_file_in_forward",
        both(project('return self.linear(x) * os.path.getsize("blob")'), write({"blob": "ab"})),
        "miss",
        "forward asks for a file's size without opening it",
        write({"blob": "abc"}),
    )
)
CASES.append(
    Case(
        "mapped_weights_same_size_and_time",
        both(
            project(
                """
                if self.held is None:
                    self.held = numpy.fromfile("table.bin", dtype=numpy.float32)
                return self.linear(x) * float(self.held[0])
                """,
                top="import numpy\nimport numpy as np",
            ),
            lambda folder: (folder / "table.bin").write_bytes(b"\x00\x00\x00\x40") and None,
        ),
        "miss",
        "a table that the first call reads with numpy.fromfile, same size, same time",
        keeping_time(
            "table.bin",
            lambda folder: (folder / "table.bin").write_bytes(b"\x00\x00\x40\x40") and None,
        ),
    )
)
