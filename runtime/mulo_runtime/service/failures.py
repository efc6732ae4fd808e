"""What goes wrong, as HTTP says it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mulo_engines.errors import Busy, Cancelled, DeadlineExceeded, MuloError, PipelineClosed, PromptError, RequestError

from mulo_runtime.service.schema import ErrorBody, ErrorResponse

__all__ = ["Failure", "failure_of", "invalid_field", "plain_failure"]


@dataclass(frozen=True, slots=True)
class Failure:
    """An answer that is not 2xx.

    Attributes:
        status: the HTTP status.
        body: what went wrong.
        retry: whether the same request may succeed later.
    """

    status: int
    body: ErrorResponse
    retry: bool = False


_STATUSES: Sequence[tuple[type[MuloError], int, str, bool]] = (
    (PromptError, 400, "prompt", False),
    (RequestError, 400, "request", False),
    (Busy, 429, "busy", True),
    (Cancelled, 499, "cancelled", False),
    (DeadlineExceeded, 504, "deadline", True),
    (PipelineClosed, 503, "closed", True),
    (MuloError, 500, "engine", False),
)


def failure_of(error: MuloError) -> Failure:
    """The answer that tells `error`."""
    for kind, status, code, retry in _STATUSES:
        if isinstance(error, kind):
            return plain_failure(status, code, str(error), "prompt" if kind is PromptError else None, retry=retry)
    raise AssertionError("every error is a MuloError")


def invalid_field(errors: Sequence[Any]) -> Failure:
    """The answer that tells the first of pydantic's `errors`, by the field's name."""
    first = errors[0]
    field = ".".join(str(part) for part in first["loc"] if part != "body")
    if first["type"] == "extra_forbidden":
        return plain_failure(400, "unsupported_field", f"the field {field!r} is not supported", field)
    if first["type"] == "json_invalid":
        return plain_failure(400, "json", f"the body is not JSON: {first['ctx']['error']}")
    return plain_failure(400, "invalid_field", f"the field {field!r} is refused: {first['msg']}", field or None)


def plain_failure(status: int, code: str, message: str, param: str | None = None, *, retry: bool = False) -> Failure:
    """An answer in OpenAI's form."""
    kind = "invalid_request_error" if status < 429 else "rate_limit_error" if status == 429 else "server_error"
    return Failure(status, ErrorResponse(error=ErrorBody(message=message, type=kind, param=param, code=code)), retry)
