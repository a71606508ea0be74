"""What was found in a script, kept for the next command that names it."""

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

from benchorch.domain.codec import Json
from benchorch.domain.trial import ConfigNode
from benchorch.files import file_digest, read_json, read_small, write_text
from benchorch.frameworks.identity.evidence import file_status, is_as_it_was
from benchorch.frameworks.identity.places import names_digest
from benchorch.frameworks.identity.start import Start
from benchorch.frameworks.identity.variables import variable_digest
from benchorch.frontends.scripts.discover import Script
from benchorch.models.saved_language_model import WEIGHTS

_NOT_WHOLE = ("interrupt", "memory", "stopped", "not_run")
_VERSION = "2"  # 2: what is captured returns the tensors of objects
_MOST_DIGESTED = 200  # files; of a data set's many only size and times are compared


def kept(script: Script, how: str, timeout_s: float) -> dict[str, Json] | None:
    """What the same script, arguments and environment gave before; None where anything differs.

    Args:
        script: which one.
        how: what else decides over what is found in it.
        timeout_s: how long it may run; one that was ended by a shorter limit may give more.
    """
    try:
        record = read_json(_place(script))
        same = record["key"] == _key(script, how)
        found = cast("dict[str, Json]", record["found"])
        if found["ended"] == "timeout":
            same = same and timeout_s <= record["timeout_s"]
        fresh = same and all(_digest(Path(path)) == was for path, was in record["sources"].items())
        fresh = fresh and _read_the_same(record["reads"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return found if fresh and all(path.exists() for path in files_of(found)) else None


def remember(script: Script, found: ConfigNode, how: str, timeout_s: float) -> None:
    """Keep what a script gave, unless it was cut short; by its time limit, if it gave a model."""
    if found["ended"] in _NOT_WHOLE or (found["ended"] == "timeout" and not found["models"]):
        return
    sources = {path: _digest(Path(path)) for path in cast("list[str]", found.get("sources", []))}
    reads = _states(cast(ConfigNode, found.get("reads", {})))
    record = {
        **{"key": _key(script, how), "sources": sources, "reads": reads},
        **{"found": found, "timeout_s": timeout_s},
    }
    script.folder.mkdir(parents=True, exist_ok=True)
    write_text(_place(script), json.dumps(record))


def _states(reads: ConfigNode) -> dict[str, dict[str, Any]]:
    """The state of what a script has read, by group."""
    names = {group: cast("list[str]", found) for group, found in reads.items()}
    environment, files = Start().environment, names.get("files", ())
    few = len(files) <= _MOST_DIGESTED
    return {
        "files": {name: file_status(name, digest=few) for name in files},
        "folders": {name: names_digest(name) for name in names.get("folders", ())},
        "variables": {
            name: variable_digest(environment, name) for name in names.get("variables", ())
        },
    }


def _read_the_same(states: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether the script would read the same again."""
    environment = Start().environment
    return (
        all(is_as_it_was(name, was) for name, was in states["files"].items())
        and all(names_digest(name) == was for name, was in states["folders"].items())
        and all(
            variable_digest(environment, name) == was for name, was in states["variables"].items()
        )
    )


def _place(script: Script) -> Path:
    chosen = hashlib.sha256("\n".join((*script.hashes, "", script.pattern)).encode())
    return script.folder / f"found-{chosen.hexdigest()[:8]}.json"


def _key(script: Script, how: str) -> str:
    """Digest of the script's bytes, its arguments and the environment."""
    words = (
        _VERSION,
        file_digest(script.path),
        *script.arguments,
        str(script.depth),
        str(script.capture),
        *(["generation"] if script.generation else []),
        how,
    )
    return hashlib.sha256("\n".join((*words, _environment())).encode()).hexdigest()


@cache
def _environment() -> str:
    """Python and every installed distribution with its version."""
    from importlib.metadata import distributions

    installed = sorted({f"{each.name} {each.version}" for each in distributions()})
    return "\n".join((sys.version, *installed))


def _digest(path: Path) -> str:
    """That of a file as a script names it, which may be none."""
    try:
        return hashlib.sha256(read_small(path, links=True)).hexdigest()
    except (OSError, ValueError):
        return ""


def files_of(found: ConfigNode) -> Iterator[Path]:
    """The files that the models' configurations name."""
    for model in cast("list[ConfigNode]", found["models"]):
        for call in cast("list[ConfigNode]", model["invocations"]):
            node = cast(ConfigNode, call.get("model", {}))
            inputs = cast(ConfigNode, node.get("inputs", {}))
            yield from (
                Path(str(each))
                for each in (inputs.get("file"), *map(node.get, ("program", "bundle", WEIGHTS)))
                if each
            )
