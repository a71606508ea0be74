"""Accelerated functions, methods and modules: compiled outside a profile, taken apart inside."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

import benchorch
from benchorch.errors import ConfigError
from benchorch.frontends.accelerate.capture import CaptureContext
from benchorch.frontends.accelerate.function import activate, deactivate
from benchorch.frontends.accelerate.runs import RunGroup, group_runs

HERE = Path(__file__).name


@contextlib.contextmanager
def capturing(most: int = 100) -> Iterator[CaptureContext]:
    capture = CaptureContext(most=most)
    activate(capture)
    try:
        with torch.no_grad():
            yield capture
    finally:
        deactivate()


def only(capture: CaptureContext) -> RunGroup:
    (group,) = group_runs(capture.runs)
    return group


def accelerate(thing, **options):  # type: ignore[no-untyped-def]
    """Eager outside: what Inductor makes of it takes long, and is torch's own matter."""
    return benchorch.accelerate(thing, backend="eager", **options)


def test_kernels_count_for_the_code_that_launched_them(monkeypatch) -> None:
    """Python's time before and after a graph, and the graph's own: each ends when they have."""
    waits = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waits.append(None))
    capture = CaptureContext(most=1)
    before = capture.now_ns()
    assert len(waits) == 1
    assert capture.now_ns() >= before


def test_outside_a_profile_it_is_what_torch_compile_makes_of_it() -> None:
    seen = []

    def backend(module: torch.fx.GraphModule, _: object) -> object:
        seen.append(module)
        return module.forward

    @benchorch.accelerate(backend=backend, dynamic=False)
    def double(x: torch.Tensor) -> torch.Tensor:
        """Twice as much."""
        return x * 2

    assert double(torch.ones(3)).tolist() == [2.0] * 3
    assert len(seen) == 1
    assert (double.__name__, double.__doc__) == ("double", "Twice as much.")


def test_a_function_with_a_graph_break_has_five_segments_in_order() -> None:
    def function_with_graph_breaks(x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.1)
        x = torch.relu(x)
        torch._dynamo.graph_break()
        time.sleep(0.01)
        x = torch.relu(x)
        time.sleep(0.1)
        return x

    accelerated = accelerate(function_with_graph_breaks)
    with capturing() as capture:
        for _ in range(3):
            assert accelerated(torch.tensor(1.0)).item() == 1.0
    group = only(capture)
    assert (group.graphs, len(group.runs), group.discarded) == ((1, 2), 2, 1)
    for run in group.runs:
        first, middle, last = run.gaps_ns
        assert min(first, last) > 100_000_000
        assert middle > 10_000_000
    told = "\n".join(map(str, capture.breaks()))
    assert "Call to `torch._dynamo.graph_break()`" in told
    assert "time.sleep" in told or "skipped" in told
    assert {(Path(b.file).name, b.line > 0) for b in capture.breaks()} == {(HERE, True)}


def test_a_module_stays_a_module_and_its_graph_has_its_weights() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU()).eval()
    accelerated = accelerate(model)
    x = torch.randn(2, 4)
    with capturing() as capture:
        answers = [accelerated(x) for _ in range(3)]
    assert isinstance(accelerated, nn.Module)
    assert list(accelerated.parameters()) == list(model.parameters())
    assert torch.equal(answers[0], model(x))
    assert (only(capture).function, only(capture).graphs) == ("Sequential", (1,))


