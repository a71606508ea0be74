"""Executed precision of a trial and the effect of its conversion."""

from dataclasses import dataclass

FULL_PRECISION = "float32"


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """Requested and executed precision and effect; None where a runtime cannot report one.

    Attributes:
        requested: the precision that the conversion names, ``float16`` or ``int8``; empty where
            it leaves the model's own.
        executed: the precision of most operators, as the runtime reports them.
        executed_ratio: the share of the operators in that precision: of all floating-point
            operators, or, where it has 8 bits or fewer, of matrix products and convolutions.
        casts: conversions between precisions in one call.
        autotuned_kernels: kernels that were chosen by timing several.
        packed_layers: layers whose weights oneDNN holds in its own layout.
        delegated_subgraphs: parts of the model that a delegate runs.
        delegate: which: OpenVINO, TensorRT, XNNPACK ...; empty without any.
        no_effect: for each step that changed nothing, what it is and why.
        inputs_cast: for each half-precision input that the runtime takes in another dtype, how:
            ``x from bfloat16``.
        unknown: why the share of the precision is not known; empty where it is.
    """

    requested: str = ""
    executed: str = ""
    executed_ratio: float | None = None
    casts: int | None = None
    autotuned_kernels: int | None = None
    packed_layers: int | None = None
    delegated_subgraphs: int | None = None
    delegate: str = ""
    no_effect: tuple[str, ...] = ()
    inputs_cast: tuple[str, ...] = ()
    unknown: str = ""

    @property
    def differs(self) -> bool:
        """Whether most operators ran in another precision than the conversion names."""
        return bool(self.requested and self.executed) and self.requested != self.executed
