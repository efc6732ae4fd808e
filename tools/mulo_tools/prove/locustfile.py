"""Clients of `mulo prove-load`, run by Locust in a process of its own: each asks for an image at a steady rate.

The environment says what they do: MULO_LOAD_RATE, requests per second of one client, where 0 asks again as soon as it
is answered; MULO_LOAD_OUT, the file that takes a JSON line of every answer; MULO_LOAD_PROMPT.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from locust import HttpUser, constant_throughput, task

__all__ = ["ImageUser"]

_RATE = float(os.environ["MULO_LOAD_RATE"])
_OUT = Path(os.environ["MULO_LOAD_OUT"])
_BODY = {"prompt": os.environ["MULO_LOAD_PROMPT"], "seed": 1}


class ImageUser(HttpUser):
    """Asks for the same image again and again."""

    wait_time: Callable[..., float] = constant_throughput(_RATE) if _RATE else lambda _: 0.0

    @task
    def ask(self) -> None:
        """Ask once, and note what came of it."""
        start = time.perf_counter()
        with self.client.post("/v1/images/generations", json=_BODY, catch_response=True) as answer:
            seconds = time.perf_counter() - start
            answer.success()
            queued = _queue_seconds(answer) if answer.status_code == 200 else 0.0
            line = {"status": answer.status_code, "seconds": seconds, "queue_seconds": queued}
        with _OUT.open("a", encoding="ascii") as file:
            file.write(json.dumps(line) + "\n")


def _queue_seconds(answer: Any) -> float:
    return float(answer.json()["data"][0]["mulo"]["queue_seconds"])
