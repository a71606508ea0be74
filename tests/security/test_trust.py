"""Only code that the user names runs; what a stranger's file names is refused with a reason."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchorch.domain.tensors import Workload
from benchorch.domain.trial import Plan, Trial
from benchorch.errors import BuildError, ConfigError
from benchorch.models import trust
from benchorch.models.callables import callable_problems, reference_problems, resolve_callable
from benchorch.models.http import HttpModel

RECIPE = """
defaults:
  - config
  - override model: factory
  - override stopping: quick
  - override recorder: none
  - override profiler: none
  - override conversion: eager
  - _self_
baseline: null
model:
  factory: {factory}
  arguments: {arguments}
  inputs: {{x: {{shape: [batch_size, 4], generator: normal}}}}
"""
OPEN_BEFORE = (
    *("psutil:Popen", "torch.utils.collect_env:run", "torch.hub:load", "torch:hub.load"),
    *("numpy.testing:runstring", "numpy.testing._private.utils:runstring", "numpy.testing:measure"),
    *("sympy:sympify", "yaml:unsafe_load", "torch.utils.cpp_extension:load_inline"),
    *("torch:ops.load_library", "numpy.ctypeslib:load_library", "mako.template:Template"),
    *(
        "numpy.lib.format:read_array",
        "torch.serialization:_legacy_load",
        "mlflow.pyfunc:load_model",
    ),
    *("hydra._internal.instantiate._instantiate2:instantiate_node", "benchorch.cli.run:benchmark"),
    *("omegaconf:OmegaConf.register_new_resolver", "torch:load", "numpy:load", "torch.jit:load"),
)
MINE = """
import os
import torch
from numpy.testing import runstring
from psutil import Popen

def make():
    return torch.nn.Linear(4, 2)

class Net(torch.nn.Linear):
    pass
