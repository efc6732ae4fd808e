"""Every size that the runtime asks for lies in exactly one profile of the graph's plan."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from conftest import MakeBundle
from mulo_engines.buckets import query_buckets
from mulo_engines.bundle import Bundle
from mulo_engines.errors import ShapeError
from mulo_engines.manifest import Manifest
from mulo_engines.memory import ModelBuffers
from mulo_engines.signature import graph_signature
from mulo_engines.tensorrt.profiles import PlanSizes, Profile, graph_profiles, input_shapes, static_sizes

SIZES = PlanSizes(images=1, drafter=ModelBuffers(slots=40, queries=16), target=ModelBuffers(slots=208, queries=64))


@pytest.fixture
def manifest(shared_bundle: MakeBundle) -> Manifest:
    return Bundle.open(shared_bundle()).manifest


def _serving(profiles: tuple[Profile, ...], sizes: Mapping[str, int]) -> list[str]:
    return [
        profile.name
        for profile in profiles
        if all(profile.sizes[symbol][0] <= size <= profile.sizes[symbol][2] for symbol, size in sizes.items())
    ]


@pytest.mark.parametrize(("role", "queries"), [("drafter", 16), ("target", 64)])
@pytest.mark.parametrize("batch", [1, 2])
def test_every_bucket_of_queries_and_the_condition_have_one_profile(
    manifest: Manifest, role: str, queries: int, batch: int
) -> None:
    profiles = graph_profiles(manifest, role, SIZES)
    for bucket in query_buckets(queries):
        for rows in (1, bucket):
            sizes = {"B": batch, "M": 1, "C": 0, "Q": bucket, "T": bucket, "R": rows}
            assert _serving(profiles, sizes) == [f"queries-{bucket}"]
    prefix = manifest.condition.length
    sizes = {"B": batch, "M": 1, "C": prefix, "Q": 0, "T": prefix, "R": 1}
    assert _serving(profiles, sizes) == ["condition"]
    assert len(profiles) == 1 + len(query_buckets(queries))


@pytest.mark.parametrize("role", ["drafter", "target"])
def test_a_plan_has_one_length_of_the_cache(manifest: Manifest, role: str) -> None:
    slots = static_sizes(role, SIZES)["S"]
    for profile in graph_profiles(manifest, role, SIZES):
        for spec in graph_signature(manifest, role).inputs:
            if "_cache." in spec.name:
                assert {shape[2] for shape in input_shapes(profile, spec)} == {slots}


@pytest.mark.parametrize("images", [1, 3])
def test_masks_are_shared_by_the_halves_of_a_lone_image_only(manifest: Manifest, images: int) -> None:
    sizes = PlanSizes(images, SIZES.drafter, SIZES.target)
    for profile in graph_profiles(manifest, "target", sizes):
        assert profile.sizes["M"][2] == (1 if images == 1 else 2 * images)
        assert profile.sizes["B"] == (1, 2 * images, 2 * images)


@pytest.mark.parametrize("rows", [1, 2, 64])
@pytest.mark.parametrize("graph", ["sampler", "sampler_full"])
def test_any_number_of_rows_can_be_drawn(manifest: Manifest, graph: str, rows: int) -> None:
    assert len(_serving(graph_profiles(manifest, graph, SIZES), {"B": 2, "N": 1, "R": rows})) == 1


@pytest.mark.parametrize(
    ("graph", "symbol", "most"), [("upsampler", "h", 4), ("downsampler", "rh", 8), ("decoder", "h", 8)]
)
def test_parts_of_a_grid_can_be_mapped(manifest: Manifest, graph: str, symbol: str, most: int) -> None:
    (profile,) = graph_profiles(manifest, graph, SIZES)
    assert profile.sizes[symbol][2] == most
    assert profile.sizes[symbol][0] <= manifest.ratio


def test_every_symbol_of_every_input_has_a_range(manifest: Manifest) -> None:
    for graph in manifest.graphs:
        for profile in graph_profiles(manifest, graph.name, SIZES):
            for spec in graph_signature(manifest, graph.name).inputs:
                least, best, most = input_shapes(profile, spec)
                assert all(a <= b <= c for a, b, c in zip(least, best, most, strict=True))


@pytest.mark.parametrize("sizes", [(2, 1, 3), (1, 4, 3), (-1, 1, 1)])
def test_a_range_that_is_not_in_order_is_refused_by_name(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(ShapeError, match=r"(?s)profile 'queries-4': the sizes of T.*min.*opt.*max"):
        Profile("queries-4", {"B": (1, 2, 2), "T": sizes})
