"""Changes of a ninth review, by somebody who had read the code and looked past what it records.

Reads by descriptors and directory entries, names of links, other processes, variables that native
code or a package reads, memory files, generated code, and names that look like those of caches.
"""

from __future__ import annotations

import hashlib
import json
import py_compile
import subprocess
from pathlib import Path

from identity_corpus.cases import Case, Edit, both, keeping_time, module, replace, write
from identity_corpus.seventh_review import WORDS, aged
from identity_corpus.sixth_review import spelled
from identity_corpus.wheels import forget_bytecode

CASES: list[Case] = []
CALLS: list[Case] = []
"""Changes that only loads and calls show, and no walk over the module."""


def calls(name: str, why: str, before: Edit, after: Edit | None = None, **more: object) -> None:
    """A change after which outputs are others."""
    given = {"after": after, **more} if after is not None else more
    CALLS.append(Case(name, before, "miss", why, **given))  # type: ignore[arg-type]


def never(name: str, why: str, before: Edit, **more: object) -> None:
    """What nobody can compare."""
    CALLS.append(Case(name, before, "never", why, **more))  # type: ignore[arg-type]


def hit(name: str, why: str, before: Edit, after: Edit) -> None:
    """A change that no output notices."""
    CASES.append(Case(name, before, "hit", why, after))


def model(forward: str, **more: str) -> Edit:
    """Write mod.py, whose forward computes the linear layer's outputs times `forward`."""
    return write({"mod.py": module(f"return self.linear(x) * {forward}", **more)})


def link(name: str, target: str) -> Edit:
    """Make a symbolic link, or let it lead elsewhere."""

    def edit(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)

    return edit


def memory_path(folder: Path) -> Path:
    """The file in memory of a project; whoever judges its case removes it."""
    return Path("/dev/shm", f"lab-{hashlib.sha256(str(folder).encode()).hexdigest()[:16]}")


def memory_file(value: str, text: str = "") -> Edit:
    """Write a file in memory, outside of the project, and a mod.py in which NAME stands for it."""

    def edit(folder: Path) -> None:
        path = memory_path(folder)
        path.write_text(value)
        if text:
            (folder / "mod.py").write_text(text.replace("NAME", repr(path.name)))

    return edit


PLACE = "os.sep.join(('', 'dev', 'shm', NAME))"


def installed(name: str, text: str) -> Edit:
    """Install a package of one module below a site-packages of the project's own."""
    info = f"lib/site-packages/{name}-1.0.dist-info"
    return write(
        {
            f"lib/site-packages/{name}.py": text,
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
            f"{info}/RECORD": f"{name}.py,,\n{name}-1.0.dist-info/METADATA,,\n",
        }
    )


PACKAGES = {"PYTHONPATH": "{folder}/lib/site-packages"}


# Reads that name no path, or another one than they seem to.

calls(
    "file_below_a_descriptor",
    "forward opens a file by its name below an open folder",
    both(
        model(
            "float(read('gain'))",
            top="def read(name):\n"
            "    folder = os.open('data', os.O_RDONLY)\n"
            "    found = os.open(name, os.O_RDONLY, dir_fd=folder)\n"
            "    return os.read(found, 8)\n",
        ),
        write({"data/gain": "2"}),
    ),
    write({"data/gain": "3"}),
)
calls(
    "folder_of_a_descriptor",
    "forward counts files by os.fwalk, which lists open folders",
    both(
        model("sum(len(files) for _, _, files, _ in os.fwalk('all'))"),
        write({"all/one": "", "all/two": ""}),
    ),
    write({"all/three": ""}),
)
calls(
    "largest_entry",
    "forward takes the number in the name of the largest file of a folder",
    both(
        model("float(max(os.scandir('ckpt'), key=lambda one: one.stat().st_size).name)"),
        write({"ckpt/2": "long", "ckpt/3": ""}),
    ),
    write({"ckpt/3": "longer"}),
)
calls(
    "newest_entry",
    "the same of the newest one",
    both(
        model("float(max(os.scandir('ckpt'), key=lambda one: one.stat().st_mtime).name)"),
        write({"ckpt/2": "", "ckpt/3": ""}),
        aged("ckpt/2", 1_700_000_000),
        aged("ckpt/3", 1_600_000_000),
    ),
    aged("ckpt/3", 1_750_000_000),
)


