"""Changes of an eighth review, by somebody who had not read the code when they were judged.

What a name says: of a folder, of the place that a link leads to, of a version; code that is found
by name, and changes that touch files and change nothing.
"""

from __future__ import annotations

from pathlib import Path

from identity_corpus.cases import Case, Edit, both, module, replace, rewrite, wheel, write

CASES: list[Case] = []
CALLS: list[Case] = []
"""Changes that only loads and calls show, and no walk over the module."""


def miss(name: str, why: str, before: Edit, after: Edit, **more: object) -> None:
    """A change after which outputs are others."""
    CASES.append(Case(name, before, "miss", why, after, **more))  # type: ignore[arg-type]


def hit(name: str, why: str, before: Edit, after: Edit, **more: object) -> None:
    """A change of nothing that counts."""
    CASES.append(Case(name, before, "hit", why, after, **more))  # type: ignore[arg-type]


def link(name: str, target: str) -> Edit:
    """Have a link lead to another place."""

    def edit(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)

    return edit


STEP = "1 + int(os.readlink(Path(__file__).parent / 'latest').split('-')[1])"
STEPS = {"step-1/w.txt": "a", "step-3/w.txt": "a"}
miss(
    "step_in_the_name_that_a_link_leads_to",
    "__init__ takes the step from the name of the folder that a link leads to",
    both(
        write(
            {"mod.py": module("return self.linear(x) * self.k", init=f"self.k = {STEP}"), **STEPS}
        ),
        link("latest", "step-1"),
    ),
    link("latest", "step-3"),
)
CALLS.append(
    Case(
        "step_that_forward_reads_from_a_link",
        both(
            write({"mod.py": module(f"return self.linear(x) * ({STEP})"), **STEPS}),
            link("latest", "step-1"),
        ),
        "miss",
        "the same in forward",
        link("latest", "step-3"),
    )
)
miss(
    "version_of_what_is_never_imported",
    "__init__ branches on the version of a distribution that nothing imports",
    both(
        wheel("otherops", "1.0", {"otherops.py": "X = 1\n"}),
        write(
            {
                "mod.py": module(
                    "return self.linear(x) * self.k",
                    top="from importlib.metadata import version",
                    init="self.k = 1.5 if version('otherops') < '2' else 2.5",
                )
            }
        ),
    ),
    wheel("otherops", "2.0", {"otherops.py": "X = 1\n"}),
)
miss(
    "module_that_is_asked_for_names",
    "a package's module-level __getattr__ imports the part that has the name",
    write(
        {
            "pkg/__init__.py": "import importlib\n\n\ndef __getattr__(name):\n"
            "    part = importlib.import_module('.' + name.split('_')[0], __name__)\n"
            "    return getattr(part, name)\n",
            "pkg/gelu.py": "def gelu_like(x):\n    return x * 1.5\n",
            "mod.py": module("return pkg.gelu_like(self.linear(x))", top="import pkg"),
        }
    ),
    replace("pkg/gelu.py", "1.5", "2.5"),
)
miss(
    "implementation_of_a_generic_function",
    "another file registers the implementation of a singledispatch",
    write(
        {
            "op.py": "import functools\n\n\n@functools.singledispatch\n"
            "def act(x):\n    raise TypeError\n",
            "impl.py": "import torch\nfrom op import act\n\nGAIN = 1.5\n\n\n"
            "@act.register(torch.Tensor)\ndef _(x):\n    return x * GAIN\n",
            "mod.py": module("return act(self.linear(x))", top="import impl\nfrom op import act"),
        }
    ),
    replace("impl.py", "1.5", "2.5"),
)
miss(
    "teacher_behind_a_weak_reference",
    "the model holds by a weak reference what another module makes of a file",
    write(
        {
            "teacher.py": "import json\nfrom pathlib import Path\n\n\n"
            "class Teacher:\n    pass\n\n\n"
            "TEACHER = Teacher()\n"
            "TEACHER.gain = json.loads((Path(__file__).parent / 'gain.json').read_text())\n",
            "gain.json": "1.5",
            "mod.py": module(
                "return self.linear(x) * self.teacher().gain",
                top="import weakref\nimport teacher",
                init="self.teacher = weakref.ref(teacher.TEACHER)",
            ),
        }
    ),
    replace("gain.json", "1.5", "2.5"),
)
hit(
    "line_ends_of_another_system",
    "every line ends with CRLF, in a text of several lines too",
    write(
        {
            "helper.py": 'TEXT = """one\ntwo\n"""\n\n\ndef act(x):\n    return x * len(TEXT)\n',
            "mod.py": module("return act(self.linear(x))", top="from helper import act"),
        }
    ),
    both(
        rewrite("helper.py", lambda text: "# -*- coding: utf-8 -*-\n" + text),
        rewrite("helper.py", lambda text: text.replace("\n", "\r\n")),
        rewrite("mod.py", lambda text: text.replace("\n", "\r\n")),
    ),
)
hit(
    "numbers_and_texts_spelt_otherwise",
    "1_000.0 for 1000.0, 0x10 for 16, texts joined by place, a raw text",
    write(
        {
            "helper.py": "def act(x):\n    return x * 1000.0 / 16 + len('abcd')\n",
            "mod.py": module("return act(self.linear(x))", top="from helper import act"),
        }
    ),
    write(
        {
            "helper.py": "def act(x):\n    return (x * 1_000.0) / 0x10 \\\n"
            "        + len(r'ab' 'cd')\n"
        }
    ),
)
hit(
    "file_beside_those_that_are_chosen_from",
    "notes and an editor's file appear in the folder of which __init__ takes the last checkpoint",
    write(
        {
            "mod.py": module(
                "return self.linear(x) * self.k",
                init="found = sorted((Path(__file__).parent / 'ckpt').glob('step-*.txt'))\n"
                "self.k = float(found[-1].read_text())",
            ),
            "ckpt/step-1.txt": "1.5",
            "ckpt/step-2.txt": "2.5",
        }
    ),
    write({"ckpt/notes.md": "step 2 is best", "ckpt/.step-2.txt.swp": "b0VIM"}),
)
hit(
    "annotations_from_the_future",
    "from __future__ import annotations, and imports that nobody used are gone",
    write(
        {
            "helper.py": "import json\nimport re\n\n\n"
            "def act(x: float, k: float = 1.5):\n    return x * k\n",
            "mod.py": module("return act(self.linear(x))", top="from helper import act"),
        }
    ),
    both(
        replace("helper.py", "import json\nimport re\n", "from __future__ import annotations\n"),
        rewrite("mod.py", lambda text: "from __future__ import annotations\n\n" + text),
    ),
)
hit(
    "module_that_times_itself",
    "forward keeps how long it took",
    write(
        {
            "mod.py": module(
                "start = time.perf_counter()\ny = self.linear(x)\n"
                "self.last_s = time.perf_counter() - start\nreturn y",
                top="import time",
                init="self.last_s = 0.0",
            )
        }
    ),
    write({"README": "nothing"}),
)
hit(
    "copy_through_a_temporary_file",
    "__init__ copies a part through a file that has another name each time",
    write(
        {
            "mod.py": module(
                "return self.copied(x)",
                top="import tempfile",
                init="with tempfile.TemporaryDirectory() as place:\n"
                "    torch.save(self.linear.state_dict(), Path(place) / 'a.pt')\n"
                "    self.copied = nn.Linear(4, 4)\n"
                "    self.copied.load_state_dict(torch.load(Path(place) / 'a.pt'))",
            )
        }
    ),
    write({"README": "nothing"}),
)