"""


@pytest.fixture(autouse=True)
def _mine_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests have a module of that name, in folders of theirs."""
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if "pytest-of" not in place])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that was downloaded: a recipe, and code beside it."""
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "evil.yaml").write_text(RECIPE.format(factory="mine:make", arguments="{}"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = list(sys.path)
    yield tmp_path
    sys.path[:] = path
    sys.modules.pop("mine", None)


@pytest.fixture
def foreign(place: Path) -> Iterator[None]:
    with trust.declared(["evil.yaml"]):
        yield


@pytest.mark.usefixtures("foreign")
@pytest.mark.parametrize("reference", OPEN_BEFORE)
def test_an_installed_function_is_not_called(reference: str) -> None:
    pytest.importorskip(reference.partition(":")[0].partition(".")[0])
    with pytest.raises(BuildError, match=r"may not be called|raised"):
        resolve_callable(reference)


@pytest.mark.usefixtures("foreign")
def test_an_installed_class_of_modules_is() -> None:
    assert not callable_problems("model.factory", "torch.nn:Linear", {})
    assert resolve_callable("torch.nn:Linear").__name__ == "Linear"


@pytest.mark.usefixtures("foreign")
@pytest.mark.parametrize("reference", ["mine:make", "mine.py:make", "./mine.py:Net"])
def test_code_beside_a_downloaded_recipe_is_refused_with_the_command(reference: str) -> None:
    (problem,) = reference_problems("model.factory", reference)
    assert f"add --trust {Path.cwd()}/mine.py" in problem
    with pytest.raises(BuildError, match="--trust"):
        resolve_callable(reference)
    assert "mine" not in sys.modules


@pytest.mark.parametrize(
    "words",
    [
        ["evil.yaml", "--trust", "mine.py"],
        ["evil.yaml", "--trust=."],
        ["model=factory", "model.factory=mine:make"],
        ["each=[model.factory=mine:make,model=mlp]"],
    ],
)
def test_what_the_command_line_names_runs(place: Path, words: list[str]) -> None:
    with trust.declared(words):
        assert reference_problems("model.factory", "mine:make") == []
        trust.look_in([str(place)])
        assert resolve_callable("mine:make")() is not None


@pytest.mark.parametrize("word", ["model.factory=mine:maker", "x=not_mine:make", "x=a.mine:make"])
@pytest.mark.usefixtures("place")
def test_a_part_of_a_word_names_nothing(word: str) -> None:
    with trust.declared(["evil.yaml", word]):
        assert trust.refusal("mine:make")


@pytest.mark.parametrize("attribute", ["os.system", "runstring", "Popen", "torch.hub.load"])
def test_a_trusted_file_does_not_open_what_it_imports(place: Path, attribute: str) -> None:
    trust.look_in([str(place)])
    with trust.declared(["--trust", "."]), pytest.raises(BuildError, match="may not be called"):
        resolve_callable(f"mine:{attribute}")


def test_an_installed_function_runs_where_it_is_named() -> None:
    with trust.declared(["--trust", "torch.nn.utils:parameters_to_vector"]):
        assert callable(resolve_callable("torch.nn.utils:parameters_to_vector"))
    with trust.declared(["x=torch.nn.utils:parameters_to_vector"]), pytest.raises(BuildError):
        resolve_callable("torch.nn.utils:parameters_to_vector")


def test_a_recipe_of_the_users_own_work_tree_may_name_its_code(place: Path) -> None:
    subprocess.run(["git", "init", "-q", "."], check=True)
    with trust.declared(["evil.yaml"]):
        assert not trust.refusal("mine:make")
    outside = place.parent / "outside.yaml"
    outside.write_text("")
    with trust.declared([str(outside)]):
        assert trust.refusal("mine:make")


def test_a_link_in_the_work_tree_does_not_lead_out_of_it(place: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    subprocess.run(["git", "init", "-q", tree], check=True)
    (tree / "mine.py").symlink_to(place / "mine.py")
    (tree / "a.yaml").write_text("")
    os.chdir(tree)
    with trust.declared(["a.yaml"]):
        assert trust.refusal("mine.py:make")


def test_a_path_to_trust_must_exist() -> None:
    with pytest.raises(ConfigError, match="there is no"), trust.declared(["--trust", "nowhere.py"]):
        pass


def test_a_trials_process_runs_nothing_that_did_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust, "_policy", trust._policy)
    monkeypatch.setenv(trust.VARIABLE, "{}")
    trust.obey()
    assert trust.refusal("mine:make")


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchorch", *words], capture_output=True, text=True, timeout=120
    )


def test_a_recipe_runs_no_command(place: Path) -> None:
    marker = place / "marker"
    arguments = f"{{args: 'touch {marker}', shell: true}}"
    (place / "evil.yaml").write_text(RECIPE.format(factory="psutil:Popen", arguments=arguments))
    done = command("evil.yaml")
    assert not marker.exists()
    assert done.returncode != 0
    assert "psutil:Popen" in done.stdout + done.stderr


SETTINGS = ("trust: [{here}]", "trust: ['mine:make']", "trust: [{here}/mine.py]")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own settings file, whose folder is there."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = tmp_path / "config" / "benchorch" / "settings.yaml"
    path.parent.mkdir(parents=True)
    return path


@pytest.mark.parametrize("text", SETTINGS)
def test_what_the_users_settings_name_runs(place: Path, settings: Path, text: str) -> None:
    settings.write_text(text.format(here=place))
    with trust.declared(["recipe.yaml"]):
        assert not trust.refusal("mine:make")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("trust: [models]", "must be an absolute path"),
        ("trust: ~/models", "must be a list of texts"),
        ("trusted: [~/models]", "'trusted' is not one of trust, keys"),
        ("keys: ['ed25519:0']", "benchorch cache key"),
        ("[1, 2]", "expected trust and keys"),
        ("{", "settings.yaml:2:1: did not find expected node content"),
        ("&a [*a]", "within what it names"),
    ],
)
def test_settings_that_make_no_sense_end_with_a_sentence(
    settings: Path, text: str, why: str
) -> None:
    settings.write_text(text)
    with pytest.raises(ConfigError, match=re.escape(why)), trust.declared([]):
        pass


def test_settings_that_others_may_write_are_not_read(settings: Path) -> None:
    settings.write_text("trust: [/]")
    settings.chmod(0o666)
    with pytest.raises(ConfigError, match="chmod go-w"), trust.declared([]):
        pass


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_settings_in_a_folder_that_others_may_write_are_not_read(settings: Path, mode: int) -> None:
    settings.write_text("trust: [/]")
    settings.parent.chmod(mode)
    with pytest.raises(ConfigError, match="chmod go-w"), trust.declared([]):
        pass


@pytest.mark.parametrize(
    "name", ["a mine:make.yaml", "x,mine:make,.yaml", "a mine:make/r.yaml", "x=mine:make"]
)
@pytest.mark.parametrize("form", ["{}", "--config-dir={}", "resume={}", "--output {}"])
def test_the_name_of_a_strangers_file_names_no_code(place: Path, name: str, form: str) -> None:
    path = place / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    words = [word.format(name) for word in form.split()]
    with trust.declared(["evil.yaml", *words]):
        assert trust.refusal("mine:make")


def test_the_name_of_a_strangers_recipe_lets_no_variable_in(place: Path) -> None:
    name = "a oc.env:SOME_VARIABLE.yaml"
    (place / name).write_text("name: ${oc.env:SOME_VARIABLE}")
    with trust.declared([name]):
        assert trust._withholds("SOME_VARIABLE")


def test_a_home_that_is_a_work_tree_is_not_the_users_own(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "-q", "."], check=True)
    monkeypatch.setenv("HOME", str(place))
    with trust.declared(["evil.yaml"]):
        assert trust.refusal("mine:make")


ADDRESS = "http://127.0.0.1:9/predict"


def endpoint(url: str = ADDRESS, key: str = "plain") -> HttpModel:
    return HttpModel(
        url=url, inputs={}, body={"x": 1}, checkpoint=None, kwargs={}, headers={"key": key}
    )


@pytest.mark.parametrize("words", [["evil.yaml"], ["evil.yaml", "model.url=http://127.0.0.1:99"]])
@pytest.mark.usefixtures("place")
def test_a_downloaded_recipe_sends_nothing_to_an_address_of_its_own(words: list[str]) -> None:
    with trust.declared(words):
        (problem,) = endpoint().problems(Workload(symbols={}))
        assert problem.startswith("model.url:")
        assert f"add --trust {ADDRESS}" in problem
        for url in (ADDRESS, f" {ADDRESS}", ADDRESS.replace("http", "HTTP")):
            with pytest.raises(BuildError, match="No request is sent"):
                endpoint(url).load(0)


@pytest.mark.parametrize(
    "words",
    [
        ["model=http", f"model.url={ADDRESS}"],
        ["evil.yaml", "--trust", ADDRESS],
        ["evil.yaml", "--trust", "evil.yaml"],
    ],
)
@pytest.mark.usefixtures("place")
def test_an_address_that_the_user_names_is_asked(words: list[str]) -> None:
    with trust.declared(words):
        assert endpoint().problems(Workload(symbols={})) == []


@pytest.mark.usefixtures("place")
def test_a_trusted_address_lets_no_variable_out_that_a_strangers_recipe_names() -> None:
    secret = endpoint(key="env:HOME")
    with trust.declared(["evil.yaml", "--trust", ADDRESS]):
        (problem,) = secret.problems(Workload(symbols={}))
        assert problem.startswith("model.headers.key:")
    with trust.declared(["evil.yaml", "--trust", "evil.yaml"]):
        assert secret.problems(Workload(symbols={})) == []


def test_a_trials_process_sends_requests_where_they_may_go(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = Trial(trial_id="0", labels={}, spec={"model": {"url": ADDRESS}})
    session = {"cwd": str(Path.cwd()), "rebuild": "never", "store": {}, "search_path": []}
    plan = Plan(plan_id="p", name="n", trials=(trial,), skips=(), session=session)
    for words, may in ([f"model.url={ADDRESS}"], True), (["x=y"], False):
        with trust.declared(words):
            told = trust.variables(trust.session_of(plan, Path.cwd()))
        monkeypatch.setattr(trust, "_policy", trust._policy)
        monkeypatch.setenv(trust.VARIABLE, told[trust.VARIABLE])
        trust.obey()
        assert (trust.refusal(ADDRESS) == "") is may
