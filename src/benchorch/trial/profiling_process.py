"""What does one profiling process do? Load, a few calls without the profiler, a few under it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

from benchorch.config.components import make
from benchorch.config.trial_setup import TrialSetup
from benchorch.domain.codec import decode
from benchorch.domain.profile import ProfileRecord
from benchorch.domain.session import Session
from benchorch.domain.trial import ConfigNode
from benchorch.host.pinning import pin
from benchorch.interfaces.profiler import Profiler
from benchorch.trial.build import Built
from benchorch.trial.measuring_process import inputs_of, load_request
from benchorch.trial.profile import profile_calls, write_operator_graph


def profile(request: ConfigNode, chain: TrialSetup, say: Callable[[str], None]) -> ProfileRecord:
    """What a profiler sees of a few calls; its files are in the directory that the request names.

    The inputs rotate as they do where calls are timed, on as many processors.
    """
    folder = Path(cast(str, request["profile_dir"]))
    folder.mkdir(parents=True, exist_ok=True)
    session = decode(Session, request["session"])
    if request["pin"]:
        pin(cast(int, request["threads"]))
    captured = profile_calls(
        make(session.profiler, Profiler, "profiler"),
        lambda profile_dir: chain.runtime.load(
            replace(load_request(request, chain), profile_dir=profile_dir)
        ),
        batches=inputs_of(chain),
        clock=chain.hardware.clock(),
        device=type(chain.hardware).device,
        directory=folder,
        say=say,
    )
    built = decode(Built, request["built"])
    write_operator_graph(folder, built.sources)
    return ProfileRecord(
        profiler=captured.profiler,
        trace=captured.trace.relative_to(folder.parent).as_posix(),
        unprofiled_ns=captured.unprofiled_ns,
        profiled_ns=captured.profiled_ns,
        notes=captured.notes,
    )
