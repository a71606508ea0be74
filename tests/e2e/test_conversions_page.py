"""A slice of what `make conversions` runs: the page of a few conversions, and what is run again."""

import importlib.util
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from support.synthetic_runs import AGREES, result, trial, write_run

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "write_conversions.py"
SLICE = "eager,bf16,onnxruntime,COMPILE_OPENXLA,no_such_conversion"


def write(place, only, *words):
    command = [sys.executable, SCRIPT, "--models", "mlp", "--only", only, *words]
    command += ["--work", place.path / "work", "--page", place.path / "page.md"]
    done = subprocess.run(
        command, cwd=place.path, env=place.environment, capture_output=True, text=True, timeout=540
    )
    assert done.returncode == 0, done.stderr
    return (place.path / "page.md").read_text(), done.stdout


@pytest.mark.slow
def test_a_slice_is_run_written_and_not_run_again(place):
    page, _ = write(place, SLICE)
    assert "| `eager` | ✓ |" in page
    assert "| `bf16` | ✓ |" in page
    assert "`onnx` | ✓ |" in page
    assert "retired: torch_xla" in page
    assert "there is no conversion 'no_such_conversion'" in page
    again, said = write(place, SLICE)
    assert again == page
    assert "==" not in said


def test_nothing_run_is_said(place):
    page, _ = write(place, "eager", "--write-only")
    assert "Nothing was run." in page


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("write_conversions", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_reasons_are_one_line_of_a_table(script):
    assert script._one_line(f"a | b\n  in {Path.home()}/x") == "a / b in ~/x"


def test_nothing_works_beside_a_baseline_that_is_not_deterministic(script, tmp_path):
    eager = trial()
    random = replace(result(eager), parity=AGREES.not_deterministic("it draws"))
    fast = trial("fast", baseline=eager)
    place = write_run(tmp_path / "mlp-1", (fast, result(fast)), (eager, random))
    cells = [script._cell(each) for each in script._results(place)]
    assert [cell.state for cell in cells] == ["disqualified"] * 2
    assert script._results(tmp_path) == ()


def test_every_model_is_one_that_composes(script, place):
    for _, words in script.MODELS.values():
        place.run("plan", "conversion=eager", *words, *script.SETTINGS)
