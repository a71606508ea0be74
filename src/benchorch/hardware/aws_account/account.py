"""Calls to one account: short limits, and errors as one sentence."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchorch.errors import BenchorchError

# A check that takes minutes is not run before every `make provision`.
_QUICK = {"connect_timeout": 5, "read_timeout": 15, "retries": {"total_max_attempts": 3}}

BILLING_REGION = "us-east-1"
"""Where the services of billing answer, wherever the stack is."""


_TOKENS = ("NextToken", "PaginationToken", "Marker")
"""Names of what asks for the next page; each call has one of them."""


class NotAnswered(BenchorchError):
    """AWS refused a call or did not answer it."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code

    @property
    def denied(self) -> bool:
        """Whether a policy refused the call."""
        return self.code in {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsAccount:
    """Attributes:
    region: where the stack is made.
    client: a service and a region into a boto3 client.
    """

    region: str
    client: Callable[[str, str], Any]

    def call(
        self, service: str, operation: str, /, *, region: str | None = None, **arguments: Any
    ) -> Any:
        """The answer to one call, or `NotAnswered`."""
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError

        try:
            client = self.client(service, region or self.region)
            return getattr(client, operation)(**arguments)
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            raise NotAnswered(f"{service}:{operation}: {error}", code) from error
        except (BotoCoreError, ResponseParserError, OSError, ValueError) as error:
            raise NotAnswered(f"{service}:{operation}: {error}") from error

    def pages(
        self, service: str, operation: str, key: str, /, *, region: str | None = None, **more: Any
    ) -> list[Any]:
        """Every page's entries under a key."""
        found, marker = [], more
        while True:
            page = self.call(service, operation, region=region, **marker)
            found += page.get(key, [])
            tokens = {name: page[name] for name in _TOKENS if page.get(name)}
            if not tokens:
                return found
            marker = {**more, **tokens}

    def quota(self, service: str, code: str) -> float:
        """Quota of the account, or AWS's default where it has none of its own."""
        arguments = {"ServiceCode": service, "QuotaCode": code}
        try:
            answer = self.call("service-quotas", "get_service_quota", **arguments)
        except NotAnswered as error:
            if error.code != "NoSuchResourceException":
                raise
            answer = self.call("service-quotas", "get_aws_default_service_quota", **arguments)
        return float(answer["Quota"]["Value"])


def boto3_account(region: str) -> AwsAccount:
    """The account that the machine's credentials lead to."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    try:
        session = boto3.Session(region_name=region)
    except BotoCoreError as error:  # such as a profile that does not exist
        raise NotAnswered(str(error)) from error

    def client(service: str, where: str) -> Any:
        return session.client(service, region_name=where, config=Config(**_QUICK))

    return AwsAccount(region=region, client=client)
