"""Stored identities of models, with everything that their loads read.

A stamp is believed once two loads of two processes found the same identity, and for as long as
everything that they consulted is as it was. It is data: at worst a wrong one names another model.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from benchorch.domain.artifact import digest_of
from benchorch.domain.codec import Json
from benchorch.domain.trial import ConfigNode
from benchorch.files import read_json, write_json
from benchorch.frameworks.identity.evidence import holds

_VERSION = 6  # with links, permissions and entries of folders
_ENOUGH_LOADS = 2
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamps:
    """The stamps of a store.

    Args:
        folder: where they are.
    """

    folder: Path

    def found(self, request: ConfigNode) -> tuple[ConfigNode, Mapping[str, Any]] | None:
        """Stored identity of a model, and what its loads consulted; None if it has to be loaded."""
        stamp = self._read(request)
        if stamp.get("loads", 0) < _ENOUGH_LOADS or stamp.get("untracked") or stamp.get("differed"):
            return None
        seen = stamp.get("consulted", {})
        return (cast(ConfigNode, stamp["identity"]), seen) if holds(seen) else None

    def take(
        self,
        request: ConfigNode,
        identity: ConfigNode,
        *,
        consulted: Mapping[str, Any],
        untracked: Sequence[str],
        environment: Mapping[str, str],
    ) -> None:
        """Remember what a load found; a store that cannot be written to costs the next load.

        Args:
            environment: before the load, which may set variables itself.
        """
        before = self._read(request)
        alike = before.get("identity") == identity
        unchanged = bool(before) and holds(before.get("consulted", {}), environment)
        differed = list(before.get("differed", [])) if unchanged else []
        if unchanged and not alike:
            differed = _differing(before.get("identity", {}), identity)
        stamp = {
            "version": _VERSION,
            "request": request,
            "identity": identity,
            "loads": before.get("loads", 0) + 1 if alike else 1,
            "differed": differed,
            "untracked": list(untracked),
            "consulted": dict(consulted),
        }
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_json(self._file(request), cast(Json, stamp))

    def verdicts(self) -> Sequence[tuple[str, str]]:
        """Each model, and whether it is known without loading; if not, why."""
        found = []
        for path in sorted(self.folder.glob("*.json")) if self.folder.is_dir() else ():
            with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
                stamp = read_json(path)
                requested = stamp["identity"].get("asked", {})
                named = (requested.get(name) for name in ("factory", "module", "call", "class"))
                model = next(filter(None, named), str(requested))
                found.append((str(model), _verdict(stamp)))
        return found

    def _read(self, request: ConfigNode) -> dict[str, Any]:
        with suppress(OSError, ValueError, TypeError, KeyError):
            found = read_json(self._file(request))
            if found["version"] == _VERSION and found["request"] == request:
                return {**found, "identity": dict(found["identity"])}
        return {}

    def _file(self, request: ConfigNode) -> Path:
        return self.folder / f"{digest_of(request)}.json"


def _verdict(stamp: Mapping[str, Any]) -> str:
    loads = int(stamp["loads"])
    if stamp["untracked"]:
        return f"loaded in each run: {'; '.join(map(str, stamp['untracked']))}"
    if stamp["differed"]:
        names = ", ".join(map(str, stamp["differed"]))
        return f"loaded in each run: two loads of the same files differed in {names}"
    if loads < _ENOUGH_LOADS:
        return "loaded in the next run too: an identity is kept once two loads agree"
    return f"known without loading while what its load consulted is the same ({loads} loads agreed)"


def _differing(before: Any, after: Any) -> list[str]:
    """Names of fields that differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        names = sorted({*before, *after})
        return [
            ".".join(filter(None, (name, rest)))
            for name in names
            for rest in _differing(before.get(name), after.get(name))
        ][:_SHOWN]
    return [] if before == after else [""]
