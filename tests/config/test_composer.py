import pytest

from benchorch.config.composer import Composer, config_loader
from benchorch.config.overrides import (
    keyword_overrides,
    lift_lists,
    parse_override,
    quoted,
    spelled,
    sweep_jobs,
)
from benchorch.errors import ConfigError
from benchorch.run.planner import plan_jobs


@pytest.fixture(scope="module")
def composer():
    return Composer(config_loader())


def a_composer(tmp_path, name, text):
    (tmp_path / f"{name}.yaml").write_text(text)
    return Composer(config_loader([tmp_path]), name)


def combinations(cells, *keys):
    return [tuple(cell.choices.get(key) or cell.axes.get(key) for key in keys) for cell in cells]


def test_a_model_alone_takes_the_hardwares_default_conversions(composer):
    cells = composer.cells(["model=mlp", "hardware=local"])
    assert combinations(cells, "model", "conversion") == [
        ("mlp", "eager"),
        ("mlp", "inductor"),
        ("mlp", "aot_inductor"),
        ("mlp", "onnxruntime"),
    ]


def test_a_named_conversion_stands_alone(composer):
    cells = composer.cells(["model=mlp", "conversion=onnxruntime"])
    assert combinations(cells, "conversion") == [("onnxruntime",)]


def test_a_list_of_conversions_is_a_matrix_and_not_one_merged_node(composer):
    overrides = lift_lists(["model=mlp", "conversion=[eager,onnxruntime]"], composer.groups)
    assert combinations(composer.cells(overrides), "conversion") == [("eager",), ("onnxruntime",)]


@pytest.mark.parametrize(
    "words",
    ["conversion=[eager,onnxruntime],inductor", "conversion=eager,[onnxruntime,[inductor]]"],
)
def test_lists_inside_a_sweep_are_crossed_like_its_other_values(composer, words):
    overrides = lift_lists(["model=mlp", words], composer.groups)
    jobs = sweep_jobs(overrides, composer._loader)
    cells = [cell for job in jobs for cell in composer.cells(job)]
    assert combinations(cells, "conversion") == [("eager",), ("onnxruntime",), ("inductor",)]


def test_a_list_that_is_no_choice_stays_a_value(composer):
    words = [
        "model=mlp",
        "conversion=eager",
        "model.widths=[256,8]",
        "workload.dynamic=[batch_size]",
    ]
    cell = composer.cells(lift_lists(words, composer.groups))[0]
    assert cell.config["model"]["widths"] == [256, 8]
    assert cell.config["workload"]["dynamic"] == ["batch_size"]


def test_an_override_inside_an_open_choice_waits_for_each_of_its_options(composer):
    words = ["model=mlp", "conversion=[eager,onnxruntime]", "conversion.tolerance_ratio=0.5"]
    cells = composer.cells(lift_lists(words, composer.groups))
    assert [cell.config["conversion"]["tolerance_ratio"] for cell in cells] == [0.5, 0.5]


def test_an_override_reaches_every_default_conversion(composer):
    job = lift_lists(["model=mlp", "conversion.tolerance_ratio=0.5"], composer.groups)
    tolerances = [c.config["conversion"]["tolerance_ratio"] for c in composer.cells(job)]
    assert tolerances == [0.5] * 4


def test_a_symbol_may_be_a_list(composer):
    cells = composer.cells(["model=mlp", "conversion=eager", "workload.batch_size=[1,8]"])
    assert [cell.config["workload"]["batch_size"] for cell in cells] == [1, 8]


def test_an_override_reaches_only_the_options_it_belongs_to(composer):
    cells = composer.cells(["conversion=eager", "model=mlp", "model.widths=[4,2]"])
    assert cells[0].config["model"]["widths"] == [4, 2]


def test_cells_equal_what_hydra_composes_as_a_whole(composer):
    from hydra.types import RunMode
    from omegaconf import OmegaConf, open_dict

    job = ["model=bert_tiny", "conversion=onnxruntime", "workload.seq_len=7", "rebuild=never"]
    whole = config_loader().load_configuration("config", job, run_mode=RunMode.RUN)
    with open_dict(whole):
        del whole["hydra"]
    assert composer.cells(job)[0].config == OmegaConf.to_container(whole, resolve=True)


