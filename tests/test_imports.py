"""Who may import whom: the four packages, the libraries that each module may use, and no circles."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = {
    "mulo_engines": ROOT / "engines",
    "mulo_runtime": ROOT / "runtime",
    "mulo_export": ROOT / "export",
    "mulo_tools": ROOT / "tools",
}
MAY_IMPORT = {
    "mulo_engines": set[str](),
    "mulo_runtime": {"mulo_engines"},
    "mulo_export": {"mulo_engines"},
    "mulo_tools": {"mulo_engines", "mulo_runtime", "mulo_export"},
}
EVERYWHERE = {"numpy", "safetensors", "click", "rich", "PIL"}
ONLY_IN = {
    "onnx": ["mulo_export.graphs.builder"],
    "onnxruntime": ["mulo_engines.onnxruntime.cuda_engine", "mulo_engines.onnxruntime.engine"],
    "torch": [
        "mulo_export.checkpoints.torch_file",
        "mulo_tools.bench.torch_baseline",
        "mulo_tools.evaluate.clip_score",
        "mulo_tools.evaluate.distances",
        "mulo_tools.evaluate.inception",
        "mulo_tools.reference.classifier",
        "mulo_tools.reference.eagle",
        "mulo_tools.reference.evaluate",
        "mulo_tools.reference.gpt",
        "mulo_tools.reference.muon",
        "mulo_tools.reference.sample",
        "mulo_tools.reference.train",
        "mulo_tools.reference.train_classifier",
        "mulo_tools.reference.train_eagle",
        "mulo_tools.reference.train_gpt",
        "mulo_tools.reference.train_upsampler",
        "mulo_tools.reference.train_vq",
        "mulo_tools.reference.training",
        "mulo_tools.reference.upsampler",
        "mulo_tools.reference.vq",
        "mulo_tools.reference.weights_file",
        "mulo_tools.text.hub_models",
    ],
    "transformers": ["mulo_tools.evaluate.clip_score", "mulo_tools.text.hub_models"],
    "ftfy": ["mulo_tools.text.captions"],
    "bs4": ["mulo_tools.text.captions"],
    "tensorrt": ["mulo_engines.tensorrt.binding"],
    "tensorrt_rtx": ["mulo_engines.tensorrt.binding"],
    "cuda": ["mulo_engines.cuda.stream", "mulo_engines.cuda.gpu"],
    "ml_dtypes": ["mulo_export.quantize_for_tensorrt"],
    "fastapi": ["mulo_runtime.service.app", "mulo_runtime.service.event_stream"],
    "starlette": ["mulo_runtime.service.app", "mulo_runtime.service.served"],
    "uvicorn": ["mulo_runtime.service.server"],
    "prometheus_client": ["mulo_runtime.service.metrics"],
    "opentelemetry": ["mulo_runtime.service.tracing"],
    "pydantic": [
        "mulo_export.calibration",
        "mulo_engines.manifest",
        "mulo_engines.tensorrt.record",
        "mulo_runtime.scale_out.ray_serve",
        "mulo_runtime.service.bundle_card",
        "mulo_runtime.service.image_requests",
        "mulo_runtime.service.schema",
        "mulo_tools.bench.report",
        "mulo_tools.machine",
        "mulo_tools.profile.report",
    ],
    "polygraphy": ["mulo_tools.profile.polygraphy_runner"],
    "packaging": ["mulo_engines.supported"],
    "ray": ["mulo_runtime.scale_out.ray_serve", "mulo_tools.offline.ray_data"],
    "triton_python_backend_utils": ["mulo_runtime.scale_out.triton_model"],
    "filelock": ["mulo_tools.offline.folder", "mulo_engines.tensorrt.timing_cache", "mulo_export.publish"],
    "locust": ["mulo_tools.prove.locustfile"],
    "httpx": ["mulo_tools.prove.storm", "mulo_tools.prove.storm_clients"],
    "torchmetrics": ["mulo_tools.evaluate.distances"],
    "matplotlib": ["mulo_tools.bench.frontier"],
    "scipy": ["mulo_tools.bench.texture", "mulo_tools.predict.fit", "mulo_tools.reference.judge"],
}
"""The modules that may import a library; one that is not listed here is imported nowhere."""

Sources = Mapping[str, str]
"""Source text by module name."""


def read_sources(packages: Mapping[str, Path]) -> dict[str, str]:
    """Every module of the packages."""
    sources = {}
    for package, folder in packages.items():
        for file in sorted((folder / package).rglob("*.py")):
            parts = file.relative_to(folder).with_suffix("").parts
            sources[".".join(parts).removesuffix(".__init__")] = file.read_text(encoding="utf-8")
    return sources


def imports(source: str, modules: Sequence[str] | set[str]) -> Iterator[str]:
    """What a module imports, wherever in it: full names of `modules` as far as they are modules, else what is written.

    A relative import is given with its dots.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield inner if inner in modules else base
        elif isinstance(node, ast.Call) and _called(node) in ("import_module", "__import__"):
            yield from (arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str))


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def package_faults(sources: Sources) -> list[str]:
    """Imports of one package by another that may not."""
    faults = []
    for module, source in sources.items():
        own = module.split(".")[0]
        for name in imports(source, sources.keys()):
            other = name.split(".")[0]
            if name.startswith(".") or (other in MAY_IMPORT and other != own and other not in MAY_IMPORT[own]):
                faults.append(f"{module} imports {name}")
    return faults


