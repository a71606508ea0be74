"""What the bytecode of reached code names."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from typing import Any

import pytest

from benchorch.frameworks.identity.leaves import Leaves
from benchorch.frameworks.identity.reach import Reach

_instructions = dis.get_instructions


def _as_of_3_14(code: Any) -> Iterator[dis.Instruction]:
    for one in _instructions(code):
        is_small = one.opname == "LOAD_CONST" and isinstance(one.argval, int)
        yield one._replace(opname="LOAD_SMALL_INT") if is_small else one


def _with_local_imports() -> None:
    import json.decoder  # noqa: F401

    from ..sizes import LAYERS  # type: ignore  # noqa: F401, TID252


@pytest.mark.parametrize("read", [_instructions, _as_of_3_14], ids=["here", "3.14"])
def test_imports_inside_a_function_are_read(read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dis, "get_instructions", read)
    reach, found = Reach(Leaves()), []
    monkeypatch.setattr(reach, "_import", lambda name, level, scope: found.append((name, level)))
    reach._local_imports(_with_local_imports.__code__, {"__name__": "net"})
    assert found == [("json.decoder", 0), ("sizes", 2)]


def test_a_native_function_may_hold_its_module_in_place_of_the_modules_name() -> None:
    native = pytest.importorskip("psutil._psutil_linux", reason="not Linux")
    leaves = Leaves()
    reach = Reach(leaves)
    reach.add(native.net_if_addrs, "")
    reach.run()
    reach.finish()
    assert list(leaves.groups["packages"]) == ["psutil"]
