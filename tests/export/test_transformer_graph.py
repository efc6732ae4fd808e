"""The cache is a log: what a query sees is decided by positions and the mask, never by the slots it is written to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden_models import TOLERANCE, GoldenModel, Tensors, open_golden
from hypothesis import given, settings
from hypothesis import strategies as st
from mulo_engines.engine import Engine
from mulo_engines.errors import EngineError
from mulo_export.reference.sequence import empty_caches
from mulo_export.reference.transformer import ReferenceTransformer
from numpy.typing import NDArray

SLOTS = 24


@dataclass(frozen=True, slots=True)
class Loaded:
    """A golden model, its engine and its prefix embeddings [2, P, D]."""

    model: GoldenModel
    engine: Engine
    embeddings: NDArray[np.float32]


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    yield from _loaded("llamagen_c2i", tmp_path_factory.mktemp("classes"))


@pytest.fixture(scope="module")
def tar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    yield from _loaded("tar_ar_dtok", tmp_path_factory.mktemp("tar"))


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    yield from _loaded("llamagen_t2i", tmp_path_factory.mktemp("text"))


def _loaded(name: str, folder: Path) -> Iterator[Loaded]:
    model = open_golden(name, folder)
    with model.transformer() as engine:
        yield Loaded(model, engine, model.embeddings())


@pytest.mark.parametrize("family", ["classes", "text", "tar"])
def test_steps_of_one_token_equal_one_step_of_all(family: str, request: pytest.FixtureRequest) -> None:
    loaded: Loaded = request.getfixturevalue(family)
    whole = loaded.model.step(loaded.embeddings, loaded.model.stored["tokens"])
    expected = loaded.engine.run_once(whole)
    caches = {name: value for name, value in whole.items() if "cache" in name}
    prefix, length = loaded.model.config.prefix, whole["position_ids"].shape[1]
    for query in range(prefix - 1, length):
        first = 0 if query < prefix else query
        outputs = loaded.engine.run_once({**_queries(whole, first, query + 1), **caches})
        caches = {name.replace("cache_out", "cache"): value for name, value in outputs.items() if "cache" in name}
        assert np.abs(outputs["logits"][:, 0] - expected["logits"][:, query + 1 - prefix]).max() < TOLERANCE
    for name, cache in caches.items():
        assert np.abs(cache - expected[name.replace("cache", "cache_out")]).max() < TOLERANCE


def _queries(whole: Tensors, first: int, stop: int) -> Tensors:
    """The inputs of `whole` that concern some queries, all of the condition's or one image token, and its logits."""
    batch, prefix = len(whole["write_index"]), whole["cond_embeds"].shape[1]
    return {
        "cond_embeds": whole["cond_embeds"][:, first:stop].copy(),
        "token_ids": whole["token_ids"][:, max(first - prefix, 0) : max(stop - prefix, 0)].copy(),
        "position_ids": whole["position_ids"][:, first:stop].copy(),
        "write_index": np.full(batch, first),
        "attn_mask": whole["attn_mask"][:, :, first:stop].copy(),
        "logit_rows": np.full((batch, 1), stop - first - 1),
    }


@dataclass(frozen=True, slots=True)
class Write:
    """One step of a script: tokens at positions, into consecutive slots, each seeing some of the live slots."""

    first: int
    tokens: list[int]
    positions: list[int]
    seed: int


WRITES = st.integers(1, 5).flatmap(
    lambda count: st.builds(
        Write,
        first=st.integers(0, SLOTS - count),
        tokens=st.lists(st.integers(0, 255), min_size=count, max_size=count),
        positions=st.lists(st.integers(1, 64), min_size=count, max_size=count),
        seed=st.integers(0, 2**16),
    )
)


@settings(max_examples=30, deadline=None)
@given(script=st.lists(WRITES, min_size=1, max_size=6))
def test_any_script_over_any_slots_equals_one_step_over_a_log_that_overwrites_nothing(
    classes: Loaded, script: list[Write]
) -> None:
    incremental, seen = _run_script(classes, script)
    expected = _recompute(classes.model, script, seen)
    assert np.abs(incremental - expected).max() < TOLERANCE


