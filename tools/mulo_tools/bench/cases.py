"""The prompts of a bench: scenes that no model was trained on, in two splits that share none."""

from __future__ import annotations

from dataclasses import dataclass

from mulo_runtime import Method, Prompt, Request

from mulo_tools.reference.scenes import HELD_OUT_SEEDS, TUNING_SEEDS, Scene, scenes_of

__all__ = ["SPLITS", "Case", "cases_of"]

SPLITS = {"tune": TUNING_SEEDS, "report": HELD_OUT_SEEDS}
"""Seeds of scenes by split: settings are chosen on "tune"; figures that are published come from "report"."""

_SEEDS_PER_RUN = 2**32


@dataclass(frozen=True, slots=True)
class Case:
    """One prompt and the seed of its image, the same for every method.

    Attributes:
        scene: what the image must show.
        seed: seed of the image.
    """

    scene: Scene
    seed: int

    def request(self, method: Method) -> Request:
        """Ask for this case's image, decoded by `method`."""
        return Request(Prompt(self.scene.caption), seed=self.seed, method=method)


def cases_of(split: str, count: int, seed: int = 0) -> list[Case]:
    """The first `count` cases of a split.

    Args:
        split: a key of `SPLITS`.
        count: how many.
        seed: 0, 1, ... draws other images for the same prompts.
    """
    seeds = SPLITS[split][:count]
    pairs = zip(scenes_of(seeds), seeds, strict=True)
    return [Case(scene, seed * _SEEDS_PER_RUN + scene_seed) for scene, scene_seed in pairs]
