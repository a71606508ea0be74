"""The process in which a script runs while its models are sought; its parent is `discover`."""

from __future__ import annotations

import gc
import inspect
import os
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, cast

from benchorch.domain.codec import Json, from_json, to_json
from benchorch.errors import summary_of, text_of
from benchorch.frameworks.host_arrays import dtype_name
from benchorch.frameworks.identity.consulted import LoadReads, recorded
from benchorch.frameworks.identity.owners import USER
from benchorch.frameworks.identity.places import place_kind
from benchorch.frameworks.identity.stacks import PACKAGE, TORCH, kind_of
from benchorch.frameworks.identity.variables import ALL_VARIABLES
from benchorch.frameworks.module_fingerprint import state_digest
from benchorch.frontends.scripts.child_reports import ChildReports, in_turn
from benchorch.frontends.scripts.reported import ReportedCall, ReportedModel, Seconds
from benchorch.host.processes import child_channel
from benchorch.models.script_files import DEFINITIONS, GRAPH_SUFFIX, PROGRAM_SUFFIX, SEED
from benchorch.models.script_inputs import arrays_of, save_arrays, sizes
from benchorch.models.script_run import run_script
from benchorch.models.script_watch import (
    CallSignature,
    FirstCall,
    FoundModel,
    Watch,
    class_name,
)

if TYPE_CHECKING:
    import torch

