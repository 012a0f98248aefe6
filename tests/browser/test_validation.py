"""The Validation page in a browser, and the bound / estimate switch: what they show is what the core and the tables say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from playwright.sync_api import expect

from app import estimates, validation
from app import sentences_validation as sentences
from app.plots.roofline import estimate_rates
from app.regimes_table import table_columns, table_rows
from app.state import OPENING, Choices, Snapshot

from .settled import Opened


def shows(opened: Opened, s: Snapshot) -> None:
    """Points and sentences are those of the tables."""
    np.testing.assert_allclose(opened.source("bounds")["y"], validation.points(s)["bound_s"], rtol=1e-5)
    for sentence in (sentences.scatter, sentences.errors, sentences.findings, sentences.published):
        opened.says(sentence(s))


def test_the_page_shows_points_errors_findings_and_fits(opened: Opened) -> None:
    opened.open("page=validation")
    opened.agreed(shows)
    for title in ("Errors on data left out", "Published results that map to a scenario", "Faster than the bound", "Fitted efficiencies"):
        expect(opened.page.get_by_text(title, exact=True)).to_be_visible()


def test_a_filter_moves_points_tables_and_address(opened: Opened) -> None:
    opened.open("page=validation")
    opened.choose("Regime", "MLA decode")
    s = opened.agreed(shows, measured_regime="MLA decode")
    kept = validation.points(s)["measured_s"].notna()
    assert 0 < kept.sum() < len(kept)
    assert np.isfinite(opened.source("bounds")["y"]).sum() == kept.sum()
    opened.page.reload()
    opened.built("validation")
    opened.agreed(shows, measured_regime="MLA decode")


def shows_estimates(opened: Opened, s: Snapshot) -> None:
    """Hollow points, the interval of a tile, and a column of the table are those of the core."""
    np.testing.assert_allclose(opened.source("estimates")["y"], estimate_rates(s), rtol=1e-5)
    interval = estimates.tpot(s)
    assert interval is not None
    opened.says(interval.text("s")[0], exact=True)
    opened.says(estimates.cell(s, 2), exact=True)


def shows_bounds_only(opened: Opened, s: Snapshot) -> None:
    """Every cell stands under its own heading again."""
    table = opened.page.get_by_role("table").filter(visible=True)
    assert table.get_by_role("columnheader").count() == len(table_columns(s))
    cells = [cell for row in table_rows(s) for cell in row["cells"]]
    assert table.locator("tbody th, tbody td").all_inner_texts() == cells


def test_the_estimate_switch_adds_hollow_points_an_interval_and_a_column(opened: Opened) -> None:
    opened.open()
    assert not np.isfinite(opened.source("estimates")["y"]).any()
    opened.page.get_by_text("Estimate, overlap, energy").click()
    opened.page.get_by_role("checkbox", name="Show estimates").check()
    s = opened.agreed(shows_estimates, estimate=True)
    assert s.choices == replace(Choices.of_preset(OPENING), estimate=True)
    assert np.isfinite(opened.source("estimates")["y"]).all()
    opened.page.get_by_role("checkbox", name="Show estimates").uncheck()
    opened.agreed(shows_bounds_only, estimate=False)
