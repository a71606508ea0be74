"""TensorRT's Python module as far as benchorch calls it, without a GPU: engines compute y = 2 x.

Names, parameters and what comes back follow NVIDIA/TensorRT, release 10.13 and 11.0:
``python/src/infer/pyCore.cpp`` (``set_input_shape("name", "shape")`` and
``set_tensor_address("name", "memory")`` answer false and raise nothing;
``get_tensor_profile_shape`` gives the smallest, the best and the largest;
``IOptimizationProfile.set_shape("input", "min", "opt", "max")``;
``IBuilderConfig.add_optimization_profile("profile")`` answers its number),
``python/src/infer/pyGraph.cpp`` (``INetworkDefinition``), ``python/src/parsers/pyOnnx.cpp``
(``parse_from_file("model")``), ``python/src/infer/pyFoundationalTypes.cpp`` (``DataType``).
"""

from __future__ import annotations

import ctypes
import json
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from types import ModuleType
from typing import Any

import numpy as np

DataType = Enum(
    "DataType",
    ["FLOAT", "HALF", "BF16", "INT8", "INT32", "INT64", "BOOL", "UINT8", "FP8", "INT4", "FP4"],
)
SIZES = {"FLOAT": np.float32, "INT64": np.int64, "FP8": np.uint8}
Shape = tuple[int, ...]


class BuilderFlag(IntEnum):
    TF32 = 7


class NetworkDefinitionCreationFlag(IntEnum):
    STRONGLY_TYPED = 1


@dataclass
class Tensor:
    name: str
    shape: Shape
    dtype: Enum = DataType["FLOAT"]


@dataclass
class Layer:
    outputs: list[Tensor]

    @property
    def num_outputs(self) -> int:
        return len(self.outputs)

    def get_output(self, index: int) -> Tensor:
        return self.outputs[index]


@dataclass
class Network:
    inputs: list[Tensor]
    outputs: list[Tensor]

    @property
    def num_inputs(self) -> int:
        return len(self.inputs)

    @property
    def num_outputs(self) -> int:
        return len(self.outputs)

    num_layers = 1

    def get_input(self, index: int) -> Tensor:
        return self.inputs[index]

    def get_output(self, index: int) -> Tensor:
        return self.outputs[index]

    def get_layer(self, index: int) -> Layer:
        return Layer([self.outputs[index]])


@dataclass
class Profile:
    shapes: dict[str, tuple[Shape, Shape, Shape]] = field(default_factory=dict)

    def set_shape(self, input: str, min: Shape, opt: Shape, max: Shape) -> None:
        self.shapes[input] = (min, opt, max)


@dataclass
class Config:
    flags: set[BuilderFlag] = field(default_factory=lambda: {BuilderFlag.TF32})
    profiles: list[Profile] = field(default_factory=list)

    def set_flag(self, flag: BuilderFlag) -> None:
        self.flags.add(flag)

    def clear_flag(self, flag: BuilderFlag) -> None:
        self.flags.discard(flag)

    def add_optimization_profile(self, profile: Profile) -> int:
        self.profiles.append(profile)
        return len(self.profiles) - 1


@dataclass
class Engine:
    """What was serialised: tensors and the profile."""

    content: dict[str, Any]
    refused: tuple[str, ...] = ()
    num_layers = 1

    @property
    def num_io_tensors(self) -> int:
        return len(self.content["tensors"])

    def get_tensor_name(self, index: int) -> str:
        return list(self.content["tensors"])[index]

    def get_tensor_shape(self, name: str) -> list[int]:
        return list(self.content["tensors"][name]["shape"])

    def get_tensor_dtype(self, name: str) -> Enum:
        return DataType[self.content["tensors"][name]["dtype"]]

    def get_tensor_profile_shape(self, name: str, profile_index: int) -> list[list[int]]:
        assert profile_index == 0
        return [list(shape) for shape in self.content["profile"][name]]

    def create_execution_context(self) -> Context:
        return Context(self)


@dataclass
class Context:
    engine: Engine
    shapes: dict[str, Shape] = field(default_factory=dict)
    addresses: dict[str, int] = field(default_factory=dict)

    def set_input_shape(self, name: str, shape: Shape) -> bool:
        low, _, high = self.engine.get_tensor_profile_shape(name, 0)
        fits = all(a <= size <= b for a, size, b in zip(low, shape, high, strict=True))
        if fits:
            self.shapes[name] = tuple(shape)
        return fits

    def get_tensor_shape(self, name: str) -> list[int]:
        """All outputs have the shape of the one input."""
        return list(next(iter(self.shapes.values()), self.engine.get_tensor_shape(name)))

    def set_tensor_address(self, name: str, memory: int) -> bool:
        self.addresses[name] = memory
        return name not in self.engine.refused

    def execute_async_v3(self, stream_handle: int) -> bool:
        given, *made = (self._memory(name) for name in self.engine.content["tensors"])
        for each in made:
            each[...] = 2 * given
        return True

    def _memory(self, name: str) -> Any:
        shape = self.get_tensor_shape(name)
        dtype = np.dtype(SIZES[self.engine.get_tensor_dtype(name).name])
        size = int(np.prod(shape)) * dtype.itemsize
        return np.frombuffer(
            (ctypes.c_char * size).from_address(self.addresses[name]), dtype
        ).reshape(shape)


class FakeTensorRt(ModuleType):
    """To be put into ``sys.modules`` as ``tensorrt``.

    Attributes:
        network: what its parser makes of any file.
        configs: every builder's configuration, for tests to look at.
        refused: tensors whose memory its contexts refuse.
    """

    DataType, BuilderFlag = DataType, BuilderFlag
    NetworkDefinitionCreationFlag = NetworkDefinitionCreationFlag

    def __init__(self, network: Network) -> None:
        super().__init__("tensorrt")
        self.network = network
        self.configs: list[Config] = []
        self.refused: tuple[str, ...] = ()
        outer = self

        class Logger:
            ERROR = 1

            def __init__(self, min_severity: int) -> None: ...

        class Builder:
            def __init__(self, logger: Logger) -> None: ...

            def create_network(self, flags: int = 0) -> Network:
                return outer.network

            def create_builder_config(self) -> Config:
                outer.configs.append(Config())
                return outer.configs[-1]

            def create_optimization_profile(self) -> Profile:
                return Profile()

            def build_serialized_network(self, network: Network, config: Config) -> bytes | None:
                open_ones = {t.name for t in network.inputs if min(t.shape) < 0}
                shapes = {k: v for each in config.profiles for k, v in each.shapes.items()}
                if open_ones - set(shapes):
                    return None  # and an error in the log, as upstream
                tensors = {
                    t.name: {"shape": t.shape, "dtype": t.dtype.name}
                    for t in (*network.inputs, *network.outputs)
                }
                return json.dumps({"tensors": tensors, "profile": shapes}).encode()

        class OnnxParser:
            num_errors = 0

            def __init__(self, network: Network, logger: Logger) -> None: ...

            def parse_from_file(self, model: str) -> bool:
                return True

        class Runtime:
            def __init__(self, logger: Logger) -> None: ...

            def deserialize_cuda_engine(self, serialized_engine: bytes) -> Engine:
                return Engine(json.loads(serialized_engine), outer.refused)

        self.Logger, self.Builder, self.OnnxParser, self.Runtime = (
            Logger,
            Builder,
            OnnxParser,
            Runtime,
        )
