"""Plans that a stranger wrote, each as edits of a plan that runs: a path of keys and its value.

Derived from SECURITY.md and the shape of a `plan.json`. `@M` is the marker, `@D` the run's
directory, which holds what `planted.py` writes.
"""

from __future__ import annotations

from typing import Any

MODEL = ("trials", 0, "spec", "model")
SPEC = MODEL[:3]
CALL = "benchorch.models.factory.FactoryModel"
INPUTS = {"x": {"shape": ["batch_size", 4], "generator": "normal"}}
PLANS: dict[str, dict[tuple[str | int, ...], Any]] = {
    "a factory that starts a command": {
        MODEL: {
            "_target_": CALL,
            "factory": "psutil:Popen",
            "arguments": {"args": "touch @M", "shell": True},
            "inputs": INPUTS,
        }
    },
    "a factory in the run's directory": {
        MODEL: {
            "_target_": CALL,
            "factory": "@D/planted.py:make",
            "arguments": {},
            "inputs": INPUTS,
        }
    },
    "a model's class in the run's directory": {(*MODEL, "_target_"): "planted.make"},
    "a script": {
        MODEL: {
            "_target_": "benchorch.models.script.ScriptModel",
            "script": "@D/planted.py",
            "digest": "ab",
            "call": "cd",
        }
    },
    "a checkpoint": {(*MODEL, "checkpoint"): "@D/planted.pt"},
    "a pickle of inputs": {(*MODEL, "inputs"): {"file": "@D/planted.npy"}},
    "a metric": {(*SPEC, "parity", "metric"): "planted:make"},
    "a pickle for parity": {(*SPEC, "parity", "data"): "@D/planted.npy"},
    "a scenario": {(*SPEC, "scenario"): {"_target_": "planted.make"}},
    "a stopping rule": {(*SPEC, "stopping"): {"_target_": "os.mkdir", "path": "@M"}},
    "a runtime": {(*SPEC, "conversion", "runtime"): {"_target_": "package.inner.make"}},
    "a step": {(*SPEC, "conversion", "steps"): {"evil": {"_target_": "os.mkdir", "path": "@M"}}},
    "hardware": {(*SPEC, "hardware"): {"_target_": "subprocess.getoutput", "cmd": "touch @M"}},
    "a store": {("session", "store"): {"_target_": "os.mkdir", "path": "@M"}},
    "a store elsewhere": {("session", "store", "root"): "@M"},
    "an executor": {("session", "executor"): {"_target_": "os.mkdir", "path": "@M"}},
    "a profiler": {("session", "profiler"): {"_target_": "planted.make"}},
    "a recorder": {("session", "tracking"): {"_target_": "os.mkdir", "path": "@M"}},
    "a recorder's database elsewhere": {
        ("session", "tracking"): {
            "_target_": "benchorch.recorders.mlflow.MlflowRecorder",
            "uri": "sqlite:///@M",
            "experiment": "x",
        }
    },
    "a copy elsewhere": {("session", "keep_at"): "@M"},
    "a working directory": {("session", "cwd"): "@D/site"},
    "a name that climbs": {("name",): "../../marker", ("session", "name"): "../../marker"},
    "a plan's id that climbs": {("plan_id",): "../../marker"},
    "a trial's id that climbs": {("trials", 0, "trial_id"): "../../../marker"},
    "an absolute id": {("trials", 0, "trial_id"): "@M"},
    "a baseline's id that climbs": {("trials", 0, "baseline_id"): "../../../marker"},
    "a baseline's conversion": {
        ("trials", 0, "baseline_conversion"): {"runtime": {"_target_": "os.mkdir", "path": "@M"}}
    },
    "shared builds": {("trials", 0, "build_steps"): [{"_target_": "os.mkdir", "path": "@M"}]},
}
