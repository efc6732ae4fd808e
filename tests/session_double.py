"""ONNX Runtime's session with the CUDA provider, without a GPU: it computes on the CPU, at addresses it is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from plan_double import array_at

__all__ = ["INFERENCE_SESSION", "Binding", "Session"]

INFERENCE_SESSION = ort.InferenceSession


class Binding:
    """Double of `onnxruntime.IOBinding`."""

    def __init__(self) -> None:
        self.bound: dict[str, tuple[Any, ...]] = {}

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Any, buffer_ptr: int
    ) -> None:
        self.bound[name] = (device_type, device_id, element_type, shape, buffer_ptr)

    def bind_output(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Any, buffer_ptr: int
    ) -> None:
        self.bound[name] = (device_type, device_id, element_type, shape, buffer_ptr)

    def array(self, name: str) -> NDArray[Any]:
        """What lies at the address that was bound to `name`."""
        _, _, element_type, shape, address = self.bound[name]
        return array_at(address, tuple(shape), np.dtype(element_type))


class Session:
    """Double of `onnxruntime.InferenceSession`, on the CPU, with `providers`, which notes what is bound and run."""

    def __init__(self, path: Path, providers: list[str]) -> None:
        self._session = INFERENCE_SESSION(path)
        self._providers = providers
        self.bindings: list[Binding] = []
        self.entries: list[str] = []
        self.error: Exception | None = None

    def get_providers(self) -> list[str]:
        return self._providers

    def get_inputs(self) -> Any:
        return self._session.get_inputs()

    def get_outputs(self) -> Any:
        return self._session.get_outputs()

    def io_binding(self) -> Binding:
        self.bindings.append(Binding())
        return self.bindings[-1]

    def run_with_iobinding(self, iobinding: Binding, run_options: Any) -> None:
        self.entries.append(run_options.get_run_config_entry("disable_synchronize_execution_providers"))
        if self.error is not None:
            raise self.error
        inputs = {node.name: iobinding.array(node.name) for node in self.get_inputs()}
        names = [node.name for node in self.get_outputs()]
        for name, output in zip(names, self._session.run(names, inputs), strict=True):
            iobinding.array(name)[...] = output

    def run(self, output_names: Any, input_feed: Any) -> Any:
        return self._session.run(output_names, input_feed)
