"""What a service allows."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a service.

    Attributes:
        images: n of one request.
        deadline: seconds from a request's arrival to its last image; what a request asks for is cut to it.
        body_bytes: bytes of a request's body.
        body_seconds: seconds for a request's body to arrive.
        send_seconds: seconds that a reader may leave a full connection unread.
        silence_seconds: seconds without a pass after which a lane that is at work counts as stuck.
        drain_seconds: seconds that accepted requests have left after SIGTERM.
        connections: open connections; what comes above is answered with 503.
    """

    images: int = 4
    deadline: float = 60.0
    body_bytes: int = 64 * 1024
    body_seconds: float = 10.0
    send_seconds: float = 30.0
    silence_seconds: float = 60.0
    drain_seconds: float = 30.0
    connections: int = 512
