"""The name of a processor, which Linux on ARM tells by numbers only."""

from collections.abc import Mapping

_IMPLEMENTER, _PART = "CPU implementer", "CPU part"
_ARM_DESIGNS = {
    ("0x41", "0xd08"): "Cortex-A72",
    ("0x41", "0xd0b"): "Cortex-A76",
    ("0x41", "0xd0c"): "Neoverse-N1",
    ("0x41", "0xd40"): "Neoverse-V1",
    ("0x41", "0xd49"): "Neoverse-N2",
    ("0x41", "0xd4f"): "Neoverse-V2",
    ("0x41", "0xd84"): "Neoverse-V3",
    ("0x41", "0xd8e"): "Neoverse-N3",
}


def processor_name(fields: Mapping[str, str]) -> str:
    """The name; by its numbers where those are all there is, and empty without them.

    Args:
        fields: of one processor in ``/proc/cpuinfo``.
    """
    implementer, part = fields.get(_IMPLEMENTER), fields.get(_PART)
    if "model name" in fields or implementer is None or part is None:
        return fields.get("model name", "")
    return _ARM_DESIGNS.get((implementer, part), f"ARM {implementer} part {part}")
