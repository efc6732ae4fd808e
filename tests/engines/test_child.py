"""A task in a process of its own: its result, its progress, its errors, and its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from child_tasks import add, be_killed, die, refuse
from mulo_engines.child import Progress, run_in_child
from mulo_engines.errors import EngineError, OutOfMemory, ShapeError

TESTS = Path(__file__).parent.parent
WAIT = 60.0

_PARENT = """
import sys
from functools import partial
from child_tasks import sleep_after_writing
from mulo_engines.child import run_in_child
if __name__ == "__main__":
    run_in_child("sleeping", partial(sleep_after_writing, sys.argv[1]), lambda _: None)
"""


def test_the_result_and_the_progress_come_back() -> None:
    told: list[Progress] = []
    assert run_in_child("adding", partial(add, 2, 3), told.append) == 5
    assert told == [Progress("adding", 1, 2), Progress("adding", 2, 2)]


def test_an_error_of_the_task_is_raised_as_it_was() -> None:
    with pytest.raises(ShapeError, match=r"(?s)refused.*found:    7.*expected: 8") as caught:
        run_in_child("refusing", refuse, lambda _: None)
    assert (caught.value.found, caught.value.expected) == (7, 8)


def test_a_process_that_the_system_kills_is_taken_to_have_lacked_memory() -> None:
    with pytest.raises(OutOfMemory, match="being killed: the process was killed"):
        run_in_child("being killed", be_killed, lambda _: None)


def test_a_process_that_dies_otherwise_leaves_its_last_words() -> None:
    with pytest.raises(EngineError, match=r"(?s)dying: the process died.*exit code 3; last words"):
        run_in_child("dying", die, lambda _: None)


def test_the_process_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    written = tmp_path / "pid"
    script = tmp_path / "parent.py"
    script.write_text(_PARENT)
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    with subprocess.Popen([sys.executable, str(script), str(written)], env=environment) as parent:
        _wait_until(lambda: written.exists() and bool(written.read_text()))
        parent.send_signal(signal.SIGKILL)
    pid = written.read_text()
    _wait_until(lambda: not Path("/proc", pid).exists() or ") Z " in Path("/proc", pid, "stat").read_text())


def _wait_until(condition: object) -> None:
    assert callable(condition)
    end = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
