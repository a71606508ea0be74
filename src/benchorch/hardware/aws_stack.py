"""Stacks in the AWS account whose credentials boto3 finds.

The record of an account's stacks is the bucket ``benchorch-stacks-ACCOUNT``, which
``scripts/provision.py`` writes: ``NAME/settings.json`` has a stack's region and variables. Its head
takes commands by Systems Manager, so neither SSH nor an open port is needed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, final

from benchorch.config.directories import builtin_directory
from benchorch.hardware.aws_fleet import refused_launch
from benchorch.hardware.aws_prices import has_credentials
from benchorch.hardware.aws_starts import reason_of, start_in
from benchorch.interfaces.stack import (
    CommandEnd,
    Head,
    Readiness,
    Refusal,
    Stack,
    StackError,
    StackFacts,
    Stacks,
)
from benchorch.journal.chain import mapping_of

HOME = "benchorch-stacks-{account}"
SETTINGS = "settings.json"
DEFAULT_REGION = "us-east-1"
DEFAULT_FLEET = ("g5.xlarge", "r6i.large")
"""Default of Terraform's variable `fleet`, for a stack made without another value."""

DOCUMENT = "AWS-RunShellScript"
DELIVERY_S = 120
"""A machine that has ended counts as online for minutes and takes no command any more."""

_ABSENT = {"404", "NoSuchKey"}
_BEYOND = {"416", "InvalidRange"}
_GONE = {"NoSuchBucket"}
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired"}
_WRONG = {"InvalidClientTokenId", "UnrecognizedClientException", "InvalidAccessKeyId"}
_NOT_THERE = {"AuthFailure", "OptInRequired", *_WRONG}
"""Error codes of a region that the account has not enabled."""

_DENIED = {"403", "AccessDenied", "AccessDeniedException", "UnauthorizedOperation"}
_POLICY = re.compile(r"no [\w-]+ policy allows .*|(?:an )?explicit deny in .*")
"""Which policy refuses, in AWS's own words."""

_SKEWED = re.compile(r"RequestTimeTooSkewed|Signature (expired|not yet current)")
"""In AWS's words, a request that was signed by a clock that is wrong."""

_PASSING = {
    *("Throttling", "ThrottlingException", "RequestLimitExceeded", "RequestTimeout"),
    "ScalingActivityInProgress",  # such as the end of the last head
}
_QUICK = {
    "connect_timeout": 5,
    "read_timeout": 20,
    "retries": {"mode": "standard", "total_max_attempts": 4},
}
_RUNNING = {"Pending", "InProgress", "Delayed"}


@final
@dataclass(frozen=True, slots=True)
class AwsStacks(Stacks):
    """See the interface."""

    def find(self, name: str | None) -> Stack | None:
        """Find the stack with one or two requests, plus one for each stack's settings."""
        if not has_credentials():
            return None
        with _told("sts:GetCallerIdentity"):
            account = _client("sts", DEFAULT_REGION).get_caller_identity()["Account"]
        home = HOME.format(account=account)
        known = _names(home, account)
        chosen = [one for one in known if name in (None, one)]
        if name is not None and not chosen:
            listed = ", ".join(known) or "none"
            raise StackError(
                f"account {account} has no stack {name!r}; it has: {listed}. Make one by "
                f"make provision STACK={name}."
            )
        if len(chosen) > 1:
            raise StackError(
                f"account {account} has several stacks: {', '.join(chosen)}. Name one by "
                f"executor.stack={chosen[0]}."
            )
        if not chosen:
            raise StackError(f"account {account} has no stack yet; make provision makes one.")
        return AwsStack(record=_facts(chosen[0], home, account))


def _names(home: str, account: str) -> Sequence[str]:
    """Names of the stacks in the account's bucket; empty without a bucket."""
    from botocore.exceptions import ClientError

    client = _bucket_client(DEFAULT_REGION, account)
    try:
        pages = list(client.get_paginator("list_objects_v2").paginate(Bucket=home))
    except ClientError as error:
        if _code(error) in _GONE | _ABSENT:
            return []
        raise _as_told(error, f"s3:ListBucket on {home}") from error
    keys = (one["Key"] for page in pages for one in page.get("Contents", ()))
    return sorted(key.removesuffix(f"/{SETTINGS}") for key in keys if key.endswith(f"/{SETTINGS}"))


