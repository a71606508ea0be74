"""A stack's whole lifecycle on this machine, without AWS: provision, sweep, destroy.

    python scripts/rehearse.py [--keep DIRECTORY] [ARGUMENTS ...]

AWS is emulated and its instances are Linux namespaces; Terraform, the start scripts, Ray with its
autoscaler and benchorch are the real ones. ARGUMENTS are those of `python -m benchorch` on the
head; by default a small sweep over two instance types. Needs Linux, root, Terraform and its AWS
provider (BENCHORCH_TF_PLUGIN_DIR).
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.machines.hypervisor import Stay  # noqa: E402 - found by the line before
from support.machines.rehearsal import USD_PER_HOUR, Rehearsal, lacking, rehearsing, wait  # noqa: E402

FLEET = ("r6i.large", "c7i.xlarge")
SWEEP = ("model=mlp", "hardware=r6i,c7i", "-m", "conversion=[eager,torchscript]")
OPTIONS = (
    *("stopping=quick", "stopping.processes=3", "protocol.repeats=0", "profiler=none"),
    *("executor=ec2", "name=rehearsal"),
)
IDLE_MINUTES = "1"
SWEEP_S = 1800
MINUTE_S, HOUR_S = 60, 3600
LINES = 15
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the lifecycle; the exit code."""
    options = _parser().parse_args(arguments)
    reasons = lacking()
    if reasons:
        print("A rehearsal is not possible here:", *reasons, sep="\n  ")
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as place:
        try:
            return _rehearse(Path(place), options.arguments or [*SWEEP, *OPTIONS])
        except KeyboardInterrupt:
            print("Interrupted: all machines and the emulated stack were terminated.")
            return INTERRUPTED
        except (RuntimeError, TimeoutError) as error:
            print(f"The rehearsal failed: {error}", *_log_ends(Path(place)), sep="\n")
            return 1
        finally:
            _keep(Path(place), options.keep)


def _log_ends(place: Path) -> Iterator[str]:
    """The last lines of each start script's output."""
    for log in sorted(place.glob("i-*.log")):
        yield f"--- {log.stem}"
        yield from log.read_text(errors="replace").splitlines()[-LINES:]


def _keep(place: Path, where: Path | None) -> None:
    if where is not None:
        shutil.copytree(place / "desk", where, dirs_exist_ok=True)
        for log in place.glob("*.log"):
            shutil.copy(log, where)
        print(f"kept      {where}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", type=Path, help="where the sweep's results are copied to")
    parser.add_argument("arguments", nargs="*", help="of python -m benchorch, run on the head")
    return parser


def _rehearse(place: Path, arguments: Sequence[str]) -> int:
    begun_s = time.monotonic()

    def say(what: str) -> None:
        print(f"[{time.monotonic() - begun_s:5.0f} s] {what}", flush=True)

    fleet = ", ".join(f'"{kind}" = 1' for kind in FLEET)
    variables = {"fleet": f"{{{fleet}}}", "idle_minutes": IDLE_MINUTES}
    with rehearsing(place, variables, USD_PER_HOUR, say) as rehearsal:
        say("1 of 5  provision: Terraform creates the stack")
        rehearsal.provision()
        made = rehearsal.made()
        say("2 of 5  the head starts Ray")
        rehearsal.head()
        say(f"3 of 5  sweep: benchorch {' '.join(arguments)}")
        code = _sweep(rehearsal, arguments)
        say("4 of 5  idle: Ray terminates its workers")
        rehearsal.until_idle()
        say("5 of 5  destroy: Terraform removes the stack")
        rehearsal.destroy()
        left = {what: count for what, count in rehearsal.left().items() if count}
    _print_summary(rehearsal, made, left)
    return code or (1 if left else 0)


def _sweep(rehearsal: Rehearsal, arguments: Sequence[str]) -> int:
    """Its exit code; its output is shown while it runs."""
    log = rehearsal.place / "sweep.log"
    running = rehearsal.begin(log, *arguments)
    with log.open(errors="replace") as output:

        def ended() -> bool:
            code = running.poll()
            print(output.read(), end="", flush=True)
            return code is not None

        wait(ended, SWEEP_S, "the sweep did not end")
    return running.returncode


def _print_summary(rehearsal: Rehearsal, made: int, left: Mapping[str, int]) -> None:
    """Print resources, measurements, builds, cost and leftovers."""
    stays = rehearsal.hypervisor.stays
    launched = Counter(f"{stay.kind} ({stay.role}, {stay.market})" for stay in stays)
    print(f"\nmade      {made} resources by Terraform")
    print("launched  " + ", ".join(f"{count} x {what}" for what, count in launched.items()))
    for line in _measured(rehearsal.desk):
        print(f"measured  {line}")
    for line in _built(rehearsal.desk):
        print(f"built     {line}")
    usd = sum(map(_usd, stays))
    print(f"cost      {usd:.4f} USD on EC2 for these minutes, on demand, machines alone")
    print("left      " + (", ".join(f"{n} {what}" for what, n in left.items()) or "nothing"))
    print("Times and rates are of this machine; only their path through the system is that of EC2.")


def _usd(stay: Stay) -> float:
    """At its list price, a minute at least."""
    seconds = max(MINUTE_S, (stay.to_s or time.monotonic()) - stay.from_s)
    return USD_PER_HOUR[stay.kind] * seconds / HOUR_S


def _measured(desk: Path) -> Iterator[str]:
    """Each trial as MLflow has it."""
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{desk / 'mlflow.db'}")
    experiments = [each.experiment_id for each in client.search_experiments()]
    for run in reversed(client.search_runs(experiments)):
        usd = _cost(run.data.metrics)
        if usd is not None:
            yield f"{run.info.run_name}: {usd:.3g} USD per million items, in MLflow"


def _built(desk: Path) -> Iterator[str]:
    """Each artifact of the sweep: how often it was built, and how often found in the bucket."""
    lines = [line for path in desk.glob("runs/*/*/results.jsonl") for line in path.open()]
    found = [json.loads(line) for line in lines]
    builds = [(one["labels"]["conversion"], one["build"]) for one in found if one["build"]]
    for name, key in sorted({(name, build["key"]) for name, build in builds if build["key"]}):
        states = Counter(build["cache"] for _, build in builds if build["key"] == key)
        yield f"{name}: {states['miss']} time(s), found {states['hit']} time(s) in the bucket"


def _cost(metrics: Mapping[str, float]) -> float | None:
    return metrics.get("cost_usd_per_million_items/on_demand")


if __name__ == "__main__":
    sys.exit(main())
