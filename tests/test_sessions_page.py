"""The Sessions page through its data: pictures keep their lengths, sentences say what the core gives, links carry the choices."""

from __future__ import annotations

import re
from dataclasses import replace

import holoviews as hv
import numpy as np
import pytest

import physics
from app import recipe_sessions as recipe
from app import sentences_sessions as sentences
from app.live import drawn
from app.pages.sessions_controls import Controls
from app.pages.sessions_tables import percentile_rows, replay_frame, replay_rows, sources_of, tier_rows
from app.plots import sessions, waiting
from app.sessions import SessionChoices, duration, synthetic, tier_changes, tier_text
from app.state import Choices, Explorer, Snapshot, from_query
from physics.catalog import presets
from physics.request_costs import KINDS
from physics.tiers import TIERS
from tests.trace_fixtures import small_trace

hv.extension("bokeh")
PICTURES = {
    "mix": sessions.MIX_PICTURE,
    "density": sessions.DENSITY,
    "context": sessions.CONTEXT,
    "waits": sessions.WAITS,
    "map": waiting.MAP,
    "reuse": waiting.REUSE,
    "curve": waiting.CURVE,
}
SENTENCES = (
    sentences.trace, sentences.mix, sentences.density, sentences.context, sentences.waits, sentences.where, sentences.reuse,
    sentences.working_set, sentences.replay, sentences.tiers,
)  # fmt: skip
ONE = [(0, 0, 0.0, 500, 0, 3)]
TINY = {"one request": ONE, "one turn": [*ONE, (0, 0, 5.0, 900, 500, 0)], "never again": [(i, 0, float(i), 50, 0, 1) for i in range(5)]}


def snapshot(preset: str = "deepseek-v3-h200", trace: physics.Trace | None = None, **changes: object) -> Snapshot:
    choices = replace(Choices.of_preset(preset), **changes)
    return Snapshot(choices, choices.scenario(), trace=trace)


VARIANTS: list[dict[str, object]] = [
    {}, {"policy": "lru"}, {"policy": "ttl", "ttl_s": 10.0}, {"waiting_measure": "joules"}, {"compaction": "1M"}, {"compaction": "none"},
    {"summary_tokens": 8000.0}, {"conversation": "typical"}, {"stall_frac": 0.0}, {"batch": 4096}, {"batch": 1},
    {"prefix_limit_tokens": 0.0}, {"prefix_limit_tokens": 131_072.0}, {"large_limit_tokens": 10.0},
    {"conversations_per_h": 3000.0, "policy": "lru"},
    {"tiers": "pool.capacity_bytes=2e12;dram.w_per_gb=0.1", "policy": "lru"}, {"tiers": "dram.usd_per_gb=0;ssd.bytes_per_s=1e6"},
    {"machine": "Groq 3 LPU", "gpus_per_stage": 64, "compute_dtype": "fp8"}, {"model": "Llama-3.1-8B", "gpus_per_stage": 1, "batch": 1},
]  # fmt: skip


@pytest.mark.parametrize("name", PICTURES)
def test_columns_keep_their_lengths_from_state_to_state(name: str) -> None:
    picture = PICTURES[name]
    sources = drawn(picture, snapshot()).sources
    states = [*(snapshot(key) for key in presets()), *(snapshot(**change) for change in VARIANTS)]
    states += [snapshot(trace=small_trace(rows)) for rows in TINY.values()]
    for state in states:
        if picture.limits is not None:
            low, high, bottom, top = picture.limits(state)
            assert low < high
            assert bottom < top
        for label, columns in picture.columns(state).items():
            for column, values in columns.items():
                if label in sources:
                    assert len(np.atleast_1d(values)) == len(sources[label].data[column]), (label, column)


@pytest.mark.parametrize("change", VARIANTS, ids=str)
def test_sentences_and_tables_of_every_state(change: dict[str, object]) -> None:
    s = snapshot(**change)
    for sentence in SENTENCES:
        text = sentence(s)
        assert text[0].isupper() or text.startswith(("**", "9"))
        assert text.endswith(".")
        assert not re.search(r"\bnan\b|\binf\b|None|–|  ", text), text
    assert len(replay_rows(s)) == len(s.sessions.kept_tiers) + 1
    assert len(tier_rows(s)) == len(TIERS)
    assert len(percentile_rows(s)) == 5