def test_a_value_may_refer_to_another_groups_key(tmp_path):
    composer = a_composer(
        tmp_path,
        "linked",
        "defaults: [config, override model: mlp, override conversion: eager, _self_]\n"
        "parity: {inputs: '${workload.batch_size}'}\n",
    )
    cells = composer.cells(["workload.batch_size=5"])
    assert cells[0].config["parity"]["inputs"] == 5


def test_a_value_may_refer_to_an_axis(composer):
    words = ["model=mlp", "conversion=eager", "+model.kwargs.n=${oc.select:workload.batch_size,0}"]
    jobs = [[*words, f"workload.batch_size={size}"] for size in (4, 8)]
    assert [
        cell.config["model"]["kwargs"]["n"] for job in jobs for cell in composer.cells(job)
    ] == [4, 8]


def test_a_choice_of_ones_own_may_set_any_node(tmp_path):
    (tmp_path / "experiment").mkdir()
    for name, model, size in (("x", "mlp", 3), ("y", "resnet18", 5)):
        (tmp_path / "experiment" / f"{name}.yaml").write_text(
            f"# @package _global_\ndefaults: [override /model: {model}]\n"
            f"workload: {{batch_size: {size}}}\n"
        )
    composer = Composer(config_loader([tmp_path]))
    jobs = [["conversion=eager", f"+experiment={name}"] for name in "xy"]
    seen = [
        (cell.choices["model"], cell.config["workload"]["batch_size"])
        for job in jobs
        for cell in composer.cells(job)
    ]
    assert seen == [("mlp", 3), ("resnet18", 5)]


@pytest.mark.parametrize(
    ("words", "store"),
    [
        (["executor=process"], "local"),
        (["executor=ec2"], "s3"),
        (["executor=ec2", "store=local"], "local"),
        (["store=lean", "executor=ec2"], "lean"),
        (["executor=ec2", "store=s3"], "s3"),
    ],
)
def test_a_stacks_executor_takes_the_stacks_store_unless_another_is_named(composer, words, store):
    (cell,) = composer.cells(["model=mlp", "conversion=eager", *words])
    assert cell.choices["store"] == store
    kind = {"s3": "benchorch.stores.s3.S3Store"}.get(store, "benchorch.stores.local.LocalStore")
    assert cell.config["store"]["_target_"] == kind


def test_the_stacks_url_is_in_the_environment_and_may_be_named(composer, monkeypatch):
    job = ["model=mlp", "conversion=eager", "executor=ec2"]
    monkeypatch.delenv("BENCHORCH_STORE_URL", raising=False)
    fresh = Composer(composer._loader)
    assert fresh.cells(job)[0].config["store"]["url"] is None
    assert fresh.cells([*job, "store.url=s3://mine/x"])[0].config["store"]["url"] == "s3://mine/x"
    monkeypatch.setenv("BENCHORCH_STORE_URL", "s3://stack/store")
    config = Composer(composer._loader).cells(job)[0].config
    assert config["store"]["url"] == "s3://stack/store"
    assert config["executor"]["address"] == "auto"
    assert "defaults" not in config["executor"]


def test_a_recipe_for_a_stack_takes_its_store_or_its_own(tmp_path):
    base = "defaults: [config, override model: mlp, override executor: ec2{}, _self_]\n"
    for name, more, store in (("a", "", "s3"), ("b", ", override store: local", "local")):
        composer = a_composer(tmp_path, name, base.format(more))
        (cell,) = composer.cells(["conversion=eager"])
        assert cell.choices["store"] == store
        (cell,) = composer.cells(["conversion=eager", "store=lean"])
        assert cell.choices["store"] == "lean"


