"""The tensors of an answer, however it is nested."""

from collections.abc import Iterator, Mapping

from torch import Tensor

from benchorch.frameworks.model_caches import is_cache, tensors_of_cache


def tensors_in(value: object) -> Iterator[Tensor]:
    """Every tensor of a nested answer, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif is_cache(value):
        yield from tensors_in(tensors_of_cache(value))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from tensors_in(item)
