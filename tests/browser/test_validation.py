"""The Validation page in a browser, and the bound / estimate switch: what they show is what the core and the tables say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from app import estimates, validation
from app import sentences_validation as sentences
from app.plots.roofline import estimate_rates
from app.state import Choices, Snapshot, from_query
from physics.regimes import REGIMES

WAIT_MS = 20_000
SOURCE = """name => {
  for (const model of Bokeh.documents[0]._all_models.values())
    if (model.type == "GlyphRenderer" && model.name == name) {
      const data = model.data_source.data
      return {x: Array.from(data.x), y: Array.from(data.y)}
    }
}"""


class Validation:
    """The page, and what its console said."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url, self.said = page, url, []
        page.on("console", lambda message: self.said.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.said.append(str(error)))

    def open(self, query: str, text: str) -> None:
        self.page.goto(f"{self.url}?{query}")
        expect(self.page.get_by_text(text).first).to_be_visible(timeout=60_000)
        self.page.wait_for_function("() => Bokeh.documents.length && Bokeh.documents[0].is_idle", timeout=60_000)

    def snapshot(self) -> Snapshot:
        choices, notices = from_query(self.page.url.partition("?")[2])
        assert not notices
        return Snapshot(choices, choices.scenario())

    def source(self, name: str) -> dict[str, Any]:
        return {key: np.array(values, float) for key, values in self.page.evaluate(SOURCE, name).items()}


@pytest.fixture
def shown(page: Page, app_url: str) -> Iterator[Validation]:
    opened = Validation(page, app_url)
    yield opened
    assert not opened.said


def test_the_page_shows_points_errors_findings_and_fits(shown: Validation) -> None:
    shown.open("page=validation", "Predicted against measured")
    s = shown.snapshot()
    table = validation.points(s)
    np.testing.assert_allclose(shown.source("bounds")["y"], table["bound_s"], rtol=1e-5)
    for title in ("Errors on data left out", "Published results that map to a scenario", "Faster than the bound", "Fitted efficiencies"):
        expect(shown.page.get_by_text(title, exact=True)).to_be_visible()
    for sentence in (sentences.errors(s), sentences.findings(s), sentences.published(s), sentences.scatter(s)):
        expect(shown.page.get_by_text(sentence.replace("**", "")[:70]).first).to_be_visible(timeout=WAIT_MS)


def test_a_filter_moves_points_tables_and_address(shown: Validation) -> None:
    shown.open("page=validation", "Predicted against measured")
    shown.page.get_by_role("combobox", name="Regime").locator("visible=true").click()
    shown.page.get_by_role("menuitem", name="MLA decode", exact=True).click()
    shown.page.wait_for_url(re.compile("measured_regime=MLA"), timeout=WAIT_MS)
    s = shown.snapshot()
    assert s.choices.measured_regime == "MLA decode"
    kept = validation.points(s)["measured_s"].notna()
    shown.page.wait_for_function(
        f"({SOURCE})('bounds').y.filter(Number.isFinite).length == {int(kept.sum())}".replace("name =>", "(name) =>"), timeout=WAIT_MS
    )
    expect(shown.page.get_by_text(sentences.findings(s).replace("**", "")[:50])).to_be_visible(timeout=WAIT_MS)
    shown.page.reload()
    expect(shown.page.get_by_text(sentences.scatter(s).replace("**", "")[:60])).to_be_visible(timeout=60_000)


def test_the_estimate_switch_adds_hollow_points_an_interval_and_a_column(shown: Validation) -> None:
    shown.open("", "What does the machine allow each regime?")
    assert not np.isfinite(shown.source("estimate midfill")["y"]).any()
    shown.page.get_by_text("Estimate, overlap, energy").click()
    shown.page.get_by_label("Show estimates").check()
    shown.page.wait_for_url(re.compile("estimate=True"), timeout=WAIT_MS)
    s = shown.snapshot()
    assert s.choices == Choices.of_preset(s.choices.preset).__class__(**(vars(Choices.of_preset(s.choices.preset)) | {"estimate": True}))
    shown.page.wait_for_function(f"Number.isFinite(({SOURCE})('estimate midfill').y[0])", timeout=WAIT_MS)
    for i, name in enumerate(REGIMES):
        np.testing.assert_allclose(shown.source(f"estimate {name}")["y"][0], estimate_rates(s)[i], rtol=1e-5)
    interval = estimates.tpot(s)
    assert interval is not None
    expect(shown.page.get_by_text(interval.text("s")[0], exact=True).first).to_be_visible(timeout=WAIT_MS)
    expect(shown.page.get_by_text(estimates.cell(s, 2), exact=True).first).to_be_visible(timeout=WAIT_MS)
