"""Inductor's mapping from kernels to operators, recorded while it compiles."""

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MAPPINGS = "inductor_provenance_tracking_node_mappings"
"""Prefix of the file's name; a model of several graphs has several files."""

POST_GRAD_GRAPH = "inductor_post_grad_graph"
"""The operators that code was generated for, by the names that the mappings use."""

_KEPT = {
    MAPPINGS: "json",
    "inductor_provenance_tracking_kernel_stack_traces": "json",
    POST_GRAD_GRAPH: "txt",
    "inductor_output_code": "py",
}
# Where torch says what it does while it compiles; what it says is built only if somebody listens.
_LOGGER = "torch.__trace"


@contextmanager
def kept_provenance(directory: Path) -> Iterator[None]:
    """Whatever is compiled meanwhile is compiled so that its kernels can be traced back.

    That is another entry of Inductor's cache, so the artifact is left as it is; the kernels'
    source is the same, so their compiled code is found there.

    Args:
        directory: where each graph's mappings, stacks, operators and generated code go.
    """
    import torch._inductor.config

    logger = logging.getLogger(_LOGGER)
    listener = _GraphWriter(directory)
    logger.addHandler(listener)
    try:
        with torch._inductor.config.patch({"trace.provenance_tracking_level": 1}):
            yield
    finally:
        logger.removeHandler(listener)


class _GraphWriter(logging.Handler):
    """Writes the relevant records of torch's structured trace."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory
        self._count: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        """Write one file for each record of a graph."""
        metadata = getattr(record, "metadata", None)
        payload = getattr(record, "payload", None)
        if not isinstance(metadata, dict) or not isinstance(payload, str):
            return
        artifact = metadata.get("artifact")
        name = artifact.get("name") if isinstance(artifact, dict) else next(iter(metadata), None)
        if name in _KEPT:
            path = self._directory / f"{name}_{self._count[name]}.{_KEPT[name]}"
            path.write_text(payload, encoding="utf-8")
            self._count[name] += 1
