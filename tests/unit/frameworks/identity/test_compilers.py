"""What compiled code depends on besides hardware."""

import pytest

from benchorch.frameworks.identity.compilers import compiled_facts


def test_whether_torch_compiles_at_all_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCH_COMPILE_DISABLE", raising=False)
    before = compiled_facts("cpu")
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")
    assert compiled_facts("cpu")["compiler_options"] != before["compiler_options"]
