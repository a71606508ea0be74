"""What was asked for, and which of it shall fail."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from support.aws_emulator.operations import operation_of


@dataclass(frozen=True)
class Call:
    """One request: ``ec2``/``RunInstances``, or for S3 the method in place of an action.

    Attributes:
        fields: of the form, where the request is one.
        content: of the body, where that is JSON.
        query: of the address.
        if_none_match: the condition of a write; empty for none.
        key: the caller's access key.
    """

    service: str
    action: str
    path: str
    fields: Mapping[str, str]
    content: Mapping[str, Any] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    if_none_match: str = ""
    key: str = ""

    @property
    def name(self) -> str:
        return f"{self.service}:{self.action}"

    @property
    def operation(self) -> str:
        """``s3:GetBucketAcl`` where the name has the method alone."""
        if self.action not in METHODS:
            return self.name
        return f"{self.service}:{operation_of(self.service, self.action, self.path, self.query)}"


@dataclass
class Fault:
    """What shall happen to calls instead of an answer.

    `fields` are compared with the form's; `path` is searched for in the URL; `key` is that of the
    only caller concerned; after `times` calls it is over. A fault without a status only makes the
    call slow.
    """

    call: str
    code: str = ""
    status: int = 400
    times: int = 10**9
    sleep_s: float = 0.0
    path: str = ""
    message: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    key: str = ""

    def concerns(self, call: Call) -> bool:
        return (
            self.times > 0
            and re.fullmatch(self.call, call.name) is not None
            and re.search(self.path, call.path) is not None
            and self.key in ("", call.key)
            and all(call.fields.get(name) == value for name, value in self.fields.items())
        )


class Traffic:
    """Counts calls and deals out faults; shared by the server's threads.

    Attributes:
        calls: those of machines, with the role of each.
        operations: those of everybody else, by AWS's names.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.by_caller: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.calls: list[tuple[str, Call]] = []
        self.operations: set[str] = set()
        self.faults: list[Fault] = []
        self._lock = threading.Lock()

    def admit(self, call: Call, caller: str = "") -> Fault | None:
        """Count a call; the fault that it meets, or None."""
        with self._lock:
            self.counts[call.name] += 1
            self.by_caller[caller][call.name] += 1
            if caller:  # a machine, whose role decides what it may call
                self.calls.append((caller, call))
            else:
                self.operations.add(call.operation)
            fault = next((fault for fault in self.faults if fault.concerns(call)), None)
            if fault:
                fault.times -= 1
        if fault and fault.sleep_s:
            time.sleep(fault.sleep_s)
        return fault if fault and fault.code else None


METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE")
_SCOPE = re.compile(r"Credential=([^/]*)/\d+/[^/]*/([^/]*)/aws4_request")


def call_of(environ: Mapping[str, object], body: bytes) -> Call:
    """What a request asks of which service, from its signature and its body."""
    signature = str(environ.get("HTTP_AUTHORIZATION", "")) + str(environ.get("QUERY_STRING", ""))
    scope = _SCOPE.search(signature.replace("%2F", "/"))
    key, service = scope.groups() if scope else ("", "s3")
    path = str(environ.get("PATH_INFO", ""))
    query = _flat(str(environ.get("QUERY_STRING", "")))
    target = str(environ.get("HTTP_X_AMZ_TARGET", ""))
    if target:
        content = json.loads(body or b"{}")
        return Call(service, target.rpartition(".")[2], path, {}, content, key=key)
    if "x-www-form-urlencoded" in str(environ.get("CONTENT_TYPE", "")):
        form = _flat(body.decode())
        return Call(service, form.get("Action", ""), path, form, key=key)
    method, condition = (str(environ.get(n, "")) for n in ("REQUEST_METHOD", "HTTP_IF_NONE_MATCH"))
    return Call(service, method, path, {}, query=query, if_none_match=condition, key=key)


def _flat(text: str) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(text, keep_blank_values=True).items()}
