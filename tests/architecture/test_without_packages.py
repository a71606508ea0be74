"""What benchorch can do where optional packages, or Linux's own modules, are absent."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from support import synthetic_runs as synthetic
from support.command_lines import Commands, started

ROOT = Path(__file__).resolve().parents[2]

WITHOUT = """
import importlib.metadata as metadata, os, sys

absent = set(os.environ["ABSENT"].split(","))

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
installed, requires = metadata.distribution, metadata.requires

def distribution(name):
    if name.replace("-", "_") in absent:
        raise metadata.PackageNotFoundError(name)
    return installed(name)

metadata.distribution = distribution
listdir = os.listdir
os.listdir = lambda *words: [n for n in listdir(*words) if str(n).partition("-")[0] not in absent]
if "BENCHORCH_METADATA" in os.environ:
    kept = os.environ["BENCHORCH_METADATA"].splitlines()
    metadata.requires = lambda name: kept if name == "benchorch" else requires(name)
"""
POSIX = ("fcntl", "resource", "pwd", "grp", "termios", "pty", "tty", "syslog")
POSIX_FUNCTIONS = (
    *("fork", "forkpty", "register_at_fork", "setsid", "killpg", "getpgid", "sysconf"),
    *("sched_getaffinity", "sched_setaffinity", "sched_setscheduler", "sched_param"),
    *("getuid", "geteuid", "getloadavg", "statvfs", "O_CLOEXEC", "O_NOFOLLOW", "O_DIRECTORY"),
)
"""What CPython has on Linux and macOS and not on Windows."""


def extras() -> dict[str, list[str]]:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {name: list(lines) for name, lines in project["optional-dependencies"].items()}


HEAVY = (
    *("torch", "onnx", "onnxruntime", "onnxscript", "onnx_ir", "ml_dtypes", "safetensors"),
    *("transformers", "huggingface_hub", "mlflow", "sqlalchemy", "boto3", "botocore"),
    *("cryptography", "ray", "pandas"),
)


def variables(absent: Iterable[str]) -> dict[str, str]:
    lines = [f'{line}; extra == "{name}"' for name, own in extras().items() for line in own]
    return {"ABSENT": ",".join(absent), "BENCHORCH_METADATA": "\n".join(lines)}


def without(
    absent: Iterable[str], code: str, *words: str, cwd: Path
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=cwd,
        env={
            **{k: v for k, v in os.environ.items() if not k.startswith("COVERAGE_")},
            **variables(absent),
            "XDG_STATE_HOME": str(cwd / "state"),
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """The command line where heavy packages are absent, in forks of one process."""
    home = tmp_path_factory.mktemp("core")
    with started(home, variables=variables(HEAVY), before=WITHOUT) as commands:
        yield commands


@pytest.fixture
def run_elsewhere(tmp_path: Path) -> Path:
    eager = synthetic.trial()
    faster = synthetic.trial("onnxruntime", baseline=eager)
    return synthetic.write_run(
        tmp_path / "elsewhere",
        (eager, synthetic.result(eager)),
        (faster, synthetic.result(faster, 0.5e6, baseline_ns=1e6)),
    )


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["plan", "model=mlp"],
        ["conversions"],
        ["backends"],
        ["report", "RUN"],
        ["status", "RUN"],
        ["compare", "RUN", "RUN"],
        ["report", "RUN", "--output", "page.html"],
    ],
    ids=" ".join,
)
def test_the_core_answers(
    words: list[str], run_elsewhere: Path, tmp_path: Path, core: Commands
) -> None:
    ended = core.run(tmp_path, [str(run_elsewhere) if w == "RUN" else w for w in words])
    assert ended.code == 0, ended.output
    assert "Traceback" not in ended.stderr


def test_the_core_prices_a_plan_for_other_machines(tmp_path: Path, core: Commands) -> None:
    ended = core.run(tmp_path, ["plan", "model=bert", "hardware=g5"])
    assert ended.code == 0, ended.stderr
    assert "2 trials, 0 skips" in ended.stdout
    assert "pip install 'benchorch[aws]'" in ended.stdout


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (["model=mlp"], "benchorch[local]"),
        (["model=bert", "hardware=local"], "benchorch[local,hf]"),
        (["submit", "--head", "http://127.0.0.1:1", "model=mlp"], "benchorch[ray]"),
    ],
    ids=str,
)
def test_what_needs_an_extra_ends_with_its_command(
    words: list[str], remedy: str, tmp_path: Path, core: Commands
) -> None:
    ended = core.run(tmp_path, words)
    assert ended.code == 2, ended.output
    assert f"pip install '{remedy}'" in ended.stderr
    assert "Traceback" not in ended.output
    assert not (tmp_path / "runs").exists()


def test_a_tracker_without_its_package_is_one_sentence(
    run_elsewhere: Path, tmp_path: Path, core: Commands
) -> None:
    words = ["record", str(run_elsewhere), "--uri", f"sqlite:///{tmp_path}/mlflow.db"]
    ended = core.run(tmp_path, words)
    assert ended.code == 1
    assert "mlflow is not installed. pip install 'benchorch[mlflow]'" in ended.stdout
    assert "Traceback" not in ended.output


IMPORT_ALL = f"""
import sys, psutil, subprocess, hydra, rich.live, scipy, yaml  # have ways of their own elsewhere
for name in {POSIX!r}:
    sys.modules.pop(name, None)
{WITHOUT}
for name in {POSIX_FUNCTIONS!r}:
    vars(os).pop(name, None)
import importlib, pathlib
import benchorch
root = pathlib.Path(benchorch.__file__).parent
count = 0
for path in sorted(root.rglob("*.py")):
    place = path.relative_to(root).with_suffix("").as_posix()
    if place.startswith({{torch_code!r}}):
        continue
    try:
        importlib.import_module("benchorch." + place.replace("/", ".").removesuffix(".__init__"))
    except SystemExit:
        pass
    count += 1
print(count)
"""
TORCH_CODE = (
    *(
        "models/architectures/",
        "frameworks/onnx_module",
        "frameworks/opaque_module",
        "frameworks/identity/walk",
    ),
    *("frontends/api/function_model", "__main__", "cli/pytest_plugin"),
)
"""Modules of torch's own classes, the program itself, and one that pytest imports."""


def test_every_module_is_imported_without_optional_packages_and_posix(tmp_path: Path) -> None:
    code = IMPORT_ALL.replace("{torch_code!r}", repr(TORCH_CODE))
    ended = without([*HEAVY, *POSIX], code, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) > 600


def test_a_run_without_file_locks_is_refused_with_where_it_would_work(tmp_path: Path) -> None:
    code = f"{WITHOUT}\nfrom benchorch.cli.main import main\nmain()"
    ended = without(["fcntl"], code, "model=mlp", "recorder=none", cwd=tmp_path)
    assert ended.returncode == 2, ended.stdout + ended.stderr
    assert "WSL 2" in ended.stderr
    assert "Traceback" not in ended.stderr
