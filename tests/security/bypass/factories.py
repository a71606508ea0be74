"""References to code that a recipe may hold, each with arguments by which calling it plants `@M`.

`@M` is the marker, `@D` the folder of the recipe, which holds what `planted.py` writes. The control
calls each of them and finds the marker; a recipe that names one must not.
"""

from __future__ import annotations

from typing import Any

TOUCH = "touch @M"
CODE = "open('@M', 'w').close()"

FACTORIES: dict[str, dict[str, Any]] = {
    # commands
    "os:system": {"command": TOUCH},
    "subprocess:run": {"args": TOUCH, "shell": True},
    "subprocess:Popen": {"args": TOUCH, "shell": True},
    "subprocess:getoutput": {"cmd": TOUCH},
    "psutil:Popen": {"args": TOUCH, "shell": True},
    "psutil:subprocess.check_output": {"args": TOUCH, "shell": True},
    "torch:os.system": {"command": TOUCH},
    "torch.utils.collect_env:subprocess.call": {"args": TOUCH, "shell": True},
    "numpy.testing._private.utils:os.system": {"command": TOUCH},
    "pexpect:run": {"command": TOUCH},
    "pexpect:runu": {"command": TOUCH},
    "mlflow.utils.process:_exec_cmd": {"cmd": ["touch", "@M"]},
    "setuptools._distutils.spawn:spawn": {"cmd": ["touch", "@M"]},
    "joblib.externals.loky.backend.context:subprocess.run": {"args": ["touch", "@M"]},
    "IPython.utils.process:getoutput": {"cmd": TOUCH},
    # evaluators
    "timeit:timeit": {"stmt": CODE, "number": 1},
    "cProfile:run": {"statement": CODE},
    "runpy:run_path": {"path_name": "@D/planted.py"},
    "numpy.testing:runstring": {"astr": CODE, "dict": {}},
    "numpy.testing:measure": {"code_str": CODE, "times": 1},
    "sympy:sympify": {"a": "__import__('os').mkdir('@M')"},
    "sympy.parsing.sympy_parser:parse_expr": {"s": "__import__('os').mkdir('@M')"},
    "mako.template:Template": {"text": "<%! open('@M', 'w').close() %>"},
    "torch.fx.graph_module:_exec_with_source": {"src": CODE, "globals": {}},
    "_pytest.monkeypatch:os.mkdir": {"path": "@M"},
    "pytest:main": {"args": ["-q", "-p", "no:cacheprovider", "@D/planted.py"]},
    "matplotlib:cbook.subprocess.run": {"args": ["touch", "@M"]},
    # readers of pickles and of code
    "torch:load": {"f": "@D/planted.pt", "weights_only": False},
    "torch.serialization:load": {"f": "@D/planted.pt", "weights_only": False},
    "torch.hub:load": {"repo_or_dir": "@D", "model": "make", "source": "local"},
    "numpy:load": {"file": "@D/planted.npy", "allow_pickle": True},
    "joblib:load": {"filename": "@D/planted.pkl"},
    "pandas:read_pickle": {"filepath_or_buffer": "@D/planted.pkl"},
    "yaml:unsafe_load": {"stream": "!!python/object/apply:os.mkdir ['@M']"},
    "importlib.machinery:SourcelessFileLoader": {"fullname": "x", "path": "@D/planted.py"},
    "lightning.pytorch:LightningModule.load_from_checkpoint": {
        "checkpoint_path": "@D/lightning.ckpt",
        "weights_only": False,
    },
    "lightning.pytorch.core.saving:pl_load": {
        "path_or_url": "@D/planted.pt",
        "weights_only": False,
    },
    "transformers:BertModel.from_pretrained": {
        "pretrained_model_name_or_path": "@D/hub",
        "weights_only": False,
    },
    "transformers:AutoModel.from_pretrained": {
        "pretrained_model_name_or_path": "@D/remote",
        "trust_remote_code": True,
    },
    "transformers:AutoConfig.from_pretrained": {
        "pretrained_model_name_or_path": "@D/remote",
        "trust_remote_code": True,
    },
    # benchorch's own functions, which configurations reach by design
    "benchorch.models.script_run:os.mkdir": {"path": "@M"},
    "benchorch.models.callables:resolve_callable": {"reference": "@D/planted.py:make"},
    "benchorch.files:os.mkdir": {"path": "@M"},
    # the folder's own code, which the command line does not name
    "planted:make": {},
    "planted.py:make": {},
    "./planted.py:make": {},
    "@D/planted.py:make": {},
    "@D/../@B/planted.py:make": {},
    "package.inner:make": {},
    "planted:Net": {},
    # files written by functions that only open them
    "gzip:open": {"filename": "@M", "mode": "wb"},
    "sqlite3:connect": {"database": "@M"},
    "logging:FileHandler": {"filename": "@M"},
    "numpy:memmap": {"filename": "@M", "mode": "w+", "shape": 4},
}
