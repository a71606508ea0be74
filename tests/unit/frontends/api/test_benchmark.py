"""Asking for a benchmark from Python: what is refused, how things travel, what comes back."""

from __future__ import annotations

import importlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import benchorch
from benchorch.config.composer import Composer, config_loader
from benchorch.domain.tensors import Workload
from benchorch.domain.trial import Plan, node_of
from benchorch.errors import BuildError, ConfigError, RecordError
from benchorch.frontends.api import live_model
from benchorch.frontends.api.benchmark import _checked, _importable
from benchorch.journal.lock import is_running
from benchorch.models.callables import resolve_callable
from benchorch.models.exported import PROGRAM_FILE, ExportedModel
from benchorch.models.kept_programs import keep_program
from support.synthetic_runs import result, trial


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.dropout = nn.Dropout()

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": self.dropout(self.linear(x)) * scale}


class Branching(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x


class Wrapper(nn.Module):
    def forward(self, *inputs: torch.Tensor, **named: torch.Tensor) -> torch.Tensor:
        return sum([*inputs, *named.values()], torch.zeros(()))


class Unnamed(nn.Module):
    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return sum(inputs, torch.zeros(()))


X = torch.ones(2, 4)
SCALE = torch.full((2, 3), 3.0)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refused(*args: object, **keywords: object) -> tuple[str, ...]:
    """The problems of a request, which leaves nothing behind."""
    with pytest.raises(ConfigError) as caught:
        benchorch.benchmark(*args, **{"recorder": "none", **keywords})  # type: ignore[arg-type]
    assert list(Path().iterdir()) == []
    return caught.value.problems


def test_importing_benchorch_loads_nothing() -> None:
    probe = (
        "import sys, benchorch; assert 'benchmark' in benchorch.__all__\n"
        "print([m for m in sys.modules if m.startswith(('benchorch.', 'torch', 'hydra'))])"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_is_not_there_is_told_as_by_any_module() -> None:
    with pytest.raises(AttributeError, match="no attribute 'benchmrak'"):
        benchorch.benchmrak  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    ("model", "inputs", "told"),
    [
        (7, X, "expected a torch.nn.Module, a callable that makes one"),
        ("mpl", None, "Did you mean 'mlp'?"),
        ("nowhere.py:make", X, "nowhere.py"),
        (lambda: 7, X, "returned a int, not a module"),
        (
            Scaled(),
            None,
            "inputs: give the tensors that forward is called with. It takes: x, scale",
        ),
        (Scaled(), {}, "inputs: is empty"),
        (Scaled(), (X, SCALE, X), "inputs: 3 given; the model takes x, scale"),
        (Scaled(), {"x": X, "scael": SCALE}, "Did you mean 'scale'?"),
        (Scaled(), {"x": X, "scale": {3.0}}, "inputs: scale is a set, not a tensor"),
        (Scaled(), {"x": [[1.0]], "scale": None}, "got a list"),
        (Scaled(), {"x": X.to("meta"), "scale": SCALE}, "inputs['x']: is on the meta device"),
        (Scaled(), {"x": X.to_sparse_csr(), "scale": SCALE}, "inputs['x']: is sparse or nested"),
        (Scaled(), {"x": torch.nested.nested_tensor([X]), "scale": SCALE}, "is sparse or nested"),
        (Scaled(), {"x": X.to(torch.complex64), "scale": SCALE}, "its dtype is complex64"),
        (Scaled(), {"x": X[:0], "scale": SCALE}, "has no elements"),
        (Scaled(), {"x": torch.ones(2, 5), "scale": SCALE}, "called with x [2, 5], scale [2, 3] "),
        (Scaled(), X, "missing 1 required positional argument: 'scale'"),
        (Scaled().to("meta"), (X, SCALE), "linear.weight is on the meta device"),
        (nn.LazyLinear(3), X, "weight has no shape yet; call the module once before"),
        (Branching(), X, "Branching cannot be exported"),
        (Branching(), X, "'path.py:function'"),
        (torch.compile(Scaled()), (X, SCALE, X), "inputs: 3 given; the model takes x, scale"),
        (lambda *given: given[0].shape, X, "lambda called without arguments raised IndexError"),
        (torch.relu, X, "relu does not declare its arguments; give lambda x: relu(x)"),
        (lambda x: torch.from_numpy(x.numpy()), X, "lambda cannot be exported"),
        (lambda x: x.numpy(), X, "lambda cannot be exported"),
        (lambda x: "words", X, "lambda returned a str, in which is no tensor"),
        (lambda x: None, X, "lambda returned None, in which is no tensor"),
        (nn.Module(), X, "Module has no forward"),
        (Wrapper(), X, "inputs: the arguments have no names here; give a dict"),
        (Unnamed(), {"x": X}, "Unnamed does not name its arguments; give lambda x, y: model(x, y)"),
        (Unnamed(), X, "Unnamed does not name its arguments; give lambda x, y: model(x, y)"),
        ("weights.safetensors", X, "is a file; it holds weights or objects"),
        ("net.onnx", X, "is a file; measure it by: benchorch script FILE"),
        (lambda x: x, None, "inputs: give the tensors that forward is called with. It takes: x"),
    ],
)
def test_what_cannot_be_benchmarked_is_refused_in_words(
    model: object, inputs: object, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Half a second for words that nobody gave; they are read beside such problems below.
    monkeypatch.setattr(Composer, "problems", lambda *_, **__: [])
    assert any(told in problem for problem in refused(model, inputs))


@pytest.mark.parametrize(
    ("keywords", "told"),
    [
        ({"conversions": ["eager", "onxruntime"]}, "Did you mean 'onnxruntime'?"),
        ({"conversions": []}, "conversion: the list is empty"),
        ({"conversions": ["eager", 3]}, "conversion: expected a name, got 3"),
        ({"conversions": 3}, "conversion: expected a name, got 3"),
        ({"hardware": "lcoal"}, "Did you mean 'local'?"),
        ({"workload": {"batch_sise": 8}}, "Did you mean 'batch_size'?"),
        ({"workload.batch_size": 8}, "the inputs have 2 rows"),
        ({"stopping": "fixd"}, "Did you mean 'fixed'?"),
        ({"stopping.processes": object()}, "stopping.processes: expected a number"),
        ({"hydra.run.dir": "x"}, "give directory="),
        ({"conversion": "eager"}, "give conversions="),
        ({"conversions": "eager", "conversion.tolerance_ration": 1}, "'tolerance_ratio'?"),
        ({"conversion.tolerance_ration": 1}, "conversion.tolerance_ration"),
        ({"resume": "x"}, "resume on the command line"),
    ],
)
def test_mistakes_in_keywords_come_with_the_nearest_right_one(
    keywords: dict[str, object], told: str
) -> None:
    assert any(told in problem for problem in refused(Scaled(), (X, SCALE), **keywords))


@pytest.mark.parametrize(
    ("conversions", "hardware", "key"),
    [
        ("onnxruntime", "local", "conversion.tolerance_ratio"),
        (["eager", "onnxruntime"], "local", "conversion.tolerance_ratio"),
        (None, "local", "conversion.tolerance_ratio"),
        ("eager", ["local", "g5"], "hardware.threads"),
    ],
)
def test_a_key_of_what_is_chosen_beside_the_model_is_known(
    conversions: str | list[str] | None, hardware: str | list[str], key: str
) -> None:
    request = _checked("mlp", None, conversions, hardware, {key: 3})
    (job,) = request.composer.jobs(["model=mlp", *request.words])
    group, _, name = key.partition(".")
    cells = request.composer.cells(job)
    assert {node_of(cell.config, group)[name] for cell in cells} == {3}


def test_a_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("mine")
    with pytest.raises(ConfigError, match="is a file; give a folder"):
        benchorch.benchmark(Scaled(), (X, SCALE), recorder="none", directory=taken)
    assert taken.read_text() == "mine"


def test_every_problem_is_told_at_once() -> None:
    problems = refused(Scaled(), {"x": 1, "scale": 2}, ["egaer"], "lcoal", rebuil="x")
    assert len(problems) == 5


def test_a_plan_that_refuses_leaves_no_directory() -> None:
    assert refused(Scaled(), (X, SCALE), "eager", rebuild="sometimes")


@pytest.fixture
def travelled(tmp_path: Path) -> ExportedModel:
    arrays = live_model.named_arrays((X, SCALE), ("x", "scale"))
    module = Scaled().eval()
    with torch.no_grad():
        module.linear.weight.fill_(1.0)
        module.linear.bias.zero_()
    node = keep_program(live_model.export(module, [arrays]), tmp_path)
    return ExportedModel(**node, inputs=live_model.write_inputs([arrays], tmp_path))  # type: ignore[arg-type]


def test_a_module_arrives_as_it_left(travelled: ExportedModel) -> None:
    workload = Workload(symbols={"batch_size": 2})
    assert travelled.problems(workload) == []
    module, batch = travelled.load(seed=0), travelled.batch(workload, seed=1)
    answer = module(**{name: torch.tensor(array) for name, array in batch.items()})
    assert answer[0].tolist() == [[12.0] * 3] * 2
    assert not any(each.requires_grad for each in module.parameters())


def test_nothing_that_travels_is_pickled(travelled: ExportedModel) -> None:
    import zipfile

    with zipfile.ZipFile(Path(travelled.program) / PROGRAM_FILE) as archive:
        held = [archive.read(name) for name in archive.namelist()]
    assert not any(content.startswith((b"\x80\x02", b"PK")) for content in held)


def test_the_same_module_has_the_same_digest_each_time(tmp_path: Path) -> None:
    arrays, module = {"x": X.numpy(), "scale": SCALE.numpy()}, Scaled()
    nodes = [
        keep_program(live_model.export(module, [arrays]), tmp_path / str(index))
        for index in range(2)
    ]
    assert nodes[0]["digest"] == nodes[1]["digest"]
    with torch.no_grad():
        module.linear.bias += 1
    changed = keep_program(live_model.export(module, [arrays]), tmp_path / "2")
    assert changed["digest"] != nodes[0]["digest"]


def test_another_checkpoint_makes_another_model(travelled: ExportedModel, tmp_path: Path) -> None:
    assert travelled.identity() == {"digest": travelled.digest}
    digests = []
    for number in range(2):
        path = tmp_path / f"{number}.pt"
        torch.save({"linear.weight": torch.full((3, 4), float(number))}, path)
        digests.append((replace(travelled, checkpoint=str(path)).identity() or {})["checkpoint"])
    assert None not in digests
    assert digests[0] != digests[1]


def test_a_program_that_was_changed_is_not_loaded(travelled: ExportedModel) -> None:
    path = Path(travelled.program) / PROGRAM_FILE
    path.write_bytes(b"no program")
    assert (
        "is not the program that was written there" in travelled.problems(Workload(symbols={}))[0]
    )
    with pytest.raises(BuildError, match="is not the program"):
        travelled.load(seed=0)


def test_exporting_leaves_the_users_module_as_it_was() -> None:
    module = Scaled().train()
    module.linear.eval()
    live_model.export(module, [{"x": X.numpy(), "scale": SCALE.numpy()}])
    assert (module.training, module.linear.training, module.dropout.training) == (True, False, True)
    assert all(each.requires_grad for each in module.parameters())


def test_a_compiled_module_travels_as_what_was_compiled() -> None:
    program = live_model.export(torch.compile(Scaled()), [{"x": X.numpy(), "scale": SCALE.numpy()}])  # type: ignore[arg-type]
    assert "linear.weight" in program.state_dict


def test_inputs_keep_their_dtypes_and_share_the_batch_size(tmp_path: Path) -> None:
    arrays = live_model.named_arrays(
        {"ids": np.ones((3, 5), np.int64), "t": torch.tensor(2.0)}, None
    )
    node = live_model.write_inputs([arrays], tmp_path)
    assert live_model.common_rows(arrays) == 3
    assert node["ids"] == {"shape": ["batch_size", 5], "dtype": "int64"}
    assert node["t"] == {"shape": [], "dtype": "float32"}


def test_inputs_that_differ_in_their_first_size_have_no_batch_size(tmp_path: Path) -> None:
    arrays = live_model.named_arrays({"a": np.ones((3, 5)), "b": np.ones(4)}, None)
    assert live_model.common_rows(arrays) is None
    assert live_model.write_inputs([arrays], tmp_path)["b"] == {"shape": [4], "dtype": "float64"}


def test_what_a_caller_does_to_a_tensor_later_does_not_reach_the_measurement() -> None:
    mine = np.zeros(3)
    arrays = live_model.named_arrays(mine, ("x",))
    mine += 1
    assert arrays["x"].sum() == 0


def test_a_name_has_to_be_one_of_conf_model() -> None:
    assert "exported" in Composer(config_loader()).options("model")


class Tagged(torch.Tensor):
    pass


class Halved(torch.Tensor):
    """Made of a plain tensor, as quantised weights are."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Halved:
        made: Halved = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        made.inner = inner
        return made

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(parts: dict[str, torch.Tensor], *_: object) -> Halved:
        return Halved(parts["inner"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        from torch.utils._pytree import tree_map

        plain = tree_map(lambda each: each.inner if isinstance(each, Halved) else each, args)
        answer = func(*plain, **(kwargs or {}))
        return Halved(answer) if func is torch.ops.aten.detach.default else answer


class Fancy(nn.Parameter):
    pass


def with_weight(weight: torch.nn.Parameter) -> nn.Module:
    module = nn.Linear(4, 3)
    module.weight = weight
    return module


W = torch.ones(3, 4) / 2


@pytest.mark.parametrize(
    "weight", [Fancy(W), nn.Parameter(Halved(W), requires_grad=False)], ids=["parameter", "wrapper"]
)
def test_kinds_of_parameters_and_wrapped_tensors_travel(
    tmp_path: Path, weight: nn.Parameter
) -> None:
    module = with_weight(weight)
    assert live_model.module_problems(module) == []
    arrays = live_model.named_arrays(X, ("input",))
    node = keep_program(live_model.export(module, [arrays]), tmp_path)
    inputs = live_model.write_inputs([arrays], tmp_path)
    # As libraries of such tensors register theirs; another would be refused as code.
    with torch.serialization.safe_globals([Halved]):
        loaded = ExportedModel(inputs=inputs, **node).load(seed=0)  # type: ignore[arg-type]
    (answer,) = loaded(input=X)
    assert torch.equal(answer, module(X))


def test_a_kind_of_tensor_that_no_program_can_hold_is_refused() -> None:
    module = with_weight(nn.Parameter(W.as_subclass(Tagged)))
    (problem,) = refused(module, X)
    assert "weight is a Tagged, a kind of tensor that an exported program cannot hold" in problem
    assert ".as_subclass(torch.Tensor)" in problem


def test_a_live_language_model_generates_where_its_scenario_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    from benchorch.frontends.api.benchmark import PROMPTS_NOTE, _checked

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    sizes = {"vocab_size": 50, "bos_token_id": 0, "eos_token_id": 49}
    model = GPT2LMHeadModel(GPT2Config(n_embd=16, n_layer=1, n_head=2, **sizes)).eval()
    given = {"scenario": "generate", "workload.new_tokens": 4}
    request = _checked(model, torch.ones(2, 6, dtype=torch.int64), "eager", "local", given)
    assert request.program is None
    assert request.model.choice == "hub"
    assert PROMPTS_NOTE in request.model.note
    words = [f"model={request.model.choice}", *request.model.words, *request.words]
    (cell,) = request.composer.cells(words)
    assert cell.config["workload"]["prompt_tokens"] == 6  # type: ignore[index, call-overload]
    assert cell.config["model"]["architecture"] == "GPT2LMHeadModel"  # type: ignore[index, call-overload]
    assert not _checked(model, None, "eager", "local", given).model.note
    with pytest.raises(ConfigError, match="give scenario='generate'"):
        _checked(model.generate, torch.ones(2, 6, dtype=torch.int64), "eager", "local", {})
    same = _checked(model.generate, torch.ones(2, 6, dtype=torch.int64), "eager", "local", given)
    assert same.model.words == request.model.words


def test_a_module_that_is_no_language_model_does_not_generate() -> None:
    assert "needs a language model" in refused(Scaled(), (X, SCALE), scenario="generate")[0]


def test_the_command_that_mends_a_request_is_a_note_of_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchorch.run.invocation import Invocation

    def run(_self: Invocation, _jobs: object) -> None:
        raise ConfigError(["needs a package"], next="pip install it")

    monkeypatch.setattr(Invocation, "run", run)
    with pytest.raises(ConfigError) as caught:
        benchorch.benchmark("mlp", None, "eager", directory=tmp_path / "out", quiet=True)
    assert caught.value.__notes__ == ["Next: pip install it"]


def test_a_run_whose_results_cannot_be_stored_has_ended_when_its_error_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook keeps the traceback, and all that it refers to."""
    from benchorch.run.invocation import Invocation

    def run(self: Invocation, _jobs: object) -> None:
        self.plan = Plan(plan_id="p", name="n", trials=(), skips=(), session={})
        raise RecordError("the disk is full")

    monkeypatch.setattr(Invocation, "run", run)
    with pytest.raises(RecordError, match="disk is full"):
        benchorch.benchmark("mlp", None, "eager", directory=tmp_path / "out", quiet=True)
    assert not is_running(tmp_path / "out")


def test_results_stay_where_a_part_of_the_run_is_refused_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchorch.run.invocation import Invocation

    def run(self: Invocation, _jobs: object) -> None:
        eager = trial()
        self.plan = Plan(plan_id="p", name="n", trials=(eager,), skips=(), session={})
        self._has_begun = True
        self.results = {eager.trial_id: result(eager)}
        raise ConfigError(["the cluster does not answer"])

    monkeypatch.setattr(Invocation, "run", run)
    with pytest.raises(ConfigError, match="does not answer"):
        benchorch.benchmark("mlp", None, "eager", directory=tmp_path / "out", quiet=True)
    assert (tmp_path / "out" / "table.md").exists()
    assert not is_running(tmp_path / "out")


NETS = "import torch\ndef make(): return torch.nn.Linear(4, {width})\n"


def test_a_function_of_the_scripts_folder_is_named_by_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "beside_nets.py").write_text(NETS.format(width=3))
    (tmp_path / "beside_nets.py").write_text(NETS.format(width=9))  # what trials would import
    monkeypatch.syspath_prepend(tmp_path / "beside")
    reference = _importable(importlib.import_module("beside_nets").make)
    assert reference == f"{tmp_path}/beside/beside_nets.py:make"
    made = resolve_callable(reference)()
    assert isinstance(made, nn.Linear)
    assert made.out_features == 3


def test_a_function_that_trials_find_by_its_module_is_named_by_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "noise" / "sitecustomize.py").parent.mkdir()
    (tmp_path / "noise" / "sitecustomize.py").write_text("print('hello')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "noise"))
    (tmp_path / "here_nets.py").write_text(NETS.format(width=3))
    monkeypatch.syspath_prepend(tmp_path)
    assert _importable(importlib.import_module("here_nets").make) == "here_nets:make"


def test_a_function_of_a_package_is_named_only_where_trials_find_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (tmp_path / "beside" / "far_nets", tmp_path / "near_nets"):
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
        (folder / "small.py").write_text(NETS.format(width=3))
    monkeypatch.syspath_prepend(tmp_path / "beside")
    monkeypatch.syspath_prepend(tmp_path)
    near, far = (importlib.import_module(f"{name}_nets.small").make for name in ("near", "far"))
    assert _importable(near) == "near_nets.small:make"
    assert _importable(far) is None
    assert _importable(torch.nn.Identity) == "torch.nn.modules.linear:Identity"
