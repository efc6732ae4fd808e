"""Settings refuse what makes no sense, by name."""

from __future__ import annotations

from typing import Any

import pytest
from mulo_engines.errors import RequestError
from mulo_runtime import AutoRegressive, MuloSD, Sampling, ZipAR, method_name, method_settings


@pytest.mark.parametrize(
    ("make", "values"),
    [
        (Sampling, {"temperature": -0.1}),
        (Sampling, {"temperature": float("nan")}),
        (Sampling, {"guidance_scale": float("inf")}),
        (Sampling, {"top_k": -1}),
        (Sampling, {"top_k": 3841}),
        (Sampling, {"top_p": 0.0}),
        (ZipAR, {"window": 0}),
        (ZipAR, {"schedule": "eager"}),
        (MuloSD, {"tau": -1.0}),
        (MuloSD, {"pool_k": 0}),
        (MuloSD, {"radius": -1}),
        (MuloSD, {"rejection": "global"}),
        (MuloSD, {"draft": "columns"}),
        (MuloSD, {"islands": "none"}),
        (MuloSD, {"surrogate": "zero"}),
        (MuloSD, {"stale": "drop"}),
        (MuloSD, {"refresh": "all"}),
        (MuloSD, {"window": -1}),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(make: Any, values: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match=repr(next(iter(values)))):
        make(**values)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(RequestError, match=r"(?s)threshold.*tau"):
        MuloSD.from_mapping({"threshold": 0.1})


def test_guidance_needs_a_scale_above_one() -> None:
    assert Sampling(guidance_scale=1.5).guided
    assert not Sampling(guidance_scale=1.0).guided


def test_methods_have_names_and_plain_settings() -> None:
    assert [method_name(method) for method in (AutoRegressive(), ZipAR(), MuloSD())] == ["ar", "zipar", "mulo-sd"]
    assert method_settings(ZipAR(4)) == {"window": 4, "schedule": "pipelined"}
    assert MuloSD.from_mapping(method_settings(MuloSD(tau=0.3))) == MuloSD(tau=0.3)