@pytest.mark.parametrize("kind", TINY)
def test_traces_of_next_to_nothing(kind: str) -> None:
    s = snapshot(trace=small_trace(TINY[kind]), trace_file="small")
    for sentence in SENTENCES:
        assert sentence(s).endswith(".")
    replay_rows(s), percentile_rows(s)


def test_bars_are_the_mix_and_add_up() -> None:
    s = snapshot()
    shares = s.sessions.shares
    np.testing.assert_allclose(shares.sum(), 1.0)
    columns = sessions.mix_columns(s)
    for kind in KINDS:
        bar = columns[f"bar {kind}"]
        np.testing.assert_allclose(np.asarray(bar["right"]) - np.asarray(bar["left"]), shares.loc[kind, list(sessions.MIX)])
    np.testing.assert_allclose(columns[f"bar {KINDS[-1]}"]["right"], 1.0)


def test_lines_of_intensity_are_where_the_core_has_it() -> None:
    s = snapshot()
    line = sessions.density_columns(s)["intensity 1000"]
    for i in (10, 30, 50):
        prefix, new = float(line["x"][i]), float(line["y"][i])
        one = physics.regimes(s.scenario.replace(batch=1, context_tokens=round(prefix), new_tokens=round(new)))
        assert one.intensity_flops_per_byte["midfill"] == pytest.approx(1000, rel=0.02)


def test_regions_of_the_map_meet_at_the_break_evens() -> None:
    s = snapshot()
    regions, pairs = waiting.boundaries(s), s.sessions.map_costs.break_evens()
    np.testing.assert_allclose(regions["hbm"][1], regions["dram"][0])
    np.testing.assert_allclose(regions["dram"][0], pairs["hbm", "dram"])
    np.testing.assert_allclose(regions["ssd"][1], regions["discard"][0])


def test_seconds_are_withheld_where_it_does_not_fit() -> None:
    s = snapshot(batch=4096)
    assert not s.memory.fits
    assert np.isnan(sessions.waits_columns(s)["plain ttft_s"]["y"]).all()
    assert "withheld" in sentences.waits(s)
    assert "s**" not in sentences.replay(s)


def test_discarding_is_said_to_change_the_cache() -> None:
    assert "differ subtly" in sentences.where(snapshot())
    assert "differ subtly" in sentences.replay(snapshot(policy="ttl", ttl_s=10.0))
    assert "differ subtly" not in sentences.replay(snapshot(policy="lru"))


def test_no_rent_falls_back_to_joules_and_says_so() -> None:
    s = snapshot(machine="Groq 3 LPU", gpus_per_stage=64, compute_dtype="fp8")
    assert s.sessions.measure == "joules"
    assert "no rent" in sentences.where(s)


def test_links_carry_the_choices_and_refuse_one_by_one() -> None:
    choices = replace(Choices(), page="sessions", policy="lru", ttl_s=60.0, tiers="pool.capacity_bytes=2e12", summary_tokens=4000.0)
    assert from_query(choices.query()) == (choices, [])
    kept, notices = from_query("?policy=magic&stall_frac=3&tiers=tape.usd_per_gb%3D1&summary_tokens=&compaction=1M&ttl_s=nan")
    assert (kept.policy, kept.stall_frac, kept.tiers, kept.summary_tokens, kept.compaction) == ("thresholds", 1.0, "", None, "1M")
    assert len(notices) == 4


@pytest.mark.parametrize(
    "bad", ["hbm.capacity_bytes=1", "dram.usd_per_gb", "dram.usd_per_gb=-1", "dram.usd_per_gb=inf", "x", "dram.color=1"]
)
def test_numbers_of_tiers_that_are_none(bad: str) -> None:
    with pytest.raises(ValueError, match="tiers: "):
        tier_changes(bad)


