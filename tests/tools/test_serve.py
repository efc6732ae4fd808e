"""`mulo serve` as a process: it becomes ready, logs JSON, and on SIGTERM finishes what it accepted."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from serving import GENERATIONS, PROMPT, eventually

RunMulo = Callable[..., object]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def process(bundle: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`mulo serve`, ready, and its address; killed where a test leaves it running."""
    port = free_port()
    command = [sys.executable, "-c", "from mulo_tools.cli import main; main()", "serve", str(bundle)]
    command += ["--port", str(port), "--threads", "1", *options]
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        try:
            eventually(lambda: answers(f"{url}/readyz"), 60)
            yield running, url
        finally:
            running.kill()


def answers(url: str) -> bool:
    try:
        return httpx.get(url).status_code == 200
    except httpx.TransportError:
        return False


def test_on_sigterm_accepted_requests_are_finished_and_new_ones_refused(shared_bundle: Callable[..., Path]) -> None:
    answered: list[httpx.Response] = []
    with process(shared_bundle(ratio=4), "--queue", "8") as (running, url):
        body = {"prompt": PROMPT, "seed": 1, "n": 4, "method": "ar"}
        asking = threading.Thread(target=lambda: answered.append(httpx.post(url + GENERATIONS, json=body, timeout=60)))
        asking.start()
        eventually(lambda: httpx.get(f"{url}/readyz").json()["waiting"] >= 1)
        running.send_signal(signal.SIGTERM)
        eventually(lambda: not answers(f"{url}/livez"))
        asking.join()
        _, errors = running.communicate(timeout=30)
        assert running.returncode == 0
    assert [one["mulo"]["seed"] for one in answered[0].json()["data"]] == [1, 2, 3, 4]
    lines = [json.loads(line) for line in errors.splitlines()]
    (logged,) = [line for line in lines if line.get("path") == GENERATIONS]
    assert (logged["status"], logged["method"], logged["level"]) == (200, "POST", "info")
    assert logged["seconds"] > 0


def test_the_token_may_come_from_the_environment(
    shared_bundle: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MULO_SERVE_TOKEN", "a-secret")
    with process(shared_bundle()) as (_, url):
        assert httpx.get(f"{url}/v1/bundle").status_code == 401
        assert httpx.get(f"{url}/v1/bundle", headers={"authorization": "Bearer a-secret"}).status_code == 200


def test_a_bundle_that_is_refused_is_not_served(mulo: Callable[..., object], tmp_path: Path) -> None:
    result = mulo("serve", tmp_path / "nothing")
    assert result.exit_code == 3  # type: ignore[attr-defined]
    assert "no such folder" in result.stderr  # type: ignore[attr-defined]
