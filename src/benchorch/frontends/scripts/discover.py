"""Discovery of the models in a script, which runs in a process of its own."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import threading
import time
import tokenize
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeAlias, cast
from zipfile import is_zipfile

from benchorch.domain.codec import Json, encode
from benchorch.domain.result import Failure
from benchorch.domain.trial import ConfigNode
from benchorch.files import expanded
from benchorch.frontends.scripts.discovery_process import (
    ESTIMATORS,
    DiscoveryReply,
    DiscoveryRequest,
    ScriptProblem,
    ScriptReads,
)
from benchorch.frontends.scripts.reported import MOST_BYTES, ReportedModel
from benchorch.host.processes.run_child import ChildLimits, run_child
from benchorch.host.sandbox import enclosure
from benchorch.journal.registry import state_directory
from benchorch.models.kept_programs import programs_folder
from benchorch.models.notebook import check_python, code_cells
from benchorch.models.script_files import (
    GRAPH_SUFFIX,
    MODEL_SUFFIXES,
    NOTEBOOK_SUFFIX,
    PROGRAM_SUFFIX,
    SCRIPT_SUFFIXES,
)
from benchorch.units import format_seconds

_ENTRY = "from benchorch.frontends.scripts.discovery_process import main; main()"
_ALL_DEPTHS = 1000  # deeper than modules are ever nested
_LABELS = "# labels:"

_MOST_BYTES = 2**28
_WEIGHTS = (".pt", ".pth", ".ckpt", ".bin", ".pkl", ".joblib", ".safetensors", ".h5", ".gguf")

_MAY_BE_DENIED = re.compile(r"Errno|OSError|Permission|denied|Read-only|No such file|[Cc]onnect")

OnCall: TypeAlias = Callable[[ConfigNode, ConfigNode], None]
"""Called with a model and one of its calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A script to look at, and how.

    Attributes:
        path: absolute.
        arguments: its own.
        hashes: of the models or calls that are wanted; empty for all.
        pattern: of qualified names that are wanted, such as ``model.encoder.*``; "" for all.
        capture: whether modules are exported, so that the script runs once.
        generation: whether language models are saved instead, to generate tokens.
        title: its name for people; "" for the file's name.
        place: its path below the folder that all scripts of the command share.
    """

    path: Path
    arguments: tuple[str, ...] = ()
    hashes: tuple[str, ...] = ()
    max_depth: int = 0
    pattern: str = ""
    capture: bool = True
    generation: bool = False
    title: str = ""
    place: str = ""

    @property
    def depth(self) -> int:
        """How far inside other modules' calls one has to look."""
        return _ALL_DEPTHS if self.pattern else self.max_depth

    @property
    def digest(self) -> str:
        """Eight digits of its place and arguments: hashes of its calls may be another's too."""
        identity = "\n".join([str(self.path), *self.arguments, str(self.depth)])
        return hashlib.sha256(os.fsencode(identity)).hexdigest()[:8]

    @property
    def folder(self) -> Path:
        """Where what is found in it is kept, the same each time."""
        return state_directory() / "scripts" / f"{self.path.stem}-{self.digest}"

    @property
    def log(self) -> Path:
        """What the script prints; it runs once for each choice of hashes."""
        chosen = hashlib.sha256("\n".join(self.hashes).encode()).hexdigest()[:8]
        return self.folder / (f"log-{chosen}.txt" if self.hashes else "log.txt")


@dataclass(slots=True, kw_only=True)
class Enough:
    """When a script has shown enough and is ended.

    Attributes:
        quiet_s: after so many seconds without a new signature, once there was one; None for never.
        first: as soon as one call was found that can be benchmarked.
        requested: set from outside, as Ctrl-C does.
    """

    quiet_s: float | None = None
    first: bool = False
    requested: threading.Event = field(default_factory=threading.Event)

    def reason(self, sightings: Sightings) -> str:
        """``interrupt``, ``first`` or ``quiet``; "" where the script may go on."""
        if self.requested.is_set():
            return "interrupt"
        if self.first and sightings.has_benchmarkable:
            return "first"
        silent_s = time.monotonic() - sightings.newest_s
        waits = bool(sightings.models) and not sightings.busy
        quiet = self.quiet_s is not None and waits and silent_s > self.quiet_s
        return "quiet" if quiet else ""


