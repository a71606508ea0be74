"""The stack on AWS: plan, apply, status, destroy.

    python scripts/provision.py plan|apply|status|destroy [--name NAME] [--var KEY=VALUE] [--yes]

Terraform creates everything that outlives a sweep; Ray launches workers, and `destroy` terminates
those first, because they are not in Terraform's state. BENCHORCH_TF_PLUGIN_DIR names a directory of
providers for machines without a registry; BENCHORCH_TF_STATE_DIR one for the state, in place of
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
    """Run one command; the exit code."""
    options = _parser().parse_args(arguments)
    if shutil.which("terraform") is None:
        print("terraform is not installed: https://developer.hashicorp.com/terraform/install")
        return 2
    os.environ.setdefault("AWS_DEFAULT_REGION", _region(options.var))
    commands = {"plan": _plan, "apply": _apply, "status": _status, "destroy": _destroy}
    return commands[options.what](options)


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
        help="where destroy downloads the runs that only the stack's bucket has",
    )
    parser.add_argument("--yes", action="store_true", help="no confirmation before changes")
    return parser


def _plan(options: argparse.Namespace) -> int:
    return _initialised(options) or _terraform(options, "plan")


def _apply(options: argparse.Namespace) -> int:
    return _initialised(options) or _terraform(options, "apply", *_approval(options))


def _destroy(options: argparse.Namespace) -> int:
    """Terminate workers, download results, remove the stack; report what is left."""
    from benchorch.hardware.aws_fleet import empty_place, end_workers, machines

    if (
        not options.yes
        and input(f"Terminate every machine of {options.name} and remove it? [yes/no] ") != "yes"
    ):
        print("Nothing was changed.")
        return 1
    # Without a head no further workers are launched while these are terminated.
    code = _initialised(options) or _terraform(
        options, "apply", "-auto-approve", "-target=module.cluster", "-var=running=false"
    )
    if code == 0:
        end_workers(options.name, print)
        code = _download_results(options)
    if code == 0:
        store_url = _output(options, "store_url")
        if store_url:
            empty_place(store_url, print)
        code = _terraform(options, "destroy", "-auto-approve")
    left = machines(options.name)
    for machine in left:
        print(f"left: {machine.instance_id} {machine.kind} {machine.state}", file=sys.stderr)
    if not left:
        print(f"{options.name}: no machine is left.")
    return code or (1 if left else 0)


def _download_results(options: argparse.Namespace) -> int:
    """Download the runs in the bucket, then empty it: its encryption key goes with the stack."""
    from benchorch.errors import BenchorchError
    from benchorch.hardware.aws_fleet import empty_place
    from benchorch.journal import run_directory
    from benchorch.journal.registry import remember
    from benchorch.run.archive import download_all
    from benchorch.stores.s3 import bucket_at

    url = _output(options, "results_url")
    if not url:
        return 0
    try:
        downloaded = download_all(bucket_at(url), options.results)
    except (BenchorchError, OSError) as error:
        print(
            f"No machine runs any more, but the stack stays: its results in {url} could not be "
            f"downloaded to {options.results}: {error}\nThen: make destroy",
            file=sys.stderr,
        )
        return 1
    for directory in downloaded:
        remember(run_directory.read_plan(directory).plan_id, directory)
        print(f"downloaded: {directory}")
    empty_place(url, print)
    return 0


def _status(options: argparse.Namespace) -> int:
    """Print the running machines."""
    from benchorch.hardware.aws_fleet import machines

    found = machines(options.name)
    for machine in found:
        print(
            f"{machine.instance_id}  {machine.role:6}  {machine.kind:14}  {machine.market:9}  "
            f"{machine.state:8}  {machine.zone}  since {machine.launched_at}"
        )
    print(f"{options.name}: {len(found)} machine{'' if len(found) == 1 else 's'}")
    return 0


def _approval(options: argparse.Namespace) -> Sequence[str]:
    return ["-auto-approve"] if options.yes else []


def _initialised(options: argparse.Namespace) -> int:
    """Initialise a working directory, so that a checkout holds no state; the exit code."""
    place = _place(options.name)
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    shutil.copytree(SOURCE, place, dirs_exist_ok=True, ignore=shutil.ignore_patterns("tests", ".*"))
    plugins = os.environ.get("BENCHORCH_TF_PLUGIN_DIR")
    offline = [f"-plugin-dir={plugins}"] if plugins else []
    return _run(["terraform", "init", "-input=false", *offline], place, quiet=True)


def _terraform(options: argparse.Namespace, what: str, *flags: str) -> int:
    variables = [f"-var={pair}" for pair in (f"name={options.name}", *options.var)]
    command = ["terraform", what, "-input=false", *variables, *flags]
    return _run(command, _place(options.name))


def _output(options: argparse.Namespace, name: str) -> str:
    """One of Terraform's outputs; empty if an unfinished stack has none."""
    done = subprocess.run(
        ["terraform", "output", "-raw", name],
        cwd=_place(options.name),
        env=_environment(),
        timeout=LIMIT_S,
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if done.returncode else done.stdout


def _run(command: Sequence[str], place: Path, *, quiet: bool = False) -> int:
    done = subprocess.run(
        command, cwd=place, env=_environment(), timeout=LIMIT_S, capture_output=quiet, check=False
    )
    if quiet and done.returncode:
        sys.stderr.buffer.write(done.stdout + done.stderr)
    return done.returncode


def _environment() -> Mapping[str, str]:
    """Secrets are passed by the environment: new ones each time, stored only if there are none."""
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