def _run_script(loaded: Loaded, script: list[Write]) -> tuple[NDArray[np.float32], list[list[int]]]:
    """Logits [2, entries, V] step by step, and for every entry, in order of writing, the entries that it saw."""
    caches = empty_caches(loaded.model.config, 2, SLOTS)
    entry_of_slot = np.full(SLOTS, -1)
    logits, seen = list[NDArray[np.float32]](), list[list[int]]()
    for write in script:
        count = len(write.tokens)
        entry_of_slot[write.first : write.first + count] = np.arange(len(seen), len(seen) + count)
        visible = np.random.default_rng(write.seed).random((count, SLOTS)) < 0.5
        visible[np.arange(count), write.first + np.arange(count)] = True  # itself, always
        visible &= entry_of_slot >= 0
        seen += [sorted(entry_of_slot[row]) for row in visible]
        inputs = _image_step(loaded.model, write.tokens, write.positions, write.first, visible)
        outputs = loaded.engine.run_once({**inputs, **caches})
        logits.append(outputs["logits"])
        caches = {name.replace("cache_out", "cache"): value for name, value in outputs.items() if "cache" in name}
    return np.concatenate(logits, axis=1), seen


def _recompute(model: GoldenModel, script: list[Write], seen: list[list[int]]) -> NDArray[np.float32]:
    """The numpy reference's logits for all entries in one step, each in a slot of its own."""
    tokens = [token for write in script for token in write.tokens]
    positions = [position for write in script for position in write.positions]
    visible = np.zeros((len(seen), len(seen)), np.bool_)
    for entry, others in enumerate(seen):
        visible[entry, others] = True
    inputs = _image_step(model, tokens, positions, 0, visible)
    reference = ReferenceTransformer(model.config, model.file)
    return reference.run({**inputs, **empty_caches(model.config, 2, len(seen))})["logits"]


def _image_step(
    model: GoldenModel, tokens: list[int], positions: list[int], first: int, visible: NDArray[np.bool_]
) -> Tensors:
    """Inputs, but for the caches, that feed image tokens to both halves and ask for all their logits."""
    return {
        "cond_embeds": np.zeros((2, 0, model.config.dim), np.float32),
        "token_ids": np.tile(tokens, (2, 1)),
        "position_ids": np.tile(positions, (2, 1)),
        "write_index": np.full(2, first),
        "attn_mask": visible[None, None],
        "logit_rows": np.tile(np.arange(len(tokens)), (2, 1)),
    }


def test_a_cache_bound_in_place_changes_in_the_written_slots_only(classes: Loaded) -> None:
    config = classes.model.config
    rng = np.random.default_rng(0)
    before = {
        name: rng.standard_normal(cache.shape, np.float32) for name, cache in empty_caches(config, 2, SLOTS).items()
    }
    caches = {name: cache.copy() for name, cache in before.items()}
    visible = np.ones((3, SLOTS), np.bool_)
    buffers = {**_image_step(classes.model, [1, 2, 3], [9, 4, 30], 7, visible), **caches}
    buffers |= {name.replace("cache", "cache_out"): cache for name, cache in caches.items()}
    buffers["logits"] = np.zeros((2, 3, config.vocabulary), np.float32)
    classes.engine.bind(buffers).run()
    for name, cache in caches.items():
        changed = (cache != before[name]).any(axis=(0, 1, 3))
        assert list(np.flatnonzero(changed)) == [7, 8, 9]


def test_sequences_of_a_batch_may_write_to_different_slots(classes: Loaded) -> None:
    caches = empty_caches(classes.model.config, 2, SLOTS)
    inputs = _image_step(classes.model, [5], [1], 0, np.eye(1, SLOTS, dtype=np.bool_)) | caches
    together = classes.engine.run_once(inputs)
    mask = np.zeros((2, 1, 1, SLOTS), np.bool_)
    mask[0, ..., 0] = mask[1, ..., 11] = True
    apart = classes.engine.run_once({**inputs, "write_index": np.array([0, 11]), "attn_mask": mask})
    assert np.array_equal(together["logits"], apart["logits"])
    assert apart["v_cache_out.2"][1, :, 11].any()
    assert not apart["v_cache_out.2"][1, :, 0].any()


