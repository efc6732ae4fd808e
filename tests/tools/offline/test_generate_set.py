"""`mulo generate --prompts`: every image of the set once, whatever was cut short before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from conftest import MakeBundle
from filelock import FileLock
from mulo_tools.offline.painter import Painter

RunMulo = Callable[..., Result]

PROMPTS = "a red circle\n\n  blue square \na red circle and blue square"
NAMES = [f"{line:06}-{index}.png" for line in (1, 3, 4) for index in (0, 1)]


@pytest.fixture
def generate(mulo: RunMulo, shared_bundle: MakeBundle, tmp_path: Path) -> RunMulo:
    """Make two images of each of PROMPTS into `tmp_path / set`, unless told otherwise."""

    def run(*arguments: object, prompts: str = PROMPTS, text: bool = True, images: int = 2) -> Result:
        file = tmp_path / "prompts.txt"
        file.write_text(prompts, encoding="utf-8")
        common = ("--images", images, "--seed", 5, "--threads", 1, "--out", tmp_path / "set")
        return mulo("generate", shared_bundle(text=text), "--prompts", file, *common, *arguments)

    return run


def made(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.png"))


def test_image_j_of_a_prompt_is_the_one_that_generate_makes_with_seed_plus_j(
    generate: RunMulo, mulo: RunMulo, shared_bundle: MakeBundle, tmp_path: Path
) -> None:
    result = generate()
    assert (result.exit_code, result.stderr) == (0, f"{tmp_path / 'set'}: 6 images made, 0 were there\n")
    assert made(tmp_path / "set") == NAMES
    for prompt, line in (("a red circle", 1), ("blue square", 3)):
        for index in (0, 1):
            arguments = ("--prompt", prompt, "--seed", 5 + index, "--threads", 1, "--out", tmp_path / "one.png")
            assert mulo("generate", shared_bundle(text=True), *arguments).exit_code == 0
            found = (tmp_path / "set" / f"{line:06}-{index}.png").read_bytes()
            assert found == (tmp_path / "one.png").read_bytes()


def test_a_set_that_was_cut_short_goes_on_where_it_stopped(
    generate: RunMulo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Painter.paint
    painted: list[str] = []

    def paint(self: Painter, item: object) -> bytes:
        if len(painted) == 2:
            raise KeyboardInterrupt
        painted.append(item.name)  # type: ignore[attr-defined]
        return whole(self, item)  # type: ignore[arg-type]

    monkeypatch.setattr(Painter, "paint", paint)
    assert generate().exit_code == 130
    assert made(tmp_path / "set") == NAMES[:2] == painted
    monkeypatch.undo()
    times = [(tmp_path / "set" / name).stat().st_mtime_ns for name in painted]
    assert generate().stderr.endswith("4 images made, 2 were there\n")
    assert made(tmp_path / "set") == NAMES
    assert [(tmp_path / "set" / name).stat().st_mtime_ns for name in painted] == times


def test_a_set_may_grow_by_prompts_and_by_images(generate: RunMulo, tmp_path: Path) -> None:
    generate(images=1, prompts="a red circle")
    assert generate().stderr.endswith("5 images made, 1 were there\n")


def test_what_a_killed_writer_left_half_is_removed(generate: RunMulo, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / ".000001-0.png.77.partial").write_bytes(b"half")
    assert generate().exit_code == 0
    assert sorted(path.name for path in (tmp_path / "set").iterdir()) == [".lock", *NAMES]


@pytest.mark.parametrize(
    ("change", "difference"),
    [(("--seed", 6), "seed 6"), (("--tau", 0.7), "'tau': 0.7"), (("--temperature", 0.5), "'temperature': 0.5")],
    ids=lambda change: change[0] if isinstance(change, tuple) else "",
)
def test_a_folder_of_other_images_is_refused_and_left_as_it_is(
    generate: RunMulo, tmp_path: Path, change: tuple[object, ...], difference: str
) -> None:
    generate(images=1)
    before = {path.name: path.read_bytes() for path in (tmp_path / "set").iterdir()}
    result = generate(*change)
    assert result.exit_code == 2
    assert "000001-0.png: this is another image than the one asked for" in result.stderr
    assert difference in result.stderr
    assert {path.name: path.read_bytes() for path in (tmp_path / "set").iterdir()} == before


def test_a_file_that_is_no_image_of_ours_is_refused(generate: RunMulo, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "000003-1.png").write_bytes(b"a holiday")
    result = generate()
    assert result.exit_code == 2
    assert "000003-1.png: this is another image" in result.stderr
    assert made(tmp_path / "set") == ["000003-1.png"]


def test_two_writers_are_refused(generate: RunMulo, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    with FileLock(tmp_path / "set" / ".lock"):
        result = generate()
    assert result.exit_code == 2
    assert "another process is writing this" in result.stderr


@pytest.mark.parametrize(
    ("prompts", "text", "message"),
    [
        ("a red circle\na mauve circle", True, "line 2: The prompt 'a mauve circle' has a word"),
        ("\n \n", True, "no prompt"),
        ("1\nfour", False, "line 2: this is no class"),
        ("1\n99", False, "line 2: the class id is out of range"),
    ],
)
def test_a_wrong_line_is_refused_by_its_number_before_anything_is_made(
    generate: RunMulo, tmp_path: Path, prompts: str, text: bool, message: str
) -> None:
    result = generate(prompts=prompts, text=text)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--prompt", "a red circle"), "--prompts does not go with --prompt"),
        (("--class-id", 0, "--json"), "--prompts does not go with --class-id, --json"),
        (("--workers", 2), "need --ray"),
        (("--gpus", 0.5), "need --ray"),
    ],
)
def test_options_that_contradict_each_other_are_wrong_usage(
    generate: RunMulo, arguments: tuple[object, ...], message: str
) -> None:
    result = generate(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize("option", [("--ray",), ("--images", 2)])
def test_options_of_sets_need_a_set(mulo: RunMulo, shared_bundle: MakeBundle, option: tuple[object, ...]) -> None:
    result = mulo("generate", shared_bundle(), "--prompt", "a red circle", *option)
    assert result.exit_code == 2
    assert "need --prompts" in result.stderr


def test_a_seed_that_grows_out_of_range_is_refused(generate: RunMulo, tmp_path: Path) -> None:
    result = generate("--seed", 2**64 - 1)
    assert result.exit_code == 2
    assert "seed" in result.stderr
    assert not (tmp_path / "set").exists()


def test_a_class_conditional_bundle_takes_a_class_on_every_line(generate: RunMulo, tmp_path: Path) -> None:
    assert generate(prompts="0\n4", text=False, images=1).exit_code == 0
    assert made(tmp_path / "set") == ["000001-0.png", "000002-0.png"]
