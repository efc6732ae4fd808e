"""Parity of a transformer and its condition: prefill, verification and resampling against the reference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
from mulo_engines.cache_tensors import updated_name
from mulo_engines.manifest import ParityRecord
from mulo_engines.onnxruntime.engine import OnnxRuntimeEngine
from numpy.typing import NDArray

from mulo_export.checkpoints.tensor_file import TensorFile, read_tensor_file
from mulo_export.checkpoints.transformer import TransformerConfig
from mulo_export.describe import graph_file, weights_file
from mulo_export.graph_writer import write_transformer
from mulo_export.parity.metrics import relative_error
from mulo_export.precision import PRECISIONS, Precision, PrecisionTraits
from mulo_export.reference.sequence import empty_caches
from mulo_export.reference.ta_tok import ReferenceTaTok
from mulo_export.reference.transformer import ReferenceTransformer
from mulo_export.sources import Sources, TaTok, Transformer
from mulo_export.weights import convert_weights

__all__ = ["compare_steps", "first_caches", "load", "measure_transformer", "random_steps", "run_steps", "runnable"]

Arrays = Mapping[str, NDArray[Any]]
Run = Callable[[Arrays], dict[str, NDArray[Any]]]

Results = list[dict[str, NDArray[Any]]]

_PREFIX = 8
_BLOCK = 8
_ISLANDS = 3
"""Positions prefilled, verified and resampled, at most: few, so that a billion weights take seconds."""


def measure_transformer(
    folder: Path, role: Literal["drafter", "target"], sources: Sources, precision: Precision, rng: np.random.Generator
) -> Iterator[ParityRecord]:
    """Compare a role's two graphs with the reference, which reads the checkpoint and never the bundle."""
    model = sources.drafter if role == "drafter" else sources.target
    ta_tok, traits = sources.ta_tok, PRECISIONS[precision]
    hidden = role == "target" and sources.eagle is not None
    reference = ReferenceTransformer(model.config, model.file, hidden)
    condition = _random_condition(sources, rng)
    embeddings = reference.condition(_meaning(ta_tok, *condition.values()))
    steps = random_steps(model.config, embeddings, rng)
    write = partial(_write, role=role, model=model, ta_tok=ta_tok, hidden=hidden)
    with runnable(folder, [role] if ta_tok is None else [role, "ta_tok"], write, precision) as (place, dtype):
        with load(place, f"{role}.condition") as engine:
            prefix = engine.run_once(condition)["cond_embeds"]
        with load(place, role) as engine:
            found = run_steps(engine.run_once, steps, model.config, dtype)
    # Last: a large checkpoint pushes the bundle's weights, which were just written, out of the page cache.
    expected = reference.run_steps(steps, first_caches(steps, model.config))
    plain = _unquantized(traits)
    yield relative_error(f"{role}.condition", "embeddings", [(prefix, embeddings)], plain.tolerance)
    yield from compare_steps(role, found, expected, traits.tolerance)


def compare_steps(graph: str, found: Results, expected: Results, tolerance: float) -> Iterator[ParityRecord]:
    """How far the outputs of a graph's steps are from those of its reference."""
    caches = sorted(expected[0].keys() - {"logits", "hidden"})
    hidden = [("hidden states", ["hidden"])] if "hidden" in expected[0] else []
    for what, names in (("logits", ["logits"]), *hidden, ("caches", caches)):
        pairs = ((a[name], b[name]) for a, b in zip(found, expected, strict=True) for name in names)
        yield relative_error(graph, what, pairs, tolerance)


def _unquantized(traits: PrecisionTraits) -> PrecisionTraits:
    """The precision of what quantizing leaves alone, such as the condition."""
    return next(plain for plain in PRECISIONS.values() if plain.cache_type == traits.cache_type)


def load(folder: Path, graph: str) -> OnnxRuntimeEngine:
    """The engine of a graph for few passes."""
    return OnnxRuntimeEngine.load(folder / graph_file(graph), name=graph, spinning=False, packed=False)


