"""The stack that an account is examined for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class StackRequest:
    """Attributes:
    fleet: the most workers, by instance type.
    markets: ``spot``, ``on_demand`` or both.
    ttl_minutes: after which every machine ends itself.
    image_parameters: public parameters in place of the usual ones, by Terraform's names.
    """

    name: str
    region: str
    fleet: Mapping[str, int]
    markets: Sequence[str]
    head_type: str
    ttl_minutes: float = 480.0
    image_parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def types(self) -> Sequence[str]:
        """Every instance type of the stack, the head's included."""
        return sorted({*self.fleet, self.head_type})
