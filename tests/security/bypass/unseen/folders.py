"""Downloaded folders: the files of each, by path, and the words of a command given in it.

Derived from SECURITY.md. `@M` is the marker and `@D` the folder. A file whose text begins with
`#!` may be executed.
"""

from __future__ import annotations

CODE = "open('@M', 'w').close()\n"
PROGRAM = "#!/bin/sh\ntouch '@M'\n"
GIT = """[core]
  repositoryformatversion = 0
  bare = %s
  fsmonitor = touch '@M'
  pager = touch '@M'
  sshCommand = touch '@M'
  hooksPath = @D/hooks
  askPass = @D/hooks/post-index-change
[diff]
  external = touch '@M'
[credential]
  helper = !touch '@M'
[alias]
  describe = !touch '@M'
  status = !touch '@M'
  rev-parse = !touch '@M'
[include]
  path = @D/more
[gpg]
  program = @D/hooks/post-index-change
[log]
  showSignature = true
"""
HEAD = {"HEAD": "ref: refs/heads/main\n", "objects/info/packs": "", "refs/heads/none": ""}
PLAN = ("plan", "model=mlp", "conversion=eager")
RUN = (
    *("model=mlp", "conversion=eager", "recorder=none", "profiler=none", "stopping=quick"),
    *("baseline=null", "hydra.run.dir=out", "protocol.canary_tolerance_ratio=null"),
    *("stopping.processes=1", "stopping.calls=5", "stopping.window_s=0.05"),
)
ENTRY_POINTS = "".join(
    f"[{group}]\nevil = planted:evil\n"
    for group in (
        *("torch.backends", "benchorch", "benchorch.plugins", "hydra.plugins", "hydra_plugins"),
        *("mlflow.request_header_provider", "mlflow.run_context_provider", "mlflow.plugins"),
        *("mlflow.tracking_store", "torch_dynamo_backends", "lightning.pytorch.callbacks_factory"),
        *("console_scripts", "ray.rllib", "onnxruntime", "pytest11", "array_api", "opentelemetry"),
    )
)

FOLDERS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "plugins of entry points": (
        RUN,
        {
            "evil-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n",
            "evil-1.0.dist-info/entry_points.txt": ENTRY_POINTS,
            "evil.egg-info/entry_points.txt": ENTRY_POINTS,
            "planted.py": CODE,
        },
    ),
    "a bare repository": (
        RUN,
        {**HEAD, "config": GIT % "true", "hooks/post-index-change": PROGRAM, "more": GIT % "true"},
    ),
    "a repository behind a file": (
        RUN,
        {
            ".git": "gitdir: @D/real\n",
            **{f"real/{name}": text for name, text in HEAD.items()},
            "real/config": GIT % "false",
            "real/hooks/post-index-change": PROGRAM,
            "hooks/post-index-change": PROGRAM,
            "more": "",
        },
    ),
    "settings of other tools": (
        ("report", "out"),
        {
            "matplotlibrc": "backend: module://planted\n",
            "planted.py": CODE,
            ".pdbrc": "import os; os.mkdir('@M')\n",
            "ipython_config.py": CODE,
            "conftest.py": CODE,
            "pytest.ini": "[pytest]\naddopts = -p planted\n",
            ".env": "PYTHONSTARTUP=@D/planted.py\nPYTHONPATH=@D\nPYTHONBREAKPOINT=planted.x\n",
            "setup.py": CODE,
            "logging.conf": "[loggers]\nkeys=root\n",
        },
    ),
    "an environment of its own": (
        PLAN,
        {
            "pyvenv.cfg": "home = @D/bin\n",
            ".venv/bin/python": PROGRAM,
            "bin/python": PROGRAM,
            "lib/python3.11/site-packages/evil.pth": "import os; os.mkdir('@M')\n",
            "evil.pth": "import os; os.mkdir('@M')\n",
            "python311._pth": "@D\nimport site\n",
        },
    ),
    "programs that benchorch starts": (
        RUN,
        dict.fromkeys(
            (
                *("git", "lscpu", "nvidia-smi", "gcc", "g++", "cc", "c++", "ld", "taskset"),
                *("ldconfig", "terraform", "nsys", "sh", "uname", "node", "ninja"),
            ),
            PROGRAM,
        ),
    ),
    "its own benchorch": (
        ("plan", "model=mlp", "conversion=eager"),
        {
            "benchorch/__init__.py": CODE,
            "benchorch/__main__.py": CODE,
            "benchorch.py": CODE,
            "src/benchorch/__init__.py": CODE,
        },
    ),
    "its own configuration": (
        PLAN,
        {
            "conf/config.yaml": "defaults: [model: evil]\n",
            "conf/model/mlp.yaml": "_target_: planted.make\n",
            "conf/conversion/eager.yaml": "runtime: {_target_: planted.make}\n",
            "config.yaml": "hydra: {searchpath: ['file://@D']}\n",
            ".hydra/config.yaml": "model: {_target_: planted.make}\n",
            "settings.yaml": "trust: ['@D']\n",
            ".config/benchorch/settings.yaml": "trust: ['@D']\n",
            "benchorch.yaml": "trust: ['@D']\n",
            "planted.py": CODE,
        },
    ),
    "modules of the standard library": (
        RUN,
        {
            f"{name}.py": CODE
            for name in (
                *("antigravity", "asyncio", "cProfile", "concurrent", "csv", "dataclasses"),
                *("email", "gzip", "hashlib", "json", "logging", "multiprocessing", "pickle"),
                *("platform", "random", "resource", "secrets", "sqlite3", "statistics"),
                *("subprocess", "tempfile", "tomllib", "uuid", "zipfile", "usercustomize"),
            )
        },
    ),
    "optional packages that are absent": (
        RUN,
        {
            f"{name}/__init__.py": CODE
            for name in (
                *("apex", "intel_extension_for_pytorch", "torch_xla", "torch_tensorrt", "triton"),
                *("tensorrt", "jax", "tensorflow", "flash_attn", "xformers", "accelerate"),
                *("peft", "bitsandbytes", "habana_frameworks", "torch_npu", "boto3", "ray"),
                *("orjson", "ujson", "simplejson", "pynvml", "cupy", "sitecustomize", "colorama"),
            )
        },
    ),
    "a word that is also a file": (
        ("plan", "model=mlp", "conversion=eager", "hardware=local"),
        {
            "mlp": "_target_: planted.make\n",
            "mlp.py": CODE,
            "eager.py": CODE,
            "local.py": CODE,
            "model.py": CODE,
            "plan": CODE,
            "plan.py": CODE,
            "plan.yaml": "model: {_target_: planted.make}\n",
        },
    ),
    "a folder that compilers read": (
        ("model=mlp", "conversion=inductor", *RUN[2:]),
        {
            "torch_compile_debug/x.py": CODE,
            "torchinductor_root/ab/cab.py": CODE,
            "__pycache__/planted.cpython-311.pyc": CODE,
            "numba_config.yaml": "{}\n",
            ".numba_config.yaml": "{}\n",
            "compiler_depend.py": CODE,
            "torch/_inductor/__init__.py": CODE,
            "g++": PROGRAM,
        },
    ),
}