KEPT_INVOCATIONS = 20
"""Signatures of one model whose inputs are kept; others have to be asked for by hash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryRequest:
    """Run a script and find the models that it calls.

    Attributes:
        folder: where inputs and weights are kept; None where nothing is to be benchmarked.
        wanted: hashes of models or calls; empty for all.
        capture: whether the modules are kept, so that the script need not run again.
        generation: whether language models are saved instead, to generate tokens.
    """

    script: Path
    arguments: tuple[str, ...] = ()
    max_depth: int = 0
    folder: Path | None = None
    wanted: tuple[str, ...] = ()
    capture: bool = False
    generation: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptProblem:
    """What went wrong with a script, and what to try.

    Attributes:
        kind: ``error``, ``exit``, ``crash``, ``timeout``, ``memory``, ``reply``, ``stopped``,
            ``unreadable``, ``hash``, or ``no_model`` for a script that did what it should and
            called none.
    """

    kind: str
    message: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptReads:
    """What a script has read, as far as it may be another the next time.

    Attributes:
        files: of the user's that it opened or looked for, found or not, and did not write.
        folders: whose names it listed.
        variables: environment variables.
    """

    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryReply:
    """What a script called, and how it ended.

    Attributes:
        ended: how it ended: ``end``, ``error`` or ``exit``; "" while it runs.
        models: each with its calls, as ``script --json`` prints them; in a partial reply only the
            one that was just called.
        left_out: operators without parameters.
        never_called: classes of modules that the script made and did not call.
        frameworks: what else it imported that runs models.
        sources: files of the user's own modules that it imported.
        reads: what it has read since the last reply.
        busy: whether a call is being exported, of which nothing is reported yet.
    """

    seconds: Seconds
    ended: str = ""
    problem: ScriptProblem | None = None
    models: tuple[ReportedModel, ...] = ()
    left_out: tuple[str, ...] = ()
    never_called: tuple[str, ...] = ()
    frameworks: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    reads: ScriptReads = field(default_factory=ScriptReads)
    busy: bool = False


ESTIMATORS = frozenset({"scikit-learn", "XGBoost", "LightGBM"})
_OTHER_FRAMEWORKS = {
    **{"tensorflow": "TensorFlow", "jax": "JAX", "paddle": "Paddle", "mxnet": "MXNet"},
    **{
        "onnxruntime": "ONNX Runtime",
        "sklearn": "scikit-learn",
        "xgboost": "XGBoost",
        "lightgbm": "LightGBM",
    },
}
_FILES = {PROGRAM_SUFFIX: "an exported program", GRAPH_SUFFIX: "an ONNX graph"}
_USAGE_ERROR = 2  # what argparse ends a script with that was given wrong arguments


def main() -> None:
    """Entry of the child."""
    child_channel.die_with_parent()
    child_channel.prefer_to_die()
    child_channel.show_where_it_hangs()
    parent = child_channel.Channel()
    request = child_channel.read_request(DiscoveryRequest)
    reports = ChildReports.announced(request.script, to_json(request))

    def report(reply: DiscoveryReply) -> None:
        with in_turn(request.script):
            parent.send_partial(reply)

    _import_torch()
    reply = discover(request, report, reports)
    with in_turn(request.script):
        parent.send_reply(reply)
    # It ends as a script does: what it has left open is written out.


def _import_torch() -> None:
    """Import what is watched, and leave its objects out of all garbage collections.

    Otherwise the few objects that a record makes cost one more collection of all of torch's.
    """
    gc.disable()  # collections take a fourth of the time of imports
    with suppress(ImportError):  # a broken one, which the script's own run reports
        import torch  # noqa: F401
    gc.enable()
    gc.freeze()


def watch_child() -> None:
    """Record the models of a process that a script has started, until it ends."""
    reports = ChildReports.inherited()
    request = from_json(DiscoveryRequest, reports.request.encode())
    keep = _InputFiles(request=request, process=0)

    def progress(seen: FoundModel) -> None:
        _report_child(seen, keep, reports)

    Watch(request.max_depth, keep, progress).__enter__()


def _report_child(seen: FoundModel, keep: _InputFiles, reports: ChildReports) -> None:
    if _is_operator(seen):
        return
    model: ReportedModel = {**_told(seen, keep), "in_child": True}
    with suppress(OSError):  # the script has ended; it takes this process with it
        reports.send(DiscoveryReply(seconds=0.0, models=(model,), sources=_sources()))


def discover(
    request: DiscoveryRequest,
    report: Callable[[DiscoveryReply], None] = lambda _: None,
    reports: ChildReports | None = None,
) -> DiscoveryReply:
    """What the script called, and how it ended.

    Args:
        request: which script, and how.
        report: called with each model as it is found, so that whatever ends the script takes
            nothing with it.
        reports: of the processes that the script forks.
    """
    own = () if request.folder is None else (f"{request.folder.resolve()}{os.sep}",)
    with recorded() as record:
        return _discovered(request, report, reports, _Reads(record=record, own=own))


def _discovered(
    request: DiscoveryRequest,
    report: Callable[[DiscoveryReply], None],
    reports: ChildReports | None,
    reads: _Reads,
) -> DiscoveryReply:
    script = request.script
    began_s, process = time.monotonic(), os.getpid()

    def busy() -> None:
        if os.getpid() == process:
            with suppress(OSError):
                spent_s = time.monotonic() - began_s
                sources, new = _sources(), reads.new()
                report(DiscoveryReply(seconds=spent_s, sources=sources, reads=new, busy=True))

    keep = _InputFiles(request=request, process=process, on_capture=busy)

    def progress(seen: FoundModel) -> None:
        if os.getpid() != process:
            if reports is not None:
                _report_child(seen, keep, reports)
            return
        if _is_operator(seen):
            return
        model = _of_file(script, _told(seen, keep))
        with suppress(OSError):  # the parent has left; it takes this process with it
            spent_s = time.monotonic() - began_s
            sources, new = _sources(), reads.new()
            report(DiscoveryReply(seconds=spent_s, models=(model,), sources=sources, reads=new))

    watch = Watch(request.max_depth, keep, progress)
    ending, variables = _Ending(script), {}
    with ending:
        variables = dict(run_script(script, list(request.arguments), watch, SEED))
    seconds = time.monotonic() - began_s
    if watch.main is not None:
        sys.modules["__main__"] = watch.main  # where the classes' source is looked up
    found = sorted(watch.models, key=lambda seen: seen.order)
    models = [seen for seen in found if not _is_operator(seen)]
    return DiscoveryReply(
        seconds=seconds,
        ended=ending.problem.kind if ending.problem else "end",
        problem=ending.problem,
        models=tuple(_of_file(script, _told(seen, keep)) for seen in models),
        left_out=tuple(sorted({seen.kind.__name__ for seen in found if _is_operator(seen)})),
        never_called=() if found else tuple(_never_called(variables)),
        frameworks=() if models else tuple(_frameworks()),
        sources=_sources(),
        reads=reads.new(),
    )


@dataclass(slots=True, kw_only=True)
class _Reads:
    """What is recorded while a script runs, each once.

    Attributes:
        own: folders in which benchorch keeps inputs and weights meanwhile, with a separator.
    """

    record: LoadReads
    own: tuple[str, ...]
    _reported: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def new(self) -> ScriptReads:
        """What no reply has had yet; the script's threads may record more meanwhile."""
        record = self.record
        # Native code opens unheard what was looked for before.
        files = record.files | record.missing | record.found
        return ScriptReads(
            files=self._once("file", files - record.written, self._is_users_file),
            folders=self._once("folder", record.folders.copy(), self._is_users),
            variables=self._once("variable", record.lasting_variables - {ALL_VARIABLES}),
        )

    def _is_users_file(self, name: str) -> bool:
        return self._is_users(name) and place_kind(name) != "folder"

    def _is_users(self, name: str) -> bool:
        return kind_of(name) == USER and not f"{name}{os.sep}".startswith(self.own)

    def _once(
        self, kind: str, names: Set[str], counts: Callable[[str], bool] = bool
    ) -> tuple[str, ...]:
        """Those names that count; each is looked at once, as a script may read thousands."""
        found = names - self._reported[kind]
        self._reported[kind] |= found
        return tuple(sorted(filter(counts, found)))


