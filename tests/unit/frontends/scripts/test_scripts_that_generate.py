"""A script's language model is saved at its first call, to generate tokens in a run of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast

import pytest

from benchorch.cli.commands.script import _composed, _generates, _is_typed, _prompts
from benchorch.cli.commands.script_report import overview
from benchorch.config.composer import Composer, config_loader
from benchorch.config.decoder import Decoder
from benchorch.config.trial_setup import open_trial
from benchorch.domain.codec import encode
from benchorch.frontends.scripts.discover import Script
from benchorch.frontends.scripts.discovery_process import DiscoveryRequest, discover
from benchorch.frontends.scripts.model_configs import write_configs
from benchorch.run.expand import SPEC_KEYS

SCRIPT = """
import torch
from transformers import GPT2Config, GPT2LMHeadModel, T5Config, T5ForConditionalGeneration

torch.manual_seed(3)
sizes = dict(vocab_size=50, bos_token_id=0, eos_token_id=49)
gpt = GPT2LMHeadModel(GPT2Config(n_embd=16, n_layer=1, n_head=2, **sizes)).to(torch.bfloat16)
ids = torch.ones(2, 5, dtype=torch.int64)
gpt.generate(ids, max_new_tokens=3, do_sample=False, pad_token_id=49)
sizes = dict(d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2, decoder_start_token_id=7)
t5 = T5ForConditionalGeneration(T5Config(vocab_size=60, **sizes)).eval()
t5.generate(torch.ones(1, 4, dtype=torch.int64), max_new_tokens=2, do_sample=False)
plain = torch.nn.Linear(2, 2)
plain(torch.ones(1, 2))
"""


class Own:
    """Found models of one script."""

    def __init__(self, place: Path) -> None:
        (place / "mine.py").write_text(SCRIPT)
        self.script = Script(path=place / "mine.py", generation=True)
        request = DiscoveryRequest(
            script=self.script.path, folder=place / "kept", capture=True, generation=True
        )
        reply = cast("dict[str, Any]", encode(discover(request)))
        self.found = {**reply, "script": str(self.script.path), "labels": {}, "log": ""}

    def calls(self, name: str) -> list[dict[str, Any]]:
        model = next(each for each in self.found["models"] if each["name"] == name)
        return cast("list[dict[str, Any]]", model["invocations"])


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Own:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "__main__", sys.modules["__main__"])
        patch.setattr(sys, "path", [*sys.path])
        return Own(tmp_path_factory.mktemp("generating"))


def test_a_language_model_is_saved_once_with_its_weights(own: Own) -> None:
    from safetensors.torch import load_file

    prompt, step = own.calls("gpt")
    folder = Path(prompt["model"]["hub_id"])
    assert {each.name for each in folder.iterdir()} >= {"config.json", "model.safetensors"}
    assert {str(a.dtype) for a in load_file(folder / "model.safetensors").values()} == {
        "torch.bfloat16"
    }
    assert "model" not in step
    assert not prompt["obstacle"]
    assert not step["obstacle"]  # its cache is none: a generation has its own


def test_what_generates_nothing_is_named_and_left_out(own: Own) -> None:
    assert [call["obstacle"] for call in own.calls("plain")] == ["it generates no tokens"]
    report = overview([own.found])
    assert report.count("scenario=generate measures its tokens per second") == 2


def test_a_saved_model_is_one_that_generates(
    own: Own, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    names = write_configs(own.script, own.found)
    assert len(names) == 2
    folder = next(iter(names.values())).parents[1]
    for name in names:
        words = [f"model={name}", "scenario=generate", "conversion=eager"]
        (cell,) = Composer(config_loader([folder])).cells(words)
        setup = open_trial({key: cell.config[key] for key in SPEC_KEYS})
        assert isinstance(setup.model, Decoder)
        model = setup.model.source
        assert model.labels["model"] in ("mine.py:gpt", "mine.py:t5")
        assert not model.problems(setup.workload)
        if "t5" in model.labels["model"]:
            batch = model.batch(setup.workload, seed=0)
            assert batch["decoder_input_ids"].tolist() == [[7]]
            assert batch["input_ids"].max() < 60


def test_the_prompts_have_the_scripts_own_size_unless_the_run_says_otherwise(own: Own) -> None:
    words = _prompts([own.found], ["scenario=generate"])
    assert words == ["workload.batch_size=2", "workload.prompt_tokens=5"]
    asked = ["workload.prompt_tokens=9"]
    assert [one for one in words if not _is_typed(one, asked)] == ["workload.batch_size=2"]


@pytest.mark.parametrize(
    ("words", "generates"),
    [
        (["scenario=generate"], True),
        (["scenario=[single_stream,generate]"], True),
        (["scenario=server", "scenario.generate=true"], True),
        (["conversion=eager"], False),
        (["scenario=server"], False),
    ],
)
def test_the_runs_scenario_decides_whether_tokens_are_generated(
    words: list[str], generates: bool
) -> None:
    assert _generates(_composed(words)) is generates


def test_looking_at_a_script_composes_no_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchorch.cli.commands import script

    def composed(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(script, "config_loader", composed)
    assert not _generates(_composed([]))
