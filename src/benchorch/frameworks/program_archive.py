"""An exported program's file, looked through before torch reads it: none of it may run code.

Torch itself unpickles what a ``.pt2`` holds and runs what its graph says. So members must be of the
kinds that torch writes, in the one order in which every reader of archives finds the same; pickles
are read as weights only; and `program_graph` looks through the rest.
"""

from __future__ import annotations

import json
import logging
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import BadZipFile, ZipFile, is_zipfile

from benchorch.errors import BuildError
from benchorch.files import ARCHIVE_DAMAGE
from benchorch.frameworks.program_graph import graph_problems
from benchorch.frameworks.upstream_errors import first_line, wrap_errors
from benchorch.host.environment_variable import environment_variable

if TYPE_CHECKING:
    import torch

_ONLY_WEIGHTS = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
"""Torch's own switch: it falls back to reading objects otherwise."""

_DAMAGE = (*ARCHIVE_DAMAGE, OSError, ValueError)
# How instructions end that nothing wrote.
_ODD_PICKLE = (
    *(ArithmeticError, AssertionError, AttributeError, EOFError, ImportError, LookupError),
    *(RuntimeError, TypeError, ValueError, struct.error),
)
_MOST_TIMES, _FREE_BYTES = 20, 2**26  # torch stores members uncompressed; some are of equal bytes
_CONTENT = r"""
    archive_format | archive_version | version | byteorder | \.data/\w+ | extra/.+
    | models/[\w.-]+\.json
    | data/weights/(weight_\d+ | [\w.-]+_config\.json | [\w.-]+\.pt)
    | data/constants/(tensor_\d+ | [\w.-]+_config\.json | [\w.-]+\.pt)
    | data/sample_inputs/[\w.-]+\.pt
"""
_MEMBER = re.compile(
    rf"""[^/]+/({_CONTENT}) | version | serialized_exported_program\.json
    | serialized_(state_dict|constants|example_inputs)\.pt | extra_files/.+""",
    re.VERBOSE,
)

_EXTRA = re.compile(r"[^/]+/extra/.+")
_LONG_PLACE = 1  # the extra field of a member beyond 4 GiB
_END, _LOCATOR, _LONG_END = 22, 20, 56  # bytes of the records after an archive's directory


def read_program(path: Path) -> torch.export.ExportedProgram:
    """The program of a file; BuildError or BadZipFile if it could run code, or is none."""
    check_program(path)
    return load_unchecked(path)


def load_unchecked(path: Path) -> torch.export.ExportedProgram:
    """The program of a file, which may run code unless `check_program` let it through.

    Raises:
        BuildError: it is no program of this torch.
    """
    import pickle

    import torch
    from torch._export.verifier import SpecViolationError

    unreadable = (BadZipFile, pickle.UnpicklingError, SpecViolationError, SyntaxError)
    what = f"{path} is no exported program that PyTorch {torch.__version__} can read"
    with (
        wrap_errors(BuildError, what, *unreadable),
        _logged_errors_raised(),
        environment_variable(_ONLY_WEIGHTS, "1"),
    ):
        return torch.export.load(path)


def check_program(path: Path, custom: Callable[[str], bool] = lambda _: False) -> None:
    """Look through an archive of a program: an error unless all that it holds is data.

    Args:
        path: what ``torch.export.save`` wrote.
        custom: whether an operator that is not among torch's own, ``namespace::name``, may be
            called.

    Raises:
        BuildError: of kind ``user_code``.
        BadZipFile: it is no archive.
    """
    if not is_zipfile(path):  # torch's reader may find one all the same
        raise BadZipFile(f"{path} is no archive, as torch.export.save writes one")
    for found in _problems(path, custom):
        raise BuildError(
            f"{path} may not be loaded: {found}, which torch would run or trust",
            kind="user_code",
            remedy="export the model again with torch.export.save, from inputs that are tensors",
        )


def _problems(path: Path, custom: Callable[[str], bool]) -> Iterator[str]:
    try:
        with ZipFile(path) as archive:
            yield from _directory_problems(path)
            yield from _member_problems(archive, path.stat().st_size)
            for name in archive.namelist():
                if _EXTRA.fullmatch(name):
                    continue  # torch gives it back as text
                if name.endswith(".json"):
                    yield from graph_problems(json.loads(archive.read(name)), custom)
                elif name.endswith(".pt"):
                    yield from _pickle_problems(archive, name)
    except _DAMAGE as error:
        yield f"it is damaged ({error})"


def _directory_problems(path: Path) -> Iterator[str]:
    """Where the directory of the archive is another for torch's reader than for Python's.

    Python looks before the end of the file, torch where the records there point.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - _END - _LOCATOR - _LONG_END))
        rest = file.read()
    end = size - _END
    last, locator = rest[-_END:], rest[-_END - _LOCATOR : -_END]
    length, start = struct.unpack("<II", last[12:20])
    if locator.startswith(b"PK\x06\x07"):
        end -= _LOCATOR + _LONG_END
        (stated,) = struct.unpack("<Q", locator[8:16])
        length, start = struct.unpack("<QQ", rest[40:56])
        if stated != end or not rest.startswith(b"PK\x06\x06"):
            yield "it has two directories"
    if not last.startswith(b"PK\x05\x06") or start + length != end:
        yield "it has two directories"


def _member_problems(archive: ZipFile, size: int) -> Iterator[str]:
    members = archive.infolist()
    names = [member.filename for member in members]
    if len({name.casefold() for name in names}) < len(names):
        yield "two members have one name"
    if any(_places(member.extra) > 1 for member in members):
        yield "a member has two places"
    yield from (
        f"it holds {name[:80]!r}"
        for name in names
        if not _MEMBER.fullmatch(name) or {"..", "."} & {*name.split("/")}
    )
    total = sum(member.file_size for member in members)
    if total > _MOST_TIMES * size + _FREE_BYTES:
        yield f"its {size} bytes expand to {total}"


def _places(extra: bytes) -> int:
    """How often a member's extra fields say where it lies: readers differ in which they take."""
    count = 0
    while len(extra) >= 4:
        kind, length = struct.unpack("<HH", extra[:4])
        count += kind == _LONG_PLACE
        extra = extra[4 + length :]
    return count


def _pickle_problems(archive: ZipFile, name: str) -> Iterator[str]:
    import io
    import pickle

    import torch

    content = archive.read(name)
    if not content:
        return
    odd = (pickle.UnpicklingError, *_ODD_PICKLE)
    try:
        torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except odd as error:
        yield f"{name} holds more than tensors ({first_line(error)[:80]})"


@contextmanager
def _logged_errors_raised() -> Iterator[None]:
    """Torch logs a traceback of what is wrong and then raises what says nothing."""
    logger, reported = logging.getLogger("torch.export"), list[BaseException]()

    def is_no_error(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        reported.extend([error] if error else [])
        return error is None

    logger.addFilter(is_no_error)
    try:
        yield
    except RuntimeError as error:
        raise (reported or [error])[0] from None
    finally:
        logger.removeFilter(is_no_error)
