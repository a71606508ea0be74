"""What is found in each script under tests/scripts/good; its first line says what must be."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

from benchorch.domain.codec import encode
from benchorch.errors import BuildError
from benchorch.files import file_digest
from benchorch.frontends.scripts.discovery_process import DiscoveryRequest, _modules, discover
from benchorch.models.script import ScriptModel

SCRIPTS = Path(__file__).resolve().parents[3] / "data" / "scripts"
GOOD = sorted((SCRIPTS / "good").glob("*.py"))
Kept = Callable[[str], dict[str, Any]]
ARGUMENTS = {"arguments": ["--rows", "3"]}


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script becomes __main__ and may choose Keras's framework: only for as long as a test."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    monkeypatch.setattr(sys, "path", [*sys.path])


def found_in(name: str, folder: Path | None = None, **options: object) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "script": SCRIPTS / "good" / f"{name}.py",
        "arguments": tuple(ARGUMENTS.get(name, ())),
        "folder": folder,
        **options,
    }
    return cast(dict[str, Any], encode(discover(DiscoveryRequest(**fields))))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """What is found in a script, of which inputs are kept: once for all tests that look at it."""

    return cache(lambda name: found_in(name, tmp_path_factory.mktemp("kept")))


def calls_of(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return (call for model in found["models"] for call in model["invocations"])


def taken(name: str, call: dict[str, Any]) -> ScriptModel:
    path = SCRIPTS / "good" / f"{name}.py"
    return ScriptModel(
        script=path,
        digest=file_digest(path),
        call=call["hash"],
        arguments=tuple(ARGUMENTS.get(name, [])),
        **call["model"],
    )


def test_there_are_scripts_of_every_kind() -> None:
    assert len(GOOD) >= 30


@pytest.mark.parametrize("name", [path.stem for path in GOOD])
def test_every_model_and_every_signature_of_its_calls_is_found(name: str, kept: Kept) -> None:
    first = (SCRIPTS / "good" / f"{name}.py").read_text().partition("\n")[0]
    wanted = re.fullmatch(r"# finds: (\d+) models?, (\d+) calls?", first)
    assert wanted, first
    found = kept(name)
    assert found["problem"] is None
    assert len(found["models"]) == int(wanted[1])
    assert len(list(calls_of(found))) == int(wanted[2])


@pytest.mark.parametrize("name", ["in_list", "made_anew", "lazy", "three_shapes", "in_threads"])
def test_hashes_are_the_same_in_every_run_and_differ_within_one(name: str, kept: Kept) -> None:
    hashes = [call["hash"] for call in calls_of(kept(name))]
    assert hashes == [call["hash"] for call in calls_of(found_in(name))]
    assert len(set(hashes)) == len(hashes)


def test_a_model_keeps_its_hash_when_parts_are_shown_too(kept: Kept) -> None:
    shallow, deep = kept("in_list"), found_in("in_list", max_depth=1)
    top = {model["hash"] for model in shallow["models"]}
    assert top < {model["hash"] for model in deep["models"]}
    parts = [model for model in deep["models"] if model["depth"] == 1]
    assert [part["name"] for part in parts] == ["net.layer"] * 3


def test_sizes_are_those_of_the_parameters_own_dtype(kept: Kept) -> None:
    (model,) = kept("half")["models"]
    assert (model["parameters"], model["parameter_bytes"]) == (15, 30)
    assert model["dtypes"] == ["float16"]


def test_the_weights_of_quantised_layers_count(kept: Kept) -> None:
    (model,) = kept("quantized")["models"]
    assert model["parameters"] == 4 * 3 + 3 + 3 * 2 + 2
    assert "qint8" in model["dtypes"]


def test_calls_are_counted_by_signature(kept: Kept) -> None:
    (model,) = kept("three_shapes")["models"]
    assert model["calls"] == 5
    assert [call["calls"] for call in model["invocations"]] == [2, 2, 1]


def test_a_model_that_is_made_anew_is_one_model(kept: Kept) -> None:
    (model,) = kept("made_anew")["models"]
    assert (model["instances"], model["calls"]) == (5, 5)


def test_names_are_the_scripts_own(kept: Kept) -> None:
    names = [model["name"] for model in kept("data_parallel")["models"]]
    assert names == ["net.module"]
    assert [m["name"] for m in kept("in_pipeline")["models"]] == [
        "Pipeline.encoder",
        "Pipeline.decoder",
    ]


def test_losses_and_activations_are_left_out_and_named(kept: Kept) -> None:
    assert kept("training")["left_out"] == ["CrossEntropyLoss"]


def test_torch_is_as_it_was_when_the_script_is_done() -> None:
    import torch

    before = (dict(vars(torch.nn.Module)), torch.compile)
    found_in("compiled")
    assert (dict(vars(torch.nn.Module)), torch.compile) == before


@pytest.mark.parametrize(
    "name",
    [path.stem for path in GOOD],
)
def test_every_call_can_be_made_again_with_the_inputs_that_were_kept(name: str, kept: Kept) -> None:
    import torch

    from benchorch.domain.tensors import Workload
    from benchorch.frameworks.torch_call import live_tensors

    for call in calls_of(kept(name)):
        assert not call["obstacle"]
        model = taken(name, call)
        assert list(model.problems(Workload(symbols={}))) == []
        module = model.load(0)
        arrays = model.batch(Workload(symbols={}), 0)
        assert [spec.name for spec in model.specs()] == list(arrays)
        with torch.inference_mode():
            module(**live_tensors(module, arrays, "cpu"), **model.keywords())


def test_inputs_are_kept_as_they_were_before_the_call(kept: Kept) -> None:
    from safetensors.numpy import load_file

    (call,) = calls_of(kept("overwrites_its_input"))
    assert (load_file(call["model"]["inputs"]["file"])["x"] == 1).all()


def test_a_lightning_module_is_found_through_its_trainer_with_its_parts_below_it(
    kept: Kept,
) -> None:
    models = kept("lightning_module")["models"]
    names = ["autoencoder", "autoencoder.encoder", "autoencoder.decoder"]
    assert [model["name"] for model in models] == names
    step, forward = models[0]["invocations"]
    assert (step["calls"], step["step"]) == (2, "training_step")
    assert step["obstacle"] == forward["obstacle"] == ""


def test_a_cache_is_an_input_like_others_and_its_steps_are_one_call(kept: Kept) -> None:
    plain, prefill, step = calls_of(kept("generation"))
    assert (plain["calls"], prefill["calls"], step["calls"]) == (1, 1, 2)
    assert not any(call["obstacle"] for call in (plain, prefill, step))
    assert not any("held_by" in each for each in prefill["inputs"])
    held = [each["shape"] for each in step["inputs"] if each.get("held_by") == "past_key_values"]
    assert held == [[1, 2, 5, 8]] * 2


def test_what_nobody_else_can_pass_is_named(tmp_path: Path) -> None:
    script = tmp_path / "opaque.py"
    script.write_text(
        "import torch\n"
        "class Options: width = 3\n"
        "class Net(torch.nn.Module):\n"
        "    def forward(self, x, options): return x * options.width\n"
        "Net()(torch.ones(2), Options())\n"
    )
    reply = discover(DiscoveryRequest(script=script))
    (call,) = calls_of({"models": reply.models})
    assert "options is a Options, not a tensor" in call["obstacle"]


def test_a_call_that_a_script_does_not_make_again_is_a_failure_with_words(kept: Kept) -> None:
    (call,) = calls_of(kept("top_level"))
    model = taken("top_level", {**call, "hash": "00000000"})
    with pytest.raises(BuildError, match="did not make the call 00000000 again"):
        model.load(0)


def test_a_script_that_changed_is_told_while_planning(kept: Kept) -> None:
    from benchorch.domain.tensors import Workload

    (call,) = calls_of(kept("top_level"))
    path = SCRIPTS / "good" / "main_guard.py"
    digest = file_digest(SCRIPTS / "good" / "top_level.py")
    model = ScriptModel(script=path, digest=digest, call=call["hash"], **call["model"])
    (problem,) = model.problems(Workload(symbols={}))
    assert "has changed since its models were found" in problem


def test_a_script_that_makes_other_weights_each_time_is_told(tmp_path: Path) -> None:
    path = SCRIPTS / "bad" / "other_weights.py"
    (call,) = calls_of(found_in("", tmp_path, script=path))
    digest = file_digest(path)
    model = ScriptModel(script=path, digest=digest, call=call["hash"], **call["model"])
    with pytest.raises(BuildError, match="other weights each time"):
        model.load(0)


def test_a_proxy_of_something_gone_hides_no_module_that_was_made(tmp_path: Path) -> None:
    script = tmp_path / "made.py"
    script.write_text(
        "import weakref, torch\n"
        "class Gone: pass\n"
        "proxy = weakref.proxy(Gone())\n"
        "model = torch.nn.Bilinear(2, 2, 2)\n"
    )
    assert "Bilinear" in discover(DiscoveryRequest(script=script)).never_called


def test_an_import_error_without_a_module_is_told_in_its_own_words(tmp_path: Path) -> None:
    script = tmp_path / "guarded.py"
    script.write_text("raise ModuleNotFoundError('install the codecs first')\n")
    found = encode(discover(DiscoveryRequest(script=script, arguments=(), folder=None)))
    problem = cast(dict[str, Any], found)["problem"]
    assert "install the codecs first" in problem["message"]
    assert "None" not in problem["message"] + problem["remedy"]


def test_a_name_starts_at_the_scripts_variable_whatever_a_method_calls_its_object() -> None:
    script = SCRIPTS / "good" / "own_name_for_self.py"
    (model,) = discover(DiscoveryRequest(script=script)).models
    assert model["name"] == "pipeline.model"


def test_packages_are_none_of_the_users_modules_wherever_they_are_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    places = {
        "of_user_site": "/data/u/.local/lib/python3.11/site-packages/of_user_site/__init__.py",
        "of_debian": "/usr/local/lib/python3.12/dist-packages/of_debian/__init__.py",
        "of_project": "/data/u/project/of_project.py",
    }
    for name, file in places.items():
        module = ModuleType(name)
        module.__file__ = file
        monkeypatch.setitem(sys.modules, name, module)
    found = _modules()
    assert {*found} & {*places} == {"of_project"}
    assert not [name for name in found if name.startswith(("benchorch", "torch.", "pathlib"))]
