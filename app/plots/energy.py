"""When does SRAM beat HBM for experts, and where do a regime's joules go?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import holoviews as hv
import numpy as np
from bokeh.models import FixedTicker

from app.energy import BATCHES, EnergyView
from app.picture import Columns, Limits, Picture
from app.plots.labels import NAMES, kept_inside, spread
from app.plots.marks import cursor, curve, hatched, points, texts
from app.quantities import format_quantity
from app.state import Snapshot
from app.theme import DASHES, ink, line, shared_options, tick_formatter
from physics.joules import LEVELS
from physics.regimes import REGIMES

LABEL_ROOM = 0.45
"""Room at the right end for the names of the lines, as a share of the axis."""
LINES = ("memory_j", "sram_j", "memory_network_j", "sram_network_j", "leakage_j")
_MEANING = {"memory_j": "hbm", "sram_j": "sram", "memory_network_j": "hbm", "sram_network_j": "sram", "leakage_j": "sram"}
_DASH = {"memory_network_j": DASHES["network"], "sram_network_j": DASHES["network"], "leakage_j": DASHES["guide"]}


def line_names(view: EnergyView) -> dict[str, str]:
    """Names of the lines, as they stand at their ends."""
    memory = "main memory" if view.memory_is_sram else view.memory_name
    alone = view.scenario.gpus_per_stage == 1
    return {
        "memory_j": memory,
        "sram_j": "SRAM",
        "memory_network_j": "" if alone else f"{memory} network",
        "sram_network_j": "SRAM network",
        "leakage_j": "SRAM leakage",
    }


def chips_text(view: EnergyView) -> str:
    """What holds the experts: 1,309 chips of Groq 3 LPU."""
    if view.summary is None:
        return ""
    number = view.summary.chips
    return f"{number:,.0f} {'chip' if number == 1 else 'chips'} of {view.sram.held_by.name}"


def expert_limits(s: Snapshot) -> Limits:
    """All batches, with room for names; whole decades around the lines."""
    values = np.concatenate([_positive(s, name) for name in LINES])
    finite = values[np.isfinite(values)]
    low, high = (finite.min(), finite.max()) if finite.size else (1e-3, 1.0)
    room = (BATCHES[-1] / BATCHES[0]) ** LABEL_ROOM
    return float(BATCHES[0]), float(BATCHES[-1] * room), 10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high * 1.05))


def _positive(s: Snapshot, name: str) -> np.ndarray:
    values = np.asarray(s.energy.curves[name], float)
    return np.where(values > 0.0, values, np.nan)


def expert_columns(s: Snapshot) -> Columns:
    """Lines, their names, the crossing and where the memory ends."""
    box, view = expert_limits(s), s.energy
    data: dict[str, dict[str, Any]] = {name: {"x": BATCHES, "y": _positive(s, name)} for name in LINES}
    ends = [_last(data[name]["y"]) for name in LINES]
    for name, height, text in zip(LINES, spread(ends, box[2:]), line_names(view).values(), strict=True):
        shown = text if np.isfinite(height) else ""
        data[f"name {name}"] = {"x": [BATCHES[-1] * 1.3], "y": [height], "text": [shown]}
    data |= _crossing(view, box)
    lift = (box[3] / box[2]) ** 0.035
    data["chips"] = {"x": [BATCHES[0] * 1.25], "y": [float(data["sram_j"]["y"][0]) * lift], "text": [chips_text(view)]}
    data["infeasible"], data["reason"] = _infeasible(view, box)
    data["cursor"] = {"location": float(s.scenario.batch)}
    ghost = s.pinned.energy.curves if s.pinned is not None else {}
    for name in ("memory_j", "sram_j"):
        data[f"ghost {name}"] = {"x": BATCHES, "y": ghost.get(name, np.full(len(BATCHES), np.nan))}
    return data


def _last(values: np.ndarray) -> float:
    finite = values[np.isfinite(values)]
    return float(finite[-1]) if finite.size else math.nan


def _crossing(view: EnergyView, box: Limits) -> dict[str, dict[str, Any]]:
    summary = view.summary
    x = summary.crossing_batch if summary is not None and 1.0 < summary.crossing_batch < BATCHES[-1] else math.nan
    y = summary.sram_j if summary is not None else math.nan
    words = (
        f"batch {format_quantity(x, '')}, queue {format_quantity(summary.crossing_queue_tokens, '')}"
        if summary is not None and x > 0
        else ""
    )
    lift = (box[3] / box[2]) ** 0.065
    place = kept_inside([x * (box[1] / box[0]) ** 0.12], [words], box) if words else [math.nan]
    return {"crossing": {"x": [x], "y": [y]}, "value": {"x": place, "y": [y * lift], "text": [words]}}


def _infeasible(view: EnergyView, box: Limits) -> tuple[dict[str, Any], dict[str, Any]]:
    """Batches whose cache the stage cannot hold: hatched, with the reason."""
    bad = np.flatnonzero(~view.fits)
    left, right = (float(BATCHES[bad[0]]), float(BATCHES[-1])) if bad.size else (math.nan, math.nan)
    words = "cache does not fit" if bad.size else ""
    sides = {"left": [left], "bottom": [box[2]], "right": [right], "top": [box[3]]}
    middle = kept_inside([math.sqrt(left * right)], [words], box) if bad.size else [math.nan]
    return sides, {"x": middle, "y": [box[3] / (box[3] / box[2]) ** 0.05], "text": [words]}


def expert_build(s: Snapshot) -> hv.Overlay:
    """The overlay of a snapshot."""
    data, box = expert_columns(s), expert_limits(s)
    parts: list[Any] = [hatched(data["infeasible"], "infeasible")]
    parts += [curve(data[f"ghost {name}"], f"ghost {name}", _MEANING[name], alpha=0.35, line_width=2) for name in ("memory_j", "sram_j")]
    for name in LINES:
        style = {"line_width": 2.4} if name in ("memory_j", "sram_j") else {"line_width": 1.8, "line_dash": _DASH[name]}
        parts.append(curve(data[name], name, _MEANING[name], **style))
        parts.append(texts(data[f"name {name}"], f"name {name}", _MEANING[name], text_align="left"))
    parts.append(points(data["crossing"], "crossing", "text", size=9, fill_alpha=0, line_width=1.5))
    parts.append(texts(data["value"], "value", "text", text_font_size="11px"))
    parts.append(texts(data["chips"], "chips", "sram", text_align="left", text_font_size="11px"))
    parts.append(texts(data["reason"], "reason", "muted", text_font_size="11px"))
    parts.append(cursor(data["cursor"], "cursor"))
    frame = shared_options(
        min_height=360, logx=True, logy=True, xlim=box[:2], ylim=box[2:], xlabel="Batch size, requests", xticks=[10**n for n in range(6)],
        ylabel="Energy of routed experts per token", xformatter=tick_formatter("requests"), yformatter=tick_formatter("J"),
    )  # fmt: skip
    return hv.Overlay(parts).opts(frame)


EXPERTS: Picture[Snapshot] = Picture(expert_build, expert_columns, expert_limits, min_height=360)

# ---------------------------------------------------------------------------------------------------------- regimes by level
LEVEL_NAMES = {
    "memory": "memory",
    "flop": "arithmetic",
    "scale_up": "links in a domain",
    "scale_out": "links across",
    "idle": "idle",
}
_KEY = {"memory": (0.0, 0), "flop": (0.27, 0), "idle": (0.6, 0), "scale_up": (0.0, 1), "scale_out": (0.5, 1)}
"""Where the fills are named: share of the width, and row from the top."""
_FILL = {
    "memory": ("hbm", 0.85),
    "flop": ("text", 0.72),
    "scale_up": ("midfill", 0.75),
    "scale_out": ("prefill", 0.75),
    "idle": ("muted", 0.35),
}
_FILL |= {"scale_up": ("muted", 0.85), "scale_out": ("muted", 0.6)}
_SHORT = {"flop": "arithmetic", "scale_up": "links", "scale_out": "links"}
STACK = ("memory", "flop", "scale_up", "scale_out", "idle")
HEIGHT = 0.34
TOP = len(REGIMES) + 0.15


def level_limits(s: Snapshot) -> Limits:
    """From nothing to the longest bar, with room for its words."""
    longest = float(np.nanmax(s.energy.level_joules["total"], initial=0.0))
    return 0.0, (longest or 1.0) * 2.3, -0.6, TOP + 0.4


def level_columns(s: Snapshot) -> Columns:
    """Stacked bars, one column of rectangles for each level, and their words."""
    joules, box = s.energy.level_joules, level_limits(s)
    data: dict[str, dict[str, Any]] = {}
    left = np.zeros(len(REGIMES))
    for name in STACK:
        right = left + np.nan_to_num(joules[name])
        data[name] = {"left": left, "right": right}
        left = right
    words = [_bar_words({name: float(values[i]) for name, values in joules.items()}) for i in range(len(REGIMES))]
    data["words"] = {"x": left + box[1] * 0.012, "text": words}
    data |= _key(box)
    return data


def _bar_words(joules: Mapping[str, float]) -> str:
    """Total, and the largest level with its share."""
    total = joules["total"]
    if not total > 0:
        return "–"
    name = max(LEVELS, key=lambda level: joules[level])
    return f"{format_quantity(total, 'J')} · {_SHORT.get(name, name)} {100.0 * joules[name] / total:.0f} %"


def _key(box: Limits) -> dict[str, dict[str, Any]]:
    """What each fill means, written once above the bars."""
    places = {name: _KEY[name][0] * box[1] for name in STACK}
    marks = {f"key {name}": {"left": [place], "right": [place + box[1] * 0.02]} for name, place in places.items()}
    return {"key": {"x": [place + box[1] * 0.03 for place in places.values()], "text": [LEVEL_NAMES[name] for name in STACK]}} | marks


def _name_regimes(plot: Any, _element: Any) -> None:
    axis = plot.handles["yaxis"]
    axis.update(ticker=FixedTicker(ticks=list(range(len(REGIMES)))), axis_label=None)
    axis.major_label_overrides = {len(REGIMES) - 1 - i: NAMES[name] for i, name in enumerate(REGIMES)}
    plot.state.ygrid.visible = False


def _boxes(sides: Mapping[str, Any], middle: np.ndarray, half: float, label: str, meaning: str, alpha: float) -> hv.Rectangles:
    shape = (sides["left"], middle - half, sides["right"], middle + half)
    return hv.Rectangles(shape, ["x0", "y0", "x1", "y1"], label=label).opts(color=line(meaning), fill_alpha=alpha, line_alpha=0.0)


def level_build(s: Snapshot) -> hv.Overlay:
    """The overlay of a snapshot."""
    data, box, rows = level_columns(s), level_limits(s), np.arange(len(REGIMES))[::-1].astype(float)
    key_y = {name: TOP - 0.42 * _KEY[name][1] for name in STACK}
    parts: list[Any] = [_boxes(data[name], rows, HEIGHT, name, *_FILL[name]) for name in STACK]
    parts += [_boxes(data[f"key {name}"], np.array([key_y[name]]), 0.13, f"key {name}", *_FILL[name]) for name in STACK]
    words = hv.Labels((data["words"]["x"], rows, data["words"]["text"]), ["x", "y"], "text", label="words")
    key = hv.Labels((data["key"]["x"], list(key_y.values()), data["key"]["text"]), ["x", "y"], "text", label="key")
    for labels, color in ((words, "text"), (key, "muted")):
        parts.append(labels.opts(text_align="left", text_baseline="middle", text_color=ink(color), text_font_size="11px"))
    frame = shared_options(
        min_height=360, hooks=[_name_regimes], xlim=box[:2], ylim=box[2:], xlabel="Energy per token", xformatter=tick_formatter("J"),
    )  # fmt: skip
    return hv.Overlay(parts).opts(frame)


REGIME_LEVELS: Picture[Snapshot] = Picture(level_build, level_columns, level_limits, min_height=360)
