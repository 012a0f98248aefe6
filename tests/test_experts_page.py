"""The page Experts without a browser: its numbers by hand, its pictures through their data, the user's file, and what is kept."""

from __future__ import annotations

import io
import itertools
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import holoviews as hv
import numpy as np
import pytest

import physics
from app import expert_bank as b
from app import recipe_experts as recipe
from app import sentences_experts as say
from app.pages.experts import CARDS, SAID
from app.pages.experts_file import read_upload
from app.picture import Picture
from app.plots import experts, experts_load, routing_file
from app.plots.labels import CHAR_PX, PLOT_PX
from app.recipe import scenario_lines
from app.state import OPENING, Choices, Explorer, Snapshot, from_query
from physics.catalog import presets
from physics.readers import UnreadableFileError

hv.extension("bokeh")

TRACE = Path(__file__).parents[2] / "shared" / "measured" / "gptoss20b_decode_routing.npz"
PICTURES: dict[str, Picture[Snapshot]] = {made.key: made.picture for made in CARDS} | {
    "popularity": routing_file.POPULARITY, "overlap": routing_file.OVERLAP, "proof": routing_file.PROOF,
}  # fmt: skip
SKEWED: dict[str, Any] = {"routing": "skewed", "routing_sigma": 1.1, "request_overlap": "measured"}


def snapshot(preset: str = "deepseek-v3-h200", observed: physics.ObservedRouting | None = None, **choices: Any) -> Snapshot:
    chosen = replace(Choices.of_preset(preset), **choices)
    return Snapshot(chosen, chosen.scenario(), observed=observed)


def made_trace(n_experts: int = 32, top_k: int = 4, requests: int = 5, tokens: int = 40) -> bytes:
    """A trace whose requests prefer experts of their own, as an .npz."""
    generator, rows = np.random.default_rng(1), []
    for _ in range(requests):
        liked = np.exp(generator.normal(0.0, 1.2, n_experts))
        rows.append(physics.sampled_experts(liked, top_k, tokens, seed=int(generator.integers(1 << 30)))[:, None, :])
    stream = io.BytesIO()
    np.savez(stream, experts=np.concatenate(rows), offsets=np.arange(requests + 1) * tokens)
    return stream.getvalue()


def made_counts(n_experts: int) -> bytes:
    rows = [f"{layer},{expert},{10 + expert}" for layer in range(2) for expert in range(n_experts)]
    return "\n".join(["layer,expert,assignments", *rows]).encode()


# ------------------------------------------------------------------------------------------------------------------ numbers
def test_an_expert_of_deepseek_on_h800_is_the_one_of_section_4() -> None:
    s = snapshot(machine="H800")
    held = b.bank(s)
    assert (held.n_experts, held.top_k, held.n_layers, held.params) == (256, 8, 58, 44_040_192)
    assert (held.input_bytes, held.output_bytes) == (7168, 14_336)
    assert held.weight_bytes == pytest.approx(44_040_192, rel=3e-4)  # block scales
    assert held.ridge == pytest.approx(1979 / 3.35, rel=1e-3)
    assert b.flattenings(held) == pytest.approx((345, 2048), rel=2e-3)


def test_a_ridge_that_is_never_reached_is_said_and_not_divided() -> None:
    s = snapshot(machine="H800")
    slow = replace(s, scenario=s.scenario.replace(machine=s.scenario.machine.replace(memory_bytes_per_s=3.35e11)))
    assert math.isinf(b.flattenings(b.bank(slow))[0])
    assert "never reaches the FP8 ridge of **5,910**" in say.intensity(slow)
    data = experts.INTENSITY.columns(slow)
    assert math.isnan(data["flat"]["x"][0])
    assert data["roofs"]["text"][0].endswith("never reached")


@pytest.mark.parametrize("preset", ["deepseek-v3-h200", "kimi-k3-gb300", "small-moe-one-gpu"])
def test_sharing_pays_where_the_closed_form_says(preset: str) -> None:
    s = snapshot(preset)
    held = b.bank(s)
    for share, batch in zip((0.9, 0.5), b.pays_from(s), strict=True):
        distinct = held.n_experts * (1 - (1 - held.top_k / held.n_experts) ** batch)
        assert distinct / (held.top_k * batch) == pytest.approx(share, rel=1e-8)


