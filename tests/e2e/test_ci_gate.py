"""What CI runs: a session joins the history, the next one is gated against it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CI = ROOT / "infra" / "ci"
RECIPE = """\
defaults: [config, override model: mlp, override stopping: fixed, override profiler: none, _self_]
name: gated
matrix: {conversion: [eager]}
stopping: {processes: 2, window_s: 0.05}
control: false
store: {root: store}
"""


@pytest.mark.slow
def test_the_first_session_passes_and_the_next_one_is_gated(tmp_path: Path) -> None:
    (tmp_path / "gated.yaml").write_text(RECIPE)
    own = {"RECIPE": "gated.yaml", "RECORD": "true", "LIMIT": "5000%", "HISTORY": "site"}
    own |= {"BENCHORCH": f"{sys.executable} -m benchorch", "XDG_STATE_HOME": str(tmp_path / "s")}
    own |= {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    told = []
    for recipe, code in (("", 0), ("", 0), (" conversion=[eager,tensorrt]", 1)):
        done = subprocess.run(
            ["bash", CI / "gate.sh"], cwd=tmp_path, capture_output=True, text=True, check=False,
            env={**os.environ, **own, "RECIPE": f"gated.yaml{recipe}"},
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        told.append(done.stdout)
    assert "this session is the first one" in told[0]
    assert "baseline" in told[1]
    assert len(list((tmp_path / "site" / "runs").glob("*.json"))) == 3
    assert (tmp_path / "summary.md").read_text().count("## benchorch gate: ") == 3


def test_the_action_the_job_and_the_hook_name_what_exists() -> None:
    action = yaml.safe_load((CI / "github" / "action.yml").read_text())
    *_, step = [step for step in action["runs"]["steps"] if "run" in step]
    assert step["run"] == 'bash "$GITHUB_ACTION_PATH/../gate.sh"'
    script = (CI / "gate.sh").read_text()
    for name in step["env"]:
        assert f"${{{name}" in script
    job = yaml.safe_load((CI / "gitlab.yml").read_text())[".benchorch-gate"]
    assert any("infra/ci/gate.sh" in line for line in job["script"])
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hook["entry"] == "benchorch plan --check"
    assert subprocess.run(["bash", "-n", CI / "gate.sh"], check=False).returncode == 0


def test_a_protected_branch_unpacks_no_cache_that_other_branches_write() -> None:
    job = yaml.safe_load((CI / "gitlab.yml").read_text())[".benchorch-gate"]
    assert "unprotect" not in job["cache"]


@pytest.mark.parametrize(
    ("branch", "sessions", "reported"),
    [("main", [], False), ("mine", [], True), ("mine", ["index.html"], False)],
)
def test_a_merge_request_without_sessions_of_the_main_branch_states_that(
    tmp_path: Path, branch: str, sessions: list[str], reported: bool
) -> None:
    job = yaml.safe_load((CI / "gitlab.yml").read_text())[".benchorch-gate"]
    (tmp_path / "history").mkdir()
    for name in sessions:
        (tmp_path / "history" / name).touch()
    own = {"HISTORY": "history", "CI_COMMIT_BRANCH": branch, "CI_DEFAULT_BRANCH": "main"}
    done = subprocess.run(
        ["bash", "-eu", "-c", job["script"][0]], cwd=tmp_path, capture_output=True, text=True,
        check=True, env={**os.environ, **own},
    )  # fmt: skip
    assert ("No session of main" in done.stdout) is reported


def test_each_recipe_of_a_workflow_run_and_each_job_of_a_pipeline_has_a_cache(
    tmp_path: Path,
) -> None:
    action = yaml.safe_load((CI / "github" / "action.yml").read_text())
    recipe, restore, _, save = action["runs"]["steps"]
    sums = [recipe_sum(recipe["run"], name, tmp_path) for name in ("a.yaml", "b.yaml x=[1, 2]")]
    assert len({*sums}) == 2
    assert all(re.fullmatch(r"sum=[\d-]+\n", one) for one in sums)  # a key has no comma
    assert save["with"]["key"] == restore["with"]["key"]
    own, earlier = restore["with"]["restore-keys"].split("\n")[:2]
    assert restore["with"]["key"].startswith(own)
    assert own.startswith("benchorch-${{ steps.recipe.outputs.sum }}-")
    assert not own.startswith(earlier)  # else it would take another recipe's
    job = yaml.safe_load((CI / "gitlab.yml").read_text())[".benchorch-gate"]
    assert job["cache"]["key"] == "benchorch-$CI_JOB_NAME_SLUG"


def recipe_sum(script: str, recipe: str, folder: Path) -> str:
    """What a step of the action, called with a recipe, hands on."""
    output = folder / "output"
    output.write_text("")
    own = {"RECIPE": recipe, "GITHUB_OUTPUT": str(output)}
    subprocess.run(["bash", "-e", "-c", script], env={**os.environ, **own}, check=True)
    return output.read_text()


def test_a_recipe_of_several_lines_is_run_with_every_word_of_them(tmp_path: Path) -> None:
    own = {"BENCHORCH": "echo", "RECIPE": "mine.yaml\n  model=mlp  a=1\nseed=2\n"}
    done = subprocess.run(
        ["bash", CI / "gate.sh"], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, **own},
    )  # fmt: skip
    assert done.stdout.startswith("run mine.yaml model=mlp a=1 seed=2 recorder=none hydra.run.dir=")
    assert done.returncode == 1  # for want of results


def test_a_gate_without_a_recipe_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", CI / "gate.sh"], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "BENCHORCH": "echo", "RECIPE": ""},
    )  # fmt: skip
    assert done.returncode != 0
    assert "the recipe to run" in done.stderr


PRETENDED = """\
#!/usr/bin/env bash
echo "$1" >>"$CALLS"
case $1 in
  run)
    for word; do
      case $word in hydra.run.dir=*) mkdir -p "${word#*=}"; touch "${word#*=}/results.jsonl";; esac
    done
    exit "$RAN";;
  gate) echo "$TOLD" >benchorch-gate.md; exit "$GATED";;
