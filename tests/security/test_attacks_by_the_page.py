"""Attacks by someone who has read SECURITY.md and nothing else."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest

from security.bypass.planted import CODE, plant
from support.command_lines import Commands, Done
from support.slices import one_in

SECRET = "hunter2-of-the-environment"
HEAD = """
defaults:
  [config, override model: mlp, override recorder: none, override profiler: none{more}, _self_]
baseline: null
"""
PLAN = ("plan", "theirs.yaml")


def recipe(text: str, *chosen: str, conversion: str = "eager") -> str:
    more = "".join(f", override {choice}" for choice in chosen)
    return HEAD.format(more=more) + f"matrix: {{conversion: [{conversion}]}}\n{text}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "evil.sh").write_text(f"#!/bin/sh\ntouch '{tmp_path}/marker'\n")
    (folder / "evil.sh").chmod(0o755)
    return folder


def attacked(commands: Commands, folder: Path, words: tuple[str, ...], cpu_s: int = 60) -> Done:
    """The command's end; nothing of the folder ran, and no traceback is shown."""
    places = ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "BENCHORCH_CACHE_DIR")
    own = {name: str(folder.parent / "home" / name) for name in places}
    done = commands.run(folder, words, cpu_s, environment={**os.environ, "MY_TOKEN": SECRET, **own})
    assert not (folder.parent / "marker").exists(), done.output
    assert "Traceback (most recent call last)" not in done.output, done.output
    assert done.code >= 0, f"killed by signal {-done.code}: {done.output[-500:]}"
    assert SECRET not in done.output
    return done


PROGRAMS = {
    "a compiler by an option of Inductor's": recipe(
        "conversion: {steps: {inductor: {options: {cpp.cxx: ['@D/evil.sh']}}}}",
        conversion="inductor",
    ),
    "a compiler by an option of AOTInductor's": recipe(
        "conversion: {steps: {aot_inductor: {options: {cpp.cxx: ['@D/evil.sh']}}}}",
        conversion="aot_inductor",
    ),
    "a library of custom operators": recipe(
        "conversion: {runtime: {custom_ops_library: '@D/evil.so', options: {}}}",
        conversion="onnxruntime",
    ),
    "a logger's handler": recipe(
        "hydra: {job_logging: {version: 1, handlers: {x: {(): os.mkdir, path: '@D/../marker'}}, "
        "root: {handlers: [x]}}}"
    ),
    "a variable for a trial's process": recipe(
        "hydra: {job: {env_set: {LD_PRELOAD: '@D/evil.so', CXX: '@D/evil.sh'}}}"
    ),
    "a copied variable": recipe("hydra: {job: {env_copy: [MY_TOKEN]}}"),
    "a variable whose name another key holds": recipe(
        "objective: MY_TOKEN\nname: 'x-${oc.env:${objective}}'"
    ),
    "a callback of Hydra's": recipe(
        "hydra: {callbacks: {x: {_target_: os.mkdir, path: '@D/../marker'}}}"
    ),
    "a search path": recipe("hydra: {searchpath: ['file://@D', 'pkg://os']}"),
    "a launcher": recipe("hydra: {launcher: {_target_: os.mkdir, path: '@D/../marker'}}"),
    "a store by interpolation": recipe("store: ${model.kwargs}\nmodel: {kwargs: {root: '@D/x'}}"),
    "a tracker by interpolation": recipe("recorder: {uri: '${name}'}\nname: 'http://127.0.0.1:1'"),
    "a step of the recipe's own": recipe(
        "conversion: {steps: {x: {_target_: os.mkdir, path: '@D/../marker'}}}"
    ),
}
RUN = (
    *("stopping=fixed", "stopping.processes=1", "stopping.window_s=0.05", "hydra.run.dir=out"),
    "protocol.canary_tolerance_ratio=null",
)


@pytest.mark.parametrize("case", one_in(3, PROGRAMS))
def test_a_recipe_chooses_nothing_that_runs(case: str, commands: Commands, folder: Path) -> None:
    (folder / "theirs.yaml").write_text(PROGRAMS[case].replace("@D", str(folder)))
    done = attacked(commands, folder, PLAN)
    assert done.code == 2, done.output


def test_a_component_among_a_models_arguments_is_data(commands: Commands, folder: Path) -> None:
    node = f"{{_target_: os.mkdir, path: '{folder.parent}/marker'}}"
    (folder / "theirs.yaml").write_text(recipe(f"model: {{kwargs: {{activation: {node}}}}}"))
    assert attacked(commands, folder, ("theirs.yaml", *RUN), 120).code in (1, 2)


