"""Every name is explained: what it selects, whether it runs here, what would enable it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any, cast

import pytest

from benchorch.cli.commands import conversions
from benchorch.cli.commands.conversion_catalog import Catalog, Conversion
from benchorch.cli.main import run as run_command
from benchorch.config.conversion_aliases import RetiredName
from benchorch.config.directories import builtin_directory
from benchorch.errors import ConfigError
from benchorch.host import environment
from benchorch.host.packages import install_command
from support import conversions as lab

CATALOG = Catalog([builtin_directory("conf")])
LISTED = [(tool, name) for tool, names in CATALOG.other.listed.items() for name in names]
ALMA = CATALOG.other.listed["alma"]


@pytest.mark.parametrize(("tool", "name"), LISTED, ids=lambda text: text)
def test_a_name_of_another_tool_opens_to_a_chain_or_is_retired(tool: str, name: str) -> None:
    opened = CATALOG.open(name)
    assert opened.problems == ()
    assert (opened.runtime is None) == (opened.retired is not None)


def test_all_names_of_almas_code_and_readme_are_there() -> None:
    assert len(ALMA) == len(set(ALMA)) == 94
    readme = CATALOG.other.listed["alma's README"]
    assert all(name.replace("OPTIMIM", "OPTIMUM") in ALMA for name in readme)


def test_what_is_retired_has_a_reason_and_its_successor_is_a_chain() -> None:
    for told in CATALOG.other.retired.values():
        assert told.reason.endswith(".")
        assert CATALOG.open(told.successor).problems == ()


@pytest.mark.parametrize("name", ["groq", "GROQ", "BF16+EXPORT+COMPILE_OPENXLA"])
def test_dead_targets_are_retired_wherever_they_stand_in_a_name(name: str) -> None:
    assert CATALOG.open(name).retired


def test_nothing_is_translated_to_what_is_not_there() -> None:
    for chain in CATALOG.other.chains.values():
        assert CATALOG.open(chain).problems == (), chain


@pytest.mark.parametrize("name", CATALOG.names)
def test_a_file_reads_here_as_hydra_reads_it(name: str) -> None:
    assert CATALOG.open(name).node == lab.conversion(name)


@pytest.mark.parametrize(
    "name",
    [
        "bf16+aot_inductor",
        "FP16+EXPORT+COMPILE_ONNXRT",
        "EXPORT+AI8WI8_STATIC_QUANTIZED+RUN_DECOMPOSITION",
        "OPTIMIM_QUANTO_Wf8E5M2+COMPILE_CUDAGRAPHS",
        "COMPILE_INDUCTOR_MAX_AUTOTUNE+TORCHAO_QUANT_I4_WEIGHT_ONLY",
    ],
)
def test_a_joined_name_reads_here_as_hydra_reads_it(name: str) -> None:
    node = dict(CATALOG.open(name).node)
    theirs = lab.conversion(name)
    assert {**node, "description": ""} == {**theirs, "description": ""}


def test_the_list_groups_them_and_counts_the_other_names() -> None:
    said = conversions.run.reply([]).text
    assert said.startswith("Eager: PyTorch as it is")
    assert all(name in said for name in CATALOG.names)
    assert f"{len(LISTED)} names of other tools" in said
    assert "FP16+EXPORT" not in said


def test_all_lists_every_name_with_what_it_selects() -> None:
    said = conversions.run.reply(["--all"]).text
    assert all(name in said for _, name in LISTED)
    assert "fp16+export+inductor" in said


def test_programs_get_everything() -> None:
    data = cast(Mapping[str, Any], conversions.run.reply(["--json"]).data)
    json.dumps(data)
    assert [row["name"] for row in data["conversions"]] == list(CATALOG.names)
    assert sum(map(len, data["names"].values())) == len(LISTED)
    (row,) = [row for row in data["conversions"] if row["name"] == "aot_inductor"]
    assert row["leaves"] == ["exported_program", "aoti_package"]
    assert [step["name"] for step in row["steps"]] == ["export", "aot_inductor"]
    files = [link["file"] for link in (*row["steps"], row["runtime"])]
    assert all(Path(file).is_file() for file in files)


def test_one_is_explained_with_its_links() -> None:
    said = conversions.run.reply(["FP16+EXPORT+COMPILE_INDUCTOR_DEFAULT"]).text
    assert "conversion=fp16+export+inductor" in said
    for word in (
        "1. cast",
        "2. export",
        "3. inductor",
        "then: runs it",
        "keeps",
        "exported_program",
    ):
        assert word in said


def test_a_retired_one_says_why_and_what_instead() -> None:
    said = conversions.run.reply(["COMPILE_OPENXLA"]).text
    assert "torch_xla" in said
    assert "conversion=inductor" in said


def test_an_unknown_one_is_refused_with_the_nearest() -> None:
    wrong = {"inductr": "Did you mean 'inductor'?", "bf16+onnxruntim": "'onnxruntim'"}
    for word, told in {**wrong, "--everything": "--everything"}.items():
        with pytest.raises(ConfigError) as refused:
            conversions.run.reply([word])
        assert told in str(refused.value)


@pytest.fixture
def bare() -> Iterator[None]:
    environment._is_installed_here.cache_clear()
    yield
    environment._is_installed_here.cache_clear()


def test_a_missing_package_is_named_with_the_command(
    monkeypatch: pytest.MonkeyPatch, bare: None
) -> None:
    real = metadata.distribution

    def without_onnx(name: str) -> metadata.Distribution:
        if name == "onnxscript":
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata, "distribution", without_onnx)
    monkeypatch.setattr(environment, "_named_by_folders", frozenset)
    stands = conversions.availability(CATALOG.open("onnxruntime"))
    assert stands.hardware == ""
    assert "onnxscript, which is not installed" in stands.reason
    assert stands.enable == install_command(["onnxscript"])


def test_what_needs_a_gpu_says_so() -> None:
    stands = conversions.availability(CATALOG.open("cudagraphs"))
    assert stands.hardware == "local_gpu" or "GPU" in stands.enable


def test_a_retired_one_stands_nowhere() -> None:
    gone = Conversion(
        name="x",
        parts=(),
        description="",
        node={},
        retired=RetiredName(reason="Gone.", successor=""),
    )
    assert conversions.availability(gone).reason == "retired: Gone."
    assert conversions.availability(gone).enable == ""
    broken = replace(gone, retired=None, problems=("there is no conversion 'x'.",))
    assert conversions.availability(broken).reason == "there is no conversion 'x'."


def test_it_is_a_word_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["conversions", "eager"]) == 0
    assert "runs it" in capsys.readouterr().out


def test_it_costs_no_second_and_loads_nothing_heavy() -> None:
    probe = (
        "import sys, resource\n"
        "from benchorch.cli.commands import conversions\n"
        "conversions.run.reply([])\n"
        "heavy = {'torch', 'numpy', 'hydra', 'onnx', 'onnxruntime', 'mlflow', 'ray', 'openvino'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ},
    )
    assert done.stdout.strip() == "[]"


def test_a_file_that_extends_another_place_is_a_problem_of_that_file(tmp_path: Path) -> None:
    (tmp_path / "conversion").mkdir()
    (tmp_path / "conversion" / "mine.yaml").write_text("defaults: [/conversion/bf16, _self_]\n")
    found = Catalog([tmp_path, builtin_directory("conf")]).open("mine")
    assert found.problems == ("conversion: '/conversion/bf16' is no file of this group.",)
