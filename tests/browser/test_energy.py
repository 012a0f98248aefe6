"""The Energy page in a browser: its own sliders and selects move pictures, sentence, tables and address."""

from __future__ import annotations

import numpy as np

import physics
from app import sentences_energy as sentences
from app.energy import BANKS, DISTANCES
from app.state import Choices, Snapshot

from .settled import Opened

TALL = 2400
"""Everything in view [px], so that everything is pushed at once."""


def shows(opened: Opened, s: Snapshot) -> None:
    """Sentences, lines and map are those of the core."""
    for sentence in (sentences.experts, sentences.advantage, sentences.levels, sentences.chips, sentences.measured):
        opened.says(sentence(s))
    for name in ("memory_j", "sram_j"):
        np.testing.assert_allclose(opened.source(name)["y"], s.energy.curves[name], rtol=1e-5)
    ratios, _ = physics.advantage_map(s.scenario, s.choices.sram_experts(), BANKS, DISTANCES)
    np.testing.assert_allclose(np.sort(opened.source("map")["z"]), np.sort(np.log10(ratios).ravel()), rtol=1e-4, atol=1e-5)


def test_sliders_of_the_page_move_everything(opened: Opened) -> None:
    opened.open("page=energy", height=TALL)
    first = opened.agreed(shows)
    opened.press("SRAM bank size", "ArrowLeft", 3)
    opened.press("Distance to the consumer", "ArrowRight")
    opened.press("Wire energy", "ArrowRight", 2)
    opened.press("Re-read on chip", "ArrowRight", 4)
    s = opened.agreed(shows, bank_bytes=131_072.0, wire_mm=3.0, wire_pj_per_bit_mm=0.1, reread_frac=0.2)
    assert s.energy.summary.crossing_batch != first.energy.summary.crossing_batch
    opened.press("Batch size", "ArrowRight", 4)
    opened.agreed(shows, batch=256)


def shows_measured(opened: Opened, s: Snapshot) -> None:
    shows(opened, s)
    opened.says("SRAM as measured in the L1 of a GPU")


def shows_mixed(opened: Opened, s: Snapshot) -> None:
    shows(opened, s)
    opened.says("(mixed: measured over device)")


def test_the_accounting_switches_all_levels_and_mixing_is_labelled(opened: Opened) -> None:
    opened.open("page=energy", height=TALL)
    opened.agreed(shows)
    before = opened.source("memory")["right"]
    opened.choose("Energy accounting", "measured")
    s = opened.agreed(shows_measured, energy_accounting="measured")
    assert (opened.source("memory")["right"] > before * 2.0).all()
    assert not s.energy.summary.ratio.is_mixed
    opened.choose("SRAM accounting", "device (mixed on purpose)")
    opened.agreed(shows_mixed, sram_accounting="device")


def says_that_it_is_dense(opened: Opened, s: Snapshot) -> None:
    assert s.choices == Choices(**(vars(Choices.of_preset("dense-llama")) | {"page": "energy"}))
    opened.says("This model has no routed experts")


def test_the_address_reproduces_the_page_and_a_dense_model_says_so(opened: Opened) -> None:
    opened.open("page=energy&sram_chip=Groq+LPU&leakage_w_per_gb=1&idle_w=100", height=TALL)
    opened.agreed(shows, sram_chip="Groq LPU", leakage_w_per_gb=1.0, idle_w=100.0)
    assert np.isfinite(opened.source("leakage_j")["y"]).any()
    opened.open("page=energy&preset=dense-llama", height=TALL)
    opened.agreed(says_that_it_is_dense)


def test_csv_and_code_stand_beside_the_pictures(opened: Opened) -> None:
    opened.open("page=energy", height=TALL)
    with opened.page.expect_download() as saved:
        opened.page.get_by_role("button", name="as CSV: Experts in SRAM").click()
    lines = saved.value.path().read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("batch,distinct_experts,queue_tokens,memory_j,sram_j")
    assert len(lines) == 130
    opened.page.get_by_role("button", name="Python lines that reproduce this picture: Experts in SRAM").click()
    opened.awaits("physics.expert_energy(s, sram)")


def test_nothing_scrolls_sideways_on_a_tablet(opened: Opened) -> None:
    opened.open("page=energy", width=768)
    opened.fits_width()