def test_padded_queries_leave_the_real_ones_as_they_are(classes: Loaded) -> None:
    caches = empty_caches(classes.model.config, 2, SLOTS)
    visible = np.tri(5, SLOTS, dtype=np.bool_)
    real = _image_step(classes.model, [5, 6, 7], [1, 2, 3], 0, visible[:3]) | caches
    visible[3:] = np.eye(5, SLOTS, dtype=np.bool_)[3:]
    padded = _image_step(classes.model, [5, 6, 7, 7, 7], [1, 2, 3, 3, 3], 0, visible) | caches
    padded["logit_rows"] = real["logit_rows"]
    expected, found = classes.engine.run_once(real), classes.engine.run_once(padded)
    assert np.abs(found["logits"] - expected["logits"]).max() < TOLERANCE
    assert np.abs(found["k_cache_out.2"][:, :, :3] - expected["k_cache_out.2"][:, :, :3]).max() < TOLERANCE


def test_without_guidance_one_sequence_an_image_gives_the_conditional_logits(classes: Loaded) -> None:
    step = classes.model.step(classes.embeddings, classes.model.stored["tokens"])
    conditional = {name: value if name == "attn_mask" else value[:1].copy() for name, value in step.items()}
    logits = classes.engine.run_once(conditional)["logits"]
    assert np.abs(logits - classes.model.stored["logits"][:1]).max() < TOLERANCE


def test_prefix_keys_are_zero_and_image_keys_are_not(text: Loaded) -> None:
    step = text.model.step(text.embeddings, text.model.stored["tokens"])
    outputs = text.engine.run_once(step)
    prefix = text.model.config.prefix
    assert all(not outputs[f"k_cache_out.{layer}"][:, :, :prefix].any() for layer in range(3))
    assert all(outputs[f"k_cache_out.{layer}"][:, :, prefix:].any(axis=-1).all() for layer in range(3))


def test_caches_equal_the_reference_in_every_slot_padding_included(text: Loaded) -> None:
    step = text.model.step(text.embeddings, text.model.stored["tokens"])
    expected = ReferenceTransformer(text.model.config, text.model.file).run(step)
    for name, output in text.engine.run_once(step).items():
        assert np.abs(output - expected[name]).max() < TOLERANCE, name


def test_no_logits_are_computed_where_none_are_asked_for(classes: Loaded) -> None:
    step = classes.model.step(classes.embeddings, classes.model.stored["tokens"])
    outputs = classes.engine.run_once({**step, "logit_rows": np.zeros((2, 0), np.int64)})
    assert outputs["logits"].shape == (2, 0, classes.model.config.vocabulary)
    assert outputs["k_cache_out.0"].any()


@pytest.mark.parametrize(
    ("name", "value"),
    [("write_index", SLOTS - 1), ("write_index", -1), ("token_ids", 256), ("position_ids", 192), ("logit_rows", 2)],
)
def test_an_index_outside_its_range_is_an_error(classes: Loaded, name: str, value: int) -> None:
    visible = np.ones((2, SLOTS), np.bool_)
    inputs: dict[str, NDArray[Any]] = _image_step(classes.model, [1, 2], [1, 2], 0, visible)
    inputs |= empty_caches(classes.model.config, 2, SLOTS)
    classes.engine.run_once(inputs)
    with pytest.raises(EngineError):
        classes.engine.run_once({**inputs, name: np.full_like(inputs[name], value)})


def test_behind_the_last_position_there_are_no_numbers(classes: Loaded) -> None:
    """A draw refuses what is not finite."""
    inputs = _image_step(classes.model, [1, 2], [1, 2], 0, np.ones((2, SLOTS), np.bool_))
    inputs |= empty_caches(classes.model.config, 2, SLOTS)
    inputs["position_ids"][:, 1] = classes.model.config.prefix + classes.model.config.grid**2
    assert np.isnan(classes.engine.run_once(inputs)["logits"]).any()


def test_a_pass_may_try_more_tokens_than_there_are_positions(classes: Loaded) -> None:
    slots = 96
    assert slots > classes.model.config.prefix + classes.model.config.grid**2
    visible, caches = np.eye(slots, dtype=np.bool_), empty_caches(classes.model.config, 2, slots)
    together = classes.engine.run_once(_image_step(classes.model, [*range(slots)], [3] * slots, 0, visible) | caches)
    for token in (0, slots - 1):
        alone = classes.engine.run_once(_image_step(classes.model, [token], [3], 0, visible[:1]) | caches)
        assert np.abs(together["logits"][:, token] - alone["logits"][:, 0]).max() < TOLERANCE
