"""Checkpoints: told apart by their bytes, checked before anything runs, loaded strictly."""

from __future__ import annotations

import copy
import os
import pickle
from pathlib import Path
from zipfile import ZipFile

import pytest
import torch
from safetensors.torch import save_file

from benchorch.errors import BuildError
from benchorch.models.weights import checkpoint_digest, checkpoint_problems, load_checkpoint


def net(width: int = 3, seed: int = 0) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.Linear(width, 2))


@pytest.fixture(params=["w.pt", "w.safetensors"])
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path: Path = tmp_path / request.param
    save(net(seed=1).state_dict(), path)
    return path


def save(state: dict[str, torch.Tensor], path: Path) -> None:
    save_file(state, path) if path.suffix == ".safetensors" else torch.save(state, path)


def test_every_weight_is_the_checkpoints(checkpoint: Path) -> None:
    assert checkpoint_problems(str(checkpoint)) == []
    module = net()
    load_checkpoint(module, str(checkpoint))
    expected = net(seed=1).state_dict()
    assert all(torch.equal(expected[name], value) for name, value in module.state_dict().items())


def test_a_checkpoint_in_half_precision_leaves_complex_buffers_complex(tmp_path: Path) -> None:
    module = net()
    module.register_buffer("turn", torch.tensor(1 + 2j))
    save(net(seed=1).bfloat16().state_dict() | {"turn": torch.tensor(3 + 4j)}, tmp_path / "w.pt")
    load_checkpoint(module, str(tmp_path / "w.pt"))
    assert module[0].weight.dtype == torch.bfloat16
    assert module.turn == 3 + 4j


def test_frequencies_keep_their_precision_beside_weights_in_half(tmp_path: Path) -> None:
    module = net()
    for part, persistent in ((module, False), (module[0], False), (module[1], True)):
        part.register_buffer("inv_freq", torch.tensor([0.7]), persistent=persistent)
    module.register_buffer("table", torch.tensor([0.7]), persistent=False)
    save(copy.deepcopy(module).bfloat16().state_dict(), tmp_path / "w.pt")
    load_checkpoint(module, str(tmp_path / "w.pt"))
    found = {name: (buffer.dtype, buffer.item()) for name, buffer in module.named_buffers()}
    own, rounded = (torch.float32, torch.tensor(0.7).item()), (torch.bfloat16, 0.69921875)
    assert found == {"inv_freq": own, "0.inv_freq": own, "1.inv_freq": rounded, "table": rounded}
    assert module[0].weight.dtype is torch.bfloat16


def test_a_compiled_modules_state_dict_fits_the_module(checkpoint: Path) -> None:
    save(torch.compile(net(seed=1)).state_dict(), checkpoint)
    module = net()
    load_checkpoint(module, str(checkpoint))
    assert torch.equal(module[0].weight, net(seed=1)[0].weight)


def test_no_checkpoint_changes_nothing() -> None:
    module = net()
    load_checkpoint(module, None)
    assert torch.equal(module[0].weight, net()[0].weight)
    assert checkpoint_problems(None) == []
    assert checkpoint_digest(None) is None


def test_names_and_sizes_that_do_not_fit_are_all_told(checkpoint: Path) -> None:
    state = net(width=5).state_dict()
    state["extra"] = state.pop("1.bias")
    save(state, checkpoint)
    with pytest.raises(BuildError) as caught:
        load_checkpoint(net(), str(checkpoint))
    assert caught.value.kind == "checkpoint"
    assert "it lacks 1.bias" in str(caught.value)
    assert "it holds unknown extra" in str(caught.value)
    assert "0.weight is 5x4 where the model has 3x4" in str(caught.value)


@pytest.mark.parametrize("prefix", ["module.", "model.net."])
def test_a_wrappers_prefix_is_told_instead_of_all_names(checkpoint: Path, prefix: str) -> None:
    state = {f"{prefix}{name}": value for name, value in net().state_dict().items()}
    save(state | {"loss.weight": torch.ones(2)}, checkpoint)
    with pytest.raises(BuildError) as caught:
        load_checkpoint(net(), str(checkpoint))
    assert str(caught.value).endswith(f"does not fit the model: its names begin with {prefix!r}")
    assert f"removeprefix({prefix!r})" in caught.value.remedy
    with pytest.raises(BuildError, match="it lacks 0") as caught:
        load_checkpoint(net(width=5), str(checkpoint))
    assert "of this architecture" in caught.value.remedy


def test_weights_beside_an_optimizers_state_are_named(tmp_path: Path) -> None:
    content = {"epoch": 3, "model": net().state_dict(), "optimizer": {"state": {}, "lr": 1.0}}
    torch.save(content, tmp_path / "w.pt")
    with pytest.raises(BuildError, match="epoch, model, optimizer is no tensor") as caught:
        load_checkpoint(net(), str(tmp_path / "w.pt"))
    assert caught.value.remedy == "save what is under 'model' in a file of its own"


@pytest.mark.parametrize("instructions", [b"\x80\x02.", b"\x80\x02h\x05.", b"\x80\x02}]K\x01s."])
def test_a_pickle_of_odd_instructions_is_a_sentence(tmp_path: Path, instructions: bytes) -> None:
    whole, odd = tmp_path / "whole.pt", tmp_path / "odd.pt"
    torch.save(net().state_dict(), whole)
    with ZipFile(whole) as old, ZipFile(odd, "w") as new:
        for name in old.namelist():
            new.writestr(name, instructions if name.endswith("data.pkl") else old.read(name))
    with pytest.raises(BuildError, match=r"odd\.pt cannot be read"):
        load_checkpoint(net(), str(odd))


