from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchorch.config.composer import Composer, config_loader
from benchorch.config.trial_setup import TrialSetup, open_trial
from benchorch.domain.codec import decode, encode
from benchorch.domain.result import ModelCounts
from benchorch.domain.session import Session
from benchorch.domain.tensors import Arrays
from benchorch.interfaces.runtime import Executable
from benchorch.stores.local import LocalStore
from benchorch.trial import reference
from benchorch.trial.build import BuildJob, Built


@pytest.fixture(scope="module")
def chain() -> TrialSetup:
    words = ["model=mlp", "conversion=eager", "model.widths=[4,8,2]", "parity.inputs=1"]
    words.append("model.inputs.input.shape=[batch_size,4]")
    return open_trial(Composer(config_loader()).cells(words)[0].config)


def built(chain: TrialSetup, root: Path, data: str | None = None) -> Built:
    job = BuildJob(
        setup=chain,
        name="mlp",
        store=LocalStore(root=str(root / "store")),
        session=Session(plan_id="p", directory=root, store={}, rebuild="if_needed"),
        inputs=1,
        threads=1,
        data=data,
    )
    return job.build(lambda _: None)


def test_counts_are_kept_with_the_reference_and_counted_once(
    chain: TrialSetup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = built(chain, tmp_path)
    rows = chain.workload.symbols["batch_size"]
    products = rows * (4 * 8 + 8 * 2)
    others = rows * (8 + 8 + 2)  # two biases and an activation
    assert first.counts == ModelCounts(
        parameters=4 * 8 + 8 + 8 * 2 + 2,
        parameter_bytes=4 * (4 * 8 + 8 + 8 * 2 + 2),
        macs=products + others,
        flops=2 * products + others,
    )

    def count_again(*_: Any) -> ModelCounts:
        raise AssertionError("a hit counts nothing")

    monkeypatch.setattr(reference, "count_model", count_again)
    assert built(chain, tmp_path).counts == first.counts


def test_data_that_eager_refuses_is_no_timed_input_of_the_same_number(
    chain: TrialSetup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(executable: Executable, given: Sequence[Arrays]) -> tuple[Any, dict[str, str]]:
        answers, _ = tolerant(executable, given[:1])
        return answers, {"1": "ValueError: no"}

    tolerant = reference._tolerant
    monkeypatch.setattr(reference, "_tolerant", refusing)
    rows = np.zeros((chain.workload.symbols["batch_size"], 4), dtype=np.float32)
    np.savez(tmp_path / "data.npz", input=rows)
    assert built(chain, tmp_path, str(tmp_path / "data.npz")).refused == ()


def test_counts_survive_the_way_to_the_parent(chain: TrialSetup, tmp_path: Path) -> None:
    told = encode(built(chain, tmp_path))
    assert isinstance(told, dict)
    assert decode(ModelCounts, told["counts"]).parameters == 58