def _facts(name: str, home: str, account: str) -> StackFacts:
    with _told(f"s3:GetObject on {home}"):
        body = _bucket_client(DEFAULT_REGION, account).get_object(
            Bucket=home, Key=f"{name}/{SETTINGS}"
        )
        content = body["Body"].read()
    try:
        settings = mapping_of(content)
        region, kinds = str(settings["region"]), _kinds(settings.get("variables"))
    except (ValueError, KeyError) as error:
        problem = f"s3://{home}/{name}/{SETTINGS} is damaged ({error})"
        raise StackError(f"{problem}: make provision STACK={name} writes it again.") from error
    if settings.get("destroying_since"):
        raise StackError(
            f"Stack {name} is being destroyed since {settings['destroying_since']}, or was not to "
            f"its end: make destroy STACK={name} again, or make provision STACK={name}."
        )
    bucket = f"{name}-{account}"
    return StackFacts(
        name=name,
        region=region,
        kinds=kinds,
        results_url=f"s3://{bucket}/results",
        store_url=f"s3://{bucket}/store",
        starts_url=f"s3://{bucket}/starts",
    )


def _kinds(variables: object) -> Sequence[str]:
    """The instance types of a fleet in Terraform's notation or JSON's."""
    if not isinstance(variables, Mapping) or "fleet" not in variables:
        return DEFAULT_FLEET
    return tuple(re.findall(r'"?([a-z][\w-]*\.[\w-]+)"?\s*[=:]', str(variables["fleet"])))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AwsStack(Stack):
    """See the interface."""

    record: StackFacts

    @property
    def facts(self) -> StackFacts:
        """Facts from the account's bucket."""
        return self.record

    def read(self, name: str, start: int = 0) -> bytes | None:
        """Content of an object from a byte on, by one request."""
        return self._object(self._key(name), start)

    def _object(self, key: str, start: int = 0) -> bytes | None:
        from botocore.exceptions import ClientError

        part = {"Range": f"bytes={start}-"} if start else {}
        try:
            with _told(f"s3:GetObject on {self._bucket}"):
                found = self._s3().get_object(Bucket=self._bucket, Key=key, **part)
                return bytes(found["Body"].read())
        except StackError as error:
            cause = error.__cause__
            code = _code(cause) if isinstance(cause, ClientError) else ""
            if code in _ABSENT | _BEYOND:
                return None if code in _ABSENT else b""
            raise

    def write(self, name: str, data: bytes) -> None:
        """Write an object, by one request."""
        with _told(f"s3:PutObject on {self._bucket}"):
            self._s3().put_object(Bucket=self._bucket, Key=self._key(name), Body=data)

    def download(self, name: str, path: Path) -> None:
        """Whole or not at all."""
        part = path.with_name(f".{path.name}.part")
        with _told(f"s3:GetObject on {self._bucket}"):
            self._s3().download_file(self._bucket, self._key(name), str(part))
        part.replace(path)

    def listed(self, prefix: str) -> Sequence[str]:
        """A request for each thousand."""
        with _told(f"s3:ListBucket on {self._bucket}"):
            pages = self._s3().get_paginator("list_objects_v2")
            found = pages.paginate(Bucket=self._bucket, Prefix=self._key(prefix))
            start = len(self._key(""))
            return [one["Key"][start:] for page in found for one in page.get("Contents", ())]

    def sweeps(self) -> Sequence[str]:
        """The folders below the results."""
        with _told(f"s3:ListBucket on {self._bucket}"):
            pages = self._s3().get_paginator("list_objects_v2")
            found = pages.paginate(Bucket=self._bucket, Prefix=self._key(""), Delimiter="/")
            folders = [one["Prefix"] for page in found for one in page.get("CommonPrefixes", ())]
        return sorted(folder.rstrip("/").rpartition("/")[2] for folder in folders)

    def preflight(self, kinds: Sequence[str], markets: Sequence[str]) -> Sequence[Readiness]:
        """Readiness by EC2's offers and descriptions, and the account's vCPU quotas."""
        from benchorch.hardware.aws_account.account import boto3_account
        from benchorch.hardware.aws_account.facts import read_facts
        from benchorch.hardware.aws_account.preflight import Preflight

        account = boto3_account(self.facts.region)
        facts = read_facts(builtin_directory("infra") / "facts.yaml")
        found = Preflight(account=account, kinds=kinds, markets=markets, facts=facts).findings()
        return [Readiness(one.state, one.subject, one.observed, one.remedy) for one in found]

    def lock(self, kind: str) -> str | None:
        """The newest in the bucket; a request for each thousand packages, and one."""
        with _told(f"s3:ListBucket on {self._bucket}"):
            pages = self._s3().get_paginator("list_objects_v2")
            found = pages.paginate(Bucket=self._bucket, Prefix=f"packages/{kind}-")
            listed = [one for page in found for one in page.get("Contents", ())]
        locks = [one for one in listed if one["Key"].endswith("/lock.txt")]
        if not locks:
            return None
        newest = max(locks, key=lambda one: one["LastModified"])["Key"]
        with _told(f"s3:GetObject on {self._bucket}"):
            body = self._s3().get_object(Bucket=self._bucket, Key=newest)["Body"]
            return bytes(body.read()).decode()

    def head(self) -> Head | None:
        """The head, found by its tags; ready once it is registered with Systems Manager."""
        filters = [
            {"Name": "tag:ray-cluster-name", "Values": [self.facts.name]},
            {"Name": "tag:ray-node-type", "Values": ["head"]},
            {"Name": "instance-state-name", "Values": ["pending", "running"]},
        ]
        with _told("ec2:DescribeInstances", self.facts.region):
            response = _client("ec2", self.facts.region).describe_instances(Filters=filters)
        ids = [
            one["InstanceId"] for group in response["Reservations"] for one in group["Instances"]
        ]
        return Head(ids[0], self._takes_commands(ids[0])) if ids else None

    def _takes_commands(self, machine: str) -> bool:
        filters = [{"Key": "InstanceIds", "Values": [machine]}]
        with _told("ssm:DescribeInstanceInformation", self.facts.region):
            response = self._ssm().describe_instance_information(Filters=filters)
        return any(one.get("PingStatus") == "Online" for one in response["InstanceInformationList"])

    def start_head(self) -> None:
        """Have the head's group hold one machine."""
        group = f"{self.facts.name}-head"
        with _told(f"autoscaling:SetDesiredCapacity on {group}", self.facts.region):
            _client("autoscaling", self.facts.region).set_desired_capacity(
                AutoScalingGroupName=group, DesiredCapacity=1
            )

    def refused_launch(self) -> Refusal | None:
        """The newest activity of the head's group, if it failed; None where nobody may look."""
        with suppress(StackError), _told("autoscaling:DescribeScalingActivities"):
            client = _client("autoscaling", self.facts.region)
            return refused_launch(client, f"{self.facts.name}-head")
        return None

    def start_of(self, machine: str) -> CommandEnd | None:
        """From the machine's file below `starts_url`, by one request.

        A head that could not make the packages of other nodes has started all the same.
        """
        prefix = self.facts.starts_url.removeprefix("s3://").partition("/")[2]
        body = self._object(f"{prefix}/{machine}.json")
        if body is None:
            return None
        try:
            start = start_in(body)
        except ValueError as error:
            return CommandEnd(is_well=False, text=f"{machine} wrote no sound start: {error}")
        is_own = not str(start.get("step")).startswith("packages of ")
        failed = start.get("outcome") == "failed" and is_own
        return CommandEnd(is_well=not failed, text=reason_of(start) if failed else "")

    def send(self, machine: str, command: str) -> str:
        """Send a command by Systems Manager's Run Command; returns its id."""
        with _told(f"ssm:SendCommand on {machine} and {DOCUMENT}", self.facts.region):
            sent = self._ssm().send_command(
                InstanceIds=[machine],
                DocumentName=DOCUMENT,
                Parameters={"commands": [command]},
                TimeoutSeconds=DELIVERY_S,
            )
        return str(sent["Command"]["CommandId"])

    def end_of(self, machine: str, command_id: str) -> CommandEnd | None:
        """End of a command from Systems Manager, with the first 24,000 characters of its output."""
        client = self._ssm()
        with _told("ssm:GetCommandInvocation", self.facts.region):
            try:
                found = client.get_command_invocation(InstanceId=machine, CommandId=command_id)
            except client.exceptions.InvocationDoesNotExist:  # it was sent a moment ago
                return None
        if found["Status"] in _RUNNING:
            return None
        text = f"{found['StandardOutputContent']}\n{found['StandardErrorContent']}".strip()
        is_well = found["Status"] == "Success"
        if not is_well:  # such as one that was never delivered
            text = text or str(found.get("StatusDetails", found["Status"]))
        return CommandEnd(is_well=is_well, text=text)

    @property
    def _bucket(self) -> str:
        return self.facts.results_url.removeprefix("s3://").partition("/")[0]

    def _key(self, name: str) -> str:
        prefix = self.facts.results_url.removeprefix("s3://").partition("/")[2]
        return f"{prefix}/{name}"

    def _s3(self) -> Any:
        return _bucket_client(self.facts.region, self._bucket.rpartition("-")[2])

    def _ssm(self) -> Any:
        return _client("ssm", self.facts.region)


