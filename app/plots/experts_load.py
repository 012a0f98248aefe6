"""Where tokens pile up: the load of the GPUs that share a layer's experts, and the busiest of them, before and after replicas."""

from __future__ import annotations

from typing import Any

import holoviews as hv
import numpy as np

from app import expert_bank as b
from app.picture import Columns, Limits, Picture
from app.plots.labels import spread, spread_linear
from app.plots.marks import cursor, curve, decades_of, texts
from app.state import Snapshot
from app.theme import DASHES, shared_options, tick_formatter

RANKS = 256
"""Steps of the picture of loads: GPUs by rank, as shares of all GPUs, so that any number of them fits."""


# ------------------------------------------------------------------------------------------------------------------- loads
def _by_rank(loads: np.ndarray) -> np.ndarray:
    """Load of the GPU at each rank, over the mean."""
    place = np.minimum((np.arange(RANKS) / RANKS * loads.size).astype(int), loads.size - 1)
    shown: np.ndarray = loads[place] / loads.mean()
    return shown


def load_limits(s: Snapshot) -> Limits:
    """All GPUs, with room for names; from nothing to above the straggler."""
    spread_over, busiest = b.spread(s), b.stragglers(s, s.scenario.batch)
    top = max(spread_over.before[0] / spread_over.before.mean(), busiest.before / busiest.even, busiest.after / busiest.even)
    return 0.0, 1.42, 0.0, 1.12 * float(top)


def load_columns(s: Snapshot) -> Columns:
    """Expected load by rank before and after replicas, and what the busiest GPU gets in a decode step."""
    loads, busiest, box = b.spread(s), b.stragglers(s, s.scenario.batch), load_limits(s)
    x = (np.arange(RANKS) + 0.5) / RANKS
    before, after = _by_rank(loads.before), _by_rank(loads.after)
    most = (busiest.before / busiest.even, busiest.after / busiest.even)
    data: dict[str, dict[str, Any]] = {"before": {"x": x, "y": before}, "after": {"x": x, "y": after}}
    for name, height in zip(("busiest before", "busiest after"), most, strict=True):
        data[name] = {"x": [0.0, 1.0], "y": [height, height]}
    heights = spread_linear([before[-1], after[-1], *most], box[2:])
    held = b.bank(s)
    words = (f"{held.n_experts} slots", f"{loads.n_slots} slots", f"busiest {most[0]:.2f}×", f"busiest {most[1]:.2f}×")
    data["names"] = {"x": [1.02] * len(words), "y": heights, "text": words}
    return data


LOOKS = {
    "before": ("decode_experts", "solid", 2.5),
    "after": ("text", "solid", 2.0),
    "busiest before": ("decode_experts", DASHES["guide"], 1.6),
    "busiest after": ("text", DASHES["guide"], 1.6),
}


def load_build(s: Snapshot) -> hv.Overlay:
    """The overlay of a snapshot."""
    data, box = load_columns(s), load_limits(s)
    parts = [curve(data[name], name, meaning, line_dash=dash, line_width=width) for name, (meaning, dash, width) in LOOKS.items()]
    parts.append(texts(data["names"], "names", [meaning for meaning, _, _ in LOOKS.values()], text_align="left", text_font_size="11px"))
    frame = shared_options(
        min_height=300, xlim=box[:2], ylim=box[2:], xlabel="GPUs of the stage, fullest first, %", ylabel="Tokens over an even share",
        xformatter=tick_formatter("%"), xticks=[0, 0.25, 0.5, 0.75, 1.0], yformatter=tick_formatter(""),
    )  # fmt: skip
    return hv.Overlay(parts).opts(frame)


LOADS: Picture[Snapshot] = Picture(load_build, load_columns, load_limits, min_height=300)


# -------------------------------------------------------------------------------------------------------------- stragglers
LINES: dict[str, tuple[str, str, float, str]] = {
    "tokens": ("decode_experts", "solid", 2.5, "tokens"),
    "replicated": ("text", "solid", 2.0, "tokens, replicas"),
    "equal": ("muted", DASHES["guide"], 1.5, "equal experts"),
    "experts": ("decode_experts", DASHES["memory"], 2.0, "experts"),
    "experts_replicated": ("text", DASHES["memory"], 1.6, "experts, replicas"),
}
"""Compute waits for tokens (solid), bandwidth for distinct experts (dashed)."""


def straggler_limits(s: Snapshot) -> Limits:
    """Tokens with room for names; from an even share to the worst line."""
    found = b.spread(s)
    top = max(float(np.max(getattr(found, name))) for name in LINES)
    return float(b.LOAD_TOKENS[0]), 1e5 * (1e5 / 4.0) ** 0.56, 0.9, max(2.0, top * 1.1)


def straggler_columns(s: Snapshot) -> Columns:
    """Busiest GPU over an even share against tokens, in tokens and in distinct experts, before and after replicas."""
    found, box = b.spread(s), straggler_limits(s)
    data: dict[str, dict[str, Any]] = {name: {"x": b.LOAD_TOKENS, "y": getattr(found, name)} for name in LINES}
    heights = spread([float(getattr(found, name)[-1]) for name in LINES], box[2:])
    data["names"] = {"x": [b.LOAD_TOKENS[-1] * 1.3] * len(LINES), "y": heights, "text": [text for _, _, _, text in LINES.values()]}
    data["batch"] = {"location": float(s.scenario.batch)}
    return data


def straggler_build(s: Snapshot) -> hv.Overlay:
    """The overlay of a snapshot."""
    data, box = straggler_columns(s), straggler_limits(s)
    parts = [curve(data[name], name, meaning, line_dash=dash, line_width=width) for name, (meaning, dash, width, _) in LINES.items()]
    parts.append(texts(data["names"], "names", [meaning for meaning, _, _, _ in LINES.values()], text_align="left", text_font_size="11px"))
    parts.append(cursor(data["batch"], "batch"))
    frame = shared_options(
        min_height=300, hooks=[decades_of("tokens")], logx=True, logy=True, xlim=box[:2], ylim=box[2:],
        xlabel="Independent tokens in a step",
        ylabel="Busiest GPU over an even share", xformatter=tick_formatter("tokens"), yformatter=tick_formatter(""),
        yticks=[1, 1.2, 1.5, 2, 3, 5, 10, 20, 50],
    )  # fmt: skip
    return hv.Overlay(parts).opts(frame)


STRAGGLERS: Picture[Snapshot] = Picture(straggler_build, straggler_columns, straggler_limits, min_height=300)
