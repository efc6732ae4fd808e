"""What is particular to ONNX Runtime: truly in place, silent, shared by threads, and every failure translated."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mulo_engines.engine import Call, Engine
from mulo_engines.errors import EngineError, EngineMismatch, EngineUnavailable, OutOfMemory
from mulo_engines.onnxruntime.engine import OnnxRuntimeEngine
from mulo_export.graphs.builder import GraphBuilder
from numpy.typing import NDArray

WriteLinear = Callable[[Path, str], Path]


def _load(path: Path) -> OnnxRuntimeEngine:
    return OnnxRuntimeEngine.load(path, name=path.stem, threads=1)


def _script(name: str, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(Path(__file__).with_name(name)), *args]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, **environment}
    )


def test_an_update_in_place_touches_nothing_but_the_new_slots(cache_file: Path) -> None:
    result = _script("protected_cache.py", str(cache_file), "in-place")
    assert (result.returncode, result.stdout, result.stderr) == (0, "written\n", "")


def test_an_update_of_another_buffer_does_copy_the_cache(cache_file: Path) -> None:
    assert _script("protected_cache.py", str(cache_file), "separate").returncode == -signal.SIGSEGV


def test_a_cache_keeps_its_address_over_many_calls(cache_file: Path) -> None:
    cache = np.zeros((1, 1, 64, 4), np.float32)
    pointer, index = cache.ctypes.data, np.zeros(1, np.int64)
    update = np.ones((1, 1, 1, 4), np.float32)
    with _load(cache_file) as engine:
        call = engine.bind({"cache": cache, "cache_out": cache, "update": update, "write_index": index})
        for slot in range(64):
            index[0] = slot
            update.fill(slot)
            call.run()
    assert cache.ctypes.data == pointer
    assert np.array_equal(cache[0, 0, :, 0], np.arange(64))


def test_after_warm_up_calls_allocate_no_64_kib_in_python(cache_file: Path) -> None:
    cache = np.zeros((2, 4, 512, 4), np.float32)
    update, index = np.ones((2, 4, 1, 4), np.float32), np.zeros(2, np.int64)
    with _load(cache_file) as engine:
        call = engine.bind({"cache": cache, "cache_out": cache, "update": update, "write_index": index})
        tracemalloc.start()
        try:
            call.run()
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            for _ in range(200):
                call.run()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak - before < 64 * 1024


def test_after_warm_up_calls_keep_their_scratch_memory(scratch_file: Path) -> None:
    faults = {
        mode: int(_script("scratch_faults.py", str(scratch_file), mode, MALLOC_MMAP_THRESHOLD_="65536").stdout)
        for mode in ("clean", "leaky")
    }
    calls, pages_of_scratch = 100, 256
    assert faults["clean"] < calls
    assert faults["leaky"] >= calls * pages_of_scratch


def test_a_call_is_three_python_calls_however_many_buffers_are_bound(cache_file: Path) -> None:
    _, call, buffers = _failing(cache_file)
    buffers["write_index"].fill(0)
    entered: list[str] = []
    sys.setprofile(lambda frame, event, _: entered.append(frame.f_code.co_name) if event == "call" else None)
    try:
        call.run()
    finally:
        sys.setprofile(None)
    assert entered[:2] == ["run", "run_with_iobinding"]
    assert len(entered) <= 3


def test_weights_are_read_from_inside_the_folder_of_the_graph(linear_file: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    moved.mkdir()
    (linear_file.parent / "weights").rename(moved / "weights")
    with _load(linear_file.rename(moved / "linear.onnx")) as engine:
        assert np.array_equal(engine.run_once({"x": np.eye(8, dtype=np.float32)})["y"].T.ravel(), np.arange(32))


def _mappings(file: Path) -> int:
    return sum(str(file) in line for line in Path("/proc/self/maps").read_text().splitlines())


def test_engines_map_a_table_from_its_file_and_let_go_of_it_when_closed(table_file: Path) -> None:
    weights = table_file.with_name("table.safetensors")
    first, second = _load(table_file), _load(table_file)
    index, y = np.array([4095]), np.zeros((1, 8), np.float32)
    call = second.bind({"index": index, "y": y})
    call.run()
    assert np.array_equal(y[0], np.arange(4095 * 8, 4096 * 8))
    assert _mappings(weights) == 2
    first.close()
    assert _mappings(weights) == 1
    second.close()
    assert _mappings(weights) == 0


@pytest.mark.parametrize("packed", [True, False])
def test_only_an_engine_that_does_not_pack_leaves_matrices_in_their_file(linear_file: Path, packed: bool) -> None:
    with OnnxRuntimeEngine.load(linear_file, name="linear", threads=1, packed=packed) as engine:
        assert np.array_equal(engine.run_once({"x": np.eye(8, dtype=np.float32)})["y"].T.ravel(), np.arange(32))
        assert bool(_mappings(linear_file.with_name("weights"))) is not packed


@pytest.mark.parametrize("location", ["../outside.bin", "{}/outside.bin", "weights/missing.bin", "link/outside.bin"])
def test_weights_outside_the_folder_or_missing_are_refused(
    tmp_path: Path, location: str, write_linear: WriteLinear
) -> None:
    inside = tmp_path / "bundle"
    inside.mkdir()
    (inside / "link").symlink_to(tmp_path)
    (tmp_path / "outside.bin").write_bytes(bytes(4096))
    path = write_linear(inside, location.format(tmp_path))
    with pytest.raises(EngineError, match=r"linear: .*linear\.onnx cannot be loaded"):
        _load(path)


@pytest.mark.parametrize("content", [None, b"", b"not a graph", bytes(1000)])
def test_a_file_that_is_no_graph_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "broken.onnx"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(EngineError, match=r"broken: .*broken\.onnx cannot be loaded"):
        _load(path)


def test_a_type_that_the_cpu_cannot_hold_is_refused(tmp_path: Path) -> None:
    graph = GraphBuilder("half")
    graph.op("Cast", graph.input("x", "bfloat16", ["N"]), name="y", to=1)
    graph.output("y", "y", "float32", ["N"])
    graph.save(tmp_path / "half.onnx")
    with pytest.raises(EngineMismatch, match=r"(?s)'x'.*bfloat16.*--precision fp32"):
        _load(tmp_path / "half.onnx")


def _failing(cache_file: Path) -> tuple[Engine, Call, dict[str, NDArray[Any]]]:
    engine = _load(cache_file)
    cache = np.zeros((1, 1, 8, 4), np.float32)
    buffers = {"cache": cache, "update": np.ones((1, 1, 2, 4), np.float32), "write_index": np.array([7])}
    return engine, engine.bind({**buffers, "cache_out": cache}), buffers


def test_a_failure_names_the_engine_and_what_onnx_runtime_said_and_the_next_call_works(
    cache_file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    engine, call, buffers = _failing(cache_file)
    with engine:
        for use in (call.run, lambda: engine.run_once(buffers)):
            with pytest.raises(EngineError, match=r"(?s)cache: the graph failed.*exceeds max_sequence_length \(8\)"):
                use()
        buffers["write_index"][...] = 6
        call.run()
    assert np.count_nonzero(buffers["cache"]) == 8
    assert capfd.readouterr() == ("", "")


def test_memory_that_is_not_there_is_told_as_such(tmp_path: Path) -> None:
    graph = GraphBuilder("huge")
    expanded = graph.op("Expand", graph.input("x", "float32", [1]), graph.input("size", "int64", [1]))
    graph.op("ReduceMax", expanded, name="y", keepdims=0)
    graph.output("y", "y", "float32", [])
    graph.save(tmp_path / "huge.onnx")
    x, size, y = np.ones(1, np.float32), np.array([2**48]), np.zeros((), np.float32)
    with _load(tmp_path / "huge.onnx") as engine:
        call = engine.bind({"x": x, "size": size, "y": y})
        for use in (call.run, lambda: engine.run_once({"x": x, "size": size})):
            with pytest.raises(OutOfMemory, match=r"(?s)huge: the graph failed.*fewer lanes"):
                use()
        size[...] = 3
        call.run()
    assert y == 1


def _count_up(call: Call, index: NDArray[np.int64], update: NDArray[np.float32], offset: int) -> None:
    for step in range(400):
        index[0] = step % 64
        update.fill(step + offset)
        call.run()


def test_engines_and_calls_of_one_engine_run_side_by_side(cache_file: Path) -> None:
    engines = [_load(cache_file) for _ in range(2)]
    caches, threads = [], []
    for number in range(4):
        cache, update = np.zeros((1, 1, 64, 4), np.float32), np.zeros((1, 1, 1, 4), np.float32)
        index = np.zeros(1, np.int64)
        call = engines[number % 2].bind({"cache": cache, "cache_out": cache, "update": update, "write_index": index})
        threads.append(threading.Thread(target=_count_up, args=(call, index, update, 1000 * number)))
        caches.append(cache)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for engine in engines:
        engine.close()
    last = np.arange(336, 400)
    for number, cache in enumerate(caches):
        assert np.array_equal(np.sort(cache[0, 0, :, 0]), last + 1000 * number)


def test_closing_one_engine_leaves_another_of_the_same_file_running(linear_file: Path) -> None:
    first, second = _load(linear_file), _load(linear_file)
    x, y = np.eye(8, dtype=np.float32), np.zeros((8, 4), np.float32)
    call = second.bind({"x": x, "y": y})
    first.close()
    call.run()
    assert np.array_equal(y.T.ravel(), np.arange(32))
    second.close()


def test_a_missing_library_is_told_with_the_extras_that_bring_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.delitem(sys.modules, "mulo_engines.onnxruntime.engine")
    with pytest.raises(EngineUnavailable, match=r"(?s)not installed.*mulo\[cpu\].*mulo\[gpu\]"):
        importlib.import_module("mulo_engines.onnxruntime.engine")
