"""Signatures of entries: what a compiler built is loaded only if a trusted key has signed it.

Each machine has a key of its own, made at first use; the machines of a stack share the stack's.
Whoever can write to a store, but holds no trusted key, cannot make another machine run code.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import secrets
import stat
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from benchorch.config.user_settings import config_directory, user_settings
from benchorch.domain.artifact import Format, canonical_json
from benchorch.domain.codec import Json, encode
from benchorch.errors import ConfigError, StoreError
from benchorch.files import read_text
from benchorch.stores.manifest import Manifest, Signature

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

LOG = logging.getLogger(__name__)

VARIABLE = "BENCHORCH_SIGNING_KEY"
"""Names a file with a secret that machines share, in place of the machine's own key."""

DATA = frozenset({Format.ONNX, Format.OPENVINO_IR, Format.EXPORTED_PROGRAM, Format.REFERENCE})
"""Formats whose readers run nothing of the files; all others, known or not, may be code.

An exported program is looked through by `frameworks.program_archive` before torch reads it."""

_ALGORITHM = "ed25519:"
_PURPOSE = b"benchorch entry of a store, version 1\0"
_FEWEST_CHARACTERS = 32
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def sign(manifest: Manifest) -> Manifest:
    """The manifest with this machine's signature; StoreError where there is no key."""
    key = _private_key()
    signature = Signature(key=_name(key), value=key.sign(_statement(manifest)).hex())
    return replace(manifest, signature=signature)


def is_refused(manifest: Manifest, place: str) -> bool:
    """Whether an entry may not be loaded; warns once per process with the reason."""
    why = distrust(manifest)
    if why:
        _warn(manifest.name, place, why)
    return bool(why)


@cache
def _warn(name: str, place: str, why: str) -> None:
    LOG.warning("%s is built again: %s; it is in %s", name, why, place)


def distrust(manifest: Manifest) -> str:
    """Why an entry may not be loaded; empty for data, and for what a trusted key has signed."""
    if manifest.format in DATA:
        return ""
    signature = manifest.signature
    if signature is None:
        return f"{manifest.format} may hold code, and no key has signed it"
    if signature.key != public_key() and signature.key not in user_settings().keys:
        return f"{manifest.format} may hold code, and {signature.key[:80]!r} is not a trusted key"
    return "" if _is_valid(signature, manifest) else "its signature is of another entry"


def public_key() -> str:
    """Name of the machine's key for other people's settings; StoreError where there is none."""
    return _name(_private_key())


def private_name(purpose: str) -> str:
    """A name that only a holder of this machine's key can predict."""
    return hashlib.sha256(f"{purpose}\0".encode() + _seed()).hexdigest()[:16]


def proof(value: Json) -> str:
    """What only a holder of this machine's key can write about a value; empty without a key."""
    with suppress(StoreError):
        return hmac.digest(_seed(), canonical_json(value).encode(), "sha256").hex()
    return ""


def problem() -> str:
    """Why nothing can be signed here, or an empty string."""
    try:
        _seed()
    except StoreError as error:
        return str(error)
    return ""


def _is_valid(signature: Signature, manifest: Manifest) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = Ed25519PublicKey.from_public_bytes(
            bytes.fromhex(signature.key.removeprefix(_ALGORITHM))
        )
        key.verify(bytes.fromhex(signature.value), _statement(manifest))
    except (InvalidSignature, ValueError):
        return False
    return True


def _statement(manifest: Manifest) -> bytes:
    """Signed content: the whole manifest, and so every file's digest."""
    return _PURPOSE + canonical_json(encode(replace(manifest, signature=None))).encode()


def _name(key: Ed25519PrivateKey) -> str:
    return _ALGORITHM + key.public_key().public_bytes_raw().hex()


def _private_key() -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(_seed())


def _seed() -> bytes:
    """32 bytes from the shared secret, or from the machine's own, which is made if need be."""
    shared = os.environ.get(VARIABLE)
    path = Path(shared) if shared else _own_key_path()
    try:
        return _read(path) if shared or path.exists() else _made(path)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise StoreError(
            f"{path}: {why}. Built artifacts are signed with the secret in it: make it readable, "
            f"or set {VARIABLE} to another file."
        ) from error


def _own_key_path() -> Path:
    try:
        return config_directory() / "signing.key"
    except ConfigError as error:  # no home
        raise StoreError(f"{error} Set {VARIABLE} to a file with a secret.") from error


@cache
def _read(path: Path) -> bytes:
    status = path.stat()
    if status.st_uid != os.geteuid() or status.st_mode & _OTHERS:
        raise StoreError(f"{path} may be read by others, so it signs nothing: chmod 600 {path}")
    secret = read_text(path).strip()
    if len(secret) < _FEWEST_CHARACTERS:
        raise StoreError(f"{path} has {len(secret)} characters; a secret has {_FEWEST_CHARACTERS}.")
    return hashlib.sha256(_PURPOSE + secret.encode()).digest()


def _made(path: Path) -> bytes:
    """A new key, whole or not at all; that of another process which was faster."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            path.hardlink_to(draft)
    finally:
        draft.unlink()
    return _read(path)
