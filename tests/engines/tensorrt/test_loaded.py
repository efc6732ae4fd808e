"""A plan is compared with what it was built to be by its own account, in the words of TensorRT's own class."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from engine_report import EngineReport
from mulo_engines.bundle import FileRecord
from mulo_engines.engine import TensorSpec
from mulo_engines.errors import EngineMismatch
from mulo_engines.signature import Signature
from mulo_engines.tensorrt.binding import load_binding
from mulo_engines.tensorrt.loaded import read_plan
from mulo_engines.tensorrt.profiles import Profile
from mulo_engines.tensorrt.record import EngineRecord, ProfileRecord

LIBRARY: Any = load_binding("tensorrt-rtx").library
CACHE = ("B", 2, 64, 32)
SIGNATURE = Signature(
    (TensorSpec("k_cache.0", np.dtype(np.float16), CACHE), TensorSpec("token_ids", np.dtype(np.int64), ("B", "Q"))),
    (
        TensorSpec("logits", np.dtype(np.float32), ("B", "Q", 8)),
        TensorSpec("k_cache_out.0", np.dtype(np.float16), CACHE),
    ),
)
PROFILES = (Profile("one", {"B": (1, 2, 2), "Q": (1, 1, 1)}), Profile("two", {"B": (1, 2, 2), "Q": (2, 2, 2)}))
IN_PLACE = {"k_cache.0": "k_cache_out.0"}
FILE = FileRecord(path="target.plan", size=1, sha256="0" * 64)
RECORD = EngineRecord(
    graph="target",
    source=FILE,
    weights=(),
    plan=FILE,
    slots=64,
    profiles=tuple(ProfileRecord(name=profile.name, sizes=dict(profile.sizes)) for profile in PROFILES),
    in_place=IN_PLACE,
    attention="fused",
    activation_bytes=2**30,
    build_seconds=1.0,
    build_peak_bytes=1,
)
PLAN = EngineReport(LIBRARY, SIGNATURE, PROFILES, {"k_cache_out.0": "k_cache.0"}, (300, 700))


def test_the_double_has_no_name_or_parameter_that_the_library_lacks() -> None:
    for name in (name for name in vars(EngineReport) if not name.startswith("_")):
        real, own = getattr(LIBRARY.ICudaEngine, name), vars(EngineReport)[name]
        assert isinstance(own, property) == isinstance(real, property)
        if not isinstance(own, property):
            overloads = re.findall(rf"^(?:\d+\. )?{name}\((self: .*)\) -> ", real.__doc__, re.MULTILINE)
            parameters = [re.findall(r"(\w+): ", overload) for overload in overloads]
            assert list(inspect.signature(own).parameters) in parameters


def test_a_plan_that_is_as_it_was_built_is_read() -> None:
    plan = read_plan(LIBRARY, PLAN, RECORD, SIGNATURE)
    assert list(plan.inputs) == ["k_cache.0", "token_ids"]
    assert plan.outputs["logits"].dtype == np.float32


def test_the_plans_own_report_of_its_memory_replaces_the_estimate() -> None:
    plan = read_plan(LIBRARY, PLAN, RECORD, SIGNATURE)
    assert plan.scratch == (300, 700)
    assert max(plan.scratch) < RECORD.activation_bytes


def _other_type(spec: TensorSpec) -> Signature:
    kept = tuple(other for other in SIGNATURE.outputs if other.name != spec.name)
    return Signature(SIGNATURE.inputs, (spec, *kept))


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (
            replace(PLAN, _signature=_other_type(TensorSpec("logits", np.dtype(np.float16), ("B", "Q", 8)))),
            r"logits float16 .*logits float32",
        ),
        (
            replace(PLAN, _signature=_other_type(TensorSpec("logits", np.dtype(np.float32), ("B", "Q", 9)))),
            r"logits\.1, 9\].*\[B, Q, 8\]",
        ),
        (replace(PLAN, _signature=Signature(SIGNATURE.inputs[:1], SIGNATURE.outputs)), r"no input token_ids"),
        (replace(PLAN, _aliases={}), r"in place nothing.*k_cache_out\.0"),
        (replace(PLAN, _profiles=PROFILES[:1]), r"1 profiles.*2 profiles"),
        (replace(PLAN, _profiles=PROFILES[::-1]), r"one: token_ids.*\(2, 2\).*one: token_ids.*\(2, 1\)"),
        (replace(PLAN, _host=frozenset({"token_ids"})), r"token_ids on the HOST.*token_ids on the DEVICE"),
        (replace(PLAN, _vectorized=frozenset({"logits"})), r"logits in order CHW32.*logits in order LINEAR"),
    ],
    ids=["type", "shape", "missing", "not in place", "fewer profiles", "other profiles", "on the host", "vectorized"],
)
def test_a_plan_that_is_something_else_is_refused_with_both_sides(plan: EngineReport, words: str) -> None:
    with pytest.raises(EngineMismatch, match=f"(?s){words}"):
        read_plan(LIBRARY, plan, RECORD, SIGNATURE)
