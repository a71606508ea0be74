"""Functions, compiled and scripted modules, exported as modules are."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, cast

import pytest
import torch
from torch import nn

import benchorch
from benchorch.errors import ConfigError
from benchorch.frontends.api import live_model
from benchorch.frontends.api.function_model import FunctionModule, is_function


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.dropout = nn.Dropout()

    def forward(self, x: torch.Tensor, shift: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": self.dropout(self.linear(x)) + shift}

    def embed(self, x: torch.Tensor, *, scale: float = 2.0) -> torch.Tensor:
        return self.linear(x) * scale

    def generate(self, ids: torch.Tensor | None = None) -> torch.Tensor:
        return self.linear(ids)


class Pipeline:
    def __init__(self, model: Net) -> None:
        self.steps = [model.embed]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.steps[0](x)


class Branching(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x


NET = Net().train()
X, SHIFT = torch.ones(2, 4), torch.full((2, 3), 3.0)


def through_a_global(x: torch.Tensor) -> torch.Tensor:
    return NET.embed(x).relu()


def program(model: Any, *inputs: torch.Tensor) -> torch.export.ExportedProgram:
    arrays = live_model.named_arrays(inputs, live_model.forward_names(model))
    return live_model.export(model, [arrays])


def _in_a_closure() -> Callable[..., Any]:
    net, offset = NET, torch.ones(3)
    return lambda x, /: net.embed(x) + offset


@pytest.mark.parametrize(
    ("function", "name", "others"),
    [
        (_in_a_closure(), "lambda", ()),
        (through_a_global, "through_a_global", ()),
        (lambda x: through_a_global(x) + 1, "lambda", ()),
        (NET.embed, "Net.embed", ()),
        (NET.generate, "Net.generate", ()),
        (functools.partial(NET.embed, scale=3.0), "Net.embed", ()),
        (functools.partial(NET, shift=SHIFT), "Net", ()),
        (Pipeline(NET), "Pipeline", ()),
        (torch.compile(through_a_global, backend="eager"), "through_a_global", ()),
        (lambda x, shift: torch.compile(NET, backend="eager")(x, shift), "lambda", (SHIFT,)),
    ],
)
def test_a_function_is_exported_with_the_weights_that_it_uses(
    function: Callable[..., Any], name: str, others: tuple[torch.Tensor, ...]
) -> None:
    assert is_function(function)
    module = FunctionModule(function)
    assert live_model.model_name(module) == name
    exported = program(module, X, *others)
    weights = {key.rpartition("linear.")[2] for key in exported.state_dict}
    assert {"weight", "bias"} <= weights
    assert NET.training  # as it was, although it was exported in eval mode
    names = live_model.forward_names(module)
    answers = exported.module()(**dict(zip(names, (X, *others), strict=False)))
    NET.eval()
    expected = function(X, *others)
    NET.train()
    torch.testing.assert_close(answers, expected)


def test_a_partial_of_what_declares_no_arguments_is_told_as_a_call_with_them() -> None:
    linear = functools.partial(torch.nn.functional.linear, weight=torch.ones(2, 4), bias=None)
    with pytest.raises(ConfigError, match=r"lambda x: linear\(x, weight=\.\.\., bias=\.\.\.\)"):
        FunctionModule(linear)


@torch.library.custom_op("function_model_test::tripled", mutates_args=())
def tripled(x: torch.Tensor) -> torch.Tensor:
    return x * 3


@tripled.register_fake
def _shape(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def test_an_operator_that_a_trial_does_not_have_is_refused_before_any_trial() -> None:
    said = r"lambda calls function_model_test\.tripled\.default, .* as 'path\.py:function'"
    with pytest.raises(ConfigError, match=said):
        program(FunctionModule(lambda x: tripled(x) + 1), X)


class Merging(nn.Linear):
    """Merges weights in eval mode, as layers with adapters do."""

    merged = False

    def train(self, mode: bool = True) -> Self:
        self.merged = not mode
        return super().train(mode)


def test_a_module_that_is_in_training_stays_as_it_is() -> None:
    net = nn.Sequential(Merging(4, 4), nn.Dropout()).train()
    exported = program(net, X).module()
    assert torch.equal(exported(input=X), exported(input=X))
    assert [each.training for each in net.modules()] == [True] * 3
    assert not cast(Merging, net[0]).merged


def test_what_is_callable_without_arguments_makes_a_module() -> None:
    assert not is_function(lambda: NET)
    assert not is_function(Net)
    assert not is_function(functools.partial(nn.Linear, 4, 3))


@pytest.mark.parametrize(
    "script",
    [
        torch.jit.script,
        lambda net: torch.jit.freeze(torch.jit.script(net)),
        lambda net: torch.jit.trace(net, (X, SHIFT), strict=False),
    ],
    ids=["scripted", "frozen", "traced"],
)
def test_a_scripted_module_answers_as_before(script: Callable[[Net], Any]) -> None:
    net = Net().eval()
    exported = program(script(net), X, SHIFT).module()
    torch.testing.assert_close(exported(x=X, shift=SHIFT)["y"], net(X, SHIFT)["y"])


def test_a_failing_export_writes_nothing_but_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="Branching cannot be exported"):
        benchorch.benchmark(Branching(), X, recorder="none")
    assert tuple(capfd.readouterr()) == ("", "")


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (torch.vmap(lambda row: row.sin().sum()), lambda x: x.sin().sum(-1)),
        (functools.singledispatch(doubled), doubled),
        (torch.jit.script(doubled), doubled),
        (torch.jit.trace(lambda x: x * 2, torch.ones(2)), doubled),
    ],
    ids=["vmap", "singledispatch", "script", "trace"],
)
def test_what_takes_its_arguments_by_place_alone_is_called_so(
    function: Callable[..., Any], expected: Callable[..., Any]
) -> None:
    x = torch.randn(3, 4)
    assert is_function(function)
    module = FunctionModule(function)
    (name,) = live_model.forward_names(module) or ()
    program = live_model.export(module, [{name: x.numpy()}])
    assert torch.allclose(program.module()(**{name: x}), expected(x))


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor, double: bool = True, factor: float = 3.0) -> torch.Tensor:
        if double:
            return self.linear(x) * 2 * factor
        return x


class Difference(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a - b


class OfABatch(nn.Module):
    def forward(self, **batch: torch.Tensor) -> torch.Tensor:
        return batch["a"] - batch["b"]


def of_more(a: torch.Tensor, **more: torch.Tensor) -> torch.Tensor:
    return a - more["b"]


def checked(model: Any, inputs: Any, **overrides: Any) -> Any:
    from benchorch.frontends.api.benchmark import _checked

    return _checked(model, inputs, "eager", "local", overrides)


def test_a_scripted_module_keeps_the_defaults_of_arguments_that_are_not_given() -> None:
    net = Scaled().eval()
    exported = program(torch.jit.script(net), X).module()
    torch.testing.assert_close(exported(x=X), net(X))


@pytest.mark.parametrize(
    "model",
    [torch.jit.script(Difference()), OfABatch(), of_more],
    ids=["scripted", "keywords", "function"],
)
def test_inputs_go_by_name_whatever_their_order(model: Any) -> None:
    inputs = {"b": torch.ones(3), "a": torch.full((3,), 5.0)}
    exported = checked(model, inputs).program.module()
    torch.testing.assert_close(exported(**inputs), torch.full((3,), 4.0))


def test_a_forward_of_keywords_alone_takes_more_than_tensors_too() -> None:
    inputs = {"a": torch.full((3,), 5.0), "b": torch.ones(3), "names": ["first", None]}
    exported = checked(OfABatch(), inputs).program.module()
    tensors = {name: inputs[name] for name in ("a", "b")}
    torch.testing.assert_close(exported(**tensors), torch.full((3,), 4.0))


def test_an_exported_program_is_measured_as_it_is() -> None:
    net = nn.Linear(4, 3)
    exported = torch.export.export(net, (X,))
    for given in (exported, exported.module()):
        request = checked(given, {"input": X})
        torch.testing.assert_close(request.program.module()(input=X), net(X))
        assert "name=ExportedProgram" in request.model.words
    mixed = torch.export.export(Net().eval(), (X,), {"shift": SHIFT})
    answer = checked(mixed, {"shift": SHIFT, "x": X}).program.module()(x=X, shift=SHIFT)
    torch.testing.assert_close(answer, mixed.module()(X, shift=SHIFT))


def test_a_step_of_training_is_refused_with_the_reason() -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        loss = NET.embed(x).sum()
        loss.backward()
        return loss

    with pytest.raises(ConfigError, match="called without recording gradients"):
        checked(step, X)


@pytest.mark.parametrize(
    "given", [nn.DataParallel(Net().eval()), Net().eval().__call__], ids=["parallel", "call"]
)
def test_a_module_is_measured_however_it_is_wrapped(given: Any) -> None:
    net = getattr(given, "module", None) or given.__self__
    request = checked(given, (X, SHIFT))
    answer = request.program.module()(x=X, shift=SHIFT)["y"]
    torch.testing.assert_close(answer, net(X, SHIFT)["y"])
    assert "name=Net" in request.model.words


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (nn.Linear, "Linear is a class that needs in_features, out_features; give a module"),
        (lambda x: (each for each in x), "lambda returned a generator, in which is no tensor"),
    ],
)
def test_what_gives_no_answer_is_refused_with_the_reason(given: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        checked(given, X)


@pytest.mark.parametrize("name", ["inf", "NaN", "true", "null"])
def test_a_function_may_have_the_name_of_a_value(name: str) -> None:
    def doubling(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    doubling.__qualname__ = name
    request = checked(doubling, X)
    words = [f"model={request.model.choice}", *request.model.words, *request.words]
    (cell,) = request.composer.cells(words)
    assert cell.config["model"]["architecture"] == name
    assert cell.config["model"]["labels"] == {"model": name}