@dataclass(slots=True, kw_only=True)
class Sightings:
    """The models of a running script so far, as it reports them.

    Attributes:
        on_call: called with each new call and its model.
        models: by hash, each as it was reported last.
        sources: files of the user's own modules that the script imported.
        reads: what it has read.
        sizes: of these reports, in bytes.
        newest_s: when the last new call came, on the monotonic clock.
        busy: whether a call is being exported.
    """

    script: Script
    on_call: OnCall
    models: dict[str, ConfigNode] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    reads: ScriptReads = field(default_factory=ScriptReads)
    newest_s: float = 0.0
    busy: bool = False
    _known: set[str] = field(default_factory=set)

    def add(self, reply: DiscoveryReply, size: int) -> None:
        """Take a partial reply, whose JSON has so many bytes."""
        self.sources, self.busy = reply.sources, reply.busy
        self.reads = _all_of(self.reads, reply.reads)
        for model in cast("tuple[ConfigNode, ...]", reply.models):
            known = self.models.get(str(model["hash"]))
            if known is not None:
                model = _joined(known, model) if "in_child" in model else _joined(model, known)
            self.models[str(model["hash"])] = model
            self.sizes[str(model["hash"])] = size
            for call in cast("list[ConfigNode]", model["invocations"]):
                if call["hash"] not in self._known:
                    self._known.add(str(call["hash"]))
                    self.newest_s = time.monotonic()
                    self.on_call(model, call)

    @property
    def is_full(self) -> bool:
        """Whether the script reports more than is kept of one."""
        return sum(self.sizes.values()) > MOST_BYTES

    @property
    def has_benchmarkable(self) -> bool:
        """Whether a requested call can be benchmarked."""
        chosen = _selected(list(self.models.values()), self.script)
        calls = (c for m in chosen for c in cast("list[ConfigNode]", m["invocations"]))
        return any(not call["obstacle"] for call in calls)


def _joined(known: ConfigNode, again: ConfigNode) -> ConfigNode:
    """A model with those of its calls that another process has made."""
    calls = cast("list[ConfigNode]", known["invocations"])
    hashes = {call["hash"] for call in calls}
    more = [c for c in cast("list[ConfigNode]", again["invocations"]) if c["hash"] not in hashes]
    return {**known, "invocations": cast(Json, [*calls, *more])}


def _all_of(before: ScriptReads, new: ScriptReads) -> ScriptReads:
    return ScriptReads(
        files=(*before.files, *new.files),
        folders=(*before.folders, *new.folders),
        variables=(*before.variables, *new.variables),
    )


def discover(
    script: Script,
    *,
    timeout_s: float,
    keep: bool,
    enough: Enough | None = None,
    on_call: OnCall = lambda _model, _call: None,
    sandboxed: bool = False,
) -> dict[str, Json]:
    """What the script calls, by `discovery_process`, with labels, and what went wrong.

    Args:
        script: which one, and how.
        timeout_s: how long it may run; what it called until then is found.
        keep: whether inputs and weights are taken down, to be benchmarked.
        enough: when to end it before that.
        on_call: called with each new call and its model as the script makes it.
        sandboxed: whether it runs in a `host.sandbox`.
    """
    blank: dict[str, Json] = {"script": str(script.path), "log": str(script.log), "labels": {}}
    broken = unreadable(script.path)
    if broken:
        return {**blank, **_problem("unreadable", broken), "ended": "not_run", "models": []}
    blank["labels"] = cast(Json, labels_of(script.path))
    sightings = Sightings(script=script, on_call=on_call)
    folder = programs_folder().parent if keep else None
    with _started_by(script, folder, sandboxed=sandboxed) as under:
        reply = _run(script, timeout_s, folder, enough or Enough(), sightings, under)
    found = {**blank, **_encoded(reply)}
    del found["busy"]
    found["models"] = cast(Json, _selected(cast("list[ConfigNode]", found["models"]), script))
    found["problem"] = found["problem"] or _nothing(found, script)
    if sandboxed and found["problem"]:
        found["problem"] = _in_a_sandbox(cast(ConfigNode, found["problem"]))
    return found


def _encoded(reply: DiscoveryReply) -> ConfigNode:
    try:
        return cast(ConfigNode, encode(reply))
    except RecursionError:  # the models' configurations: a script can write what it reports
        problem = ScriptProblem(kind="reply", message="what it reported is nested too deeply")
        return cast(ConfigNode, encode(replace(reply, models=(), problem=problem)))


@contextmanager
def _started_by(script: Script, folder: Path | None, *, sandboxed: bool) -> Iterator[Sequence[str]]:
    """What the script's process is started by: nothing, or a sandbox with the script's folder."""
    if not sandboxed:
        yield ()
        return
    place = script.path.resolve()
    own = place if place.parent == expanded("~").resolve() else place.parent
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    with enclosure([script.path, own], [folder] if folder else []) as enclosed:
        yield enclosed.command()


