"""A LightningModule as a model, its datamodule's rows as inputs, its own exports."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchorch.config.trial_setup import TrialSetup
from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.domain.tensors import Workload
from benchorch.errors import BuildError
from benchorch.models.inputs import input_set
from benchorch.models.lightning import LightningModel
from support import conversions as lab
from support.slices import only

WORKLOAD = Workload(symbols={"batch_size": 3})
X: dict[str, Json] = {"x": {"shape": ["batch_size", 4], "generator": "normal"}}
CODE = """
import torch
import lightning as L
from torch.utils.data import DataLoader, TensorDataset


class Lit(L.LightningModule):
    def __init__(self, width=4, hidden=5):
        super().__init__()
        self.save_hyperparameters()
        self.first = torch.nn.Linear(width, hidden)

    def configure_model(self):
        self.last = torch.nn.Linear(self.hparams.hidden, 2)

    def forward(self, x):
        return self.last(self.first(x).relu())


class WithSettings(Lit):
    def __init__(self, settings):
        super().__init__(hidden=settings["hidden"])


class Open(Lit):
    def __init__(self, **more):
        super().__init__(**more)


class Silent(L.LightningModule):
    pass


class Several(Lit):
    def to_torchscript(self, **options):
        return {"one": None, "two": None}


class Broken(Lit):
    def to_onnx(self, *args, **options):
        raise RuntimeError("no, not this one")


def plain():
    return torch.nn.Linear(4, 2)


class Rows(L.LightningDataModule):
    def __init__(self, rows=10):
        super().__init__()
        self.rows = rows

    def prepare_data(self):
        self.prepared = True

    def setup(self, stage):
        assert self.prepared and stage == "predict"
        numbers = torch.arange(self.rows, dtype=torch.float32)
        self.held = TensorDataset(numbers[:, None].repeat(1, 4), torch.zeros(self.rows))

    def predict_dataloader(self):
        return DataLoader(self.held, batch_size=4)


class Named(Rows):
    def predict_dataloader(self):
        return [{"x": torch.ones(4, 4)}].__iter__()


class Two(Rows):
    def predict_dataloader(self):
        return [1, 2]


class Empty(Rows):
    def predict_dataloader(self):
        return iter(())


class Bare(Rows):
    def predict_dataloader(self):
        yield torch.ones(4, 4)
