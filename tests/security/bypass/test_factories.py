# ruff: noqa: E501
"""No recipe of a stranger's makes a marker, whatever its factory, metric, data or options name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from security.bypass import factories
from security.bypass.planted import plant
from security.bypass.unseen import factories as unseen
from support.command_lines import Commands
from support.slices import one_in

FACTORIES = {**factories.FACTORIES, **unseen.FACTORIES}


def filled(value: Any, folder: Path, marker: Path) -> Any:
    """The value with the marker (@M), the folder (@D) and the folder's name (@B) put in."""
    if isinstance(value, str):
        text = value.replace("@M", str(marker)).replace("@D", str(folder))
        return text.replace("@B", folder.name)
    if isinstance(value, dict):
        return {name: filled(each, folder, marker) for name, each in value.items()}
    return [filled(each, folder, marker) for each in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stranger")
    plant(folder, folder.parent / f"{folder.name}-marker")
    return folder


@pytest.fixture
def marker(folder: Path) -> Iterator[Path]:
    marker = folder.parent / f"{folder.name}-marker"
    yield marker
    if marker.is_dir():
        marker.rmdir()
    marker.unlink(missing_ok=True)


@pytest.mark.parametrize("reference", one_in(8, list(FACTORIES)))
def test_a_factory_that_the_command_line_does_not_name_is_not_called(
    reference: str, commands: Commands, folder: Path, marker: Path
) -> None:
    node = {
        "_target_": "benchorch.models.factory.FactoryModel",
        "factory": reference,
        "arguments": FACTORIES[reference],
        "inputs": {"x": {"shape": ["batch_size", 4], "generator": "normal"}},
    }
    (folder / "evil.yaml").touch()
    done = commands.run(folder, ["evil.yaml"], model=filled(node, folder, marker))
    assert not marker.exists(), done.output[-2000:]
    assert done.output.startswith("refused:"), done.output[-2000:]


PLACES = {
    "metric": "parity: {metric: 'planted:make', least_score: 0}",
    "parity's data": "parity: {data: 'planted:make'}",
    "parity's pickle": "parity: {data: planted.npy}",
    "an input's factory": "model: {inputs: {factory: 'planted:make', tensors: {input: {shape: [1, 256]}}}}",
    "an input's pickle": "model: {inputs: {file: planted.npy}}",
    "a checkpoint": "model: {checkpoint: planted.pt}",
    "lightning's checkpoint": "model: {checkpoint: lightning.ckpt}",
    "a matrix": "matrix: {model.checkpoint: [planted.pt, lightning.ckpt]}",
    "each": "each: [parity.metric=planted:make]",
    "lightning's module": "model: {_target_: benchorch.models.lightning.LightningModel, module: 'planted.py:make'}",
    "lightning's data": "model: {_target_: benchorch.models.lightning.LightningModel, "
    "module: 'lightning.pytorch.demos.boring_classes:BoringModel', inputs: {datamodule: 'planted:make', "
    "loader: predict, tensors: {x: {shape: [batch_size, 32], dtype: float32}}}}",
    "a script": "model: {_target_: benchorch.models.script.ScriptModel, script: planted.py, digest: ab, call: cd}",
    "a hub's pickle": "model: {_target_: benchorch.models.transformers.TransformersModel, architecture: BertModel, "
    "config: {}, pretrained: true, hub_id: hub, inputs: {input_ids: {shape: [batch_size, 4], dtype: int64, "
    "generator: integers, high: 8}}}",
    "a hub's code": "model: {_target_: benchorch.models.transformers.TransformersModel, architecture: AutoModel, "
    "config: {trust_remote_code: true}, pretrained: true, hub_id: remote, inputs: {input_ids: "
    "{shape: [batch_size, 4], dtype: int64, generator: integers, high: 8}}}",
    "an architecture": "model: {_target_: benchorch.models.transformers.TransformersModel, architecture: "
    "'utils.import_utils.os.system', config: {command: 'touch x'}, inputs: {}}",
    "a search path": "hydra: {searchpath: ['pkg://package']}",
    "a step": "conversion: {steps: {evil: {_target_: planted.make}}}",
    "a runtime": "conversion: {runtime: {_target_: package.inner.make}}",
    "a compiler": "conversion: {steps: {inductor: {_target_: benchorch.conversions.inductor_cache.InductorCompile, "
    "mode: default, options: {cpp.cxx: ['touch']}}}}",
    "a store's place": "store: {_target_: planted.make}",
    "a variable": "hydra: {job: {env_set: {PYTHONSTARTUP: planted.py}}}",
    "settings": "trust: ['planted.py']",
}


@pytest.mark.parametrize("place", one_in(4, list(PLACES)))
def test_planning_with_any_other_key_runs_nothing(
    place: str, commands: Commands, folder: Path, marker: Path
) -> None:
    defaults = "defaults: [config, {override model: mlp}, _self_]"
    (folder / "evil.yaml").write_text(f"{defaults}\n{PLACES[place]}\n")
    done = commands.run(folder, ["plan", "evil.yaml", "conversion=eager", "recorder=none"])
    assert not marker.exists(), done.output[-2000:]
    assert "Traceback (most recent call last)" not in done.output, done.output[-3000:]
