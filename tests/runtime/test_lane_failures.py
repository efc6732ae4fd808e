"""What becomes of a lane, and of its pipeline, after a request that ended badly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from mulo_engines.backends import open_backend
from mulo_engines.bundle import Bundle
from mulo_engines.engine import Engine
from mulo_engines.errors import DeviceFailed, OutOfMemory
from mulo_runtime import Pipeline
from mulo_runtime.graphs import GRAPHS
from mulo_runtime.lane import Lane
from pipelines import ANY_METHOD, Faults, FaultyEngine, request

MakeBundle = Callable[..., Path]


def test_a_device_that_failed_fails_the_pipeline_for_good(faulty_pipeline: tuple[Pipeline, Faults]) -> None:
    pipeline, faults = faulty_pipeline
    faults.arm(5, DeviceFailed("the pass failed", found="CUDA_ERROR_LAUNCH_FAILED"))
    with pytest.raises(DeviceFailed, match="the pass failed"):
        pipeline.generate(request())
    faults.arm(None, RuntimeError())
    with pytest.raises(DeviceFailed, match=r"(?s)an earlier request.*the pass failed.*start the process again"):
        pipeline.generate(request())
    health = pipeline.health()
    assert not health.live
    assert "CUDA_ERROR_LAUNCH_FAILED" in str(health.fault)


def test_a_lane_whose_memory_ran_out_is_built_anew(faulty_pipeline: tuple[Pipeline, Faults]) -> None:
    pipeline, faults = faulty_pipeline
    expected, (lane,) = pipeline.generate(request()), pipeline._pool._lanes
    target = lane.target
    faults.arm(5, OutOfMemory("the pass does not fit"))
    with pytest.raises(OutOfMemory):
        pipeline.generate(request())
    faults.arm(None, RuntimeError())
    assert lane.target is not target
    assert np.array_equal(pipeline.generate(request()).tokens, expected.tokens)


def test_a_lane_that_cannot_be_built_anew_is_given_up_and_the_last_takes_the_pipeline_along(
    shared_bundle: MakeBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle, faults = Bundle.open(shared_bundle(), verify="size"), Faults()
    backend = open_backend("onnxruntime", threads=1)
    engines: dict[str, Engine] = {name: FaultyEngine(backend.load(bundle, name), faults) for name in GRAPHS}

    def no_memory(_: Lane) -> None:
        raise OutOfMemory("the buffers do not fit")

    with Pipeline(bundle, engines, methods=ANY_METHOD, lanes=2) as pipeline:
        monkeypatch.setattr(Lane, "rebuild", no_memory)
        for left in (1, 0):
            faults.arm(5, OutOfMemory("the pass does not fit"))
            with pytest.raises(OutOfMemory, match="the pass does not fit"):
                pipeline.generate(request())
            assert pipeline.load().lanes == left
        with pytest.raises(DeviceFailed, match=r"(?s)no lane is left.*the buffers do not fit"):
            pipeline.generate(request())