"""


@pytest.fixture(scope="module", autouse=True)
def lit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("lightning") / "lit.py"
    path.write_text(CODE)
    kept = [*sys.path]
    yield path
    sys.path[:] = kept


def model(path: Path, name: str = "Lit", **more: Any) -> LightningModel:
    return LightningModel(module=f"{path}:{name}", **{"inputs": X, **more})


def trained(path: Path, hidden: int, name: str = "hyper_parameters") -> tuple[str, Any]:
    """A checkpoint as a Trainer writes it, and its module."""
    import lightning
    import torch

    module = model(path, arguments={"hidden": hidden}).load(7)
    trainer = lightning.Trainer(
        logger=False, accelerator="cpu", enable_checkpointing=False, enable_model_summary=False
    )
    trainer.strategy.connect(module)
    file = path.parent / f"{name}{hidden}.ckpt"
    trainer.save_checkpoint(file)
    assert torch.load(file, weights_only=True)["hyper_parameters"]["hidden"] == hidden
    return str(file), module


def test_a_checkpoint_gives_arguments_and_weights(lit: Path) -> None:
    import torch

    checkpoint, module = trained(lit, hidden=9)
    found = model(lit, checkpoint=checkpoint)
    assert list(found.problems(WORKLOAD)) == []
    loaded = found.load(0)
    assert loaded.state_dict()["first.weight"].shape == (9, 4)
    assert torch.equal(loaded.state_dict()["last.weight"], module.state_dict()["last.weight"])
    assert not loaded.training
    assert Format.LIGHTNING_MODULE in found.gives


def test_arguments_win_over_the_checkpoints(lit: Path) -> None:
    checkpoint, _ = trained(lit, hidden=9)
    with pytest.raises(BuildError, match=r"sizes differ: first\.weight is 9x4"):
        model(lit, checkpoint=checkpoint, arguments={"hidden": 3}).load(0)


def test_arguments_that_were_kept_as_one_are_given_as_one(lit: Path) -> None:
    import torch

    module = model(lit, arguments={"hidden": 6}).load(0)
    file = lit.parent / "one.ckpt"
    content = {"state_dict": module.state_dict(), "hyper_parameters": {"hidden": 6}}
    torch.save({**content, "hparams_name": "settings"}, file)
    loaded = model(lit, "WithSettings", checkpoint=str(file)).load(0)
    assert loaded.state_dict()["first.weight"].shape == (6, 4)
    content["hyper_parameters"] = {"hidden": 3}
    torch.save({**content, "hparams_name": "settings"}, file)
    loaded = model(lit, "WithSettings", checkpoint=str(file), arguments={"hidden": 6}).load(0)
    assert loaded.state_dict()["first.weight"].shape == (6, 4)


def test_what_the_command_line_keeps_beside_the_arguments_is_none_of_them(lit: Path) -> None:
    import torch

    module = model(lit, arguments={"hidden": 6}).load(0)
    file = lit.parent / "cli.ckpt"
    kept = {"hidden": 6, "_instantiator": "lightning.pytorch.cli.instantiate_module"}
    torch.save({"state_dict": module.state_dict(), "hyper_parameters": kept}, file)
    loaded = model(lit, "Open", checkpoint=str(file)).load(0)
    assert loaded.state_dict()["first.weight"].shape == (6, 4)


def test_a_checkpoint_with_code_in_it_is_not_executed(lit: Path) -> None:
    import torch

    file = lit.parent / "code.ckpt"
    torch.save({"state_dict": {}, "hyper_parameters": {"path": Path("x")}}, file)
    with pytest.raises(BuildError, match="holds more than tensors"):
        model(lit, checkpoint=str(file)).load(0)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("plain", "made a Linear, not a LightningModule"),
        ("Silent", "defines no forward"),
    ],
)
def test_what_is_no_lightning_module_is_said(lit: Path, name: str, words: str) -> None:
    with pytest.raises(BuildError, match=words):
        model(lit, name).load(0)


def test_mistakes_are_found_without_importing(lit: Path) -> None:
    problems = model(lit, "Lot", checkpoint="nowhere.ckpt").problems(WORKLOAD)
    assert "no 'Lot'. Did you mean 'Lit'?" in problems[0]
    assert "'nowhere.ckpt' does not exist" in problems[1]


def rows_of(path: Path, name: str = "Rows", **more: Json) -> Any:
    tensors: Json = {"x": {"shape": ["batch_size", 4], "dtype": "float32"}}
    return input_set({"datamodule": f"{path}:{name}", "tensors": tensors, **more})


def test_rows_of_its_loader_are_taken_whatever_its_batch_size(lit: Path) -> None:
    inputs = rows_of(lit)
    assert inputs.problems(WORKLOAD) == []
    firsts = [inputs.batch(WORKLOAD, seed)["x"][:, 0].tolist() for seed in (0, 1, 2, 3, 100_000)]
    assert firsts == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 1, 2], [0, 1, 2]]
    assert len(inputs.batch(Workload(symbols={"batch_size": 10}), 0)["x"]) == 10


@pytest.mark.parametrize("name", ["Named", "Bare"])
def test_batches_may_be_named_or_bare(lit: Path, name: str) -> None:
    batch = rows_of(lit, name).batch(WORKLOAD, 0)["x"]
    assert np.array_equal(batch, np.ones((3, 4), dtype="float32"))


@pytest.mark.parametrize(
    ("name", "symbols", "words"),
    [
        ("Rows", {"batch_size": 11}, "yielded 10 rows of x in all, where 11 are wanted"),
        ("Two", {"batch_size": 1}, "gives 2 loaders; one is read"),
        ("Empty", {"batch_size": 1}, "yielded no batch at all"),
        ("plain", {"batch_size": 1}, "gives a Linear, which is no LightningDataModule"),
    ],
)
def test_loaders_that_cannot_be_read_are_the_users_bug(
    lit: Path, name: str, symbols: dict[str, int], words: str
) -> None:
    with pytest.raises(BuildError, match=words):
        rows_of(lit, name).batch(Workload(symbols=symbols), 0)


def test_a_loader_with_a_typo_is_told(lit: Path) -> None:
    (problem,) = rows_of(lit, loader="predcit").problems(WORKLOAD)
    assert "unknown loader 'predcit'. Did you mean 'predict'?" in problem


OWN = ["lightning_onnx", "lightning_torchscript", "lightning_torchscript_trace"]


def chain_with(name: str, module: LightningModel) -> TrialSetup:
    return replace(lab.chain_of(name, batch_size=3), model=module)


@pytest.mark.parametrize("name", only(OWN[:2], OWN))
def test_its_own_exports_compute_the_same(name: str, lit: Path, tmp_path: Path) -> None:
    chain = chain_with(name, model(lit))
    assert chain.unavailable is None
    made = lab.built(chain, tmp_path)
    executable = lab.loaded(chain, made)
    outputs = lab.outputs_of(chain, executable, 0)
    lab.assert_same(outputs, lab.reference_of(made, 0), chain.tolerance_ratio)
    executable.close()


@pytest.mark.parametrize("name", OWN)
def test_another_module_is_a_skip_that_says_why(name: str) -> None:
    reason = lab.chain_of(name).unavailable
    assert reason == (
        "the conversion expects lightning_module as input; this model provides module and callable."
    )


def test_an_override_that_refuses_or_makes_several_is_told(lit: Path, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"Broken\.to_onnx refused the model: no, not this one"):
        lab.built(chain_with("lightning_onnx", model(lit, "Broken")), tmp_path)
    with pytest.raises(BuildError, match="made 2 modules: one, two"):
        lab.built(chain_with("lightning_torchscript", model(lit, "Several")), tmp_path)
