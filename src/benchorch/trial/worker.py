"""What a trial's child process does for one stage; its parent is `supervisor`.

The only file that catches every exception: a failure is a result with a class and a reason.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import cast

from benchorch.config.components import make
from benchorch.config.trial_setup import TrialSetup, open_trial, parity_inputs
from benchorch.domain.codec import Json, decode, encode
from benchorch.domain.measurement import ProcessRecord
from benchorch.domain.result import Failure
from benchorch.domain.session import Session
from benchorch.domain.trial import ConfigNode
from benchorch.errors import ConfigError, StoreError, TrialError
from benchorch.formatting import interval_text
from benchorch.host.processes import child_channel
from benchorch.interfaces.store import Store
from benchorch.results.metrics.single_process import provisional
from benchorch.trial import measuring_process
from benchorch.trial.build import build

_OUT_OF_MEMORY = ("outofmemory", "out of memory", "can't allocate memory", "bad_alloc", "bad alloc")


Say = Callable[[dict[str, Json]], None]


def answer(stage: str, request: ConfigNode, say: Say) -> Json:
    """Do one stage's work in this process."""
    return _STAGES[stage](request, open_trial(cast(ConfigNode, request["spec"])), say)


def _answer_build(request: ConfigNode, chain: TrialSetup, say: Say) -> Json:
    session = decode(Session, request["session"])
    built = build(
        chain.first(cast("int | None", request.get("build_steps"))),
        name=cast(str, request["name"]),
        store=make(session.store, Store, "store"),
        session=session,
        inputs=parity_inputs(cast(ConfigNode, request["spec"])),
        threads=cast(int, request["threads"]),
        say=_phrases(say),
    )
    return encode(built)


def _answer_measure(request: ConfigNode, chain: TrialSetup, say: Say) -> Json:
    tell = _phrases(say)
    subject = measuring_process.load(request, chain, tell)
    with closing(subject.executable):
        verdict = measuring_process.check(request, subject) if request["verify"] else None
        record = measuring_process.observe(subject, tell)
        if verdict is not None:
            tell(_first_impression(record))
        reply = {"process": encode(record), "verdict": encode(verdict)}
        if request["rival"] is not None:
            # What was seen is told first: meeting the baseline may end this process.
            say({"seen": reply})
            reply = {"paired": encode(measuring_process.measure_paired(request, subject, tell))}
    return reply


def _first_impression(record: ProcessRecord) -> str:
    """What the first process says, long before all of them have."""
    seen = provisional(record)
    return f"p50 {interval_text(seen)} ms so far" if seen else "measured"


def _answer_energy(request: ConfigNode, chain: TrialSetup, say: Say) -> Json:
    return encode(measuring_process.energy(request, chain, _phrases(say)))


# What only these need is imported in them: every measuring process would pay for it.


def _answer_profile(request: ConfigNode, chain: TrialSetup, say: Say) -> Json:
    from benchorch.trial.profiling_process import profile

    return encode(profile(request, chain, _phrases(say)))


def _answer_peaks(request: ConfigNode, chain: TrialSetup, say: Say) -> Json:
    from benchorch.host.peaks import find_peaks

    _phrases(say)("measuring what this machine can do at best")
    return encode(find_peaks(type(chain.hardware).device, cast(int, request["threads"])))


def _answer_explain(request: ConfigNode, chain: TrialSetup, say: Say) -> Json:
    from benchorch.domain.profile import ProfileRecord
    from benchorch.trace.operators.roofline import Peaks
    from benchorch.trial.explain import analyse, bottleneck_of, draw

    folder = Path(cast(str, request["profile_dir"])).parent
    record = decode(ProfileRecord, request["profile"])
    analysed = analyse(
        folder / record.trace,
        peaks=decode(Peaks, request["peaks"]) if request["peaks"] else None,
        dilation_ratio=record.dilation_ratio,
    )
    found = encode(bottleneck_of(analysed))
    say({"seen": {"bottleneck": found}})  # told first: drawing it all may end this process
    draw(analysed, folder)
    return {"bottleneck": found}


def _phrases(say: Say) -> Callable[[str], None]:
    return lambda message: say({"message": message})


_STAGES: Mapping[str, Callable[[ConfigNode, TrialSetup, Say], Json]] = {
    "build": _answer_build,
    "measure": _answer_measure,
    "energy": _answer_energy,
    "profile": _answer_profile,
    "peaks": _answer_peaks,
    "explain": _answer_explain,
}


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


def attempt(stage: str, request: ConfigNode, say: Say) -> Json | Failure:
    """The answer to a request, or why there is none."""
    try:
        return answer(stage, request, say)
    except Exception as error:  # every failure is told as a result
        traceback.print_exc()
        return failure_of(stage, error)


def main() -> None:
    """Entry of a child process: one stage, named by the first argument."""
    child_channel.die_with_parent()
    child_channel.prefer_to_die()
    child_channel.show_where_it_hangs()
    parent = child_channel.Channel()
    found = attempt(sys.argv[1], cast(ConfigNode, child_channel.read_request()), parent.send_event)
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
