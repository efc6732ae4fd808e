"""Scores in several processes, each with an engine of its own: faster than threads while images are small."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from mulo_engines.errors import EngineError, MuloError

from mulo_tools.bench.scoring import Scored, Scorer, ScorerSettings, Work

__all__ = ["score_all"]


def score_all(settings: ScorerSettings, works: Sequence[Work], workers: int) -> Iterator[list[Scored]]:
    """Score `works` and yield them as they are done, in any order.

    Args:
        settings: what every process opens its scorer with.
        works: what is to be scored.
        workers: processes; 1 scores in this one.

    Raises:
        MuloError: an image could not be made, or a process died.
    """
    if workers == 1 and works:
        with Scorer(settings) as scorer:
            yield from map(scorer.score, works)
    elif works:
        yield from _score_in_processes(settings, works, min(workers, len(works)))


def _score_in_processes(settings: ScorerSettings, works: Sequence[Work], workers: int) -> Iterator[list[Scored]]:
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe() for _ in range(workers)]
    processes = [context.Process(target=_serve, args=(theirs, settings), daemon=True) for _, theirs in pipes]
    for process in processes:
        process.start()
    for _, theirs in pipes:
        theirs.close()
    try:
        yield from _distribute([ours for ours, _ in pipes], works)
    finally:
        for (ours, _), process in zip(pipes, processes, strict=True):
            ours.close()
            process.terminate()
            process.join()


def _distribute(connections: Sequence[Connection[Any, Any]], works: Sequence[Work]) -> Iterator[list[Scored]]:
    """Give every process one work, and the next as soon as it answers."""
    waiting = iter(works)
    busy = list(connections)
    for connection in connections:
        connection.send(next(waiting))
    while busy:
        ready = wait(busy)
        for connection in [one for one in busy if one in ready]:
            answer = _answer(connection)
            work = next(waiting, None)
            if work is None:
                busy.remove(connection)
            else:
                connection.send(work)
            yield answer


def _answer(connection: Connection[Any, Any]) -> list[Scored]:
    try:
        answer: list[Scored] | MuloError = connection.recv()
    except (EOFError, ConnectionResetError) as error:
        raise EngineError(
            "a scoring process died", fix="free memory, or give fewer --workers or a smaller --batch"
        ) from error
    if isinstance(answer, MuloError):
        raise answer
    return answer


def _serve(connection: Connection[Any, Any], settings: ScorerSettings) -> None:
    """Answer works until the other side hangs up; an interrupt is the parent's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Scorer(settings) as scorer:
            while True:
                connection.send(scorer.score(connection.recv()))
    except EOFError:
        return
    except MuloError as error:
        connection.send(error)
