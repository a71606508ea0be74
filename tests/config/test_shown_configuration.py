"""``--cfg``: what Hydra itself prints, from a single composition."""

from pathlib import Path

import pytest

from benchorch.cli import run as cli_run
from benchorch.cli.arguments import parse
from benchorch.cli.shown_configuration import requested
from benchorch.cli.terminal import Terminal
from benchorch.config import composer, diagnostics
from benchorch.errors import ConfigError
from support.slices import one_in

SHOWN = [
    ("--cfg", "job"),
    ("--cfg", "hydra"),
    ("-c", "all"),
    ("--cfg=job", "--package", "model", "model=bert"),
    ("--cfg", "job", "--resolve", "hardware=g5"),
    ("--cfg", "job", "-p", "workload.batch_size", "workload.batch_size=3"),
    ("--cfg", "hydra", "hydra.job.name=mine"),
]


def printed(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> str:
    assert cli_run.benchmark(parse(words), Terminal()) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("words", one_in(2, [(words,) for words in SHOWN]), ids=" ".join)
def test_hydra_prints_the_same(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = printed(capsys, words)
    monkeypatch.setattr(cli_run, "_only_shown", lambda *_: None)
    assert printed(capsys, words) == ours
    assert len(ours) > 1


def test_a_command_leaves_its_directories_to_no_later_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.yaml").write_text("defaults: [config, _self_]\n")
    monkeypatch.setattr(cli_run, "_only_shown", lambda *_: None)
    assert str(tmp_path) in printed(capsys, (str(tmp_path / "mine.yaml"), "--cfg", "hydra"))
    assert str(tmp_path) not in printed(capsys, ("--cfg", "hydra"))
    assert str(tmp_path) not in str(composer.config_loader().get_search_path().get_path())


def test_the_configuration_is_composed_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    composed = []

    def load(loader, name, overrides, **settings):
        composed.append(overrides)
        return diagnostics.load(loader, name, overrides, **settings)

    monkeypatch.setattr(composer, "load", load)
    printed(capsys, ("--cfg", "job", "model=bert", "conversion=eager"))
    assert composed == [("model=bert", "conversion=eager")]


@pytest.mark.parametrize("flags", [["--info", "config"], ["--cfg", "job", "-m"], ["--resolve"]])
def test_other_flags_are_hydras(flags: list[str]) -> None:
    assert requested([*flags, "model=bert"]) is None


def test_every_mistake_is_named() -> None:
    words = ("--cfg", "job", "model=brt", "workload.batch_sise=3")
    with pytest.raises(ConfigError) as raised:
        cli_run.benchmark(parse(words), Terminal())
    assert [problem.partition(":")[0] for problem in raised.value.problems] == [
        "model",
        "workload.batch_sise",
    ]


def test_callbacks_are_refused(tmp_path: Path) -> None:
    recipe = tmp_path / "calls.yaml"
    recipe.write_text(
        "defaults: [config, _self_]\nhydra: {callbacks: {mine: {_target_: os.system}}}\n"
    )
    with pytest.raises(ConfigError, match=r"hydra\.callbacks: is not for recipes"):
        cli_run.benchmark(parse((str(recipe), "--cfg", "job")), Terminal())


def test_a_run_in_a_folder_of_hydras_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"hydra\.job\.chdir: is not for runs"):
        cli_run.benchmark(parse(("model=mlp", "hydra.job.chdir=true")), Terminal())


def test_what_cannot_be_resolved_is_a_problem(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--cfg", "hydra", "--resolve", "hydra.run.dir=${nowhere}")
    with pytest.raises(ConfigError, match="'nowhere' not found"):
        cli_run.benchmark(parse(words), Terminal())
    assert capsys.readouterr().out == ""
