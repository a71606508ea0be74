"""``protocol.tf32``, applied in each process of a trial that uses a GPU, and what came of it."""

from collections.abc import Mapping

from benchorch.config.trial_setup import TrialSetup
from benchorch.domain.codec import Json
from benchorch.frameworks.tf32 import set_tf32, tf32_in_use


def apply_tf32(setup: TrialSetup) -> None:
    """Apply the protocol's TF32 setting if the trial's device is a GPU."""
    if setup.on_gpu:
        set_tf32(allowed=setup.protocol.tf32)


def tf32_facts(setup: TrialSetup) -> Mapping[str, Json]:
    """``tf32`` as torch has it after the calls; None where the model changed a part of it."""
    return {"tf32": tf32_in_use()} if setup.on_gpu else {}
