"""Folders are laid out as the benchmarks' own code reads them, whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from mulo_engines.errors import RequestError
from mulo_tools.evaluate.numbered import numbered_images, read_image
from mulo_tools.output import write_png
from numpy.typing import NDArray

RunMulo = Callable[..., Result]


def picture(prompt: int, sample: int) -> NDArray[np.uint8]:
    return np.full((8, 12, 3), 10 * prompt + sample, np.uint8)


def draw(folder: Path, prompts: int, samples: int) -> Path:
    for prompt in range(prompts):
        for sample in range(samples):
            write_png(folder / f"{prompt:05d}-{sample}.png", picture(prompt, sample))
    return folder


def tree(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def lay_out(mulo: RunMulo, tmp_path: Path) -> Callable[..., Result]:
    def run(benchmark: str, images: Path, prompts: Path) -> Result:
        return mulo(
            "evaluate", "layout", benchmark, "--images", images, "--prompts", prompts, "--out", tmp_path / "out"
        )

    return run


def test_geneval_reads_metadata_and_four_samples_a_prompt(lay_out: Callable[..., Result], tmp_path: Path) -> None:
    lines = [json.dumps({"tag": "colors", "prompt": f"a {colour} bench", "include": []}) for colour in ("red", "blue")]
    prompts = tmp_path / "evaluation_metadata.jsonl"
    prompts.write_text("\n".join(lines) + "\n")
    assert lay_out("geneval", draw(tmp_path / "images", 2, 4), prompts).exit_code == 0
    samples = [f"samples/{sample:04d}.png" for sample in range(4)]
    assert tree(tmp_path / "out") == [f"{i:05d}/{name}" for i in range(2) for name in ("metadata.jsonl", *samples)]
    with (tmp_path / "out/00001/metadata.jsonl").open() as file:
        assert json.load(file)["prompt"] == "a blue bench"
    assert (read_image(tmp_path / "out/00001/samples/0002.png") == picture(1, 2)).all()


def test_dpg_bench_crops_four_images_out_of_one(lay_out: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    for item in ("diffusiondb12", "COCOval2014000000000139"):
        (tmp_path / f"prompts/{item}.txt").write_text("a prompt")
    assert lay_out("dpg-bench", draw(tmp_path / "images", 2, 4), tmp_path / "prompts").exit_code == 0
    assert tree(tmp_path / "out") == ["COCOval2014000000000139.png", "diffusiondb12.png"]
    square = read_image(tmp_path / "out/diffusiondb12.png")
    for sample, (top, left) in enumerate([(0, 0), (0, 12), (8, 0), (8, 12)]):
        assert (square[top : top + 8, left : left + 12] == picture(1, sample)).all()


def test_hpsv2_reads_one_jpeg_a_prompt_by_style(lay_out: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    for style, count in (("photo", 1), ("anime", 2)):
        (tmp_path / f"prompts/{style}.json").write_text(json.dumps(["a prompt"] * count))
    assert lay_out("hpsv2", draw(tmp_path / "images", 3, 1), tmp_path / "prompts").exit_code == 0
    assert tree(tmp_path / "out") == ["anime/00000.jpg", "anime/00001.jpg", "photo/00000.jpg"]
    assert abs(int(read_image(tmp_path / "out/photo/00000.jpg").mean()) - 20) <= 2


@pytest.mark.parametrize(
    ("line", "drawn", "message"),
    [
        ('{"tag": "t", "prompt": "p"}', 1, "7 of 8 images are missing"),
        ("a red bench", 4, "no JSON"),
        ('{"prompt": "p"}', 4, "no metadata"),
    ],
)
def test_nothing_is_written_where_something_is_wrong(
    lay_out: Callable[..., Result], tmp_path: Path, line: str, drawn: int, message: str
) -> None:
    prompts = tmp_path / "metadata.jsonl"
    prompts.write_text(f"{line}\n{line}\n")
    result = lay_out("geneval", draw(tmp_path / "images", 1 if drawn == 1 else 2, drawn), prompts)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_folder_that_exists_is_left_alone(lay_out: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine.txt").write_text("kept")
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts/photo.json").write_text('["a prompt"]')
    assert lay_out("hpsv2", draw(tmp_path / "images", 1, 1), tmp_path / "prompts").exit_code == 2
    assert tree(tmp_path / "out") == ["mine.txt"]


def test_images_are_numbered_by_prompt_and_sample(tmp_path: Path) -> None:
    for name in ("00002.png", "1-1.png", "1-0.png", "notes.txt", "grid.png"):
        (tmp_path / name).touch()
    assert [path.name for path in numbered_images(tmp_path).values()] == ["1-0.png", "1-1.png", "00002.png"]
    (tmp_path / "2-0.png").touch()
    with pytest.raises(RequestError, match="one sample"):
        numbered_images(tmp_path)