def _client(service: str, region: str) -> Any:
    import boto3
    from botocore.config import Config

    return boto3.client(service, region_name=region, config=Config(**_QUICK))


def _bucket_client(region: str, account: str) -> Any:
    """S3 client that refuses a bucket of that name in somebody else's account."""
    client = _client("s3", region)
    client.meta.events.register(
        "provide-client-params.s3",
        lambda params, **_: {**params, "ExpectedBucketOwner": account},
    )
    return client


@contextmanager
def _told(action: str, region: str | None = None) -> Iterator[None]:
    """Context that raises AWS errors as StackError.

    Args:
        region: of the service, where it is the stack's: other regions know these credentials.
    """
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (BotoCoreError, ClientError, Boto3Error) as error:
        raise _as_told(error, action, region) from error


def _as_told(error: Exception, action: str, region: str | None = None) -> StackError:
    """StackError of one sentence with a remedy."""
    from botocore.exceptions import ClientError, NoCredentialsError, TokenRetrievalError

    code = _code(error) if isinstance(error, ClientError) else ""
    if _SKEWED.search(str(error)):
        return StackError(
            f"AWS refuses {action}, as this machine's clock is wrong by minutes: set it, such as "
            "by timedatectl set-ntp true.",
            may_pass=True,
        )
    if region is not None and (code in _NOT_THERE or _has_no_endpoint(error, region)):
        return StackError(
            f"AWS refuses {action} in region {region}, which the stack's record names: there is no "
            "such region, this account has not enabled it (aws account get-region-opt-status "
            f"--region-name {region}), or the credentials have become invalid."
        )
    if code in _EXPIRED or isinstance(error, TokenRetrievalError):
        return StackError("The AWS credentials have expired: renew them, such as by aws sso login.")
    if code in {"SignatureDoesNotMatch", *_WRONG} or isinstance(error, NoCredentialsError):
        return StackError("AWS does not know these credentials: aws sts get-caller-identity.")
    if code in _DENIED:
        why = _POLICY.search(str(error))
        reason = why[0] if why else "a policy has to allow it"
        return StackError(f"These credentials may not do {action}: {reason}.")
    if code in _GONE:
        return StackError(f"{action}: the bucket is gone; the stack is destroyed, or being so.")
    may_pass = not isinstance(error, ClientError) or code in _PASSING or _status(error) >= 500
    return StackError(f"AWS did not do {action}: {error}", may_pass=may_pass)


def _has_no_endpoint(error: Exception, region: str) -> bool:
    """Whether the service has no endpoint because botocore lists no such region.

    A laptop without a network gets the same error in every region, and that passes.
    """
    import boto3
    from botocore.exceptions import EndpointConnectionError, InvalidRegionError

    if isinstance(error, InvalidRegionError):
        return True
    known = boto3.Session()
    regions = (known.get_available_regions("ec2", one) for one in known.get_available_partitions())
    return isinstance(error, EndpointConnectionError) and region not in chain(*regions)


def _status(error: Any) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))