@pytest.mark.parametrize(
    ("group", "header", "body"),
    one_in(
        2,
        [
            ("model", "hydra.job_logging", "handlers: {x: {(): os.mkdir, path: '@M'}}\nversion: 1"),
            ("workload", "recorder", "uri: http://127.0.0.1:1"),
            ("stopping", "_global_", "executor: {address: 'ray://127.0.0.1:1'}"),
            ("scenario", "_global_", "hydra: {run: {dir: '@D/../victim'}}"),
        ],
    ),
)
def test_a_group_file_beside_the_recipe_is_moved_nowhere(
    group: str, header: str, body: str, commands: Commands, folder: Path
) -> None:
    """Its header places it at a node that the recipe itself may not set."""
    (folder / group).mkdir()
    marker = str(folder.parent / "marker")
    body = body.replace("@M", marker).replace("@D", str(folder))
    (folder / group / "evil.yaml").write_text(f"# @package {header}\n{body}\n")
    (folder / "theirs.yaml").write_text(
        recipe("").replace(", _self_", f", {group}@x: evil, _self_")
    )
    done = attacked(commands, folder, PLAN)
    assert done.code == 2, done.output


EXPRESSION = "__import__('os').mkdir('@M')"


@pytest.mark.parametrize(
    "text",
    one_in(
        2,
        [
            'model: {inputs: {input: {shape: ["@E", 8], generator: normal}}}',
            'objective: "@E"',
            'budget: {minutes: "@E"}',
            'limits: {memory_gib: "@E"}',
            'workload: {batch_size: "@E", dynamic: {batch_size: "@E"}}',
            'parity: {metric: "@E", task: "@E"}',
            'each: ["workload.batch_size=@E"]',
        ],
    ),
)
def test_text_of_a_recipe_is_not_evaluated(text: str, commands: Commands, folder: Path) -> None:
    expression = EXPRESSION.replace("@M", str(folder.parent / "marker"))
    (folder / "theirs.yaml").write_text(recipe(text.replace("@E", expression)))
    done = attacked(commands, folder, PLAN)
    if done.code == 0:  # then it must be refused where it would be used
        done = attacked(commands, folder, ("theirs.yaml", "stopping=quick"), 120)
    assert done.code != 0, done.output


def test_a_table_without_end_in_a_profile_is_refused(commands: Commands, folder: Path) -> None:
    with sqlite3.connect(folder / "trace.sqlite") as base:
        for name in ("CUPTI_ACTIVITY_KIND_KERNEL", "StringIds", "META_DATA_EXPORT"):
            base.execute(
                f"CREATE VIEW {name} AS WITH RECURSIVE t(id, value, start, end, name) AS "
                "(SELECT 1, 'x', 1, 2, 'y' UNION ALL SELECT id + 1, value, start, end, name "
                "FROM t) SELECT * FROM t"
            )
    done = attacked(commands, folder, ("analyze", "trace.sqlite"), 30)
    assert done.code != 0, done.output


def test_a_trace_that_expands_without_end_is_refused(commands: Commands, folder: Path) -> None:
    with gzip.open(folder / "trace.json.gz", "wb") as file:
        file.write(b'{"traceEvents": [')
        for _ in range(300):
            file.write(b" " * 2**20)
        file.write(b"]}")
    done = attacked(commands, folder, ("analyze", "trace.json.gz"), 30)
    assert done.code != 0, done.output


def test_input_sets_are_read_without_pickles(commands: Commands, folder: Path) -> None:
    import numpy as np

    from security.bypass.planted import Evil

    marker = folder.parent / "marker"
    np.savez(folder / "sets.npz", input=np.array([Evil(marker)], dtype=object))
    (folder / "theirs.yaml").write_text(recipe(f"parity: {{data: '{folder}/sets.npz'}}"))
    words = ("theirs.yaml", "stopping=quick", "hydra.run.dir=out")
    assert attacked(commands, folder, words, 120).code != 0


@pytest.fixture
def own(folder: Path) -> Path:
    """The user's own work tree, beside a stranger's folder."""
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    theirs = folder.parent / "theirs"
    theirs.mkdir()
    (theirs / "evil.py").write_text(CODE.format(marker=str(folder.parent / "marker")))
    inputs = "inputs: {x: {shape: [3, 4], generator: normal}}"
    text = recipe(f"model: {{factory: 'evil.py:make', {inputs}}}").replace("mlp", "factory")
    (theirs / "theirs.yaml").write_text(text)
    return folder


@pytest.mark.parametrize("words", [("theirs.yaml",), ("vendor/theirs.yaml",)])
def test_a_link_in_ones_tree_does_not_make_the_recipe_ones_own(
    words: tuple[str, ...], commands: Commands, own: Path
) -> None:
    (own / "vendor").symlink_to(own.parent / "theirs")
    (own / "theirs.yaml").symlink_to(own.parent / "theirs" / "theirs.yaml")
    shutil.copy(own.parent / "theirs" / "evil.py", own / "evil.py.txt")
    done = attacked(commands, own, (*words, *RUN), 120)
    assert done.code != 0, done.output