def _folder(folder: Path) -> None:
    (folder / "all/two").unlink()
    (folder / "all/two").mkdir()


calls(
    "entry_that_becomes_a_folder",
    "forward counts the folders in a folder",
    both(
        model("(1 + sum(one.is_dir() for one in os.scandir('all')))"),
        write({"all/one": "", "all/two": ""}),
    ),
    _folder,
)
calls(
    "name_behind_a_link",
    "forward takes a number from the name that a link leads to",
    both(
        model("float(Path('latest').resolve().name)"),
        write({"2/x": "", "3/x": ""}),
        link("latest", "2"),
    ),
    link("latest", "3"),
)
calls(
    "name_behind_a_link_of_the_factory",
    "the factory does",
    both(
        model("self.gain", init="self.gain = float(os.readlink('latest'))"),
        write({"2/x": "", "3/x": ""}),
        link("latest", "2"),
    ),
    link("latest", "3"),
)
calls(
    "permission_of_a_file",
    "forward asks whether a file may be executed",
    both(model("(3 if os.access('flag', os.X_OK) else 2)"), write({"flag": ""})),
    lambda folder: (folder / "flag").chmod(0o755),
)
calls(
    "imported_stat",
    "forward asks for the size of a file by a function that was imported from os",
    both(model("stat('flag').st_size", top="from os import stat"), write({"flag": "12"})),
    write({"flag": "123"}),
)
calls(
    "folder_called_like_a_cache",
    "forward reads a file in a folder whose name begins as that of a compiler's cache",
    both(
        model("float(open(os.path.join('torchinductor_study', 'gain')).read())"),
        write({"torchinductor_study/gain": "2"}),
    ),
    write({"torchinductor_study/gain": "3"}),
)
calls(
    "folder_called_like_packages",
    "forward counts the files of a folder called data-packages",
    both(
        model("len(os.listdir('data-packages'))"),
        write({"data-packages/one": "", "data-packages/two": ""}),
    ),
    write({"data-packages/three": ""}),
)
if Path("/dev/shm").is_dir():
    calls(
        "file_in_memory",
        "forward reads a file that is kept in memory",
        memory_file("2", module(f"return self.linear(x) * float(open({PLACE}).read())")),
        memory_file("3"),
    )
    calls(
        "file_in_memory_of_the_factory",
        "the factory does",
        memory_file(
            "2",
            module(
                "return self.linear(x) * self.gain", init=f"self.gain = float(open({PLACE}).read())"
            ),
        ),
        memory_file("3"),
    )
    never(
        "shared_memory",
        "forward reads memory that another process shares",
        memory_file(
            "2",
            module(
                "shared = _posixshmem.shm_open('/' + NAME, os.O_RDONLY, mode=0o600)\n"
                "return self.linear(x) * float(os.read(shared, 8))",
                top="import _posixshmem",
            ),
        ),
    )

calls(
    "link_that_becomes_a_file",
    "forward asks whether a name is that of a link",
    both(
        model("(2 if os.path.islink('weights') else 3)"),
        write({"other": ""}),
        link("weights", "other"),
    ),
    both(lambda folder: (folder / "weights").unlink(), write({"weights": ""})),
)
calls(
    "file_in_the_temporary_folder",
    "forward reads a file in the folder for temporary files, which a variable names",
    both(
        model(
            "float(open(os.path.join(tempfile.gettempdir(), 'gain')).read())",
            top="import tempfile\ntempfile.tempdir = None\n",
        ),
        write({"one/gain": "2", "two/gain": "3"}),
    ),
    env_before={"TMPDIR": "{folder}/one"},
    env_after={"TMPDIR": "{folder}/two"},
)
calls(
    "file_that_is_shown_while_it_is_read",
    "forward reads a file by a package that shows how far it is",
    both(
        write(
            {
                "mod.py": module(
                    "with progress.open('gain', 'r', console=Console(quiet=True)) as file:\n"
                    "    gain = float(file.read())\n"
                    "return self.linear(x) * gain",
                    top="from rich import progress\nfrom rich.console import Console",
                ),
                "gain": "2",
            }
        ),
    ),
    write({"gain": "3"}),
    needs=("rich",),
)

