"""conf/hardware/ says what EC2 says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "write_hardware.py"
FAMILIES = sorted(runpy.run_path(str(SCRIPT))["FAMILIES"])


def node(family: str) -> dict:
    return yaml.safe_load((ROOT / "conf" / "hardware" / f"{family}.yaml").read_text())


def test_the_files_are_what_the_script_writes(capsys):
    pytest.importorskip("moto", reason="moto has EC2's own description of its instance types")
    assert runpy.run_path(str(SCRIPT))["main"](["--check", "--offline"]) == 0, capsys.readouterr()


def test_every_family_that_was_promised_is_there():
    gpus = {"g4dn", "g5", "g6", "g6e", "g7e", "p4d", "p4de", "p5", "p5en", "p6-b200"}
    neurons = {"inf2", "trn1"}
    cpus = {"r6i", "r6g", "r7g", "c7i", "c7g", "c8g", "m7a", "m7i"}
    cpus |= {"m8g", "r8g", "r7i", "c8i", "m8i", "r8i"}
    assert gpus | neurons | cpus <= set(FAMILIES)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_default_size_is_one_of_its_sizes_and_peaks_are_numbers_with_a_source(family):
    told = node(family)
    assert told["size"] in told["sizes"]
    assert all(
        isinstance(rate, float) and rate > 1e9 for rate in told["peaks"]["flops_per_s"].values()
    )
    assert isinstance(told["peaks"]["bytes_per_s"], float)
    assert told["peaks"]["source"]


@pytest.mark.parametrize("family", FAMILIES)
def test_an_accelerator_is_counted_in_every_size_of_a_family_that_has_one(family):
    told = node(family)
    assert all(
        ("accelerators" in size) == ("accelerator" in told) for size in told["sizes"].values()
    )
