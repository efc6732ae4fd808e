"""Files appear whole or not at all."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import pytest
from mulo_tools.output import replacing, write_png
from PIL import Image


def test_a_png_holds_the_pixels_and_the_text(tmp_path: Path) -> None:
    image = np.random.default_rng(0).integers(0, 256, (4, 6, 3), np.uint8)
    write_png(tmp_path / "new" / "i.png", image, {"Description": "ein grüner Kreis ○", "mulo": '{"seed": 7}'})
    with Image.open(tmp_path / "new" / "i.png") as read:
        np.testing.assert_array_equal(np.asarray(read), image)
        assert read.info == {"Description": "ein grüner Kreis ○", "mulo": '{"seed": 7}'}


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text("old")

    def write_half() -> None:
        with replacing(path) as partial:
            partial.write_text("half of the n")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_success_replaces_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text("old")
    with replacing(path) as partial:
        partial.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_has_the_permissions_that_any_file_gets(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    write_png(tmp_path / "i.png", np.zeros((1, 1, 3), np.uint8))
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "i.png")}
    assert len(modes) == 1
