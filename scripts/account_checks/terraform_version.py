"""Are Terraform and its AWS provider of versions that the stack is written for?"""

import json
import re
from collections.abc import Iterator
from functools import partial

from benchorch.hardware.aws_account.facts import Facts
from benchorch.hardware.aws_account.finding import AccountFinding, FindingState

INSTALL = "https://developer.hashicorp.com/terraform/install"
_REQUIRED = re.compile(r'required_version\s*=\s*">=\s*([\d.]+)')
_LOCKED = re.compile(
    r'provider "registry\.terraform\.io/hashicorp/aws" \{\s*version\s*=\s*"([^"]+)"'
)

_finding = partial(AccountFinding, "terraform")


def check_terraform(
    output: str | None, versions_tf: str, lock: str | None, facts: Facts
) -> Iterator[AccountFinding]:
    """From the text of ``terraform version -json``, versions.tf and the lock file."""
    least = match[1] if (match := _REQUIRED.search(versions_tf)) else "0"
    yield _of_terraform(output, least)
    if lock is not None:
        yield _of_provider(lock, facts)


def _of_terraform(output: str | None, least: str) -> AccountFinding:
    try:
        version = str(json.loads(output or "")["terraform_version"])
    except (ValueError, KeyError, TypeError):
        return _finding(
            FindingState.FAILED, "terraform", "not found", f"Install {least} or newer: {INSTALL}"
        )
    enough = _numbers(version) >= _numbers(least)
    return _finding(
        FindingState.OK if enough else FindingState.FAILED,
        "terraform",
        f"{version}; the stack needs {least} or newer",
        "" if enough else INSTALL,
    )


def _of_provider(lock: str, facts: Facts) -> AccountFinding:
    match = _LOCKED.search(lock)
    version = match[1] if match else "none"
    majors = facts["terraform.providers"].value
    good = version.partition(".")[0] in majors
    return _finding(
        FindingState.OK if good else FindingState.FAILED,
        "hashicorp/aws",
        f"{version} locked; tested: {' and '.join(majors)}",
        "" if good else "terraform -chdir=infra/terraform init -upgrade",
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("-")[0])[:3])
