"""The stack on AWS: plan, apply, image, status, destroy.

    python scripts/provision.py plan|apply|image|status|destroy [--name NAME] [--var KEY=VALUE]

Terraform creates everything that outlives a sweep; Ray launches workers. State, region and
variables of each stack are kept in a bucket of the account, so any machine with its credentials
sees and ends the same. BENCHORCH_TF_PLUGIN_DIR names a directory of providers for machines without
a registry; BENCHORCH_TF_WORK_DIR one for Terraform to work in, in place of
~/.cache/benchorch/stacks.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import provision_check
import stack_bill
import stack_build
import stack_home
import stack_leftovers
from account_checks.requested import quoted
from stack_home import Home, Settings
from stack_results import download_all, empty_place

SOURCE = Path(__file__).resolve().parents[1] / "infra" / "terraform"
LIMIT_S = 3600
HEAD_S, LOOK_S = 60, 3  # within a minute a group has launched, or been refused
TOKEN_BYTES = 32
SECRET = "ray_token"
RESERVED = re.compile(r"(aws|ssm|sg-|sthree-|amzn-s3-demo-|xn--).*|benchorch-stacks")
"""Prefixes that AWS keeps for itself, of parameters, security groups and buckets; the record."""

SHORT = 12  # characters of a digest in the names of files in the bucket
SERVICE_ROLES = {  # which an account has only once somebody used the service in the console
    "autoscaling.amazonaws.com": "AWSServiceRoleForAutoScaling",
    "spot.amazonaws.com": "AWSServiceRoleForEC2Spot",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    from botocore.exceptions import BotoCoreError, ClientError

    from benchorch.errors import BenchorchError

    options = _parser().parse_args(arguments)
    needs_terraform = options.what not in ("status", "image")
    if needs_terraform and shutil.which("terraform") is None:
        print("terraform is not installed: https://developer.hashicorp.com/terraform/install")
        return 2
    try:
        home = stack_home.find_home()
        settings = home.settings(options.name)
        commands = {
            "plan": _plan,
            "apply": _apply,
            "image": _image,
            "status": _status,
            "destroy": _destroy,
        }
        return commands[options.what](options, home, settings)
    except (
        BotoCoreError,
        ClientError,
        BenchorchError,
        OSError,
        ValueError,
        subprocess.TimeoutExpired,
    ) as error:
        print(f"{options.what}: {error}", file=sys.stderr)
        if isinstance(error, BotoCoreError | ClientError):
            print("Credentials are those of boto3: aws sts get-caller-identity", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("plan", "apply", "image", "status", "destroy"))
    parser.add_argument(
        "--name", default="benchorch", type=_name, help="of the stack and of Ray's cluster"
    )
    parser.add_argument(
        "--var",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="infra/terraform/variables.tf; kept with the stack",
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=Path("runs"),
        metavar="DIR",
        help="where destroy downloads the runs that only the stack's bucket has",
    )
    parser.add_argument(
        "--check", action="store_true", help="examine the account before anything is made"
    )
    parser.add_argument("--yes", action="store_true", help="no confirmation before changes")
    return parser


def _name(text: str) -> str:
    """A stack's name as variables.tf has it, as it becomes part of a path here."""
    if not re.fullmatch(r"[a-z][a-z0-9-]{2,30}", text):
        raise argparse.ArgumentTypeError(
            f"{text!r}; expected 3 to 31 lower case letters, digits and hyphens, a letter first"
        )
    return text


def _plan(options: argparse.Namespace, home: Home, settings: Settings | None) -> int:
    """What apply would change; the state of a stack that is not there is empty."""
    wanted = _wanted(options, settings)
    print(f"{options.name}: {stack_bill.bill(wanted.variables, wanted.region)}")
    code = _initialised(options, home if settings else None, wanted)
    kept = [] if code or not settings else _files_of_other_checkouts(options)
    if kept:
        print(f"{options.name}: make provision keeps for a running head: {', '.join(kept)}")
    return code or _terraform(options, wanted, "plan", "-lock=false")


def _apply(options: argparse.Namespace, home: Home, settings: Settings | None) -> int:
    wanted = _wanted(options, settings)
    if options.check:
        variables = {**wanted.variables, "region": wanted.region}
        given = [word for pair in variables.items() for word in ("--var", "=".join(pair))]
        code = provision_check.main(["--name", options.name, *given])
        if code:
            return code
    code = _examined(wanted, options.name)
    if code:
        return code
    _make_service_roles()
    before = _refused(options, wanted.region)
    home = stack_home.make_home(home, wanted.region)
    home.remember(options.name, replace(wanted, destroying_since=""))
    print(f"{options.name}: in {wanted.region}; its state is in s3://{home.bucket}/{options.name}/")
    print(f"{options.name}: {stack_bill.bill(wanted.variables, wanted.region)}")
    code = _initialised(options, home, wanted)
    code = code or _let_stay(options)
    code = code or _terraform(options, wanted, "apply", *_approval(options))
    return code or _await_head(options, wanted, before)


