"""Spot interruption notices from EC2's metadata service, which come two minutes ahead at best."""

import json
import logging
import threading
import time
import urllib.error
import urllib.request
from typing import final

logger = logging.getLogger(__name__)

POLL_S = 5.0
"""The interval that AWS recommends."""

TIMEOUT_S = 1.0
TOKEN_S = 21600
MAX_FAILURES = 3
"""After so many requests without any response there is no such service."""


@final
class SpotInterruptionWatcher:
    """Polls the metadata service in a thread of its own until there is a notice.

    Attributes:
        notice: what will happen and when, or an empty string.
    """

    def __init__(self, endpoint: str, poll_s: float = POLL_S) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._poll_s = poll_s
        self._token = ""
        self.notice = ""

    def start(self) -> None:
        """Begin to poll."""
        threading.Thread(target=self._run, daemon=True, name="spot interruption").start()

    def _run(self) -> None:
        failures = 0
        while not self.notice and failures < MAX_FAILURES:
            try:
                self.notice = self._poll()
                failures = 0
            except (OSError, ValueError) as error:
                failures += not self._token
                logger.debug("spot_notice=unknown reason=%r", str(error))
                self._token = ""
            time.sleep(self._poll_s)

    def _poll(self) -> str:
        """The notice, or an empty string; gets a new token if there is none."""
        if not self._token:
            seconds = {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_S)}
            self._token = self._request("PUT", "/latest/api/token", seconds)
        token = {"X-aws-ec2-metadata-token": self._token}
        try:
            response = self._request("GET", "/latest/meta-data/spot/instance-action", token)
        except urllib.error.HTTPError as error:
            if error.code == 404:  # nothing is planned
                return ""
            raise
        action = json.loads(response)
        return f"EC2 will {action['action']} this machine at {action['time']}"

    def _request(self, method: str, path: str, headers: dict[str, str]) -> str:
        if not self._endpoint.startswith("http://"):
            raise ValueError(f"the endpoint must begin with http://, got {self._endpoint!r}")
        request = urllib.request.Request(self._endpoint + path, headers=headers, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=TIMEOUT_S) as response:
            return str(response.read(10_000).decode())
