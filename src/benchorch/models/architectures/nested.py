"""The tensors of an answer, however it is nested."""

from collections.abc import Iterator, Mapping

from numpy import ndarray
from torch import Tensor

from benchorch.frameworks.model_caches import is_cache, tensors_of_cache
from benchorch.frameworks.output_paths import attributes, of_array


def tensors_in(value: object, _above: frozenset[int] = frozenset()) -> Iterator[Tensor]:
    """Every tensor of a nested answer, in order; of an object, by its attributes."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item, _above)
    elif is_cache(value):
        yield from tensors_in(tensors_of_cache(value))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from tensors_in(item, _above)
    elif isinstance(value, set | frozenset):
        yield from tensors_in(sorted(value, key=repr), _above)
    elif isinstance(value, ndarray):
        yield from tensors_in(of_array(value))
    else:
        inside = attributes(value)
        if inside and id(value) not in _above:  # it may refer to itself
            yield from tensors_in(inside, _above | {id(value)})