# Other processes.

READER = {
    "reader.py": "def read():\n    with open('gain') as file:\n        return float(file.read())\n"
}
SPAWN = "import multiprocessing\nimport reader\n"
ASK = (
    "with multiprocessing.get_context('spawn').Pool(1) as pool:\n    {} = pool.apply(reader.read)\n"
)
calls(
    "spawned_process_of_the_factory",
    "a process that the factory spawns reads a file",
    both(
        model("self.gain", top=SPAWN, init=ASK.format("self.gain")),
        write({**READER, "gain": "2"}),
    ),
    write({"gain": "3"}),
)
never(
    "spawned_process_of_forward",
    "a process that forward spawns reads a file",
    both(
        write({"mod.py": module(f"{ASK.format('gain')}return self.linear(x) * gain", top=SPAWN)}),
        write({**READER, "gain": "2"}),
    ),
)
never(
    "address_of_a_name",
    "forward asks for the address of a host",
    model("(3 if socket.gethostbyname('localhost') == '0' else 2)", top="import socket"),
)
never(
    "date_of_a_subclass",
    "forward takes the date by a class of the user's that derives from Python's",
    model("Day.today().month", top="from datetime import date\n\n\nclass Day(date):\n    pass\n"),
)
never(
    "datagram",
    "forward sends a datagram",
    write(
        {
            "mod.py": module(
                "with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:\n"
                "    link.sendto(b'1', ('127.0.0.1', 9))\n"
                "return self.linear(x)",
                top="import socket",
            )
        }
    ),
)

# Variables that are not read by their names in Python.

never(
    "variable_by_the_c_library",
    "forward asks the C library for a variable",
    model(
        "variable()",
        top="import ctypes\n\n\ndef variable():\n    names = ctypes.CDLL(None)\n"
        "    names.getenv.restype = ctypes.c_char_p\n"
        "    return float(names.getenv(b'GAIN_OF_LAB'))\n",
    ),
    env_before={"GAIN_OF_LAB": "2"},
)


GAIN = {"env_before": {"GAIN_OF_LAB": "2"}, "env_after": {"GAIN_OF_LAB": "3"}}


def native(body: str) -> Edit:
    """Compile a library whose function gives a number."""

    def edit(folder: Path) -> None:
        source = folder / "own.c"
        source.write_text(f"#include <stdio.h>\n#include <stdlib.h>\ndouble f(void) {{ {body} }}\n")
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-o", str(folder / "own.so"), str(source)], check=True
        )
        source.unlink()

    return edit


