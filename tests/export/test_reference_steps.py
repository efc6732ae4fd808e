"""The reference's steps go through the layers together, and are what they are one after another."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundles import tiny_checkpoints, tiny_sources
from mulo_export.checkpoints.tensor_file import TensorFile
from mulo_export.parity.transformer import first_caches, random_steps, run_steps
from mulo_export.reference.eagle import ReferenceEagle
from mulo_export.reference.transformer import ReferenceTransformer
from mulo_export.sources import Sources
from numpy.typing import NDArray

CONDITION = "cls_embedding."


@dataclass(frozen=True)
class CountedFile(TensorFile):
    """A file that counts how often each of its tensors is read."""

    reads: Counter[str] = field(default_factory=Counter)

    def array(self, name: str) -> NDArray[Any]:
        self.reads[name] += 1
        return super().array(name)


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    return tiny_sources(tiny_checkpoints(tmp_path), eagle=True)


def _steps(sources: Sources) -> list[dict[str, NDArray[Any]]]:
    """Prefill, verification and resampling, with what a head reads besides."""
    config, rng = sources.target.config, np.random.default_rng(0)
    prefix = rng.standard_normal((2, config.prefix, config.dim), np.float32)
    steps = random_steps(config, prefix, rng)
    states = [rng.standard_normal((*step["position_ids"].shape, config.dim), np.float32) for step in steps]
    return [{**step, "previous_hidden": state} for step, state in zip(steps, states, strict=True)]


def _references(sources: Sources) -> dict[str, ReferenceTransformer | ReferenceEagle]:
    target, head = sources.target, sources.eagle
    assert head is not None
    return {
        "target": ReferenceTransformer(target.config, target.file, hidden=True),
        "eagle": ReferenceEagle(head.config, head.file, target.file),
    }


@pytest.mark.parametrize("name", ["target", "eagle"])
def test_steps_together_give_what_they_give_one_after_another(sources: Sources, name: str) -> None:
    reference, steps = _references(sources)[name], _steps(sources)
    together = reference.run_steps(steps, first_caches(steps, reference.config))
    one_by_one = run_steps(reference.run, steps, reference.config, "float32")
    for found, expected in zip(together, one_by_one, strict=True):
        assert found.keys() == expected.keys()
        for output in expected:
            np.testing.assert_allclose(found[output], expected[output], rtol=1e-5, atol=1e-5, err_msg=output)


def test_no_step_sees_what_a_later_one_feeds(sources: Sources) -> None:
    reference, steps = _references(sources)["target"], _steps(sources)
    caches = first_caches(steps, reference.config)
    other = {**steps[2], "token_ids": steps[2]["token_ids"][:, ::-1] ^ 1}
    found, expected = (reference.run_steps([*steps[:2], last], caches) for last in (other, steps[2]))
    for output in expected[1]:
        np.testing.assert_array_equal(found[1][output], expected[1][output])
    assert not np.array_equal(found[2]["logits"], expected[2]["logits"])


def test_all_steps_together_read_each_weight_once(sources: Sources) -> None:
    target, steps = sources.target, _steps(sources)
    file = CountedFile(target.file.path, target.file.tensors, target.file.metadata)
    ReferenceTransformer(target.config, file).run_steps(steps, first_caches(steps, target.config))
    assert file.reads == {name: 1 for name in file.tensors if not name.startswith(CONDITION)}
