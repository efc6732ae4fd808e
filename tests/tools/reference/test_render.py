"""Pictures follow from seeds and show the same thing at every resolution."""

import numpy as np
import pytest
from mulo_tools.reference.render import COLOUR_RGB, Placement, downscale, draw_mask, outline, place_things, render_seed
from mulo_tools.reference.scenes import SHAPES, Scene, Thing, parse_caption, scenes_of


def test_a_seed_gives_the_same_picture_every_time_and_another_seed_another() -> None:
    (scene,) = scenes_of([3])
    picture = render_seed(scene, 3)
    assert picture.shape == (128, 128, 3)
    assert picture.dtype == np.uint8
    assert np.array_equal(picture, render_seed(scene, 3))
    assert not np.array_equal(picture, render_seed(scene, 4))


@pytest.mark.parametrize("px", [128, 64, 32])
def test_downscaling_averages_squares_of_pixels(px: int) -> None:
    picture = render_seed(*zip(scenes_of([5]), [5], strict=True).__next__())
    factor = 128 // px
    means = picture.reshape(px, factor, px, factor, 3).mean((1, 3))
    assert np.abs(downscale(picture, px) - means).max() <= 0.5


def test_things_keep_clear_of_each_other_and_of_the_border() -> None:
    for seed, scene in enumerate(scenes_of(range(300))):
        places = place_things(scene, np.random.default_rng(seed))
        assert all(_inside(place) for place in places)
        assert all(_apart(a, b) for i, a in enumerate(places) for b in places[:i])


def test_places_lie_on_the_lattice_of_the_finest_tokens() -> None:
    places = [
        p for seed, scene in enumerate(scenes_of(range(100))) for p in place_things(scene, np.random.default_rng(seed))
    ]
    centres = 32 * np.array([(place.x, place.y) for place in places])
    assert (centres == centres.round()).all()
    assert len(np.unique(centres)) > 6


def _inside(place: Placement) -> bool:
    return all(place.diameter / 2 < centre < 1 - place.diameter / 2 for centre in (place.x, place.y))


def _apart(a: Placement, b: Placement) -> bool:
    return max(abs(a.x - b.x), abs(a.y - b.y)) > (a.diameter + b.diameter) / 2


@pytest.mark.parametrize(
    ("relation", "axis", "sign"), [("left of", "x", 1), ("right of", "x", -1), ("above", "y", 1), ("below", "y", -1)]
)
def test_a_relation_orders_the_places(relation: str, axis: str, sign: int) -> None:
    scene = Scene((Thing("red", "circle"), Thing("blue", "cross")), "dark", relation)
    for seed in range(50):
        first, second = place_things(scene, np.random.default_rng(seed))
        assert sign * (getattr(second, axis) - getattr(first, axis)) > 0.3


def test_a_thing_has_its_colour_at_its_centre() -> None:
    picture = render_seed(parse_caption("a green square on light"), 0)
    assert np.abs(picture[64, 64].astype(int) - COLOUR_RGB["green"]).max() < 30


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_covers_the_area_of_its_outline(shape: str) -> None:
    x, y = outline(shape).T
    area = abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1))) / 2
    coverage = draw_mask(shape, Placement(0.5, 0.5, 0.8), 128)
    assert coverage.mean() == pytest.approx(area * 0.4**2, rel=0.03)
