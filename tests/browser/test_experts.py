"""The Experts page in a browser: routing chosen in the sidebar, slots moved on the page, a routing file read and applied."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import physics
from app import expert_bank as b
from app import sentences_experts as say
from app.state import Snapshot, from_query

WAIT_MS = 20_000
FIRST = "How much of the bank wakes up?"
LINE = """name => Array.from([...Bokeh.documents[0]._all_models.values()]
  .find(model => model.type == "GlyphRenderer" && model.name == name).data_source.data.y)"""


class Experts:
    """The page, and what its console said."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url, self.said = page, url, []
        page.on("console", lambda message: self.said.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.said.append(str(error)))

    def open(self, query: str = "") -> None:
        self.page.goto(f"{self.url}?page=experts{query}")
        expect(self.page.get_by_text(FIRST).or_(self.page.get_by_text("no routed experts")).first).to_be_visible(timeout=90_000)
        self.page.wait_for_function("() => Bokeh.documents.length && Bokeh.documents[0].is_idle", timeout=60_000)

    def press(self, name: str, key: str, times: int = 1) -> None:
        before = self.page.url
        self.page.get_by_role("slider", name=re.compile("^" + name)).focus()
        for _ in range(times):
            self.page.keyboard.press(key)
        self.page.wait_for_function("before => location.href != before", arg=before, timeout=WAIT_MS)

    def choose(self, label: str, option: str) -> None:
        before = self.page.url
        self.page.get_by_role("combobox", name=label).locator("visible=true").first.click()
        self.page.locator("li", has_text=option).click()
        self.page.wait_for_function("before => location.href != before", arg=before, timeout=WAIT_MS)

    def snapshot(self) -> Snapshot:
        choices, notices = from_query(self.page.url.partition("?")[2])
        assert not notices
        return Snapshot(choices, choices.scenario())

    def agrees(self) -> Snapshot:
        """Sentences and lines equal the core for the state that the address holds."""
        s = self.snapshot()
        for sentence in (say.distinct, say.traffic, say.loads, say.straggler, say.sharing):
            expect(self.page.get_by_text(sentence(s).replace("**", "")[:90]).first).to_be_visible(timeout=WAIT_MS)
        within, skew = (np.array(self.page.evaluate(LINE, name), float) for name in ("within", "tokens"))
        np.testing.assert_allclose(within[:40], b.distinct_curves(s)["within"][:40], rtol=1e-5)
        np.testing.assert_allclose(skew, b.spread(s).tokens, rtol=1e-5)
        return s


@pytest.fixture
def opened(page: Page, app_url: str) -> Iterator[Experts]:
    page.set_viewport_size({"width": 1280, "height": 2800})  # everything in view, so that everything is pushed at once
    view = Experts(page, app_url)
    yield view
    assert view.said == []


def test_routing_and_slots_move_the_page(opened: Experts) -> None:
    opened.open("&batch=32")
    opened.agrees()
    assert "wake 163 of 256 experts" in opened.page.locator(".sentence").first.inner_text()
    opened.page.get_by_text("Routing within and between requests").click()
    opened.press("Skew σ", "ArrowRight", 3)
    assert opened.agrees().choices.routing_sigma == pytest.approx(0.9)
    opened.choose("Routing", "skewed, Zipf")
    opened.press("Zipf exponent", "ArrowLeft", 2)
    opened.choose("Overlap within a request", "constant")
    opened.press("Redundant expert slots", "ArrowRight", 2)
    choices = opened.agrees().choices
    assert (choices.routing, choices.routing_zipf, choices.request_overlap, choices.redundant_slots) == ("zipf", 0.9, "constant", 64)
    opened.page.set_viewport_size({"width": 768, "height": 900})
    assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    opened.open("&preset=dense-llama")
    expect(opened.page.get_by_text("has no routed experts").first).to_be_visible(timeout=WAIT_MS)
    expect(opened.page.get_by_text(FIRST)).not_to_be_visible()


def test_a_routing_file_is_read_shown_and_applied(opened: Experts) -> None:
    opened.open("&preset=sliding-windows")
    chosen = np.concatenate([physics.sampled_experts(np.arange(1.0, 129.0), 4, 64, seed=i)[:, None, :] for i in range(3)])
    stream = io.BytesIO()
    np.savez(stream, experts=chosen, offsets=[0, 64, 128, 192])
    files = opened.page.locator("input[type=file][accept='.csv,.npz']")
    files.set_input_files({"name": "bad.csv", "mimeType": "text/csv", "buffer": b"a,b\n1,2\n"})
    expect(opened.page.get_by_text("bad.csv: no column").first).to_be_visible(timeout=WAIT_MS)
    files.set_input_files({"name": "mine.npz", "mimeType": "application/octet-stream", "buffer": stream.getvalue()})
    expect(opened.page.get_by_text("a trace of 192 tokens in 3 requests").first).to_be_visible(timeout=WAIT_MS)
    expect(opened.page.get_by_text("Does the formula hold on your trace?")).to_be_visible(timeout=WAIT_MS)
    assert opened.snapshot().choices.routing == "uniform"
    opened.page.get_by_role("button", name="Use it in the scenario").click()
    opened.page.wait_for_function("() => location.href.includes('routing=loaded')", timeout=WAIT_MS)
    expect(opened.page.get_by_text("overlapping as in your trace").first).to_be_visible(timeout=WAIT_MS)
    opened.page.goto(opened.page.url)  # another session does not have the file, and says so
    expect(opened.page.get_by_text("load it on the page Experts").first).to_be_visible(timeout=90_000)
