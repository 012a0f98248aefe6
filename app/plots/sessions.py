"""A trace in pictures: which regime its work belongs to, what each request appends to what, and one conversation turn by turn."""

from __future__ import annotations

import math
from typing import Any

import holoviews as hv
import numpy as np
import pandas as pd
from bokeh.models import FixedTicker

from app.picture import Columns, Limits, Picture
from app.plots.labels import spread
from app.plots.marks import curve, points, texts
from app.sessions import PREFIXES
from app.state import Snapshot
from app.theme import DASHES, ink, line, shared_options, tick_formatter
from physics.regimes import REGIMES
from physics.request_costs import KINDS, fill_kinds

# ------------------------------------------------------------------------------------------------------------------- mix
MIX = {"requests": "requests", "tokens": "tokens", "flops": "FLOP", "bytes": "bytes", "seconds": "seconds", "joules": "joules"}
KIND_NAMES = {
    "prefill": ("prefill", "prefill", 0.55),
    "midfill": ("midfill", "midfill", 0.62),
    "midfill_large": ("midfill, large append", "midfill", 0.26),
    "decode_attention": ("decode attention", "decode_attention", 0.55),
    "decode_experts": ("decode experts", "decode_experts", 0.55),
    "decode_shared": ("decode shared", "decode_shared", 0.55),
}
"""Name, colour and opacity of each kind of work."""
_KEY_PLACES = ((0.0, 0.95), (0.2, 0.95), (0.36, 0.95), (0.0, 0.25), (0.36, 0.25), (0.69, 0.25))
"""Where the names stand above the bars: fills, and decode below them."""


def mix_columns(s: Snapshot) -> Columns:
    """Bars of shares, one below the other, and the share written into each part that is wide enough."""
    shares = s.sessions.shares
    data: dict[str, dict[str, Any]] = {}
    left = np.zeros(len(MIX))
    rows = np.arange(len(MIX))[::-1].astype(float)
    for kind in KINDS:
        width = shares.loc[kind, list(MIX)].to_numpy(float)
        data[f"bar {kind}"] = {"left": left, "bottom": rows - 0.36, "right": left + width, "top": rows + 0.36}
        words = [f"{100 * w:.0f} %" if w >= 0.035 else "" for w in width]
        data[f"share {kind}"] = {"x": left + width / 2, "y": rows, "text": words}
        left = left + width
    return data


def _name_rows(plot: Any, _element: Any) -> None:
    axis = plot.handles["yaxis"]
    axis.update(ticker=FixedTicker(ticks=list(range(len(MIX)))), axis_label=None)
    axis.major_label_overrides = {len(MIX) - 1 - i: name for i, name in enumerate(MIX.values())}
    plot.state.ygrid.visible = False


def mix_build(s: Snapshot) -> hv.Overlay:
    """The overlay of a snapshot."""
    data, parts = mix_columns(s), []
    for kind, (_, color, alpha) in KIND_NAMES.items():
        bar = data[f"bar {kind}"]
        sides = tuple(bar[name] for name in ("left", "bottom", "right", "top"))
        rectangles = hv.Rectangles(sides, ["x0", "y0", "x1", "y1"], label=f"bar {kind}")
        parts.append(rectangles.opts(color=line(color), fill_alpha=alpha, line_alpha=0.0))
    parts += [texts(data[f"share {kind}"], f"share {kind}", "text", text_font_size="11px") for kind in KINDS]
    for (x, row), (name, color, _) in zip(_KEY_PLACES, KIND_NAMES.values(), strict=True):
        key = hv.Labels(([x], [len(MIX) - 0.6 + row], [name]), ["x", "y"], "text")
        parts.append(key.opts(text_color=ink(color), text_align="left", text_baseline="middle", text_font_size="12px"))
    frame = shared_options(
        min_height=300, hooks=[_name_rows], xlim=(0.0, 1.0), ylim=(-0.6, len(MIX) + 0.7), xlabel="Share of the trace, %",
        xformatter=tick_formatter("%"), xticks=[0, 0.25, 0.5, 0.75, 1.0],
    )  # fmt: skip
    return hv.Overlay(parts).opts(frame)


MIX_PICTURE: Picture[Snapshot] = Picture(mix_build, mix_columns, min_height=300)

# ---------------------------------------------------------------------------------------------------------------- density
SHOWN = 1200
"""Requests drawn, evenly chosen over the trace."""
BOX: Limits = (100.0, 1e6, 10.0, 1e6)
INTENSITIES = (100.0, 300.0, 1000.0, 3000.0)
_POINT_KINDS = ("prefill", "midfill", "midfill_large")
LEVELS_AT = 200.0
"""Prefix at which the lines of equal intensity are named: few requests have so short a one [token]."""


