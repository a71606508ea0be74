"""Do the public parameters name images, and are those the operating system that is expected?"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from benchorch.hardware.aws_account.account import AwsAccount
from benchorch.hardware.aws_account.facts import Facts
from benchorch.hardware.aws_account.finding import AccountFinding, FindingState
from benchorch.hardware.aws_account.machine_types import MachineType
from benchorch.hardware.aws_account.request import StackRequest

_ALLOWED = "Take another, or allow it: aws ec2 get-allowed-images-settings names what hides it."
_NAMES_OF_24_04 = ("24.04", "noble")


def check_images(
    account: AwsAccount, types: Collection[MachineType], request: StackRequest, facts: Facts
) -> Iterator[AccountFinding]:
    """One finding for each image that the stack's types need."""
    needed = {f"image.{kind.image}.{kind.arch}" for kind in types}
    for identifier in sorted(needed - facts.keys()):
        yield _finding(
            identifier, FindingState.FAILED, "AWS publishes no such image", "Take other types."
        )
    parameters = {
        identifier: request.image_parameters.get(_of_terraform(identifier), facts[identifier].value)
        for identifier in sorted(needed & facts.keys())
    }
    if not parameters:
        return
    answer = account.call("ssm", "get_parameters", Names=sorted(set(parameters.values())))
    ids = {row["Name"]: row["Value"] for row in answer["Parameters"]}
    for identifier, name in parameters.items():
        if name not in ids:
            yield _finding(
                identifier,
                FindingState.FAILED,
                f"there is no parameter {name} in {account.region}",
                "List what there is and set image_parameters: aws ssm get-parameters-by-path "
                f"--recursive --path {'/'.join(name.split('/')[:4])}",
            )
    there = parameters.items()
    yield from _examined(account, {image: ids[name] for image, name in there if name in ids})


def _of_terraform(identifier: str) -> str:
    """The name in Terraform's variable `image_parameters`; a server's is its architecture."""
    _, image, arch = identifier.split(".")
    return arch if image == "server" else image


def check_python(facts: Facts) -> Iterator[AccountFinding]:
    """Python version of the images, which only the first node can confirm."""
    yield AccountFinding(
        "python",
        FindingState.UNKNOWN,
        "images",
        f"Python {facts['image.python'].value} by AWS's release notes; its patch level, "
        "which Ray compares, is first read on a node",
        "Nothing now. A node that differs from the head reports both versions and ends.",
    )


def _examined(account: AwsAccount, ids: Mapping[str, str]) -> Iterator[AccountFinding]:
    if not ids:
        return
    answer = account.call("ec2", "describe_images", ImageIds=sorted(set(ids.values())))
    images = {image["ImageId"]: image for image in answer["Images"]}
    for identifier, image_id in ids.items():
        yield _of_image(identifier, image_id, images.get(image_id))


def _of_image(identifier: str, image_id: str, image: Mapping[str, Any] | None) -> AccountFinding:
    if image is None:
        return _finding(identifier, FindingState.FAILED, f"{image_id} is not visible", _ALLOWED)
    name, arch = str(image.get("Name", "")), str(image.get("Architecture", ""))
    observed = f"{image_id} {name} ({arch})"
    if arch != identifier.rpartition(".")[2]:
        return _finding(identifier, FindingState.FAILED, observed, "The architecture is wrong.")
    if not any(part in name for part in _NAMES_OF_24_04):
        return _finding(
            identifier, FindingState.FAILED, observed, "Not Ubuntu 24.04; set image_parameters."
        )
    return _finding(identifier, FindingState.OK, observed, "")


def _finding(identifier: str, state: FindingState, observed: str, remedy: str) -> AccountFinding:
    subject = identifier.removeprefix("image.")
    return AccountFinding("images", state, subject, observed, remedy)
