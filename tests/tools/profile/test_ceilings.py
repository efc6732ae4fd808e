"""The ceilings of a machine are rates of a copy and of products whose size is known."""

from __future__ import annotations

from pathlib import Path

import pytest
from mulo_engines.backend import Backend
from mulo_engines.backends import open_backend
from mulo_engines.bundle import Bundle
from mulo_engines.cost import Cost
from mulo_engines.engine import Engine
from mulo_tools.profile.ceilings import Ceilings, MatrixSize, measure_ceilings

SMALL = MatrixSize(width=64, rows=8)


class _Recording(Backend):
    """Loads graphs by ONNX Runtime and keeps what they are called with."""

    def __init__(self) -> None:
        self.inner, self.loaded = open_backend("onnxruntime", threads=1), list[Engine]()

    def load_file(self, path: Path, name: str) -> Engine:
        self.loaded.append(self.inner.load_file(path, name))
        return self.loaded[-1]

    def _load(self, bundle: Bundle, graph: str, slots: int) -> Engine:
        raise NotImplementedError


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_machine_copies_reads_and_multiplies(dtype: str) -> None:
    backend = _Recording()
    ceilings = measure_ceilings(backend, dtype, SMALL)
    assert min(ceilings.copy_bytes, ceilings.read_bytes, ceilings.flop) > 0
    assert ceilings.bytes == max(ceilings.copy_bytes, ceilings.read_bytes)
    assert [engine.name for engine in backend.loaded] == ["copy", "product", "product"]


def test_rates_are_bytes_and_flop_by_the_fastest_run(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([2.0, 4.0, 8.0])
    monkeypatch.setattr("mulo_tools.profile.ceilings._best", lambda *_: next(seconds))
    ceilings = measure_ceilings(_Recording(), "float32", SMALL)
    assert ceilings == Ceilings(2 * 64 * 64 * 4 / 2, 64 * 64 * 4 / 4, 2 * 8 * 64 * 64 / 8)


def test_the_limit_of_a_pass_is_the_slower_of_moving_and_computing() -> None:
    ceilings = Ceilings(copy_bytes=100, read_bytes=50, flop=10)
    assert ceilings.limit(Cost(300, 0, 0, 0, 1)) == 3
    assert ceilings.limit(Cost(1, 0, 0, 0, 200)) == 20
