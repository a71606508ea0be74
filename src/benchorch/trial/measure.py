"""Measurement of calls in one process."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchorch.domain.measurement import Calibration, Observations
from benchorch.interfaces.hardware import Hardware
from benchorch.interfaces.scenario import Scenario
from benchorch.interfaces.stopping import Stopping
from benchorch.scenarios.series import window_from
from benchorch.stats.steady_state import steady_from


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessMeasurement:
    """Observations of one process, with the start of its steady state.

    Attributes:
        observations: every block from the first.
        steady_from: index of the first steady block, or None where no steady state was found.
        calibration: of the clock that took them.
    """

    observations: Observations
    steady_from: int | None
    calibration: Calibration


def measure(
    calls: Sequence[Callable[[], object]],
    *,
    hardware: Hardware,
    scenario: Scenario,
    stopping: Stopping,
    items_per_call: float,
    cold_caches: bool = False,
) -> ProcessMeasurement:
    """Issue calls in the scenario's way until the stopping rule is satisfied.

    Raises:
        MeasureError: of kind ``instrument_fault`` where the clock contradicts itself.
    """
    clock = hardware.clock()
    calibration = clock.calibrate()
    observations = scenario.run(
        calls,
        clock=clock,
        calibration=calibration,
        stopping=stopping,
        items_per_call=items_per_call,
        cold_caches=cold_caches,
    )
    return ProcessMeasurement(
        observations=observations,
        steady_from=steady_from(observations.durations_ns, not_before=window_from(observations)),
        calibration=calibration,
    )
