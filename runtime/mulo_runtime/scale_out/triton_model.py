"""A bundle as a model of NVIDIA's Triton Inference Server: python_backend, decoupled, one pool of lanes per instance.

`mulo triton-repository` writes the model repository whose model.py imports `TritonPythonModel` from here. A request
gets any number of previews, if it asks for them, and its image last. Triton's timeout is the request's deadline.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event as Signal
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils
from mulo_engines.errors import Busy, Cancelled, DeadlineExceeded, DeviceFailed, PipelineClosed, RequestError

from mulo_runtime import Done, DraftPreview, Pipeline, Request, RowsPreview, StreamEvent, VerifiedPreview
from mulo_runtime.scale_out.triton_request import read_request

__all__ = ["TritonPythonModel"]

_CODES = (
    (RequestError, pb_utils.TritonError.INVALID_ARG),
    ((Busy, PipelineClosed, DeadlineExceeded), pb_utils.TritonError.UNAVAILABLE),
    (Cancelled, pb_utils.TritonError.CANCELLED),
)
_STAGES = {DraftPreview: "draft", VerifiedPreview: "verified", RowsPreview: "rows", Done: "done"}
_THREADS = 1024  # More than lanes and queue have places: what is too much is refused at once and does not wait unseen.


class TritonPythonModel:
    """What Triton calls; its methods have Triton's names and arguments."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Open the pipeline that the parameters in config.pbtxt describe, and warm it up."""
        given = {name: value["string_value"] for name, value in json.loads(args["model_config"])["parameters"].items()}
        options: dict[str, Any] = {name: int(given[name]) for name in ("lanes", "queue", "threads")}
        options |= {"backend": given["backend"], "compiled": Path(given["engines"]) if "engines" in given else None}
        device = int(args["model_instance_device_id"])
        self._pipeline = Pipeline.open(given["bundle"], device=device, spinning=False, **options)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="mulo-triton")
        self._failed = False
        self._pipeline.warm_up()

    def execute(self, requests: Sequence[Any]) -> None:
        """Take requests; the answers go through their senders."""
        for request in requests:
            # Triton frees a request's tensors when this method returns.
            inputs = {tensor.name(): np.array(tensor.as_numpy()) for tensor in request.inputs()}
            self._threads.submit(self._answer, inputs, request.timeout(), request.get_response_sender())

    def is_ready(self) -> bool:
        """Whether the device works."""
        return not self._failed

    def finalize(self) -> None:
        """Finish what was accepted, then free everything."""
        self._threads.shutdown()
        self._pipeline.close()

    def _answer(self, inputs: Mapping[str, Any], microseconds: int, sender: Any) -> None:
        try:
            request = read_request(inputs, microseconds)
            for event in self._pipeline.stream(request, cancel=_Cancellation(sender)):
                if isinstance(event, Done) or inputs.get("previews", False):
                    sender.send(_response(event, request))
        except Exception as error:
            self._failed |= isinstance(error, DeviceFailed)
            code = next((code for kinds, code in _CODES if isinstance(error, kinds)), pb_utils.TritonError.INTERNAL)
            sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error), code)))
        finally:
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


class _Cancellation(Signal):
    """Set when the client has cancelled, which nobody tells and so is asked before every pass."""

    def __init__(self, sender: Any) -> None:
        super().__init__()
        self._sender = sender

    def is_set(self) -> bool:
        return bool(self._sender.is_cancelled())


def _response(event: StreamEvent, request: Request) -> Any:
    image = event.result.image if isinstance(event, Done) else event.image
    stage, seed = np.array([_STAGES[type(event)]], object), np.array([request.seed], np.uint64)
    values = {"image": image, "stage": stage, "seed": seed}
    return pb_utils.InferenceResponse([pb_utils.Tensor(name, value) for name, value in values.items()])
