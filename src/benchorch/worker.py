"""What a trial's child process does for one stage; its parent is `supervisor`.

The only file that catches every exception: a failure is a result with a class and a reason.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from benchorch import channel
from benchorch.chain import Chain, open_chain
from benchorch.components import make
from benchorch.domain.codec import Json, decode, encode
from benchorch.domain.measurement import ProcessRecord
from benchorch.domain.result import Failure
from benchorch.domain.session import Session
from benchorch.domain.trial import Node
from benchorch.domain.verdict import Verdict
from benchorch.errors import ConfigError, StoreError, TrialError
from benchorch.interfaces.runtime import Executable, LoadRequest
from benchorch.interfaces.store import Store
from benchorch.stages.build import build, module_of
from benchorch.stages.measure import measure
from benchorch.stages.verify import verify
from benchorch.units import ns_to_s

if TYPE_CHECKING:
    from numpy import generic
    from numpy.typing import NDArray

# Distinct inputs rotate through the calls, so that neither caches nor branch history replay one.
INPUT_SETS = 8
_OUT_OF_MEMORY = ("outofmemory", "out of memory", "can't allocate memory", "bad_alloc", "bad alloc")


def answer(stage: str, request: Node, say: Callable[[dict[str, Json]], None]) -> Json:
    """Do one stage's work in this process."""

    def tell(message: str) -> None:
        say({"message": message})

    chain = open_chain(cast(Node, request["spec"]))
    return _STAGES[stage](request, chain, tell)


def _answer_build(request: Node, chain: Chain, say: Callable[[str], None]) -> Json:
    session = decode(Session, request["session"])
    built = build(
        chain,
        name=cast(str, request["name"]),
        store=make(session.store, Store, "store"),
        session=session,
        inputs=_parity_inputs(request),
        threads=cast(int, request["threads"]),
        say=say,
    )
    return encode(built)


def _answer_measure(request: Node, chain: Chain, say: Callable[[str], None]) -> Json:
    built = cast(Node, request["built"])
    clock = chain.hardware.clock()
    say("loading")
    before_load = clock.now_ns()
    executable = chain.runtime.load(_load_request(request, chain, built))
    batches = [chain.example(chain.workload.seed + i).arrays for i in range(INPUT_SETS)]
    first = executable.bind(batches[0])
    clock.drain()
    loaded = clock.now_ns()
    say("first call")
    first()
    clock.drain()
    called = clock.now_ns()
    verdict = _verdict(request, chain, executable, batches) if request["verify"] else None
    say("measuring")
    measured = measure(
        [first, *(executable.bind(batch) for batch in batches[1:])],
        hardware=chain.hardware,
        scenario=chain.scenario,
        stopping=chain.stopping,
        items_per_call=chain.workload.symbols.get("batch_size", 1),
    )
    record = ProcessRecord(
        load_s=ns_to_s(loaded - before_load),
        first_call_s=ns_to_s(called - loaded),
        observations=measured.observations,
        steady_from=measured.steady_from,
        calibration=measured.calibration,
        peak_rss_bytes=channel.own_peak_rss_bytes(),
        facts=executable.facts(),
    )
    executable.close()
    return {"process": encode(record), "verdict": encode(verdict)}


_STAGES: Mapping[str, Callable[[Node, Chain, Callable[[str], None]], Json]] = {
    "build": _answer_build,
    "measure": _answer_measure,
}


def _load_request(request: Node, chain: Chain, built: Node) -> LoadRequest:
    source = cast(str | None, built["source"])
    return LoadRequest(
        module=module_of(chain),
        source=None if source is None else Path(source),
        example=chain.example(chain.workload.seed),
        device=type(chain.hardware).device,
        threads=cast(int, request["threads"]),
        scratch_dir=Path(cast(str, built["scratch"])),
    )


def _verdict(
    request: Node,
    chain: Chain,
    executable: Executable,
    batches: Sequence[Mapping[str, NDArray[generic]]],
) -> Verdict:
    """The outputs of a few inputs against the reference's; outside the timed region."""
    import numpy as np

    directory = Path(cast(str, cast(Node, request["built"])["reference"]))
    outputs, references = [], []
    for index in range(_parity_inputs(request)):
        batch = batches[index] if index < len(batches) else None
        arrays = batch or chain.example(chain.workload.seed + index).arrays
        outputs.append(executable.outputs(executable.bind(arrays)()))
        with np.load(directory / f"{index}.npz", allow_pickle=False) as saved:
            references.append({name: saved[name] for name in saved.files})
    # No conversion can agree better than the dtype that the baseline itself computes in.
    finest = float(np.finfo(chain.workload.dtype).eps)
    return verify(outputs, references, max(chain.tolerance_ratio, finest))


def failure_of(stage: str, error: BaseException) -> Failure:
    """An exception as a result: its class, one sentence, the next thing to try."""
    kind, remedy = _kind_of(error)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    message = lines[0] if lines else type(error).__name__
    detail = "".join(traceback.format_exception(error))
    return Failure(stage=stage, kind=kind, message=message, remedy=remedy, detail=detail)


def _kind_of(error: BaseException) -> tuple[str, str]:
    text = f"{type(error).__name__}: {error}".lower()
    if isinstance(error, MemoryError) or any(sign in text for sign in _OUT_OF_MEMORY):
        return "oom", "a smaller workload.batch_size, or a larger limits.memory_gib"
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.errno == errno.ENOSPC:
            return "disk_full", "free some space, or another store.root"
        if isinstance(cause, ModuleNotFoundError):
            return "missing_package", f"pip install {cause.name}"
    if isinstance(error, TrialError):
        return error.kind, error.remedy
    if isinstance(error, ConfigError):
        return "config", ""
    if isinstance(error, StoreError):
        return "store", "python -m benchorch cache list"
    return f"raised:{type(error).__name__}", "the traceback in the trial's log shows where"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, what it was raised from, and so on."""
    while error is not None:
        yield error
        error = error.__cause__


def _parity_inputs(request: Node) -> int:
    spec = cast(Node, request["spec"])
    return cast(int, cast(Node, spec["parity"])["inputs"])


def attempt(stage: str, request: Node, say: Callable[[dict[str, Json]], None]) -> Json | Failure:
    """The answer to a request, or why there is none."""
    try:
        return answer(stage, request, say)
    except Exception as error:  # every failure is told as a result
        traceback.print_exc()
        return failure_of(stage, error)


def main() -> None:
    """Entry of a child process: one stage, named by the first argument."""
    channel.die_with_parent()
    channel.prefer_to_die()
    channel.show_where_it_hangs()
    parent = channel.Channel()
    found = attempt(sys.argv[1], cast(Node, channel.read_request()), parent.send_event)
    if isinstance(found, Failure):
        parent.send_failure(found)
    else:
        parent.send_reply(found)
    # Everything is told and on disk; taking libraries and thread pools down would only cost time.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
