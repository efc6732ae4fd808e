"""Scenes and their captions: the little language that the reference family is trained and judged on.

A scene is one to four things on a background. Its kinds mirror GenEval: a single thing, two to four equal things, two
different things, and two things in a spatial relation. Caption and scene determine each other exactly.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from mulo_engines.errors import PromptError

SHAPES = ("circle", "square", "triangle", "cross")
COLOURS = ("red", "yellow", "green", "cyan", "blue", "purple")
BACKGROUNDS = ("dark", "grey", "light")
RELATIONS = ("left of", "right of", "above", "below")
COUNTS = {"two": 2, "three": 3, "four": 4}
KINDS = ("single", "counting", "two", "position")
KIND_SHARES = (0.2, 0.25, 0.25, 0.3)

TRAINING_SEEDS = range(1_000_000)
"""Seeds of training scenes."""
TUNING_SEEDS = range(1_000_000, 1_100_000)
"""Seeds of the prompts on which temperature and guidance are chosen."""
HELD_OUT_SEEDS = range(2_000_000, 2_100_000)
"""Seeds of the prompts on which scores are reported; nothing is ever chosen by them."""


@dataclass(frozen=True, slots=True)
class Thing:
    """One coloured shape."""

    colour: str
    shape: str

    def __str__(self) -> str:
        return f"{self.colour} {self.shape}"


@dataclass(frozen=True, slots=True)
class Scene:
    """What a picture must show: things in the caption's order, their relation (two things only) and the background."""

    things: tuple[Thing, ...]
    background: str
    relation: str | None = None

    @property
    def kind(self) -> str:
        """One of KINDS."""
        if len(self.things) == 1:
            return "single"
        if self.relation is not None:
            return "position"
        return "counting" if len(set(self.things)) == 1 else "two"

    @property
    def caption(self) -> str:
        """The one sentence that describes the scene; `parse_caption` is its inverse."""
        return f"{self._subject()} on {self.background}"

    def _subject(self) -> str:
        first, *others = self.things
        if self.kind == "single":
            return f"a {first}"
        if self.kind == "counting":
            word = next(word for word, count in COUNTS.items() if count == len(self.things))
            return f"{word} {first.colour} {plural(first.shape)}"
        return f"a {first} {self.relation or 'and'} a {others[0]}"


def plural(shape: str) -> str:
    """The plural of a shape word."""
    return f"{shape}es" if shape.endswith("s") else f"{shape}s"


def sample_scene(rng: np.random.Generator, kind: str | None = None) -> Scene:
    """Draw a scene, of the given kind or of a kind drawn by KIND_SHARES; two different things differ in colour."""
    kind = kind or KINDS[rng.choice(len(KINDS), p=KIND_SHARES)]
    background = _pick(rng, BACKGROUNDS)
    first = Thing(_pick(rng, COLOURS), _pick(rng, SHAPES))
    if kind == "single":
        return Scene((first,), background)
    if kind == "counting":
        return Scene((first,) * int(rng.choice(list(COUNTS.values()))), background)
    second = Thing(_pick(rng, [colour for colour in COLOURS if colour != first.colour]), _pick(rng, SHAPES))
    relation = _pick(rng, RELATIONS) if kind == "position" else None
    return Scene((first, second), background, relation)


def scenes_of(seeds: Iterable[int]) -> list[Scene]:
    """The scene of every seed."""
    return [sample_scene(np.random.default_rng(seed)) for seed in seeds]


def parse_caption(caption: str) -> Scene:
    """The scene that a caption describes.

    Raises:
        PromptError: the caption is not one that `Scene.caption` gives; the message lists what is understood.
    """
    subject, _, background = caption.rpartition(" on ")
    scene = _parse_subject(subject, background)
    if scene is None or background not in BACKGROUNDS or scene.caption != caption:
        raise PromptError(
            "The caption is not a sentence of the scene language.",
            found=repr(caption),
            expected=_grammar(),
            fix="rephrase the caption in one of these forms",
        )
    return scene


def _parse_subject(subject: str, background: str) -> Scene | None:
    words = subject.split(" ")
    if words[0] in COUNTS and len(words) == 3:
        thing = _thing(words[1], next((shape for shape in SHAPES if plural(shape) == words[2]), ""))
        return Scene((thing,) * COUNTS[words[0]], background) if thing else None
    if len(words) == 3:
        thing = _thing(*words[1:])
        return Scene((thing,), background) if thing else None
    link = " ".join(words[3:-3])
    first, second = _thing(*words[1:3]), _thing(*words[-2:])
    if first is None or second is None or first.colour == second.colour or link not in ("and", *RELATIONS):
        return None
    return Scene((first, second), background, None if link == "and" else link)


def _thing(colour: str = "", shape: str = "") -> Thing | None:
    return Thing(colour, shape) if colour in COLOURS and shape in SHAPES else None


def _grammar() -> str:
    forms = (
        "a COLOUR SHAPE on BACKGROUND",
        f"{'|'.join(COUNTS)} COLOUR SHAPES on BACKGROUND",
        f"a COLOUR SHAPE and|{'|'.join(RELATIONS)} a COLOUR SHAPE on BACKGROUND (two different colours)",
    )
    return (
        f"{'; '.join(forms)}; COLOUR is one of {', '.join(COLOURS)}; SHAPE is one of {', '.join(SHAPES)};"
        f" BACKGROUND is one of {', '.join(BACKGROUNDS)}"
    )


def _pick(rng: np.random.Generator, options: tuple[str, ...] | list[str]) -> str:
    return options[int(rng.integers(len(options)))]
