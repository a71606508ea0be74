"""Files of OpenVINO's intermediate representation, and the import of OpenVINO."""

import io
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

GRAPH_FILE = "model.xml"
NOT_ON_GPU = "OpenVINO has no support for NVIDIA GPUs; hardware=cpu has it run on the processor"

_TELEMETRY = "openvino_telemetry"


def import_openvino() -> Any:
    """The package, without its telemetry: nothing is sent on anyone's behalf while we measure."""
    # OpenVINO and NNCF take a module that cannot be imported for "not installed" and go on.
    sys.modules.setdefault(_TELEMETRY, None)  # type: ignore[arg-type]
    import openvino

    return openvino


def read_graph(directory: Path) -> Any:
    """The ``openvino.Model`` of that directory; RuntimeError where there is none."""
    return import_openvino().Core().read_model(str(directory / GRAPH_FILE))


def write_graph(model: Any, directory: Path) -> None:
    """``model.xml`` and ``model.bin``, weights in the types they have."""
    import_openvino().save_model(model, str(directory / GRAPH_FILE), compress_to_fp16=False)


@contextmanager
def quiet_nncf() -> Iterator[None]:
    """Silence NNCF's progress bars, tables and hints."""
    import nncf

    nncf.set_log_level(logging.ERROR)
    with redirect_stdout(io.StringIO()):
        yield
