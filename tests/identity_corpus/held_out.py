"""More of the same, judged once, when everything else was finished."""

from __future__ import annotations

from identity_corpus import hostile
from identity_corpus.cases import Case, module, write

CASES: list[Case] = []
_known = len(hostile.CASES)

hostile.edited(
    "setting_in_class_by_name",
    "forward picks a class of settings out of a user's module by a name it holds",
    {
        "mod.py": module(
            "return self.linear(x) * getattr(settings, self.kind).scale",
            top="import settings",
            init='self.kind = "Small"',
        ),
        "settings.py": "class Small:\n    scale = 2.0\n",
    },
    "settings.py",
    "scale = 2.0",
    "scale = 3.0",
)
hostile.built_from(
    "onednn_switched_off",
    "the factory switches oneDNN off for the process",
    "torch.backends.mkldnn.set_flags(value == 2)",
    "return y",
)
hostile.built_from(
    "environment_set_by_factory",
    "the factory writes an environment variable that forward reads",
    'os.environ["SCALE_OF_MODEL"] = str(value)',
    'return y * float(os.environ["SCALE_OF_MODEL"])',
)
hostile.unchanged(
    "unchanged_data_frame",
    "the same table, made anew in another process",
    'import pandas\nheld = pandas.DataFrame({"scale": [1.0, 2.0]})',
    'return y * float(held["scale"].iloc[1])',
    needs=("pandas",),
)
hostile.unchanged(
    "unchanged_weight_norm",
    "a parametrised layer makes its class at run time; nothing else changed",
    "torch.manual_seed(0)\nheld = torch.nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))",
    "return held(y)",
)
CASES += hostile.CASES[_known:]
del hostile.CASES[_known:]
__all__ = ["CASES", "write"]
