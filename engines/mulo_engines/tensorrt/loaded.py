"""What a loaded plan says of itself, and whether that is what it was built to be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mulo_engines.engine import TensorSpec
from mulo_engines.errors import EngineMismatch
from mulo_engines.signature import Signature, check_signature
from mulo_engines.tensorrt.network import declared_spec
from mulo_engines.tensorrt.profiles import Profile, input_shapes
from mulo_engines.tensorrt.record import EngineRecord

__all__ = ["LoadedPlan", "read_plan"]

Fault = tuple[object, object]
"""What was found, and what must be."""


@dataclass(frozen=True, slots=True)
class LoadedPlan:
    """A plan's own account of itself.

    Attributes:
        name: the graph's name.
        inputs: its inputs by name.
        outputs: its outputs by name.
        scratch: bytes of device memory that a context needs for each profile, in place of the record's estimate.
    """

    name: str
    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]
    scratch: tuple[int, ...]


def read_plan(library: Any, engine: Any, record: EngineRecord, signature: Signature) -> LoadedPlan:
    """Read `engine`, an `ICudaEngine` of `library`, and compare it with what it was built to be.

    Raises:
        EngineMismatch: a name, type, shape, place, profile or pair of aliased tensors is another.
    """
    tensors = [_tensor(engine, engine.get_tensor_name(index)) for index in range(engine.num_io_tensors)]
    modes = {spec.name: engine.get_tensor_mode(spec.name) for spec in tensors}
    profiles = range(engine.num_optimization_profiles)
    plan = LoadedPlan(
        record.graph,
        {spec.name: spec for spec in tensors if modes[spec.name] == library.TensorIOMode.INPUT},
        {spec.name: spec for spec in tensors if modes[spec.name] == library.TensorIOMode.OUTPUT},
        tuple(int(engine.get_device_memory_size_for_profile_v2(profile)) for profile in profiles),
    )
    check_signature(plan, signature)
    faults = [
        *_place_faults(library, engine, plan),
        *_alias_faults(engine, plan, record),
        *_profile_faults(engine, record, signature),
    ]
    if faults:
        raise EngineMismatch(
            f"{plan.name}: the plan is not what it was built to be",
            found="; ".join(str(found) for found, _ in faults),
            expected="; ".join(str(wanted) for _, wanted in faults),
            fix="build the engines again with `mulo-export build`",
        )
    return plan


def _tensor(engine: Any, name: str) -> TensorSpec:
    return declared_spec(name, engine.get_tensor_dtype(name).name, tuple(engine.get_tensor_shape(name)))


def _place_faults(library: Any, engine: Any, plan: LoadedPlan) -> Iterator[Fault]:
    """Inputs and outputs that the plan reads on the host or in another order, which nothing in the loop writes."""
    for name in (*plan.inputs, *plan.outputs):
        if (place := engine.get_tensor_location(name)) != library.TensorLocation.DEVICE:
            yield f"{name} on the {place.name}", f"{name} on the DEVICE"
        if (order := engine.get_tensor_format(name)) != library.TensorFormat.LINEAR:
            yield f"{name} in order {order.name}", f"{name} in order LINEAR"


def _alias_faults(engine: Any, plan: LoadedPlan, record: EngineRecord) -> Iterator[Fault]:
    aliased = {name: engine.get_aliased_input_tensor(name) for name in plan.outputs}
    found = {source: name for name, source in aliased.items() if source}
    if found != record.in_place:
        yield f"in place {found or 'nothing'}", f"in place {record.in_place or 'nothing'}"


def _profile_faults(engine: Any, record: EngineRecord, signature: Signature) -> Iterator[Fault]:
    if engine.num_optimization_profiles != len(record.profiles):
        yield f"{engine.num_optimization_profiles} profiles", f"{len(record.profiles)} profiles"
        return
    sized = [spec for spec in signature.inputs if any(isinstance(size, str) for size in spec.shape)]
    for index, known in enumerate(record.profiles):
        for spec in sized:
            found = tuple(tuple(shape) for shape in engine.get_tensor_profile_shape(spec.name, index))
            wanted = input_shapes(Profile(known.name, known.sizes), spec)
            if found != wanted:
                yield f"{known.name}: {spec.name} {found}", f"{known.name}: {spec.name} {wanted}"
