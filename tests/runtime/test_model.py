"""The cache is a log: whatever the order in which tokens are fed, the logits are those of a recomputation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mulo_engines.errors import ShapeError
from mulo_runtime import AutoRegressive, Prompt, Sampling
from mulo_runtime.model import CachedModel
from mulo_runtime.pipeline import Pipeline
from pipelines import ANY_METHOD, MakePipeline

TOKENS = 64
PREFIX = 6


class Harness:
    """One target on a lane; its draws' probabilities of candidate 0 stand for the logits."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.lane = pipeline._pool._free[0]
        self.lane.prepare(Sampling(guidance_scale=2.0), AutoRegressive())
        embeds, self.visible = pipeline._conditions.encode([Prompt("red circle")], {"target": True})
        self.embeds = embeds["target"]
        self.image = np.random.default_rng(0).integers(0, 64, TOKENS)

    @property
    def model(self) -> CachedModel:
        return self.lane.target

    def begin(self) -> float:
        return float(self.model.begin(self.embeds, self.visible, _zeros(1), _halves(1)).probability[0, 0])

    def feed(self, positions: list[int], image: np.ndarray) -> list[float]:
        at = np.array(positions)
        draws = self.model.feed(image[at][None], at[None], [len(at)], _zeros(len(at)), _halves(len(at)))
        return [float(value) for value in draws.probability[0]]


def _zeros(rows: int) -> np.ndarray:
    return np.zeros((1, rows), np.int64)


def _halves(rows: int) -> np.ndarray:
    return np.full((1, rows), 0.5, np.float32)


@pytest.fixture
def harness(open_pipeline: MakePipeline) -> Harness:
    return Harness(open_pipeline())


def close(a: Any, b: Any) -> bool:
    return bool(np.allclose(a, b, rtol=0, atol=1e-6))


def test_many_steps_of_one_query_are_one_step_of_many(harness: Harness) -> None:
    harness.begin()
    at_once = harness.feed(list(range(12)), harness.image)
    harness.begin()
    one_by_one = [harness.feed([position], harness.image)[0] for position in range(12)]
    assert close(at_once, one_by_one)


def test_a_step_draws_what_feeding_its_token_draws(harness: Harness) -> None:
    harness.begin()
    fed = [int(harness.model.feed(*lone(harness, at), None, _halves(1)).tokens[0, 0]) for at in range(12)]
    harness.begin()
    stepped = [harness.model.step(int(harness.image[at]), at, 0.5) for at in range(12)]
    assert stepped == fed
    assert len(set(fed)) > 1


def lone(harness: Harness, at: int) -> tuple[np.ndarray, np.ndarray, list[int]]:
    return harness.image[[at]][None], np.array([[at]]), [1]


def test_the_order_of_the_log_does_not_matter(harness: Harness) -> None:
    harness.begin()
    expected = harness.feed(list(range(12)), harness.image)[-1]
    harness.begin()
    harness.feed([5, 1, 3], harness.image)
    harness.feed([10, 0, 9, 2, 4], harness.image)
    assert not close(harness.feed([11], harness.image), [expected])
    harness.begin()
    for position in range(11):
        harness.feed([position], harness.image)
    assert close(harness.feed([11], harness.image), [expected])


scripts = st.lists(
    st.tuples(st.integers(1, 8), st.lists(st.booleans(), min_size=8, max_size=8)), min_size=1, max_size=5
)


@settings(max_examples=15)
@given(script=scripts, seed=st.integers(0, 99))
def test_any_script_of_accepted_and_replaced_tokens_is_a_recomputation_from_scratch(
    open_module_harness: Harness, script: list[tuple[int, list[bool]]], seed: int
) -> None:
    """Feed blocks, replace tokens of each and feed from the first of them on again: nothing stale stays."""
    harness, rng = open_module_harness, np.random.default_rng(seed)
    image = harness.image.copy()
    harness.begin()
    start = 0
    for size, replaced in script:
        block = list(range(start, start + size))
        harness.feed(block, image)
        changed = [position for position, flag in zip(block, replaced, strict=False) if flag]
        if changed:
            image[changed] = rng.integers(0, 64, len(changed))
            for position in range(changed[0], start + size):
                harness.feed([position], image)
        start += size
    after_script = harness.feed([start], image)
    harness.begin()
    assert close(harness.feed(list(range(start + 1)), image)[-1:], after_script)


@pytest.fixture(scope="module")
def open_module_harness(shared_bundle: Any) -> Iterator[Harness]:
    with Pipeline.open(shared_bundle(), threads=1, methods=ANY_METHOD) as pipeline:
        yield Harness(pipeline)


def test_rewinding_overwrites_the_log_in_place(harness: Harness) -> None:
    harness.begin()
    harness.feed(list(range(8)), harness.image)
    harness.feed([3, 4, 5], harness.image)
    harness.model.rewind(3)
    harness.feed(list(range(3, 8)), harness.image)
    held = harness.model.slots.held(0)
    assert held[PREFIX : PREFIX + 8].tolist() == list(range(PREFIX, PREFIX + 8))
    assert (held[PREFIX + 8 :] == harness.model.slots.empty).all()


def test_padding_writes_slots_that_count_as_empty(harness: Harness) -> None:
    harness.begin()
    harness.feed(list(range(5)), harness.image)
    assert (harness.model.slots.held(0)[PREFIX + 5 :] == harness.model.slots.empty).all()


def test_hidden_tokens_do_not_influence_what_comes(harness: Harness) -> None:
    harness.begin()
    harness.feed([0, 2], harness.image)
    without = harness.feed([3], harness.image)
    harness.begin()
    harness.feed([0, 1], harness.image)
    harness.model.hide(0, np.array([1]))
    harness.feed([2], harness.image)
    assert close(harness.feed([3], harness.image), without)


def test_a_full_log_is_refused_with_its_size(harness: Harness) -> None:
    def overfill() -> None:
        for _ in range(60):
            harness.feed(list(range(16)), harness.image)

    harness.begin()
    with pytest.raises(ShapeError, match="the log is full"):
        overfill()