@dataclass(slots=True)
class _Ending:
    """How a script ended; nothing that it raises comes past this."""

    script: Path
    problem: ScriptProblem | None = None

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if error is not None:
            message, remedy = _words(error, self.script)
            if message:
                with suppress(OSError, ValueError):  # a script may have closed its output
                    traceback.print_exception(error)
                how = "exit" if isinstance(error, SystemExit) else "error"
                self.problem = ScriptProblem(kind=how, message=message, remedy=remedy)
        return True


def _words(error: BaseException, script: Path) -> tuple[str, str]:
    """What happened and what to try; nothing where a script just ends early."""
    if isinstance(error, SystemExit):
        if error.code in (None, 0):
            return "", ""
        code = error.code
        how = f"exit code {code}" if isinstance(code, int) else f"the words {text_of(error)!r}"
        hint = "if it needs arguments, give them after :: at the end"
        return f"it ended itself with {how}", hint if code == _USAGE_ERROR else ""
    place = _line(error, script)
    if isinstance(error, EOFError):
        return f"it reads standard input, which is empty here{place}", "give it arguments after ::"
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = str(error.name).partition(".")[0]
        framework = _OTHER_FRAMEWORKS.get(package, "ONNX Runtime")
        if framework not in (*ESTIMATORS, "ONNX Runtime"):
            return f"it needs {framework}, which is not benchmarked: only torch modules are", ""
        from benchorch.host.packages import module_remedy

        message = f"it imports {error.name}, which is not installed{place}"
        return message, module_remedy(error.name)
    message = text_of(error).strip().partition("\n")[0]
    return f"it raised {type(error).__name__}{': ' if message else ''}{message}{place}", ""


