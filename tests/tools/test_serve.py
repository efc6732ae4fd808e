"""`mulo serve` as a process: it becomes ready, logs JSON, and on SIGTERM finishes what it accepted."""

from __future__ import annotations

import json
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from click.testing import Result
from mulo_engines.manifest import MANIFEST_NAME, read_manifest, write_manifest
from mulo_tools.prove.service_process import running_service
from serving import GENERATIONS, PROMPT, eventually

MakeBundle = Callable[..., Path]
RunMulo = Callable[..., Result]


def listens(url: str) -> bool:
    try:
        return httpx.get(f"{url}/livez").status_code == 200
    except httpx.TransportError:
        return False


def test_on_sigterm_accepted_requests_are_finished_and_new_ones_refused(
    shared_bundle: MakeBundle, tmp_path: Path
) -> None:
    answered: list[httpx.Response] = []
    body = {"prompt": PROMPT, "seed": 1, "n": 4, "method": "ar"}
    options = ["--threads", "1", "--queue", "8"]
    with running_service(shared_bundle(ratio=4), options, tmp_path / "log") as service:
        url = service.url
        asking = threading.Thread(target=lambda: answered.append(httpx.post(url + GENERATIONS, json=body, timeout=60)))
        asking.start()
        eventually(lambda: httpx.get(f"{url}/readyz").json()["waiting"] >= 1)
        service.process.send_signal(signal.SIGTERM)
        eventually(lambda: not listens(url))
        asking.join()
        assert service.process.wait(30) == 0
    assert [one["mulo"]["seed"] for one in answered[0].json()["data"]] == [1, 2, 3, 4]
    lines = [json.loads(line) for line in (tmp_path / "log").read_text(encoding="utf-8").splitlines()]
    (logged,) = [line for line in lines if line.get("path") == GENERATIONS]
    assert (logged["status"], logged["method"], logged["level"]) == (200, "POST", "info")
    assert logged["seconds"] > 0


def test_the_token_may_come_from_the_environment(
    shared_bundle: MakeBundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MULO_SERVE_TOKEN", "a-secret")
    with running_service(shared_bundle(), ["--threads", "1"], tmp_path / "log") as service:
        assert httpx.get(f"{service.url}/v1/bundle").status_code == 401
        headers = {"authorization": "Bearer a-secret"}
        assert httpx.get(f"{service.url}/v1/bundle", headers=headers).status_code == 200


def test_a_bundle_that_is_refused_is_not_served(mulo: RunMulo, tmp_path: Path) -> None:
    result = mulo("serve", tmp_path / "nothing")
    assert result.exit_code == 3
    assert "no such file" in result.stderr


def test_a_bundle_that_no_prompt_can_ask_is_not_served(
    mulo: RunMulo, shared_bundle: MakeBundle, tmp_path: Path
) -> None:
    bundle = Path(shutil.copytree(shared_bundle(), tmp_path / "bundle"))
    write_manifest(read_manifest(bundle / MANIFEST_NAME).model_copy(update={"prompt": None}), bundle)
    result = mulo("serve", bundle)
    assert result.exit_code == 2
    assert "embed mulo_runtime.Pipeline" in result.stderr
