"""A backend opens on versions that mulo is made for, and says what it found and wants on any other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from mulo_engines import supported
from mulo_engines.backends import open_backend
from mulo_engines.cuda.gpu import Gpu
from mulo_engines.errors import EngineUnavailable, UnsupportedVersion
from mulo_engines.onnxruntime import backend
from mulo_engines.supported import SUPPORTED, check_gpu, check_version, supported_table
from mulo_engines.tensorrt.binding import load_binding

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("python", "3.11.7"),
        ("onnxruntime", "1.32.0"),
        ("tensorrt", "11.4.0.106"),
        ("tensorrt", "11.5.0rc1"),
        ("driver", "13.0"),
        ("gpu", "12.0"),
    ],
)
def test_a_supported_version_passes(key: str, found: str) -> None:
    check_version(key, found)


@pytest.mark.parametrize(
    ("key", "found"), [("python", "3.10.4"), ("onnxruntime", "1.9.0"), ("tensorrt", "10.16"), ("tensorrt-rtx", "?")]
)
def test_another_version_is_refused_with_both_sides_and_the_fix(key: str, found: str) -> None:
    expected = re.escape(SUPPORTED[key].versions)
    with pytest.raises(UnsupportedVersion, match=rf"(?s)found: +{re.escape(found)}.*expected: {expected}.*fix:"):
        check_version(key, found)


def test_an_old_gpu_and_an_old_driver_are_refused() -> None:
    check_gpu(Gpu("NVIDIA H200", "9.0", "13.0", 2**37))
    with pytest.raises(UnsupportedVersion, match=r"(?s)compute capability.*7\.5"):
        check_gpu(Gpu("NVIDIA T4", "7.5", "13.0", 2**34))
    with pytest.raises(UnsupportedVersion, match=r"(?s)driver.*12\.8"):
        check_gpu(Gpu("NVIDIA H200", "9.0", "12.8", 2**37))


def test_versions_are_checked_when_a_backend_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "VERSION", "1.30.2")
    with pytest.raises(UnsupportedVersion, match=r"ONNX Runtime"):
        open_backend("onnxruntime")
    monkeypatch.setattr(supported.platform, "python_version", lambda: "3.9.1")
    with pytest.raises(EngineUnavailable, match=r"Python"):
        open_backend("onnxruntime")


def test_the_version_of_a_builder_is_checked_when_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    library = load_binding("tensorrt-rtx").library
    monkeypatch.setattr(library, "__version__", "2.0.0")
    with pytest.raises(UnsupportedVersion, match=r"(?s)TensorRT-RTX.*2\.0\.0"):
        load_binding("tensorrt-rtx")


def test_pip_installs_the_versions_that_are_supported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert SUPPORTED["python"].versions.startswith(project["requires-python"])
    for extra, package in {"cpu": "onnxruntime", "gpu": "onnxruntime", "tensorrt": "tensorrt"}.items():
        (asked,) = (line for line in project["optional-dependencies"][extra] if line.startswith(package))
        assert asked.endswith(SUPPORTED[package].versions)
    assert f"tensorrt-rtx{SUPPORTED['tensorrt-rtx'].versions}" in project["optional-dependencies"]["tensorrt-rtx"]


def test_the_readme_prints_the_table() -> None:
    assert supported_table() in (ROOT / "README.md").read_text(encoding="utf-8")
