"""References that were kept back while the door was mended; as those of `factories`."""

from __future__ import annotations

from typing import Any

from security.bypass.factories import CODE, TOUCH

FACTORIES: dict[str, dict[str, Any]] = {
    "posix:system": {"command": TOUCH},
    "subprocess:check_call": {"args": TOUCH, "shell": True},
    "pip._internal.utils.subprocess:subprocess.run": {"args": ["touch", "@M"]},
    "pip._vendor.distlib.util:subprocess.call": {"args": ["touch", "@M"]},
    "torch._inductor.cpp_builder:subprocess.check_output": {"args": ["touch", "@M"]},
    "torch.utils.cpp_extension:subprocess.run": {"args": ["touch", "@M"]},
    "scipy._lib._testutils:subprocess.run": {"args": ["touch", "@M"]},
    "click:edit": {"filename": "@M", "editor": "touch"},
    "click:open_file": {"filename": "@M", "mode": "w"},
    "pdb:run": {"statement": CODE + "; raise SystemExit"},
    "profile:run": {"statement": CODE},
    "tempfile:_os.mkdir": {"path": "@M"},
    "os:makedirs": {"name": "@M"},
    "logging:os.mkdir": {"path": "@M"},
    "shutil:os.mkdir": {"path": "@M"},
    "bz2:open": {"filename": "@M", "mode": "w"},
    "lzma:open": {"filename": "@M", "mode": "w"},
    "tarfile:open": {"name": "@M", "mode": "w"},
    "site:addsitedir": {"sitedir": "@D/site"},
    "runpy:run_module": {"mod_name": "planted"},
    "pkgutil:resolve_name": {"name": "planted:make"},
    "importlib:import_module": {"name": "planted"},
    "torch._utils_internal:os.mkdir": {"path": "@M"},
    "ctypes.util:os.mkdir": {"path": "@M"},
    "shutil:copyfile": {"src": "@D/planted.py", "dst": "@M"},
    "pathlib:Path.touch": {"self": "@M"},
    "zipfile:ZipFile": {"file": "@M", "mode": "w"},
    "@D/linked.py:make": {},
    "lightning.pytorch.demos.boring_classes:BoringModel.load_from_checkpoint": {
        "checkpoint_path": "@D/lightning.ckpt",
        "weights_only": False,
    },
    "transformers:GPT2Model.from_pretrained": {
        "pretrained_model_name_or_path": "@D/hub",
        "weights_only": False,
    },
    "transformers:AutoModelForCausalLM.from_pretrained": {
        "pretrained_model_name_or_path": "@D/remote",
        "trust_remote_code": True,
    },
}
