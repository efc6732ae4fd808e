"""Methods and sampling as users write them, in flags and in specifications."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from conftest import MakeBundle
from mulo_engines.errors import BundleError, RequestError
from mulo_engines.manifest import MANIFEST_NAME, Manifest, read_manifest
from mulo_runtime import METHODS, AutoRegressive, MuloSD, Sampling, ZipAR
from mulo_tools.method_options import (
    chosen_method,
    chosen_sampling,
    default_method,
    method_options,
    parse_method,
    sampling_options,
)


@pytest.fixture
def manifest(shared_bundle: MakeBundle) -> Manifest:
    return read_manifest(shared_bundle() / MANIFEST_NAME)


def flags(*arguments: str) -> dict[str, Any]:
    """What a command with all the options receives for `arguments`."""
    received: dict[str, Any] = {}

    @click.command()
    @sampling_options
    @method_options
    def command(**given: Any) -> None:
        received.update(given)

    result = CliRunner(catch_exceptions=False).invoke(command, arguments)
    assert result.exit_code == 0, result.stderr
    return received


def test_every_switch_of_every_method_has_a_flag() -> None:
    switches = {field.name for kind in (*METHODS.values(), Sampling) for field in fields(kind)}
    assert flags().keys() == switches | {"method"}


def test_without_flags_the_bundles_defaults_hold(manifest: Manifest) -> None:
    given = flags()
    assert chosen_method(manifest, given["method"], given) == MuloSD(tau=0.1, pool_k=4, radius=1)
    assert chosen_sampling(manifest, given) == Sampling(guidance_scale=2.0)


def test_a_flag_changes_its_switch_and_no_other(manifest: Manifest) -> None:
    given = flags("--tau", "0.25", "--include-self", "no", "--draft", "rows", "--radius", "none", "--top-k", "7")
    expected = default_method(manifest).with_changes(tau=0.25, include_self=False, draft="rows", radius=None)
    assert chosen_method(manifest, given["method"], given) == expected
    assert chosen_sampling(manifest, given) == Sampling(guidance_scale=2.0, top_k=7)


def test_the_window_goes_to_the_method_that_is_chosen(manifest: Manifest) -> None:
    given = flags("--method", "zipar", "--window", "3")
    assert chosen_method(manifest, given["method"], given) == ZipAR(3)


def test_a_switch_of_another_method_is_refused(manifest: Manifest) -> None:
    with pytest.raises(RequestError, match=r"ZipAR has no switch tau\n  expected: window, schedule"):
        chosen_method(manifest, "zipar", flags("--tau", "1"))


@pytest.mark.parametrize(
    ("specification", "method"),
    [
        ("ar", AutoRegressive()),
        ("zipar", ZipAR()),
        ("zipar window=4 schedule=published", ZipAR(4, "published")),
        ("mulo-sd", MuloSD(tau=0.1, pool_k=4, radius=1)),
        ("mulo-sd  tau=.05 radius=none", MuloSD(tau=0.05, pool_k=4, radius=None)),
        ("mulo-sd rows-per-round=2 draft_window=0", MuloSD(0.1, 4, radius=1, rows_per_round=2, draft_window=0)),
    ],
)
def test_a_specification_names_a_method_and_its_switches(
    manifest: Manifest, specification: str, method: object
) -> None:
    assert parse_method(manifest, specification) == method


@pytest.mark.parametrize(
    ("specification", "message"),
    [
        ("", "the method is not understood"),
        ("raster", "ar|zipar|zipar-adaptive|mulo-sd|"),
        ("mulo-sd tau", "the method is not understood"),
        ("mulo-sd tua=1", "MuloSD has no switch tua"),
        ("ar tau=1", "AutoRegressive has no switch tau\n  expected: no switches at all"),
        ("mulo-sd tau=high", "setting 'tau' is refused\n  found:    'high'\n  expected: FLOAT"),
        ("mulo-sd tau=nan", "setting 'tau' is out of range"),
        ("mulo-sd radius=1.5", "found:    '1.5'\n  expected: INTEGER"),
        ("mulo-sd draft=column", "found:    'column'\n  expected: image|rows"),
        ("mulo-sd resynchronise=perhaps", "expected: BOOLEAN"),
        ("zipar window=0", "setting 'window' is out of range"),
    ],
)
def test_a_wrong_specification_is_refused_with_what_would_be_right(
    manifest: Manifest, specification: str, message: str
) -> None:
    with pytest.raises(RequestError) as error:
        parse_method(manifest, specification)
    assert message in str(error.value)


def test_bad_defaults_are_the_bundles_fault_and_not_the_users(manifest: Manifest, tmp_path: Path) -> None:
    bad = manifest.model_copy(update={"mulo": {"tau": -1}, "sampling": {"top_p": 2}})
    with pytest.raises(BundleError, match="setting 'tau' is out of range"):
        parse_method(bad, "mulo-sd")
    with pytest.raises(BundleError, match="setting 'top_p' is out of range"):
        chosen_sampling(bad, flags())
