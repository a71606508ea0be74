"""Profiling process: load, a few calls without the profiler, a few under it."""

from collections.abc import Callable
from dataclasses import replace

from benchorch.config.components import make
from benchorch.config.trial_setup import open_trial
from benchorch.domain.profile import ProfileRecord
from benchorch.host.pinning import pin
from benchorch.interfaces.profiler import Profiler
from benchorch.trial.generation import load_executable
from benchorch.trial.measuring_process import inputs_of, load_request
from benchorch.trial.profile import profile_calls, write_operator_graph
from benchorch.trial.stages import ProfileRequest
from benchorch.trial.tf32 import apply_tf32


def profile(request: ProfileRequest, say: Callable[[str], None]) -> ProfileRecord:
    """Profile of a few calls; its files are in the directory of the request.

    The inputs rotate as they do where calls are timed, on as many processors.
    """
    trial, folder = request.trial, request.directory
    setup = open_trial(trial.spec)
    folder.mkdir(parents=True, exist_ok=True)
    if trial.pin:
        pin(trial.threads)
    apply_tf32(setup)
    captured = profile_calls(
        make(request.profiler, Profiler, "profiler"),
        lambda profile_dir: load_executable(
            setup, setup.runtime, replace(load_request(trial, setup), profile_dir=profile_dir)
        ),
        batches=inputs_of(setup, request.trial.built.refused),
        clock=setup.hardware.clock(),
        device=type(setup.hardware).device,
        directory=folder,
        say=say,
    )
    write_operator_graph(folder, trial.built.sources)
    return ProfileRecord(
        profiler=captured.profiler,
        trace=captured.trace.relative_to(folder.parent).as_posix(),
        unprofiled_ns=captured.unprofiled_ns,
        profiled_ns=captured.profiled_ns,
        notes=captured.notes,
    )
