"""Terraform gets the variables that are typed behind make; what it rejects is not kept."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

import provision
import stack_leftovers
import stack_machines
from account_checks.requested import stack_request
from benchorch.interfaces.stack import Refusal
from stack_home import Home, Settings, find_home
from support.aws_emulator.server import Emulator

ROOT = Path(__file__).resolve().parents[2]
FLEET = '{"g5.xlarge"=1,"r6i.large"=2}'


@pytest.fixture
def words_of_make(tmp_path: Path):
    """What make gives the script, by a shell."""
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    program = "import json, sys; print(json.dumps(sys.argv[1:]))"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{program}" "$@"\n')
    python.chmod(0o755)

    def run(shell: str, target: str, arguments: str) -> list[str]:
        made = subprocess.run(
            ["make", "-s", "-o", f"{tmp_path}/.installed", target, f"VENV={tmp_path}",
             f"SHELL={shell}", f"ARGS={arguments}"],
            cwd=ROOT, capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        return json.loads(made.stdout)

    return run


@pytest.fixture
def terraform() -> None:
    if shutil.which("terraform") is None:
        pytest.skip("SKIPPED: terraform is not installed")


def sh_that_is_bash(folder: Path) -> str:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    (folder / "sh").symlink_to(bash)
    return str(folder / "sh")


@pytest.mark.parametrize("target", ["provision", "provision-plan", "provision-check"])
@pytest.mark.parametrize("is_bash", [False, True])
@pytest.mark.parametrize(
    "typed", [f"--var fleet={FLEET} --var email=me@example.org", f"--var 'fleet={FLEET}'"]
)
def test_a_fleet_that_is_typed_behind_make_is_what_terraform_is_given(
    words_of_make, tmp_path: Path, target: str, is_bash: bool, typed: str
) -> None:
    shell = sh_that_is_bash(tmp_path) if is_bash else "/bin/sh"
    words = words_of_make(shell, target, typed)
    [fleet] = [word for word in words if word.startswith("fleet=")]
    settings = Settings().updated({"fleet": fleet.removeprefix("fleet=")})
    assert list(provision._variables(settings)) == [f"-var=fleet={FLEET}"]
    assert stack_request("lab", "", [fleet]).fleet == {"g5.xlarge": 1, "r6i.large": 2}


def test_a_variable_that_terraform_rejects_is_not_kept_with_the_stack(
    terraform, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("moto", reason="moto stands in for AWS")
    with Emulator({}).running() as emulator:
        for name, value in emulator.environment().items():
            monkeypatch.setenv(name, value)
        assert provision.main(["apply", "--yes", "--var", "ttl_minutes=1"]) == 1
        assert "ttl_minutes must be from 10 to 2880" in capfd.readouterr().err
        assert find_home().settings("benchorch") is None


def test_the_clusters_token_is_not_kept_with_the_stacks_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = Namespace(name="lab", var=["running=false", "ray_token=hunter2"])
    with pytest.raises(ValueError, match="TF_VAR_ray_token") as error:
        provision._wanted(options, None)
    assert "hunter2" not in str(error.value)
    monkeypatch.setenv("TF_VAR_ray_token", "hunter2")
    assert provision._environment()["TF_VAR_ray_token"] == "hunter2"


@pytest.mark.parametrize(
    ("variables", "is_valid"),
    [
        ({"fleet": "{g5.xlarge=1}", "markets": "[spot]", "night_stop": "0 3 * * *"}, True),
        ({"image_parameters": "{gpu=/own/gpu}", "running": "false"}, True),
        ({"fleet": "{g5.xlarge=0}"}, False),
        ({"flete": FLEET}, False),
    ],
)
def test_terraform_examines_the_variables_before_anything_is_made(
    terraform, variables: dict[str, str], is_valid: bool
) -> None:
    settings = Settings().updated(variables)
    assert (provision._examined(settings, "lab") == 0) is is_valid


def test_a_token_that_an_earlier_version_kept_is_not_kept_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    before = Settings(region="eu-west-1", variables={"ray_token": "s", "ttl_minutes": "60"})
    wanted = provision._wanted(Namespace(var=["email=me@example.org"], name="lab"), before)
    assert wanted.variables == {"ttl_minutes": "60", "email": "me@example.org"}


def test_a_stack_whose_images_have_ended_is_removed_without_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Terraform looks up an image that is named, and ends where there is none."""
    home = Home(account="123456789012", region=None)
    kept: list[Settings] = []

    def removed(_: object, __: object, settings: Settings) -> int:
        kept.append(settings)
        return 1

    monkeypatch.setattr(Home, "remember", lambda _, name, settings: kept.append(settings))
    monkeypatch.setattr(stack_leftovers, "regions", lambda _: (["eu-west-1"], []))
    monkeypatch.setattr(stack_leftovers, "find", lambda *_: [])
    monkeypatch.setattr(provision, "_removed", removed)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    variables = {"ttl_minutes": "60", "baked_images": '{"cpu-x86_64": "ami-1"}'}
    settings = Settings(region="eu-west-1", variables=variables)
    options = Namespace(name="lab", var=[], yes=True)
    assert provision._destroy(options, home, settings) == 1
    assert [one.variables for one in kept] == [{"ttl_minutes": "60"}] * 2
    assert kept[0].destroying_since


