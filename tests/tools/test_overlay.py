"""The accept map over its image."""

from __future__ import annotations

import numpy as np
from mulo_runtime import Accept
from mulo_tools.overlay import COLOURS, accept_overlay, enlarge

GREEN = np.full((8, 8, 3), (20, 200, 40), np.uint8)


def test_pictures_are_enlarged_by_whole_numbers() -> None:
    image = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    enlarged = enlarge(image, 5)
    assert enlarged.shape == (6, 6, 3)
    np.testing.assert_array_equal(enlarged[::3, ::3], image)
    np.testing.assert_array_equal(enlarge(image, 2), image)


def test_what_no_method_verified_stays_as_it_is() -> None:
    untouched = accept_overlay(GREEN, np.full((2, 2), Accept.UNVERIFIED, np.uint8), side=16)
    np.testing.assert_array_equal(untouched, enlarge(GREEN, 16))


def test_accepted_places_turn_grey() -> None:
    grey = accept_overlay(GREEN, np.full((2, 2), Accept.ACCEPTED, np.uint8), side=16)
    assert (grey == grey[0, 0, 0]).all()
    assert grey[0, 0, 0] < GREEN[0, 0].mean()


def test_every_place_is_drawn_over_its_own_pixels() -> None:
    accept_map = np.full((4, 4), Accept.ACCEPTED, np.uint8)
    accept_map[1, 2], accept_map[1, 3] = Accept.REJECTED, Accept.NEIGHBOUR
    shown = accept_overlay(GREEN, accept_map, side=64).astype(int)
    rejected, neighbour, accepted = shown[24, 40], shown[24, 56], shown[40, 40]
    assert np.abs(rejected - COLOURS[Accept.REJECTED]).sum() < np.abs(GREEN[0, 0].astype(int) - COLOURS[2]).sum()
    assert np.abs(neighbour - COLOURS[Accept.NEIGHBOUR]).sum() < np.abs(rejected - COLOURS[Accept.NEIGHBOUR]).sum()
    assert len(set(accepted)) == 1


def test_an_island_is_outlined_once_around_and_not_at_the_border_of_the_image() -> None:
    accept_map = np.full((4, 4), Accept.ACCEPTED, np.uint8)
    accept_map[1:3, 2:] = [[Accept.REJECTED, Accept.NEIGHBOUR], [Accept.NEIGHBOUR, Accept.NEIGHBOUR]]
    white = (accept_overlay(GREEN, accept_map, side=64) == 255).all(2)
    expected = np.zeros((64, 64), np.bool_)
    expected[16, 32:] = expected[47, 32:] = expected[16:48, 32] = True
    np.testing.assert_array_equal(white, expected)
