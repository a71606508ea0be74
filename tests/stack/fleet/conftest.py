"""One stack for a module of tests of a fleet at work, each with instance types of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.machines.rehearsal import Rehearsal, lacking, rehearsing

FLEET = (
    "r6i.large",
    "c7i.xlarge",
    "m7i.xlarge",
    "r6i.xlarge",
    "m7a.large",
    "m7a.xlarge",
    "c7i.large",
)
USD_PER_HOUR = dict.fromkeys(FLEET, 0.1) | {"r6i.large": 0.126, "c7i.xlarge": 0.1785}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """A stack that Terraform has made and whose head is up; idle machines end after a minute."""
    reasons = lacking()
    if reasons:
        pytest.skip(f"SKIPPED: no fleet is rehearsed: {'; '.join(reasons)}")
    fleet = ", ".join(f'"{kind}" = 2' for kind in FLEET)
    variables = {"fleet": f"{{{fleet}}}", "idle_minutes": "1"}
    place = tmp_path_factory.mktemp("rehearsal")
    with rehearsing(place, variables, USD_PER_HOUR) as rehearsal:
        rehearsal.provision()
        rehearsal.head()
        yield rehearsal
