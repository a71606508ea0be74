"""Profiling process: load, a few calls without the profiler, a few under it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from benchorch.config.components import make
from benchorch.config.trial_setup import open_trial
from benchorch.domain.artifact import Format
from benchorch.domain.codec import encode
from benchorch.domain.profile import OPERATORS_FILE, ProfileRecord
from benchorch.errors import TraceError
from benchorch.files import write_json
from benchorch.frameworks.inductor_provenance import POST_GRAD_GRAPH
from benchorch.frameworks.onnx_files import MODEL_FILE, OPTIMIZED_FILE
from benchorch.frameworks.torch_program import PROGRAM_FILE
from benchorch.host.pinning import pin
from benchorch.interfaces.profiler import CapturedProfile, CaptureRequest, Loaded, Profiler
from benchorch.trace.operators.graph import OperatorGraph
from benchorch.trial.generation import load_executable
from benchorch.trial.measuring_process import inputs_of, load_request
from benchorch.trial.stages import ProfileRequest
from benchorch.trial.tf32 import apply_tf32


def profile(request: ProfileRequest, say: Callable[[str], None]) -> ProfileRecord:
    """Profile of a few calls; its files are in the directory of the request.

    Args:
        say: called with a short phrase before each slow thing.
    """
    folder = request.directory
    captured = _captured(request, say)
    _write_operator_graph(folder, request.trial.built.sources)
    return ProfileRecord(
        profiler=captured.profiler,
        trace=captured.trace.relative_to(folder.parent).as_posix(),
        unprofiled_ns=captured.unprofiled_ns,
        profiled_ns=captured.profiled_ns,
        notes=captured.notes,
    )


def _captured(request: ProfileRequest, say: Callable[[str], None]) -> CapturedProfile:
    """Calls under the profiler; inputs rotate as where calls are timed, on as many processors."""
    trial = request.trial
    setup = open_trial(trial.spec)
    request.directory.mkdir(parents=True, exist_ok=True)
    if trial.pin:
        pin(trial.threads)
    apply_tf32(setup)
    profiler = make(request.profiler, Profiler, "profiler")
    batches, clock = inputs_of(setup, trial.built.refused), setup.hardware.clock()

    def loaded(profile_dir: Path | None) -> Loaded:
        say("loading")
        with profiler.stretch("model"):
            arguments = replace(load_request(trial, setup), profile_dir=profile_dir)
            executable = load_executable(setup, setup.runtime, arguments)
        with profiler.stretch("inputs"):
            calls = [executable.bind(batch) for batch in batches]
        calls[0]()
        clock.drain()
        say("profiling")
        return Loaded(
            executable=executable.artifact,
            calls=calls,
            steps_per_call=executable.steps_per_call,
        )

    device = type(setup.hardware).device
    return profiler.capture(
        CaptureRequest(load=loaded, clock=clock, device=device, directory=request.directory)
    )


def _write_operator_graph(directory: Path, sources: Mapping[Format, Path]) -> None:
    """Write the graph of the operators that ran beside the trace, where a file has it.

    Args:
        directory: the profile's; may hold the graph as the runtime optimised it.
        sources: the directory of each format's artifact.
    """
    try:
        graph = _operator_graph(directory, sources)
    except TraceError:  # a graph adds to an analysis, and its lack takes nothing away
        return
    if graph is not None:
        write_json(directory / OPERATORS_FILE, encode(graph))


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
