"""Discovery of scripts on the nodes of an executor: what is shipped there, and what comes back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from benchorch.domain.codec import Json, with_texts
from benchorch.domain.trial import ConfigNode
from benchorch.errors import ExecutorError
from benchorch.executors.scheduling.file_transfer import (
    FolderContent,
    ShippedFiles,
    read_folder,
    script_files,
    write_folder,
)
from benchorch.files import write_bytes
from benchorch.frontends.scripts.discover import Enough, Script, discover, unreadable
from benchorch.frontends.scripts.kept import files_of
from benchorch.host import sandbox
from benchorch.interfaces.executor import Executor
from benchorch.models.kept_programs import programs_folder

_PROBE = ".seen-by-nodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRequest:
    """A script for a node.

    Attributes:
        timeout_s, keep, sandboxed: as of `discover`.
        quiet_s, first: as of `Enough`.
        files: the script and the user's modules that it imports.
    """

    script: Script
    timeout_s: float
    keep: bool
    sandboxed: bool
    quiet_s: float | None
    first: bool
    files: ShippedFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReply:
    """What a script called on a node.

    Attributes:
        found: as `discover` returns it.
        folder: of the captured files there.
        captured: these files; empty where the node shares this machine's disk.
        log: the script's output.
    """

    found: Mapping[str, Json]
    folder: str
    captured: FolderContent = field(default_factory=FolderContent)
    log: bytes = b""


def discover_on_nodes(
    executor: Executor, requests: Sequence[NodeRequest]
) -> Iterator[tuple[int, ConfigNode]] | None:
    """What each script calls, as they end, by number; None where the executor has no nodes."""
    replies = executor.spread(discover_here, requests)
    if replies is None:
        return None
    return ((number, _taken(requests[number].script, reply)) for number, reply in replies)


def request_for(script: Script, **options: object) -> NodeRequest:
    """A script with its files."""
    folder = programs_folder().parent
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _PROBE).touch()
    files = FolderContent() if unreadable(script.path) else script_files(script.path)
    shipped = ShippedFiles(directory=folder, probe=_PROBE, content=files)
    return NodeRequest(script=script, files=shipped, **options)  # type: ignore[arg-type]  # its own


def discover_here(request: NodeRequest) -> NodeReply:
    """The node's part: run the script and collect what was captured."""
    script, folder = request.script, programs_folder().parent
    shared = request.files.is_visible() and request.files.directory == folder
    try:
        if not shared:
            request.files.write()
    except FileExistsError as error:
        return NodeReply(found=not_run(script, str(error)), folder=str(folder))
    why = sandbox.problem() if request.sandboxed else ""
    if why:
        return NodeReply(found=not_run(script, f"{why} on its node"), folder=str(folder))
    found = discover(
        script,
        timeout_s=request.timeout_s,
        keep=request.keep,
        enough=Enough(quiet_s=request.quiet_s, first=request.first),
        sandboxed=request.sandboxed,
    )
    if shared:
        return NodeReply(found=found, folder=str(folder))
    log = script.log.read_bytes() if script.log.is_file() else b""
    return NodeReply(found=found, folder=str(folder), captured=_captured(found, folder), log=log)


def _captured(found: ConfigNode, folder: Path) -> FolderContent:
    """The files that the models' configurations name, relative to the folder of all."""
    files: dict[str, bytes] = {}
    for path in files_of(found):
        name = path.relative_to(folder).as_posix()
        if path.is_dir():
            inside = read_folder(path, most_bytes=1 << 40).files
            files |= {f"{name}/{each}": data for each, data in inside.items()}
        else:
            files[name] = path.read_bytes()
    return FolderContent(files=files)


def _taken(script: Script, reply: NodeReply | ExecutorError) -> ConfigNode:
    """What was found, with its files on this machine."""
    if isinstance(reply, ExecutorError):
        return not_run(script, f"its node was lost: {reply}")
    folder = programs_folder().parent
    missing = {
        name: data for name, data in reply.captured.files.items() if not (folder / name).exists()
    }
    write_folder(FolderContent(files=missing), folder)
    if reply.log:
        script.folder.mkdir(parents=True, exist_ok=True)
        write_bytes(script.log, reply.log)

    def moved(text: str) -> str:
        inside = text.startswith(f"{reply.folder}/")
        return f"{folder}{text.removeprefix(reply.folder)}" if inside else text

    return {**cast(ConfigNode, with_texts(reply.found, moved)), "log": str(script.log)}


def not_run(script: Script, message: str) -> dict[str, Json]:
    """What is reported of a script that could not be started."""
    problem: Json = {"kind": "not_run", "message": message, "remedy": ""}
    where: dict[str, Json] = {"script": str(script.path), "log": str(script.log), "labels": {}}
    return {**where, "models": [], "ended": "not_run", "problem": problem}
