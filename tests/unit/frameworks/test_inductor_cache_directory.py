"""Where Inductor keeps what it compiles, and what it compiles once for all artifacts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from torch._inductor.codecache import CppPythonBindingsCodeCache
from torch._inductor.cpu_vec_isa import VecAVX2, VecAVX512, VecISA

from benchorch.frameworks.inductor_cache_directory import inductor_cache
from benchorch.host.processes import template

VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
CODE = "int main() { return 0; }"


class Compiler:
    """In place of a check's compilation: notes the directory it would compile into."""

    def __init__(self, passes: bool) -> None:
        self.passes = passes
        self.places: list[str] = []

    def check(self, isa: VecISA, code: str) -> bool:
        self.places.append(os.environ[VARIABLE])
        return self.passes


@pytest.fixture
def compiler(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Compiler:
    compiler = Compiler(getattr(request, "param", True))
    monkeypatch.setattr(VecISA, "check_build", lambda isa, code: compiler.check(isa, code))
    return compiler


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "benchorch" / "instruction-sets"


def check(cache: Path, code: str = CODE) -> bool:
    with inductor_cache(cache):
        passed = VecAVX2().check_build(code)
        assert os.environ[VARIABLE] == str(cache)
    return passed


def test_artifacts_share_what_is_compiled_to_check_instruction_sets(
    compiler: Compiler, state: Path, tmp_path: Path
) -> None:
    before, original = os.environ.get(VARIABLE), VecISA.check_build
    assert check(tmp_path / "one")
    assert check(tmp_path / "two")
    assert compiler.places == [str(state)] * 2
    assert os.environ.get(VARIABLE) == before
    assert VecISA.check_build is original


def test_sets_that_are_no_wider_than_one_that_passed_are_not_compiled(
    compiler: Compiler, tmp_path: Path
) -> None:
    with inductor_cache(tmp_path):
        assert all(isa.check_build(CODE) for isa in (VecAVX2(), VecAVX512(), VecAVX2()))
        assert len(compiler.places) == 2
        assert VecAVX2().check_build("int main() { return 1; }")
    assert len(compiler.places) == 3


@pytest.mark.parametrize("compiler", [False], indirect=True)
def test_every_set_is_compiled_where_none_passes(compiler: Compiler, tmp_path: Path) -> None:
    with inductor_cache(tmp_path):
        assert not any(isa.check_build(CODE) for isa in (VecAVX512(), VecAVX2()))
    assert len(compiler.places) == 2


def test_a_forked_process_does_not_repeat_a_check_that_was_passed(
    compiler: Compiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(tmp_path / "one")
    monkeypatch.setattr(template, "is_forked", lambda: True)
    assert check(tmp_path / "two")
    assert len(compiler.places) == 1
    check(tmp_path / "two", "int main() { return 1; }")
    assert len(compiler.places) == 2


@pytest.mark.parametrize(
    ("forked", "full", "header"),
    [(True, True, False), (True, False, True), (False, True, True)],
)
def test_a_forked_process_with_a_full_cache_looks_for_no_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, forked: bool, full: bool, header: bool
) -> None:
    monkeypatch.setattr(template, "is_forked", lambda: forked)
    before = CppPythonBindingsCodeCache._get_uncompiled_header("cpu")
    assert before is not None
    with inductor_cache(tmp_path, is_full=full):
        found = CppPythonBindingsCodeCache._get_uncompiled_header("cpu")
        assert (found is not None) is header
    assert CppPythonBindingsCodeCache._get_uncompiled_header("cpu") == before


def test_another_compiler_is_checked_anew(
    compiler: Compiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(template, "is_forked", lambda: True)
    check(tmp_path / "one")
    monkeypatch.setattr(
        "torch._inductor.cpp_builder.get_compiler_version_info", lambda _: "another"
    )
    check(tmp_path / "one")
    assert len(compiler.places) == 2


@pytest.mark.parametrize("compiler", [False], indirect=True)
def test_a_check_that_failed_is_repeated(
    compiler: Compiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(template, "is_forked", lambda: True)
    assert not check(tmp_path / "one")
    assert not check(tmp_path / "one")
    assert len(compiler.places) == 2


def test_without_a_place_for_it_each_artifact_has_its_own(
    compiler: Compiler, state: Path, tmp_path: Path
) -> None:
    state.parent.parent.mkdir(parents=True)
    state.parent.write_text("a file in its place")
    assert check(tmp_path / "one")
    assert compiler.places == [str(tmp_path / "one")]
