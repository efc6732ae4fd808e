"""A side takes and gives floats of any width, and is compared only with one of the same models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bundles import tiny_bundle
from conftest import MakeBundle
from mulo_engines.bundle import Bundle
from mulo_engines.engine import Buffers
from mulo_engines.errors import RequestError
from mulo_engines.fake import FakeEngine
from mulo_engines.signature import graph_signature
from mulo_export.precision import Precision
from mulo_tools.verify.side import Side, check_comparable, tolerance


@pytest.fixture(scope="module")
def bfloat16(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return Bundle.open(tiny_bundle(tmp_path_factory.mktemp("bf16"), precision=Precision.BF16))


def test_bfloat16_is_handed_over_as_its_bits_and_comes_back_as_numbers(bfloat16: Bundle) -> None:
    def echo(buffers: Buffers) -> None:
        """One, 1.5 and -2 as the upper halves of float32."""
        bits = [value.view(np.uint32) >> 16 for value in np.array([1, 1.5, -2], np.float32)]
        assert buffers["k_cache.0"].reshape(-1)[:3].tolist() == bits
        buffers["k_cache_out.0"][:] = buffers["k_cache.0"]

    signature = graph_signature(bfloat16.manifest, "target")
    side = Side("side", bfloat16, {"target": FakeEngine("target", *signature, echo)})
    sizes = {"B": 2, "C": 0, "Q": 1, "T": 1, "S": 8, "R": 1, "M": 1}
    shapes = {spec.name: [sizes.get(str(size), size) for size in spec.shape] for spec in signature.inputs}
    kinds = {spec.name: np.float64 if spec.dtype == np.uint16 else spec.dtype for spec in signature.inputs}
    inputs = {name: np.zeros(shape, kinds[name]) for name, shape in shapes.items()}
    inputs["k_cache.0"].reshape(-1)[:3] = [1, 1.5, -2]
    outputs = side.run("target", inputs)
    np.testing.assert_array_equal(outputs["k_cache_out.0"], inputs["k_cache.0"])
    assert outputs["k_cache_out.0"].dtype == np.float64


def test_the_tolerance_is_that_of_the_narrower_precision(shared_bundle: MakeBundle, bfloat16: Bundle) -> None:
    wide, narrow = Side("wide", Bundle.open(shared_bundle()), {}), Side("narrow", bfloat16, {})
    assert tolerance(wide, wide) == 1e-4
    assert tolerance(wide, narrow) == tolerance(narrow, wide) == 5e-2


def test_exports_of_the_same_checkpoints_can_be_compared_and_others_cannot(
    shared_bundle: MakeBundle, bfloat16: Bundle, tmp_path: Path
) -> None:
    ours = Bundle.open(shared_bundle()).manifest
    check_comparable(ours, bfloat16.manifest)
    with pytest.raises(RequestError, match=r"(?s)found: +ratio 4; target.rows 16.*expected: ratio 2; target.rows 8"):
        check_comparable(ours, Bundle.open(shared_bundle(ratio=4)).manifest)
    with pytest.raises(RequestError, match="family llamagen-c2i"):
        check_comparable(ours, Bundle.open(shared_bundle(text=False)).manifest)
