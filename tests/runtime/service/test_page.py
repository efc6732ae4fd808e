"""The page, clicked through in headless Chromium as a visitor would."""

from __future__ import annotations

import base64
import io
import re
import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from mulo_runtime import AutoRegressive, Prompt, Request
from PIL import Image
from pipelines import MakePipeline
from playwright.sync_api import Browser, Page, expect, sync_playwright
from serving import Service, serving

PHONE = {"width": 360, "height": 740}
DONE = re.compile("^Done")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    assert chromium is not None, "the page is tested in Chromium: apt-get install chromium"
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield running
        running.close()


@pytest.fixture
def page(browser: Browser, service: Service) -> Iterator[Page]:
    """The page, open; whatever it asks elsewhere and every error of its scripts fails the test."""
    context = browser.new_context()
    opened, asked, errors = context.new_page(), list[str](), list[str]()
    opened.on("request", lambda request: asked.append(request.url))
    opened.on("pageerror", lambda error: errors.append(str(error)))
    visit(opened, service)
    yield opened
    context.close()
    assert [url for url in asked if not url.startswith((service.url, "data:"))] == []
    assert errors == []


def visit(page: Page, service: Service, query: str = "") -> None:
    page.goto(f"{service.url}/{query}")
    expect(page.locator("#examples button").first).to_be_visible()


def draw(page: Page) -> None:
    page.locator("#draw").click()
    expect(page.locator("#status")).to_have_text(DONE, timeout=30_000)


def pixels(page: Page, name: str) -> Any:
    """What the canvas shows, at the image's own size."""
    encoded = page.locator(f"#{name}-canvas").evaluate("canvas => canvas.toDataURL()")
    with Image.open(io.BytesIO(base64.b64decode(encoded.split(",")[1]))) as picture:
        return np.asarray(picture.convert("RGB"))[8::16, 8::16]


def test_a_race_shows_both_images_of_one_seed_and_who_won(page: Page, service: Service) -> None:
    page.locator("#seed").fill("7")
    draw(page)
    expect(page.locator("#verdict")).to_contain_text("instead of 64 passes of the large model")
    prompt = Prompt(page.locator("#prompt").input_value())
    method = service.pipeline.method.with_changes(rows_per_round=1, tau=0.1, radius=1, window=4)
    for name, decoding in (("mulo", method), ("plain", AutoRegressive())):
        assert (pixels(page, name) == service.pipeline.generate(Request(prompt, 7, decoding)).image).all(), name
    for figure in ("time", "target passes", "accepted"):
        expect(page.locator("#mulo-figures")).to_contain_text(figure)
    expect(page.locator("#phases")).to_have_attribute("aria-label", re.compile("draft .* verify .* decode"))
    expect(page.locator(".panel.won")).to_have_count(1)


def test_draft_verified_rows_and_lit_islands_are_shown_in_turn(page: Page) -> None:
    page.locator("#tau").fill("-0.5")
    page.locator("#pace").select_option("8")
    page.evaluate("""() => {
        window.shown = new Set();
        const note = () => window.shown.add(document.getElementById("mulo-canvas").getAttribute("aria-label"));
        new MutationObserver(note).observe(
            document.getElementById("mulo-canvas"), { attributes: true, attributeFilter: ["aria-label"] });
    }""")
    draw(page)
    shown = " | ".join(page.evaluate("() => [...window.shown]"))
    assert "Draft of 4 rows at low resolution" in shown
    assert re.search(r"2 of 8 rows verified, [1-9]\d* tokens lit to be resampled", shown)
    assert "2 of 8 rows final" in shown
    assert shown.endswith("Finished image, verified")


def test_a_link_reproduces_the_image_with_all_its_settings(page: Page, service: Service) -> None:
    page.locator("#tau").fill("-0.7")
    page.locator("#radius").fill("2")
    page.locator("#window").fill("2")
    page.locator("#race").uncheck()
    page.locator("#dice").click()
    draw(page)
    image, query = pixels(page, "mulo"), page.url.partition("?")[2]
    assert {"tau=0.2", "radius=2", "window=2", "race=0"} <= set(query.split("&"))
    assert page.locator("#link").get_attribute("href") == page.url
    other = page.context.new_page()
    other.goto(page.url)
    expect(other.locator("#status")).to_have_text(DONE, timeout=30_000)
    assert (pixels(other, "mulo") == image).all()
    expect(other.locator("#plain-panel")).to_be_hidden()
    with other.expect_download() as download:
        other.locator("#download").click()
    with Image.open(download.value.path()) as file:
        assert (np.asarray(file) == image).all()