def _line(error: BaseException, script: Path) -> str:
    """The last line of the script itself that led to an error."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if f.filename.startswith(str(script))]  # a notebook's have a cell too
    if not own:
        return ""
    cell = own[-1].filename.removeprefix(str(script))
    return f" ({script.name}{cell}, line {own[-1].lineno})"


@dataclass(slots=True, kw_only=True)
class _InputFiles:
    """Takes down each signature as it is met, and keeps its inputs where that is asked for.

    Attributes:
        request: what is looked for, and what is kept of it.
        process: that of the script; other processes are not run again for a call of theirs.
        on_capture: called before each export, which may take long.
        captured_bytes: weights that were written so far.
        calls: what is told of each call, by its hash.
        generating: hashes of the models that can generate tokens.
    """

    request: DiscoveryRequest
    process: int
    on_capture: Callable[[], None] = lambda: None
    captured_bytes: int = 0
    calls: dict[str, dict[str, Json]] = field(default_factory=dict)
    generating: set[str] = field(default_factory=set)

    def __call__(self, first_call: FirstCall) -> None:
        call: dict[str, Json] = {"inputs": [], "obstacle": ""}
        self.calls[first_call.invocation.hash] = call
        try:
            self._take_down(first_call, call)
        except Exception as error:  # an error here is no reason to end the script
            call["obstacle"] = f"it cannot be kept: {summary_of(error)}"

    def _take_down(self, first_call: FirstCall, call: dict[str, Json]) -> None:
        from benchorch.models.architectures.decoder import is_language_model

        arguments = first_call.arguments
        call["inputs"] = [
            {
                "name": name,
                "shape": [*sizes(tensor)],
                "dtype": dtype_name(tensor),
                **({"held_by": arguments.held[name]} if name in arguments.held else {}),
            }
            for name, tensor in arguments.tensors.items()
        ]
        call["obstacle"] = arguments.obstacle or _answer_obstacle(first_call)
        if first_call.step:
            call["step"] = first_call.step
        if is_language_model(first_call.module):
            self.generating.add(first_call.seen.hash)
        folder = self.request.folder
        if folder is not None and self.request.generation:
            self._save(first_call, call, folder / "language_models")
            return
        if folder is None or call["obstacle"] or not self._is_requested(first_call):
            return
        if not self.request.wanted and len(first_call.seen.invocations) > KEPT_INVOCATIONS:
            call["obstacle"] = (
                f"only the first {KEPT_INVOCATIONS} shapes are taken; select it by its hash"
            )
            return
        fields, reason = self._model_fields(first_call, folder)
        if first_call.step and reason:
            call["obstacle"] = f"{first_call.step} cannot be exported: {reason}"
            return
        is_kept = bool({"program", "bundle"} & fields.keys())
        if not is_kept and os.getpid() != self.process:
            call["obstacle"] = f"it is called in a child process and not captured: {reason}"
            return
        call["model"], call["not_exported" if is_kept else "not_captured"] = fields, reason

    def _save(self, first_call: FirstCall, call: dict[str, Json], folder: Path) -> None:
        """Save the language model at its first call, whose cache is no input of a generation."""
        from benchorch.frameworks.tensor_parts import state_bytes
        from benchorch.frontends.scripts.capture import too_large
        from benchorch.models.saved_language_model import NotSavedError, save_language_model

        seen = first_call.seen
        if seen.hash not in self.generating:
            call["obstacle"] = "it generates no tokens"
            return
        call["obstacle"] = ""
        calls = (self.calls[each] for each in seen.invocations if each in self.calls)
        if not self._is_requested(first_call) or any("model" in each for each in calls):
            return
        size = state_bytes(first_call.module)
        call["obstacle"] = too_large(self.captured_bytes, size)
        if call["obstacle"]:
            return
        self.on_capture()
        try:
            call["model"] = save_language_model(first_call.module, folder)
            self.captured_bytes += size
        except NotSavedError as error:
            call["obstacle"] = str(error)

    def _is_requested(self, first_call: FirstCall) -> bool:
        hashes = {first_call.seen.hash, first_call.invocation.hash}
        return not self.request.wanted or not hashes.isdisjoint(self.request.wanted)

    def _model_fields(self, first_call: FirstCall, folder: Path) -> tuple[dict[str, Json], str]:
        """The model's configuration for this call, and why it is no exported program."""
        from benchorch.models.architectures.called import goes_by_name

        arguments = first_call.arguments
        file = save_arrays(arrays_of(arguments), folder / "inputs")
        inputs: dict[str, Json] = {"file": str(file)}
        captured, reason = self._captured(first_call, folder)
        if captured is not None and not reason:
            return {"inputs": inputs, "kwargs": {}, **captured}, ""
        named = goes_by_name(first_call.module, arguments, first_call.answer)
        direct = named and not first_call.autocast
        fields: dict[str, Json] = {
            "inputs": inputs,
            "kwargs": dict(arguments.keywords or {}) if direct else {},
            **(captured or {"weights": _state(first_call.module)}),
        }
        return fields, reason

    def _captured(
        self, first_call: FirstCall, folder: Path
    ) -> tuple[Mapping[str, Json] | None, str]:
        """The program or the bundle of a call; why it is no program, or neither."""
        from benchorch.frameworks.tensor_parts import state_bytes
        from benchorch.frontends.scripts.bundle import bundle
        from benchorch.frontends.scripts.capture import NotCapturedError, capture, too_large

        if not self.request.capture:
            return None, ""
        size = state_bytes(first_call.module)
        reason = too_large(self.captured_bytes, size)
        if reason:
            return None, reason
        self.on_capture()
        try:
            captured, reason = capture(first_call, folder / "programs"), ""
        except NotCapturedError as error:
            reason = str(error)
            if first_call.step:
                return None, reason
            try:
                captured = bundle(first_call, self.request.script, _modules(), folder / "bundles")
            except NotCapturedError as why:
                return None, f"{reason}; {why}"
        self.captured_bytes += size
        return captured, reason


