"""No archive of a stranger's makes a marker, whether looked at, planned or loaded."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from security.bypass import archives
from support.command_lines import Commands
from support.slices import one_in, only

torch = pytest.importorskip("torch")
NAMES = {
    "programs": (
        *(
            "samples",
            "samples_legacy",
            "samples_plain",
            "samples_twice",
            "samples_first",
            "weights",
        ),
        *(
            "expression",
            "object",
            "opaque",
            "library",
            "outside",
            "pickle",
            "checkpoint",
            "prefixed",
        ),
    ),
    "checkpoints": (
        *("zip.pt", "inside.pt", "legacy.pt", "plain.pt", "tar.pt", "named.safetensors"),
        *("named.bin", "named.ckpt"),
    ),
}
MLP = {
    "_target_": "benchorch.models.mlp.Mlp",
    "widths": [4, 2],
    "inputs": {"input": {"shape": ["batch_size", 4], "generator": "normal"}},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stranger") / "folder"
    folder.mkdir()
    good = io.BytesIO()
    torch.export.save(torch.export.export(torch.nn.Linear(4, 2), (torch.ones(3, 4),)), good)
    marker = folder.parent / "marker"
    files = archives.programs(good.getvalue(), marker) | archives.checkpoints(marker)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / "evil.yaml").touch()
    return folder


@pytest.fixture
def marker(folder: Path) -> Iterator[Path]:
    marker = folder.parent / "marker"
    yield marker
    if marker.exists():
        marker.rmdir()


@pytest.mark.parametrize("name", only(("samples", "checkpoint"), NAMES["programs"]))
def test_a_program_is_looked_at_and_runs_nothing(
    name: str, commands: Commands, folder: Path, marker: Path
) -> None:
    done = commands.run(folder, ["script", f"{name}.pt2", "--analyze-only", "--no-sandbox"])
    assert not marker.exists(), done.output[-2000:]
    assert "Traceback (most recent call last)" not in done.output, done.output[-3000:]


@pytest.mark.parametrize("name", one_in(2, NAMES["checkpoints"]))
def test_a_checkpoint_is_loaded_as_weights_or_refused(
    name: str, commands: Commands, folder: Path, marker: Path
) -> None:
    done = commands.run(folder, ["evil.yaml"], model={**MLP, "checkpoint": name})
    assert not marker.exists(), done.output[-2000:]
    assert done.code == 1, done.output[-2000:]
    assert done.output.startswith("refused:"), done.output[-2000:]


@pytest.mark.parametrize("name", ["zip.pt", "plain.pt", "named.bin"])
def test_the_checkpoints_do_work(name: str, folder: Path, marker: Path) -> None:
    try:
        torch.load(folder / name, weights_only=False)
    except Exception:
        assert marker.exists()
    assert marker.exists()