def test_words_that_the_bundle_knows_are_suggested_and_others_are_refused(page: Page) -> None:
    page.locator("#prompt").fill("red ci")
    expect(page.locator("#words button")).to_have_text(["circle"])
    page.locator("#words button").click()
    expect(page.locator("#prompt")).to_have_value("red circle ")
    expect(page.locator("#words button")).to_have_count(6)
    page.locator("#prompt").fill("a mauve circle")
    expect(page.locator("#prompt-note")).to_contain_text("“mauve”")
    page.locator("#draw").click()
    expect(page.locator("#status.bad")).to_contain_text("“mauve”")


def test_everything_is_done_by_keyboard(page: Page) -> None:
    page.locator("#prompt").focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("blue sq")
    page.keyboard.press("Tab")
    expect(page.locator("#words button")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#prompt")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#status")).to_have_text(DONE, timeout=30_000)
    page.locator("#radius").focus()
    before = page.locator("#radius-value").inner_text()
    page.keyboard.press("ArrowRight")
    assert page.locator("#radius-value").inner_text() != before
    for control in ("#draw", "#again", "#tau", "#seed", "#pace", "#copy", "#link"):
        page.locator(control).focus()
        expect(page.locator(control)).to_be_focused()


def test_a_drawing_is_stopped_and_its_lane_is_free(page: Page, service: Service) -> None:
    held = [service.pipeline._pool.lease(service.pipeline._pool.enter()) for _ in range(2)]
    for lease in held:
        lease.__enter__()
    page.locator("#draw").click()
    expect(page.locator("#draw")).to_have_text("Stop")
    page.keyboard.press("Escape")
    expect(page.locator("#status")).to_have_text("Stopped.")
    for lease in held:
        lease.__exit__(None, None, None)
    service.wait_idle()
    draw(page)


def test_on_a_phone_nothing_overflows_and_everything_can_be_hit(browser: Browser, service: Service) -> None:
    context = browser.new_context(viewport=PHONE, has_touch=True, is_mobile=True)  # type: ignore[arg-type]
    page = context.new_page()
    visit(page, service)
    page.locator("#examples button").nth(1).tap()
    expect(page.locator("#status")).to_have_text(DONE, timeout=30_000)
    expect(page.locator("#prompt")).to_have_value("a blue circle")
    assert page.evaluate("() => document.documentElement.scrollWidth") == PHONE["width"]
    for control in page.locator("button:visible, select:visible, input:visible").all():
        box = control.bounding_box()
        assert box is not None
        assert box["height"] >= 20
    context.close()


def test_a_full_queue_and_a_missing_token_are_told(browser: Browser, open_pipeline: MakePipeline) -> None:
    pipeline = open_pipeline(queue=0)
    page = browser.new_page()
    with serving(pipeline, token="a-secret") as service:
        page.goto(service.url)
        expect(page.locator("#token")).to_be_focused()
        page.locator("#token").fill("a-secret")
        page.locator("#prompt").fill("red circle")
        page.locator("#draw").click()
        expect(page.locator("#examples button").first).to_be_visible()
        expect(page.locator("#token")).to_be_hidden()
        with pipeline._pool.lease(pipeline._pool.enter()):
            page.locator("#draw").click()
            expect(page.locator("#status.bad")).to_contain_text("Try again in")
        draw(page)
    page.close()


def test_a_class_is_typed_as_its_number(browser: Browser, open_pipeline: MakePipeline) -> None:
    page = browser.new_page()
    with serving(open_pipeline(text=False)) as service:
        page.goto(service.url)
        expect(page.locator("#prompt")).to_have_attribute("placeholder", "a class, 0 to 4")
        page.locator("#prompt").fill("3")
        draw(page)
    page.close()


def test_scripts_from_elsewhere_are_forbidden(service: Service) -> None:
    policy = service.get("/").headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
