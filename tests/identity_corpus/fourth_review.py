"""Changes that a fourth reviewer tried as a user, without having read the code.

What a model reaches without naming it: modules by the list of all, classes by their base, variables
whose names are put together, functions put in place of others. Those that cases before have are
left out. Of 35 that were judged at first three were stale hits, which are the first three here.
"""

from __future__ import annotations

from identity_corpus.cases import Case, module, replace, write

CASES: list[Case] = []

GAINED = "def f(x):\n    return x * 2\n"
REGISTRY = """R = {}


def register(name):
    def decorate(function):
        R[name] = function
        return function
    return decorate
"""


def helped(
    name: str,
    why: str,
    forward: str,
    *,
    top: str = "import helper",
    init: str = "",
    changed: str = "helper.py",
    old: str = "x * 2",
    new: str = "x * 7",
    **files: str,
) -> None:
    """A model of several files, one of which changes."""
    given = {f"{key}.py": text for key, text in ({"helper": GAINED} | files).items()}
    text = module(forward, top=top, init=init)
    before = write({"mod.py": text, **given})
    CASES.append(Case(name, before, "miss", why, replace(changed, old, new)))


helped(
    "module_by_the_list_of_all",
    "forward takes a module out of sys.modules by a name that it puts together",
    "return sys.modules['help' + self.kind].f(self.linear(x))",
    top="import sys\nimport helper",
    init="self.kind = 'er'",
)
helped(
    "class_by_its_base",
    "forward takes a class out of __subclasses__, which another module defines",
    "found = [c for c in Act.__subclasses__() if c.name == 'one']\n"
    "return found[0]()(self.linear(x))",
    top="from helper import Act\nimport plugin",
    changed="plugin.py",
    helper="class Act:\n    name = ''\n",
    plugin="from helper import Act\nclass One(Act):\n    name = 'one'\n"
    "    def __call__(self, x):\n        return x * 2\n",
)
CASES.append(
    Case(
        "variable_by_prefix_and_suffix",
        write(
            {
                "mod.py": module(
                    "return self.linear(x) * gain()",
                    top="PREFIX = 'MODEL'\n"
                    "def gain():\n    return float(os.environ.get(f'{PREFIX}_SCALE', '1'))",
                )
            }
        ),
        "miss",
        "the name of a variable is a global and a text together",
        env_before={"MODEL_SCALE": "1"},
        env_after={"MODEL_SCALE": "5"},
    )
)
helped(
    "function_put_in_place",
    "another module puts a function in the place of a helper's",
    "return helper.f(self.linear(x))",
    top="import helper\nimport patches",
    changed="patches.py",
    patches="import helper\ndef g(x):\n    return x * 2\nhelper.f = g\n",
)
helped(
    "function_by_vars",
    "forward takes a function out of vars(module)",
    "return vars(helper)[self.kind](self.linear(x))",
    init="self.kind = 'f'",
)
helped(
    "function_by_globals",
    "forward takes an imported function out of globals()",
    "return globals()[self.kind](self.linear(x))",
    top="from helper import f",
    init="self.kind = 'f'",
)
helped(
    "registered_by_a_plugin",
    "a module is imported for what it registers",
    "return R['act'](self.linear(x))",
    top="from helper import R\nimport plugin",
    changed="plugin.py",
    helper=REGISTRY,
    plugin="from helper import register\n@register('act')\ndef one(x):\n    return x * 2\n",
)
