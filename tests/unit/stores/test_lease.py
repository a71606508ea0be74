"""Who builds, judged by the clock of the service alone."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchorch.stores.lease import MARGIN_S, BuildLease, is_expired, try_lease
from benchorch.stores.objects import ABSENT, Content, ObjectInfo, Unreachable
from support.waiting import until

KEY, NAME = "k", "leases/k"
LEASE_S = 60.0


class Shared:
    """Objects in memory, with a clock that only tests move, and answers that may get lost."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.kept: dict[str, tuple[bytes, str, float]] = {}
        self.written = 0
        self.lost_answers = 0
        self.away = False
        self.unanswered = 0
        self._lock = threading.Lock()

    def _info(self, name: str) -> ObjectInfo:
        data, etag, at_s = self.kept[name]
        return ObjectInfo(
            name=name, etag=etag, size_bytes=len(data), age_s=float(self.now_s - at_s)
        )

    def read(self, name: str, most_bytes: int) -> Content | None:
        with self._lock:
            self._answer()
            if name not in self.kept:
                return None
            return Content(data=self.kept[name][0][:most_bytes], info=self._info(name))

    def write(self, name: str, data: bytes, *, if_match: str | None = None) -> str | None:
        with self._lock:
            self._answer()
            for _ in range(2):  # as a client does that hears nothing, and asks again
                there = self.kept[name][1] if name in self.kept else ABSENT
                if if_match not in (None, there):
                    return None
                self.written += 1
                etag = f"m{self.written}"
                self.kept[name] = (data, etag, self.now_s)
                if not self.lost_answers:
                    break
                self.lost_answers -= 1
            return etag

    def remove(self, name: str, *, if_match: str | None = None) -> None:
        with self._lock:
            self._answer()
            if name in self.kept and if_match in (None, self.kept[name][1]):
                del self.kept[name]

    def _answer(self) -> None:
        if self.away:
            self.unanswered += 1
            raise Unreachable("away")


@pytest.fixture
def shared() -> Shared:
    return Shared()


def at_once(n_threads: int, ask: Callable[[], BuildLease | None]) -> list[BuildLease]:
    """What that many get that ask at the same time."""
    got: list[BuildLease | None] = []
    ready = threading.Barrier(n_threads)

    def run() -> None:
        ready.wait()
        got.append(ask())

    threads = [threading.Thread(target=run) for _ in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == n_threads
    return [lease for lease in got if lease]


def test_of_many_that_ask_one_gets_it(shared: Shared) -> None:
    [lease] = at_once(24, lambda: try_lease(shared, KEY, LEASE_S))
    assert not lease.taken_over


def test_a_dead_ones_is_taken_over_once(shared: Shared) -> None:
    assert try_lease(shared, KEY, LEASE_S)  # and never renewed
    shared.now_s = LEASE_S + MARGIN_S + 1
    [lease] = at_once(24, lambda: try_lease(shared, KEY, LEASE_S))
    assert lease.taken_over


def test_a_living_ones_is_not_taken_over_however_late_it_is(shared: Shared) -> None:
    with try_lease(shared, KEY, 0.2) as mine:  # type: ignore[union-attr]
        assert mine
        for _ in range(20):
            shared.now_s += 2.1  # twice that without a renewal, and it would be over
            renewed = shared.written
            assert until(lambda renewed=renewed: shared.written > renewed, 60)
            assert try_lease(shared, KEY, 0.2) is None
    assert shared.kept == {}


def test_it_is_given_back_at_the_end_whatever_happens(shared: Shared) -> None:
    lease = try_lease(shared, KEY, LEASE_S)
    assert lease
    with pytest.raises(ZeroDivisionError), lease:
        _ = 1 / 0
    assert shared.kept == {}
    assert try_lease(shared, KEY, LEASE_S)


def test_what_was_taken_over_is_not_given_back_by_who_lost_it(shared: Shared) -> None:
    slow = try_lease(shared, KEY, LEASE_S)
    assert slow
    with slow:
        shared.now_s = LEASE_S + MARGIN_S + 1
        assert try_lease(shared, KEY, LEASE_S)
    assert NAME in shared.kept
    assert try_lease(shared, KEY, LEASE_S) is None


@pytest.mark.parametrize("dead_s", [None, LEASE_S + MARGIN_S + 1])
def test_a_lost_answer_does_not_lose_the_lease(shared: Shared, dead_s: float | None) -> None:
    if dead_s is not None:
        try_lease(shared, KEY, LEASE_S)
        shared.now_s = dead_s
    shared.lost_answers = 1
    lease = try_lease(shared, KEY, LEASE_S)
    assert lease
    with lease:
        assert try_lease(shared, KEY, LEASE_S) is None
    assert shared.kept == {}


def test_a_service_that_is_away_for_a_while_ends_no_lease(shared: Shared) -> None:
    lease = try_lease(shared, KEY, 0.04)
    assert lease
    with lease:
        shared.away = True
        assert until(lambda: shared.unanswered, 60)  # a renewal failed
        shared.away = False
        renewed = shared.written
        assert until(lambda: shared.written > renewed, 60)
    assert shared.kept == {}


def test_what_is_not_a_lease_is_treated_as_one_of_somebody(shared: Shared) -> None:
    shared.write(NAME, b"\x80 no lease at all")
    assert try_lease(shared, KEY, LEASE_S) is None
    shared.now_s = LEASE_S + MARGIN_S + 1
    assert try_lease(shared, KEY, LEASE_S)


@given(age_s=st.floats(-1e9, 1e9), lease_s=st.floats(1, 3600))
def test_only_one_that_is_older_than_it_lasts_is_expired(age_s: float, lease_s: float) -> None:
    info = ObjectInfo(name=NAME, etag="m", size_bytes=0, age_s=age_s)
    assert is_expired(Content(data=b"", info=info), lease_s) is (age_s > lease_s + MARGIN_S)
