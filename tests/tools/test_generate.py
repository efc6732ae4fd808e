"""`mulo generate`: real bundles, real images, and what is left behind when something is wrong."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from bundles import CLASSES, broken_decoder_bundle, prompt_encoder
from click.testing import Result
from conftest import MakeBundle
from mulo_runtime import Pipeline, Prompt, Request
from mulo_tools.progress import ImageProgress
from PIL import Image

RunMulo = Callable[..., Result]

PROMPT = "a red circle"


@pytest.fixture
def generate(mulo: RunMulo, shared_bundle: MakeBundle, tmp_path: Path) -> RunMulo:
    """Make `tmp_path / image.png` of PROMPT with seed 7, unless told otherwise."""

    def run(*arguments: object, condition: tuple[object, ...] = ("--prompt", PROMPT), text: bool = True) -> Result:
        common = ("--out", tmp_path / "image.png", "--threads", 1)
        return mulo("generate", shared_bundle(text=text), *condition, *common, *arguments)

    return run


def pixels(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def test_the_image_is_the_one_that_the_pipeline_makes(
    generate: RunMulo, shared_bundle: MakeBundle, tmp_path: Path
) -> None:
    result = generate("--seed", 7)
    assert (result.exit_code, result.stdout) == (0, "")
    with Pipeline.open(shared_bundle(), threads=1) as pipeline:
        expected = pipeline.generate(Request(Prompt(PROMPT), seed=7)).image
    np.testing.assert_array_equal(pixels(tmp_path / "image.png"), expected)


def test_the_image_can_be_made_again_from_its_own_text(generate: RunMulo, tmp_path: Path) -> None:
    first = generate("--temperature", 0.8, "--tau", 0.3, "--radius", "none", "--draft", "rows")
    assert first.exit_code == 0
    with Image.open(tmp_path / "image.png") as image:
        text = image.info
    image_pixels = pixels(tmp_path / "image.png")
    record = json.loads(text["mulo"])
    assert text["Description"] == PROMPT == record["prompt"]
    switches = {**record["settings"], **record["sampling"], "method": record["method"], "seed": record["seed"]}
    given = [(f"--{name.replace('_', '-')}", "none" if value is None else value) for name, value in switches.items()]
    again = generate(*(part for pair in given for part in pair))
    assert again.exit_code == 0
    np.testing.assert_array_equal(pixels(tmp_path / "image.png"), image_pixels)


@pytest.mark.parametrize("method", ["ar", "zipar", "mulo-sd"])
def test_json_tells_settings_and_statistics_and_is_all_of_stdout(
    generate: RunMulo, method: str, tmp_path: Path
) -> None:
    report = json.loads(generate("--method", method, "--seed", 3, "--json").stdout)
    assert report["out"] == str(tmp_path / "image.png")
    assert (report["method"], report["seed"], report["prompt"]) == (method, 3, PROMPT)
    assert report["sampling"]["guidance_scale"] == 2.0
    assert report["statistics"]["engines"]["target"]["passes"] > 0
    assert (report["statistics"]["accepted_share"] is None) == (method != "mulo-sd")


def test_without_a_terminal_stderr_has_one_line_and_quiet_takes_it_too(generate: RunMulo, tmp_path: Path) -> None:
    told = generate("--seed", 7).stderr
    assert told.startswith(f"{tmp_path / 'image.png'}: 32 x 32, seed 7, ")
    assert told.count("\n") == 1
    assert generate("--quiet").stderr == ""


def test_the_overlay_and_the_previews_are_written_beside_the_image(generate: RunMulo, tmp_path: Path) -> None:
    result = generate("--seed", 7, "--overlay", tmp_path / "map.png", "--preview-dir", tmp_path / "steps")
    assert result.exit_code == 0
    assert pixels(tmp_path / "map.png").shape == (512, 512, 3)
    steps = {path.name: pixels(path) for path in (tmp_path / "steps").iterdir()}
    rounds = {f"{kind}-{rows:04}.png" for kind in ("verified", "rows") for rows in (2, 4, 6, 8)}
    assert steps.keys() == {"draft-0004.png", *rounds}
    assert steps["draft-0004.png"].shape == (16, 16, 3)
    np.testing.assert_array_equal(steps["rows-0008.png"], pixels(tmp_path / "image.png"))


def test_a_file_of_text_features_is_as_good_as_its_prompt(generate: RunMulo, tmp_path: Path) -> None:
    generate("--seed", 7)
    expected = pixels(tmp_path / "image.png")
    (features,), (mask,) = prompt_encoder().encode([PROMPT])
    np.savez(tmp_path / "c.npz", features=features, mask=mask)
    assert generate("--seed", 7, condition=("--condition", tmp_path / "c.npz")).exit_code == 0
    np.testing.assert_array_equal(pixels(tmp_path / "image.png"), expected)


def test_a_class_conditional_bundle_takes_a_class(generate: RunMulo, tmp_path: Path) -> None:
    result = generate("--json", condition=("--class-id", CLASSES - 1), text=False)
    assert json.loads(result.stdout)["class_id"] == CLASSES - 1
    with Image.open(tmp_path / "image.png") as image:
        assert image.info["Description"] == f"class {CLASSES - 1}"


@pytest.mark.parametrize(
    ("condition", "text", "message"),
    [
        ((), True, "give one of --prompt, --class-id and --condition"),
        (("--prompt", PROMPT, "--class-id", 1), True, "give one of --prompt, --class-id and --condition"),
        (("--class-id", 1), True, "use --prompt or --condition"),
        (("--prompt", "a green circle"), True, "only the words a, and, blue, circle, red, square"),
        (("--prompt", PROMPT), False, "use --class-id"),
        (("--class-id", CLASSES), False, "the class id is out of range"),
        (("--condition", "no-such-file.npz"), True, "no-such-file.npz: the condition is refused"),
    ],
)
def test_a_condition_that_does_not_fit_is_wrong_usage(
    generate: RunMulo, condition: tuple[object, ...], text: bool, message: str, tmp_path: Path
) -> None:
    result = generate(condition=condition, text=text)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--seed", -1), "the seed is out of range"),
        (("--seed", 2**64), "the seed is out of range"),
        (("--tau", "-1"), "setting 'tau' is out of range"),
        (("--top-p", 0), "setting 'top_p' is out of range"),
        (("--method", "zipar", "--overlay", "map.png"), "zipar has no accept map"),
        (("--method", "raster"), "'raster' is not one of"),
    ],
)
def test_a_setting_that_is_wrong_is_wrong_usage(
    generate: RunMulo, arguments: tuple[object, ...], message: str, tmp_path: Path
) -> None:
    result = generate(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not list(tmp_path.iterdir())


def test_a_bundle_that_was_altered_is_refused(mulo: RunMulo, shared_bundle: MakeBundle, tmp_path: Path) -> None:
    bundle = tmp_path / "altered"
    shutil.copytree(shared_bundle(), bundle)
    graph = bundle / "decoder.onnx"
    graph.write_bytes(graph.read_bytes()[:-1] + b"?")
    result = mulo("generate", bundle, "--prompt", PROMPT, "--out", tmp_path / "image.png")
    assert result.exit_code == 3
    assert "'decoder.onnx' was altered" in result.stderr
    assert not (tmp_path / "image.png").exists()


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("previews", [False, True])
def test_a_decoder_whose_pixels_are_not_finite_leaves_no_file(
    mulo: RunMulo, tmp_path: Path, value: float, previews: bool
) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "out").mkdir()
    bundle, out = broken_decoder_bundle(tmp_path / "made", value), tmp_path / "out"
    files = ["--out", out / "image.png", "--overlay", out / "map.png"]
    files += ["--preview-dir", out / "steps"] if previews else []
    result = mulo("generate", bundle, "--prompt", PROMPT, *files)
    assert result.exit_code == 1
    assert "decoder: the pixels are not finite" in result.stderr
    assert not list(out.iterdir())


def test_a_folder_that_is_no_bundle_is_refused(mulo: RunMulo, tmp_path: Path) -> None:
    result = mulo("generate", tmp_path, "--prompt", PROMPT)
    assert result.exit_code == 3
    assert "bundle.json: no such file" in result.stderr


def test_a_deadline_that_passes_leaves_no_image(generate: RunMulo, tmp_path: Path) -> None:
    result = generate("--deadline", 1e-6)
    assert result.exit_code == 1
    assert "the deadline passed" in result.stderr
    assert not list(tmp_path.iterdir())


def test_an_interrupt_between_two_rows_leaves_no_image(
    generate: RunMulo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(self: ImageProgress, event: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ImageProgress, "show", interrupt)
    result = generate()
    assert (result.exit_code, result.stderr) == (130, "interrupted\n")
    assert not list(tmp_path.iterdir())
