"""On a device every method draws what it draws on the host, and the host is not in the way."""

from __future__ import annotations

from pathlib import Path
from threading import Event as Signal
from typing import Any

import numpy as np
import pytest
from bundles import broken_decoder_bundle, without_witness
from conftest import MakeBundle
from mulo_engines.errors import Cancelled, EngineError, NonFiniteError
from mulo_runtime import AutoRegressive, MuloSD, Pipeline, Result, Sampling, ZipAR
from mulo_runtime.device.staging import RUN_AHEAD
from pipelines import Faults, MakePipeline, request

METHODS = [
    AutoRegressive(),
    ZipAR(window=3),
    MuloSD(),
    MuloSD(draft="rows"),
    MuloSD(draft="rows", resynchronise=False, look_ahead=0),
    MuloSD(rows_per_round=0, refresh="none", radius=None),
    MuloSD(refresh="dirty", surrogate="latest", stale="mask"),
    MuloSD(tau=2, islands="serial", draft_window=0),
    MuloSD(tau=0),
    MuloSD(redraw_k=8),
    MuloSD(guided="drafter"),
    MuloSD(rejection="raster", window=0),
]


def drawn(pipeline: Pipeline, method: Any, images: int, sampling: Sampling | None = None) -> list[Result]:
    return pipeline.generate_batch([request(seed, method, sampling=sampling) for seed in range(images)])


@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_a_device_draws_what_the_host_draws(
    open_pipeline: MakePipeline, open_device_pipeline: MakePipeline, method: Any, images: int
) -> None:
    host, device = open_pipeline(images=images), open_device_pipeline(images=images)
    for expected, found in zip(drawn(host, method, images), drawn(device, method, images), strict=True):
        assert np.array_equal(found.tokens, expected.tokens)
        assert np.array_equal(found.accept_map, expected.accept_map)
        assert np.array_equal(found.image, expected.image)
        assert found.statistics.resampled == expected.statistics.resampled


@pytest.mark.parametrize("method", [AutoRegressive(), MuloSD()], ids=str)
def test_without_guidance_one_half_is_fed(
    open_pipeline: MakePipeline, open_device_pipeline: MakePipeline, method: Any
) -> None:
    plain = Sampling(guidance_scale=1.0, top_k=20)
    (expected,), (found,) = (drawn(make(), method, 1, plain) for make in (open_pipeline, open_device_pipeline))
    assert np.array_equal(found.tokens, expected.tokens)


def test_a_request_after_another_is_drawn_as_if_it_were_the_first(open_device_pipeline: MakePipeline) -> None:
    used, fresh = open_device_pipeline(), open_device_pipeline()
    for method in METHODS:
        used.generate(request(9, method))
    assert np.array_equal(used.generate(request(1)).tokens, fresh.generate(request(1)).tokens)


def read_backs(result: Result) -> dict[str, int]:
    return {phase: usage.read_backs for phase, usage in result.statistics.phases.items() if usage.read_backs}


@pytest.mark.parametrize("method", [AutoRegressive(), ZipAR()], ids=str)
def test_a_plainly_decoded_image_is_read_back_once(open_device_pipeline: MakePipeline, method: Any) -> None:
    assert read_backs(open_device_pipeline().generate(request(method=method))) == {"decode tokens": 1, "decode": 1}


def test_whoever_watches_plain_decoding_has_every_row_read_back(open_device_pipeline: MakePipeline) -> None:
    rows: list[tuple[int, int]] = []
    result = open_device_pipeline().generate(
        request(method=AutoRegressive()),
        on_event=lambda event: rows.append((event.rows, int(event.tokens.any(2).sum()))),
    )
    assert [row for row, _ in rows] == list(range(1, 9))
    assert [drawn for _, drawn in rows] == list(range(1, 9))
    assert read_backs(result)["decode tokens"] == 8


@pytest.mark.parametrize("rows", [1, 2, 0])
@pytest.mark.parametrize("draft", ["image", "rows"])
def test_a_block_of_mulo_sd_is_read_back_three_times_at_most(
    open_device_pipeline: MakePipeline, rows: int, draft: Any
) -> None:
    result = open_device_pipeline().generate(request(method=MuloSD(rows_per_round=rows, draft=draft, tau=0.3)))
    counts = read_backs(result)
    rounds = result.statistics.rounds
    assert result.statistics.resampled
    assert counts.pop("decode") == 1
    assert sum(counts.values()) <= 3 * rounds
    assert counts["verify"] == rounds
    assert counts["draft"] == (rounds if draft == "rows" else 1)
    assert "resynchronise" not in counts


