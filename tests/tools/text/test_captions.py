"""Caption cleaning: the cleaned captions below are what LlamaGen's published code returned for them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mulo_tools.text.captions import clean_caption, clean_prompt


@pytest.mark.parametrize(
    ("caption", "cleaned"),
    [
        ("A  Red CIRCLE left of a blue square", "a red circle left of a blue square"),
        ("<person> walking", "person walking"),
        ("A <b>bold</b> cat &amp; a dog", "a bold cat a dog"),
        ("100%25 wool%20sweater+blue", "100% wool sweater blue"),
        ("see https://example.com/cat.jpg for more", "see . for more"),
        ("portrait by @artist, 4k", "portrait by , 4k"),
        ("一只猫 sits on a mat", "sits on a mat"),
        ("well — dressed – man", "well - dressed - man"),
        ("“quoted” text", '"quoted" text'),
        ("'single'", "single"),
        ("this-is-my-cute-cat picture", "this is my cute cat picture"),
        ("this_is-my cat", "this_is-my cat"),
        ("a cat #123 and #123456", "a cat and"),
        ("order 12345678 now", "order now"),
        ("IMG_2041.png of a lake", "of a lake"),
        ("free shipping worldwide", "worldwide"),
        ("free download free of icons", "of icons"),
        ("click for more cats", "cats"),
        ("png images of a tree", "of a tree"),
        ("page 12 of the book", "of the book"),
        ("jc6640 and jc6640vc and 6640vc231", "and and"),
        ("j2d1a2a thing", "thing"),
        ("a 640x480 poster", "a poster"),
        ("3.5х2 m table", "m table"),
        ("visit 192.168.0.1 today", "visit today"),
        ("line\\nbreak", "line break"),
        ("the cafÃ© in paris", "the cafã in paris"),
        ("a,b.c/d", "a, b. c d"),
        ("wait... what . now", "wait what now"),
        ("cats (two) [small] {tiny}", "cats two small tiny"),
        ("a : b", "a: b"),
        ("-dash first", "dash first"),
        (".hidden", ""),
    ],
)
def test_a_caption_is_cleaned_as_the_published_code_cleans_it(caption: str, cleaned: str) -> None:
    assert clean_caption(caption) == cleaned


@pytest.mark.parametrize(
    ("prompt", "once", "twice"),
    [("a %2540me cat", "a %40me cat", "a cat"), ("shippingx _'", "x _", "x"), ("'-1:", "-1", "1")],
)
def test_a_prompt_is_cleaned_twice(prompt: str, once: str, twice: str) -> None:
    assert (clean_caption(prompt), clean_prompt(prompt)) == (once, twice)


@given(st.text())
def test_whatever_is_written_becomes_one_lower_case_line(text: str) -> None:
    cleaned = clean_prompt(text)
    assert "\n" not in cleaned
    assert cleaned == cleaned.strip()