def density_columns(s: Snapshot) -> Columns:
    """Requests by kind, the boundaries, lines of equal intensity and of the ridge."""
    view = s.sessions
    rows = np.linspace(0, len(view.trace) - 1, SHOWN).round().astype(int)
    prefix, new = view.trace.prefix_tokens[rows], view.trace.new_tokens[rows]
    kinds = fill_kinds(prefix, new, view.chosen.prefix_limit_tokens, view.chosen.large_limit_tokens)
    x, y = np.maximum(prefix, 130.0), np.clip(new, BOX[2] * 1.1, BOX[3])
    data: dict[str, dict[str, Any]] = {
        name: {"x": np.where(kinds == kind, x, np.nan), "y": np.where(kinds == kind, y, np.nan)} for kind, name in enumerate(_POINT_KINDS)
    }
    limit, large = max(view.chosen.prefix_limit_tokens, BOX[0]), view.chosen.large_limit_tokens
    data["prefix limit"] = {"x": [limit, limit], "y": [BOX[2], BOX[3]]}
    data["large limit"] = {"x": [limit, BOX[1]], "y": [large, large]}
    data |= _intensity_lines(s)
    return data


def _intensity_lines(s: Snapshot) -> dict[str, dict[str, Any]]:
    ridge = float(s.results["ridge_flops_per_byte"][REGIMES.index("midfill")])
    levels = {f"{value:g}": value for value in INTENSITIES} | {"ridge": ridge}
    data: dict[str, dict[str, Any]] = {}
    heights = []
    for name, value in levels.items():
        known = math.isfinite(value) and value > 0 and (name == "ridge" or abs(math.log(value / ridge)) > 0.4)
        new = s.sessions.new_tokens_at_intensity(value, PREFIXES) if known else np.full(len(PREFIXES), np.nan)
        new = np.where((new >= BOX[2]) & (new <= BOX[3]), new, np.nan)
        data[f"intensity {name}"] = {"x": PREFIXES, "y": new}
        heights.append(float(np.interp(LEVELS_AT, PREFIXES, new)) * 1.28)
    for (name, value), height in zip(levels.items(), spread(heights, BOX[2:]), strict=True):
        word = f"ridge, {value:,.0f} FLOP/B" if name == "ridge" else f"{value:,.0f} FLOP/B"
        data[f"level {name}"] = {"x": [LEVELS_AT], "y": [height], "text": [word if math.isfinite(height) else ""]}
    return data


def density_build(s: Snapshot) -> hv.Overlay:
    """The overlay of a snapshot."""
    data, parts = density_columns(s), []
    looks = {"prefill": ("prefill", 0.45), "midfill": ("midfill", 0.3), "midfill_large": ("midfill", 0.3)}
    for name, (color, alpha) in looks.items():
        marker = "circle" if name != "midfill_large" else "square"
        parts.append(points(data[name], name, color, size=4, fill_alpha=alpha, line_alpha=0.0, marker=marker))
    parts += [curve(data[name], name, "text", line_width=1.2, line_dash="4 4") for name in ("prefix limit", "large limit")]
    for name in (*(f"{value:g}" for value in INTENSITIES), "ridge"):
        style = {"line_width": 1.8} if name == "ridge" else {"line_width": 1.0, "line_dash": DASHES["guide"]}
        parts.append(curve(data[f"intensity {name}"], f"intensity {name}", "text" if name == "ridge" else "muted", **style))
        parts.append(
            texts(data[f"level {name}"], f"level {name}", "text" if name == "ridge" else "muted", text_align="left", text_font_size="11px")
        )
    for x, y, word, color in (
        (150, 6.5e5, "prefill", "prefill"),
        (9e3, 6.5e5, "midfill, large append", "midfill"),
        (9e3, 14, "midfill", "midfill"),
    ):
        label = hv.Labels(([x], [y], [word]), ["x", "y"], "text")
        parts.append(label.opts(text_color=ink(color), text_align="left", text_baseline="middle", text_font_size="12px"))
    frame = shared_options(
        min_height=380, logx=True, logy=True, xlim=BOX[:2], ylim=BOX[2:], xlabel="Cached prefix, tokens (left edge: nothing cached)",
        ylabel="New tokens", xformatter=tick_formatter("tokens"), yformatter=tick_formatter("tokens"),
    )  # fmt: skip
    return hv.Overlay(parts).opts(frame)


DENSITY: Picture[Snapshot] = Picture(density_build, density_columns, min_height=380)

# --------------------------------------------------------------------------------------------------------------- timeline
STOPS = 300
"""Points of a timeline, however many turns it has."""


