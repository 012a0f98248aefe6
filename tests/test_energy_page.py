"""The Energy page through its data: pictures show what the core gives, sentences are grammatical at the ends, nothing is made up."""

import math
from dataclasses import replace

import holoviews as hv
import numpy as np
import pytest

import physics
from app import recipe
from app import sentences_energy as sentences
from app.energy import BANKS, BATCHES, DISTANCES, measured_rows
from app.live import drawn
from app.plots import energy, energy_map
from app.state import Choices, Explorer, Snapshot, from_query
from physics.catalog import load_machine, presets
from physics.joules import LEVELS
from physics.machine import ACCOUNTINGS
from physics.regimes import REGIMES

hv.extension("bokeh")
PICTURES = {"experts": energy.EXPERTS, "map": energy_map.MAP, "levels": energy.REGIME_LEVELS}


def snapshot(preset: str = "deepseek-v3-h200", **changes: object) -> Snapshot:
    choices = replace(Choices.of_preset(preset), **changes)
    return Snapshot(choices, choices.scenario())


VARIANTS = [{}, {"energy_accounting": "device"}, {"energy_accounting": "wires"}, {"energy_accounting": "measured"}]
VARIANTS += [
    {"sram_accounting": "device"},
    {"reread_frac": 1.0},
    {"leakage_w_per_gb": 2.0},
    {"sram_chip": "Cerebras WSE-3"},
    {"sram_chip_bytes": 1e12},
]
VARIANTS += [
    {"machine": "Groq 3 LPU", "gpus_per_stage": 64, "compute_dtype": "fp8"},
    {"bank_bytes": 8192.0, "wire_mm": 0.0},
    {"idle_w": 100.0},
    {"batch": 1},
]


@pytest.mark.parametrize("name", PICTURES)
def test_columns_keep_their_lengths_from_preset_to_preset(name):
    """A picture drawn once takes every other state without being drawn anew."""
    picture = PICTURES[name]
    sources = drawn(picture, snapshot()).sources
    for state in [*(snapshot(key) for key in presets()), *(snapshot(**change) for change in VARIANTS)]:
        for label, columns in picture.columns(state).items():
            for column, values in columns.items():
                if label in sources:
                    assert len(np.atleast_1d(values)) == len(sources[label].data[column]), (label, column)


def test_every_cell_of_the_map_lies_where_its_bank_and_distance_are():
    s = snapshot()
    source = drawn(energy_map.MAP, s).sources["map"].data
    x, y = (np.asarray(source[a]) + np.asarray(source[b]) for a, b in (("left", "right"), ("top", "bottom")))
    banks, distances = 1024.0 * 2.0 ** (x / 2.0), 10.0 ** (y / 2.0)
    for at in (0, 17, 400, len(banks) - 1):
        sram = physics.SramExperts(bank_bytes=float(np.clip(banks[at], BANKS[0], BANKS[-1])), wire_mm=float(distances[at]))
        assert 10.0 ** source["z"][at] == pytest.approx(physics.expert_energy(s.scenario, sram).ratio.value, rel=1e-4)


def test_the_pictures_show_the_core():
    s = snapshot()
    shown, core = energy.expert_columns(s), physics.expert_curves(s.scenario, physics.SramExperts(), BATCHES)
    for name in energy.LINES[:4]:
        np.testing.assert_allclose(shown[name]["y"], core[name])
    assert shown["crossing"]["x"][0] == pytest.approx(physics.expert_energy(s.scenario).crossing_batch)
    bars, table = energy.level_columns(s), physics.energy_by_level(s.scenario, "token")
    assert [name for name in energy.STACK if name in LEVELS] == list(energy.STACK)
    np.testing.assert_allclose(bars[energy.STACK[-1]]["right"], table.total)
    np.testing.assert_allclose(np.asarray(bars["flop"]["right"]) - bars["flop"]["left"], table.flop)


@pytest.mark.parametrize("change", VARIANTS, ids=str)
def test_sentences_hold_no_gaps(change):
    s = snapshot(**change)
    for say in (sentences.experts, sentences.advantage, sentences.levels, sentences.chips, sentences.measured):
        text = say(s)
        assert text.endswith((".", ":"))
        assert not any(word in text for word in ("nan", "inf ", "inf×", "–", "None", "  ")), text
        assert text.count("**") % 2 == 0


def test_the_answer_of_the_opening_page():
    text = sentences.experts(snapshot()).replace("**", "")
    # 15.7 for a byte over the 2.30 tokens that queue at an expert is 6.82.
    assert text.startswith("At a batch of 64 requests, experts in SRAM take 6.82× fewer joules to read than in HBM3E.")
    assert "SRAM (banks of 1 MB, 2 mm away) gives a byte 15.7× cheaper than HBM3E at the interface (mixed: the wire counts on" in text
    assert "HBM3E catches up at batch 502, when 15.7 tokens queue at each expert" in text


