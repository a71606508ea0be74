"""What EC2 launched is not visible to every call at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

_answering = threading.local()


@contextmanager
def seen_after(delay_s: float) -> Iterator[None]:
    """While one call is answered: instances younger than this are not there."""
    _answering.delay_s = delay_s
    try:
        yield
    finally:
        _answering.delay_s = 0.0


def let_instances_appear_late() -> None:
    """Make moto's list of instances one for the call that asks."""
    from moto.ec2.models.instances import InstanceBackend

    plain = InstanceBackend.all_reservations

    def mended(self: Any, filters: Any = None) -> Any:
        delay_s = getattr(_answering, "delay_s", 0.0)
        found = plain(self, filters)
        return [one for one in found if _age_s(one) >= delay_s] if delay_s else found

    InstanceBackend.all_reservations = mended


def _age_s(reservation: Any) -> float:
    launched = [_utc(instance.launch_time) for instance in reservation.instances]
    return (datetime.now(UTC) - max(launched)).total_seconds() if launched else 0.0


def _utc(told: Any) -> datetime:
    at = told if isinstance(told, datetime) else datetime.fromisoformat(str(told))
    return at if at.tzinfo else at.replace(tzinfo=UTC)
