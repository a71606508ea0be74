"""Meaning of each limit, and advice for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

MOST_ADVISED = 3  # conversions in one sentence

MEANING: Mapping[str, str] = {
    "launch-bound": "the device waits for the host to launch its kernels",
    "idle-bound": "the device idles while Python runs between operators",
    "host-bound": "the device waits for operators that compute on the host",
    "overhead-bound": "more time goes into calling operators than into their work",
    "data-bound": "the model waits for its data",
    "sync-bound": "threads wait for each other or for the device",
    "transfer-bound": "copies between host and device take longer than what is computed",
    "compute-bound": "arithmetic on the critical path sets the pace",
    "memory-bound": "moving operands through memory sets the pace",
    "kernel-bound": (
        "the operators' own work sets the pace, and nothing shows that arithmetic or memory limits "
        "it: their roofline is unknown or far away"
    ),
    "balanced": "no single cost dominates",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What to try for a limit.

    Attributes:
        words: what helps, as the beginning of a sentence.
        conversions: that do it, the likeliest first.
        more: what else does, as the sentence's end.
    """

    words: str
    conversions: tuple[str, ...] = ()
    more: str = ""

    def sentence(self, tried: Collection[str]) -> str:
        """For a person, without what was tried already; empty where nothing is left to say."""
        left = [name for name in self.conversions if name not in tried][:MOST_ADVISED]
        ways = [f"conversion={' or '.join(left)}"] if left else []
        ways += [self.more] if self.more else []
        return f"{self.words}: {'; '.join(ways)}." if ways else ""


_COMPILERS = ("inductor", "aot_inductor", "onnxruntime")
_NARROWER = ("bf16", "fp16", "torchao_int8_dynamic", "torchao_float8_dynamic")
_NARROWER_HOST = ("bf16", "onnxruntime_int8_dynamic", "dynamic_int8")
_OTHER_KERNELS = Advice(
    words="Try the kernels of another compiler",
    conversions=("inductor_max_autotune", "tensorrt", "onnxruntime_cuda"),
    more="a larger batch where kernels are short",
)
_OTHER_KERNELS_HOST = Advice(
    words="Try the kernels of another runtime",
    conversions=("onnxruntime", "openvino", "inductor"),
    more="more threads where operators are long, a larger batch where they are short",
)

ADVICE: Mapping[str, tuple[Advice, Advice]] = {
    "launch-bound": (
        Advice(
            words="Launch less often",
            conversions=("inductor_reduce_overhead", "cudagraphs", "inductor"),
            more="a larger batch",
        ),
    )
    * 2,
    "idle-bound": (
        Advice(
            words="Take Python out of the way",
            conversions=("inductor_reduce_overhead", "cudagraphs", "aot_inductor"),
            more="a larger batch",
        ),
    )
    * 2,
    "host-bound": (
        Advice(
            words="Compute them on the device", more="move inputs there first, or prepare ahead"
        ),
    )
    * 2,
    "overhead-bound": (
        Advice(words="Call fewer operators", conversions=_COMPILERS, more="a larger batch"),
    )
    * 2,
    "data-bound": (
        Advice(words="Load ahead", more="more loader workers, pinned memory, copies beside work"),
        Advice(words="Load ahead", more="more loader workers, or larger chunks"),
    ),
    "sync-bound": (
        Advice(words="Ask for results later", more="no .item() or .cpu() between kernels"),
        Advice(words="Let threads wait less", more="fewer joins, or pieces of equal length"),
    ),
    "transfer-bound": (
        Advice(
            words="Copy less, or beside the computation",
            conversions=("bf16", "fp16"),
            more="keep tensors on the device; pinned memory",
        ),
    )
    * 2,
    "compute-bound": (
        Advice(words="Compute with fewer bits", conversions=_NARROWER),
        Advice(words="Compute with fewer bits", conversions=_NARROWER_HOST, more="more threads"),
    ),
    "memory-bound": (
        Advice(
            words="Move fewer bytes",
            conversions=("inductor", *_NARROWER),
            more="a larger batch, which reads each weight for more items",
        ),
        Advice(
            words="Move fewer bytes",
            conversions=("inductor", "onnxruntime", *_NARROWER_HOST),
            more="a larger batch, which reads each weight for more items",
        ),
    ),
    "kernel-bound": (_OTHER_KERNELS, _OTHER_KERNELS_HOST),
    "balanced": (Advice(words=""), Advice(words="")),
    "inconclusive": (
        Advice(words="Record more", more="the device's synchronisation, waits as ranges wait:*"),
        Advice(words="Record more", more="all threads, and waits as ranges named wait:*"),
    ),
}
"""What to try for each limit, with a device and without one."""
