"""Changes of a seventh review, by somebody who had read the code, that were judged wrong at first.

Files that native code opens, data that Python's own modules read for others, the order of bases,
settings of compilers, and objects that need not be beyond all hashing.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from identity_corpus.cases import Case, Edit, both, module, replace, write

CASES: list[Case] = []
CALLS: list[Case] = []
"""Changes that only loads and calls show, and no walk over the module."""


def miss(name: str, why: str, before: Edit, after: Edit, **more: object) -> None:
    """A change after which outputs are others."""
    CASES.append(Case(name, before, "miss", why, after, **more))  # type: ignore[arg-type]


def calls(name: str, why: str, before: Edit, after: Edit, **more: object) -> None:
    """The same, of what loads and calls consult."""
    CALLS.append(Case(name, before, "miss", why, after, **more))  # type: ignore[arg-type]


def floats(name: str, *values: float) -> Edit:
    """Write a file of float32."""

    def edit(folder: Path) -> None:
        import numpy

        (folder / name).write_bytes(numpy.array(values, numpy.float32).tobytes())

    return edit


def library(name: str, value: str, behind: str = "") -> Edit:
    """Compile a library whose function gives a number, or calls that of a library behind it."""

    def edit(folder: Path) -> None:
        body = f"return {behind}();" if behind else f"return {value};"
        source = folder / f"{name}.c"
        source.write_text(f"double {behind or 'f'}(void);\ndouble {name}(void) {{ {body} }}\n")
        command = ["gcc", "-shared", "-fPIC", "-o", str(folder / f"lib{name}.so"), str(source)]
        if behind:
            command += [f"-L{folder}", f"-l{behind}", "-Wl,-rpath,$ORIGIN"]
        subprocess.run(command, check=True)
        source.unlink()

    return edit


SPELLED = "str(Path(__file__).parent / ''.join(map(chr, [103, 97, 105, 110])))"
calls(
    "storage_mapped_by_torch",
    "__init__ maps a file of a name that it spells through torch, which opens it natively",
    both(
        write(
            {
                "mod.py": module(
                    "return self.linear(x) * self.gains",
                    init=f"storage = torch.UntypedStorage.from_file({SPELLED}, False, 16)\n"
                    "self.register_buffer('gains', torch.empty(0).set_(storage).clone())",
                )
            }
        ),
        floats("gain", 1, 2, 3, 4),
    ),
    floats("gain", 1, 2, 3, 5),
)
WORDS = {
    **{"version": "1.0", "truncation": None, "padding": None, "added_tokens": []},
    **{"normalizer": None, "post_processor": None, "decoder": None},
    "pre_tokenizer": {"type": "Whitespace"},
    "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "a": 2, "b": 1}, "unk_token": "[UNK]"},
}
calls(
    "tokenizer_of_a_file",
    "__init__ loads a tokenizer, whose native code reads its file; forward encodes words",
    write(
        {
            "mod.py": module(
                "return self.linear(x) * sum(self.words.encode('a b').ids)",
                top="from tokenizers import Tokenizer",
                init="self.words = Tokenizer.from_file(str(Path(__file__).parent / 'words.json'))",
            ),
            "words.json": json.dumps(WORDS),
        }
    ),
    replace("words.json", '"a": 2', '"a": 3'),
    needs=("tokenizers",),
)
calls(
    "library_behind_a_library",
    "forward calls a library that is linked with another one, which is replaced",
    both(
        write(
            {
                "mod.py": module(
                    "return self.linear(x) * LIBRARY.outer()",
                    top="import ctypes\n"
                    "LIBRARY = ctypes.CDLL(str(Path(__file__).parent / 'libouter.so'))\n"
                    "LIBRARY.outer.restype = ctypes.c_double",
                )
            }
        ),
        library("inner", "2.0"),
        library("outer", "", behind="inner"),
    ),
    library("inner", "3.0"),
)
calls(
    "package_data_by_pkgutil",
    "forward asks the loader of a package of the user's for its data",
    write(
        {
            "mod.py": module(
                "return self.linear(x) * float(pkgutil.get_data('stuff', 'gain.txt'))",
                top="import pkgutil",
            ),
            "stuff/__init__.py": "",
            "stuff/gain.txt": "2",
        }
    ),
    write({"stuff/gain.txt": "3"}),
)
calls(
    "line_by_linecache",
    "forward reads a line of a table by linecache; the table's name is put together",
    write(
        {
            "mod.py": module(
                "return self.linear(x) * float(linecache.getline(self.kind + '.lst', 2))",
                top="import linecache",
                init="self.kind = 'gains'",
            ),
            "gains.lst": "1\n2\n",
        }
    ),
    write({"gains.lst": "1\n3\n"}),
)


def aged(name: str, second: int) -> Edit:
    """Set a file's times."""
    return lambda folder: os.utime(folder / name, (second, second))


calls(
    "newest_file",
    "forward reads the newest of two files; the older one is touched",
    both(
        write(
            {
                "mod.py": module(
                    "newest = max(Path('ckpt').iterdir(), key=os.path.getmtime)\n"
                    "return self.linear(x) * float(newest.read_text())"
                ),
                "ckpt/a": "2",
                "ckpt/b": "3",
            }
        ),
        aged("ckpt/a", 1_700_000_000),
        aged("ckpt/b", 1_600_000_000),
    ),
    aged("ckpt/b", 1_750_000_000),
)
miss(
    "inductor_setting_of_the_factory",
    "the factory sets an option of Inductor's from a file",
    write(
        {
            "mod.py": module(
                top="import torch._inductor.config as options",
                make="fast = Path('fast').read_text() == 'yes'\n"
                "options.cpp.enable_unsafe_math_opt_flag = fast\nreturn Net().eval()",
            ),
            "fast": "no",
        }
    ),
    write({"fast": "yes"}),
    conversion="inductor",
)
miss(
    "bases_exchanged",
    "the bases of a class change places, so that the other one's method comes first",
    write(
        {
            "mod.py": module(
                "return PICKED.act(self.linear(x))",
                top="class Double:\n    def act(self, x):\n        return x * 2.0\n\n\n"
                "class Triple:\n    def act(self, x):\n        return x * 3.0\n\n\n"
                "class Picked(Double, Triple):\n    pass\n\n\nPICKED = Picked()\n",
            )
        }
    ),
    replace("mod.py", "(Double, Triple)", "(Triple, Double)"),
)
CASES.append(
    Case(
        "unchanged_universal_functions",
        write(
            {
                "mod.py": module(
                    "return torch.from_numpy(expit(self.held(self.linear(x).numpy())))",
                    top="import numpy as np\nfrom scipy.special import expit",
                    init="self.held = np.tanh",
                )
            }
        ),
        "hit",
        "the model holds functions of numpy and scipy that native code has",
        needs=("scipy",),
    )
)


def _table(folder: Path) -> None:
    import numpy

    numpy.save(folder / "gain.npy", numpy.full(4, 2, numpy.float32))


CASES.append(
    Case(
        "unchanged_memory_map",
        both(
            write(
                {
                    "mod.py": module(
                        "return self.linear(x) * torch.from_numpy(self.table.copy())",
                        top="import numpy as np",
                        init="self.table = np.load('gain.npy', mmap_mode='r')",
                    )
                }
            ),
            _table,
        ),
        "hit",
        "the model holds an array that is mapped from a file",
    )
)
