"""Memory is counted before it is allocated, to the byte, and refused with the sum."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from mulo_engines.bundle import Bundle
from mulo_engines.engine import TensorSpec
from mulo_engines.errors import OutOfMemory
from mulo_engines.manifest import Manifest
from mulo_engines.memory import MemoryPlan, ModelBuffers, available_memory, plan_memory, tensor_bytes
from mulo_engines.signature import graph_signature

GIB = 2**30


@pytest.fixture
def manifest(bundle_folder: Path) -> Manifest:
    return Bundle.open(bundle_folder).manifest


def _plan(manifest: Manifest, *, lanes: int = 1, images: int = 1) -> MemoryPlan:
    return plan_memory(manifest, lanes=lanes, images=images, drafter=ModelBuffers(96, 1), target=ModelBuffers(512, 256))


def test_a_specs_bytes_are_those_of_the_array(manifest: Manifest) -> None:
    sizes = {"B": 2, "C": 0, "Q": 5, "T": 5, "S": 96, "R": 3, "M": 1}
    for side in graph_signature(manifest, "target"):
        for spec in side:
            array = np.zeros([sizes[size] if isinstance(size, str) else size for size in spec.shape], spec.dtype)
            assert tensor_bytes([spec], sizes) == array.nbytes
    assert tensor_bytes([TensorSpec("x", np.dtype(np.int64), ())] * 3, {}) == 24


def test_caches_are_counted_to_the_byte_once_for_input_and_output(manifest: Manifest) -> None:
    parts = _plan(manifest, lanes=3, images=2).parts
    keys_and_values, batch, heads, head_dim, itemsize = 2 * 3, 4, 4, 32, 4
    assert parts["target caches"] == 3 * keys_and_values * batch * heads * 512 * head_dim * itemsize
    assert parts["drafter caches"] == 3 * keys_and_values * batch * heads * 96 * head_dim * itemsize


def test_inputs_and_logits_are_those_of_the_largest_pass(manifest: Manifest) -> None:
    parts = _plan(manifest).parts
    ids, prefix = 8 * (2 * 256 + 2 * 256 + 2 + 2 * 256), 2 * 12 * 128 * 4
    assert parts["target inputs"] == ids + prefix + 256 * 512
    assert parts["drafter inputs"] == 8 * (2 + 2 * 12 + 2 + 2) + prefix + 12 * 96
    assert parts["sampler"] == 2 * 256 * 512 * 4 + 256 * (2 * 8 + 3 * 4) + 3 * 4 + 2 * 8


def test_weights_are_the_bytes_of_the_files_that_graphs_use(manifest: Manifest) -> None:
    parts = _plan(manifest, lanes=7).parts
    assert parts["weights/target.safetensors"] == 100 * len("weights/target.safetensors")
    assert "weights/drafter.safetensors" not in parts
    assert "prompt.safetensors" not in parts


def test_a_plan_that_does_not_fit_is_refused_with_its_sum(manifest: Manifest) -> None:
    plan = _plan(manifest, lanes=100)
    plan.require(plan.total)
    with pytest.raises(OutOfMemory, match=r"(?s)MiB available.*MiB  target caches.*MiB  total.*fewer lanes"):
        plan.require(plan.total - 1)
    assert f"{plan.total / 2**20:,.1f} MiB  total" in str(plan)


def test_this_machine_tells_what_is_available() -> None:
    available = available_memory()
    assert available is not None
    assert 2**20 < available < 2**50


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(None, 8 * GIB), ("max", 8 * GIB), (str(4 * GIB), 2 * GIB), (str(64 * GIB), 8 * GIB), (str(GIB), 0)],
)
def test_what_is_available_is_the_machines_or_the_control_groups(
    tmp_path: Path, limit: str | None, expected: int
) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text(f"MemTotal: {2**24} kB\nMemAvailable:    {2**23} kB\nHugePages_Total:   0\n")
    if limit is not None:
        group = tmp_path / "sys/fs/cgroup"
        group.mkdir(parents=True)
        (group / "memory.max").write_text(f"{limit}\n")
        (group / "memory.current").write_text(f"{3 * GIB}\n")
        (group / "memory.stat").write_text(f"anon 5\ninactive_file {GIB}\nactive_file 7\n")
    assert available_memory(tmp_path) == expected


def test_an_operating_system_that_does_not_tell_refuses_nothing(tmp_path: Path, manifest: Manifest) -> None:
    assert available_memory(tmp_path) is None
    _plan(manifest, lanes=10**6).require(None)
