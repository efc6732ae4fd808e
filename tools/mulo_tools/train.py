"""`mulo train`: one command for every family that mulo can train."""

from __future__ import annotations

from mulo_tools.lazy import LazyCommand, LazyGroup

__all__ = ["train_group"]

train_group = LazyGroup(
    {
        "reference": LazyCommand(
            "mulo_tools.reference.train",
            "train_command",
            "The small family that mulo ships: a tokenizer, a drafter and two targets.",
            "torch,bench",
        ),
        "classifier": LazyCommand(
            "mulo_tools.reference.train_classifier",
            "classifier_command",
            "The network whose features FID and KID of the family are taken of.",
            "torch,bench",
        ),
        "eagle": LazyCommand(
            "mulo_tools.reference.train_eagle",
            "eagle_command",
            "The EAGLE-1 head of a target of the reference family, which drafts for chain methods.",
            "torch,bench",
        ),
        "upsampler": LazyCommand(
            "mulo_tools.reference.train_upsampler",
            "upsampler_command",
            "A learned upsampler between two grids of the reference family, for MuLo-SD.",
            "torch,bench",
        ),
    },
    name="train",
    help="Train a family of models.",
)
