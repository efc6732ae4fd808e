"""The settings that a family's bundles recommend where the user gives none."""

from __future__ import annotations

from collections.abc import Mapping

from mulo_export.options import FamilyDefaults

__all__ = ["PUBLISHED", "REFERENCE"]

_PUBLISHED_MULO: Mapping[str, int | str] = {"rows_per_round": 1, "refresh": "block", "draft": "image"}
"""The runtime's own values, said so that a plan's cache is made for them and not for every other."""

PUBLISHED = {
    "llamagen-c2i": FamilyDefaults(
        {"guidance_scale": 4.0, "temperature": 1.0, "top_k": 2000, "top_p": 1.0}, _PUBLISHED_MULO
    ),
    "llamagen-t2i": FamilyDefaults(
        {"guidance_scale": 7.5, "temperature": 1.0, "top_k": 1000, "top_p": 1.0}, _PUBLISHED_MULO
    ),
    "tar": FamilyDefaults({"guidance_scale": 4.0, "temperature": 1.0, "top_k": 0, "top_p": 1.0}, _PUBLISHED_MULO),
}
"""By family: what its own scripts draw images with."""

_REFERENCE_MULO: Mapping[str, float | int | str | None] = {
    "radius": None,
    "redraw_k": 32,
    "draft_window": 0,
    "draft_temperature": 0.4,
    "rows_per_round": 0,
    "refresh": "none",
    "guided": "drafter",
}
_REFERENCE_EXAMPLES = (
    "a red circle left of a blue square on dark",
    "three green triangles on light",
    "a yellow cross above a purple circle on grey",
    "a cyan square and a red triangle on dark",
    "four purple crosses on grey",
    "a blue circle on light",
)
REFERENCE = {
    2: FamilyDefaults(
        {"guidance_scale": 1.25, "temperature": 0.5, "top_k": 0, "top_p": 1.0},
        {"tau": 0.01, **_REFERENCE_MULO},
        _REFERENCE_EXAMPLES,
        steepness=1.5,
    ),
    4: FamilyDefaults(
        {"guidance_scale": 1.5, "temperature": 0.8, "top_k": 0, "top_p": 1.0},
        {"tau": 0.001, **_REFERENCE_MULO},
        _REFERENCE_EXAMPLES,
        steepness=3.0,
    ),
}
"""By ratio: what served the small family best on the prompts of the bench's split "tune"."""
