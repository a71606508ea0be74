"""The calibration of this machine, kept for every later run."""

import contextlib
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path

from benchorch.domain.certificate import Certificate
from benchorch.domain.codec import Json, decode, encode
from benchorch.files import read_json, write_json
from benchorch.journal.chain import UNREADABLE
from benchorch.journal.registry import state_directory


def place() -> Path:
    """Path of the certificate file; machines may share a home."""
    return state_directory() / f"calibration-{socket.gethostname()}.json"


def keep(certificate: Certificate) -> Path:
    """Replace the machine's calibration; where it is."""
    path = place()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, encode(certificate))
    return path


def kept() -> Certificate | None:
    """The last calibration of this machine; None where there is none, or it cannot be read."""
    with contextlib.suppress(OSError, *UNREADABLE):
        found = decode(Certificate, read_json(place()))
        return found if isinstance(found, Certificate) else None
    return None


def kept_of(environments: Iterable[Mapping[str, Json]]) -> Certificate | None:
    """The last calibration of this machine, where one of these environments is of it."""
    found = kept()
    if found and any(found.is_of(one.get("host"), one.get("cpu_model")) for one in environments):
        return found
    return None
