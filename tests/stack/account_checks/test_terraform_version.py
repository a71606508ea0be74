"""Terraform and its provider have the versions that the stack is written for."""

from __future__ import annotations

import json

import pytest

from account_checks.terraform_version import check_terraform
from benchorch.hardware.aws_account.finding import FindingState
from support.aws_emulator.images import facts

VERSIONS = 'terraform {\n  required_version = ">= 1.11"\n}'


@pytest.mark.parametrize(
    ("told", "state"),
    [
        (json.dumps({"terraform_version": "1.11.4"}), FindingState.OK),
        (json.dumps({"terraform_version": "1.12.0-rc1"}), FindingState.OK),
        (json.dumps({"terraform_version": "1.9.8"}), FindingState.FAILED),
        (None, FindingState.FAILED),
        ("Terraform v1", FindingState.FAILED),
    ],
)
def test_terraform_itself(told: str | None, state: FindingState) -> None:
    (finding,) = check_terraform(told, VERSIONS, None, facts())
    assert finding.state is state


@pytest.mark.parametrize(
    ("version", "state"),
    [("5.100.0", FindingState.OK), ("6.20.0", FindingState.OK), ("4.67.0", FindingState.FAILED)],
)
def test_the_locked_provider(version: str, state: FindingState) -> None:
    lock = f'provider "registry.terraform.io/hashicorp/aws" {{\n  version     = "{version}"\n}}'
    told = json.dumps({"terraform_version": "1.11.4"})
    assert list(check_terraform(told, VERSIONS, lock, facts()))[1].state is state