def test_lines_are_the_core_s_and_cross_the_table_of_section_7() -> None:
    curves = b.distinct_curves(snapshot(**SKEWED))
    at = {name: np.interp(np.log(32.0), np.log(b.TOKENS), curves[name]) for name in b.LINES}
    np.testing.assert_allclose(curves["round_robin"], np.minimum(8 * b.TOKENS, 256))
    assert at["uniform"] == pytest.approx(163.31, rel=2e-3)
    assert at["within"] < at["skew"] < at["uniform"]


def test_steps_share_as_the_scenario_touches() -> None:
    s = snapshot(**SKEWED)
    found = b.steps(s)
    table = physics.regimes(s.scenario)
    for name, step in found.items():
        if name == "decode_experts":  # weights read = layers x distinct experts x bytes of one
            held = b.bank(s)
            assert table.weight_bytes[name] == pytest.approx(held.n_layers * step.distinct * held.weight_bytes, rel=1e-12)
        assert step.shared >= step.uniform * (1 - 1e-12)
    assert found["midfill"].tokens == 64_000


def test_traffic_is_the_sweep_s() -> None:
    s = snapshot(**SKEWED)
    table = physics.regimes(s.scenario)
    at = {name: np.exp(np.interp(np.log(64.0), np.log(b.BATCHES), np.log(values))) for name, values in b.traffic(s).items()}
    assert at["experts"] == pytest.approx(table.weight_bytes["decode_experts"] / 64, rel=2e-3)
    assert at["shared"] == pytest.approx(table.weight_bytes["decode_shared"] / 64, rel=1e-6)
    assert at["kv"] == pytest.approx(table.kv_bytes["decode_attention"] / 64, rel=1e-9)


@pytest.mark.parametrize(("n_experts", "gpus", "slots"), [(256, 16, 288), (256, 72, 288), (256, 1, 256), (8, 16, 16), (128, 8, 144)])
def test_default_slots_fill_the_gpus(n_experts: int, gpus: int, slots: int) -> None:
    assert n_experts + b.default_redundant(n_experts, gpus) == slots


def test_load_curves_are_the_core_s_at_the_batch() -> None:
    s = snapshot(gpus_per_stage=16, batch=64, **SKEWED)
    at, curve = b.stragglers(s, 64), b.spread(s)
    for name, value in (("tokens", at.before), ("replicated", at.after), ("equal", at.equal)):
        assert np.interp(np.log(64), np.log(b.LOAD_TOKENS), getattr(curve, name)) == pytest.approx(value / at.even, rel=0.02)
    assert curve.before.sum() == pytest.approx(8.0)
    assert curve.after.sum() == pytest.approx(8.0)
    assert curve.after[0] < curve.before[0]


# ------------------------------------------------------------------------------------------------------------------ choices
@pytest.mark.parametrize(
    ("choices", "routing"),
    [
        ({}, physics.Routing.uniform()),
        ({"routing": "round_robin"}, physics.Routing.round_robin()),
        ({"routing": "skewed", "routing_sigma": 1.3}, physics.Routing.skewed(sigma=1.3)),
        (
            {"routing": "zipf", "routing_zipf": 1.5, "request_overlap": "measured"},
            physics.Routing.skewed(zipf=1.5, overlap=physics.OverlapLaw()),
        ),
        ({"request_overlap": "constant", "request_overlap_frac": 0.3}, physics.Routing.uniform(overlap=0.3)),
    ],
)  # fmt: skip
def test_plain_choices_make_the_routing_live_in_the_link_and_in_the_lines(choices: dict[str, Any], routing: physics.Routing) -> None:
    chosen = replace(Choices(), **choices)
    assert chosen.scenario().routing == routing
    assert from_query(chosen.query()) == (chosen, [])
    names: dict[str, Any] = {}
    exec(scenario_lines(chosen), names)
    assert names["s"].routing == routing


