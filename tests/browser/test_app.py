"""The app as a person uses it: sliders moved, numbers on the page equal to the core, no console error, state in the address."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import physics
from app.plots.roofline import rates
from app.quantities import format_quantity
from app.regimes_table import COLUMNS, unit
from app.state import Choices, from_query
from physics.regimes import REGIMES, regime_arrays

POINTS = """() => {
  const found = {}
  for (const model of Bokeh.documents[0]._all_models.values())
    if (model.type == "GlyphRenderer" && model.name && model.name.startsWith("point "))
      found[model.name.slice(6)] = [model.data_source.data.x[0], model.data_source.data.y[0]]
  return found
}"""
WAIT_MS = 15_000


class Opened:
    """A page of the app, and what its console said."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url, self.said = page, url, []
        page.on("console", lambda message: self.said.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.said.append(str(error)))
        self.foreign: list[str] = []
        page.on("request", lambda request: self.foreign.append(request.url) if "://localhost" not in request.url else None)

    def open(self, query: str = "") -> None:
        self.page.goto(self.url + query)
        expect(self.page.get_by_role("table")).to_be_visible(timeout=60_000)
        self.page.wait_for_function("() => Bokeh.documents.length && Bokeh.documents[0].is_idle", timeout=60_000)

    def slider(self, name: str) -> Any:
        return self.page.get_by_role("slider", name=re.compile("^" + name))

    def press(self, name: str, key: str, times: int = 1) -> None:
        """Keys on a slider; the address follows when the last one is released."""
        before = self.page.url
        self.slider(name).focus()
        for _ in range(times):
            self.page.keyboard.press(key)
        self.page.wait_for_function("before => location.href != before", arg=before, timeout=WAIT_MS)

    def choices(self) -> Choices:
        choices, notices = from_query(self.page.url.partition("?")[2])
        assert not notices
        return choices


@pytest.fixture
def opened(page: Page, app_url: str) -> Iterator[Opened]:
    page.set_viewport_size({"width": 1280, "height": 800})
    view = Opened(page, app_url)
    yield view
    assert view.said == []
    assert [url for url in view.foreign if not url.startswith(("data:", "blob:"))] == []


def expected_table(s: physics.Scenario) -> list[str]:
    table = physics.regimes(s)
    cells = []
    for name in REGIMES:
        for key in COLUMNS:
            value = table.loc[name, key]
            cells.append(format_quantity(float(value), unit(key)) if key != "bound" else str(value))
    return cells


def assert_page_shows(opened: Opened) -> physics.Scenario:
    """Table, roofline points and sentence equal the core for the state that the address holds."""
    s = opened.choices().scenario()
    expected = expected_table(s)
    table = opened.page.get_by_role("table")
    expect(table.get_by_role("cell").nth(0)).to_have_text(expected[0], timeout=WAIT_MS)
    for got, want in zip(table.get_by_role("cell").all_inner_texts(), expected, strict=True):
        assert got.startswith(want) if want in ("compute", "memory", "network") else got == want
    results = regime_arrays(s)
    wanted = np.stack([results["intensity_flops_per_byte"], rates(results, s.gpus_per_stage)], axis=-1)
    shown = opened.page.evaluate(POINTS)
    np.testing.assert_allclose([shown[name] for name in REGIMES], wanted, rtol=1e-5)
    sentence = opened.page.get_by_text("FLOP/B whatever the batch").first.inner_text()
    assert format_quantity(float(results["intensity_flops_per_byte"][2]), "") in sentence
    return s


SLIDERS = {
    "Context length": "context_tokens",
    "Batch size": "batch",
    "KV bytes per token": "kv_bytes_per_token",
    "Pipeline depth": "pipeline_depth",
    "New tokens": "new_tokens",
    "GPUs per stage": "gpus_per_stage",
}


def test_every_slider_moves_everything(opened: Opened) -> None:
    opened.open()
    for name, field in SLIDERS.items():
        before = opened.choices()
        opened.press(name, "ArrowLeft" if field in ("context_tokens", "batch") else "ArrowRight", 2)  # so that it keeps fitting
        after = opened.choices()
        assert {key for key, value in vars(after).items() if value != getattr(before, key)} == {field}
        assert_page_shows(opened)


def test_a_drag_follows_the_hand_and_moves_nothing_else(opened: Opened) -> None:
    opened.open()
    box = opened.slider("Batch size").bounding_box()
    assert box is not None
    mouse, y = opened.page.mouse, box["y"] + box["height"] / 2
    before = opened.page.url
    mouse.move(box["x"] + box["width"] * 0.5, y)
    mouse.down()
    for step in range(30):
        mouse.move(box["x"] + box["width"] * (0.5 - step / 100), y)
    assert opened.page.url == before  # the address waits for the release
    mouse.up()
    opened.page.wait_for_function("before => location.href != before", arg=before, timeout=WAIT_MS)
    assert opened.choices().batch < 64
    s = assert_page_shows(opened)
    intensity = physics.regimes(s).intensity_flops_per_byte["decode_attention"]
    assert intensity == pytest.approx(242, abs=0.5)  # decode attention does not move with the batch