def test_a_key_of_a_store_that_an_executor_chose_is_known(composer):
    words = ["model=mlp", "conversion=eager", "executor=ec2", "store.url=s3://mine/x"]
    assert composer.problems(words, sweep=False) == []
    (problem,) = composer.problems([*words, "store.ulr=x"], sweep=False)
    assert problem.startswith("store.ulr: unknown key. Did you mean 'url'?")
    with pytest.raises(ConfigError) as caught:
        composer.cells([*words, "rebuil=never"])
    assert len(caught.value.problems) == 1


def test_a_recipes_matrix_is_crossed_in_the_order_it_is_written(tmp_path):
    composer = a_composer(
        tmp_path,
        "two_axes",
        "defaults: [config, override model: mlp, _self_]\n"
        "matrix:\n  conversion: [eager, onnxruntime]\n  workload.batch_size: [1, 8]\n",
    )
    cells = composer.cells([])
    assert combinations(cells, "conversion", "workload.batch_size") == [
        ("eager", "1"),
        ("eager", "8"),
        ("onnxruntime", "1"),
        ("onnxruntime", "8"),
    ]


def test_a_key_set_by_hand_replaces_its_axis(tmp_path):
    composer = a_composer(
        tmp_path,
        "axis",
        "defaults: [config, override model: mlp, _self_]\n"
        "matrix: {conversion: [eager, inductor]}\n",
    )
    assert combinations(composer.cells(["conversion=onnxruntime"]), "conversion") == [
        ("onnxruntime",)
    ]


@pytest.mark.parametrize(
    ("matrix", "problem"),
    [
        ("{conversion: []}", "matrix.conversion: is empty, so there is nothing to run."),
        ("{conversion: eager}", "matrix.conversion: expected a list of values, got 'eager'."),
    ],
)
def test_an_axis_without_values_is_refused(tmp_path, matrix, problem):
    composer = a_composer(
        tmp_path, "empty", f"defaults: [config, override model: mlp, _self_]\nmatrix: {matrix}\n"
    )
    with pytest.raises(ConfigError) as caught:
        composer.cells([])
    assert problem in caught.value.problems


def test_an_axis_that_is_spelled_twice_is_refused(tmp_path):
    composer = a_composer(
        tmp_path,
        "twice",
        "defaults: [config, override model: mlp, _self_]\n"
        "matrix: {workload.batch_size: [1, 8], workload: {batch_size: [4]}}\n",
    )
    with pytest.raises(ConfigError, match=r"matrix\.workload\.batch_size: is there twice"):
        composer.cells(["conversion=eager"])


def test_an_empty_variable_of_benchorch_is_as_good_as_none(monkeypatch):
    for name in ("CACHE_DIR", "RESULTS_URL"):
        monkeypatch.setenv(f"BENCHORCH_{name}", "")
    session = Composer(config_loader()).session([])
    assert session["keep_at"] is None
    assert session["store"]["root"] == "~/.cache/benchorch"


def test_all_mistakes_are_told_at_once_with_suggestions(composer):
    with pytest.raises(ConfigError) as caught:
        composer.cells(["model=brt", "workload.bach_size=3", "hardwre=local", "rebuil=never"])
    told = "\n".join(caught.value.problems)
    assert "model: there is no 'brt'. Did you mean 'bert'?" in told
    assert "workload.bach_size: unknown key. Did you mean 'batch_size'?" in told
    assert "hardwre: unknown key. Did you mean 'hardware'?" in told
    assert "rebuil: unknown key. Did you mean 'rebuild'?" in told


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        (
            "conversion=eager,inductor",
            "conversion=eager,inductor: several values are crossed with -m, "
            "or listed as conversion=[eager,inductor].",
        ),
        (
            "workload.batch_size=1,2",
            "workload.batch_size=1,2: several values are crossed with -m.",
        ),
    ],
)
def test_several_values_without_a_sweep_are_refused_with_the_flag(composer, word, problem):
    assert composer.problems(["model=mlp", word], sweep=False) == [problem]
    assert composer.problems(["model=mlp", word], sweep=True) == []


