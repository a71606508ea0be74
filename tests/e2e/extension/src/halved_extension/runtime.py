"""The runtime: PyTorch with the weights of the archive, in float32 again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json
from benchorch.interfaces.runtime import Executable, LoadRequest, Runtime
from halved_extension.weights import HALVED_WEIGHTS

if TYPE_CHECKING:
    import torch
    from numpy import generic
    from numpy.typing import NDArray


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Widened(Runtime):
    """Weights of half the size on disk, the same operators as always."""

    consumes: ClassVar[tuple[Format, ...]] = (HALVED_WEIGHTS,)
    requires: ClassVar[tuple[str, ...]] = ("torch",)
    version: ClassVar[int] = 1

    def unavailable(self, device: str) -> str | None:
        """A sentence for every device but a CPU."""
        return None if device == "cpu" else "halved weights are widened on a CPU only."

    def load(self, request: LoadRequest) -> Executable:
        """The model with the archive's weights."""
        import numpy as np
        import torch

        assert request.source is not None  # the step leaves files
        torch.set_num_threads(request.threads)
        module = request.module()
        with np.load(request.source / "weights.npz") as saved:
            state = {name: torch.from_numpy(saved[name]) for name in saved.files}
        module.load_state_dict(state)  # copies into float32
        return _Running(module)


class _Running(Executable):
    def __init__(self, module: torch.nn.Module) -> None:
        self._module = module

    def bind(self, arrays: Mapping[str, NDArray[generic]]) -> Callable[[], object]:
        import torch

        tensors = {name: torch.tensor(array) for name, array in arrays.items()}

        def call() -> object:
            with torch.inference_mode():
                return self._module(**tensors)

        return call

    def outputs(self, raw: object) -> Mapping[str, NDArray[generic]]:
        import torch

        assert isinstance(raw, torch.Tensor)
        return {"0": raw.numpy()}

    def facts(self) -> Mapping[str, Json]:
        import torch

        threads = torch.get_num_threads()
        return {"dtype": "float32", "threads": threads, "provider": "widened", "device": "cpu"}

    def close(self) -> None:
        del self._module
