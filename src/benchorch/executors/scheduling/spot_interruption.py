"""Has EC2 called this machine back? Its metadata service says so two minutes ahead, at best."""

from __future__ import annotations

import json
import logging
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import final

logger = logging.getLogger(__name__)

POLL_S = 5.0
"""How often AWS recommends to ask."""

ANSWER_S = 1.0
TOKEN_S = 21600
MAX_SILENT = 3
"""Where the service has never answered in so many tries, there is none."""


@final
class SpotInterruptionWatcher:
    """Asks in a thread of its own until it is told."""

    def __init__(self, endpoint: str, poll_s: float = POLL_S) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._poll_s = poll_s
        self._token = ""
        self._told = ""
        self._stop = threading.Event()

    def start(self) -> None:
        """Begin to ask."""
        threading.Thread(target=self._ask, daemon=True, name="spot notices").start()

    def stop(self) -> None:
        """Ask no more."""
        self._stop.set()

    def told(self) -> str:
        """What will happen and when, or an empty string."""
        return self._told

    def _ask(self) -> None:
        silent = 0
        while not self._told and silent < MAX_SILENT:
            try:
                self._told = self._look()
                silent = 0
            except (OSError, ValueError) as error:
                silent += not self._token
                logger.debug("spot_notice=unknown reason=%r", str(error))
                self._token = ""
            if self._stop.wait(self._poll_s):
                return

    def _look(self) -> str:
        """One question, with a fresh token where there is none."""
        if not self._token:
            seconds = {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_S)}
            self._token = self._request("PUT", "/latest/api/token", seconds)
        token = {"X-aws-ec2-metadata-token": self._token}
        try:
            answer = self._request("GET", "/latest/meta-data/spot/instance-action", token)
        except urllib.error.HTTPError as error:
            if error.code == 404:  # nothing is planned
                return ""
            raise
        told = json.loads(answer)
        return f"EC2 will {told['action']} this machine at {told['time']}"

    def _request(self, method: str, path: str, headers: dict[str, str]) -> str:
        if not self._endpoint.startswith("http://"):
            raise ValueError(f"the endpoint must begin with http://, got {self._endpoint!r}")
        request = urllib.request.Request(self._endpoint + path, headers=headers, method=method)
        open_: Callable[..., object] = urllib.request.build_opener(
            urllib.request.ProxyHandler({})
        ).open
        with open_(request, timeout=ANSWER_S) as answer:  # type: ignore[attr-defined]
            return str(answer.read(10_000).decode())