OWN = (
    "import ctypes\nOWN = ctypes.CDLL(str(Path(__file__).parent / 'own.so'))\n"
    "OWN.f.restype = ctypes.c_double\n"
)
calls(
    "variable_of_a_library",
    "a library of the user's reads a variable",
    both(model("OWN.f()", top=OWN), native('return atof(getenv("GAIN_OF_LAB"));')),
    **GAIN,
)
calls(
    "file_of_a_library",
    "a library of the user's reads a file that only it names",
    both(
        model("OWN.f()", top=OWN),
        native(
            'double gain = 0; FILE *file = fopen("own_gain.txt", "r"); '
            'if (fscanf(file, "%lf", &gain) != 1) gain = 1; fclose(file); return gain;'
        ),
        write({"own_gain.txt": "2"}),
    ),
    write({"own_gain.txt": "3"}),
)
GATHERING = installed(
    "gathering",
    "import os\n\n\ndef gather(prefix):\n    found = os.environ.items()\n"
    "    return {one: value for one, value in found if one.startswith(prefix)}\n",
)
ASKED = "float(gather('GAIN_OF').get('GAIN_OF_LAB', '2'))"
APPEARS = {"env_before": PACKAGES, "env_after": {**PACKAGES, "GAIN_OF_LAB": "3"}}
calls(
    "variables_of_a_prefix",
    "a package gathers all variables of a prefix for the factory; one is set that was not",
    both(
        GATHERING,
        model("self.gain", top="from gathering import gather", init=f"self.gain = {ASKED}"),
    ),
    **APPEARS,
)
calls(
    "variables_of_a_prefix_in_forward",
    "the same in forward",
    both(GATHERING, model(ASKED, top="from gathering import gather")),
    **APPEARS,
)
calls(
    "variable_of_a_desktop",
    "forward reads a file in the folder that XDG_DATA_HOME names",
    both(
        model("float(open(os.environ['XDG_DATA_HOME'] + '/gain').read())"),
        write({"one/gain": "2", "two/gain": "3"}),
    ),
    env_before={"XDG_DATA_HOME": "{folder}/one"},
    env_after={"XDG_DATA_HOME": "{folder}/two"},
)
calls(
    "variable_of_a_terminal",
    "forward reads the variable COLUMNS",
    model("float(os.environ['COLUMNS'])"),
    env_before={"COLUMNS": "80"},
    env_after={"COLUMNS": "100"},
)
calls(
    "variable_of_our_prefix",
    "the factory reads a variable whose name begins with benchorch's",
    model("self.gain", init="self.gain = float(os.environ['BENCHORCHESTRA_GAIN'])"),
    env_before={"BENCHORCHESTRA_GAIN": "2"},
    env_after={"BENCHORCHESTRA_GAIN": "3"},
)
calls(
    "locale_of_the_session",
    "the factory sets the session's locale, and forward asks for its encoding",
    model(
        "(2 if locale.nl_langinfo(locale.CODESET) == 'UTF-8' else 3)",
        top="import locale",
        make="locale.setlocale(locale.LC_ALL, '')\nreturn Net().eval()",
    ),
    env_before={"LC_ALL": "C"},
    env_after={"LC_ALL": "C.UTF-8"},
)
calls(
    "capability_of_the_processor",
    "the factory asks torch which instructions its kernels use",
    model(
        "self.gain",
        init="self.gain = float(len(torch.backends.cpu.get_cpu_capability()))",
    ),
    env_before={"ATEN_CPU_CAPABILITY": "default"},
    env_after={"ATEN_CPU_CAPABILITY": "avx2"},
)

# Code that comes from elsewhere.

calls(
    "portion_of_a_namespace",
    "a module appears in an earlier portion of a namespace package, and hides another",
    write(
        {
            "mod.py": module("return self.linear(x) * GAIN", top="from space.acts import GAIN"),
            "one/space/other.py": "",
            "two/space/acts.py": "GAIN = 2\n",
        }
    ),
    write({"one/space/acts.py": "GAIN = 3\n"}),
    env_before={"PYTHONPATH": "{folder}/one:{folder}/two"},
    env_after={"PYTHONPATH": "{folder}/one:{folder}/two"},
)
calls(
    "import_path_in_place",
    "a list of import paths leads to another folder; its size and time stay",
    write(
        {
            "mod.py": module("return self.linear(x) * GAIN", top="from acts import GAIN"),
            "site/lab.pth": "../one\n",
            "one/acts.py": "GAIN = 2\n",
            "two/acts.py": "GAIN = 3\n",
        }
    ),
    keeping_time("site/lab.pth", write({"site/lab.pth": "../two\n"})),
)


def compiled(value: int) -> Edit:
    """Compile a helper so that Python does not look at its source any more."""

    def edit(folder: Path) -> None:
        forget_bytecode(folder)
        source = folder / "other.py"
        source.write_text(f"GAIN = {value}\n")
        cached = folder / "__pycache__"
        cached.mkdir(exist_ok=True)
        py_compile.compile(
            str(source),
            cfile=str(cached / "acts.cpython-311.pyc"),
            dfile=str(folder / "acts.py"),
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )
        source.unlink()

    return edit


