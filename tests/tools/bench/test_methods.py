"""Which methods a bench compares."""

from __future__ import annotations

from pathlib import Path

import pytest
from mulo_engines.bundle import Bundle
from mulo_engines.errors import RequestError
from mulo_engines.manifest import Manifest
from mulo_runtime import AutoRegressive, Method, MuloSD, ZipAR
from mulo_tools.bench.methods import chosen_methods, default_methods, method_title
from mulo_tools.method_options import parse_method


@pytest.fixture(scope="module")
def manifest(scene_bundle: Path) -> Manifest:
    return Bundle.open(scene_bundle, verify="size").manifest


def test_the_default_set_begins_with_plain_decoding_and_repeats_nothing(manifest: Manifest) -> None:
    methods = default_methods(manifest)
    assert methods[0] == AutoRegressive()
    assert len(set(methods)) == len(methods)


def test_the_default_set_has_the_bundles_own_settings_at_several_tau_and_with_either_draft_and_guidance(
    manifest: Manifest,
) -> None:
    speculative = [method for method in default_methods(manifest) if isinstance(method, MuloSD)]
    assert MuloSD.from_mapping(manifest.mulo) in speculative
    assert len({method.tau for method in speculative}) > 3
    assert {method.draft for method in speculative} == {"image", "rows"}
    assert {method.guided for method in speculative} == {"both", "drafter"}


def test_windows_that_are_as_wide_as_the_grid_are_left_out(manifest: Manifest) -> None:
    assert [method.window for method in default_methods(manifest) if isinstance(method, ZipAR)] == [2, 4]


def test_chosen_methods_are_compared_with_plain_decoding(manifest: Manifest) -> None:
    assert chosen_methods(manifest, ("zipar window=4", "ar")) == [AutoRegressive(), ZipAR(4)]


def test_a_method_that_does_not_exist_is_refused(manifest: Manifest) -> None:
    with pytest.raises(RequestError):
        chosen_methods(manifest, ("magic",))


@pytest.mark.parametrize("method", [MuloSD(radius=None, resynchronise=False, draft="rows"), ZipAR(3), AutoRegressive()])
def test_a_title_describes_its_method_in_full(manifest: Manifest, method: Method) -> None:
    without_defaults = manifest.model_copy(update={"mulo": {}})
    assert parse_method(without_defaults, method_title(method)) == method
