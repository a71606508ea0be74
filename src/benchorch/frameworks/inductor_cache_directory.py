"""Directory of Inductor's own cache while it compiles for one artifact."""

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchorch.host.environment_variable import environment_variable
from benchorch.host.processes import template
from benchorch.journal.registry import state_directory

_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"


@contextmanager
def inductor_cache(directory: Path, *, is_full: bool = False) -> Iterator[None]:
    """Inductor reads and writes its cache here; it takes the place from the environment alone.

    What it compiles to learn which instruction sets the compiler has is kept for all artifacts.

    Args:
        is_full: whether everything that is called has been compiled.
    """
    with (
        environment_variable(_VARIABLE, str(directory)),
        _checks_once(),
        contextlib.ExitStack() as held,
    ):
        if is_full and template.is_forked():
            held.enter_context(_without_headers())
        yield


@contextmanager
def _without_headers() -> Iterator[None]:
    """Inductor looks for no precompiled header, as it does even for kernels that are compiled.

    Preprocessing it takes 0.1 CPU seconds of a process. That belongs to the first call, and so it
    is left out only where the start is no result.
    """
    from torch._inductor.codecache import CppPythonBindingsCodeCache as Kernels

    name = "_get_uncompiled_header"
    before = vars(Kernels).get(name)
    setattr(Kernels, name, classmethod(lambda cls, device: None))
    try:
        yield
    finally:
        delattr(Kernels, name) if before is None else setattr(Kernels, name, before)


@contextmanager
def _checks_once() -> Iterator[None]:
    """Inductor checks each instruction set with a compilation once on this machine, not per cache.

    A compilation takes seconds. Loading what it gave takes a tenth of that, and belongs to the
    first call of a process; a forked process, whose start is no result, skips it as well. Inductor
    uses the first set that passes, the widest: sets that are no wider need no check after it.
    """
    from torch._inductor.cpu_vec_isa import VecISA

    check = VecISA.check_build
    VecISA.check_build = _kept(check)  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        VecISA.check_build = check  # type: ignore[method-assign]


def _kept(check: Callable[[Any, str], bool]) -> Callable[[Any, str], bool]:
    """The check in a directory that all artifacts share; only success is kept."""
    widest_bits: dict[str, int] = {}

    def checked(isa: Any, code: str) -> bool:
        if isa.bit_width() <= widest_bits.get(code, 0):
            return True
        found = compiled(isa, code)
        if found:
            widest_bits[code] = isa.bit_width()
        return found

    def compiled(isa: Any, code: str) -> bool:
        shared = state_directory() / "instruction-sets"
        passed = shared / f"{_identity(isa, code)}.passed"
        if template.is_forked() and passed.exists():
            return True
        try:
            shared.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError:
            return check(isa, code)
        with environment_variable(_VARIABLE, str(shared)):
            found = check(isa, code)
        if found:
            with contextlib.suppress(OSError):
                passed.touch()
        return found

    return checked


def _identity(isa: Any, code: str) -> str:
    """Digest of what a check depends on: the code, torch, the compiler and its flags."""
    from torch._inductor.cpu_vec_isa import _get_isa_dry_compile_fingerprint

    facts = f"{code}\n{_get_isa_dry_compile_fingerprint(isa.build_arch_flags())}"
    return hashlib.sha256(facts.encode()).hexdigest()
