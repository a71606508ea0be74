"""Which of torch.compile's backends run where, and what they say of themselves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchorch.errors import MeasureError
from benchorch.runtimes.compiled import Compiled
from benchorch.runtimes.eager import Eager
from support import conversions as lab


def test_cuda_graphs_are_refused_where_they_would_do_nothing() -> None:
    reason = Compiled(backend="cudagraphs").unavailable("cpu")
    assert reason is not None
    assert "do nothing on a CPU" in reason
    assert Compiled(backend="cudagraphs").unavailable("cuda") is None
    assert Compiled(backend="aot_eager").unavailable("cpu") is None


@pytest.mark.parametrize(
    "name", ["cudagraphs", "COMPILE_CUDAGRAPHS", "BF16+EXPORT+COMPILE_CUDAGRAPHS"]
)
def test_a_chain_with_cuda_graphs_cannot_run_on_a_cpu(name: str) -> None:
    assert "CUDA graphs" in str(lab.chain_of(name).unavailable)


@pytest.mark.parametrize(
    ("name", "provider"),
    [
        ("eager", "torch eager"),
        ("export", "torch export"),
        ("compile_eager", "torch.compile eager"),
        ("export+aot_eager", "torch.compile aot_eager"),
    ],
)
def test_it_says_who_runs_the_model(name: str, provider: str, tmp_path: Path) -> None:
    executable = lab.converted(lab.chain_of(name), tmp_path)
    assert executable.facts()["provider"] == provider
    executable.close()


def test_a_program_of_another_torch_is_a_failed_measurement(tmp_path: Path) -> None:
    chain = lab.chain_of("export")
    made = lab.built(chain, tmp_path)
    (tmp_path / "program.pt2").write_bytes(b"not a program")
    broken = replace(made, sources=dict.fromkeys(made.sources, tmp_path))
    assert isinstance(chain.runtime, Eager)
    with pytest.raises(MeasureError, match="exported program cannot be loaded"):
        lab.loaded(chain, broken)