def _let_stay(options: argparse.Namespace) -> int:
    """Have Terraform forget the files of other checkouts, which it would delete; the exit code.

    A head that runs fetches its cluster file, and its workers the wheel. They go with the stack.
    """
    files = _files_of_other_checkouts(options)
    command = ["terraform", "state", "rm", *files]
    return _run(command, _place(options.name), quiet=True) if files else 0


def _files_of_other_checkouts(options: argparse.Namespace) -> list[str]:
    """Terraform's addresses of the objects whose digest is of nothing that was built now."""
    digests = []
    for path in (_place(options.name) / "build").iterdir():
        with path.open("rb") as content:
            digests.append(hashlib.file_digest(content, "sha256").hexdigest()[:SHORT])
    listed = _told(options, "state", "list").splitlines()
    files = [address for address in listed if ".aws_s3_object." in address]
    return [address for address in files if not any(digest in address for digest in digests)]


def _await_head(options: argparse.Namespace, wanted: Settings, before: object) -> int:
    """0 once the head is launched; 1 where AWS refuses it for good; Terraform reports nothing."""
    from stack_machines import machines

    until_s = time.monotonic() + HEAD_S
    refused = None
    while wanted.variables.get("running") != "false" and time.monotonic() < until_s:
        if any(one.role == "head" for one in machines(options.name, wanted.region)):
            return 0
        refused = _refused(options, wanted.region)
        if refused not in (None, before) and not refused.may_pass:
            print(f"The head is not launched: {refused.reason}", file=sys.stderr)
            return 1
        time.sleep(LOOK_S)
    if refused not in (None, before):
        print(f"The head is not launched yet, and AWS tries again: {refused.reason}")
    return 0


def _refused(options: argparse.Namespace, region: str) -> Any:
    """The newest launch of the head, if AWS refused it."""
    import boto3
    from botocore.exceptions import ClientError

    from benchorch.hardware.aws_fleet import refused_launch

    client = boto3.client("autoscaling", region_name=region)
    with contextlib.suppress(ClientError):  # such as: there is no group yet
        return refused_launch(client, f"{options.name}-head")
    return None


def _wanted(options: argparse.Namespace, settings: Settings | None) -> Settings:
    """The settings with what was given now; ValueError for a stack that is somewhere else."""
    if settings is None and RESERVED.fullmatch(options.name):  # a half-made one can be removed
        raise ValueError(
            f"AWS refuses resources of a stack named {options.name}, or benchorch uses their names "
            "itself: make provision STACK=ANOTHER-NAME"
        )
    given = dict(pair.partition("=")[::2] for pair in options.var)
    if SECRET in given:
        raise ValueError(
            f"{SECRET} would be kept with the stack's variables, and shown among the processes: "
            f"make provision makes one itself, or takes it from the variable TF_VAR_{SECRET}"
        )
    before = settings or Settings(region=stack_home.own_region())
    # One that an earlier version has kept does not go on.
    before = replace(before, variables={k: v for k, v in before.variables.items() if k != SECRET})
    wanted = before.updated(given)
    if settings is not None and wanted.region != settings.region:
        raise ValueError(
            f"{options.name} is in {settings.region} and does not move to {wanted.region}: make "
            f"destroy first, or make another one with STACK=ANOTHER-NAME"
        )
    os.environ["AWS_DEFAULT_REGION"] = wanted.region
    return wanted


def _make_service_roles() -> None:
    """The roles by which Auto Scaling and spot act in this account; they outlive every stack."""
    import boto3

    iam = boto3.client("iam", region_name=stack_home.DEFAULT_REGION)
    for service, role in SERVICE_ROLES.items():
        try:
            iam.get_role(RoleName=role)
        except iam.exceptions.NoSuchEntityException:
            with contextlib.suppress(iam.exceptions.InvalidInputException):  # somebody else made it
                iam.create_service_linked_role(AWSServiceName=service)
                print(f"made: {role}, by which {service} acts in this account")


