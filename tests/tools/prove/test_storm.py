"""The storm, short: every kind of client, and a service that comes through it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from mulo_engines.errors import MuloError
from mulo_tools.cli import main
from mulo_tools.prove.storm_clients import make_clients, require_image

IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
"""A PNG file of one red pixel."""


def test_a_service_comes_through_a_storm(shared_bundle: Callable[..., Path]) -> None:
    result = CliRunner().invoke(main, ["prove-storm", str(shared_bundle()), "--requests", "200", "--growth", "0.2"])
    assert result.exit_code == 0, result.output
    assert "no lane lost, every image right" in result.output
    for outcome in ("whole: right", "left", "malformed: 400", "oversized: 413"):
        assert outcome in result.output


def test_growing_memory_fails_the_storm(shared_bundle: Callable[..., Path]) -> None:
    result = CliRunner().invoke(main, ["prove-storm", str(shared_bundle()), "--requests", "50", "--growth", "-0.9"])
    assert result.exit_code == 1
    assert "memory grows" in result.output


def test_a_wrong_image_is_found() -> None:
    client = make_clients(1, 0)[0]
    with pytest.raises(MuloError, match="another image"):
        require_image(client, IMAGE, {(client.method, client.seed): "the digest of another"})


def test_the_same_seed_makes_the_same_storm() -> None:
    assert make_clients(50, 3) == make_clients(50, 3) != make_clients(50, 4)
    assert len({type(client) for client in make_clients(50, 3)}) == 6
