"""A plan's cache is made for what the bundle recommends, by the same rules as the runtime's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bundles import tiny_bundle
from mulo_engines.bundle import Bundle
from mulo_engines.cache_slots import recommended_buffers
from mulo_runtime import AutoRegressive, ZipAR
from mulo_runtime.capacity import lane_sizes
from mulo_runtime.defaults import default_method

COMPLETE = {"rows_per_round": 1, "refresh": "block", "draft": "image", "look_ahead": 1, "resynchronise": True}


@pytest.mark.parametrize("queries", [1, 16, 256])
@pytest.mark.parametrize(
    "switches",
    [COMPLETE, {**COMPLETE, "refresh": "none"}, {**COMPLETE, "draft": "rows"}, {**COMPLETE, "rows_per_round": 0}],
    ids=str,
)
def test_what_a_manifest_recommends_in_full_has_the_caches_of_a_lane(
    tmp_path: Path, switches: dict[str, Any], queries: int
) -> None:
    manifest = Bundle.open(tiny_bundle(tmp_path, mulo=switches)).manifest
    lane = lane_sizes(manifest, [AutoRegressive(), ZipAR(), default_method(manifest)], queries)
    assert recommended_buffers(manifest, queries) == (lane.drafter, lane.target)


@pytest.mark.parametrize("switches", [{}, {"refresh": "block"}, {"draft": "rows"}, {"rows_per_round": 2}], ids=str)
def test_what_a_manifest_leaves_open_is_taken_to_need_no_less(tmp_path: Path, switches: dict[str, Any]) -> None:
    manifest = Bundle.open(tiny_bundle(tmp_path, mulo=switches)).manifest
    lane = lane_sizes(manifest, [AutoRegressive(), ZipAR(), default_method(manifest)], 256)
    drafter, target = recommended_buffers(manifest, 256)
    assert drafter.slots >= lane.drafter.slots
    assert target.slots >= lane.target.slots