@pytest.mark.parametrize("name", ["aws-bench", "ssmart", "sg-1", "xn--lab", "benchorch-stacks"])
def test_a_name_that_aws_refuses_is_refused_before_anything_is_made(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with pytest.raises(ValueError, match=f"a stack named {name}.*STACK=ANOTHER-NAME"):
        provision._wanted(Namespace(name=name, var=[]), None)
    half_made = Settings(region="us-east-1")
    assert provision._wanted(Namespace(name=name, var=[]), half_made).region == "us-east-1"


@pytest.mark.parametrize("what", ["plan", "apply", "image", "status", "destroy"])
def test_a_path_is_no_name_of_a_stack_and_its_folder_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        provision.main([what, "--name", str(tmp_path)])
    assert ended.value.code == 2
    assert "expected 3 to 31 lower case letters" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("may_pass", "comes", "code", "said"),
    [
        (True, True, 0, ""),
        (True, False, 0, "The head is not launched yet, and AWS tries again: no m7i.large\n"),
        (False, True, 1, "The head is not launched: no m7i.large\n"),
    ],
)
def test_a_launch_that_the_group_tries_in_another_zone_is_no_failure(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    may_pass: bool,
    comes: bool,
    code: int,
    said: str,
) -> None:
    now_s = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    def machines(*_: object) -> list[Namespace]:
        return [Namespace(role="head")] if comes and now_s > 30 else []

    refused = Refusal("a-1", "no m7i.large", may_pass)
    monkeypatch.setattr(stack_machines, "machines", machines)
    monkeypatch.setattr(provision, "_refused", lambda *_: refused)
    monkeypatch.setattr(provision, "time", Namespace(sleep=sleep, monotonic=lambda: now_s))
    assert provision._await_head(Namespace(name="lab"), Settings(), None) == code
    told = capsys.readouterr()
    assert told.out + told.err == said


def test_a_removal_that_nobody_can_confirm_changes_nothing_and_says_how(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in a job of CI, or with its input closed."""
    monkeypatch.setattr(stack_leftovers, "regions", lambda _: (["eu-west-1"], []))
    monkeypatch.setattr(stack_leftovers, "find", lambda *_: [])
    monkeypatch.setattr("sys.stdin", io.StringIO())
    home = Home(account="123456789012", region=None)
    options = Namespace(name="lab", var=[], yes=False)
    assert provision._destroy(options, home, Settings(region="eu-west-1")) == 1
    out = capsys.readouterr().out
    assert "make destroy ARGS=--yes" in out
    assert out.endswith("Nothing was changed.\n")
