"""What does an hour of each machine in these runs cost, by the list that ships with benchorch?

Nobody is asked, so that a report says the same today and tomorrow. A machine of one's own has no
price, which is not a price of nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from benchorch.comparing.stored import StoredRun
from benchorch.config import builtin_directory
from benchorch.domain.codec import Json
from benchorch.domain.price import PriceSnapshot
from benchorch.domain.trial import Trial
from benchorch.price_book import PriceBook

NOTHING_KEPT = Path(os.devnull)
"""No directory: prices fetched earlier do not count in a report."""


def listed_prices(runs: Sequence[StoredRun]) -> PriceSnapshot:
    """The bundled list's prices of all kinds of machines in these runs."""
    trials = [stored.trial for run in runs for stored in run.trials]
    vcpus = {kind_of(trial): count for trial in trials if (count := _vcpus(trial)) is not None}
    bundled = _bundled()
    book = PriceBook(
        region=str(bundled["region"]), own={}, source=None, cache=NOTHING_KEPT, bundled=bundled
    )
    return book.snapshot(sorted({kind_of(trial) for trial in trials}), vcpus)


def kind_of(trial: Trial) -> str:
    """The kind of machine, e.g. ``g5.xlarge`` or ``local``."""
    return trial.labels.get("hardware_kind") or str(_hardware(trial).get("kind", ""))


def _bundled() -> Mapping[str, Json]:
    import yaml

    told = yaml.safe_load((builtin_directory("conf") / "prices.yaml").read_text(encoding="utf-8"))
    return {**told, "as_of": str(told["as_of"])}


def _hardware(trial: Trial) -> Mapping[str, Json]:
    return cast(Mapping[str, Json], trial.spec.get("hardware") or {})


def _vcpus(trial: Trial) -> int | None:
    """Virtual CPUs of its size, as the hardware's own YAML has them."""
    hardware = _hardware(trial)
    sizes = cast(Mapping[str, Mapping[str, Json]], hardware.get("sizes") or {})
    found = sizes.get(str(hardware.get("size")), {}).get("vcpus")
    return found if isinstance(found, int) else None
