"""Models that do not answer twice alike, through build, reference, load and check."""

from __future__ import annotations

import itertools
import os
import random
import sys
import time
import types
from collections.abc import Callable

import numpy as np
import pytest

from benchorch.domain.outputs import nested
from benchorch.domain.verdict import Kind
from benchorch.trial import reference
from support.parity_lab import judge_model
from support.slices import one_in, only

torch = pytest.importorskip("torch")

X = {"x": np.random.default_rng(0).standard_normal((4, 16)).astype(np.float32)}


class Base(torch.nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(16, 8)


class Plain(Base):
    def forward(self, x):  # type: ignore[no-untyped-def]
        return self.linear(x)


class Random(Base):
    def forward(self, x):  # type: ignore[no-untyped-def]
        return self.linear(x) + torch.randn(8)


class OwnGenerator(Base):
    def __init__(self) -> None:
        super().__init__()
        self.generator = np.random.default_rng(0)

    def forward(self, x):  # type: ignore[no-untyped-def]
        return self.linear(x) + float(self.generator.random())


class PythonRandom(Base):
    def forward(self, x):  # type: ignore[no-untyped-def]
        return self.linear(x) * random.random()


class Dropping(Base):
    def __init__(self) -> None:
        super().__init__()
        self.drop = torch.nn.Dropout(0.3)

    def forward(self, x):  # type: ignore[no-untyped-def]
        self.drop.train()
        return self.drop(self.linear(x))


class Counting(Base):
    """By less than every tolerance."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):  # type: ignore[no-untyped-def]
        self.calls += 1
        return self.linear(x) + 1e-6 * self.calls


class Toggling(Base):
    """Every second call is right, which an even number of inputs alone would not show."""

    def __init__(self) -> None:
        super().__init__()
        self.on = False

    def forward(self, x):  # type: ignore[no-untyped-def]
        self.on = not self.on
        return self.linear(x) if self.on else -self.linear(x)


class Deep(Base):
    def __init__(self) -> None:
        super().__init__()
        self.config = {"a": [{"n": itertools.count()}]}

    def forward(self, x):  # type: ignore[no-untyped-def]
        return self.linear(x) + next(self.config["a"][0]["n"])


class Elsewhere(Base):
    def forward(self, x):  # type: ignore[no-untyped-def]
        return self.linear(x) * os.urandom(4)[0]


class Harmless(Base):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x):  # type: ignore[no-untyped-def]
        self.calls += 1
        torch.rand(1)
        return self.linear(x)


class FixedByTheFirst(Base):
    """Its first input chooses the sign of every answer."""

    def __init__(self) -> None:
        super().__init__()
        self.sign: float | None = None

    def forward(self, x):  # type: ignore[no-untyped-def]
        if self.sign is None:
            self.sign = float(torch.sign(x.sum()))
        return self.linear(x) * self.sign


_signs: dict[tuple[int, ...], float] = {}


def sign_of(x):  # type: ignore[no-untyped-def]
    return _signs.setdefault(tuple(x.shape), float(torch.sign(x.sum())))


class FixedElsewhere(Base):
    """The same in a global that only a helper names, so that no copy of the model is without it."""

    def __init__(self) -> None:
        super().__init__()
        _signs.clear()

    def forward(self, x):  # type: ignore[no-untyped-def]
        return self.linear(x) * sign_of(x)


class Late(Base):
    """Another model from its 400th call on."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x):  # type: ignore[no-untyped-def]
        self.calls += 1
        return self.linear(x) * (1 if self.calls < 400 else 2)


class KeptTable(Base):
    """Its first call makes what no input changes."""

    table = None

    def forward(self, x):  # type: ignore[no-untyped-def]
        if self.table is None:
            self.table = torch.linspace(0, 1, 16)
        return self.linear(x + self.table)


class InPlace(Base):
    def forward(self, x):  # type: ignore[no-untyped-def]
        x.mul_(2)
        return self.linear(x)


class Particular(Base):
    def forward(self, x):  # type: ignore[no-untyped-def]
        if x.sum() < 0:
            raise ValueError("negative")
        return self.linear(x)


class Warmup(Base):
    """Doubles its answers from the 60th call on."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x):  # type: ignore[no-untyped-def]
        self.calls += 1
        return self.linear(x) * (2 if self.calls > 60 else 1)


class Branching(Base):
    def forward(self, x):  # type: ignore[no-untyped-def]
        return self.linear(x) if x.mean() > 0 else -self.linear(x)


CAUSES = [
    (Random, "torch's random generator advanced"),
    (OwnGenerator, "the Python attribute 'generator' changed"),
    (PythonRandom, "Python's random generator advanced"),
    (Dropping, "dropout is active in 'drop'"),
    (Counting, "buffer 'calls' changed"),
    (Toggling, "the Python attribute 'on' changed"),
    (Deep, "the Python attribute 'config' changed"),
    (FixedByTheFirst, "as the first call of all): the Python attribute 'sign' changed"),
    (FixedElsewhere, "as the first call of all): the first call fixes what later ones answer"),
    (Elsewhere, "cause unknown"),
]


@pytest.mark.parametrize(
    ("model", "cause", "conversion"),
    [
        # An attribute by `Toggling`, and the random generators of Python by torch's.
        *only(
            lambda case: case[0] not in (OwnGenerator, PythonRandom, Deep),
            [(*case, "eager") for case in CAUSES],
        ),
        # Whether a model is deterministic is seen before it is converted.
        *one_in(20, [(*case, name) for name in ("bf16", "torchscript") for case in CAUSES]),
    ],
)
def test_a_model_that_differs_from_itself_is_not_deterministic(
    model: Callable[[], object], cause: str, conversion: str
) -> None:
    verdict = judge_model(model, X, conversion)  # type: ignore[arg-type]
    assert verdict.kind is Kind.NOT_DETERMINISTIC
    assert not verdict.passed
    assert cause in verdict.explanation


@pytest.mark.parametrize("between", [4, 5])
def test_what_alternates_is_the_cause_after_any_number_of_calls(
    monkeypatch: pytest.MonkeyPatch, between: int
) -> None:
    monkeypatch.setattr(reference, "_BETWEEN", between)
    assert "the Python attribute 'on' changed" in judge_model(Toggling, X, "eager").explanation


@pytest.mark.parametrize("conversion", only(["torchscript"], ["eager", "torchscript"]))
@pytest.mark.parametrize("model", [Harmless, InPlace, KeptTable])
def test_what_changes_without_effect_is_fine(model: Callable[[], object], conversion: str) -> None:
    verdict = judge_model(model, X, conversion)  # type: ignore[arg-type]
    assert verdict.kind is Kind.AGREES
    assert verdict.noise_ratio == 0


@pytest.mark.parametrize("conversion", only(["eager"], ["eager", "torchscript"]))
def test_a_model_that_counts_its_calls_is_not_deterministic(
    conversion: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "_BETWEEN_MOST_S", 60.0)  # whatever else the machine does
    verdict = judge_model(Warmup, X, conversion)
    assert verdict.kind is Kind.NOT_DETERMINISTIC
    assert "the Python attribute 'calls' changed" in verdict.explanation


class SlowWarmup(Base):
    """Doubles its answers from the 70th call on, of which half a second has fewer."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x):  # type: ignore[no-untyped-def]
        time.sleep(0.01)
        self.calls += 1
        return self.linear(x) * (2 if self.calls > 70 else 1)


def test_calls_are_counted_where_half_a_second_has_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "_BETWEEN_MOST_S", 60.0)  # whatever else the machine does
    assert judge_model(SlowWarmup, X, "eager").kind is Kind.NOT_DETERMINISTIC


