"""What an option's files tell of its node is what Hydra composes."""

import json

import pytest

from benchorch.config.composer import Composer, config_loader
from benchorch.config.composition import load, plain_node
from benchorch.config.option_nodes import OptionNodes
from benchorch.config.overrides import is_scalar, parse_override
from benchorch.domain.trial import value_at

ROOT = "defaults: [config, _self_]\n"


@pytest.fixture(scope="module")
def composer():
    return Composer(config_loader())


@pytest.mark.parametrize("every", [8, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("group", sorted(Composer(config_loader()).groups))
def test_an_option_read_from_its_files_is_the_one_that_hydra_composes(composer, group, every):
    loader = config_loader()
    files = OptionNodes(loader, "config", composer.groups)
    for name in composer.options(group)[::every]:  # a composition takes long
        node = files.node(group, name)
        if node is not None:
            composed = plain_node(load(loader, "config", [f"{group}={name}"]))
            assert json.dumps(composed[group]) == json.dumps(node)
            assert files.stays_inside(group, name)


def test_most_conversions_need_no_composition(composer):
    files = OptionNodes(config_loader(), "config", composer.groups)
    known = [name for name in composer.options("conversion") if files.node("conversion", name)]
    assert {"eager", "inductor", "aot_inductor", "onnxruntime"} <= set(known)


@pytest.mark.parametrize(
    "text",
    [
        "# @package _global_\nstopping: {window_s: 1.0}\n",
        "defaults: [/stopping: quick]\n_target_: a.B\n",
        "defaults: [own]\n",
    ],
)
def test_a_file_that_may_reach_out_of_its_group_is_left_to_hydra(tmp_path, composer, text):
    (tmp_path / "conversion").mkdir()
    (tmp_path / "conversion" / "own.yaml").write_text(text)
    files = OptionNodes(config_loader([tmp_path]), "config", composer.groups)
    assert files.node("conversion", "own") is None
    assert not files.stays_inside("conversion", "own")


def test_keys_that_a_recipe_sets_in_a_group_hold_for_every_option(tmp_path, composer):
    (tmp_path / "mine.yaml").write_text(ROOT + "stopping: {processes: 7}\n")
    loader = config_loader([tmp_path])
    assert OptionNodes(loader, "mine", composer.groups).node("stopping", "quick") is None
    cell, *_ = Composer(loader, "mine").cells(["model=mlp", "conversion=eager", "stopping=quick"])
    assert cell.config["stopping"]["processes"] == 7


def test_an_override_of_a_key_in_the_group_holds_beside_the_choice():
    words = ["model=mlp", "conversion=eager", "stopping=quick", "stopping.processes=3"]
    for order in (words, words[::-1]):
        cell, *_ = Composer(config_loader()).cells(order)
        assert cell.config["stopping"]["processes"] == 3


@pytest.mark.parametrize("value", ["text", "1.5", "true"])
def test_hydra_takes_any_scalar_in_place_of_any_other(composer, value):
    loader, known = config_loader(), plain_node(load(config_loader(), "config", ["model=mlp"]))
    keys = [
        f"{group}.{key}"
        for group, node in known.items()
        if isinstance(node, dict)
        for key, present in node.items()
        if present is not None and is_scalar(present)
    ]
    composed = plain_node(load(loader, "config", [f"{key}={value}" for key in keys]))
    assert len(keys) > 40
    assert {key: value_at(composed, key.split(".")) for key in keys} == {
        key: parse_override(f"{key}={value}").value() for key in keys
    }


def test_the_cells_of_a_sweep_are_those_of_single_jobs():
    jobs = [
        [f"model={model}", f"conversion={conversion}", f"workload.batch_size={size}"]
        for model in ("mlp", "bert_tiny")
        for conversion in ("eager", "onnxruntime")
        for size in (1, 2)
    ]
    together = Composer(config_loader())
    for job in jobs:
        alone = plain_node(load(config_loader(), "config", job), resolve=True)
        assert together.cells(job)[0].config == alone


def test_jobs_that_share_nothing_but_a_composer_are_composed_as_if_alone(tmp_path):
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "pinned.yaml").write_text(
        "# @package _global_\nstopping: {processes: 5}\nbudget: {minutes: 9}\n"
    )
    jobs = [
        ["model=mlp", "conversion=eager"],
        ["model=mlp", "conversion=eager", "stopping=quick", "stopping.processes=3"],
        ["stopping.processes=3", "stopping=quick", "model=mlp", "conversion=eager"],
        ["model=mlp", "conversion=eager", "+experiment=pinned", "stopping=precise"],
        ["stopping=precise", "+experiment=pinned", "conversion=eager", "model=resnet18"],
        ["model=mlp", "conversion=fp16", "executor=ec2", "store=lean", "store.root=here"],
        ["executor=ec2", "executor.most=3", "model=mlp", "conversion=eager", "store.url=s3://b/c"],
        ["hardware=g5", "model=mlp", "conversion=eager", "pricing.region=eu-west-1"],
        ["model=mlp", "conversion=eager", "model.widths=[4,2]", "workload.seed=7"],
        ["model=mlp", "+model.kwargs.n=1", "conversion=eager", "budget.minutes=3"],
        ["model=mlp", "conversion=eager", "workload.batch_size=7", "++parity.inputs=3"],
    ]
    together = Composer(config_loader([tmp_path]))
    for job in jobs:
        alone = plain_node(load(config_loader([tmp_path]), "config", job), resolve=True)
        assert together.cells(job)[0].config == alone
