"""A bound cache grows in place."""

from __future__ import annotations

import numpy as np
from mulo_runtime.cache import CacheBuffers


def test_growing_keeps_what_was_written_and_every_address() -> None:
    cache = CacheBuffers(layers=2, batch=2, heads=3, slots=12, head_dim=4, dtype=np.dtype(np.float32))
    cache.grow(2, 4)
    rng = np.random.default_rng(0)
    before = {}
    for name, view in cache.views(2, 4).items():
        view[...] = rng.standard_normal(view.shape)
        before[name] = view.copy(), view.ctypes.data
    for slots in (8, 12):
        cache.grow(2, slots)
    for name, view in cache.views(2, 12).items():
        content, address = before[name]
        assert (view[:, :, :4] == content).all()
        assert view.ctypes.data == address
        assert np.isfinite(view).all()


def test_after_a_restart_growing_moves_nothing() -> None:
    cache = CacheBuffers(layers=1, batch=1, heads=2, slots=8, head_dim=1, dtype=np.dtype(np.float32))
    cache.grow(1, 4)
    cache.views(1, 4)["k_cache.0"][...] = 1
    cache.restart()
    cache.grow(1, 8)
    assert cache.views(1, 8)["k_cache.0"].ravel()[:8].tolist() == [1] * 8


def test_zeroing_overwrites_everything() -> None:
    cache = CacheBuffers(layers=1, batch=1, heads=1, slots=4, head_dim=2, dtype=np.dtype(np.float32))
    cache.views(1, 4)["v_cache.0"][...] = np.nan
    cache.zero()
    assert not cache.views(1, 4)["v_cache.0"].any()
    assert cache.nbytes == 2 * 4 * 2 * 4
