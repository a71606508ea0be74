"""A tracker's URI: made absolute, shown without secrets, locked while its tables are made."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from benchorch.domain.trial import ConfigNode
from benchorch.errors import Correction, Problem
from benchorch.locks import locked

SQLITE = "sqlite:///"
ARN, ARN_PLUGIN = "arn:", "sagemaker_mlflow"
"""Prefix and plug-in of a tracking server managed by AWS."""

VARIABLE = "BENCHORCH_TRACKING_URI"
"""Holds the URI with its password, which plans leave out; child processes inherit it."""

_USUAL_PORTS = {"http": ":80", "https": ":443"}
_AZURE = (
    ".core.windows.net",
    ".core.usgovcloudapi.net",
    ".core.chinacloudapi.cn",
    ".fabric.microsoft.com",
)
_CLOUDS = {
    "abfss": _AZURE,
    "wasbs": _AZURE,
    "r2": (".r2.cloudflarestorage.com",),
    "b2": (".backblazeb2.com",),
}
"""Hosts of the storage whose address has its host, to which MLflow sends that cloud's keys."""

_HOST_ALONE = re.compile(r"[A-Za-z0-9_.\-]+")
_NOT_LITERAL_IN_URIS = re.compile(r"\?|%[0-9A-Fa-f]{2}")
_URI = re.compile(r"[A-Za-z][\w+.\-]{0,40}://[^\s'\",\]}]+")


def problem(uri: str) -> Problem | None:
    """Why this cannot be a tracker's URI, or None."""
    if uri.startswith(ARN):
        if find_spec(ARN_PLUGIN) is not None:
            return None
        return Problem(f"uri: {uri} is a server of AWS's: pip install sagemaker-mlflow")
    path = database_file(uri)
    if path is not None and not path.is_absolute():
        return _linked(path)
    if uri == "databricks" or (uri.partition("://")[0] and "://" in uri) or uri.startswith("file:"):
        return None
    forms = "sqlite:///mlflow.db", f"http://{uri or 'host:5000'}"
    text = f"uri: {uri!r} has no scheme; write {' or '.join(forms)}"
    return Problem(text, Correction(allowed=forms))


def _linked(database: Path) -> Problem | None:
    """A link that the current folder, which may be a stranger's, has where something is written."""
    for path in (database, lock_of(database), artifacts_of(database)):
        if path.is_symlink():
            whole_path = f"{SQLITE}{database.absolute()}"
            return Problem(
                f"uri: {path} is a link to {path.readlink()}, so nothing is recorded there "
                f"unasked; write {whole_path} if it is yours",
                Correction(allowed=(whole_path,)),
            )
    return None


def lock_of(database: Path) -> Path:
    """The file that is locked while a SQLite file's tables are made."""
    return database.with_name(f"{database.name}.lock")


def artifacts_of(database: Path) -> Path:
    """The folder of the artifacts of a SQLite file's experiments."""
    return database.parent / "mlartifacts"


def is_chosen_address(place: str, tracker: str) -> bool:
    """Whether artifacts would go to an address that the tracker chooses and nobody has named.

    A SQLite file or a folder may name folders. A server may name itself and, as MLflow documents,
    a cloud's storage, for which MLflow uses that cloud's credentials, FTP, SFTP and HDFS; never
    another server, to which MLflow would send the tracker's user, password or token.
    """
    own = urlsplit(without_secrets(tracker))
    try:
        parts = urlsplit(place)
    except ValueError:  # an address that cannot be one, such as http://[x
        return True
    if own.scheme.startswith("sqlite") or own.scheme == "file":
        return parts.scheme not in ("", "file")
    if parts.scheme in _CLOUDS:  # what is before the @ is a bucket or a file system
        host = parts.netloc.partition("@")[2].lower()
        return not (_HOST_ALONE.fullmatch(host) and host.endswith(_CLOUDS[parts.scheme]))
    if parts.scheme == "mlflow-artifacts":
        return bool(parts.netloc) and _host(own.scheme, parts.netloc) != _host(*own[:2])
    if parts.scheme in ("http", "https"):
        return not parts.netloc or _host(*parts[:2]) != _host(*own[:2])
    return parts.scheme in ("runs", "models")  # which lead to wherever the tracker says next


def _host(scheme: str, netloc: str) -> tuple[str, str]:
    """A server, named alike with and without the usual port."""
    return scheme, netloc.lower().removesuffix(_USUAL_PORTS.get(scheme, ""))


def anchored(uri: str, directory: Path) -> str:
    """The same URI, a relative SQLite path made absolute below `directory`.

    It stays relative where a URI would read that folder's path otherwise: no quoting of it suits
    all versions of SQLAlchemy.
    """
    path, folder = database_file(uri), directory.absolute()
    if path is None or (not path.is_absolute() and _NOT_LITERAL_IN_URIS.search(str(folder))):
        return uri
    return f"{SQLITE}{folder / path}"


def database_file(uri: str) -> Path | None:
    """The file of a SQLite URI; None for every other tracker, and for one in memory."""
    name = uri.removeprefix(SQLITE).partition("?")[0]
    return Path(name) if uri.startswith(SQLITE) and name not in ("", ":memory:") else None


def without_secrets(uri: str) -> str:
    """The URI as it may be shown and stored: no user, no password, no query."""
    if uri.startswith(SQLITE):
        return uri.partition("?")[0]
    parts = urlsplit(uri)
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=host, query="", fragment="").geturl()


def secrets(uri: str) -> tuple[str, ...]:
    """The parts of the URI that must never be shown, longest first."""
    if uri.startswith(SQLITE):
        query = uri.partition("?")[2]
        return (query,) if query else ()
    parts = urlsplit(uri)
    user = parts.netloc.rpartition("@")[0]
    password = parts.password or ""
    # A password of a few letters would be removed from ordinary words.
    found = (f"{user}@" if user else "", password if len(password) > 5 else "", parts.query)
    return tuple(sorted((part for part in found if part), key=len, reverse=True))


def kept_secret(node: ConfigNode) -> ConfigNode:
    """A tracker's configuration without secrets, which are kept in the environment."""
    uri = node.get("uri")
    if not isinstance(uri, str) or not secrets(uri):
        return node
    os.environ[VARIABLE] = uri
    return {**node, "uri": without_secrets(uri)}


def whole(uri: str) -> str:
    """The URI with its secrets from the environment, if there are any."""
    kept = os.environ.get(VARIABLE, "")
    return kept if kept and without_secrets(kept) == uri else uri


def strike_out(text: str) -> str:
    """A text in which every URI is without its user, password and query."""
    return _URI.sub(lambda found: _public(found[0]), text)


def _public(uri: str) -> str:
    try:
        return without_secrets(uri) if secrets(uri) else uri
    except ValueError:  # not a URI after all
        return uri


def scrubbed(text: str, uri: str) -> str:
    """A text in which the URI's secrets are replaced by ``***``."""
    for secret in secrets(uri):
        text = text.replace(secret, "***")
    return text


@contextmanager
def one_at_a_time(uri: str) -> Iterator[None]:
    """Hold the lock beside a SQLite file, whose schema only one process may create."""
    path = database_file(uri)
    if path is None:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is a folder, a pipe or a device, and no file", str(path))
    with locked(lock_of(path)):
        yield
