"""Multi-scale local speculative decoding over the engines of a bundle.

from mulo_runtime import Pipeline, Prompt, Request

with Pipeline.open("build/reference-r4") as pipeline:
    result = pipeline.generate(Request(Prompt("a red circle on dark"), seed=7))
"""

from mulo_runtime.conditions import ClassId, Condition, Prompt, TaTokCodes, TextFeatures
from mulo_runtime.decoders.job import Accept
from mulo_runtime.defaults import default_method, default_sampling
from mulo_runtime.events import Drafted, Event, RowsDone, Verified
from mulo_runtime.health import Health
from mulo_runtime.lane_pool import Load
from mulo_runtime.meter import Pass, Usage
from mulo_runtime.pipeline import Pipeline
from mulo_runtime.request import (
    Done,
    DraftPreview,
    Request,
    Result,
    RowsPreview,
    Statistics,
    StreamEvent,
    VerifiedPreview,
)
from mulo_runtime.settings import (
    GSD,
    METHODS,
    PJD,
    SJD,
    AdaptiveZipAR,
    AutoRegressive,
    CoolSD,
    Fallback,
    Lantern,
    LanternPlus,
    LinearRSD,
    Method,
    MuloSD,
    Sampling,
    Speculative,
    UniformRSD,
    ZipAR,
    method_name,
    method_settings,
)

__all__ = [
    "GSD",
    "METHODS",
    "PJD",
    "SJD",
    "Accept",
    "AdaptiveZipAR",
    "AutoRegressive",
    "ClassId",
    "Condition",
    "CoolSD",
    "Done",
    "DraftPreview",
    "Drafted",
    "Event",
    "Fallback",
    "Health",
    "Lantern",
    "LanternPlus",
    "LinearRSD",
    "Load",
    "Method",
    "MuloSD",
    "Pass",
    "Pipeline",
    "Prompt",
    "Request",
    "Result",
    "RowsDone",
    "RowsPreview",
    "Sampling",
    "Speculative",
    "Statistics",
    "StreamEvent",
    "TaTokCodes",
    "TextFeatures",
    "UniformRSD",
    "Usage",
    "Verified",
    "VerifiedPreview",
    "ZipAR",
    "default_method",
    "default_sampling",
    "method_name",
    "method_settings",
]
