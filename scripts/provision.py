"""The stack on AWS: plan it, make it, look at it, end it.

    python scripts/provision.py plan|apply|status|destroy [--name NAME] [--var KEY=VALUE] [--yes]

Terraform makes everything that outlives a sweep; Ray launches workers, and `destroy` ends those
first, because Terraform does not know them. BENCHORCH_TF_PLUGIN_DIR names a directory of providers
for machines without a registry; BENCHORCH_TF_STATE_DIR one for the state, in place of
~/.local/state/benchorch.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "infra" / "terraform"
LIMIT_S = 3600
TOKEN_BYTES = 32


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what is asked; the exit code."""
    asked = _parser().parse_args(arguments)
    if shutil.which("terraform") is None:
        print("terraform is not installed: https://developer.hashicorp.com/terraform/install")
        return 2
    os.environ.setdefault("AWS_DEFAULT_REGION", _region(asked.var))
    return {"plan": _plan, "apply": _apply, "status": _status, "destroy": _destroy}[asked.what](
        asked
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("plan", "apply", "status", "destroy"))
    parser.add_argument("--name", default="benchorch", help="of the stack and of Ray's cluster")
    parser.add_argument(
        "--var",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="infra/terraform/variables.tf",
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=Path("runs"),
        metavar="DIR",
        help="where destroy brings the runs that only the stack's bucket has",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask before changing anything")
    return parser


def _plan(asked: argparse.Namespace) -> int:
    return _initialised(asked) or _terraform(asked, "plan")


def _apply(asked: argparse.Namespace) -> int:
    return _initialised(asked) or _terraform(asked, "apply", *_approval(asked))


def _destroy(asked: argparse.Namespace) -> int:
    """End workers, bring results home, remove the stack, and say whether anything is left."""
    from benchorch.hardware.aws_fleet import empty_place, end_workers, machines

    if (
        not asked.yes
        and input(f"End every machine of {asked.name} and remove it? [yes/no] ") != "yes"
    ):
        print("Nothing was changed.")
        return 1
    # Without a head nobody launches further workers while these are ended.
    code = _initialised(asked) or _terraform(
        asked, "apply", "-auto-approve", "-target=module.cluster", "-var=running=false"
    )
    if code == 0:
        end_workers(asked.name, print)
        code = _bring_home(asked)
    if code == 0:
        store_url = _output(asked, "store_url")
        if store_url:
            empty_place(store_url, print)
        code = _terraform(asked, "destroy", "-auto-approve")
    left = machines(asked.name)
    for machine in left:
        print(f"left: {machine.instance_id} {machine.kind} {machine.state}", file=sys.stderr)
    if not left:
        print(f"{asked.name}: no machine is left.")
    return code or (1 if left else 0)


def _bring_home(asked: argparse.Namespace) -> int:
    """Fetch the runs that the bucket keeps, then remove them there: its key goes with the stack."""
    from benchorch.errors import BenchorchError
    from benchorch.hardware.aws_fleet import empty_place
    from benchorch.journal import run_directory
    from benchorch.journal.registry import remember
    from benchorch.run.archive import download_all
    from benchorch.stores.s3 import bucket_at

    url = _output(asked, "results_url")
    if not url:
        return 0
    try:
        brought = download_all(bucket_at(url), asked.results)
    except (BenchorchError, OSError) as error:
        print(
            f"No machine runs any more, but the stack stays: its results in {url} could not be "
            f"brought to {asked.results}: {error}\nThen: make destroy",
            file=sys.stderr,
        )
        return 1
    for directory in brought:
        remember(run_directory.read_plan(directory).plan_id, directory)
        print(f"brought home: {directory}")
    empty_place(url, print)
    return 0


def _status(asked: argparse.Namespace) -> int:
    """What runs now."""
    from benchorch.hardware.aws_fleet import machines

    found = machines(asked.name)
    for machine in found:
        print(
            f"{machine.instance_id}  {machine.role:6}  {machine.kind:14}  {machine.market:9}  "
            f"{machine.state:8}  {machine.zone}  since {machine.launched_at}"
        )
    print(f"{asked.name}: {len(found)} machine{'' if len(found) == 1 else 's'}")
    return 0


def _approval(asked: argparse.Namespace) -> Sequence[str]:
    return ["-auto-approve"] if asked.yes else []


def _initialised(asked: argparse.Namespace) -> int:
    """A working directory of its own, so that a checkout holds no state; the exit code."""
    place = _place(asked.name)
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    shutil.copytree(SOURCE, place, dirs_exist_ok=True, ignore=shutil.ignore_patterns("tests", ".*"))
    plugins = os.environ.get("BENCHORCH_TF_PLUGIN_DIR")
    offline = [f"-plugin-dir={plugins}"] if plugins else []
    return _run(["terraform", "init", "-input=false", *offline], place, quiet=True)


def _terraform(asked: argparse.Namespace, what: str, *flags: str) -> int:
    variables = [f"-var={pair}" for pair in (f"name={asked.name}", *asked.var)]
    command = ["terraform", what, "-input=false", *variables, *flags]
    return _run(command, _place(asked.name))


def _output(asked: argparse.Namespace, name: str) -> str:
    """One of Terraform's outputs; empty where a stack that is half made has none."""
    told = subprocess.run(
        ["terraform", "output", "-raw", name],
        cwd=_place(asked.name),
        env=_environment(),
        timeout=LIMIT_S,
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if told.returncode else told.stdout


def _run(command: Sequence[str], place: Path, *, quiet: bool = False) -> int:
    done = subprocess.run(
        command, cwd=place, env=_environment(), timeout=LIMIT_S, capture_output=quiet, check=False
    )
    if quiet and done.returncode:
        sys.stderr.buffer.write(done.stdout + done.stderr)
    return done.returncode


def _environment() -> Mapping[str, str]:
    """Secrets go by the environment: new ones each time, stored only where there are none yet."""
    emulated = {"TF_VAR_endpoint_checks": "false"} if os.environ.get("AWS_ENDPOINT_URL") else {}
    new = {
        "TF_VAR_ray_token": secrets.token_hex(TOKEN_BYTES),
        "TF_VAR_mlflow_password": secrets.token_urlsafe(TOKEN_BYTES),
        "TF_IN_AUTOMATION": "1",
    }
    return {**new, **emulated, **os.environ}


def _place(name: str) -> Path:
    default = Path.home() / ".local" / "state" / "benchorch"
    return Path(os.environ.get("BENCHORCH_TF_STATE_DIR", default)) / name


def _region(variables: Sequence[str]) -> str:
    named = [pair.partition("=")[2] for pair in variables if pair.startswith("region=")]
    return named[-1] if named else "us-east-1"


if __name__ == "__main__":
    sys.exit(main())
