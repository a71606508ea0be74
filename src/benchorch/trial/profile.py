"""Profile of a few calls, recorded once everything has been measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchorch.domain.artifact import Format
from benchorch.domain.codec import encode
from benchorch.domain.profile import OPERATORS_FILE
from benchorch.errors import TraceError
from benchorch.files import write_json
from benchorch.frameworks.inductor_provenance import POST_GRAD_GRAPH
from benchorch.frameworks.onnx_files import MODEL_FILE, OPTIMIZED_FILE
from benchorch.frameworks.torch_program import PROGRAM_FILE
from benchorch.interfaces.hardware import Clock
from benchorch.interfaces.profiler import CapturedProfile, CaptureRequest, Loaded, Profiler
from benchorch.interfaces.runtime import Executable
from benchorch.trace.operators.graph import OperatorGraph

if TYPE_CHECKING:
    from numpy import generic
    from numpy.typing import NDArray


def profile_calls(
    profiler: Profiler,
    load: Callable[[Path | None], Executable],
    *,
    batches: Sequence[Mapping[str, NDArray[generic]]],
    clock: Clock,
    device: str,
    directory: Path,
    say: Callable[[str], None],
) -> CapturedProfile:
    """Profile of calls on these inputs; its files are in the directory.

    Args:
        load: loads the artifact, to be profiled where a directory is given.
        say: called with a short phrase before each slow thing.
    """

    def loaded(profile_dir: Path | None) -> Loaded:
        say("loading")
        with profiler.stretch("model"):
            executable = load(profile_dir)
        with profiler.stretch("inputs"):
            calls = [executable.bind(batch) for batch in batches]
        calls[0]()
        clock.drain()
        say("profiling")
        return Loaded(executable=executable.artifact, calls=calls)

    request = CaptureRequest(load=loaded, clock=clock, device=device, directory=directory)
    return profiler.capture(request)


def write_operator_graph(directory: Path, sources: Mapping[Format, Path]) -> Path | None:
    """The graph of the operators that ran, beside the trace; None where no file has it.

    Args:
        directory: the profile's; may hold the graph as the runtime optimised it.
        sources: the directory of each format's artifact.
    """
    try:
        graph = _operator_graph(directory, sources)
    except TraceError:  # a graph adds to an analysis, and its lack takes nothing away
        return None
    if graph is None:
        return None
    write_json(directory / OPERATORS_FILE, encode(graph))
    return directory / OPERATORS_FILE


def _operator_graph(directory: Path, sources: Mapping[Format, Path]) -> OperatorGraph | None:
    from benchorch.frameworks.exported_graph import read_export_graph
    from benchorch.frameworks.inductor_graph import read_inductor_graph
    from benchorch.frameworks.onnx_graph import read_onnx_graph

    compiled = list(directory.glob(f"{POST_GRAD_GRAPH}_*.txt"))
    if (directory / OPTIMIZED_FILE).exists():
        return read_onnx_graph(directory / OPTIMIZED_FILE)
    if len(compiled) == 1:  # the names of several graphs' operators are not each other's
        return read_inductor_graph(compiled[0])
    if Format.EXPORTED_PROGRAM in sources:
        return read_export_graph(sources[Format.EXPORTED_PROGRAM] / PROGRAM_FILE)
    if Format.ONNX in sources:
        return read_onnx_graph(sources[Format.ONNX] / MODEL_FILE)
    return None
