"""The Energy page in a browser: its own sliders and selects move pictures, sentence, tables and address."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import physics
from app import sentences_energy as sentences
from app.energy import BANKS, DISTANCES
from app.state import Choices, Snapshot, from_query

WAIT_MS = 20_000
SOURCE = """name => {
  for (const model of Bokeh.documents[0]._all_models.values())
    if (model.type == "GlyphRenderer" && model.name == name) {
      const data = model.data_source.data
      return Object.fromEntries(Object.keys(data).map(key => [key, Array.from(data[key])]))
    }
}"""


class Energy:
    """The page, and what its console said."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url, self.said = page, url, []
        page.on("console", lambda message: self.said.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.said.append(str(error)))

    def open(self, query: str = "") -> None:
        self.page.goto(f"{self.url}?page=energy{query}")
        expect(self.page.get_by_text("Where do the joules of a token go?")).to_be_visible(timeout=60_000)
        self.page.wait_for_function("() => Bokeh.documents.length && Bokeh.documents[0].is_idle", timeout=60_000)

    def press(self, name: str, key: str, times: int = 1) -> None:
        before = self.page.url
        self.page.get_by_role("slider", name=re.compile("^" + name)).focus()
        for _ in range(times):
            self.page.keyboard.press(key)
        self.page.wait_for_function("before => location.href != before", arg=before, timeout=WAIT_MS)

    def choose(self, label: str, option: str) -> None:
        """A select of the page; the sidebar has one of the same name, folded away."""
        self.page.get_by_role("combobox", name=label).locator("visible=true").click()
        self.page.get_by_role("menuitem", name=option, exact=True).click()

    def snapshot(self) -> Snapshot:
        choices, notices = from_query(self.page.url.partition("?")[2])
        assert not notices
        return Snapshot(choices, choices.scenario())

    def source(self, name: str) -> dict[str, Any]:
        found = self.page.evaluate(SOURCE, name)
        return {key: np.array(values, float) if key not in ("text",) else values for key, values in found.items()}

    def agrees(self) -> Snapshot:
        """Sentence, lines and map equal the core for the state that the address holds."""
        s = self.snapshot()
        words = sentences.experts(s).replace("**", "")
        expect(self.page.get_by_text(words[:90])).to_be_visible(timeout=WAIT_MS)
        for name in ("memory_j", "sram_j"):
            np.testing.assert_allclose(self.source(name)["y"], s.energy.curves[name], rtol=1e-5)
        ratios, _ = physics.advantage_map(s.scenario, s.choices.sram_experts(), BANKS, DISTANCES)
        np.testing.assert_allclose(np.sort(self.source("map")["z"]), np.sort(np.log10(ratios).ravel()), rtol=1e-4, atol=1e-5)
        return s


@pytest.fixture
def opened(page: Page, app_url: str) -> Iterator[Energy]:
    page.set_viewport_size({"width": 1280, "height": 2400})  # everything in view, so that everything is pushed at once
    view = Energy(page, app_url)
    yield view
    assert view.said == []


def test_sliders_of_the_page_move_everything(opened: Energy) -> None:
    opened.open()
    first = opened.agrees()
    opened.press("SRAM bank size", "ArrowLeft", 3)
    opened.press("Distance to the consumer", "ArrowRight")
    opened.press("Wire energy", "ArrowRight", 2)
    opened.press("Re-read on chip", "ArrowRight", 4)
    s = opened.agrees()
    assert s.choices.bank_bytes == 131_072.0
    assert s.choices.wire_mm == 3.0
    assert s.choices.wire_pj_per_bit_mm == 0.1
    assert s.choices.reread_frac == pytest.approx(0.2)
    assert s.energy.summary.crossing_batch != first.energy.summary.crossing_batch
    opened.press("Batch size", "ArrowRight", 4)
    assert opened.agrees().choices.batch > first.choices.batch


def test_the_accounting_switches_all_levels_and_mixing_is_labelled(opened: Energy) -> None:
    opened.open()
    before = opened.source("memory")["right"]
    opened.choose("Energy accounting", "measured")
    opened.page.wait_for_function("() => location.search.includes('energy_accounting=measured')", timeout=WAIT_MS)
    s = opened.agrees()
    assert (opened.source("memory")["right"] > before * 2.0).all()
    expect(opened.page.get_by_text("SRAM as measured in the L1 of a GPU")).to_be_visible(timeout=WAIT_MS)
    assert not s.energy.summary.ratio.is_mixed
    opened.choose("SRAM accounting", "device (mixed on purpose)")
    expect(opened.page.get_by_text("(mixed: measured over device)")).to_be_visible(timeout=WAIT_MS)
    assert opened.agrees().choices.sram_accounting == "device"


def test_the_address_reproduces_the_page_and_a_dense_model_says_so(opened: Energy) -> None:
    opened.open("&sram_chip=Groq+LPU&leakage_w_per_gb=1&idle_w=100")
    s = opened.agrees()
    assert s.choices.sram_chip == "Groq LPU"
    assert np.isfinite(opened.source("leakage_j")["y"]).any()
    opened.open("&preset=dense-llama")
    assert opened.snapshot().choices == Choices.of_preset("dense-llama") or opened.snapshot().choices.page == "energy"
    expect(opened.page.get_by_text("This model has no routed experts").first).to_be_visible(timeout=WAIT_MS)


def test_csv_and_code_stand_beside_the_pictures(opened: Energy) -> None:
    opened.open()
    with opened.page.expect_download(timeout=WAIT_MS) as saved:
        opened.page.get_by_role("button", name="as CSV: Experts in SRAM").click()
    lines = saved.value.path().read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("batch,distinct_experts,queue_tokens,memory_j,sram_j")
    assert len(lines) == 130
    opened.page.get_by_role("button", name="Python lines that reproduce this picture: Experts in SRAM").click()
    expect(opened.page.get_by_text("physics.expert_energy(s, sram)")).to_be_visible(timeout=WAIT_MS)


def test_nothing_scrolls_sideways(opened: Energy) -> None:
    for width in (1280, 768):
        opened.page.set_viewport_size({"width": width, "height": 900})
        opened.open()
        assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
