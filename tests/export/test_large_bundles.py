"""A bundle whose weights lie beyond the first 2 GiB of their file, where 32-bit offsets end."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from bundles import tiny_bundle, tiny_checkpoints, tiny_options, tiny_sources
from mulo_engines.bundle import Bundle
from mulo_export.bundle_writer import write_bundle
from mulo_runtime import Pipeline, Prompt, Request, Result

HOLE = 2**31 + 4096


@pytest.fixture
def large_bundle(tmp_path: Path) -> Iterator[Path]:
    """The tiny bundle, the weights of whose target follow a table that is ignored and all zeros."""
    checkpoints = tiny_checkpoints(tmp_path)
    _move_tensors_behind_a_hole(checkpoints.target)
    bundle = tmp_path / "bundle"
    umask = os.umask(0o022)
    try:
        write_bundle(tiny_sources(checkpoints), tiny_options(), bundle, lambda _: None)
    finally:
        os.umask(umask)
    yield bundle
    for file in tmp_path.rglob("*.safetensors"):
        file.unlink()


def _move_tensors_behind_a_hole(path: Path) -> None:
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    for name, entry in header.items():
        if name != "__metadata__":
            entry["data_offsets"] = [HOLE + offset for offset in entry["data_offsets"]]
    header["freqs_cis"] = {"dtype": "F32", "shape": [HOLE // 4], "data_offsets": [0, HOLE]}
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.seek(HOLE, os.SEEK_CUR)
        file.write(content[8 + length :])


def draw(bundle: Path) -> Result:
    with Pipeline.open(bundle, threads=1, verify=False) as pipeline:
        return pipeline.generate(Request(Prompt("a red circle"), seed=1))


def test_it_opens_in_another_folder_for_every_user_and_draws_what_a_small_one_does(
    large_bundle: Path, tmp_path: Path
) -> None:
    assert (large_bundle / "weights" / "target.safetensors").stat().st_size > 2**31
    moved = tmp_path / "shared" / "models"
    moved.parent.mkdir()
    large_bundle.rename(moved)
    for path in [moved, *moved.rglob("*")]:
        assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o644), path
    assert Bundle.open(moved).path == moved
    (tmp_path / "small").mkdir()
    np.testing.assert_array_equal(draw(moved).tokens, draw(tiny_bundle(tmp_path / "small")).tokens)
