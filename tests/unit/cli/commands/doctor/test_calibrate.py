"""A calibration's course, with processes that are made up."""

from __future__ import annotations

import math
import random

import pytest

from benchorch.cli.commands.doctor import calibrate, command
from benchorch.domain.certificate import EXTRA, Interleaving
from benchorch.errors import ConfigError, ExecutorError
from benchorch.journal import certificates


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


class Machine:
    """Processes that differ by 3 %, and their two sides by 0.2 %."""

    def __init__(self, fails_after: int = 10**9, failure: BaseException | None = None) -> None:
        self.requests: list[calibrate.Request] = []
        self.fails_after = fails_after
        self.failure = failure

    def process(self, log, request) -> list[Interleaving]:
        self.requests.append(request)
        if len(self.requests) > self.fails_after and self.failure is not None:
            raise self.failure
        number = (len(self.requests) - 1) // len(EXTRA)
        draw = random.Random(f"{number} {request.extra_ratios[0]}")  # whatever the order is
        level = 1e5 * math.exp(0.03 * draw.gauss(0, 1))
        more = level * (1 + request.extra_ratios[0]) * math.exp(0.002 * draw.gauss(0, 1))
        return [Interleaving(more=(more, more), base=(level, level))]


def calibrated(machine: Machine, monkeypatch, minutes: float = 1e-6):
    monkeypatch.setattr(calibrate, "one_process", machine.process)
    said: list[str] = []
    return calibrate.calibrated(said.append, minutes), said


def test_every_round_has_each_amount_of_work_once(monkeypatch) -> None:
    machine = Machine()
    _, said = calibrated(machine, monkeypatch)
    extras = [request.extra_ratios[0] for request in machine.requests]
    rounds = [extras[i : i + len(EXTRA)] for i in range(0, len(extras), len(EXTRA))]
    assert len(rounds) == calibrate.LEAST_ROUNDS
    assert all(sorted(one) == sorted(EXTRA) for one in rounds)
    assert len({tuple(one) for one in rounds}) > 1
    assert "minutes" in said[0]


def test_what_was_found_is_kept_and_shown(monkeypatch) -> None:
    reply, _ = calibrated(Machine(), monkeypatch)
    kept = certificates.kept()
    assert kept is not None
    assert len(kept.rounds) == calibrate.LEAST_ROUNDS
    found = [math.log(one.more[0] / one.base[0]) for one in kept.rounds[0]]
    assert found == pytest.approx(EXTRA, abs=0.01)
    assert str(certificates.place()) in reply.text
    shares = {
        (line["design"], line["statistic"], line["n"], line["extra_ratio"]): line["slower_ratio"]
        for line in reply.data["powers"]  # type: ignore[index,call-overload]
    }
    assert shares["interleaved", "median", 8, 0.05] == 1.0
    assert shares["interleaved", "median", 8, 0.0] < 0.2


def test_ctrl_c_keeps_the_rounds_so_far(monkeypatch) -> None:
    whole = calibrate.LEAST_ROUNDS + 2
    machine = Machine(whole * len(EXTRA) + 1, KeyboardInterrupt())
    reply, said = calibrated(machine, monkeypatch, minutes=10.0)
    assert reply.exit_code == 0
    assert said[-1] == f"ended after {whole} rounds"
    kept = certificates.kept()
    assert kept is not None
    assert len(kept.rounds) == whole


def test_ctrl_c_before_there_is_enough_keeps_nothing(monkeypatch) -> None:
    with pytest.raises(KeyboardInterrupt):
        calibrated(Machine(5, KeyboardInterrupt()), monkeypatch, minutes=10.0)
    assert certificates.kept() is None


def test_a_process_that_fails_is_no_calibration(monkeypatch) -> None:
    with pytest.raises(ExecutorError):
        calibrated(Machine(5, ExecutorError("it died")), monkeypatch)
    assert certificates.kept() is None


def test_minutes_are_of_a_calibration() -> None:
    with pytest.raises(ConfigError, match="--minutes goes with --calibrate"):
        command.run.reply(["--minutes", "2"], progress=lambda text: None)


@pytest.mark.parametrize("text", ["0", "-1", "x", "nan", "inf"])
def test_minutes_are_a_number_above_0(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a number of minutes above 0"):
        command.run.reply(["--calibrate", f"--minutes={text}"], progress=lambda text: None)
