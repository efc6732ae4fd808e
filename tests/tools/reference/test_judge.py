"""The judge passes ground truth and catches every kind of mistake."""

import pytest
from mulo_tools.reference.judge import Verdict, detect, judge
from mulo_tools.reference.render import downscale, render_seed
from mulo_tools.reference.scenes import Scene, parse_caption, scenes_of


@pytest.mark.parametrize(("px", "least"), [(128, 0.99), (64, 0.99), (32, 0.95)])
def test_ground_truth_passes_at_every_resolution(px: int, least: float) -> None:
    seeds = range(120)
    verdicts = [
        judge(downscale(render_seed(scene, seed), px), scene)
        for seed, scene in zip(seeds, scenes_of(seeds), strict=True)
    ]
    assert sum(verdict.correct for verdict in verdicts) >= least * len(verdicts)


def _verdict(shown: str, asked: str) -> Verdict:
    return judge(downscale(render_seed(parse_caption(shown), 7), 64), parse_caption(asked))


@pytest.mark.parametrize(
    ("shown", "asked", "mistake"),
    [
        ("a red circle on dark", "a blue circle on dark", "colours"),
        ("a red circle on dark", "a red square on dark", "things"),
        ("a red circle on dark", "a red circle on light", "background"),
        ("two red circles on grey", "three red circles on grey", "count"),
        ("four blue crosses on grey", "three blue crosses on grey", "count"),
        ("a red circle on dark", "a red circle and a blue square on dark", "count"),
        ("a red square and a blue circle on dark", "a red circle and a blue square on dark", "things"),
        ("a red circle right of a blue square on dark", "a red circle left of a blue square on dark", "relation"),
        ("a red circle below a blue square on dark", "a red circle above a blue square on dark", "relation"),
        ("a red circle left of a blue square on dark", "a red circle above a blue square on dark", "relation"),
        ("a red circle on dark", "a red circle above a blue square on dark", "relation"),
    ],
)
def test_a_mistake_is_named_and_the_picture_fails(shown: str, asked: str, mistake: str) -> None:
    verdict = _verdict(shown, asked)
    assert not getattr(verdict, mistake)
    assert not verdict.correct


@pytest.mark.parametrize(
    ("shown", "asked"),
    [
        ("a red circle left of a blue square on dark", "a red circle and a blue square on dark"),
        ("a blue square and a red circle on dark", "a red circle and a blue square on dark"),
        ("a blue square right of a red circle on dark", "a red circle left of a blue square on dark"),
    ],
)
def test_other_words_for_the_same_picture_pass(shown: str, asked: str) -> None:
    assert _verdict(shown, asked).correct


def test_an_empty_picture_shows_nothing_but_its_background() -> None:
    scene = Scene((), "grey")
    picture = render_seed(scene, 1)
    assert detect(picture) == ([], "grey")
