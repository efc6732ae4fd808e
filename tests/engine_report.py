"""What TensorRT tells of a loaded plan, without a GPU: what its fields say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mulo_engines.engine import TensorSpec
from mulo_engines.signature import Signature
from mulo_engines.tensorrt.profiles import Profile, Shapes, input_shapes

__all__ = ["EngineReport"]

_KINDS = {"float32": "FLOAT", "float16": "HALF", "uint16": "BF16", "int64": "INT64", "uint8": "UINT8", "bool": "BOOL"}


@dataclass
class EngineReport:
    """Stands for an `ICudaEngine`; its public names are a part of that class's.

    Attributes:
        _library: whose enumerations it answers with.
        _signature: its inputs and outputs.
        _profiles: their sizes.
        _aliases: the input whose memory an output shares.
        _sizes: bytes of device memory by profile.
        _host: tensors that must lie on the host.
        _vectorized: tensors whose values do not lie in order.
    """

    _library: Any
    _signature: Signature
    _profiles: tuple[Profile, ...]
    _aliases: Mapping[str, str]
    _sizes: tuple[int, ...]
    _host: frozenset[str] = frozenset()
    _vectorized: frozenset[str] = frozenset()
    _specs: dict[str, TensorSpec] = field(init=False)

    def __post_init__(self) -> None:
        self._specs = {spec.name: spec for spec in (*self._signature.inputs, *self._signature.outputs)}

    @property
    def num_io_tensors(self) -> int:
        return len(self._specs)

    @property
    def num_optimization_profiles(self) -> int:
        return len(self._profiles)

    def get_tensor_name(self, index: int) -> str:
        return list(self._specs)[index]

    def get_tensor_mode(self, name: str) -> Any:
        mode = self._library.TensorIOMode
        return mode.INPUT if self._specs[name] in self._signature.inputs else mode.OUTPUT

    def get_tensor_dtype(self, name: str) -> Any:
        return getattr(self._library.DataType, _KINDS[str(self._specs[name].dtype)])

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return tuple(-1 if isinstance(size, str) else size for size in self._specs[name].shape)

    def get_tensor_location(self, name: str) -> Any:
        return self._library.TensorLocation.HOST if name in self._host else self._library.TensorLocation.DEVICE

    def get_tensor_format(self, name: str) -> Any:
        order = self._library.TensorFormat
        return order.CHW32 if name in self._vectorized else order.LINEAR

    def get_tensor_profile_shape(self, name: str, profile_index: int) -> Shapes:
        return input_shapes(self._profiles[profile_index], self._specs[name])

    def get_aliased_input_tensor(self, name: str) -> str | None:
        return self._aliases.get(name)

    def get_device_memory_size_for_profile_v2(self, profile_index: int) -> int:
        return self._sizes[profile_index]
