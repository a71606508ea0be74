"""Joined conversions: the last runtime wins whole, and what excludes each other is named."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchorch.cli import main
from benchorch.config.composer import Composer, config_loader
from benchorch.config.trial_setup import open_trial
from benchorch.errors import ConfigError
from support import conversions as lab


def steps_of(name: str) -> Mapping[str, Any]:
    steps: Mapping[str, Any] = lab.conversion(name)["steps"]
    return steps


@pytest.mark.parametrize(
    ("name", "steps", "runtime"),
    [
        ("onnxruntime_int8_static+openvino", ["onnx", "int8", "openvino"], "OpenVino"),
        ("onnxruntime_int8_static+tensorrt", ["onnx", "int8", "tensorrt"], "TensorRt"),
        ("onnxruntime+tensorrt", ["onnx", "tensorrt"], "TensorRt"),
        ("onnxruntime+openvino_int8", ["onnx", "openvino", "int8"], "OpenVino"),
        ("onnxruntime_int8_static+onnxruntime_tensorrt", ["onnx", "int8"], "OnnxRuntime"),
        ("export+onnxruntime", ["export", "onnx"], "OnnxRuntime"),
        ("pt2e_int8+aot_inductor_freezing", ["export", "pt2e", "aot_inductor"], "Aoti"),
        ("bf16+bf16", ["cast"], "Eager"),
    ],
)
def test_the_last_runtime_wins_whole(name: str, steps: list[str], runtime: str) -> None:
    chain = open_trial(lab.spec_of(name))
    assert [each for each, _ in chain.steps] == steps
    assert type(chain.runtime).__name__ == runtime


def test_no_option_of_an_earlier_runtime_is_left() -> None:
    assert lab.conversion("onnxruntime_tensorrt+onnxruntime")["runtime"]["provider"] == "device"
    assert "provider" not in lab.conversion("onnxruntime+openvino")["runtime"]


def test_a_step_that_only_leads_on_keeps_the_options_it_was_given_first() -> None:
    assert steps_of("export_strict+openvino")["export"]["strict"] is True
    assert steps_of("openvino")["export"]["strict"] is False


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("bf16+fp16", "two cast steps in one chain: bf16 then fp16; keep one"),
        ("FP16+BF16", "two cast steps in one chain: fp16 then bf16; keep one"),
        (
            "inductor+inductor_freezing",
            "two inductor steps in one chain: inductor then inductor_freezing; keep one",
        ),
        (
            "onnxruntime_int8_static+openvino_int8",
            "two int8 steps in one chain: onnxruntime_int8_static then openvino_int8; keep one",
        ),
        (
            "onnxruntime+bf16",
            "expects a torch module; the chain so far (onnx) gives an ONNX model",
        ),
        (
            "export+bf16",
            "expects a torch module; the chain so far (export) gives an exported program",
        ),
        (
            "onnxruntime+inductor",
            "expects a torch module or an exported program; the chain so far (onnx) gives",
        ),
        ("inductor+onnxruntime", "the chain so far (inductor) gives a cache of Inductor"),
    ],
)
def test_an_impossible_link_is_named(name: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_trial(lab.spec_of(name))
    assert sentence in str(caught.value)
    assert len(caught.value.problems) == 1


def test_options_of_a_joined_chain_can_be_set(tmp_path: Path) -> None:
    words = ["model=mlp", "conversion=onnxruntime_int8_static+openvino"]
    composer = Composer(config_loader())
    (cell,) = composer.cells([*words, "conversion.steps.int8.samples=3"])
    assert cell.config["conversion"]["steps"]["int8"]["samples"] == 3  # type: ignore[index, call-overload]


@pytest.mark.parametrize("ending", [".yaml", ".yml"])
def test_a_users_file_is_a_part_and_may_extend_a_joined_name(ending: str, tmp_path: Path) -> None:
    folder = tmp_path / "conversion"
    folder.mkdir()
    (folder / f"mine{ending}").write_text("defaults: [bf16+export, _self_]\ntolerance_ratio: 0.2\n")
    composer = Composer(config_loader([tmp_path]))
    (cell,) = composer.cells(["model=mlp", "conversion=mine+onnxruntime"])
    chain = open_trial(cell.config)
    assert [name for name, _ in chain.steps] == ["cast", "export", "onnx"]
    assert chain.tolerance_ratio == 0.2


def test_names_of_a_command_before_in_this_process_do_not_stay(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        main.run(["run", "+model=mlp"])  # its plugin of Hydra's stays
    sources = config_loader([tmp_path]).repository.sources  # type: ignore[attr-defined]
    names = [source.path for source in sources if source.scheme() == "names"]
    assert [str(tmp_path) in path for path in names] == [True]
