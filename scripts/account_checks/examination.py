"""All checks of an account, beside one another."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from account_checks.buckets import check_buckets
from account_checks.budget import check_budget
from account_checks.encryption import check_key
from account_checks.identity import (
    check_clock,
    check_identity,
    identity_of,
    simulated_arn,
)
from account_checks.images import check_images, check_python
from account_checks.networks import check_networks, check_public_access
from account_checks.permissions import check_permissions
from account_checks.plans import check_plan
from account_checks.roles import check_roles
from benchorch.hardware.aws_account.account import AwsAccount, NotAnswered
from benchorch.hardware.aws_account.facts import Facts
from benchorch.hardware.aws_account.finding import AccountFinding, FindingState
from benchorch.hardware.aws_account.machine_types import (
    MachineType,
    check_accelerators,
    check_offers,
    machine_types,
)
from benchorch.hardware.aws_account.quotas import check_quotas
from benchorch.hardware.aws_account.request import StackRequest

Check = Callable[[], Iterable[AccountFinding]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """Attributes:
    actions: what making and removing the stack calls.
    now: this machine's time.
    """

    account: AwsAccount
    request: StackRequest
    facts: Facts
    actions: Sequence[str]
    now: Callable[[], datetime]

    def findings(self) -> Sequence[AccountFinding]:
        """Every check's findings; a call that AWS refuses is a finding, too.

        Raises `NotAnswered` where the credentials are not accepted.
        """
        identity = identity_of(self.account)
        now = self.now()
        account, request, facts = self.account, self.request, self.facts
        types, unanswered = self._types()
        checks: dict[str, Check] = {
            "identity": lambda: check_identity(identity),
            "clock": lambda: check_clock(identity, now, facts),
            "permissions": lambda: check_permissions(
                account, simulated_arn(account, identity), self.actions
            ),
            "offers": lambda: check_offers(account, request.types, request.region),
            "accelerators": lambda: check_accelerators(types),
            "images": lambda: check_images(account, types.values(), request, facts),
            "python": lambda: check_python(facts),
            "quotas": lambda: check_quotas(account, request, types, facts),
            "networks": lambda: check_networks(account, request.name, facts),
            "access": lambda: check_public_access(account),
            "roles": lambda: check_roles(account, request, facts),
            "key": lambda: check_key(account, identity, request, facts),
            "bucket": lambda: check_buckets(account, request.name),
            "budget": lambda: check_budget(account, identity, request.name, facts),
            "plan": lambda: check_plan(account, types),
        }
        with ThreadPoolExecutor(max_workers=len(checks)) as pool:
            found = pool.map(lambda item: _run(*item), checks.items())
        return [finding for each in [unanswered, *found] for finding in each]

    def _types(self) -> tuple[Mapping[str, MachineType], Sequence[AccountFinding]]:
        try:
            return machine_types(self.account, self.request.types), []
        except NotAnswered as error:  # neither images nor quotas can be chosen then
            return {}, [_not_answered("types", error)]


def _run(name: str, check: Check) -> Sequence[AccountFinding]:
    """A check's findings; what it found before a call was refused is kept."""
    found: list[AccountFinding] = []
    try:
        found.extend(check())
    except NotAnswered as error:
        found.append(_not_answered(name, error))
    except (KeyError, TypeError, ValueError) as error:  # an answer of another shape
        found.append(_not_answered(name, NotAnswered(f"AWS's answer has no {error}")))
    return found


def _not_answered(name: str, error: NotAnswered) -> AccountFinding:
    return AccountFinding(
        name,
        FindingState.UNKNOWN,
        "AWS",
        str(error),
        "Allow this read-only call in a policy of the caller."
        if error.denied
        else "Run make provision-check again.",
    )
