"""Each kind of side effect has one room: a scan of the source, file by file."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "benchorch"
FILES = sorted(SOURCE.rglob("*.py"))

HEAVY = {
    *("torch", "transformers", "onnx", "onnxruntime", "onnxscript", "ray", "mlflow"),
    *("scipy", "rich", "pandas", "safetensors", "boto3", "optuna"),
}
NUMERIC = (
    "stats/",
    "trace/",
    "results/metrics/",
    "results/compare/",
    "results/parity/",
    "scenarios/",
    "trial/",
)
PACKAGE_ROOMS = {
    # The executor, the way to a cluster, and its head's jobs.
    "ray": {"executors/ray.py", "executors/ray_cluster.py", "executors/ray_jobs.py"},
    "mlflow": {"recorders/mlflow.py"},
    "boto3": {"stores/objects.py", "hardware/"},
}
CLOCKS = {"time", "time_ns", "perf_counter", "perf_counter_ns", "process_time", "process_time_ns"}
TORCH_CODE = {
    "models/architectures/",
    "frameworks/onnx_module.py",
    "frameworks/opaque_module.py",
    "frameworks/identity/walk.py",
    "frontends/api/function_model.py",
}
"""Modules written in torch's own classes; imported where a module is loaded."""

PRINTING = {"cli/terminal.py", "results/report/console.py", "cli/main.py", "cli/completion.py"}
RUNS_A_USERS_FILE = {
    *("models/script_run.py", "models/notebook.py", "models/estimator.py", "models/bundled.py")
}
"""A script that the command line named; a notebook, a pickled estimator and a bundle of a script's
code run as one does."""

CATCHING_EVERYTHING = {
    # Instructions of a pickle that nothing wrote end in any way.
    "models/pickled_names.py",
    "trial/worker.py",
    # The class of a user's error may raise where it is asked for its text.
    "errors.py",
    # An extension's import may fail in as many ways as there are extensions.
    "config/components.py",
    # A user's own code may fail in as many ways, and is answered with where it did.
    "models/callables.py",
    # They run the user's model in another way than it asked for, and can do without the answer.
    "trial/reference.py",
    "trial/check.py",
    "trial/divergence.py",
    "trial/written_inputs.py",
    # An object's own way to be made again may fail as its author likes.
    "frameworks/identity/walk.py",
    # A user's object may refuse in any way to be looked into.
    "frameworks/module_state.py",
    # An argument of a script's call likewise, and the script goes on.
    "models/script_watch.py",
    "frontends/scripts/discovery_process.py",
    # What ends one of two threads is raised in the one that waits for both.
    "executors/side_by_side.py",
}
ENVIRONMENT = {
    "__init__.py": "ONNX Runtime takes whether it sends telemetry from nowhere else",
    "cli/completion.py": "shells hand over the line in no other way",
    "cli/main.py": "a shell that wants completions comes by no other way",
    "config/user_settings.py": "where a user's settings lie",
    "host/processes/template.py": "a forked process is given what an executed one would be",
    "host/sandbox.py": "what a sandboxed script may keep of the environment",
    "stores/signing.py": "a fleet's key comes as a secret, not as a file",
    "cli/commands/archive.py": "a head's start script says where runs are kept",
    "cli/commands/ui.py": "starts MLflow's server with settings it takes from nowhere else",
    "frameworks/identity/compilers.py": "compilers take their options from nowhere else",
    "frameworks/identity/start.py": "a user's code may take anything from the environment",
    "frameworks/identity/consulted.py": "a user's code may take anything from the environment",
    "frameworks/identity/evidence.py": "a user's code may take anything from the environment",
    "host/environment_variable.py": "sets one for those that are named here",
    "frameworks/inductor_cache_directory.py": "Inductor takes its directory from nowhere else",
    "frameworks/tensorrt_libraries.py": "looks where the loader looks",
    "frameworks/program_archive.py": "torch takes how it reads pickles from nowhere else",
    "frameworks/tf32.py": "CUDA's libraries take TF32 from nowhere else",
    "conversions/quanto.py": "the build tool beside this interpreter is found on PATH alone",
    "host/environment.py": "records the variables that sway measurements",
    "executors/scheduling/agent.py": "a trial gets the threads of the node, not those of Ray",
    "executors/ray.py": "a cluster is refused unless the environment has its token",
    "executors/ray_cluster.py": "Ray takes its settings from nowhere else",
    "executors/ray_jobs.py": "Ray takes its settings from nowhere else, and a tunnel is a shell's",
    "executors/simulated_fleet.py": "a simulated node gets its kind as a real one does",
    "executors/auto.py": "Ray's clients take their cluster from the same variable",
    "hardware/host.py": "a node is told whether to hide its GPUs",
    "host/machine_kind.py": "a node is told its kind",
    "journal/registry.py": "the user's choice of where caches are",
    "cli/run.py": "asks Hydra to raise its errors instead of printing them",
    "models/trust.py": "a trial's process is told which code of the user's passed",
    "models/http.py": "a header's secret stands in no file",
    "models/script_run.py": "Keras takes its framework from nowhere else",
    "frontends/scripts/child_reports.py": "what a script's own child processes inherit",
    "runtimes/vllm.py": "vLLM takes whether it reports its use from nowhere else",
    "recorders/location.py": "a tracker's password is kept nowhere else",
    "recorders/mlflow.py": "MLflow takes its limits from nowhere else",
    "runtimes/tvm.py": "TVM takes its number of threads from nowhere else",
    "host/processes/child_channel.py": "is told which pipe leads to its parent",
    "host/processes/run_child.py": "gives a child its parent's variables and its own",
    "run/duel/contender.py": "puts a checkout's modules on its side's import path",
}
"""Files that touch environment variables, each with the reason."""