esac
"""


@pytest.mark.parametrize(
    ("ran", "gated", "own", "recorded", "code"),
    [
        ("0", "0", {}, True, 0),
        ("0", "1", {}, False, 1),
        ("0", "1", {"ACCEPT": "true"}, True, 1),
        ("1", "3", {}, False, 3),  # a trial newly fails or disagrees
        ("0", "3", {}, True, 3),  # the recipe or the packages are others
        ("0", "3", {"TOLD": "- missing: fast: B has no such trial."}, False, 3),
        ("0", "2", {}, False, 2),  # it was not judged
        ("1", "0", {}, True, 1),
        ("0", "4", {}, True, 0),
        ("0", "4", {"STRICT": "true"}, True, 1),
    ],
)
def test_a_session_that_is_worse_joins_the_history_only_where_it_is_accepted(
    tmp_path: Path, ran: str, gated: str, own: dict[str, str], recorded: bool, code: int
) -> None:
    program = tmp_path / "pretended"
    program.write_text(PRETENDED)
    program.chmod(0o755)
    own = {"RECIPE": "a.yaml", "RECORD": "true", "BENCHORCH": str(program), "TOLD": "", **own}
    own |= {"CALLS": str(tmp_path / "calls"), "RAN": ran, "GATED": gated}
    done = subprocess.run(
        ["bash", CI / "gate.sh"], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, **own},
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert ("history" in (tmp_path / "calls").read_text().split()) is recorded


def _workflow() -> dict[str, object]:
    """A workflow whose steps are those that the guide shows."""
    steps = _shown("# GitHub: a composite action")
    jobs = {"gate": {"runs-on": "ubuntu-latest", "steps": steps}}
    return {"on": {"pull_request": None}, "jobs": jobs}


def _shown(first_line: str) -> object:
    """The YAML of the guide that begins with this line."""
    guide = (ROOT / "docs" / "guides" / "ci.md").read_text()
    (found,) = (block for block in guide.split("```yaml\n")[1:] if block.startswith(first_line))
    return yaml.safe_load(found.partition("```")[0])


def _valid(schema: str, content: object, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """What the schema of a CI service, which check-jsonschema ships, says of a file."""
    path = tmp_path / "checked.yml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_templates_fit_the_schemas_of_the_services(tmp_path: Path) -> None:
    action = (CI / "github" / "action.yml").read_text()
    # As a job: what a dot hides, the schema does not look into.
    job = (CI / "gitlab.yml").read_text().replace("\n.benchorch-gate:", "\nbenchmark:")
    for schema, content in (
        ("vendor.github-actions", action),
        ("vendor.github-workflows", _workflow()),
        ("vendor.gitlab-ci", job),
    ):
        done = _valid(schema, content, tmp_path)
        assert done.returncode == 0, done.stdout
    for schema, content, right, wrong in (
        ("vendor.github-actions", action, "using: composite", "using: compsite"),
        ("vendor.gitlab-ci", job, "when: always", "when: allways"),
    ):
        assert right in content
        assert _valid(schema, content.replace(right, wrong), tmp_path).returncode == 1
