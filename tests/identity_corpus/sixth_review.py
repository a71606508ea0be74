"""Changes of a sixth review, by somebody who had not read the code.

State inside of native objects, variables as bytes, code that an installed package puts elsewhere;
and what only calls consult, under names that no walk can compute.
"""

from __future__ import annotations

from identity_corpus.cases import Case, both, keeping_time, module, replace, write

CASES: list[Case] = []
CALLS: list[Case] = []
"""Changes that the calls of the reference show, and no walk over the module."""


def miss(name: str, why: str, before: object, after: object = None, **more: object) -> None:
    """A change after which outputs are others."""
    given = {"after": after, **more} if after is not None else more
    CASES.append(Case(name, before, "miss", why, **given))  # type: ignore[arg-type]


def calls(name: str, why: str, before: object, after: object = None, **more: object) -> None:
    """The same, of what calls consult."""
    given = {"after": after, **more} if after is not None else more
    CALLS.append(Case(name, before, "miss", why, **given))  # type: ignore[arg-type]


miss(
    "context_variable",
    "another module sets a context variable from a file when it is imported",
    write(
        {
            "held.py": "import contextvars\n\nGAIN = contextvars.ContextVar('GAIN')\n",
            "setting.py": "import json\nfrom pathlib import Path\nimport held\n\n"
            "held.GAIN.set(json.loads(Path(__file__).with_suffix('.json').read_text()))\n",
            "setting.json": "2.0",
            "mod.py": module(
                "return self.linear(x) * GAIN.get()", top="import setting\nfrom held import GAIN"
            ),
        }
    ),
    write({"setting.json": "3.0"}),
)
miss(
    "scripted_function",
    "a function that torch.jit.script compiled in another module",
    write(
        {
            "acts.py": "import torch\n\n\n@torch.jit.script\ndef act(x):\n"
            "    return torch.sigmoid(x) * 2.0\n",
            "mod.py": module(
                "return self.act(self.linear(x))", top="from acts import act", init="self.act = act"
            ),
        }
    ),
    replace("acts.py", "2.0", "3.0"),
)
miss(
    "variable_as_bytes",
    "forward reads a variable as bytes",
    write({"mod.py": module("return self.linear(x) * float(os.environb[b'GAIN_OF_LAB'])")}),
    env_before={"GAIN_OF_LAB": "2"},
    env_after={"GAIN_OF_LAB": "3"},
)
miss(
    "weights_of_the_same_state",
    "a number in a file is replaced in place; size and time are as before",
    write(
        {
            "mod.py": module(
                "return self.linear(x) * self.gain",
                init="self.gain = float(Path('gain').read_text())",
            ),
            "gain": "2.5",
        }
    ),
    keeping_time("gain", write({"gain": "3.5"})),
)

SPELLED = "name = ''.join(map(chr, self.letters))\n"
LETTERS = "self.letters = [ord(one) for one in {!r}]"


def spelled(use: str, name: str, top: str = "") -> str:
    """A model that puts a name together of numbers it holds."""
    return module(f"{SPELLED}{use}", top=top, init=LETTERS.format(name))


calls(
    "file_of_a_spelled_name",
    "forward reads a file whose name it puts together of numbers",
    write(
        {"mod.py": spelled("return self.linear(x) * float(open(name).read())", "gain"), "gain": "2"}
    ),
    write({"gain": "3"}),
)
calls(
    "file_of_a_spelled_name_in_place",
    "the same, with its size and time kept",
    write(
        {"mod.py": spelled("return self.linear(x) * float(open(name).read())", "gain"), "gain": "2"}
    ),
    keeping_time("gain", write({"gain": "3"})),
)
calls(
    "file_that_appears",
    "forward looks for a file of such a name, which appears",
    write({"mod.py": spelled("return self.linear(x) * (3 if os.path.exists(name) else 2)", "on")}),
    write({"on": ""}),
)
calls(
    "folder_of_a_spelled_name",
    "forward counts the files of such a folder",
    write(
        {"mod.py": spelled("return self.linear(x) * len(os.listdir(name))", "all"), "all/one": ""}
    ),
    write({"all/two": ""}),
)
calls(
    "module_of_a_spelled_name",
    "forward imports a module of such a name, whose helper changes",
    write(
        {
            "mod.py": spelled(
                "return importlib.import_module(name).act(self.linear(x))",
                "acts",
                top="import importlib",
            ),
            "acts.py": "from helper import GAIN\n\n\ndef act(x):\n    return x * GAIN\n",
            "helper.py": "GAIN = 2\n",
        }
    ),
    replace("helper.py", "2", "3"),
)
CALLS.append(
    Case(
        "comment_in_a_module_of_a_spelled_name",
        write(
            {
                "mod.py": spelled(
                    "return importlib.import_module(name).act(self.linear(x))",
                    "acts",
                    top="import importlib",
                ),
                "acts.py": "def act(x):\n    return x * 2\n",
            }
        ),
        "hit",
        "the same, where a comment is added to the module",
        replace("acts.py", "x * 2", "x * 2  # twice"),
    )
)
calls(
    "array_mapped_for_writing",
    "forward maps an array into memory, for writing as well",
    both(
        write(
            {
                "mod.py": spelled(
                    "return self.linear(x) * float(np.memmap(name, dtype='uint8', mode='r+')[0])",
                    "gain",
                    top="import numpy as np",
                )
            }
        ),
        write({"gain": "2"}),
    ),
    write({"gain": "3"}),
)
calls(
    "precision_of_decimals",
    "the factory sets the precision of decimals from a file of such a name; forward divides",
    write(
        {
            "mod.py": module(
                "return self.linear(x) * float(decimal.Decimal(2) / 3)",
                top="import decimal",
                make="decimal.getcontext().prec = int(open(''.join(map(chr, [100, 105]))).read())\n"
                "return Net().eval()",
            ),
            "di": "1",
        }
    ),
    write({"di": "6"}),
)