def _answer_obstacle(first_call: FirstCall) -> str:
    """Why a call has nothing to compare."""
    from benchorch.models.architectures.nested import tensors_in

    if next(tensors_in(first_call.answer), None) is not None:
        return ""
    step = first_call.step
    return f"{step} returns no tensor; its parts are measured" if step else "it returns no tensor"


def _state(module: torch.nn.Module) -> str | None:
    """The digest of a module's state; None where it has tensors that hold no plain bytes."""
    try:
        return state_digest(module)
    except (RuntimeError, TypeError, ValueError):
        return None


def _sources() -> tuple[str, ...]:
    """Files of the imported modules that are neither installed nor Python's own."""
    return tuple(sorted({file for _, file in _users_modules()}))


def _modules() -> dict[str, Path]:
    """Files of the user's modules but the script, by the names that they are imported by."""
    found = {name: Path(file) for name, file in _users_modules() if not name.startswith("__")}
    return {name: path for name, path in found.items() if path.name != DEFINITIONS}


def _users_modules() -> Iterator[tuple[str, str]]:
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or kind_of(file) != USER:
            continue
        if name.startswith("torch."):  # Inductor writes what it compiles into a folder of its own
            continue
        if file.endswith(".py") and Path(file).is_absolute():  # torch has modules without files
            yield name, file


def _is_operator(seen: FoundModel) -> bool:
    """Whether it is a library's loss, activation or metric: nothing in it was ever learnt."""
    if seen.parameters:
        return False
    if seen.kind.__module__.partition(".")[0] == "torch":
        return True
    file = getattr(sys.modules.get(seen.kind.__module__), "__file__", None)
    return bool(file) and kind_of(str(file)) in (TORCH, PACKAGE)


def _told(seen: FoundModel, keep: _InputFiles) -> ReportedModel:
    """A model for the parent."""
    file, line = _source(seen.kind)
    return {
        "name": seen.name,
        "hash": seen.hash,
        "class": class_name(seen.kind),
        "file": file,
        "line": line,
        "called_from": seen.place,
        "depth": seen.depth,
        "instances": seen.instances,
        "calls": seen.calls,
        "seconds": seen.seconds,
        "parameters": seen.parameters,
        "parameter_bytes": seen.parameter_bytes,
        "buffer_bytes": seen.buffer_bytes,
        "dtypes": list(seen.dtypes),
        "generates": seen.hash in keep.generating,
        "more_signatures": seen.uncounted,
        "invocations": [_told_call(call, keep) for call in seen.invocations.values()],
    }


def _of_file(script: Path, fields: ReportedModel) -> ReportedModel:
    """A model that is a file goes by the file's name: what stands for it says nothing."""
    kind = _FILES.get(script.suffix)
    if kind is None or fields["depth"]:
        return fields
    return {**fields, "name": script.stem, "class": kind, "file": str(script), "line": None}


def _told_call(call: CallSignature, keep: _InputFiles) -> ReportedCall:
    told = {
        "hash": call.hash,
        "signature": list(call.signature),
        "calls": call.calls,
        "seconds": call.seconds,
        **keep.calls[call.hash],
    }
    return cast(ReportedCall, told)


@cache
def _source(kind: type) -> tuple[str, int | None]:
    """File and line of a class; of its forward, where the class was made and not written."""
    try:
        return str(inspect.getsourcefile(kind) or ""), inspect.getsourcelines(kind)[1]
    except (OSError, TypeError):
        code = getattr(getattr(kind, "forward", None), "__code__", None)
        return (code.co_filename, code.co_firstlineno) if code else ("", None)


def _never_called(variables: Mapping[str, object]) -> list[str]:
    """The classes of modules that the script made and did not call; no parts of others."""
    import torch

    # By type: what a proxy of something gone is cannot be asked of the proxy.
    made = [each for each in gc.get_objects() if issubclass(type(each), torch.nn.Module)]
    parts = {id(part) for each in made for part in each.children()}
    del variables  # held until here, so that what they name is among the objects
    names = {type(each).__name__ for each in made if id(each) not in parts}
    return sorted(names)


def _frameworks() -> list[str]:
    """What else the script has imported that runs models."""
    found = [words for package, words in _OTHER_FRAMEWORKS.items() if package in sys.modules]
    keras = sys.modules.get("keras")
    backend = getattr(getattr(keras, "backend", None), "backend", None)
    if callable(backend) and backend() != "torch":
        return [*found, f"Keras on {backend()}"]
    return found