def test_a_key_of_hydras_own_is_no_further_mistake(composer):
    (problem,) = composer.problems(["model=brt", "hydra.run.dir=out"], sweep=False)
    assert problem.startswith("model: there is no 'brt'")


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("protocl.pin=false", "protocl.pin: unknown key. Did you mean 'protocol'?"),
        ("protocol.piin=false", "protocol.piin: unknown key. Did you mean 'pin'?"),
    ],
)
def test_a_misspelt_protocol_key_is_refused_with_the_one_that_was_meant(composer, word, told):
    (problem,) = composer.problems(["model=mlp", word], sweep=False)
    assert problem.startswith(told)


def test_the_protocol_can_be_set_for_every_cell_and_swept(composer):
    listed = lift_lists(["model=mlp", "conversion=[eager,onnxruntime]"], composer.groups)
    job = [*listed, f"each={spelled(['protocol.pin=false'])}"]
    pinned = [cell.config["protocol"]["pin"] for cell in composer.cells(job)]
    assert pinned == [False, False]
    jobs = sweep_jobs(["model=mlp", "conversion=eager", "protocol.repeats=0,3"], composer._loader)
    cells = [cell for job in jobs for cell in composer.cells(job)]
    assert combinations(cells, "protocol.repeats") == [("0",), ("3",)]


def test_the_users_directory_comes_before_the_built_in_one(tmp_path):
    (tmp_path / "workload").mkdir()
    (tmp_path / "workload" / "default.yaml").write_text(
        "{batch_size: 77, seq_len: 1, dtype: float32, seed: 0, dynamic: []}"
    )
    composer = Composer(config_loader([tmp_path]))
    cell = composer.cells(["model=mlp", "conversion=eager"])[0]
    assert cell.config["workload"]["batch_size"] == 77


@pytest.mark.parametrize("executor", ["process", "ec2"])
def test_a_thousand_cells_need_few_compositions(composer, monkeypatch, executor):
    composer = Composer(composer._loader)
    composed = []
    original = composer._loader.load_configuration
    monkeypatch.setattr(
        composer._loader,
        "load_configuration",
        lambda *a, **k: (composed.append(1), original(*a, **k))[1],
    )
    jobs = sweep_jobs(
        [
            f"executor={executor}",
            "model=mlp,bert,gpt2,vit",
            "conversion=eager,inductor,onnxruntime,aot_inductor,torchscript",
            "workload.batch_size=" + ",".join(map(str, range(1, 51))),
        ],
        composer._loader,
    )
    cells = [cell for job in jobs for cell in composer.cells(job)]
    assert len(cells) == 1000
    assert len(composed) < 80


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        (1.5, "1.5"),
        (None, "null"),
        (True, "true"),
        ("eager", "eager"),
        ("EXPORT+AOT_INDUCTOR", "EXPORT+AOT_INDUCTOR"),
        ("a b", "'a b'"),
        ("it's", r"'it\'s'"),
        ("größe", "'größe'"),
        ("/größe (1),x/r", "'/größe (1),x/r'"),
        ("a\n", "'a\n'"),
        ("a\\", r"'a\\'"),
        (r"\'", r"'\\\''"),
        (r"a\b", r"'a\b'"),
        ([1, "x y"], "[1,'x y']"),
        ({"a": 1}, "{a:1}"),
    ],
)
def test_values_are_spelled_as_hydra_reads_them(value, text):
    from hydra.core.override_parser.overrides_parser import OverridesParser

    assert spelled(value) == text
    assert OverridesParser.create().parse_override(f"k={text}").value() == value


@pytest.mark.parametrize("value", ["größe", "/tmp/größe/r", "./größe/x.npz", "../größe"])
def test_letters_that_are_not_ascii_need_no_quotes(value):
    assert parse_override(quoted(f"parity.data={value}")).value() == value


HUB = ("model=hub", "model.hub_id=a/b", "model.architecture=GPT2LMHeadModel", "conversion=eager")