calls(
    "compiled_without_its_source",
    "a compiled file is replaced whose source Python is told not to compare",
    both(
        model("GAIN", top="from acts import GAIN"),
        write({"acts.py": "GAIN = 2\n"}),
        compiled(2),
    ),
    compiled(3),
)
LATE = "import {0}\nreturn self.linear(x) * {0}.GAIN"
calls(
    "file_of_a_late_package",
    "forward imports a package that reads a file outside of it",
    both(
        installed("lately", "GAIN = float(open('gain').read())\n"),
        write({"mod.py": module(LATE.format("lately")), "gain": "2"}),
    ),
    write({"gain": "3"}),
    env_before=PACKAGES,
    env_after=PACKAGES,
)
calls(
    "variable_of_a_late_package",
    "forward imports a package that reads a variable",
    both(
        installed("lately", "import os\n\nGAIN = float(os.environ['GAIN_OF_LAB'])\n"),
        write({"mod.py": module(LATE.format("lately"))}),
    ),
    env_before={**PACKAGES, "GAIN_OF_LAB": "2"},
    env_after={**PACKAGES, "GAIN_OF_LAB": "3"},
)
GENERATED = """\
TEXT = '''
class Generated(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x) * float(open("gain").read())
'''
exec(compile(TEXT, "<generated>", "exec"), globals())
"""
calls(
    "generated_class",
    "forward is generated code, and reads a file",
    write({"mod.py": module(top=GENERATED, make="return Generated().eval()"), "gain": "2"}),
    write({"gain": "3"}),
)

# Files that native code opens.

calls(
    "tokenizer_of_a_spelled_name",
    "the factory loads a tokenizer, whose native code reads a file of a name that is put together",
    write(
        {
            "mod.py": module(
                "return self.linear(x) * sum(self.words.encode('a b').ids)",
                top="from tokenizers import Tokenizer",
                init="self.words = Tokenizer.from_file(f'{held or \"word\"}s.json')",
            ),
            "words.json": json.dumps(WORDS),
        }
    ),
    write({"words.json": json.dumps(WORDS).replace('"a": 2', '"a": 3')}),
    needs=("tokenizers",),
)


def graph(scale: float) -> Edit:
    """Write an ONNX file that multiplies."""

    def edit(folder: Path) -> None:
        import onnx
        from onnx import TensorProto, helper

        kind = TensorProto.FLOAT
        made = helper.make_graph(
            [helper.make_node("Mul", ["x", "scale"], ["y"])],
            "scaled",
            [helper.make_tensor_value_info("x", kind, ["n", 4])],
            [helper.make_tensor_value_info("y", kind, ["n", 4])],
            [helper.make_tensor("scale", kind, [1], [scale])],
        )
        opsets = [helper.make_opsetid("", 17)]
        onnx.save(helper.make_model(made, opset_imports=opsets, ir_version=9), folder / "scaled")

    return edit


RUN = (
    "given = {'x': self.linear(x).numpy()}\n"
    "return torch.from_numpy(InferenceSession(name).run(None, given)[0])"
)
calls(
    "graph_that_forward_opens",
    "forward runs an ONNX file of a name that it puts together",
    both(
        write({"mod.py": spelled(RUN, "scaled", top="from onnxruntime import InferenceSession")}),
        graph(2),
    ),
    graph(3),
    needs=("onnx", "onnxruntime"),
)
calls(
    "graph_of_an_attribute",
    "the same, where the module holds the file's path",
    both(
        write(
            {
                "mod.py": module(
                    f"name = self.path\n{RUN}",
                    top="from onnxruntime import InferenceSession",
                    init="self.path = str(Path(__file__).parent / ('sca' + str(held or 'led')))",
                )
            }
        ),
        graph(2),
    ),
    graph(3),
    needs=("onnx", "onnxruntime"),
)

# What is ordinary, and changes nothing.

hit(
    "log_beside_scanned_entries",
    "forward counts the folders in a folder, where a file grows",
    both(
        model("(1 + sum(one.is_dir() for one in os.scandir('all')))"),
        write({"all/one/x": "", "all/log": ""}),
    ),
    write({"all/log": "a line"}),
)
hit(
    "lock_logger_and_time",
    "forward logs how long it took, holds a lock and warns; a comment is added",
    write(
        {
            "mod.py": module(
                "start = time.time()\nwith LOCK:\n    y = self.linear(x)\n"
                "LOG.info('took %s', time.time() - start)\nwarnings.warn('slow')\nreturn y",
                top="import logging\nimport threading\nimport time\nimport warnings\n\n"
                "LOCK = threading.Lock()\nLOG = logging.getLogger(__name__)\n",
            )
        }
    ),
    replace("mod.py", "y = self.linear(x)\n", "y = self.linear(x)  # once\n"),
)
