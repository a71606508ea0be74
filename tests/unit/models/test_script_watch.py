"""Names that what a script calls has for people."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch

from benchorch.models.script_watch import StopScriptError, Watch, class_name, name_in


def test_a_graph_of_fx_has_the_name_of_its_class_not_of_the_one_derived_for_it() -> None:
    graph = torch.fx.symbolic_trace(torch.nn.Linear(3, 2))
    assert class_name(type(graph)) == "torch.fx.graph_module.GraphModule"
    assert class_name(torch.nn.Linear) == "torch.nn.modules.linear.Linear"


def test_a_module_that_only_a_librarys_object_holds_goes_by_its_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import sysconfig

    home = SimpleNamespace(__file__=f"{sysconfig.get_path('purelib')}/library/strategy.py")
    monkeypatch.setitem(sys.modules, "library.strategy", home)  # type: ignore[arg-type]

    class Strategy:
        __module__ = "library.strategy"

        def __init__(self) -> None:
            self.module = torch.nn.Linear(2, 2)

        def step(self) -> str:
            return name_in(sys._getframe(), self.module)

    found = Strategy().step()
    assert found == "Linear"


def test_a_thread_that_outlives_the_script_interrupts_nothing_after_it() -> None:
    with Watch(5, lambda _: None) as watch:
        watched = torch.nn.Module.__call__
        watch.stop()
    with ThreadPoolExecutor(1) as pool, pytest.raises(StopScriptError):
        pool.submit(watched, torch.nn.Linear(4, 3), torch.ones(2, 4)).result()
