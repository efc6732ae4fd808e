"""A CUDA driver without a GPU: its memory is the host's, its copies are real, and no kernel ever runs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from mulo_engines.child import Report, run_in_child

__all__ = ["OnStubDriver", "compile_stub_driver", "run_task"]

OnStubDriver = Callable[..., Any]
"""`on_stub_driver(task, *arguments, **settings)`, see the fixture of this name."""

_SOURCE = Path(__file__).parent / "stub_cuda" / "fakecuda.c"


def compile_stub_driver(folder: Path) -> Path:
    """Compile the stub into `folder`, the one to put on the path of the dynamic linker."""
    library = folder / "libcuda.so.1"
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-Wl,-soname,{library.name}"]
    subprocess.run(["gcc", *flags, "-o", library, _SOURCE, "-lpthread", "-ldl"], check=True)
    return folder


def run_task(task: Callable[..., Any], *arguments: Any) -> Any:
    """The result of `task`, a function of a module of tests/, in a process of its own."""
    return run_in_child(task.__name__, partial(_call, task, arguments), lambda _: None)


def _call(task: Callable[..., Any], arguments: tuple[Any, ...], report: Report) -> Any:
    del report
    return task(*arguments)