def test_many_names_are_counted_rather_than_listed(checkpoint: Path) -> None:
    save({f"other{i}": torch.ones(1) for i in range(9)}, checkpoint)
    with pytest.raises(BuildError, match="and 4 more"):
        load_checkpoint(net(), str(checkpoint))


def test_a_tied_weight_needs_no_entry_of_its_own(checkpoint: Path) -> None:
    tied = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    tied[1].weight = tied[0].weight
    state = {name: value + 1 for name, value in tied.state_dict().items() if name != "1.weight"}
    save(state, checkpoint)
    load_checkpoint(tied, str(checkpoint))
    assert tied[1].weight is tied[0].weight
    assert torch.equal(tied[1].weight, state["0.weight"])


def test_a_checkpoint_from_before_batches_were_counted_fits(tmp_path: Path) -> None:
    module = torch.nn.Sequential(torch.nn.BatchNorm1d(3))
    state = {name: torch.full_like(value, 2) for name, value in module.state_dict().items()}
    del state["0.num_batches_tracked"]
    save(state, tmp_path / "w.pt")
    load_checkpoint(module, str(tmp_path / "w.pt"))
    assert module.state_dict()["0.running_mean"].tolist() == [2.0] * 3
    save({name: state[name] for name in ("0.weight", "0.bias")}, tmp_path / "w.pt")
    with pytest.raises(BuildError, match=r"it lacks 0\.running_mean, 0\.running_var$"):
        load_checkpoint(module, str(tmp_path / "w.pt"))


def test_a_training_loops_nested_state_dict_is_found(tmp_path: Path) -> None:
    path = tmp_path / "epoch.ckpt"
    torch.save({"epoch": 3, "state_dict": net(seed=1).state_dict()}, path)
    module = net()
    load_checkpoint(module, str(path))
    assert torch.equal(module[0].weight, net(seed=1)[0].weight)


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch exploded",)


def test_code_in_a_checkpoint_is_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"w": Bomb()}, "w.pt")
    with pytest.raises(BuildError, match="holds more than tensors") as caught:
        load_checkpoint(net(), "w.pt")
    assert caught.value.kind == "checkpoint"
    assert not Path("exploded").exists()


def test_a_whole_pickled_module_is_refused(tmp_path: Path) -> None:
    torch.save(net(), tmp_path / "w.pt")
    with pytest.raises(BuildError, match="holds more than tensors"):
        load_checkpoint(net(), str(tmp_path / "w.pt"))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (3, "it holds a int"),
        ([torch.ones(1)], "it holds a list"),
        ({"a": "text", "b": torch.ones(1)}, "a is no tensor"),
        ({0: torch.ones(1), ("a", 1): torch.ones(1)}, "0, ('a', 1) is no name"),
        ({"state_dict": {None: torch.ones(1)}}, "None is no name"),
    ],
)
def test_what_is_no_state_dict_is_refused(tmp_path: Path, content: object, reason: str) -> None:
    torch.save(content, tmp_path / "w.pt")
    with pytest.raises(BuildError) as caught:
        load_checkpoint(net(), str(tmp_path / "w.pt"))
    assert str(caught.value).endswith(f"not a mapping of names to tensors: {reason}")
    assert caught.value.kind == "checkpoint"
    assert caught.value.remedy


def test_a_file_cut_short_is_seen_before_and_while_loading(checkpoint: Path) -> None:
    checkpoint.write_bytes(checkpoint.read_bytes()[:-50])
    (problem,) = checkpoint_problems(str(checkpoint))
    assert "cut short" in problem
    with pytest.raises(BuildError, match="cannot be read"):
        load_checkpoint(net(), str(checkpoint))


def test_files_of_another_kind_are_told(tmp_path: Path) -> None:
    (tmp_path / "w.pt").write_bytes(pickle.dumps({"a": 1}))
    (tmp_path / "w.safetensors").write_text("not at all tensors")
    assert "not a file that torch.save wrote" in checkpoint_problems(str(tmp_path / "w.pt"))[0]
    problem = checkpoint_problems(str(tmp_path / "w.safetensors"))[0]
    assert "is not a safetensors file" in problem
    assert "does not exist" in checkpoint_problems(str(tmp_path / "none.pt"))[0]
    assert "is a folder" in checkpoint_problems(str(tmp_path))[0]


def test_one_changed_weight_in_the_middle_is_another_digest(checkpoint: Path) -> None:
    before = checkpoint_digest(str(checkpoint))
    state = net(seed=1).state_dict()
    state["0.weight"][1, 2] += 1e-3
    save(state, checkpoint)
    assert checkpoint_digest(str(checkpoint)) != before


def test_a_file_is_read_once_while_it_stays_the_same(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = checkpoint_digest(str(checkpoint))
    monkeypatch.setattr("hashlib.file_digest", None)
    assert checkpoint_digest(str(checkpoint)) == first


def test_a_missing_file_has_no_digest() -> None:
    with pytest.raises(BuildError, match="cannot be read"):
        checkpoint_digest("nowhere.pt")
