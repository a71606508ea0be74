"""Systems Manager's Run Command, which moto only pretends to have."""

from __future__ import annotations

import json
import subprocess
import threading
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from support.aws_emulator.shim import Answer
from support.aws_emulator.traffic import Call

Runner = Callable[[str, str], "subprocess.CompletedProcess[str]"]
"""Runs a shell script on a machine, by the machine's id."""

SHOWN = 24_000


def _nothing(machine: str, script: str) -> subprocess.CompletedProcess[str]:
    del machine
    return subprocess.CompletedProcess(script, 0, "", "")


class SystemsManager:
    """Every machine takes commands; a test says how they run.

    Attributes:
        runner: runs them, each in a thread of its own; AWS's agent gives them to `sh`.
        online: whether a machine takes commands.
    """

    def __init__(self) -> None:
        self.runner: Runner = _nothing
        self.online: Callable[[str], bool] = bool
        self._ends: dict[str, subprocess.CompletedProcess[str] | None] = {}
        self._handlers: Mapping[str, Callable[[Mapping[str, Any]], Answer]] = {
            "ssm:DescribeInstanceInformation": self._describe,
            "ssm:SendCommand": self._send,
            "ssm:GetCommandInvocation": self._invocation,
        }

    def answer(self, call: Call, body: bytes) -> Answer | None:
        """The answer to a call of Run Command, or None to ask another."""
        handler = self._handlers.get(call.name)
        return handler(json.loads(body or b"{}")) if handler else None

    def _describe(self, request: Mapping[str, Any]) -> Answer:
        ids = [value for one in request.get("Filters", ()) for value in one["Values"]]
        online = filter(self.online, ids)
        told = [{"InstanceId": machine, "PingStatus": "Online"} for machine in online]
        return _json({"InstanceInformationList": told})

    def _send(self, request: Mapping[str, Any]) -> Answer:
        command_id = str(uuid.uuid4())
        self._ends[command_id] = None
        script = "\n".join(request["Parameters"]["commands"])
        work = (command_id, request["InstanceIds"][0], script)
        threading.Thread(target=self._run, args=work, daemon=True).start()
        return _json({"Command": {"CommandId": command_id}})

    def _run(self, command_id: str, machine: str, script: str) -> None:
        self._ends[command_id] = self.runner(machine, script)

    def _invocation(self, request: Mapping[str, Any]) -> Answer:
        end = self._ends[request["CommandId"]]
        status = "InProgress" if end is None else "Failed" if end.returncode else "Success"
        return _json(
            {
                "Status": status,
                "StandardOutputContent": (end.stdout if end else "")[:SHOWN],
                "StandardErrorContent": (end.stderr if end else "")[:SHOWN],
            }
        )


def _json(content: object) -> Answer:
    return 200, "application/x-amz-json-1.1", json.dumps(content).encode()