@contextmanager
def runnable(
    folder: Path, roles: Sequence[str], write: Callable[[Path, Mapping[str, TensorFile]], None], precision: Precision
) -> Iterator[tuple[Path, str]]:
    """Where graphs lie that the CPU can run, and the type of their caches.

    No CPU kernel computes in bfloat16. Graphs of that type are declared again over the bundle's weights widened to
    float32, which compares the rounded weights and the graph but not the arithmetic of the type.

    Args:
        folder: the bundle.
        roles: whose weights the graphs read.
        write: writes the graphs into a folder, over weights that lie there, by role.
        precision: the bundle's.
    """
    if precision is not Precision.BF16:
        yield folder, PRECISIONS[precision].cache_type
        return
    with TemporaryDirectory(dir=folder, prefix=".widened-") as directory:
        place = Path(directory)
        (place / "weights").mkdir()
        for role in roles:
            rounded = read_tensor_file(folder / weights_file(role))
            convert_weights(rounded, place / weights_file(role), "F32", lambda _: None)
        write(place, {role: read_tensor_file(place / weights_file(role)) for role in roles})
        yield place, "float32"


def _write(
    place: Path,
    weights: Mapping[str, TensorFile],
    *,
    role: str,
    model: Transformer,
    ta_tok: TaTok | None,
    hidden: bool,
) -> None:
    write_transformer(place, role, model, weights[role], ta_tok, hidden=hidden)


def _meaning(ta_tok: TaTok | None, condition: NDArray[Any]) -> NDArray[Any]:
    """What a model reads of a condition: the features of TA-Tok codes, anything else as it is."""
    return condition if ta_tok is None else ReferenceTaTok(ta_tok.config, ta_tok.file).features(condition)


def _random_condition(sources: Sources, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    config = sources.target.config
    if sources.ta_tok is not None:
        return {"ta_tok_codes": rng.integers(sources.ta_tok.config.codes, size=(1, config.prefix))}
    if config.classes is not None:
        return {"class_id": rng.integers(config.classes, size=1)}
    return {"text_features": rng.standard_normal((1, config.prefix, config.feature_size or 0), np.float32)}


def random_steps(config: TransformerConfig, embeddings: NDArray[np.float32], rng: np.random.Generator) -> list[Arrays]:
    """Prefill the last prefix positions, verify image tokens all over the grid, then resample some of them.

    The resampled positions take slots of their own behind the verified ones and hide their old slots, as in a wave.
    """
    prefix, block = min(_PREFIX, config.prefix), min(_BLOCK, config.grid**2)
    islands = min(_ISLANDS, block)
    slots = prefix + block + islands
    resampled = np.sort(rng.choice(block, islands, replace=False))
    image = config.prefix + np.sort(rng.choice(config.grid**2, block, replace=False))
    first = config.prefix - prefix
    positions = np.concatenate([np.arange(first, config.prefix), image, image[resampled]])
    visible = (positions[:, None] >= positions) & np.tril(np.ones((slots, slots), np.bool_))
    visible[prefix + block :, prefix + resampled] = False
    spans = [(0, prefix), (prefix, prefix + block), (prefix + block, slots)]
    return [_step(config, embeddings[:, first:], positions, visible, span, rng) for span in spans]


def _step(
    config: TransformerConfig,
    embeddings: NDArray[np.float32],
    positions: NDArray[np.int64],
    visible: NDArray[np.bool_],
    span: tuple[int, int],
    rng: np.random.Generator,
) -> Arrays:
    """Inputs of one step, its caches apart, that writes the slots of `span`; the first span is the prefix."""
    start, stop = span
    tokens = rng.integers(config.vocabulary, size=(2, stop - start if start else 0))
    return {
        "cond_embeds": embeddings if start == 0 else embeddings[:, :0],
        "token_ids": tokens,
        "position_ids": np.tile(positions[start:stop], (2, 1)),
        "write_index": np.full(2, start),
        "attn_mask": visible[None, None, start:stop],
        "logit_rows": np.tile(np.arange(stop - start), (2, 1)),
    }


def first_caches(steps: Sequence[Arrays], config: TransformerConfig, dtype: str = "float32") -> Arrays:
    """Zero-filled caches with the slots that the steps write."""
    return empty_caches(config, 2, steps[0]["attn_mask"].shape[-1], dtype)


def run_steps(run: Run, steps: Sequence[Arrays], config: TransformerConfig, dtype: str) -> Results:
    """Run `steps` one after another, each on the caches that the one before left."""
    caches = first_caches(steps, config, dtype)
    results = []
    for step in steps:
        typed = {name: array.astype(dtype) for name, array in step.items() if array.dtype == np.float32}
        given = {**step, **typed, **caches}
        results.append(run({name: np.ascontiguousarray(array) for name, array in given.items()}))
        caches = {name: results[-1][updated_name(name)] for name in caches}
    return results