def test_a_cancelled_request_frees_its_lane_within_the_passes_that_the_host_was_ahead(
    faulty_device: tuple[Pipeline, Faults],
) -> None:
    pipeline, faults = faulty_device
    cancel = Signal()
    faults.on_call = lambda call: cancel.set() if call == 5 else None
    with pytest.raises(Cancelled):
        pipeline.generate(request(method=AutoRegressive()), cancel=cancel)
    assert 5 <= faults.calls <= 5 + RUN_AHEAD
    assert not pipeline._pool._waiting
    assert len(pipeline._pool._free) == 1


def test_a_pass_that_fails_on_the_device_fails_its_request_alone(faulty_device: tuple[Pipeline, Faults]) -> None:
    pipeline, faults = faulty_device
    expected = pipeline.generate(request(3))
    faults.arm(7, EngineError("the pass failed"))
    with pytest.raises(EngineError, match="the pass failed"):
        pipeline.generate(request(3))
    faults.arm(None, RuntimeError())
    assert np.array_equal(pipeline.generate(request(3)).tokens, expected.tokens)


def test_a_decoder_whose_pixels_are_not_finite_makes_no_image_and_no_preview(
    open_device_pipeline: MakePipeline, tmp_path: Path
) -> None:
    pipeline = open_device_pipeline(bundle=broken_decoder_bundle(tmp_path, np.nan), images=2)
    for _ in range(2):
        with pytest.raises(NonFiniteError, match=r"(?s)decoder: the pixels are not finite.*image 0, 1 of 2"):
            drawn(pipeline, AutoRegressive(), 2)
        with pytest.raises(NonFiniteError, match="decoder: the pixels"):
            next(pipeline.stream(request(method=AutoRegressive())))


def test_a_decoder_of_an_older_export_draws_without_a_witness(
    open_device_pipeline: MakePipeline, shared_bundle: MakeBundle, tmp_path: Path
) -> None:
    older = open_device_pipeline(bundle=without_witness(shared_bundle(), tmp_path / "older"))
    expected = open_device_pipeline().generate(request(3))
    assert np.array_equal(older.generate(request(3)).image, expected.image)


@pytest.mark.parametrize("method", [AutoRegressive(), MuloSD()], ids=str)
def test_what_is_not_finite_on_the_device_never_becomes_an_image(
    open_device_pipeline: MakePipeline, method: Any
) -> None:
    pipeline = open_device_pipeline()
    expected = pipeline.generate(request(method=method))
    lane = pipeline._pool._free[0]
    cache = lane.target.passes._caches["k_cache.0"]
    poison = np.full(cache.nbytes // 4, np.nan, np.float32)

    class Poisoned(Signal):
        """Looked at before every pass: at the tenth, the cache is full of NaN."""

        looks = 0

        def is_set(self) -> bool:
            self.looks += 1
            if self.looks == 10:
                lane._stream.upload(cache, poison)
            return False

    with pytest.raises(NonFiniteError, match="target: the logits are not finite"):
        pipeline.generate(request(method=method), cancel=Poisoned())
    assert np.array_equal(pipeline.generate(request(method=method)).tokens, expected.tokens)


def test_passes_one_by_one_are_served_too(open_device_pipeline: MakePipeline, open_pipeline: MakePipeline) -> None:
    """What a method with an unknown schedule does: feed, look, and decide."""
    found = []
    for pipeline in (open_pipeline(), open_device_pipeline()):
        lane = pipeline._pool._free[0]
        lane.prepare(Sampling(guidance_scale=2.0), AutoRegressive())
        embeds, visible = pipeline._conditions.encode([request().condition], {"target": True})
        half = np.full((1, 3), 0.5, np.float32)
        first = int(lane.target.begin(embeds["target"], visible, None, half[:, :1]).tokens[0, 0])
        second = lane.target.step(first, 0, 0.5)
        tokens, positions = np.array([[second, 5, 6]]), np.array([[1, 2, 3]])
        draws = lane.target.feed(tokens, positions, [3], tokens, half)
        found.append((first, second, draws.tokens.tolist(), np.round(draws.probability, 5).tolist()))
    assert found[0] == found[1]
