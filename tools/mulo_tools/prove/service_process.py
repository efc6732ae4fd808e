"""`mulo serve` in a process of its own, on a core of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from mulo_engines.errors import MuloError

__all__ = ["ServiceProcess", "running_service"]

_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class ServiceProcess:
    """A service that is ready.

    Attributes:
        process: its process; what it logs goes to the file that it was started with.
        url: its address.
    """

    process: subprocess.Popen[bytes]
    url: str

    def resident_bytes(self) -> int:
        """Bytes of the process that are in memory now."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1]) * _PAGE


@contextmanager
def running_service(
    bundle: Path, options: Sequence[str], log: Path, *, core: int | None = None, patience: float = 120.0
) -> Iterator[ServiceProcess]:
    """Serve `bundle` on a free port; ready on entry, ended by SIGTERM on leaving.

    Args:
        bundle: the bundle's folder.
        options: further options of `mulo serve`.
        log: the file that takes its log lines.
        core: the core that it runs on; None takes any.
        patience: seconds to wait until it is ready, and until it has ended.

    Raises:
        MuloError: it did not become ready.
    """
    port = _free_port()
    command = [sys.executable, "-c", "from mulo_tools.cli import main; main()", "serve", str(bundle)]
    if core is not None:
        command = ["taskset", "--cpu-list", str(core), *command]
    with log.open("wb") as lines:
        process = subprocess.Popen([*command, "--port", str(port), *options], stderr=lines)
    service = ServiceProcess(process, f"http://127.0.0.1:{port}")
    try:
        _wait_ready(service, patience, log)
        yield service
        process.terminate()
        process.wait(patience)
    finally:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _wait_ready(service: ServiceProcess, patience: float, log: Path) -> None:
    until = time.monotonic() + patience
    while not _is_ready(service.url):
        if service.process.poll() is not None or time.monotonic() > until:
            told = log.read_text(encoding="utf-8", errors="replace")[-2000:]
            raise MuloError("the service did not become ready", found=told, expected=f"ready within {patience:g} s")
        time.sleep(0.1)


def _is_ready(url: str) -> bool:
    try:
        with urlopen(f"{url}/readyz", timeout=10) as answer:
            return bool(answer.status == 200)
    except (URLError, ConnectionError, TimeoutError):
        return False