@pytest.mark.parametrize(
    "query",
    ["routing=sideways", "routing=loaded", "routing_sigma=-1", "routing_zipf=nan", "request_overlap=some", "request_overlap_frac=2",
     "redundant_slots=inf", "redundant_slots=1.5", "redundant_slots=-3"],
)  # fmt: skip
def test_a_bad_routing_in_a_link_is_one_sentence(query: str) -> None:
    choices, notices = from_query("?" + query)
    assert choices == Choices.of_preset(OPENING)
    (notice,) = notices
    assert query.partition("=")[0].removeprefix("routing_").removeprefix("request_").removesuffix("_frac") in notice


# ----------------------------------------------------------------------------------------------------------------- pictures
def _observed() -> physics.ObservedRouting:
    return physics.read_routing(made_trace(), "trace.npz")


def shapes(s: Snapshot) -> dict[tuple[str, str, str], int]:
    return {
        (key, label, name): np.size(values)
        for key, picture in PICTURES.items()
        for label, columns in picture.columns(s).items()
        for name, values in columns.items()
    }


def test_lengths_never_change() -> None:
    first = shapes(snapshot())
    others = [snapshot(preset) for preset in presets()]
    others += [snapshot(batch=1, new_tokens=1), snapshot(batch=4096, gpus_per_stage=72, **SKEWED), snapshot(gpus_per_stage=1024)]
    others += [snapshot(observed=_observed()), snapshot(observed=physics.read_routing(made_counts(256), "counts.csv"))]
    for other in others:
        assert shapes(other) == first


def _places(picture: Picture[Snapshot], s: Snapshot, data: Any) -> np.ndarray:
    """Boxes of the texts of a picture [left, right, low, high], in pixels of a plot of PLOT_PX."""
    assert picture.limits is not None
    box = picture.limits(s)
    overlay = picture.build(s)
    options = overlay.opts.get("plot").kwargs
    kinds = {element.label: element.opts.get("style").kwargs.get("text_align", "center") for element in overlay}
    found = []
    for label, columns in data.items():
        for x, y, text in zip(columns.get("x", []), columns.get("y", []), columns.get("text", []), strict=False):
            if text and np.isfinite([x, y]).all():
                (px, py), width = _px(x, y, box, options), 0.85 * CHAR_PX * len(text)
                left = px - {"left": 0.0, "right": width}.get(kinds[label], width / 2)
                found.append((left, left + width, py - 6.0, py + 6.0))
    return np.array(found)


def _px(x: float, y: float, box: Any, options: Any) -> tuple[float, float]:
    def along(value: float, low: float, high: float, log: bool) -> float:
        return (math.log(value / low) / math.log(high / low)) if log else (value - low) / (high - low)

    return along(x, *box[:2], options.get("logx", False)) * PLOT_PX[0], along(y, *box[2:], options.get("logy", False)) * PLOT_PX[1]


@pytest.mark.parametrize("preset", [key for key in presets() if key != "dense-llama"])
@pytest.mark.parametrize("choices", [{}, SKEWED], ids=["even", "skewed"])
def test_texts_stay_inside_and_apart(preset: str, choices: dict[str, Any]) -> None:
    s = snapshot(preset, **choices)
    for key, picture in PICTURES.items():
        places = _places(picture, s, picture.columns(s))
        for a, c in itertools.combinations(places, 2):
            apart = a[1] <= c[0] or c[1] <= a[0] or a[3] <= c[2] or c[3] <= a[2]
            assert apart, (key, a, c)
        if len(places):
            over = (-places[:, 0], places[:, 1] - PLOT_PX[0], -places[:, 2], places[:, 3] - PLOT_PX[1])
            assert max(float(side.max()) for side in over) < 6, (key, [float(side.max()) for side in over])


def test_a_moved_slider_computes_only_what_hangs_on_it() -> None:
    s = snapshot(**SKEWED)
    for picture in PICTURES.values():
        picture.columns(s)
    kept = (b._distinct, b._sd, b._weights_per_token, b._spread, b._equal, b._pays, b._placed)
    before = [each.cache_info().misses for each in kept]
    moved = snapshot(batch=48, new_tokens=300, context_tokens=50_000, **SKEWED)
    for picture in PICTURES.values():
        picture.columns(moved)
    assert [each.cache_info().misses for each in kept] == before