def library_faults(sources: Sources) -> list[str]:
    """Imports of a library by a module that may not."""
    free = EVERYWHERE | sys.stdlib_module_names | MAY_IMPORT.keys()
    return [
        f"{module} imports {library}"
        for module, source in sources.items()
        for library in sorted({name.split(".")[0] for name in imports(source, sources.keys())} - free)
        if library and module not in ONLY_IN.get(library, [])
    ]


def cycle(sources: Sources) -> list[str]:
    """A circle of modules that import each other, or nothing."""
    graph = {module: set(imports(source, sources.keys())) & sources.keys() for module, source in sources.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.fixture(scope="module")
def sources() -> dict[str, str]:
    return read_sources(PACKAGES)


def test_every_package_has_modules(sources: Sources) -> None:
    assert {module.split(".")[0] for module in sources} == PACKAGES.keys()
    assert {"mulo_engines.errors", "mulo_export.graphs.builder", "mulo_engines.onnxruntime"} <= sources.keys()


def test_packages_import_only_those_below_them(sources: Sources) -> None:
    assert package_faults(sources) == []


def test_libraries_are_imported_only_where_they_may_be(sources: Sources) -> None:
    assert library_faults(sources) == []


def test_every_module_that_may_import_a_library_does(sources: Sources) -> None:
    listed = [(library, module) for library, modules in ONLY_IN.items() for module in modules]
    unused = [
        (library, module)
        for library, module in listed
        if library not in {name.split(".")[0] for name in imports(sources.get(module, ""), sources.keys())}
    ]
    assert unused == []


def test_modules_do_not_import_in_circles(sources: Sources) -> None:
    assert cycle(sources) == []


def test_engines_and_runtime_load_without_the_libraries_of_export(sources: Sources) -> None:
    optional = ("service", "scale_out", "tensorrt")
    modules = [
        name
        for name in sources
        if name.startswith(("mulo_engines", "mulo_runtime")) and not any(part in name for part in optional)
    ]
    script = f"import sys, {', '.join(modules)}; print(*sys.modules.keys() & {{'torch', 'onnx', 'onnxscript'}})"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert result.stdout == "\n"


@pytest.mark.parametrize(
    ("module", "source", "fault"),
    [
        ("mulo_engines.a", "from mulo_runtime.b import c", "mulo_engines.a imports mulo_runtime.b"),
        ("mulo_runtime.a", "def f():\n    import mulo_export", "mulo_runtime.a imports mulo_export"),
        (
            "mulo_export.a",
            "import importlib\nimportlib.import_module('mulo_runtime')",
            "mulo_export.a imports mulo_runtime",
        ),
        ("mulo_export.a", "from mulo_tools import b", "mulo_export.a imports mulo_tools"),
        ("mulo_engines.a", "from .b import c", "mulo_engines.a imports .b"),
    ],
)
def test_a_wrong_import_of_a_package_would_be_found(module: str, source: str, fault: str) -> None:
    assert package_faults({module: source}) == [fault]


@pytest.mark.parametrize(
    ("module", "source", "fault"),
    [
        ("mulo_engines.a", "import torch.nn", "mulo_engines.a imports torch"),
        ("mulo_export.a", "from onnx import helper", "mulo_export.a imports onnx"),
        ("mulo_runtime.a", "if x:\n    import onnxruntime as ort", "mulo_runtime.a imports onnxruntime"),
        ("mulo_tools.a", "import pandas", "mulo_tools.a imports pandas"),
    ],
)  # fmt: skip
def test_a_wrong_import_of_a_library_would_be_found(module: str, source: str, fault: str) -> None:
    assert library_faults({module: source}) == [fault]
    assert library_faults({module: "import json\nimport numpy as np\nfrom mulo_engines import errors"}) == []


def test_a_circle_would_be_found() -> None:
    circle = {
        "mulo_engines.a": "from mulo_engines import b",
        "mulo_engines.b": "def f():\n    from mulo_engines.c import x",
        "mulo_engines.c": "import mulo_engines.a",
    }
    assert set(cycle(circle)) == circle.keys()
    assert cycle({**circle, "mulo_engines.c": "import mulo_engines.d"}) == []