@pytest.mark.parametrize("accounting", ACCOUNTINGS)
@pytest.mark.parametrize("sram", [None, *ACCOUNTINGS])
def test_what_is_mixed_is_said_to_be(accounting, sram):
    s = snapshot(energy_accounting=accounting, sram_accounting=sram)
    mixed = s.energy.summary.ratio.is_mixed
    assert ("mixed" in sentences.experts(s)) is mixed
    note = energy_map.columns(s)["note"]["text"][0]
    _, words = s.energy.advantage
    assert ("mixed" in note) is words.startswith("mixed")


def test_dense_models_say_so_and_draw_nothing():
    s = snapshot("dense-llama")
    assert sentences.experts(s) == sentences.chips(s) == sentences.NO_EXPERTS
    assert np.isnan(energy.expert_columns(s)["memory_j"]["y"]).all()
    assert s.energy.chips == []


def test_the_wire_slider_moves_both_sides_where_both_are_counted():
    s = snapshot(energy_accounting="wires", wire_pj_per_bit_mm=0.1)
    assert s.energy.memory_pj_per_bit == pytest.approx(7.5)
    table = physics.regimes(s.scenario)
    assert table.energy_weights_j["decode_experts"] / 64 == pytest.approx(s.energy.summary.memory_j)


def test_idle_power_is_an_input_and_starts_from_what_is_stated():
    assert (snapshot().energy.levels.idle == 0).all()
    assert (snapshot(idle_w=100.0).energy.levels.idle > 0).all()
    assert load_machine("A100").idle_w > 0


@pytest.mark.parametrize(
    "query",
    [
        "page=energy&bank_bytes=8192&wire_mm=5&wire_pj_per_bit_mm=0.1&reread_frac=0.2&leakage_w_per_gb=1&idle_w=50",
        "sram_chip=Groq+LPU&sram_chip_bytes=1e9&sram_accounting=device",
    ],
)
def test_the_address_holds_the_state(query):
    choices, notices = from_query("?" + query)
    assert notices == []
    again, notices = from_query(choices.query())
    assert notices == []
    assert again == choices


@pytest.mark.parametrize(
    "query", ["bank_bytes=1", "wire_mm=-2", "reread_frac=7", "sram_chip=abacus", "sram_accounting=vibes", "idle_w=x", "idle_w=-5"]
)
def test_a_bad_address_is_one_sentence(query):
    choices, notices = from_query("?" + query)
    assert len(notices) == 1
    assert query.split("=")[0] in notices[0]
    assert choices == Choices.of_preset("deepseek-v3-h200")


def test_a_refused_slider_leaves_the_last_state():
    explorer = Explorer()
    assert not explorer.change(bank_bytes=math.nan)
    assert "bank_bytes" in explorer.problem
    assert explorer.snapshot.choices.bank_bytes == 2.0**20


def test_measured_rows_stand_beside_the_model_of_the_same_setup():
    rows = {row["key"]: value for row, value in measured_rows("interface")}
    s = physics.Scenario(
        physics.load_model("DeepSeek-V3"), load_machine("H100"), context_tokens=2000, batch=18432, gpus_per_stage=72, weight_dtype="fp8"
    )
    assert rows["deepseek_h100_ep72"] == pytest.approx(physics.turn(s).j_per_token)
    assert rows["llama3_70b_h100_byte"] == pytest.approx(5.0)
    assert math.isnan(rows["qwen3_235b_b200"])  # its batch is not stated


def test_recipe_lines_run_and_give_the_same():
    s = snapshot(wire_mm=5.0, reread_frac=0.1, idle_w=50.0, wire_pj_per_bit_mm=0.1, energy_accounting="wires", sram_chip="Groq LPU")
    for lines, name in ((recipe.expert_lines(s), "curves"), (recipe.map_lines(s), "ratios"), (recipe.level_lines(s), "s")):
        space: dict[str, object] = {}
        exec(lines, space)
        if name == "curves":
            np.testing.assert_allclose(space["curves"]["memory_j"], s.energy.curves["memory_j"])
        elif name == "ratios":
            np.testing.assert_allclose(space["ratios"], s.energy.advantage[0])
        else:
            assert physics.energy_by_level(space["s"], "token").equals(s.energy.levels)


def test_regimes_stand_in_the_order_of_the_house():
    assert list(snapshot().energy.levels.index) == list(REGIMES)
    assert len(DISTANCES) * len(BANKS) == energy_map.columns(snapshot())["map"]["z"].size
