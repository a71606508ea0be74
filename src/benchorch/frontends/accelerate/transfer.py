"""Transfer of a captured graph to another machine, as an exported program and its inputs.

What cannot travel stays here, with the reason in words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchorch.domain.codec import Json
from benchorch.domain.protocol import INPUT_SETS
from benchorch.domain.tensors import common_rows
from benchorch.files import write_text
from benchorch.frontends.accelerate.arguments import CallArguments
from benchorch.frontends.accelerate.capture import RecordedCall, RecordedGraph
from benchorch.frontends.accelerate.export import check_same, exported, takes
from benchorch.frontends.accelerate.own_inputs import with_inputs
from benchorch.frontends.api.live_model import write_inputs
from benchorch.models.input_variation import varied
from benchorch.models.kept_programs import keep_program, programs_folder

if TYPE_CHECKING:
    import torch

    from benchorch.domain.tensors import Arrays


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedCall:
    """An exported call of a graph, as a model configuration.

    Attributes:
        model: the name of its file under ``conf/model`` in the run's directory.
        words: overrides that belong to it.
    """

    model: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _SavedProgram:
    """A program on disk, and its part of the ``model`` configuration."""

    program: torch.export.ExportedProgram
    node: dict[str, Json]


@dataclass(slots=True, kw_only=True)
class GraphExporter:
    """Writes each graph once into the run's directory, and a configuration for each call of it.

    Attributes:
        directory: ``model`` in the run's own.
    """

    directory: Path
    _open: dict[tuple[object, ...], _SavedProgram] = field(default_factory=dict)

    @property
    def configs(self) -> Path:
        """Configuration directory of the exported models."""
        return self.directory / "conf"

    def export(self, graph: RecordedGraph, call: RecordedCall) -> ExportedCall:
        """Export one call; raises NotExportable where that is not possible."""
        import torch

        module, arguments = with_inputs(graph.graph.module, call.arguments)
        given = CallArguments.of(module, arguments)
        arrays, dtype = given.arrays(), given.dtype(module)
        with torch.no_grad():
            node = self._program(graph.number, module, given, call.outputs)
        name = f"graph_{graph.number}"
        name += f"_shapes_{call.number}" if call.number > 1 else ""
        self._configure(name, node, arrays)
        rows = common_rows(arrays)
        batch = () if rows is None else (f"workload.batch_size={rows}",)
        return ExportedCall(model=name, words=(f"workload.dtype={dtype}", *batch))

    def _program(
        self,
        number: int,
        module: torch.fx.GraphModule,
        given: CallArguments,
        outputs: Sequence[Any],
    ) -> dict[str, Json]:
        """One program for all shapes where the graph has open sizes; else one for these."""
        key = (number, given.constants())
        known = self._open.get(key)
        if known is not None and takes(known.program, given):
            check_same(known.program, given, outputs)
            return known.node
        is_open = known is None and bool(given.open_sizes())
        program = exported(module, given, dynamic=is_open)
        check_same(program, given, outputs)
        node = keep_program(program, programs_folder())
        if is_open:
            self._open[key] = _SavedProgram(program=program, node=node)
        return node

    def _configure(self, name: str, node: Mapping[str, Json], arrays: Arrays) -> None:
        """A model of that name, as the user's own configuration would have it."""
        import yaml

        config = {
            "_target_": "benchorch.models.exported.ExportedModel",
            **node,
            "checkpoint": None,
            "inputs": write_inputs(varied([arrays], INPUT_SETS), self.directory / name),
            "kwargs": {},
        }
        path = self.configs / "model" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, yaml.safe_dump(config, sort_keys=False))
