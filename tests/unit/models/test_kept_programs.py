"""Programs that live modules leave: each content once, and none for ever."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import torch

from benchorch.models.kept_programs import keep_program, remove_old

DAY_S = 86_400


def kept(module: torch.nn.Module, folder: Path) -> Path:
    program = torch.export.export(module.eval(), (torch.ones(1, 4),))
    return Path(str(keep_program(program, folder)["program"]))


def aged(folder: Path, name: str, days: float, size: int) -> Path:
    place = folder / name
    place.mkdir()
    (place / "program.pt2").write_bytes(bytes(size))
    os.utime(place, (datetime.now(UTC).timestamp() - days * DAY_S,) * 2)
    return place


def test_a_module_that_is_measured_again_is_kept_once(tmp_path: Path) -> None:
    module = torch.nn.Linear(4, 4)
    assert kept(module, tmp_path) == kept(module, tmp_path)
    with torch.no_grad():
        module.weight += 1
    assert kept(module, tmp_path) in set(tmp_path.iterdir())
    assert len(list(tmp_path.iterdir())) == 2


def test_what_nothing_used_for_a_month_is_removed_when_another_comes(tmp_path: Path) -> None:
    old, recent = aged(tmp_path, "old", 31, 10), aged(tmp_path, "recent", 29, 10)
    kept(torch.nn.Linear(4, 4), tmp_path)
    assert not old.exists()
    assert recent.exists()


def test_beyond_the_limit_the_longest_unused_goes_but_nothing_of_the_last_day(
    tmp_path: Path,
) -> None:
    places = [aged(tmp_path, str(days), days, 100) for days in (0.5, 0.9, 3, 5)]
    remove_old(tmp_path, most_bytes=300)
    assert [place.exists() for place in places] == [True, True, True, False]
    remove_old(tmp_path, most_bytes=100)
    assert [place.exists() for place in places] == [True, True, False, False]
