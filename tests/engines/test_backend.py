"""Backends load the graphs of a bundle, and only graphs that are what the manifest says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from mulo_engines.backend import Backend
from mulo_engines.backends import BACKEND_NAMES, open_backend
from mulo_engines.bundle import Bundle
from mulo_engines.engine import Engine, TensorSpec
from mulo_engines.errors import BundleError, EngineMismatch, EngineUnavailable
from mulo_engines.fake import FakeEngine
from mulo_engines.signature import GRAPH_NAMES, Signature, check_signature, graph_signature

LOG = np.array([[5, 6, 7, 0]])


class _FakeBackend(Backend):
    """Gives the same engine for every graph."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def _load(self, bundle: Bundle, graph: str, slots: int) -> Engine:
        return self.engine


@pytest.fixture
def bundle(bundle_folder: Path) -> Bundle:
    return Bundle.open(bundle_folder)


def _with(signature: Signature, spec: TensorSpec, other: TensorSpec) -> FakeEngine:
    """An engine with this signature but for `other` in the place of `spec`."""
    return FakeEngine("engine", *([other if each is spec else each for each in side] for side in signature))


@pytest.mark.parametrize("spinning", [True, False])
def test_a_graph_of_a_bundle_is_loaded_and_runs(bundle: Bundle, spinning: bool) -> None:
    with open_backend("onnxruntime", threads=1, spinning=spinning).load(bundle, "feed") as engine:
        assert engine.name == "feed"
        inputs = {"token_log": LOG, "new_tokens": np.array([[9]]), "write_positions": np.array([[3]])}
        inputs |= {"probability": np.ones((1, 1), np.float32), "witness": np.ones(1, np.float32)}
        outputs = engine.run_once({**inputs, "read_positions": np.array([[3, 1]])})
    assert outputs["token_log_out"].tolist() == [[5, 6, 7, 9]]
    assert outputs["token_ids"].tolist() == [[9, 6], [9, 6]]


def test_a_graph_that_is_not_what_its_name_says_is_refused(bundle: Bundle) -> None:
    with pytest.raises(EngineMismatch, match=r"(?s)target: .*input token_log.*float32 \[B, 4, S, 32\].*mulo-export"):
        open_backend("onnxruntime", threads=1).load(bundle, "target")


def test_a_refused_engine_is_closed(bundle: Bundle) -> None:
    engine = FakeEngine("feed", [], [])
    with pytest.raises(EngineMismatch):
        _FakeBackend(engine).load(bundle, "feed")
    assert engine.closed


def test_a_graph_that_the_bundle_lacks_is_refused(bundle: Bundle) -> None:
    with pytest.raises(BundleError, match="no graph 'decoder'"):
        open_backend("onnxruntime").load(bundle, "decoder")


def test_a_backend_that_does_not_exist_is_refused() -> None:
    with pytest.raises(EngineUnavailable, match=rf"(?s)abacus.*{', '.join(BACKEND_NAMES)}"):
        open_backend("abacus")


@pytest.mark.parametrize("graph", GRAPH_NAMES)
def test_every_graph_has_a_signature_that_only_names_of_symbols_may_differ_from(bundle: Bundle, graph: str) -> None:
    signature = graph_signature(bundle.manifest, graph)
    check_signature(FakeEngine(graph, *signature), signature)
    for spec in (*signature.inputs, *signature.outputs):
        symbols = tuple(size if isinstance(size, int) else f"{size}_" for size in spec.shape)
        check_signature(_with(signature, spec, TensorSpec(spec.name, spec.dtype, symbols)), signature)
        for other in (
            TensorSpec(spec.name, np.dtype(np.complex64), spec.shape),
            TensorSpec(spec.name, spec.dtype, (*spec.shape, 1)),
            TensorSpec(f"{spec.name}_", spec.dtype, spec.shape),
        ):
            with pytest.raises(EngineMismatch, match=spec.name):
                check_signature(_with(signature, spec, other), signature)


def test_a_fixed_size_must_be_the_manifests(bundle: Bundle) -> None:
    signature = graph_signature(bundle.manifest, "sampler")
    larger = TensorSpec("logits", np.dtype(np.float32), ("B", "R", 513))
    engine = FakeEngine("sampler", [larger, *signature.inputs[1:]], signature.outputs)
    with pytest.raises(EngineMismatch, match=r"(?s)float32 \[B, R, 513\].*float32 \[B, R, 512\]"):
        check_signature(engine, signature)


def test_all_faults_of_a_graph_are_told_at_once(bundle: Bundle) -> None:
    signature = graph_signature(bundle.manifest, "decoder")
    engine = FakeEngine("decoder", [TensorSpec("tokens", np.dtype(np.int64), ("N",))], [])
    with pytest.raises(EngineMismatch, match=r"found: +input tokens; no input token_ids; no output image"):
        check_signature(engine, signature)


def test_only_a_decoder_of_which_the_manifest_says_so_has_a_witness(bundle: Bundle) -> None:
    older, newer = (bundle.manifest.model_copy(update={"decoder_witness": told}) for told in (False, True))
    without, witnessed = graph_signature(older, "decoder"), graph_signature(newer, "decoder")
    assert [spec.name for spec in without.outputs] == ["image"]
    check_signature(FakeEngine("decoder", *without), without)
    with pytest.raises(EngineMismatch, match="no output witness"):
        check_signature(FakeEngine("decoder", *without), witnessed)
    with pytest.raises(EngineMismatch, match="output witness"):
        check_signature(FakeEngine("decoder", *witnessed), without)


def test_a_name_that_no_graph_has_is_refused(bundle: Bundle) -> None:
    with pytest.raises(EngineMismatch, match=r"(?s)'encoder' is no graph.*upsampler"):
        graph_signature(bundle.manifest, "encoder")