def _image(options: argparse.Namespace, home: Home, settings: Settings | None) -> int:
    """Bake an image for every kind of node, and remember them."""
    from stack_image import bake

    if settings is None:
        print(_nothing_kept(options, home), file=sys.stderr)
        return 2
    wanted = _wanted(options, settings)
    code = _initialised(options, home, wanted)
    bakes = json.loads(_output(options, "bakes", "-json") or "{}") if code == 0 else {}
    if not bakes:
        print(f"{options.name} is not finished: make provision", file=sys.stderr)
        return code or 2
    before = json.loads(wanted.variables.get("baked_images", "{}"))
    images: dict[str, str] = {}
    for kind, image in bake(options.name, wanted.region, bakes, print):
        images[kind] = image
        text = json.dumps({**before, **images})
        home.remember(options.name, wanted.updated({"baked_images": text}))
    if images:
        print("New machines start from these images after: make provision")
        replaced = ", ".join(before[kind] for kind in images if kind in before)
        if replaced:  # launch templates, and heads that run, name them still
            print(f"They replace {replaced}, which are kept, and cost, until make destroy")
    return 0 if len(images) == len(bakes) else 1


def _status(options: argparse.Namespace, home: Home, settings: Settings | None) -> int:
    """Print the running machines, wherever they are."""
    from stack_machines import machines

    where, closed = (settings.regions, ()) if settings else stack_leftovers.regions()
    found = [machine for region in where for machine in machines(options.name, region)]
    for machine in found:
        print(
            f"{machine.instance_id}  {machine.role:6}  {machine.kind:14}  {machine.market:9}  "
            f"{machine.state:8}  {machine.zone}  since {machine.launched_at}"
        )
    for region in where if settings and not found else ():
        refused = _refused(options, region)
        if refused:
            print(f"the last launch of a head in {region} was refused: {refused.reason}")
    looked = ", ".join(where) if settings else _regions_of(home, where, closed)
    print(f"{options.name}: {len(found)} machine{'' if len(found) == 1 else 's'} in {looked}")
    if settings is None:
        print(_nothing_kept(options, home))
    return 0


def _nothing_kept(options: argparse.Namespace, home: Home) -> str:
    return (
        f"Account {home.account} has no stack {options.name}: make provision STACK={options.name}"
    )


def _regions_of(home: Home, where: Sequence[str], closed: Sequence[str]) -> str:
    but = f"; a policy forbids to look in {', '.join(closed)}" if closed else ""
    return f"{len(where)} regions of account {home.account}{but}"


def _destroy(options: argparse.Namespace, home: Home, settings: Settings | None) -> int:
    """End machines, download results, remove the stack; look everywhere for what is left."""
    everywhere, closed = stack_leftovers.regions(settings.regions if settings else ())
    looked = _regions_of(home, everywhere, closed)
    found = stack_leftovers.find(options.name, everywhere)
    if settings is None and not found:
        print(f"{_nothing_kept(options, home)}\nNothing has its tag in {looked}.")
        return 0
    if not options.yes and not _confirmed(options.name):
        return 1
    if settings is not None:  # or a sweep that is sent now would start another head
        now = datetime.now(UTC).isoformat(timespec="seconds")
        # Its images end before Terraform, which looks up each that is named.
        kept = {k: v for k, v in settings.variables.items() if k != "baked_images"}
        settings = replace(settings, destroying_since=now, variables=kept)
        home.remember(options.name, settings)
    for region in sorted({one.region for one in found}):
        stack_leftovers.end(options.name, region, print)
    code = 0 if settings is None else _removed(options, home, _wanted(options, settings))
    left = stack_leftovers.find(options.name, everywhere)
    for one in left:
        print(f"left: {one}", file=sys.stderr)
    if code == 0 and not left and settings is not None:
        home.forget(options.name)
    if not left:
        print(
            f"{options.name}: no machine is left, and no disk, image or network with its tag, in "
            f"{looked}."
        )
    return code or (1 if left else 0)


def _confirmed(name: str) -> bool:
    try:
        answer = input(f"Terminate every machine of {name} and remove it? [yes/no] ")
    except EOFError:  # no terminal
        answer = ""
        print("\nmake destroy ARGS=--yes needs no answer.")
    if answer != "yes":
        print("Nothing was changed.")
    return answer == "yes"


def _removed(options: argparse.Namespace, home: Home, settings: Settings) -> int:
    """Download results, empty the bucket, and have Terraform remove what it has made."""
    code = _initialised(options, home, settings) or _download_results(options)
    if code == 0:
        bucket = _output(options, "bucket")
        for prefix in ("store", "packages", "config", "starts") if bucket else ():
            empty_place(f"s3://{bucket}/{prefix}", print)
        code = _terraform(options, settings, "destroy", "-auto-approve")
    return code