def test_typed_values_and_a_sentence_for_nonsense(opened: Opened) -> None:
    opened.open()
    field = opened.page.get_by_role("textbox", name=re.compile("^Context length"))
    field.fill("200k")
    field.press("Enter")
    opened.page.wait_for_function("() => location.href.includes('context_tokens=200000')", timeout=WAIT_MS)
    assert_page_shows(opened)
    field.fill("plenty")
    field.press("Enter")
    expect(opened.page.get_by_text("is not a number")).to_be_visible(timeout=WAIT_MS)
    assert opened.choices().context_tokens == 200_000


def test_reload_restores_the_state(opened: Opened) -> None:
    opened.open("?preset=short-chat&batch=48&kv_dtype=fp8")
    s = assert_page_shows(opened)
    assert (s.batch, s.kv_dtype) == (48, "fp8")
    opened.press("Context length", "ArrowLeft")
    address = opened.page.url
    opened.page.reload()
    expect(opened.page.get_by_role("table")).to_be_visible(timeout=60_000)
    assert opened.page.url == address
    assert assert_page_shows(opened).batch == 48


def test_a_link_edited_by_hand_keeps_what_is_sound(opened: Opened) -> None:
    opened.open("?batch=-3&context_tokens=65536&foo=%3Cscript%3E")
    expect(opened.page.get_by_text("batch: -3 is not a whole number")).to_be_visible(timeout=WAIT_MS)
    expect(opened.page.get_by_text("'<script>'").or_(opened.page.get_by_text("'foo' is not a field")).first).to_be_visible()
    assert opened.slider("Context length").get_attribute("aria-valuetext") == "65,536 tokens"


def test_a_cell_explains_itself(opened: Opened) -> None:
    opened.open()
    opened.page.get_by_role("button", name="142 TFLOP").or_(opened.page.get_by_role("button", name="143 TFLOP")).first.click()
    expect(opened.page.get_by_text("Decode attention: ", exact=False).first).to_be_visible(timeout=WAIT_MS)
    expect(opened.page.get_by_text("64·61·(1·131 072 + 1·(1 + 1)/2)·278 528", exact=False)).to_be_visible(timeout=WAIT_MS)


def test_what_does_not_fit_is_said_and_has_no_speed(opened: Opened) -> None:
    opened.open("?gpus_per_stage=1&batch=1")
    expect(opened.page.get_by_text("needs at least").first).to_be_visible(timeout=WAIT_MS)
    texts = opened.page.get_by_role("table").get_by_role("cell").all_inner_texts()
    place = COLUMNS.index("roofline_s")
    assert [texts[i * len(COLUMNS) + place] for i in range(5)] == ["–"] * 5
    sentence = "Does not fit: weights 671 GB + KV 9.21 GB per stage of 141 GB: needs at least 5 GPUs per stage."
    assert sentence in opened.page.locator(".sentence").first.inner_text()


def test_pin_and_preset_and_pages(opened: Opened) -> None:
    opened.open()
    opened.page.get_by_role("button", name="Pin", exact=True).click()
    opened.press("Batch size", "ArrowRight", 3)
    opened.page.get_by_role("tab", name="Pipeline").or_(opened.page.get_by_text("Pipeline", exact=True)).first.click()
    expect(opened.page.get_by_text("What must one stage hold?")).to_be_visible(timeout=WAIT_MS)
    opened.page.wait_for_function("() => location.href.includes('page=pipeline')", timeout=WAIT_MS)
    opened.press("Pipeline depth", "ArrowRight", 3)
    expect(opened.page.get_by_text(re.compile("With \\d+ stages a stage holds")).first).to_be_visible(timeout=WAIT_MS)


def test_dark_and_narrow_have_no_sideways_scrolling(opened: Opened) -> None:
    for width in (1280, 768):
        opened.page.set_viewport_size({"width": width, "height": 800})
        opened.open()
        assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    opened.page.locator('button[aria-label*="theme" i]').first.click()
    expect(opened.page.locator(".mui-dark").first).to_be_attached(timeout=WAIT_MS)
    backgrounds = """() => [...Bokeh.documents[0]._all_models.values()].filter(m => m.type == 'Figure').map(m => m.background_fill_color)"""
    opened.page.wait_for_function(f"() => ({backgrounds})().every(color => color != '#FFFFFF')", timeout=WAIT_MS)


@pytest.mark.skipif("MIDFILL_PICTURE" not in os.environ, reason="set MIDFILL_PICTURE to make the README's picture anew")
def test_picture_of_the_readme(opened: Opened) -> None:
    opened.page.set_viewport_size({"width": 1280, "height": 1240})
    opened.open()
    opened.page.wait_for_timeout(1500)
    opened.page.screenshot(path=str(Path(__file__).parents[2] / "app" / "static" / "regimes.png"))
