"""What every test may rely on: nothing is fetched, and compilers share one cache."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from support.command_lines import Commands, started
from support.ray_machines import KINDS, Machines, ray_settings

# Set here rather than in a fixture: children are spawned with this environment, and the packages
# read it while they are imported.
os.environ.update({"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"})
os.environ["COLUMNS"] = "160"  # tables as in a pipe, whatever terminal the tests were started in
# Neither what a developer trusts nor their key plays a part.
os.environ["XDG_CONFIG_HOME"] = str(
    Path(tempfile.gettempdir(), f"benchorch-tests-config-{os.getuid()}")
)
os.environ.setdefault(
    "TORCHINDUCTOR_CACHE_DIR",
    str(Path(tempfile.gettempdir(), f"benchorch-tests-inductor-{os.getuid()}")),
)

# A suite that was started in the background ignores interrupts, and so would all that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is no failure, and a failure must come back.
settings.register_profile("benchorch", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("benchorch")


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """The command line in forks of a process that has imported torch."""
    with started(tmp_path_factory.mktemp("commands"), "torch") as commands:
        yield commands


@pytest.fixture(scope="session")
def machines() -> Iterator[Machines]:
    """One Ray cluster for all tests that leave its head alive and replace nodes that they kill."""
    with ray_settings():
        machines = Machines(*KINDS)
    yield machines
    machines.close()