UNSAFE_PACKAGES = {"dill", "cloudpickle", "joblib", "marshal", "shelve"}
UNSAFE_CALLS = {
    *("pickle.load", "pickle.loads", "pickle.Unpickler"),
    *("yaml.load", "yaml.unsafe_load", "yaml.full_load", "eval", "exec", "os.system", "os.popen"),
    *("pd.read_pickle", "pandas.read_pickle", "torch.hub.load", "runpy.run_module"),
}


def place(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def imports(node: ast.AST) -> list[str]:
    """The first name of every package that this statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [node.module.partition(".")[0]]
    return []


def guards_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and dotted(node.test).endswith("TYPE_CHECKING")


def at_run_time(node: ast.AST) -> Iterator[ast.AST]:
    """Every node below but those that only a type checker sees."""
    for child in ast.iter_child_nodes(node):
        if not guards_types(child):
            yield child
            yield from at_run_time(child)


def at_import_time(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when the module is imported."""
    for child in ast.iter_child_nodes(node):
        waits_for_a_call = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if not waits_for_a_call and not guards_types(child):
            yield child
            yield from at_import_time(child)


def dotted(node: ast.AST | None) -> str:
    """A name with its attributes; what is no name at its beginning is left out."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


@cache
def nodes_of(path: Path, walk: Callable[[ast.AST], Iterator[ast.AST]]) -> list[ast.AST]:
    return [*walk(ast.parse(path.read_text(), filename=str(path)))]


def outside(
    rooms: Collection[str],
    offends: Callable[[ast.AST], bool],
    nodes: Callable[[ast.AST], Iterator[ast.AST]] = at_run_time,
) -> list[str]:
    """Where anything but the rooms does what only they may; a room may be a folder, with a /."""
    return [
        f"{place(path)}:{getattr(node, 'lineno', 0)}: {ast.unparse(node).splitlines()[0]}"
        for path in FILES
        if not place(path).startswith(tuple(rooms))
        for node in nodes_of(path, nodes)
        if offends(node)
    ]


def test_numpy_is_imported_when_a_module_is_only_in_numeric_packages() -> None:
    """What must answer at once imports those packages late: tests/e2e/test_cli.py looks."""
    assert (
        outside((*NUMERIC, *TORCH_CODE), lambda node: "numpy" in imports(node), at_import_time)
        == []
    )


def test_heavy_packages_are_not_imported_when_a_module_is() -> None:
    def imports_a_heavy_package(node: ast.AST) -> bool:
        return not HEAVY.isdisjoint(imports(node))

    assert outside(TORCH_CODE, imports_a_heavy_package, at_import_time) == []


@pytest.mark.parametrize("package", PACKAGE_ROOMS)
def test_a_service_is_spoken_to_in_one_room(package: str) -> None:
    assert outside(PACKAGE_ROOMS[package], lambda node: package in imports(node)) == []


def test_json_of_files_is_read_in_one_room() -> None:
    """`files.read_json` opens no pipe, device or folder, and refuses what is nested too deeply."""

    def reads_json(node: ast.AST) -> bool:
        if not isinstance(node, ast.Call) or dotted(node.func) not in {"json.loads", "json.load"}:
            return False
        text = ast.unparse(node)
        return ".read_text(" in text or ".read_bytes(" in text

    assert outside(("files.py",), reads_json) == []


def test_clocks_live_where_models_or_the_machine_itself_are_timed() -> None:
    def reads_a_clock(node: ast.AST) -> bool:
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            return any(alias.name in CLOCKS for alias in node.names)
        name = dotted(node)
        return name.startswith("time.") and name.removeprefix("time.") in CLOCKS

    assert outside(("hardware/", "host/"), reads_a_clock) == []


def test_only_the_front_door_and_the_report_print() -> None:
    writers = {"print", "sys.stdout.write", "sys.stderr.write"}

    def prints(node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and dotted(node.func) in writers

    assert outside(PRINTING, prints) == []


def test_only_the_worker_swallows_every_exception() -> None:
    def swallows_everything(node: ast.AST) -> bool:
        if not isinstance(node, ast.ExceptHandler) or isinstance(node.body[-1], ast.Raise):
            return False
        kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        return any(dotted(kind) in {"", "Exception", "BaseException"} for kind in kinds)

    assert outside(CATCHING_EVERYTHING, swallows_everything) == []


def test_no_file_is_read_in_a_way_that_can_run_code() -> None:
    def can_run_code(node: ast.AST) -> bool:
        if not UNSAFE_PACKAGES.isdisjoint(imports(node)):
            return True
        if isinstance(node, ast.ImportFrom) and node.module == "pickle":
            return any(alias.name != "UnpicklingError" for alias in node.names)
        if isinstance(node, ast.ImportFrom) and node.module in {"torch", "numpy", "yaml"}:
            return any(alias.name.endswith("load") for alias in node.names)
        if not isinstance(node, ast.Call):
            return False
        options = {word.arg: ast.unparse(word.value) for word in node.keywords}
        called = dotted(node.func)
        if called == "torch.load":
            return options.get("weights_only") != "True"
        if called in {"np.load", "numpy.load"}:
            return options.get("allow_pickle", "False") != "False"
        return called in UNSAFE_CALLS

    assert outside(RUNS_A_USERS_FILE, can_run_code) == []


def test_exported_programs_pass_one_door() -> None:
    def loads_a_program(node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and dotted(node.func).endswith("export.load")

    def leaves_out_the_check(node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and dotted(node.func).startswith("load_unchecked")

    doors = ("frameworks/program_archive.py", "frameworks/torch_program.py")
    assert outside(doors[:1], loads_a_program) == []
    assert outside((*doors, "runtimes/torch_tensorrt.py"), leaves_out_the_check) == []


def test_environment_variables_are_touched_only_where_there_is_a_reason() -> None:
    names = {"environ", "getenv", "putenv"}

    def touches_the_environment(node: ast.AST) -> bool:
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            return any(alias.name in names for alias in node.names)
        return dotted(node) in {"environment_variable", *(f"os.{name}" for name in names)}

    assert outside(ENVIRONMENT, touches_the_environment) == []


def test_every_exception_to_the_rooms_is_still_needed() -> None:
    named = {*TORCH_CODE, *PRINTING, *CATCHING_EVERYTHING, *ENVIRONMENT}
    gone = [room for room in sorted(named) if not (SOURCE / room).exists()]
    assert gone == []
