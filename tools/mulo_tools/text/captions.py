"""The caption cleaning that LlamaGen's text-conditional models were trained with; PixArt took it from DeepFloyd IF."""

from __future__ import annotations

import html
import re
import warnings
from collections.abc import Iterable
from urllib.parse import unquote_plus

import ftfy
from bs4 import BeautifulSoup, MarkupResemblesLocatorWarning

__all__ = ["clean_caption", "clean_prompt"]

Substitution = tuple[str, str]
"""A regular expression, and what replaces every match."""

_DOMAIN = r"[a-zA-Z0-9.\-]+[.](?:com|co|ru|net|org|edu|gov|it)[\w/-]*\b/?(?!@)"
_FILE_TYPE = "(?:png|jpg|jpeg|bmp|webp|eps|pdf|apk|mp4)"
_DASHES = (
    "-\u058a\u05be\u1400\u1806\u2010-\u2015\u2e17\u2e1a\u2e3a\u2e3b\u2e40\u301c\u3030\u30a0"
    "\ufe31\ufe32\ufe58\ufe63\uff0d"
)
_MANY_DASHES = 3
"""With more dashes and underscores than this, a caption is taken for a file name, whose words they separate."""

_ADDRESSES: tuple[Substitution, ...] = (
    ("<person>", "person"),
    *((rf"\b(?:{scheme}:(?:/{{1,3}}|[a-zA-Z0-9%])|{_DOMAIN})", "") for scheme in ("https?", "www")),
)
_SIGNS: tuple[Substitution, ...] = (
    (r"@\w+\b", ""),
    ("[\u31c0-\u9fff]+", ""),  # ideographs
    (f"[{_DASHES}]+", "-"),
    ("[`´«»“”¨]", '"'),
    ("[‘’]", "'"),
    ("&quot;?", ""),
    ("&amp", ""),
    (r"\d{1,3}(?:\.\d{1,3}){3}", " "),  # IP addresses
    (r"\d:\d\d\s+$", ""),
    (r"\\n", " "),
    (r"#\d{1,3}\b", ""),
    (r"#\d{5,}\b", ""),
    (r"\b\d{6,}\b", ""),
    (rf"\S+\.{_FILE_TYPE}", ""),
    ("[\"']{2,}", '"'),
    (r"\.{2,}", " "),
    (r"[#®•©™&@·º½¾¿¡§~)(\]\[}{|\\/*]+", " "),
    (r"\s+\.\s+", " "),
)
_WORDS: tuple[Substitution, ...] = (
    (r"\b[a-zA-Z]{1,3}\d{3,15}\b", ""),
    (r"\b[a-zA-Z]+\d+[a-zA-Z]+\b", ""),
    (r"\b\d+[a-zA-Z]+\d+\b", ""),
    (r"(?:worldwide\s+)?(?:free\s+)?shipping", ""),
    (r"(?:free\s)?download(?:\sfree)?", ""),
    (r"\bclick\b\s(?:for|on)\s\w+", ""),
    (rf"\b{_FILE_TYPE}(?:\simages?)?", ""),
    (r"\bpage\s+\d+\b", ""),
    (r"\b\d*[a-zA-Z]+\d+[a-zA-Z]+\d+[a-zA-Z\d]*\b", " "),
    (r"\b\d+\.?\d*[xх×]\d+\.?\d*\b", ""),  # sizes such as 640x480; the second x is Cyrillic
    (r"\b\s+:\s+", ": "),
    (r"(\D[,./])\b", r"\1 "),
    (r"\s+", " "),
    (r"^[\"']([\w\W]+)[\"']$", r"\1"),
    ("^['_,\\-:;]", ""),
    ("['_,\\-:+]$", ""),
    (r"^\.\S+$", ""),
)


def clean_prompt(text: str) -> str:
    """`text` as the models were trained to read it: cleaned twice, for cleaning can uncover what is cleaned."""
    return clean_caption(clean_caption(text))


def clean_caption(text: str) -> str:
    """`text` in lower case without addresses, markup, handles, ideographs, file names, and odd signs."""
    text = _substituted(unquote_plus(text).strip().lower(), _ADDRESSES)
    text = _substituted(_without_markup(text), _SIGNS)
    if len(re.findall("[-_]", text)) > _MANY_DASHES:
        text = re.sub("[-_]", " ", text)
    text = html.unescape(html.unescape(ftfy.fix_text(text))).strip()
    return _substituted(text, _WORDS).strip()


def _substituted(text: str, substitutions: Iterable[Substitution]) -> str:
    for pattern, replacement in substitutions:
        text = re.sub(pattern, replacement, text)
    return text


def _without_markup(text: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MarkupResemblesLocatorWarning)  # a caption is never a path to open
        return BeautifulSoup(text, "html.parser").text