def _in_a_sandbox(problem: ConfigNode) -> Json:
    """A problem of a script that could neither write nor reach the network, if that may be why."""
    hint = "it ran in a sandbox; if you trust it: --no-sandbox"
    remedy = str(problem["remedy"]).rstrip(".")
    if problem["kind"] != "timeout" and not _MAY_BE_DENIED.search(str(problem["message"])):
        return cast(Json, problem)
    return {**problem, "remedy": f"{remedy}; {hint}" if remedy else hint}


def _run(
    script: Script,
    timeout_s: float,
    folder: Path | None,
    enough: Enough,
    sightings: Sightings,
    under: Sequence[str],
) -> DiscoveryReply:
    """What the script's process reported in the end, or until it was ended."""
    script.log.unlink(missing_ok=True)
    reason = ""

    def ended_early() -> bool:
        nonlocal reason
        reason = enough.reason(sightings)
        return bool(reason) or sightings.is_full

    child = run_child(
        script.path.name,
        DiscoveryRequest(
            script=script.path,
            arguments=script.arguments,
            max_depth=script.depth,
            folder=folder,
            wanted=script.hashes,
            capture=script.capture,
            generation=script.generation,
        ),
        DiscoveryReply,
        log=script.log,
        limits=ChildLimits(timeout_s=timeout_s, memory_bytes=None),
        environment={},
        on_message=lambda _: None,
        command=[sys.executable, "-P", "-c", _ENTRY],
        on_partial=sightings.add,
        enough=ended_early,
        under=under,
        most_bytes=MOST_BYTES,
    )
    if child.reply is not None:
        own = cast("tuple[ConfigNode, ...]", child.reply.models)
        found = [_joined(each, sightings.models.pop(str(each["hash"]), each)) for each in own]
        found += [each for each in sightings.models.values() if "in_child" in each]
        reads = _all_of(sightings.reads, child.reply.reads)
        return replace(child.reply, models=_reported(found), reads=reads)
    assert child.failure is not None
    ended, problem = _ending(child.failure, timeout_s, reason)
    models = _reported(sightings.models.values())
    return DiscoveryReply(
        seconds=child.elapsed_s,
        ended=ended,
        problem=None if reason or (models and ended == "timeout") else problem,
        models=models,
        sources=sightings.sources,
        reads=sightings.reads,
    )


def _reported(models: Iterable[ConfigNode]) -> tuple[ReportedModel, ...]:
    return cast("tuple[ReportedModel, ...]", tuple(models))


def _ending(failure: Failure, timeout_s: float, reason: str) -> tuple[str, ScriptProblem]:
    """How a script ended that gave no reply itself."""
    kind = failure.kind.partition(":")[0]
    message, remedy = failure.message, failure.remedy
    if kind == "timeout":
        message = f"it did not end within {format_seconds(timeout_s)}"
        remedy = "--timeout gives it longer"
    elif kind == "exit":
        code = failure.kind.removeprefix("exit:")
        message = f"its process ended with exit code {code} before the script did"
        remedy = (
            "it called os._exit, or closed all files: let it end by itself, or raise SystemExit"
        )
    elif kind == "stopped" and not reason:
        message = f"what it reported has more than {MOST_BYTES >> 20} MiB"
    elif kind == "stopped":
        message, remedy = "it was ended before it called a model", ""
    elif kind == "oom":
        kind = "memory"
    return reason or kind, ScriptProblem(kind=kind, message=message, remedy=remedy)


def _problem(kind: str, message: str, remedy: str = "") -> dict[str, Json]:
    return {"problem": {"kind": kind, "message": message, "remedy": remedy}}