# ---------------------------------------------------------------------------------------------------------------- sentences
def test_the_answer_of_the_issue() -> None:
    text = say.distinct(snapshot(batch=32))
    assert text.startswith("**32 tokens** wake **163** of 256 experts when requests are independent")
    within = b.distinct_at(physics.Routing.skewed(sigma=0.75, overlap=physics.OverlapLaw()), b.bank(snapshot()), 1, 32)
    assert f"about **{within:.0f}** when they come from one request" in text


@pytest.mark.parametrize("batch", [1, 2, 4096])
@pytest.mark.parametrize("preset", presets())
def test_sentences_are_whole(preset: str, batch: int) -> None:
    for choices in ({}, SKEWED, {"routing": "round_robin", "gpus_per_stage": 1}, {"routing": "zipf", "redundant_slots": 4096}):
        s = snapshot(preset, batch=batch, **choices)
        if not s.scenario.model.moe_groups:
            assert "no routed experts" in say.empty(s)
            continue
        for name in SAID:
            text = SAID[name](s)
            assert text.endswith(".")
            assert text.count("**") % 2 == 0
            assert not re.search(r"nan|inf\b|None|–|(?<![\d.,])1 (tokens|requests|experts|slots)\b", text.replace("*", "")), text


# --------------------------------------------------------------------------------------------------------------------- file
def test_a_trace_is_seen_applied_and_kept_for_the_session() -> None:
    explorer = Explorer(replace(Choices(), model="gpt-oss-20b", gpus_per_stage=4, weight_dtype=None))
    observed = read_upload(made_trace(), "mine.npz", "", explorer.snapshot)
    assert (observed.n_experts, observed.top_k, observed.n_requests) == (32, 4, 5)
    explorer.observe(observed)
    assert explorer.snapshot.scenario.routing == physics.Routing.uniform()
    assert explorer.apply_observed("mine.npz")
    assert explorer.snapshot.scenario.routing == observed.routing()
    assert "your trace" in say.distinct(explorer.snapshot)
    assert not explorer.change(model="DeepSeek-V3")
    assert "measured on 32 experts per layer" in explorer.problem
    assert explorer.choices.model == "gpt-oss-20b"
    lines = scenario_lines(explorer.choices, explorer.snapshot.scenario.routing)
    assert "physics.read_routing('mine.npz').counts" in lines
    link, notices = from_query(explorer.choices.query())
    assert link.routing == "uniform"
    assert any("'mine.npz'" in notice or "a file" in notice for notice in notices)


def test_a_routing_of_another_model_is_shown_but_not_applied() -> None:
    explorer = Explorer()
    explorer.observe(read_upload(made_trace(), "mine.npz", "", explorer.snapshot))
    before = explorer.choices
    assert not explorer.apply_observed("mine.npz")
    assert "this model has 256" in explorer.problem
    assert explorer.choices == before
    assert explorer.loaded is None


def test_counts_take_the_experts_per_token_of_the_model() -> None:
    s = snapshot()
    observed = read_upload(made_counts(250), "counts.csv", "", s)
    assert (observed.n_experts, observed.top_k) == (256, 8)
    assert "tell nothing about overlap" in say.overlap(replace(s, observed=observed))
    with pytest.raises(UnreadableFileError, match="counts of 40 experts"):
        read_upload(made_counts(40), "counts.csv", "", s)


@pytest.mark.parametrize(
    "content", [b"", b"a,b\n1,2\n", b"\x80\x04pickle", b"PK\x03\x04broken", b"layer,expert,assignments\n0,0,-1\n",
     b"model,layer,expert,assignments\na,0,0,1\nb,0,0,1\n"],
)  # fmt: skip
def test_a_bad_file_is_one_sentence(content: bytes) -> None:
    with pytest.raises(UnreadableFileError) as caught:
        read_upload(content, "mine.csv", "", snapshot())
    assert str(caught.value).startswith("mine.csv")
    assert len(str(caught.value)) < 300