def test_methods_can_be_decorated_and_bound_ones_accelerated() -> None:
    class Service:
        def __init__(self) -> None:
            self.factor = 3

        @benchorch.accelerate(backend="eager")
        def predict(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.factor

        def plain(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.factor

    service = Service()
    bound = accelerate(service.plain)
    with capturing() as capture:
        assert service.predict(torch.ones(2)).tolist() == [3.0, 3.0]
        assert bound(torch.ones(2)).tolist() == [4.0, 4.0]
    assert [run.function.rpartition(".")[2] for run in capture.runs] == ["predict", "plain"]


def test_dynamic_makes_one_graph_for_all_shapes() -> None:
    accelerated = accelerate(lambda x: x * 2 + 1, dynamic=True)
    with capturing() as capture:
        for rows in range(2, 12):
            assert accelerated(torch.ones(rows, 3)).shape == (rows, 3)
    (graph,) = capture.graphs.values()
    assert len(graph.signatures) == 10
    assert only(capture).graphs == (1,)


def test_without_dynamic_too_many_shapes_are_told_and_go_on_in_python() -> None:
    accelerated = accelerate(lambda x: x * 2, dynamic=False)
    with torch._dynamo.config.patch(recompile_limit=3), capturing() as capture:
        for rows in range(2, 9):
            assert accelerated(torch.ones(rows)).shape == (rows,)
    assert len(capture.graphs) == 3
    assert any("compiled for 3 shapes" in each.reason for each in capture.breaks())
    assert group_runs(capture.runs)[-1].graphs == ()


def test_of_many_graphs_only_so_many_are_kept() -> None:
    functions = [accelerate(lambda x, n=n: x * n) for n in range(6)]
    with capturing(most=4) as capture:
        for function in functions:
            function(torch.ones(3))
    kept = [seen for graph in capture.graphs.values() for seen in graph.signatures.values()]
    assert [seen.is_kept for seen in kept] == [True] * 4 + [False] * 2


def test_what_was_compiled_for_one_profile_serves_the_next() -> None:
    accelerated = accelerate(lambda x: torch.sin(x) + 1)
    with capturing() as first:
        accelerated(torch.ones(3))
    with capturing() as second:
        accelerated(torch.ones(3))
    assert [only(each).compiled for each in (first, second)] == [True, False]
    assert only(second).graphs == (1,)


def test_a_module_inside_an_accelerated_function_belongs_to_the_functions_graph() -> None:
    model = accelerate(nn.Linear(4, 4).eval())
    outer = accelerate(lambda x: model(x) * 2)
    with capturing() as capture:
        for _ in range(2):
            outer(torch.ones(1, 4))
    assert only(capture).graphs == (1,)


def test_an_accelerated_function_called_from_pythons_part_of_another_is_a_part_of_it() -> None:
    inner = accelerate(lambda x: x + 1)

    @torch.compiler.disable
    def between(x: torch.Tensor) -> torch.Tensor:
        return inner(x)

    outer = accelerate(lambda x: between(x * 2) * 3)
    with capturing() as capture:
        for _ in range(2):
            assert outer(torch.ones(1)).item() == 9.0
    assert len(capture.runs) == 2
    assert len(only(capture).graphs) >= 2


def test_inputs_are_kept_as_they_were_when_the_graph_was_called() -> None:
    accelerated = accelerate(lambda x: x * 2)
    x = torch.ones(3)
    with capturing() as capture:
        accelerated(x)
        x.zero_()
    ((seen,),) = [graph.signatures.values() for graph in capture.graphs.values()]
    assert seen.arguments[0].tolist() == [1.0] * 3


def test_a_run_that_raises_is_the_callers_exception_and_not_counted() -> None:
    def fails(x: torch.Tensor) -> torch.Tensor:
        x = x * 2
        torch._dynamo.graph_break()
        raise KeyError("mine")

    accelerated = accelerate(fails)
    with capturing() as capture:
        with pytest.raises(KeyError, match="mine"):
            accelerated(torch.ones(3))
        accelerate(lambda x: x + 5)(torch.ones(3))
    assert capture.raised == 1
    assert len(capture.runs) == 1


def test_threads_write_down_runs_of_their_own() -> None:
    accelerated = accelerate(lambda x: torch.cos(x))
    with capturing() as capture:
        accelerated(torch.ones(3))
        threads = [threading.Thread(target=accelerated, args=(torch.ones(3),)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(capture.runs) == 5
    assert {len(run.graphs) for run in capture.runs} == {1}


def test_gradients_are_those_of_the_program() -> None:
    weight = torch.ones(3, requires_grad=True)
    accelerated = accelerate(lambda x: (x * weight).sum())
    with capturing(), torch.enable_grad():
        accelerated(torch.arange(3.0)).backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [0.0, 1.0, 2.0]


def test_profiles_cannot_be_nested() -> None:
    with capturing(), pytest.raises(ConfigError, match="cannot be nested"):
        activate(CaptureContext(most=1))


def function(x: torch.Tensor) -> torch.Tensor:
    return x


@pytest.mark.parametrize(
    ("thing", "told"),
    [
        (7, "expected a function, a method or a module, got a int"),
        (nn.Linear, "Linear is a class"),
        (torch.compile(function), "compiled already"),
        (torch.compile(nn.Linear(2, 2)), "compiled already"),
        (benchorch.accelerate(function), "function is accelerated already"),
        (benchorch.accelerate(nn.Linear(2, 2)), "accelerated already"),
    ],
)
def test_what_cannot_be_accelerated_is_refused_in_words(thing: object, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        benchorch.accelerate(thing)  # type: ignore[call-overload]


def test_a_module_compiled_in_place_is_refused() -> None:
    module = nn.Linear(2, 2)
    module.compile(backend="eager")
    with pytest.raises(ConfigError, match="compiled already"):
        benchorch.accelerate(module)
