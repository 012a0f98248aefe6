"""Where KV should wait: the map of idle time and context, how likely it is used again, and what a larger cache would find."""

from __future__ import annotations

import math
from typing import Any

import holoviews as hv
import numpy as np
from bokeh.models import FixedTicker

from app.picture import Columns, Limits, Picture
from app.plots.labels import CHAR_PX, PLOT_PX
from app.plots.marks import curve, texts
from app.quantities import format_quantity
from app.sessions import CAPACITY_TOKENS, IDLE, LENGTHS, duration, limit_at
from app.state import Snapshot
from app.theme import line, shared_options, tick_formatter
from physics.tiers import LABELS, TIERS

IDLE_TICKS = {1.0: "1 s", 60.0: "1 min", 3600.0: "1 h", 86_400.0: "1 day", 8.64e6: "100 days"}
PLACES = {
    "hbm": ("hbm", 0.75), "dram": ("hbm", 0.42), "pool": ("hbm", 0.24), "ssd": ("sram", 0.30), "discard": ("muted", 0.28),
}  # fmt: skip
"""Colour and opacity of each place; what is discarded has none of memory."""
BOX: Limits = (float(IDLE[0]), float(IDLE[-1]), float(LENGTHS[0]), float(LENGTHS[-1]))
PERCENTILES = (50, 90, 99)


def idle_ticks(plot: Any, _element: Any) -> None:
    """Ticks of idle time as people say them."""
    axis = plot.handles["xaxis"]
    axis.update(ticker=FixedTicker(ticks=list(IDLE_TICKS)))
    axis.major_label_overrides = dict(IDLE_TICKS)


# ------------------------------------------------------------------------------------------------------------------- map
def boundaries(s: Snapshot) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Idle times between which each place is the cheapest, by length; empty stretches where it never is [s]."""
    costs = s.sessions.map_costs
    chosen = costs.cheapest(IDLE)
    pairs = costs.break_evens()
    out = {}
    for number, name in enumerate(costs.places):
        mine = chosen == number
        left, right = np.full(len(LENGTHS), np.nan), np.full(len(LENGTHS), np.nan)
        for i in np.flatnonzero(mine.any(axis=0)):
            rows = np.flatnonzero(mine[:, i])
            left[i] = IDLE[0] if rows[0] == 0 else pairs[costs.places[chosen[rows[0] - 1, i]], name][i]
            right[i] = IDLE[-1] if rows[-1] == len(IDLE) - 1 else pairs[name, costs.places[chosen[rows[-1] + 1, i]]][i]
        out[name] = (left, right)
    return out


def map_columns(s: Snapshot) -> Columns:
    """Regions of the cheapest place, their names, the present context and the trace's idle times."""
    regions = boundaries(s)
    data: dict[str, dict[str, Any]] = {}
    nothing = np.full(len(LENGTHS), np.nan)
    for name in (*TIERS, "discard"):
        left, right = regions.get(name, (nothing, nothing))
        seen = np.isfinite(left) & np.isfinite(right)
        # A polygon has no gaps: rows where a place never wins shrink to nothing at its nearest boundary.
        edge = np.full(len(LENGTHS), math.log(BOX[1]))
        if seen.any():
            edge = np.interp(np.arange(len(LENGTHS)), np.flatnonzero(seen), np.log(np.clip(left[seen], *BOX[:2])))
        low = np.where(seen, np.clip(left, *BOX[:2]), np.exp(edge))
        high = np.where(seen, np.clip(right, *BOX[:2]), low)
        data[f"region {name}"] = {"x": np.concatenate([low, high[::-1]]), "y": np.concatenate([LENGTHS, LENGTHS[::-1]])}
        data[f"place {name}"] = _name_of(LABELS[name], low, high)
    data["context"] = {"location": float(s.scenario.context_tokens)}
    idle = s.sessions.percentiles
    for p in PERCENTILES:
        at = float(idle[f"p{p}"].get("idle_s", math.nan))
        at = at if BOX[0] <= at <= BOX[1] else math.nan
        data[f"idle {p}"] = {"x": [at, at], "y": list(BOX[2:])}
        data[f"idle name {p}"] = {"x": [at * 1.12], "y": [BOX[2] * 1.25], "text": [f"{p} %" if math.isfinite(at) else ""]}
    return data


