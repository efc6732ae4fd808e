"""`mulo canary` records how test images are accepted; whoever lies far from it is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from mulo_engines.errors import ParityError
from mulo_engines.manifest import MANIFEST_NAME, CanaryRecord, read_manifest, write_manifest
from mulo_runtime import AutoRegressive, Pipeline
from mulo_runtime.canary import check_canary

RunMulo = Callable[..., Result]
GOOD = CanaryRecord(images=4, accepted_share=0.9, pooled_mass=0.5)


@pytest.fixture
def bundle(shared_bundle: Callable[..., Path], tmp_path: Path) -> Path:
    """A bundle of this test's own."""
    return Path(shutil.copytree(shared_bundle(), tmp_path / "bundle"))


def rewrite(bundle: Path, canary: CanaryRecord | None) -> None:
    manifest = read_manifest(bundle / MANIFEST_NAME)
    write_manifest(manifest.model_copy(update={"canary": canary}), bundle)


def test_a_recorded_baseline_is_met_again_and_changes_nothing_else(mulo: RunMulo, bundle: Path) -> None:
    before = read_manifest(bundle / MANIFEST_NAME)
    assert "no baseline" in mulo("canary", bundle, "--threads", 1).output
    assert "recorded" in mulo("canary", bundle, "--record", "--threads", 1).output
    after = read_manifest(bundle / MANIFEST_NAME)
    assert after.canary is not None
    assert after.model_copy(update={"canary": None}) == before
    assert sorted(path.name for path in bundle.iterdir() if path.name.startswith(".")) == []
    again = mulo("canary", bundle, "--threads", 1)
    assert again.exit_code == 0
    assert f"baseline {after.canary.accepted_share:.3f}" in again.output
    with Pipeline.open(bundle, threads=1) as pipeline:
        pipeline.warm_up()
        assert pipeline.health().ready


def test_a_pipeline_far_from_its_baseline_does_not_become_ready(mulo: RunMulo, bundle: Path) -> None:
    mulo("canary", bundle, "--record", "--threads", 1)
    recorded = read_manifest(bundle / MANIFEST_NAME).canary
    assert recorded is not None
    rewrite(bundle, recorded.model_copy(update={"accepted_share": 1 - recorded.accepted_share}))
    result = mulo("canary", bundle, "--threads", 1)
    assert result.exit_code == 4
    assert "--record" in result.stderr
    with Pipeline.open(bundle, threads=1) as pipeline:
        with pytest.raises(ParityError, match="canary"):
            pipeline.warm_up()
        assert pipeline.health().state == "failed"


@pytest.mark.parametrize(
    ("share", "mass", "refused"),
    [(0.9, 0.5, False), (0.81, 0.59, False), (0.79, 0.5, True), (0.9, 0.61, True), (0.9, 0.39, True)],
)
def test_both_numbers_may_move_by_a_tenth(share: float, mass: float, refused: bool) -> None:
    found = CanaryRecord(images=4, accepted_share=share, pooled_mass=mass)
    if not refused:
        check_canary(found, GOOD)
        return
    with pytest.raises(ParityError, match=f"{mass:.3f}"):
        check_canary(found, GOOD)


def test_a_pipeline_that_was_not_opened_for_the_bundles_mulo_sd_becomes_ready_without_it(bundle: Path) -> None:
    rewrite(bundle, GOOD)
    with Pipeline.open(bundle, threads=1, methods=[AutoRegressive()]) as pipeline:
        pipeline.warm_up()
        assert pipeline.health().ready
