"""May Terraform make a stack on the emulator from here?"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

PLUGINS = "BENCHORCH_TF_PLUGIN_DIR"


def missing() -> str | None:
    """What it lacks and how to get it, or None."""
    if shutil.which("terraform") is None:
        return (
            "terraform is not installed; https://developer.hashicorp.com/terraform/install, 1.11 "
            "or newer"
        )
    if not Path(os.environ.get(PLUGINS) or "/nowhere").is_dir():
        return (
            f"{PLUGINS} names no directory of providers; make one with `terraform providers mirror "
            "DIRECTORY` in infra/terraform and name it"
        )
    return None