def test_numbers_of_tiers_come_back() -> None:
    changes = {"pool": {"capacity_bytes": 2e12}, "dram": {"usd_per_gb": 5.0, "w_per_gb": 0.25}}
    assert tier_changes(tier_text(changes)) == changes
    s = snapshot(tiers=tier_text(changes))
    assert {t.name: t.usd_per_gb for t in s.sessions.tiers}["dram"] == 5.0
    assert "(yours)" in " ".join(tier_rows(s)[1]["cells"])
    assert all(sources_of(name) for name in TIERS)


def test_unsound_choices_are_refused() -> None:
    for change in ({"policy": "x"}, {"ttl_s": 0.0}, {"stall_frac": True}, {"conversations_per_h": float("nan")}, {"summary_tokens": -1.0}):
        with pytest.raises(ValueError, match=next(iter(change))):
            SessionChoices(**change)  # type: ignore[arg-type]
    explorer = Explorer()
    assert not explorer.change(ttl_s=0.0)
    assert "ttl_s" in explorer.problem
    assert explorer.choices.ttl_s == 300.0


def test_a_trace_is_loaded_kept_and_let_go() -> None:
    explorer = Explorer()
    released: list[int] = []
    controls = Controls(explorer, lambda: released.append(1))
    controls.drop.receive([("mine.csv", b"session,t,input,cached,output\na,0,9000,0,5\na,60,9500,9000,5\n")])
    assert controls.drop.problem == ""
    assert (explorer.choices.trace_file, len(explorer.snapshot.sessions.trace)) == ("mine.csv", 2)
    assert released
    controls.drop.receive([("bad.csv", b"a,b\n1,2\n")])
    assert controls.drop.problem.startswith("bad.csv: it needs time")
    assert len(explorer.snapshot.sessions.trace) == 2
    explorer.change(batch=8)
    assert len(explorer.snapshot.sessions.trace) == 2
    explorer.load(Choices.of_preset(next(iter(presets()))))
    assert explorer.choices.trace_file == "mine.csv"
    controls.forget()
    assert explorer.snapshot.sessions.trace is synthetic()
    assert explorer.choices.trace_file == ""


def test_a_link_with_a_trace_this_session_lacks() -> None:
    choices, notices = from_query("?trace_file=mine.csv&page=sessions")
    assert notices == []
    text = sentences.trace(Snapshot(choices, choices.scenario()))
    assert "mine.csv" in text
    assert "does not have" in text


def test_controls_send_what_was_typed() -> None:
    explorer = Explorer()
    controls = Controls(explorer, lambda: None)
    controls.show(explorer.snapshot)
    controls.amount.value = "2 TB"
    assert explorer.choices.tiers == "pool.capacity_bytes=2e+12"
    controls.amount.value = "plenty"
    assert "not a number" in controls.tier_status.text
    assert explorer.choices.tiers == "pool.capacity_bytes=2e+12"
    controls.amount.value = ""
    assert explorer.choices.tiers == ""
    controls.summary.value = "8k"
    assert explorer.choices.summary_tokens == 8000
    controls.sliders["ttl_s"].commit(60.0)
    assert explorer.choices.ttl_s == 60
    controls.selects["policy"].value = "lru"
    assert explorer.choices.policy == "lru"


@pytest.mark.parametrize("lines", [recipe.mix_lines, recipe.timeline_lines, recipe.map_lines, recipe.reuse_lines, recipe.curve_lines])
def test_lines_run(lines: object) -> None:
    exec(lines(snapshot(tiers="dram.usd_per_gb=4")), {})  # type: ignore[operator]


@pytest.mark.parametrize("policy", ["thresholds", "lru", "ttl"])
def test_lines_of_the_replay_give_its_table(policy: str) -> None:
    s = snapshot(policy=policy)
    code, _, last = recipe.replay_lines(s).rpartition("\n")
    space: dict[str, object] = {}
    exec(f"{code}\nresult = {last}", space)
    assert space["result"].hit_frac == pytest.approx(replay_frame(s).found_frac[:-1].sum())  # type: ignore[attr-defined]


def test_durations_read_as_people_say_them() -> None:
    assert [duration(x) for x in (float("inf"), float("nan"), 59.0, 60.0, 3600.0 * 36)] == ["never", "–", "59.0 s", "1 min", "1.5 days"]