@pytest.mark.parametrize("text", ["1234567", "7e38291", "1_000", "true"])
def test_text_that_looks_like_a_number_stays_text_where_its_key_takes_no_number(composer, text):
    matrix = f"++matrix={spelled({'model.revision': [text]}, exact=True)}"
    for job in ([*HUB, matrix], [*HUB, f"model.revision={text}"]):
        (cell,) = composer.cells(job)
        assert cell.config["model"]["revision"] == text
    assert composer.session([*HUB, f"name={text}"])["name"] == text


def test_a_key_that_takes_numbers_has_them_from_text(composer):
    axes = {"workload.batch_size": ["8", "1_6"], "hardware.threads": ["2"]}
    cells = composer.cells(
        [*HUB, f"++matrix={spelled(axes, exact=True)}", f"each={spelled(['model.revision=null'])}"]
    )
    assert [cell.config["workload"]["batch_size"] for cell in cells] == [8, 16]
    assert {cell.config["hardware"]["threads"] for cell in cells} == {2}
    assert {cell.config["model"]["revision"] for cell in cells} == {None}


@pytest.mark.parametrize("number", [1234567, 1.5, True])
def test_a_number_of_a_matrix_is_no_text(composer, number):
    (cell,) = composer.cells([*HUB, f"++matrix={spelled({'model.revision': [number]})}"])
    assert cell.config["model"]["revision"] == number


def test_texts_of_a_matrix_from_python_stay_texts():
    (word,) = keyword_overrides({"matrix": {"model.revision": ["1_000", "null"]}}, {})
    assert parse_override(word).value() == ["1_000", "null"]


def test_the_last_value_of_a_key_counts(composer):
    (cell,) = composer.cells(
        [*HUB, "model.revision=1234567", f"each={spelled(['model.revision=abc'])}"]
    )
    assert cell.config["model"]["revision"] == "abc"


@pytest.mark.parametrize("typed", [[], [f"each={spelled(['stopping.calls=50'])}"]])
def test_an_override_inside_an_open_choice_leaves_the_recipes_each_as_it_is(tmp_path, typed):
    each = "" if typed else "each: [stopping.calls=50, conversion.tolerance_ratio=0.1]\n"
    defaults = "defaults: [config, override model: mlp, override stopping: fixed, _self_]\n"
    (tmp_path / "mine.yaml").write_text(
        f"{defaults}matrix: {{conversion: [eager, inductor]}}\n{each}"
    )
    recipe = Composer(config_loader([tmp_path]), "mine")
    (job,) = recipe.jobs([*typed, "conversion.tolerance_ratio=0.5"])
    cells = recipe.cells(job)
    found = [
        (c.config["stopping"]["calls"], c.config["conversion"]["tolerance_ratio"]) for c in cells
    ]
    assert found == [(50, 0.5)] * 2


def test_an_override_inside_an_open_choice_replaces_an_axis_of_its_key(tmp_path):
    (tmp_path / "mine.yaml").write_text(
        "defaults: [config, override model: mlp, _self_]\n"
        "matrix: {conversion: [inductor], conversion.tolerance_ratio: [0.1, 0.2]}\n"
    )
    recipe = Composer(config_loader([tmp_path]), "mine")
    (job,) = recipe.jobs(["conversion.tolerance_ratio=0.5"])
    (cell,) = recipe.cells(job)
    assert cell.config["conversion"]["tolerance_ratio"] == 0.5


def test_no_key_of_a_recipe_passes_for_postponed_overrides(tmp_path):
    (tmp_path / "mine.yaml").write_text(
        "defaults: [config, override model: mlp, override conversion: inductor, _self_]\n"
        "postponed: [conversion.tolerance_ratio=0.7]\n"
    )
    recipe = Composer(config_loader([tmp_path]), "mine")
    (cell,) = recipe.cells([])
    assert cell.config["conversion"]["tolerance_ratio"] != 0.7
    with pytest.raises(ConfigError, match="postponed: unknown key"):
        plan_jobs(recipe, [[]], "an-id")
