"""``protocol.tf32``: who is told, what it allows, and whose identity it is part of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchorch.config.composer import Composer, config_loader
from benchorch.config.trial_setup import TrialSetup, open_trial
from benchorch.frameworks.tf32 import set_tf32
from benchorch.hardware.cuda import CudaHardware
from benchorch.interfaces.conversion import TF32_RATIO
from benchorch.run import expand
from benchorch.trial import build as build_stage
from benchorch.trial import measuring_process, tf32
from benchorch.trial.live_module import module_of
from benchorch.trial.tf32 import apply_tf32, tf32_facts
from support import conversions as lab
from support.models import Mlp

GPU = CudaHardware(kind="g5.xlarge", conversions=("eager",))


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import torch

    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    yield
    set_tf32(allowed=False)
    torch.backends.cudnn.allow_tf32 = True


def setup_of(hardware: str, *, tf32: bool, conversion: str = "eager") -> TrialSetup:
    words = [f"hardware={hardware}", f"protocol.tf32={str(tf32).lower()}"]
    cells = Composer(config_loader()).cells(["model=mlp", f"conversion={conversion}", *words])
    return open_trial(cells[0].config)


def test_a_gpu_may_err_by_what_the_setting_costs_and_a_processor_may_not() -> None:
    assert setup_of("local_gpu", tf32=True).tolerance_ratio == TF32_RATIO
    assert setup_of("local_gpu", tf32=False).tolerance_ratio < TF32_RATIO
    assert setup_of("local", tf32=True).tolerance_ratio < TF32_RATIO


def key(setup: TrialSetup) -> dict[str, Any]:
    return dict(setup.key({}, len(setup.steps), {}).fields)


def test_what_a_compiler_chose_by_it_is_built_again_and_nothing_else() -> None:
    on, off = (setup_of("local_gpu", tf32=tf32, conversion="tensorrt") for tf32 in (True, False))
    assert key(on) != key(off)
    assert key(on.first(1)) == key(off.first(1)), "the ONNX graph is the same"
    here = [setup_of("local", tf32=tf32, conversion="aot_inductor") for tf32 in (True, False)]
    assert key(here[0]) == key(here[1])


@pytest.mark.parametrize(("hardware", "n_trials"), [("local", 1), ("local_gpu", 2)])
def test_it_tells_trials_on_gpus_apart_and_no_others(hardware: str, n_trials: int) -> None:
    cells = [
        cell
        for tf32 in ("false", "true")
        for cell in Composer(config_loader()).cells(
            ["model=mlp", "conversion=eager", f"hardware={hardware}", f"protocol.tf32={tf32}"]
        )
    ]
    ids = {_trial_id(json.loads(json.dumps(cell.config))) for cell in cells}
    assert len(ids) == n_trials


def _trial_id(spec: Any) -> str:
    drafts = expand._Drafts(executor=None, keep_unreachable=False)  # type: ignore[arg-type]
    return drafts._identity({k: spec[k] for k in expand.SPEC_KEYS}, open_trial(spec))


def test_it_is_set_again_after_the_models_own_code_has_run(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    class Loose(Mlp):
        def __init__(self) -> None:
            super().__init__()
            torch.backends.cudnn.allow_tf32 = True
            torch.backends.cuda.matmul.allow_tf32 = True

    monkeypatch.setattr("support.models.Mlp", Loose)
    on_gpu = replace(lab.chain_of("eager"), hardware=GPU)
    module_of(on_gpu, {})()
    assert tf32_facts(on_gpu) == {"tf32": False}


def test_a_processor_is_left_alone_and_reports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tf32, "set_tf32", lambda **_: pytest.fail("not on a processor"))
    apply_tf32(lab.chain_of("eager"))
    assert tf32_facts(lab.chain_of("eager")) == {}


def test_every_process_that_uses_a_gpu_sets_it_before_anything_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Libraries of CUDA read the environment when they are loaded, and torch loads them."""

    class Set(Exception):
        pass

    def stop(setup: TrialSetup) -> None:
        raise Set

    monkeypatch.setattr(build_stage, "apply_tf32", stop)
    monkeypatch.setattr(measuring_process, "apply_tf32", stop)
    monkeypatch.setattr(measuring_process, "pin", lambda *_: ())
    with pytest.raises(Set):
        lab.built(lab.chain_of("eager"), tmp_path)
    with pytest.raises(Set):
        measuring_process.load(
            _Trial(),  # type: ignore[arg-type]
            replace(lab.chain_of("eager"), hardware=GPU),
            lambda _: None,
        )


class _Trial:
    threads, pin = 1, True
