"""The kind that this machine is of, as its environment or its firmware names it."""

import os
from pathlib import Path

from benchorch.interfaces.hardware import KIND_VARIABLE

LOCAL_KINDS = ("local", "local_gpu")
"""The kinds that every machine is of, whatever it is besides."""

PRODUCT = Path("/sys/devices/virtual/dmi/id/product_name")
"""DMI product name; on EC2 it is the instance type."""


def declared_kind() -> str | None:
    """The kind this machine was given by its node's environment, or by EC2 in its firmware."""
    declared = os.environ.get(KIND_VARIABLE)
    if declared:
        return declared
    try:
        return PRODUCT.read_text(encoding="utf-8").strip() or None
    except OSError:
        return None