def _name_of(word: str, low: np.ndarray, high: np.ndarray) -> dict[str, Any]:
    """The name in the widest row of a region; none where it is too narrow."""
    with np.errstate(invalid="ignore"):
        width = np.log(high / low)
    needed = CHAR_PX * (len(word) + 1) / PLOT_PX[0] * math.log(BOX[1] / BOX[0])
    rows = np.abs(np.arange(len(width)) / len(width) - 0.5)
    best = int(np.nanargmax(np.minimum(width, needed * 1.5) - needed * rows)) if np.isfinite(width).any() else 0
    if not np.isfinite(width[best]) or width[best] < needed:
        return {"x": [math.nan], "y": [math.nan], "text": [""]}
    return {"x": [float(np.sqrt(low[best] * high[best]))], "y": [float(LENGTHS[best])], "text": [word]}


def map_build(s: Snapshot) -> hv.Overlay:
    """The overlay of a snapshot."""
    data, parts = map_columns(s), []
    for name, (color, alpha) in PLACES.items():
        x, y = data[f"region {name}"]["x"], data[f"region {name}"]["y"]
        half = len(x) // 2
        area = hv.Area((x[:half], y[:half], y[half:][::-1]), "x", ["y", "high"], label=f"region {name}")
        parts.append(area.opts(color=line(color), fill_alpha=alpha, line_alpha=0.0))
    for p in PERCENTILES:
        parts.append(curve(data[f"idle {p}"], f"idle {p}", "text", line_width=1.2, line_dash="2 4"))
        parts.append(texts(data[f"idle name {p}"], f"idle name {p}", "text", text_align="left", text_font_size="11px"))
    parts += [texts(data[f"place {name}"], f"place {name}", "text", text_font_size="12px") for name in PLACES]
    parts.append(hv.HLine(data["context"]["location"], label="context").opts(color=line("text"), line_width=1.5, line_dash="4 4"))
    frame = shared_options(
        min_height=360, hooks=[idle_ticks], logx=True, logy=True, xlim=BOX[:2], ylim=BOX[2:],
        xlabel="Idle time (dotted: within it, so many turns of the trace came back)", ylabel="Context, tokens",
        yformatter=tick_formatter("tokens"),
    )  # fmt: skip
    return hv.Overlay(parts).opts(frame)


MAP: Picture[Snapshot] = Picture(map_build, map_columns, min_height=360)


# ----------------------------------------------------------------------------------------------------------------- reuse
def reuse_columns(s: Snapshot) -> Columns:
    """Probability of another use by idle time, and the limits of least cost for the typical context."""
    view = s.sessions
    data: dict[str, dict[str, Any]] = {"reuse": {"x": IDLE, "y": view.reused}}
    places = view.kept_tiers if view.chosen.policy == "thresholds" else ()
    heights = (0.97, 0.89, 0.81, 0.73)
    for i, name in enumerate(TIERS):
        number = next((n for n, tier in enumerate(places) if tier.name == name), -1)
        at = limit_at(view, number) if number >= 0 else math.nan
        before = limit_at(view, number - 1) if number > 0 else 0.0
        shown = at > before and BOX[0] <= at <= BOX[1]
        data[f"limit {name}"] = {"x": [at if shown else math.nan] * 2, "y": [0.0, 1.0]}
        word = f"{LABELS[name]} until {duration(at)}" if shown else ""
        data[f"limit name {name}"] = {"x": [BOX[1] * 0.8], "y": [heights[i]], "text": [word]}
    return data


