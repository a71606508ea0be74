"""AWS's decision on a call, by the policies of everyone whom AWS consults.

The evaluation is that of @cloud-copilot/iam-simulate, a maintained library for Node that runs as a
program of its own; `npm ci` in this directory installs it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
LIMIT_S = 120
Policy = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Request:
    """One call, and the policies that decide on it.

    Attributes:
        context: condition keys that AWS supplies with the call.
        identity: policies of the principal, by name.
        resource_policy: of the bucket, the key or the role that is assumed.
        endpoint: policies of the VPC endpoint that the call goes through.
    """

    principal: str
    action: str
    resource: str
    account: str = "123456789012"
    context: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    identity: Mapping[str, Policy] = field(default_factory=dict)
    resource_policy: Policy | None = None
    endpoint: Mapping[str, Policy] = field(default_factory=dict)

    def simulation(self) -> dict[str, Any]:
        return {
            "request": {
                "principal": self.principal,
                "action": self.action,
                "resource": {"resource": self.resource, "accountId": self.account},
                "contextVariables": dict(self.context),
            },
            "identityPolicies": _named(self.identity),
            "serviceControlPolicies": [],
            "resourceControlPolicies": [],
            **({"resourcePolicy": self.resource_policy} if self.resource_policy else {}),
            **({"vpcEndpointPolicies": _named(self.endpoint)} if self.endpoint else {}),
        }


@dataclass(frozen=True, kw_only=True)
class Decision:
    """``Allowed``, ``ImplicitlyDenied``, ``ExplicitlyDenied`` or ``Invalid``, and why.

    Attributes:
        ignored: condition keys of the request that AWS supplies to no such call.
    """

    decision: str
    why: str
    ignored: Sequence[str]


def missing() -> str | None:
    """What the evaluation lacks and how to get it, or None."""
    if shutil.which("node") is None:
        return "policies are evaluated by a library for Node; install nodejs and npm"
    if not (HERE / "node_modules" / "@cloud-copilot").is_dir():
        return f"policies are evaluated by a library for Node: npm ci --prefix {HERE}"
    return None


def decide(requests: Sequence[Request]) -> Sequence[Decision]:
    """The decision on each call."""
    answer = _asked({"simulations": [request.simulation() for request in requests]})
    return [Decision(**one) for one in answer["decisions"]]


def faults(policies: Sequence[tuple[str, Policy]]) -> Sequence[Sequence[str]]:
    """What is wrong with each policy: ``identity``, ``resource``, ``endpoint`` or ``trust``."""
    asked = [{"kind": kind, "policy": policy} for kind, policy in policies]
    return _asked({"policies": asked})["faults"]


def exist(actions: Sequence[str]) -> Sequence[bool]:
    """Whether AWS has each action."""
    return _asked({"actions": list(actions)})["exists"]


def _asked(request: Mapping[str, Any]) -> dict[str, Any]:
    done = subprocess.run(
        ["node", str(HERE / "evaluate.mjs")],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"evaluate.mjs failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def _named(policies: Mapping[str, Policy]) -> list[dict[str, Any]]:
    return [{"name": name, "policy": policy} for name, policy in policies.items()]
