"""Changes that a third reviewer thought of from the cache's page alone.

What forward finds by looking around: folders, links, expansions, plugins; and constants of code
that compare equal although they compute something else. The last four were kept unseen until the
others were judged.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

from identity_corpus import hostile
from identity_corpus.cases import Case, array, both, module, project, rewrite, wheel, write

CASES: list[Case] = []
_known = len(hostile.CASES)

# What forward finds by looking around.


def database(value: float) -> object:
    """Write a database with one number."""

    def edit(folder: Path) -> None:
        (folder / "values.db").unlink(missing_ok=True)
        connection = sqlite3.connect(folder / "values.db")
        connection.execute("create table t (v real)")
        connection.execute("insert into t values (?)", (value,))
        connection.commit()
        connection.close()

    return edit


def linked(target: str) -> object:
    """Point current.json at another file."""

    def edit(folder: Path) -> None:
        (folder / "current.json").unlink(missing_ok=True)
        (folder / "current.json").symlink_to(target)

    return edit


def pickled_module(folder: Path) -> None:
    """Save the module as another process sees it that imports its class by name."""
    code = "import net, torch\ntorch.save(net.make(), 'net.pt')"
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)


CASES += [
    Case(
        "variable_by_expandvars",
        project('return self.linear(x) * float(os.path.expandvars("$MODEL_SCALE"))'),
        "miss",
        "forward expands a text with an environment variable",
        env_before={"MODEL_SCALE": "2.0"},
        env_after={"MODEL_SCALE": "3.0"},
    ),
    Case(
        "folder_listed_by_forward",
        both(
            project('return self.linear(x) * len(os.listdir("parts"))'),
            write({"parts/a.txt": "a", "parts/b.txt": "b"}),
        ),
        "miss",
        "forward counts the files of a folder; one is added",
        write({"parts/c.txt": "c"}),
    ),
    Case(
        "link_points_elsewhere",
        both(
            project('return self.linear(x) * json.loads(Path("current.json").read_text())'),
            write({"one.json": "2.0", "two.json": "3.0"}),
            linked("one.json"),  # type: ignore[arg-type]
        ),
        "miss",
        "forward reads a file by a link, which then leads to another file",
        linked("two.json"),  # type: ignore[arg-type]
    ),
    Case(
        "file_beside_the_code_by_suffix",
        write(
            {
                "mod.py": module(
                    "return self.linear(x) * "
                    'tomllib.loads(Path(__file__).with_suffix(".toml").read_text())["scale"]',
                    top="import tomllib",
                ),
                "mod.toml": "scale = 2.0\n",
            }
        ),
        "miss",
        "forward reads the file that is called as its own, with another suffix",
        write({"mod.toml": "scale = 3.0\n"}),
    ),
    Case(
        "database_read_by_forward",
        both(
            project(
                'rows = sqlite3.connect("values.db").execute("select v from t").fetchall()\n'
                "return self.linear(x) * rows[0][0]",
                top="import sqlite3",
            ),
            database(2.0),  # type: ignore[arg-type]
        ),
        "miss",
        "forward queries a database; its number changes",
        database(3.0),  # type: ignore[arg-type]
    ),
    Case(
        "plugin_by_entry_point",
        both(
            write(
                {
                    "mod.py": module(
                        "for one in entry_points(group='scales'):\n"
                        "    x = x * one.load()()\n"
                        "return self.linear(x)",
                        top="from importlib.metadata import entry_points",
                    )
                }
            ),
            wheel(
                "firstscale",
                "1.0",
                {"firstscale.py": "def by():\n    return 2.0\n"},
                entry_points="[scales]\nfirst = firstscale:by\n",
            ),
        ),
        "miss",
        "forward calls what installed distributions register; another one is installed",
        wheel(
            "secondscale",
            "1.0",
            {"secondscale.py": "def by():\n    return 3.0\n"},
            entry_points="[scales]\nsecond = secondscale:by\n",
        ),
    ),
    Case(
        "pickled_module_of_an_edited_class",
        both(
            write(
                {
                    "net.py": module("return self.linear(x) * 2.0"),
                    "mod.py": "import torch\n\n\ndef make():\n"
                    '    return torch.load("net.pt", weights_only=False)\n',
                }
            ),
            pickled_module,
        ),
        "miss",
        "the factory unpickles a module; its class is edited afterwards",
        rewrite("net.py", lambda text: text.replace("* 2.0", "* 3.0")),
    ),
]

# Constants that compare equal.

for _name, _why, _old, _new in (
    ("negative_zero_in_code", "0.0 becomes -0.0 in forward", "0.0", "-0.0"),
    (
        "true_or_one_in_code",
        "1 becomes True in forward",
        "1",
        "True",
    ),
    ("negative_zero_in_a_tuple", "a zero within a tuple changes its sign", "(0.0, 1)", "(-0.0, 1)"),
):
    hostile.edited(
        _name,
        _why,
        {
            "mod.py": module(
                f"held = {_old}\nreturn use(self.linear(x), held)",
                top=(
                    "def use(y, held):\n"
                    "    first = held[0] if isinstance(held, tuple) else held\n"
                    "    by = torch.copysign(torch.tensor(2), torch.tensor(float(first)))\n"
                    "    return y + by + isinstance(held, bool)\n"
                ),
            )
        },
        "mod.py",
        f"held = {_old}",
        f"held = {_new}",
    )

# What must stay a hit.

CASES += [
    Case(
        "line_endings_of_another_system",
        project("return self.linear(x) * 2.0"),
        "hit",
        "the file is checked out with other line endings",
        rewrite("mod.py", lambda text: text.replace("\n", "\r\n")),
    ),
    Case(
        "session_of_another_terminal",
        project('return self.linear(x) * float(os.environ.get("MODEL_SCALE", "2.0"))'),
        "hit",
        "another terminal, another session: no variable that the code names",
        env_before={"TERM": "xterm", "SSH_TTY": "/dev/pts/1", "PWD": "/a", "LANG": "C.UTF-8"},
        env_after={"TERM": "screen", "SSH_TTY": "/dev/pts/2", "PWD": "/b", "LANG": "en_US.UTF-8"},
    ),
]

# Unseen until the end.

CASES += [
    Case(
        "array_mapped_from_a_file",
        both(
            write(
                {
                    "mod.py": module(
                        "return self.linear(x) * torch.from_numpy(self.held.copy())",
                        top="import numpy as np",
                        make='return Net(np.load("table.npy", mmap_mode="r")).eval()',
                    )
                }
            ),
            array("table.npy", [1.0, 2.0, 3.0, 4.0]),
        ),
        "miss",
        "the module holds an array that is mapped from a file, whose content changes",
        array("table.npy", [1.0, 2.0, 3.0, 5.0]),
    ),
    Case(
        "resource_of_a_package",
        write(
            {
                "mod.py": module(
                    'text = resources.files("vendor").joinpath("scale" + ".txt").read_text()\n'
                    "return self.linear(x) * float(text)",
                    top="from importlib import resources",
                ),
                "vendor/__init__.py": "",
                "vendor/scale.txt": "2.0",
            }
        ),
        "miss",
        "forward reads a resource of a user's package",
        write({"vendor/scale.txt": "3.0"}),
    ),
    Case(
        "helper_shadowed_by_path",
        write(
            {
                "mod.py": module(
                    "return self.linear(x) * helperlib.factor()", top="import helperlib"
                ),
                "a/helperlib.py": "def factor():\n    return 2.0\n",
                "b/helperlib.py": "def factor():\n    return 3.0\n",
            }
        ),
        "miss",
        "another folder comes first in the import path",
        env_before={"PYTHONPATH": "{folder}/a:{folder}/b"},
        env_after={"PYTHONPATH": "{folder}/b:{folder}/a"},
    ),
    Case(
        "unmatched_file_beside_those_read",
        both(
            write(
                {
                    "mod.py": module(
                        "return self.linear(x) * self.held",
                        make='files = sorted(Path("parts").glob("*.json"))\n'
                        "return Net(sum(json.loads(one.read_text()) for one in files)).eval()",
                    ),
                    "parts/a.json": "2.0",
                }
            ),
        ),
        "hit",
        "a file that no pattern matches appears beside those that the factory reads",
        write({"parts/notes.txt": "x"}),
    ),
]

CASES += hostile.CASES[_known:]
del hostile.CASES[_known:]
