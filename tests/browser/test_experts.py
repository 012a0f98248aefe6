"""The Experts page in a browser: routing chosen in the sidebar, slots moved on the page, a routing file read and applied."""

from __future__ import annotations

import io

import numpy as np
from playwright.sync_api import expect

import physics
from app import expert_bank as b
from app import sentences_experts as say
from app.state import Snapshot

from .settled import NO_EXPERTS, TITLES, Opened

TALL = 2800
"""Everything in view [px], so that everything is pushed at once."""


def shows(opened: Opened, s: Snapshot) -> None:
    """Sentences and lines are those of the core."""
    for sentence in (say.distinct, say.traffic, say.loads, say.straggler, say.sharing):
        opened.says(sentence(s))
    within, tokens = (opened.source(name)["y"] for name in ("within", "tokens"))
    np.testing.assert_allclose(within[:40], b.distinct_curves(s)["within"][:40], rtol=1e-5)
    np.testing.assert_allclose(tokens, b.spread(s).tokens, rtol=1e-5)


def test_routing_and_slots_move_the_page(opened: Opened) -> None:
    opened.open("page=experts&batch=32", height=TALL)
    opened.agreed(shows)
    opened.says("wake 163 of 256 experts")
    opened.page.get_by_text("Routing within and between requests").click()
    opened.press("Skew σ", "ArrowRight", 3)
    opened.agreed(shows, routing_sigma=0.9)
    opened.choose("Routing", "skewed, Zipf")
    opened.press("Zipf exponent", "ArrowLeft", 2)
    opened.choose("Overlap within a request", "constant")
    opened.press("Redundant expert slots", "ArrowRight", 2)
    opened.agreed(shows, routing="zipf", routing_zipf=0.9, request_overlap="constant", redundant_slots=64)
    opened.page.set_viewport_size({"width": 768, "height": 900})
    opened.fits_width()
    opened.open("page=experts&preset=dense-llama")
    opened.awaits(NO_EXPERTS)
    expect(opened.page.get_by_text(TITLES["experts"])).not_to_be_visible()


def test_a_routing_file_is_read_shown_and_applied(opened: Opened) -> None:
    opened.open("page=experts&preset=sliding-windows", height=TALL)
    chosen = np.concatenate([physics.sampled_experts(np.arange(1.0, 129.0), 4, 64, seed=i)[:, None, :] for i in range(3)])
    stream = io.BytesIO()
    np.savez(stream, experts=chosen, offsets=[0, 64, 128, 192])
    files = opened.page.locator("input[type=file][accept='.csv,.npz']")
    files.set_input_files({"name": "bad.csv", "mimeType": "text/csv", "buffer": b"a,b\n1,2\n"})
    opened.awaits("bad.csv: no column")
    files.set_input_files({"name": "mine.npz", "mimeType": "application/octet-stream", "buffer": stream.getvalue()})
    opened.awaits("a trace of 192 tokens in 3 requests")
    opened.awaits("Does the formula hold on your trace?")
    assert opened.choices().routing == "uniform"
    opened.page.get_by_role("button", name="Use it in the scenario").click()
    opened.awaits("overlapping as in your trace")
    opened.page.wait_for_function("() => location.href.includes('routing=loaded')")
    opened.page.goto(opened.address())  # another session does not have the file, and says so
    opened.awaits("load it on the page Experts")
