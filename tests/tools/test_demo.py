"""`mulo demo`: one row of the contact sheet per prompt."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from click.testing import Result
from conftest import MakeBundle
from PIL import Image

RunMulo = Callable[..., Result]


def test_the_sheet_has_a_row_for_every_prompt(mulo: RunMulo, shared_bundle: MakeBundle, tmp_path: Path) -> None:
    heights = []
    for prompts in (["a red circle"], ["a red circle", "a blue square"]):
        options = [part for prompt in prompts for part in ("--prompt", prompt)]
        result = mulo("demo", shared_bundle(), *options, "--out", tmp_path / "demo.png", "--threads", 1)
        assert (result.exit_code, result.stdout) == (0, f"{tmp_path / 'demo.png'}\n")
        with Image.open(tmp_path / "demo.png") as sheet:
            heights.append(sheet.height)
    assert heights[1] > heights[0] + 256


def test_a_bundle_without_words_is_refused(mulo: RunMulo, shared_bundle: MakeBundle, tmp_path: Path) -> None:
    result = mulo("demo", shared_bundle(text=False), "--out", tmp_path / "demo.png", "--threads", 1)
    assert result.exit_code == 2
    assert not (tmp_path / "demo.png").exists()
