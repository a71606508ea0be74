"""Commands on a cluster's head as Ray jobs, through its dashboard, which requires the token."""

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, final
from urllib.parse import urlsplit

from benchorch.errors import ConfigError, ExecutorError

HEAD = "BENCHORCH_HEAD"
"""The variable that names the dashboard where no ``--head`` does."""

RUNNING = frozenset({"PENDING", "RUNNING"})
_NOISY_LOGGERS = ("ray.dashboard.modules.dashboard_sdk", "ray._private.runtime_env.packaging")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def default_head() -> str | None:
    """The dashboard's URL from the environment."""
    return os.environ.get(HEAD) or None


@final
class RayJobs:
    """The jobs of one cluster.

    Args:
        url: of its dashboard; the token travels with each request, so plain HTTP is for this
            machine's own end of a tunnel.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._client: Any = None
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                [f"--head: expected the dashboard's URL, http://127.0.0.1:8265, got {url!r}."]
            )
        if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            raise ConfigError(
                [
                    f"--head: {url} would send the cluster's token in the clear; forward the "
                    "dashboard's port to this machine and name http://127.0.0.1:PORT."
                ]
            )

    def submit(
        self, name: str, command: str, variables: Mapping[str, str], directory: Path | None = None
    ) -> None:
        """Start a command on the head.

        Args:
            name: of the job; must be new.
            command: for the head's shell.
            variables: added to its environment.
            directory: uploaded, and the command's working directory.
        """
        environment: dict[str, Any] = {"env_vars": dict(variables)}
        if directory is not None:
            environment["working_dir"] = str(directory)
        self._request(
            lambda client: client.submit_job(
                entrypoint=command, submission_id=name, runtime_env=environment
            )
        )

    def status(self, name: str) -> str:
        """``PENDING``, ``RUNNING``, ``STOPPED``, ``SUCCEEDED`` or ``FAILED``."""
        return str(self._request(lambda client: client.get_job_status(name).value))

    def reason(self, name: str) -> str:
        """Ray's message about how a job ended."""
        return str(self._request(lambda client: client.get_job_info(name).message) or "")

    def exit_code(self, name: str) -> int | None:
        """Exit code of an ended command; None if it was never started."""
        code = self._request(lambda client: client.get_job_info(name).driver_exit_code)
        return None if code is None else int(code)

    def log(self, name: str) -> str:
        """The command's output so far, errors included."""
        return str(self._request(lambda client: client.get_job_logs(name)))

    def stop(self, name: str) -> None:
        """Ask a command to end."""
        self._request(lambda client: client.stop_job(name))

    def forget(self, name: str) -> None:
        """Remove an ended job from the head's list."""
        self._request(lambda client: client.delete_job(name))

    def _request(self, call: Callable[[Any], Any]) -> Any:
        """The response of Ray's client; ExecutorError if the head refuses or is unreachable."""
        try:
            if self._client is None:
                self._client = _connected(self.url)
            return call(self._client)
        except _ray_errors() as error:
            raise ExecutorError(_explained(self.url, str(error))) from error


def _ray_errors() -> tuple[type[Exception], ...]:
    """Errors of Ray's client, of the connection to the head, and of a reply that is not Ray's."""
    from ray.exceptions import RayError

    return (RayError, RuntimeError, OSError, ValueError, TypeError, LookupError, AttributeError)


def _connected(url: str) -> Any:
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    from ray.job_submission import JobSubmissionClient

    for name in _NOISY_LOGGERS:  # each upload would be logged twice
        logging.getLogger(name).setLevel(logging.WARNING)
    return JobSubmissionClient(url)


def _explained(url: str, error: str) -> str:
    """Single sentence extracted from Ray's multi-line message."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    what = lines[0][:300].rstrip(".") if lines else "no reason given"
    if "401" in error or "403" in error or "token" in error.lower():
        return (
            f"The head at {url} refused: {what}. Is its token the one given here "
            "(RAY_AUTH_TOKEN_PATH)?"
        )
    return (
        f"The head at {url} did not respond: {what}. Is its dashboard up, and its port forwarded "
        "to this machine?"
    )
