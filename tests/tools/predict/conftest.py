"""A tiny bundle, and what a bench found about it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from bundles import tiny_bundle
from click.testing import Result
from mulo_engines.bundle import Bundle
from mulo_tools.bench.report import Report, Row, write_report
from mulo_tools.machine import describe_machine
from mulo_tools.predict.generator import Generator

RunMulo = Callable[..., Result]


@pytest.fixture(scope="session")
def measured_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bundle(tmp_path_factory.mktemp("predict"), eagle=True)


@pytest.fixture(scope="session")
def generator(measured_bundle: Path) -> Generator:
    return Generator.of(Bundle.open(measured_bundle))


@pytest.fixture
def write_rows(measured_bundle: Path, tmp_path: Path) -> Callable[..., Path]:
    """`write_rows(row, ..., about="bundle")`: the report with these rows."""

    def write(*rows: Row, about: str = measured_bundle.name) -> Path:
        path = tmp_path / "report.json"
        write_report(Report(bundle=f"{about} 0123", machine=describe_machine(1), rows=rows), path)
        return path

    return write
