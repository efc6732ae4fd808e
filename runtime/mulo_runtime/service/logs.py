"""Log lines that machines read: one JSON object each."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

__all__ = ["JsonLines", "configure_logs"]


class JsonLines(logging.Formatter):
    """Formats a record as JSON; what is passed as `extra={"fields": {...}}` becomes members of the object."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        told = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False, default=str)


def configure_logs(level: str) -> None:
    """Send every log line of this process to stderr as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