# ------------------------------------------------------------------------------------------------------------------- recipes
@pytest.mark.parametrize("choices", [{}, SKEWED, {"routing": "zipf", "request_overlap": "constant"}], ids=["even", "skewed", "zipf"])
def test_lines_reproduce_the_pictures(choices: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    s = snapshot(**choices)
    names: dict[str, Any] = {}
    exec(recipe.distinct_lines(s), names)
    curves = b.distinct_curves(s)
    for line, key in (("round robin", "round_robin"), ("uniform", "uniform"), ("skewed", "skew"), ("one request", "within")):
        np.testing.assert_allclose(names["distinct"][line], curves[key], rtol=1e-12)
    exec(recipe.intensity_lines(s), names)
    np.testing.assert_allclose((names["at_ridge"], names["at_half"]), b.flattenings(b.bank(s)), rtol=1e-12)
    exec(recipe.traffic_lines(s), names)
    capsys.readouterr()
    exec(recipe.load_lines(s), names)
    printed = [float(word) for word in capsys.readouterr().out.split()]
    at = b.stragglers(s, s.scenario.batch)
    np.testing.assert_allclose(printed, [at.before, at.reads_before, at.after, at.reads_after], rtol=1e-12)
    exec(recipe.sharing_lines(s), names)
    printed = [float(word) for word in re.findall(r"[\d.e+]+$", capsys.readouterr().out, re.M)]
    np.testing.assert_allclose(printed, [step.shared for step in b.steps(s).values()], rtol=1e-12)


# --------------------------------------------------------------------------------------------------------------------- proof
@pytest.mark.skipif(not TRACE.exists(), reason="the measured trace is not beside this clone (../shared)")
def test_the_picture_of_the_proof_shows_what_was_measured() -> None:
    observed = physics.read_routing(TRACE)
    data = {element.label: element for element in routing_file.trace_proof(observed)}
    windows = dict(zip(data["measured"]["x"], data["measured"]["y"], strict=True))
    chosen, offsets = observed._trace()
    parts = [
        chosen[start + i * 32 : start + (i + 1) * 32] for start, end in itertools.pairwise(offsets) for i in range((end - start) // 32)
    ]
    plain = np.mean([[np.unique(part[:, layer]).size for layer in range(part.shape[1])] for part in parts[:200]])
    assert windows[32] == pytest.approx(plain, rel=0.03)
    off = {name: np.asarray(data[name]["y"]) / np.asarray(data["measured"]["y"]) - 1.0 for name in routing_file.FORMS}
    upto = np.asarray(data["measured"]["x"])
    assert np.abs(off["beta_measured"][upto <= 32]).max() < 0.03
    assert abs(off["beta_measured"][-1]) < 0.09
    assert off["independent"][upto == 32][0] > 0.30


def test_the_proof_needs_no_folder_of_ours() -> None:
    s = snapshot("sliding-windows", observed=_observed())
    measured = routing_file.PROOF.columns(s)["measured"]
    assert np.isfinite(np.asarray(measured["y"], float)[:5]).all()
    assert "The beta form is off by" in say.proof(s)


def test_loads_of_any_number_of_gpus_fit_the_same_picture() -> None:
    for gpus in (1, 3, 16, 1000):
        data = experts_load.LOADS.columns(snapshot(gpus_per_stage=gpus))
        assert np.mean(data["after"]["y"]) == pytest.approx(1.0, rel=0.02)


def test_a_pin_stays_as_a_ghost() -> None:
    pinned = snapshot(**SKEWED)
    s = replace(snapshot(routing="skewed", routing_sigma=0.4), pinned=pinned)
    ghost, line = (np.asarray(experts.DISTINCT.columns(s)[name]["y"], float) for name in ("ghost skew", "skew"))
    kept = np.isfinite(ghost)
    np.testing.assert_allclose(ghost[kept], b.distinct_curves(pinned)["skew"][kept])
    assert (ghost[kept][10:] < line[kept][10:]).all()
    np.testing.assert_allclose(experts.BYTES.columns(s)["ghost"]["y"], b.traffic(pinned)["experts"])
