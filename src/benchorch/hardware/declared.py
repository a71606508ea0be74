"""A machine kind as its YAML declares it, without a device."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from benchorch.domain.codec import Json
from benchorch.hardware import host
from benchorch.host.machine_kind import declared_kind
from benchorch.interfaces.hardware import KIND_VARIABLE, Clock, Hardware

ARCHITECTURES = ("x86_64", "aarch64")
SIZE_KEYS = ("vcpus", "memory_gib")  # of every size; those below of some
MORE_SIZE_KEYS = ("cores", "accelerators", "accelerator_gib")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredHardware(Hardware):
    """Base of CPU and CUDA machines.

    Attributes:
        kind: the name by which nodes are matched; ends with `size` where there is one.
        conversions: tried when none are named.
        threads: per call, or None for the node's physical cores.
        arch: ``x86_64`` or ``aarch64``, or None where any will do.
        size: of the family, e.g. ``xlarge``; None for this machine, whatever it is.
        sizes: each size's ``vcpus``, ``memory_gib``, ``cores``, ``accelerators`` and the memory
            of one of them, ``accelerator_gib``.
        accelerator: its name for people, e.g. ``A10G``, or None where there is none or any will do.
        peaks: what one core or one accelerator (``of``) can do at most, from data sheets:
            ``flops_per_s`` by dtype; ``bytes_per_s`` of the socket or accelerator; ``source``.
    """

    device: ClassVar[str]

    kind: str = field()
    conversions: tuple[str, ...] = field()
    threads: int | None = None
    arch: str | None = None
    size: str | None = None
    sizes: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    accelerator: str | None = None
    peaks: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "conversions", tuple(self.conversions))
        if not self.kind or not self.conversions:
            raise ValueError(
                f"kind and conversions must not be empty, got {self.kind!r}, {self.conversions}"
            )
        if self.threads is not None and self.threads < 1:
            raise ValueError(f"threads must be at least 1 or null, got {self.threads}")
        if self.arch is not None and self.arch not in ARCHITECTURES:
            raise ValueError(f"arch must be one of {', '.join(ARCHITECTURES)}, got {self.arch!r}")
        self._check_size()

    def _check_size(self) -> None:
        for name, values in self.sizes.items():
            known = set(values) >= {*SIZE_KEYS} and set(values) <= {*SIZE_KEYS, *MORE_SIZE_KEYS}
            if not known or min(values.values()) <= 0:
                raise ValueError(
                    f"sizes.{name} must give positive {', '.join(SIZE_KEYS)} and may give "
                    f"{', '.join(MORE_SIZE_KEYS)}, got {dict(values)}"
                )
        if self.size is None:
            return
        if self.size not in self.sizes:
            raise ValueError(f"size must be one of {', '.join(self.sizes)}, got {self.size!r}")
        if not self.kind.endswith(f".{self.size}"):
            raise ValueError(f"kind must end with the size .{self.size}, got {self.kind!r}")

    @abstractmethod
    def clock(self) -> Clock:
        """The clock of this host."""

    def cannot_simulate(self) -> str | None:
        """Message that this machine has another architecture, or None."""
        arch = host.architecture()
        if self.arch not in (None, arch):
            return f"{self.kind} is an {self.arch} machine; this one is {arch}."
        return None

    def wrong_machine(self) -> str | None:
        """Reason why this is not the declared machine, its accelerator left aside, or None."""
        unplayable = DeclaredHardware.cannot_simulate(self)
        if unplayable or self.size is None:
            return unplayable
        here = declared_kind()
        if here == self.kind:
            return None
        what = f"this machine is {here}" if here else "this machine's kind is not declared"
        return (
            f"{self.kind} was requested; {what}. If it is one outside EC2, set "
            f"{KIND_VARIABLE}={self.kind} in its environment, on a Ray node before `ray start`."
        )

    def cpu_facts(self) -> dict[str, Json]:
        """The processor's part of `facts`."""
        return {
            "arch": host.architecture(),
            "cpu_model": host.cpu_model(),
            "cpu_isa": host.cpu_isa(),
        }
