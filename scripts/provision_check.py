"""Is the AWS account ready for the stack? Read-only, in seconds.

    python scripts/provision_check.py [--name NAME] [--var KEY=VALUE] [--json]

Exit code 0: ready, perhaps with warnings; 1: the stack would not work; 2: nothing was examined,
because AWS did not accept the credentials or an argument is invalid. It compares the account with
infra/facts.yaml. A stack that is there is examined with its region and variables, and with those
given now; another one as `make provision`, which begins with this, would make it.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

INFRA = Path(__file__).resolve().parents[1] / "infra"
TERRAFORM = INFRA / "terraform"
NOT_EXAMINED = 2


def main(words: Sequence[str] | None = None) -> int:
    """Print the table; the exit code."""
    from benchorch.errors import BenchorchError
    from benchorch.hardware.aws_account.account import NotAnswered

    options = _options(words)
    try:
        return _examine(options)
    except NotAnswered as error:
        print(
            f"provision-check: AWS did not accept this shell's credentials ({error}); log in, e.g. "
            "aws sso login, set AWS_PROFILE, or set this machine's clock.",
            file=sys.stderr,
        )
        return NOT_EXAMINED
    except BenchorchError as error:
        print(f"provision-check: {error}", file=sys.stderr)
        return NOT_EXAMINED


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--name", default="benchorch", help="of the stack")
    parser.add_argument("--var", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--json", action="store_true", help="one object instead of a table")
    return parser.parse_args(words)


def _examine(options: argparse.Namespace) -> int:
    from account_checks.examination import Examination
    from account_checks.report import as_json, as_table, exit_code
    from account_checks.requested import stack_request
    from account_checks.terraform_version import check_terraform
    from benchorch.hardware.aws_account.account import boto3_account
    from benchorch.hardware.aws_account.facts import read_facts

    facts = read_facts(INFRA / "facts.yaml")
    variables = (TERRAFORM / "variables.tf").read_text(encoding="utf-8")
    stack_request(options.name, variables, options.var)  # rejected before AWS is called
    request = stack_request(options.name, variables, [*_kept(options.name), *options.var])
    examination = Examination(
        account=boto3_account(request.region),
        request=request,
        facts=facts,
        actions=actions(),
        now=lambda: datetime.now(UTC),
    )
    local = check_terraform(
        _terraform_version(),
        (TERRAFORM / "versions.tf").read_text(encoding="utf-8"),
        _text(TERRAFORM / ".terraform.lock.hcl"),
        facts,
    )
    findings = [*local, *examination.findings()]
    print(as_json(findings) if options.json else as_table(findings))
    return exit_code(findings)


def _kept(name: str) -> list[str]:
    """The region and the variables that a stack was made with; else the region of a new one."""
    from botocore.exceptions import BotoCoreError, ClientError

    import stack_home
    from benchorch.hardware.aws_account.account import boto3_account

    boto3_account(stack_home.DEFAULT_REGION).call("sts", "get_caller_identity")  # or NotAnswered
    with suppress(BotoCoreError, ClientError, OSError, ValueError):
        settings = stack_home.find_home().settings(name)
        if settings is not None:
            kept = {**settings.variables, "region": settings.region}
            return [f"{key}={value}" for key, value in kept.items()]
    return [f"region={stack_home.own_region()}"]


def actions() -> list[str]:
    """What making, reading and removing the stack's resources calls."""
    import yaml

    table = yaml.safe_load((INFRA / "permissions.yaml").read_text(encoding="utf-8"))
    found = {action for actions in table["resources"].values() for action in actions}
    return sorted(found | set(table["besides"]))


def _terraform_version() -> str | None:
    if shutil.which("terraform") is None:
        return None
    try:
        done = subprocess.run(
            ["terraform", "version", "-json"],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


if __name__ == "__main__":
    sys.exit(main())
