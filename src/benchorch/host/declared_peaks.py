"""Peak rates that a manufacturer declares, beside or instead of measured ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from benchorch.domain.trial import ConfigNode
from benchorch.trace.operators.roofline import Peaks

SOURCE = "data sheet"
_PER = {"cpu": "core", "cuda": "accelerator"}


def declared_peaks(hardware: ConfigNode, device: str, threads: int) -> Peaks | None:
    """The peaks of a hardware's YAML, for one call; None where it declares none of that device.

    Args:
        hardware: its node; rates are declared of one core or of one accelerator.
        device: ``cpu`` or ``cuda``: where the model runs. What an accelerator can do says nothing
            of a model beside it.
        threads: of one call, each on a core of its own.
    """
    told = cast("ConfigNode", hardware.get("peaks") or {})
    if told.get("of") != _PER[device]:
        return None
    parts = threads if device == "cpu" else 1
    rates = cast("Mapping[str, float]", told["flops_per_s"])
    return Peaks(
        flops_per_s={dtype: rate * parts for dtype, rate in rates.items()},
        bytes_per_s=cast(float, told["bytes_per_s"]),
        source=SOURCE,
        caveats=(str(told["source"]),),
    )


def beside(measured: Peaks, declared: Peaks | None) -> Peaks:
    """Measured peaks, with those of the data sheet for a comparison."""
    if declared is None:
        return measured
    dtypes = [dtype for dtype in measured.flops_per_s if dtype in declared.flops_per_s]
    rates = [
        f"{measured.flops_per_s[dtype]:.3g} of {declared.flops_per_s[dtype]:.3g} flop/s in {dtype}"
        for dtype in dtypes
    ]
    memory = f"{measured.bytes_per_s:.3g} of {declared.bytes_per_s:.3g} bytes/s"
    return replace(
        measured, promised=f"{', '.join([*rates, memory])} ({'; '.join(declared.caveats)})"
    )
