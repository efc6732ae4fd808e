"""The files of the page, read once; nothing else of the package can be asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

__all__ = ["PAGE_HEADERS", "PageFile", "page_files"]

_MEDIA_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

PAGE_HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
"""Nothing from elsewhere is loaded, and nobody frames the page."""


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file as it is sent."""

    content: bytes
    media_type: str


def page_files() -> Mapping[str, PageFile]:
    """The files by path; "/" is the page itself."""
    found = {}
    for file in (files("mulo_runtime.service") / "page").iterdir():
        suffix = file.name[file.name.rfind(".") :]
        path = "/" if file.name == "index.html" else f"/{file.name}"
        found[path] = PageFile(file.read_bytes(), _MEDIA_TYPES[suffix])
    return found
