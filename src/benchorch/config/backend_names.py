"""A machine and what runs a model on it, by one name: ``g5.xlarge/onnxrt-cuda``.

::

    told = backend("g5.xlarge/onnxrt-cuda")
    told.hardware, told.size, told.conversion   # "g5", "xlarge", "onnxruntime_cuda"
    benchmark(model, inputs, hardware=told.machine, conversions=told.conversion)

The names are octoml-profile's, and what stands on either side of the stroke may be ours. The
command line takes them too: ``hardware=g5.xlarge/onnxrt-cuda``.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchorch.config.directories import builtin_directory
from benchorch.config.extensions import extension_directories
from benchorch.config.hardware_aliases import Backend, HardwareNames


def backend(name: str) -> Backend:
    """What a name stands for; ConfigError with the name that was meant.

    Args:
        name: ``HARDWARE[.SIZE]/CONVERSION``, or the machine alone.
    """
    return known_names().open(name)


def backends() -> Sequence[str]:
    """Each kind of machine in its usual size, with its own conversions and octoml-profile's.

    Any other size and any other conversion makes a name as well.
    """
    return [each.name for each in known_names().every()]


def known_names() -> HardwareNames:
    """The machines of this package and of installed extensions."""
    return HardwareNames(directories=(*extension_directories(), builtin_directory("conf")))