def unreadable(path: Path) -> str:
    """Why a file cannot be run as a script, or ""."""
    if path.is_dir():
        return "it is a folder; name scripts, or let the shell do it: *.py"
    if not path.is_file():
        return "it does not exist"
    if path.suffix == PROGRAM_SUFFIX:
        return (
            "" if is_zipfile(path) else "it is no file that torch.export.save wrote, or cut short"
        )
    most = 2**31 if path.suffix == GRAPH_SUFFIX else _MOST_BYTES
    if path.stat().st_size > most and path.suffix in (GRAPH_SUFFIX, "", *SCRIPT_SUFFIXES):
        return f"it has more than {most >> 20} MiB"
    if path.suffix == GRAPH_SUFFIX:
        return ""  # only ONNX's own package can tell
    if path.suffix not in ("", *SCRIPT_SUFFIXES):
        return _other_kind(path.suffix)
    try:
        if path.suffix == NOTEBOOK_SUFFIX:
            code_cells(path)
        else:
            with tokenize.open(path) as file:
                check_python(file.read(), str(path))
    except SyntaxError as error:
        cell = str(error.filename or "").removeprefix(str(path))
        line = f"{cell}, line {error.lineno}" if error.lineno else cell
        return f"it is not Python: {error.msg}{line}"
    except (OSError, ValueError, LookupError) as error:  # LookupError: rot13 is no text's encoding
        kind = "a notebook" if path.suffix == NOTEBOOK_SUFFIX else "Python"
        return f"it cannot be read as {kind}: {error}"
    return ""


def _other_kind(suffix: str) -> str:
    """Why a file of another type is not run."""
    if suffix in _WEIGHTS:
        return (
            f"a {suffix} file holds weights or pickled objects, which are not run; name the script "
            "that loads it and calls the model"
        )
    if suffix in (".yaml", ".yml"):
        return "it is a configuration; a recipe runs without the word script: benchorch FILE.yaml"
    expected = "a script (.py), a notebook (.ipynb), an exported program (.pt2) or ONNX (.onnx)"
    return f"its type is {suffix}; expected {expected}"


def labels_of(path: Path) -> dict[str, list[str]]:
    """Those of the first line: ``# labels: name::bert author::x,y``; none where it has none."""
    if path.suffix in (*MODEL_SUFFIXES, NOTEBOOK_SUFFIX):
        return {}
    try:
        with tokenize.open(path) as file:
            first = file.readline().strip()
    except (OSError, SyntaxError, ValueError, LookupError):  # `unreadable` has words for it
        return {}
    if not first.startswith(_LABELS):
        return {}
    words = first.removeprefix(_LABELS).split()
    pairs = [word.partition("::") for word in words if "::" in word]
    return {key: value.split(",") for key, _, value in pairs}


def _selected(models: Sequence[ConfigNode], script: Script) -> list[ConfigNode]:
    """Those that were asked for; of a call's model, the calls that were."""
    named = [model for model in models if not script.pattern or _is_named(model, script.pattern)]
    if not script.hashes:
        return named
    return [{**model, "invocations": calls} for model in named if (calls := _calls(model, script))]


def _is_named(model: ConfigNode, pattern: str) -> bool:
    return fnmatchcase(str(model["name"]), pattern)


def _calls(model: ConfigNode, script: Script) -> list[Json]:
    calls = cast("list[ConfigNode]", model["invocations"])
    whole = model["hash"] in script.hashes
    return [cast(Json, call) for call in calls if whole or call["hash"] in script.hashes]


def _nothing(found: ConfigNode, script: Script) -> Json:
    """Why nothing was found, or that a hash was not."""
    models = cast("list[ConfigNode]", found["models"])
    known = {str(model["hash"]) for model in models}
    known |= {str(c["hash"]) for m in models for c in cast("list[ConfigNode]", m["invocations"])}
    missing = [each for each in script.hashes if each not in known]
    if missing:
        message = f"it has no model or call {', '.join(missing)}"
        return _problem("hash", message, "--analyze-only shows the hashes there are")["problem"]
    return None if models else _problem("no_model", _why_none(found, script))["problem"]


def _why_none(found: ConfigNode, script: Script) -> str:
    frameworks = cast("list[str]", found["frameworks"])
    never_called = cast("list[str]", found["never_called"])
    if script.pattern:
        return f"it called no model whose name matches {script.pattern!r}"
    if never_called and "ONNX Runtime" not in frameworks:
        return f"it made {', '.join(never_called)} but never called it"
    if frameworks:
        return f"it called no torch module, but runs {_elsewhere(frameworks)}"
    if found["left_out"]:
        operators = ", ".join(cast("list[str]", found["left_out"]))
        return f"it called no model, only torch's own operators without parameters: {operators}"
    return "it called no torch.nn.Module"


def _elsewhere(frameworks: Sequence[str]) -> str:
    """How what runs without torch is benchmarked instead."""
    named = " and ".join(frameworks)
    if "ONNX Runtime" in frameworks:
        return f"{named}; a graph is benchmarked as a file: benchorch script FILE.onnx"
    if ESTIMATORS & set(frameworks):
        return f"{named}; a fitted estimator is benchmarked by benchorch.benchmark(estimator, X)"
    return f"{named}, which is not benchmarked"
