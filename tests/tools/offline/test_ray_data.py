"""`mulo generate --prompts --ray` on a real Ray: the images of the local run, each once, though workers are killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result
from conftest import MakeBundle
from ray_clusters import ray_cluster, worker_pids

RunMulo = Callable[..., Result]

pytestmark = pytest.mark.timeout(600)

PROMPTS = 24


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    with ray_cluster():
        yield


@pytest.fixture
def generate(mulo: RunMulo, shared_bundle: MakeBundle, tmp_path: Path) -> RunMulo:
    """Make an image of each of many prompts into the folder `tmp_path / name`; plain decoding takes its time."""

    def run(name: str, *arguments: object) -> Result:
        prompts = tmp_path / "prompts.txt"
        prompts.write_text("red circle and blue square\n" * PROMPTS)
        common = ("--method", "ar", "--threads", 1, "--out", tmp_path / name)
        return mulo("generate", shared_bundle(ratio=4), "--prompts", prompts, *common, *arguments)

    return run


def images(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.png")}


def kill_a_worker(folder: Path, killed: list[int]) -> None:
    """Kill a worker with SIGKILL as soon as the first image is there."""
    until = time.monotonic() + 200
    while time.monotonic() < until:
        pids = worker_pids("ray::MapWorker")
        if pids and images(folder):
            os.kill(pids[0], signal.SIGKILL)
            killed.append(pids[0])
            return
        time.sleep(0.02)


@pytest.mark.usefixtures("cluster")
def test_every_image_is_there_once_and_right_though_a_worker_is_killed(generate: RunMulo, tmp_path: Path) -> None:
    killed: list[int] = []
    killer = threading.Thread(target=kill_a_worker, args=(tmp_path / "ray", killed))
    killer.start()
    result = generate("ray", "--ray", "--workers", 2)
    killer.join()
    assert result.exit_code == 0, result.stderr
    assert result.stderr.endswith(f"{PROMPTS} images made, 0 were there\n")
    assert len(killed) == 1
    generate("local")
    assert images(tmp_path / "ray") == images(tmp_path / "local")
    (tmp_path / "ray" / "000002-0.png").unlink()
    assert generate("ray", "--ray").stderr.endswith(f"1 images made, {PROMPTS - 1} were there\n")
    assert images(tmp_path / "ray") == images(tmp_path / "local")