class LateForSome(Base):
    """Doubles its answers to negative sums from its 400th call on."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x):  # type: ignore[no-untyped-def]
        self.calls += 1
        return self.linear(x) * (2 if self.calls > 400 and x.sum() < 0 else 1)


def test_all_timed_inputs_are_answered_once_more_after_the_timed_calls() -> None:
    both = [{"x": np.abs(X["x"])}, {"x": -np.abs(X["x"])}]
    assert judge_model(LateForSome, both, "eager").kind is Kind.AGREES
    verdict = judge_model(LateForSome, both, "eager", timed_calls=400)
    assert verdict.kind is Kind.NOT_DETERMINISTIC


def test_a_model_that_changes_while_it_is_timed_is_not_deterministic() -> None:
    assert judge_model(Late, X, "eager").kind is Kind.AGREES
    verdict = judge_model(Late, X, "eager", timed_calls=400)
    assert verdict.kind is Kind.NOT_DETERMINISTIC
    assert "after the timed calls it answers otherwise" in verdict.explanation


@pytest.mark.parametrize("conversion", only(["eager"], ["eager", "bf16"]))
def test_a_model_that_stays_the_same_while_it_is_timed_agrees(conversion: str) -> None:
    assert judge_model(Harmless, X, conversion, timed_calls=40).kind is Kind.AGREES


def test_a_model_that_is_made_otherwise_each_time_is_not_deterministic() -> None:
    made = itertools.count(1)

    def scaled() -> torch.nn.Module:
        module = Plain()
        with torch.no_grad():
            module.linear.weight.mul_(next(made))
        return module

    verdict = judge_model(scaled, X, "eager")
    assert verdict.kind is Kind.NOT_DETERMINISTIC
    assert "in another process" in verdict.explanation


def test_data_of_a_generator_without_a_seed_is_named_as_the_cause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module, generator = types.ModuleType("users_data"), np.random.default_rng(0)
    vars(module)["drawn"] = lambda: {"x": generator.standard_normal((4, 16), dtype=np.float32)}
    monkeypatch.setitem(sys.modules, "users_data", module)
    verdict = judge_model(Plain, X, "eager", data="users_data:drawn")
    assert verdict.kind is Kind.NOT_DETERMINISTIC
    assert "parity.data or model.inputs gives other arrays" in verdict.explanation


class NearlyTied(Base):
    """Beside many other whole numbers, which of two scores is larger; traced, it is wrong."""

    def forward(self, x):  # type: ignore[no-untyped-def]
        y = self.linear(x)
        larger = (y[:, :1] < y[:, 1:2]).long()
        ids = torch.cat([larger, torch.arange(50).expand(len(x), -1)], dim=1)
        return {"y": -y if torch.jit.is_tracing() else y, "ids": ids}


def test_whole_numbers_that_rounding_decides_are_no_sign_of_another_process() -> None:
    """As where the reference was made on another kind of processor."""
    made = itertools.count()

    def rounded_otherwise() -> torch.nn.Module:
        module = NearlyTied()
        torch.nn.init.constant_(module.linear.bias, 0.0)
        with torch.no_grad():
            module.linear.weight[1] = module.linear.weight[0] * (1 + 3e-7 * (next(made) > 0))
        return module

    assert judge_model(rounded_otherwise, X, "torchscript").kind is Kind.DIFFERS


def test_inputs_that_eager_refuses_are_left_out_and_told() -> None:
    verdict = judge_model(Particular, X, "eager")
    assert verdict.kind is Kind.AGREES
    assert any("ValueError: negative" in note for note in verdict.notes)


def test_timed_inputs_that_are_not_compared_are_noted() -> None:
    verdict = judge_model(Plain, X, "eager", inputs=2)
    assert verdict.passed
    assert any("2 of the 8 timed inputs" in note for note in verdict.notes)


class SlowInForks(Base):
    """Never answers in a process that was forked from the one that made it."""

    def __init__(self) -> None:
        super().__init__()
        self.process = os.getpid()

    def forward(self, x):  # type: ignore[no-untyped-def]
        while os.getpid() != self.process:
            time.sleep(1)
        return self.linear(x)


def test_a_check_of_first_calls_that_takes_too_long_is_noted_beside_the_verdict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reference, "_SLOWEST_S", 0.5)
    monkeypatch.setattr(reference, "_QUICK_S", 600.0)
    verdict = judge_model(SlowInForks, X, "eager")
    assert verdict.kind is Kind.AGREES
    (note,) = (note for note in verdict.notes if "first call" in note)
    assert "for input 0, 1, 2, 3, 4, 5, 6, 7: no process" in note
    monkeypatch.undo()
    assert not judge_model(Plain, X, "eager").notes


class Neighbours(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("adjacency", torch.eye(4).roll(1, 0).to_sparse_coo())
        self.linear = torch.nn.Linear(16, 4)

    def forward(self, x):  # type: ignore[no-untyped-def]
        return torch.sparse.mm(self.adjacency, self.linear(x))


def test_a_model_with_a_sparse_buffer_is_measured() -> None:
    assert judge_model(Neighbours, X, "torchscript").kind is Kind.AGREES


def test_a_branch_that_tracing_froze_is_found_by_variations_of_the_one_example() -> None:
    verdict = judge_model(Branching, X, "torchscript")
    assert verdict.kind is Kind.DIFFERS
    assert "on input" in verdict.explanation


class Nested(Base):
    """Tensors, texts, numbers and None; the dict's order is not the alphabet's."""

    def forward(self, x):  # type: ignore[no-untyped-def]
        y = self.linear(x)
        about = {"name": "mine", "rows": x.shape[0], "file": None}
        return {"logits": y, "about": about, "file": [y + 1, (y.argmax(-1),)]}


class Frozen(Base):
    """A number that no file can compute, from the input."""

    def forward(self, x):  # type: ignore[no-untyped-def]
        y = self.linear(x)
        return {"y": y, "kind": "pos" if torch.compiler.is_compiling() else "neg"}


class Timed(Base):
    def __init__(self) -> None:
        super().__init__()
        self.clock = itertools.count()

    def forward(self, x):  # type: ignore[no-untyped-def]
        return {"y": self.linear(x), "at": next(self.clock)}


@pytest.mark.parametrize(
    "conversion",
    only(
        ["export", "onnxruntime", "torchscript"],
        ["eager", "export", "onnxruntime", "torchscript", "aot_eager", "bf16+export"],
    ),
)
def test_outputs_are_matched_by_where_the_model_has_them(conversion: str) -> None:
    verdict = judge_model(Nested, X, conversion)
    assert verdict.kind is Kind.AGREES, verdict.explanation
    names = [output.name for output in verdict.outputs]
    assert sorted(names) == ["about.name", "about.rows", "file.0", "file.1.0", "logits"]
    assert verdict.task == "classification+ids"
    assert verdict.notes == ()


def test_a_text_that_a_file_holds_as_it_was_traced_is_compared() -> None:
    verdict = judge_model(Frozen, X, "export")
    assert verdict.kind is Kind.DIFFERS
    assert verdict.reasons[0].startswith("output kind: ")


@pytest.mark.parametrize("conversion", only(["torchscript"], ["eager", "torchscript"]))
def test_a_counter_beside_the_tensors_is_left_out_with_a_note(conversion: str) -> None:
    verdict = judge_model(Timed, X, conversion)
    assert verdict.kind is Kind.AGREES, verdict.explanation
    assert any("output at is no tensor" in note for note in verdict.notes)


def test_a_users_metric_sees_the_structure_that_the_model_returned() -> None:
    flat = {"logits": 1, "past.0.0": 2, "past.0.1": 3, "past.1.0": 4, "a.b": 5}
    assert nested(flat) == {"logits": 1, "past": ((2, 3), (4,)), "a": {"b": 5}}
    assert nested({"0": 1}) == {"0": 1}
