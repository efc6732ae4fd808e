"""Clients of the service that ask for one image after another, and what became of every request."""

from __future__ import annotations

import base64
import io
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray
from PIL import Image

__all__ = ["Answer", "Load", "ask"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a request.

    Attributes:
        seed: of its image.
        image: [H, W, 3]; None where there was none.
        error: what the client was told instead.
        seconds: until the client knew.
    """

    seed: int
    image: NDArray[np.uint8] | None
    error: str
    seconds: float


class Load:
    """What clients were answered so far."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self._stop = threading.Event()

    @property
    def lost(self) -> list[Answer]:
        """The answers without an image."""
        return [answer for answer in self.answers if answer.image is None]

    @contextmanager
    def running(self, url: str, body: Mapping[str, Any], seeds: int, clients: int, timeout: float) -> Iterator[None]:
        """Have `clients` ask with the seeds 0 .. seeds-1 in turn, every other one for a stream; see `ask`."""
        threads = [
            threading.Thread(target=self._ask, args=(url, {**body, "stream": client % 2 == 1}, seeds, timeout))
            for client in range(clients)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()

    def _ask(self, url: str, body: Mapping[str, Any], seeds: int, timeout: float) -> None:
        for number in count():
            if self._stop.is_set():
                return
            self.answers.append(ask(url, {**body, "seed": number % seeds}, timeout))


def ask(url: str, body: Mapping[str, Any], timeout: float) -> Answer:
    """Ask for an image; a client that hears nothing for `timeout` seconds gives up, which is an error, too."""
    start = time.monotonic()
    try:
        image, error = _image(httpx.post(url, json=dict(body), timeout=timeout)), ""
    except (httpx.HTTPError, ValueError) as fault:
        image, error = None, f"{type(fault).__name__}: {fault}"
    return Answer(body["seed"], image, error, time.monotonic() - start)


def _image(response: httpx.Response) -> NDArray[np.uint8]:
    """The image of an answer or at the end of a stream."""
    response.raise_for_status()
    if response.headers["content-type"].startswith("application/json"):
        return _pixels(response.json()["data"][0]["b64_json"])
    last = json.loads(response.text.strip().rsplit("data: ", 1)[-1])
    if last.get("type") != "image_generation.completed":
        raise ValueError(f"the stream ends with {last}")
    return _pixels(last["b64_json"])


def _pixels(text: str) -> NDArray[np.uint8]:
    with Image.open(io.BytesIO(base64.b64decode(text))) as image:
        return np.asarray(image.convert("RGB"))