def reuse_build(s: Snapshot) -> hv.Overlay:
    """The overlay of a snapshot."""
    data = reuse_columns(s)
    parts: list[Any] = [curve(data["reuse"], "reuse", "midfill", line_width=2.2)]
    for name in TIERS:
        parts.append(curve(data[f"limit {name}"], f"limit {name}", "text", line_width=1.2, line_dash="4 4"))
        parts.append(texts(data[f"limit name {name}"], f"limit name {name}", "text", text_align="right", text_font_size="11px"))
    frame = shared_options(
        min_height=300, hooks=[idle_ticks], logx=True, xlim=BOX[:2], ylim=(0.0, 1.05), xlabel="Idle for at least", ylabel="Used again, %",
        yformatter=tick_formatter("%"), yticks=[0, 0.25, 0.5, 0.75, 1.0],
    )  # fmt: skip
    return hv.Overlay(parts).opts(frame)


REUSE: Picture[Snapshot] = Picture(reuse_build, reuse_columns, min_height=300)


# ----------------------------------------------------------------------------------------------------------- working set
def rooms(s: Snapshot) -> dict[str, float]:
    """Room for KV down to and including each tier that has a capacity [B]."""
    view, total, out = s.sessions, 0.0, {}
    for tier in view.tiers:
        size = view.capacity_bytes(tier)
        if size > 0:
            total += size
            out[tier.name] = total
    return out


def curve_limits(s: Snapshot) -> Limits:
    """Capacities from where a hundredth is found to where all is, in whole decades."""
    x, y = CAPACITY_TOKENS * s.sessions.token_bytes, s.sessions.curve
    some = np.flatnonzero(y > 0.01 * max(float(y[-1]), 1e-9))
    full = np.flatnonzero(y >= 0.9999 * y[-1])
    low = x[some[0]] if some.size else x[0]
    high = max([float(x[full[0]]) if full.size else float(x[-1]), *rooms(s).values()])
    return 10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high * 30.0)), 0.0, 1.12


def curve_columns(s: Snapshot) -> Columns:
    """The working-set curve, what an unlimited cache finds, and how far each tier reaches."""
    x, y = CAPACITY_TOKENS * s.sessions.token_bytes, s.sessions.curve
    data: dict[str, dict[str, Any]] = {"curve": {"x": x, "y": y}}
    data["all"] = {"location": float(s.sessions.trace.hit_frac)}
    found = rooms(s)
    for i, name in enumerate(TIERS):
        at = found.get(name, math.nan)
        height = 0.08 + 0.13 * i  # a line starts above the names to its left
        data[f"room {name}"] = {"x": [at, at], "y": [height - 0.05, 1.0]}
        word = f"{'' if name == 'hbm' else '+ '}{LABELS[name]} {format_quantity(at, 'B')}" if math.isfinite(at) else ""
        data[f"room name {name}"] = {"x": [at * 1.15], "y": [height], "text": [word]}
    return data


def curve_build(s: Snapshot) -> hv.Overlay:
    """The overlay of a snapshot."""
    data, box = curve_columns(s), curve_limits(s)
    parts: list[Any] = [curve(data["curve"], "curve", "midfill", line_width=2.4)]
    parts.append(hv.HLine(data["all"]["location"], label="all").opts(color=line("muted"), line_width=1.2, line_dash="2 4"))
    for name in TIERS:
        parts.append(curve(data[f"room {name}"], f"room {name}", "hbm", line_width=1.6))
        parts.append(texts(data[f"room name {name}"], f"room name {name}", "text", text_align="left", text_font_size="11px"))
    frame = shared_options(
        min_height=300, logx=True, xlim=box[:2], ylim=box[2:], xlabel="Capacity of one least-recently-used cache",
        ylabel="Input tokens found, %", xformatter=tick_formatter("B"), yformatter=tick_formatter("%"), yticks=[0, 0.25, 0.5, 0.75, 1.0],
    )  # fmt: skip
    return hv.Overlay(parts).opts(frame)


CURVE: Picture[Snapshot] = Picture(curve_build, curve_columns, curve_limits, min_height=300)
