"""One name for a machine and what runs a model on it: octoml-profile's, and ours."""

from __future__ import annotations

import json

import pytest

from benchorch.cli.main import run
from benchorch.config.composer import Composer, config_loader
from benchorch.config.conversion_aliases import other_names
from benchorch.config.directories import builtin_directory
from benchorch.config.hardware_aliases import backend, backends
from benchorch.config.overrides import lift_lists
from benchorch.errors import ConfigError

OCTOML = [
    ("g4dn.xlarge/onnxrt-cuda", ("g4dn", "xlarge", "onnxruntime_cuda")),
    ("g5.xlarge/onnxrt-cuda", ("g5", "xlarge", "onnxruntime_cuda")),
    ("g5.xlarge/onnxrt-tensorrt", ("g5", "xlarge", "onnxruntime_tensorrt")),
    ("g4dn.xlarge/torch-eager-cuda", ("g4dn", "xlarge", "eager")),
    ("g4dn.xlarge/torch-inductor-cuda", ("g4dn", "xlarge", "inductor")),
    ("g4dn.xlarge/onnxrt-cuda[fp16]", ("g4dn", "xlarge", "fp16+onnxruntime_cuda")),
    ("r6i.large/onnxrt-cpu", ("r6i", "large", "onnxruntime_cpu")),
    ("r6i.large/torch-eager-cpu", ("r6i", "large", "eager")),
    ("r6g.large/onnxrt-cpu", ("r6g", "large", "onnxruntime_cpu")),
    ("r7g.large/torch-inductor-cpu", ("r7g", "large", "inductor")),
    ("local/onnxrt-cpu", ("local", None, "onnxruntime_cpu")),
]


@pytest.mark.parametrize(("name", "meant"), OCTOML)
def test_octoml_profiles_names_are_understood(name, meant):
    told = backend(name)
    assert (told.hardware, told.size, told.conversion) == meant


@pytest.mark.parametrize(
    ("name", "machine"),
    [("g5", "g5"), ("g5.12xlarge", "g5.12xlarge"), ("g5.2xlarge/bf16+aot_inductor", "g5.2xlarge")],
)
def test_either_side_may_be_ours(name, machine):
    assert backend(name).machine == machine
    assert backend(name).name == name


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("g5.xlrge", "Did you mean 'g5.xlarge'? Sizes of g5: xlarge"),
        ("g55.xlarge/onnxrt-cuda", "Did you mean 'g5.xlarge'?"),
        ("g5.xlarge/onxrt-cuda", "Did you mean 'onnxrt-cuda'?"),
        ("g5.xlarge/onnxrt-cuda[fp61]", "Did you mean 'fp16'?"),
        ("r6i.large/onnxrt-cuda", "onnxrt-cuda is for cuda, but models on r6i run on cpu"),
        ("g5.xlarge/torch-eager-cpu", "torch-eager-cpu is for cpu, but models on g5 run on cuda"),
        ("g5.xlarge/groq", "no longer distributed"),
        ("g5.xlarge/", "there is no conversion ''"),
        ("g5.", "there is no 'g5.'"),
        ("", "there is no ''"),
    ],
)
def test_a_name_that_means_nothing_is_told_with_what_was_meant(name, told):
    with pytest.raises(ConfigError) as error:
        backend(name)
    assert told in error.value.problems[0]


def test_every_name_in_the_list_stands_for_itself():
    listed = backends()
    assert len(listed) == len(set(listed)) > 80
    assert [backend(name).name for name in listed] == list(listed)


def test_everything_that_octoml_profile_lists_is_there_on_a_machine_that_can_run_it():
    names = other_names(builtin_directory("conf"))
    alive = [name for name in names.listed["octoml-profile"] if not names.retirement(name)]
    chains = {backend(name).conversion for name in backends()}
    assert {"+".join(names.parts(name)) for name in alive} <= chains


@pytest.fixture(scope="module")
def composer():
    return Composer(config_loader())


def cells(composer, *words):
    return composer.cells(lift_lists(["model=mlp", *words], composer.groups))


def test_a_size_in_a_machines_name_is_that_size(composer):
    sized = cells(composer, "hardware=g5.12xlarge", "conversion=eager")[0]
    told = cells(composer, "hardware=g5", "hardware.size=12xlarge", "conversion=eager")[0]
    assert sized.config == told.config
    assert sized.config["hardware"]["kind"] == "g5.12xlarge"


def test_a_list_of_names_pairs_machines_with_conversions(composer):
    found = cells(composer, "hardware=[g5.xlarge/onnxrt-cuda,r6i.large/torch-eager-cpu]")
    assert [(c.config["hardware"]["kind"], c.choices["conversion"]) for c in found] == [
        ("g5.xlarge", "onnxruntime_cuda"),
        ("r6i.large", "eager"),
    ]


def test_a_conversion_is_not_named_twice(composer):
    with pytest.raises(ConfigError, match="names a conversion already"):
        cells(composer, "hardware=local/onnxrt-cpu", "conversion=eager")


def test_a_typo_in_a_machines_name_is_told_with_what_was_meant(composer):
    with pytest.raises(ConfigError, match=r"Did you mean 'g5\.xlarge'"):
        cells(composer, "hardware=g5.xlrge/onnxrt-cuda")


def test_a_kind_of_the_users_own_has_sizes_and_conversions_too(tmp_path):
    (tmp_path / "hardware").mkdir()
    (tmp_path / "hardware" / "mine.yaml").write_text(
        "_target_: benchorch.hardware.cpu.CpuHardware\nkind: mine.${.size}\nsize: small\n"
        "conversions: [eager]\nsizes: {small: {vcpus: 1, memory_gib: 2}, "
        "big: {vcpus: 4, memory_gib: 8}}\n"
    )
    found = cells(Composer(config_loader([tmp_path])), "hardware=mine.big/onnxruntime")
    assert [c.config["hardware"]["kind"] for c in found] == ["mine.big"]
    assert [c.choices["conversion"] for c in found] == ["onnxruntime"]


def plan(capsys, *words):
    assert run(["plan", "--json", "model=mlp", *words]) == 0
    return json.loads(capsys.readouterr().out)["trials"]


def test_machines_that_differ_in_what_is_tried_share_one_baseline(capsys):
    trials = plan(capsys, "hardware=[local/onnxrt-cpu,local/inductor]")
    by_name = {trial["labels"]["conversion"]: trial for trial in trials}
    assert sorted(by_name) == ["eager", "inductor", "onnxruntime_cpu"]
    others = [by_name["inductor"], by_name["onnxruntime_cpu"]]
    assert {trial["baseline_id"] for trial in others} == {by_name["eager"]["trial_id"]}
    assert {trial["labels"]["hardware"] for trial in trials} == {"local"}


def test_a_baseline_asked_for_by_another_tools_name_is_the_baseline(capsys):
    eager, other = plan(capsys, "conversion=[EAGER,onnxruntime]")
    assert other["baseline_id"] == eager["trial_id"]


def test_the_command_lists_and_explains(capsys):
    assert run(["backends"]) == 0
    assert "12xlarge" in capsys.readouterr().out
    assert run(["backends", "g5.xlarge/onnxrt-cuda"]) == 0
    told = "hardware=g5 hardware.size=xlarge conversion=onnxruntime_cuda"
    assert told in capsys.readouterr().out
    assert run(["backends", "--json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == list(backends())