def _download_results(options: argparse.Namespace) -> int:
    """Download the runs in the bucket, then empty it."""
    from benchorch.errors import BenchorchError
    from benchorch.journal import run_directory
    from benchorch.journal.registry import remember
    from benchorch.stores.objects import bucket_at

    url = _output(options, "results_url")
    if not url:
        return 0
    try:
        downloaded = download_all(bucket_at(url), options.results, print)
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


def _approval(options: argparse.Namespace) -> Sequence[str]:
    return ["-auto-approve"] if options.yes else []


def _examined(settings: Settings, name: str) -> int:
    """0 where Terraform takes the variables, which are kept with the stack from then on."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        shutil.copy(SOURCE / "variables.tf", place)
        _write_settings(place, settings, name)
        command = ["terraform", "plan", "-input=false", *_variables(settings)]
        return _run(command, place, quiet=True)


def _initialised(options: argparse.Namespace, home: Home | None, settings: Settings) -> int:
    """Initialise a working directory, so that a checkout holds no state; the exit code."""
    place = _fresh(_place(options.name))
    stack_build.build(place / "build")
    if home is not None:
        emulated = bool(os.environ.get("AWS_ENDPOINT_URL"))
        backend = json.dumps(home.backend(options.name, emulated=emulated))
        (place / "backend.tf.json").write_text(backend)
    _write_settings(place, settings, options.name)
    plugins = os.environ.get("BENCHORCH_TF_PLUGIN_DIR")
    offline = [f"-plugin-dir={plugins}"] if plugins else []
    return _run(["terraform", "init", "-input=false", "-reconfigure", *offline], place, quiet=True)


def _write_settings(place: Path, settings: Settings, name: str) -> None:
    told = {"name": name, "region": settings.region, "build_dir": "build"}
    (place / "settings.auto.tfvars.json").write_text(json.dumps(told))


def _fresh(place: Path) -> Path:
    """A working directory that holds what this checkout has, and the providers of last time."""
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    for old in place.iterdir():
        if old.name != ".terraform":
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    ignored = shutil.ignore_patterns("tests", ".terraform")
    return Path(shutil.copytree(SOURCE, place, ignore=ignored, dirs_exist_ok=True))


def _terraform(options: argparse.Namespace, settings: Settings, what: str, *flags: str) -> int:
    command = ["terraform", what, "-input=false", *_variables(settings), *flags]
    return _run(command, _place(options.name))


def _variables(settings: Settings) -> Sequence[str]:
    return [f"-var={key}={quoted(value)}" for key, value in settings.variables.items()]


def _output(options: argparse.Namespace, name: str, form: str = "-raw") -> str:
    """One of Terraform's outputs; empty if an unfinished stack has none."""
    return _told(options, "output", form, name)


def _told(options: argparse.Namespace, *words: str) -> str:
    """What Terraform prints; empty where it fails."""
    done = subprocess.run(
        ["terraform", *words],
        cwd=_place(options.name),
        env=_environment(),
        timeout=LIMIT_S,
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if done.returncode else done.stdout


def _run(command: Sequence[str], place: Path, *, quiet: bool = False) -> int:
    output = subprocess.PIPE if quiet else None
    with subprocess.Popen(
        command, cwd=place, env=_environment(), stdout=output, stderr=output
    ) as process:
        told = _communicate(process)
    if quiet and process.returncode:
        sys.stderr.buffer.write(b"".join(told))
    return process.returncode


def _communicate(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """What Terraform says; interrupted, it ends by itself: killed, it would leave its lock."""
    try:
        return process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        process.communicate()
        raise OSError(f"terraform was interrupted: it took longer than {LIMIT_S} s") from None
    except KeyboardInterrupt:  # which the terminal has sent to Terraform, too
        process.communicate()
        raise


def _environment() -> Mapping[str, str]:
    """The token is passed by the environment: a new one each time, stored only if there is none."""
    emulated = {"TF_VAR_endpoint_checks": "false"} if os.environ.get("AWS_ENDPOINT_URL") else {}
    new = {f"TF_VAR_{SECRET}": secrets.token_hex(TOKEN_BYTES), "TF_IN_AUTOMATION": "1"}
    return {**new, **emulated, **os.environ}


def _place(name: str) -> Path:
    default = Path.home() / ".cache" / "benchorch" / "stacks"
    return Path(os.environ.get("BENCHORCH_TF_WORK_DIR", default)) / name


if __name__ == "__main__":
    sys.exit(main())