def test_a_repository_inside_ones_tree_is_another_tree(commands: Commands, own: Path) -> None:
    shutil.copytree(own.parent / "theirs", own / "nested")
    subprocess.run(["git", "init", "-q", str(own / "nested")], check=True)
    done = attacked(commands, own, ("nested/theirs.yaml", *RUN), 120)
    assert done.code != 0, done.output


def test_a_bare_repository_inside_a_folder_runs_nothing(commands: Commands, folder: Path) -> None:
    """Git takes a folder that looks like a repository for one, its configuration included."""
    program = folder / "evil.sh"
    config = (
        f"[core]\nrepositoryformatversion = 0\nbare = false\nworktree = {folder}\n"
        f"fsmonitor = {program}\n[diff]\nexternal = {program}\n"
    )
    for name, text in {"config": config, "HEAD": "ref: refs/heads/main\n"}.items():
        (folder / name).write_text(text)
    for name in ("objects", "refs/heads"):
        (folder / name).mkdir(parents=True)
    (folder / "theirs.yaml").write_text(recipe(""))
    attacked(commands, folder, PLAN)
    done = attacked(commands, folder, ("theirs.yaml", *RUN, "executor=inline"), 120)
    assert done.code == 0, done.output


@pytest.mark.parametrize("letter", one_in(3, "\u202e\x9b\u2066\u200b\u2028\u2060\ufeff\U000e0041"))
def test_letters_that_nobody_sees_or_that_reorder_a_line_are_written_out(
    letter: str, commands: Commands, folder: Path
) -> None:
    odd = json.dumps(f"a{letter}b")
    (folder / "theirs.yaml").write_text(recipe(f"name: {odd}\n{odd}: 1\nworkload: {{{odd}: 2}}"))
    done = attacked(commands, folder, PLAN)
    assert letter not in done.output, ascii(done.output)


def test_a_model_folder_brings_no_code(commands: Commands, folder: Path) -> None:
    plant(folder / "planted", folder.parent / "marker")
    for kwargs in (
        "{pretrained_model_name_or_path: '@D/planted/remote', trust_remote_code: true}",
        "{pretrained_model_name_or_path: '@D/planted/hub'}",
    ):
        node = f"factory: 'transformers:AutoModel.from_pretrained', kwargs: {kwargs}"
        inputs = "inputs: {input_ids: {shape: [1, 4], generator: token_ids, high: 8}}"
        text = recipe(f"model: {{{node}, {inputs}}}").replace("mlp", "factory")
        (folder / "theirs.yaml").write_text(text.replace("@D", str(folder)))
        assert attacked(commands, folder, ("theirs.yaml", *RUN), 120).code != 0


def test_settings_behind_a_link_into_a_shared_folder_are_not_read(
    commands: Commands, folder: Path
) -> None:
    """The link is the user's, the folder where it leads is everyone's."""
    shared = folder.parent / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    (folder / "evil.py").write_text(CODE.format(marker=str(folder.parent / "marker")))
    (shared / "settings.yaml").write_text(f"trust: ['{folder}/evil.py']\n")
    home = folder.parent / "home" / "XDG_CONFIG_HOME" / "benchorch"
    home.mkdir(parents=True)
    (home / "settings.yaml").symlink_to(shared / "settings.yaml")
    inputs = "inputs: {x: {shape: [3, 4], generator: normal}}"
    text = recipe(f"model: {{factory: 'evil.py:make', {inputs}}}").replace("mlp", "factory")
    (folder / "theirs.yaml").write_text(text)
    done = attacked(commands, folder, ("theirs.yaml", *RUN), 120)
    assert done.code != 0, done.output


@pytest.mark.parametrize(
    "text",
    one_in(
        2,
        [
            "matrix: {workload.batch_size: 'range(0, 1000000000000)'}",
            "workload: {batch_size: 1000000000000000000000}",
            "stopping: {processes: 1000000000000}",
            "parity: {inputs: 1000000000000}",
            "model: {widths: [1000000000, 1000000000]}",
            "name: " + "x" * 1_000_000,
            "x: &a [" + ", ".join(["*a"] * 50) + "]",
        ],
    ),
)
def test_a_recipe_of_huge_numbers_is_planned_or_refused_at_once(
    text: str, commands: Commands, folder: Path
) -> None:
    (folder / "theirs.yaml").write_text(recipe("") + text + "\n")
    done = attacked(commands, folder, PLAN, 10)
    assert done.code in (0, 2), done.output
    assert len(done.output) < 20_000