def _sampled(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.iloc[np.linspace(0, len(frame) - 1, STOPS).round().astype(int)]


def timeline_lines(s: Snapshot) -> dict[str, dict[str, np.ndarray]]:
    """Curves of both timelines: context [token], waiting and decode of a turn [s]."""
    lines = {}
    for name, frame in (("plain", s.sessions.plain), ("compacted", s.sessions.compacted)):
        kept = _sampled(frame)
        lines[name] = {key: kept[key].to_numpy(float) for key in ("turn", "context_tokens", "ttft_s", "decode_s")}
    return lines


def _turn_end(s: Snapshot) -> float:
    return float(len(s.sessions.plain))


def context_limits(s: Snapshot) -> Limits:
    """All turns, with room for names, up to a little above the longest context."""
    top = float(s.sessions.plain["context_tokens"].max())
    return 0.0, _turn_end(s) * 1.36, 0.0, top * 1.12


def context_columns(s: Snapshot) -> Columns:
    """Context by turn with and without compaction, and where it happened."""
    lines, frame = timeline_lines(s), s.sessions.compacted
    data: dict[str, dict[str, Any]] = {name: {"x": line["turn"], "y": line["context_tokens"]} for name, line in lines.items()}
    events = frame[frame["compacted"]].head(24)
    pad = [math.nan] * (24 - len(events))
    data["events"] = {"x": [*events["turn"].tolist(), *pad], "y": [*events["context_tokens"].tolist(), *pad]}
    box, happened = context_limits(s), len(events) > 0
    ends = [float(lines["plain"]["context_tokens"][-1]), float(lines["compacted"]["context_tokens"][-1])]
    if happened and ends[0] - ends[1] < box[3] * 0.07:
        ends[0] = ends[1] + box[3] * 0.07
    x = _turn_end(s) * 1.015
    data["names"] = {"x": [x, x], "y": ends, "text": ["as it grows", "compacted" if happened else ""]}
    return data


def context_build(s: Snapshot) -> hv.Overlay:
    """The overlay of a snapshot."""
    data, box = context_columns(s), context_limits(s)
    parts: list[Any] = [
        curve(data["plain"], "plain", "muted", line_width=1.8),
        curve(data["compacted"], "compacted", "midfill", line_width=2.2),
        points(data["events"], "events", "midfill", size=8, fill_alpha=0.0, line_width=1.8),
        texts(data["names"], "names", "text", text_align="left", text_font_size="11px"),
    ]
    frame = shared_options(
        min_height=300, xlim=box[:2], ylim=box[2:], xlabel="Turn", ylabel="Context, tokens", xformatter=tick_formatter("turns"),
        yformatter=tick_formatter("tokens"),
    )  # fmt: skip
    return hv.Overlay(parts).opts(frame)


CONTEXT: Picture[Snapshot] = Picture(context_build, context_columns, context_limits, min_height=300)
_WAITS = {"ttft_s": ("first token", "midfill"), "decode_s": ("decode", "decode_attention")}


def waits_limits(s: Snapshot) -> Limits:
    """All turns; whole decades around the seconds."""
    values = np.concatenate([line[key] for line in timeline_lines(s).values() for key in _WAITS])
    seen = values[np.isfinite(values) & (values > 0)]
    low, high = (float(seen.min()), float(seen.max())) if seen.size else (0.01, 1.0)
    return 0.0, _turn_end(s) * 1.42, 10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high * 1.01))


def waits_columns(s: Snapshot) -> Columns:
    """Seconds of each turn with and without compaction; withheld where the scenario does not fit its memory."""
    lines, box, fits = timeline_lines(s), waits_limits(s), s.memory.fits
    data: dict[str, dict[str, Any]] = {}
    for name, one in lines.items():
        for key in _WAITS:
            data[f"{name} {key}"] = {"x": one["turn"], "y": np.where((one[key] > 0) & fits, one[key], np.nan)}
    ends = [float(np.median(data[f"compacted {key}"]["y"][-15:])) for key in _WAITS]
    heights = spread(ends, box[2:])
    for (key, (word, _)), height in zip(_WAITS.items(), heights, strict=True):
        data[f"name {key}"] = {"x": [_turn_end(s) * 1.015], "y": [height], "text": [word if math.isfinite(height) else ""]}
    none = "" if fits else "does not fit the memory: no seconds to show"
    data["withheld"] = {"x": [_turn_end(s) / 2], "y": [math.sqrt(box[2] * box[3])], "text": [none]}
    return data


def waits_build(s: Snapshot) -> hv.Overlay:
    """The overlay of a snapshot."""
    data, box, parts = waits_columns(s), waits_limits(s), []
    for key, (_, color) in _WAITS.items():
        parts.append(points(data[f"plain {key}"], f"plain {key}", "muted", size=3, fill_alpha=0.35, line_alpha=0.0))
        parts.append(points(data[f"compacted {key}"], f"compacted {key}", color, size=4, fill_alpha=0.7, line_alpha=0.0))
        parts.append(texts(data[f"name {key}"], f"name {key}", color, text_align="left", text_font_size="11px"))
    parts.append(texts(data["withheld"], "withheld", "text"))
    frame = shared_options(
        min_height=300, logy=True, xlim=box[:2], ylim=box[2:], xlabel="Turn (grey: never compacted)", ylabel="Seconds of a turn",
        xformatter=tick_formatter("turns"), yformatter=tick_formatter("s"),
    )  # fmt: skip
    return hv.Overlay(parts).opts(frame)


WAITS: Picture[Snapshot] = Picture(waits_build, waits_columns, waits_limits, min_height=300)
