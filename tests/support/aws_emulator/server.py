"""The emulator as a server: moto's application behind counters, faults and the shim."""

from __future__ import annotations

import io
import json
import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

from support.aws_emulator import clock, consistency, images, shim
from support.aws_emulator.account import EmulatedAccount
from support.aws_emulator.systems_manager import SystemsManager
from support.aws_emulator.traffic import Call, Fault, Traffic, call_of

ACCOUNT, REGION = "123456789012", "us-east-1"
STRICT = {
    "MOTO_EC2_ENABLE_INSTANCE_TYPE_VALIDATION": "true",
    "MOTO_IAM_LOAD_MANAGED_POLICIES": "true",
}


class Emulator:
    """AWS at `endpoint`, for this process and others of this machine.

    Attributes:
        ahead_s: how far AWS's clock is ahead of this machine's.
        seen_after_s: how long EC2's calls do not see a new instance.
    """

    ahead_s = 0.0
    seen_after_s = 0.0

    def __init__(self, usd_per_hour: Mapping[str, float]) -> None:
        os.environ.update(STRICT)
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

        self.systems_manager = SystemsManager()
        self.traffic, self.account = Traffic(), EmulatedAccount()
        self._usd_per_hour = usd_per_hour
        self._moto = DomainDispatcherApplication(create_backend_app)
        shim.mend()
        consistency.let_instances_appear_late()
        images.seed(ACCOUNT, REGION)
        self._server = _server(self._answer, "127.0.0.1", 0)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        self._writes = threading.Lock()

    @staticmethod
    def forget() -> None:
        """An AWS where nothing was ever made; moto keeps one for the whole process."""
        from moto.moto_api._internal.models import moto_api_backend

        moto_api_backend.reset()

    def environment(self) -> dict[str, str]:
        """What a process needs to take this for AWS."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "emulated",
            "AWS_SECRET_ACCESS_KEY": "emulated",
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    @contextmanager
    def running(self) -> Iterator[Emulator]:
        """The emulator while it answers."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()

    def answer_on(self, listening: socket.socket, caller: str) -> Callable[[], None]:
        """Answer on this socket as well, perhaps in another network; what ends it.

        What is asked there is counted as this caller's, too.
        """

        def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
            return self._answer(environ, start, caller)

        server = _server(answer, *listening.getsockname(), fd=listening.fileno())
        listening.close()  # the server has its own copy
        thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
        thread.start()

        def end() -> None:
            server.shutdown()
            thread.join()
            server.server_close()

        return end

    def break_it(self, *faults: Fault) -> None:
        """Let calls fail from now on."""
        self.traffic.faults.extend(faults)

    def _answer(
        self, environ: WSGIEnvironment, start: StartResponse, caller: str = ""
    ) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        call = call_of(environ, body)
        fault = self.traffic.admit(call, caller) or clock.refusal(call, environ, self.ahead_s)
        if fault:
            return _refuse(call, fault, start)
        own = self.systems_manager.answer(call, body)
        own = own or self.account.answer(call, body) or shim.answer(call, body, self._usd_per_hour)
        if own:
            status, kind, content = own
            start(f"{status} OK", [("Content-Type", kind), ("Content-Length", str(len(content)))])
            return [content]
        environ["wsgi.input"] = io.BytesIO(body)
        # S3 checks a condition and writes in one; moto in two, between which another may write.
        writes = call.service == "s3" and call.action not in ("GET", "HEAD")
        with self._writes if writes else nullcontext():
            return self._moto_or_refusal(call, environ, start)

    def _moto_or_refusal(
        self, call: Call, environ: WSGIEnvironment, start: StartResponse
    ) -> Iterable[bytes]:
        """Moto's answer; what it cannot do is refused for good, lest clients try for minutes."""
        told: list[Any] = []
        late_s = 0.0 if call.action == "RunInstances" else self.seen_after_s
        try:
            with consistency.seen_after(late_s):
                answer = self._moto(environ, lambda *parts: told.append(parts) or (lambda _: None))
                content = list(answer)
        except Exception:  # moto fails where AWS would refuse, e.g. at a group that is not there
            told.append(("500",))
        if told[-1][0].startswith(("500", "501")):
            return _refuse(call, Fault(call.name, code="InvalidAction"), start)
        start(*told[-1])
        return content


def _server(application: Any, host: str, port: int, **more: Any) -> Any:
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        def log_request(self, *_: object) -> None:
            """Nothing: calls are counted."""

    return make_server(host, port, application, True, request_handler=Quiet, **more)


def _refuse(call: Call, fault: Fault, start: StartResponse) -> list[bytes]:
    message = fault.message or f"{call.name} fails here: {fault.code}"
    if call.service == "s3":
        text = f"<Error><Code>{fault.code}</Code><Message>{message}</Message></Error>"
        kind = "application/xml"
    elif call.fields:
        inner = f"<Error><Code>{fault.code}</Code><Message>{message}</Message></Error>"
        text = f"<Response><Errors>{inner}</Errors><RequestID>1</RequestID></Response>"
        kind = "text/xml"
    else:
        text = json.dumps({"__type": fault.code, "message": message})
        kind = "application/x-amz-json-1.1"
    content = text.encode()
    headers = [("Content-Type", kind), ("Content-Length", str(len(content)))]
    start(f"{fault.status} Refused", headers)
    return [content]
