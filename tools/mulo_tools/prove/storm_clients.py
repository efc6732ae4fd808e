"""The clients of a storm: what each sends, how it behaves, and what it may be answered."""

from __future__ import annotations

import asyncio
import base64
import json
import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from typing import Any

import httpx
from mulo_engines.errors import MuloError
from mulo_runtime import AutoRegressive, Pipeline, Prompt, Request, ZipAR
from PIL import Image

__all__ = ["Client", "Expected", "expected_images", "make_clients", "require_image"]

_PATH = "/v1/images/generations"
_SEEDS = 8
_METHODS = ("mulo-sd", "zipar", "ar")

Expected = Mapping[tuple[str, int], str]
"""The digest of the image that a method makes of a seed, and under ("prompt", 0) the prompt."""


def expected_images(pipeline: Pipeline) -> Expected:
    """Every image that a storm may ask for, made alone by the library."""
    (prompt, *_) = [example for example in pipeline.examples if isinstance(example, Prompt)]
    methods = {"mulo-sd": None, "zipar": ZipAR(), "ar": AutoRegressive()}
    images = {
        (name, seed): _digest(pipeline.generate(Request(prompt, seed, method)).image.tobytes())
        for name, method in methods.items()
        for seed in range(_SEEDS)
    }
    return {**images, ("prompt", 0): prompt.text}


@dataclass(frozen=True, slots=True)
class Client(ABC):
    """One request to come.

    Attributes:
        method: the method that it asks for.
        seed: the seed.
        delay: seconds after which it does what it does.
    """

    method: str
    seed: int
    delay: float

    @abstractmethod
    async def ask(self, http: httpx.AsyncClient, expected: Expected) -> str:
        """Ask, and name the outcome.

        Raises:
            MuloError: the answer is none of those that it may be.
        """

    def fields(self, expected: Expected, **more: Any) -> dict[str, Any]:
        """The body."""
        return {"prompt": expected["prompt", 0], "seed": self.seed, "method": self.method, **more}

    def refuse(self, answer: httpx.Response) -> MuloError:
        """What is raised for an answer that may not be."""
        return MuloError(f"{self} was answered otherwise", found=f"{answer.status_code} {answer.text[:500]}")


class _Whole(Client):
    async def ask(self, http: httpx.AsyncClient, expected: Expected) -> str:
        answer = await http.post(_PATH, json=self.fields(expected))
        if answer.status_code == 429:
            return "whole: 429"
        if answer.status_code != 200:
            raise self.refuse(answer)
        require_image(self, answer.json()["data"][0]["b64_json"], expected)
        return "whole: right"


class _Streamed(Client):
    async def ask(self, http: httpx.AsyncClient, expected: Expected) -> str:
        body = self.fields(expected, stream=True, partial_images=3)
        async with http.stream("POST", _PATH, json=body) as answer:
            if answer.status_code == 429:
                return "streamed: 429"
            last = ""
            async for line in answer.aiter_lines():
                # A slow reader: what it leaves lying must hold no lane.
                await asyncio.sleep(self.delay / 10)
                last = line or last
        event = json.loads(last.removeprefix("data: "))
        require_image(self, event["b64_json"], expected)
        return "streamed slowly: right"


class _Leaving(Client):
    async def ask(self, http: httpx.AsyncClient, expected: Expected) -> str:
        body = self.fields(expected, stream=self.seed % 2 == 0, partial_images=3)
        try:
            async with asyncio.timeout(self.delay):
                answer = await http.post(_PATH, json=body)
        except TimeoutError:
            return "left"
        if answer.status_code not in (200, 429):
            raise self.refuse(answer)
        return f"meant to leave: {answer.status_code}"


class _Hurried(Client):
    async def ask(self, http: httpx.AsyncClient, expected: Expected) -> str:
        answer = await http.post(_PATH, json=self.fields(expected, deadline=max(self.delay, 1e-6)))
        if answer.status_code not in (200, 429, 504):
            raise self.refuse(answer)
        if answer.status_code == 200:
            require_image(self, answer.json()["data"][0]["b64_json"], expected)
        return f"deadline: {answer.status_code}"


class _Malformed(Client):
    async def ask(self, http: httpx.AsyncClient, expected: Expected) -> str:
        body = json.dumps(self.fields(expected)).encode()[: -1 - self.seed]
        answer = await http.post(_PATH, content=body, headers={"content-type": "application/json"})
        if answer.status_code != 400:
            raise self.refuse(answer)
        return "malformed: 400"


class _Oversized(Client):
    async def ask(self, http: httpx.AsyncClient, expected: Expected) -> str:
        try:
            answer = await http.post(_PATH, json=self.fields(expected, style="x" * 200_000))
        except httpx.WriteError:
            return "oversized: cut off"
        if answer.status_code != 413:
            raise self.refuse(answer)
        return "oversized: 413"


_KINDS: Sequence[type[Client]] = (_Whole, _Streamed, _Leaving, _Leaving, _Hurried, _Malformed, _Oversized)


def make_clients(count: int, seed: int) -> list[Client]:
    """`count` clients, the same ones for the same `seed`."""
    chance = random.Random(seed)
    return [
        chance.choice(_KINDS)(chance.choice(_METHODS), chance.randrange(_SEEDS), chance.expovariate(5.0))
        for _ in range(count)
    ]


def require_image(client: Client, encoded: str, expected: Expected) -> None:
    """Refuse a PNG file, in base64, that is not what the client's method makes of its seed.

    Raises:
        MuloError: as it says.
    """
    with Image.open(BytesIO(base64.b64decode(encoded))) as picture:
        found = _digest(picture.convert("RGB").tobytes())
    if found != expected[client.method, client.seed]:
        raise MuloError(f"{client} got another image than the same seed gives alone")


def _digest(pixels: bytes) -> str:
    return sha256(pixels).hexdigest()
