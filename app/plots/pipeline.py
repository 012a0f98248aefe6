"""How deep should the pipe be? What a stage must hold at each depth, and what depth does to latency and throughput."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import holoviews as hv
import numpy as np

from app.picture import Columns, Limits, Picture
from app.plots.labels import spread
from app.plots.marks import cursor, curve, hatched, texts
from app.quantities import format_quantity
from app.state import Snapshot, depth_values
from app.theme import DASHES, line, shared_options, tick_formatter
from physics.memory import memory_parts
from physics.regimes import DECODE, REGIMES
from physics.si import GB

BENCHMARK = (400 * GB, 500 * GB)
"""The essay's benchmark of one stage: 140 GB of KV, 280 GB double buffered, 400 to 500 GB with weights and margin."""
X_LIMITS = (0.95, 300.0)
_DECODE = [REGIMES.index(name) for name in DECODE]


def stage_parts(s: Snapshot) -> dict[str, np.ndarray]:
    """Bytes of one stage at each depth: weights, kv, buffers, margin, total, capacity."""
    depths = depth_values(s.scenario)
    return {name: np.broadcast_to(value, depths.shape) for name, value in memory_parts(s.scenario, pipeline_depth=depths).items()}


def crossover_depth(s: Snapshot) -> float:
    """Depth at which KV and state weigh as much as the weights of a stage."""
    memory = s.memory
    return float(memory.weights * s.scenario.pipeline_depth / memory.kv) if memory.kv else math.inf


def memory_limits(s: Snapshot) -> Limits:
    """From nothing to a little above the fullest stage, and to the capacity where it is not far above."""
    parts = stage_parts(s)
    fullest, capacity = float(parts["total"].max()), float(parts["capacity"][0])
    top = max(fullest, BENCHMARK[1]) * 1.25
    return (*X_LIMITS, 0.0, max(top, capacity * 1.15) if capacity < 2.5 * top else top)


def _polygon(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> dict[str, Any]:
    """Outline of the area between two lines, as HoloViews draws it."""
    return {"x": np.concatenate([x, x[::-1]]), "y": np.concatenate([low, high[::-1]])}


def memory_columns(s: Snapshot) -> Columns:
    """Stacked parts, both buffering choices, capacity, crossover and benchmark."""
    x, parts, box = depth_values(s.scenario), stage_parts(s), memory_limits(s)
    base = np.zeros(len(x))
    data: dict[str, dict[str, Any]] = {}
    for name in ("kv", "weights", "buffers", "margin"):
        top = base + parts[name]
        data[name] = _polygon(x, base, top)
        base = top
    other = base - parts["kv"] * (0.5 if s.scenario.double_buffered else -1.0)
    data["total"] = {"x": x, "y": base}
    data["other"] = {"x": x, "y": other}
    capacity = float(parts["capacity"][0])
    data["capacity"] = {"location": capacity}
    depth = crossover_depth(s)
    shown = depth if X_LIMITS[0] <= depth <= X_LIMITS[1] else math.nan
    data["crossover"] = {"x": [shown, shown], "y": [0.0, box[3]]}
    data["depth"] = {"location": float(s.scenario.pipeline_depth)}
    data["texts"] = _memory_texts(s, parts, other, box, shown)
    bad = np.flatnonzero(~(parts["total"] <= parts["capacity"]))
    left, right = (x[bad[0]], x[bad[-1]]) if bad.size else (math.nan, math.nan)
    data["infeasible"] = {"left": [left * 0.97], "bottom": [0.0], "right": [right * 1.03], "top": [box[3]]}
    return data


def _memory_texts(s: Snapshot, parts: dict[str, np.ndarray], other: np.ndarray, box: Limits, depth: float) -> dict[str, Any]:
    """Names at the right end of each layer, and of the marks."""
    kv, total = float(parts["kv"][-1]), float(parts["total"][-1])
    double = "single buffered" if s.scenario.double_buffered else "double buffered"
    layers = [(kv / 2, "KV and state"), ((kv + total) / 2, "weights"), (float(other[-1]), double)]
    gap = (box[3] - box[2]) / 22
    heights = _apart([y for y, _ in layers], gap)
    end = 0.03 + math.log(depth_values(s.scenario)[-1] / X_LIMITS[0]) / math.log(X_LIMITS[1] / X_LIMITS[0])
    rows = [(end, y, text) for y, (_, text) in zip(heights, layers, strict=True)]
    capacity = float(parts["capacity"][0])
    held = f"capacity {format_quantity(capacity, 'B')}"
    rows.append((0.40, capacity + gap * 0.6 if capacity <= box[3] else box[3] - gap, held if capacity <= box[3] else held + " ↑"))
    rows.append((0.60, (BENCHMARK[0] + BENCHMARK[1]) / 2, "400–500 GB stage"))
    x = [X_LIMITS[0] * (X_LIMITS[1] / X_LIMITS[0]) ** share for share, _, _ in rows]
    words = [text for _, _, text in rows]
    named = f"KV = weights at {format_quantity(depth, 'stages')}" if math.isfinite(depth) else ""
    return {"x": [*x, depth * 1.06], "y": [*(y for _, y, _ in rows), box[3] - gap * 0.8], "text": [*words, named]}


def _apart(y: list[float], gap: float) -> list[float]:
    """Heights on a linear axis, pushed up until they stand at least `gap` apart."""
    placed = list(y)
    for this, last in zip(sorted(range(len(y)), key=lambda i: y[i])[1:], sorted(range(len(y)), key=lambda i: y[i]), strict=False):
        placed[this] = max(placed[this], placed[last] + gap)
    return placed


def _area(data: Mapping[str, Any], label: str, **style: Any) -> hv.Area:
    half = len(data["x"]) // 2
    low, high = data["y"][:half], data["y"][half:][::-1]
    return hv.Area((data["x"][:half], low, high), "x", ["y", "high"], label=label).opts(line_alpha=0, **style)


def memory_build(s: Snapshot) -> hv.Overlay:
    """The overlay of a snapshot."""
    data, box = memory_columns(s), memory_limits(s)
    band = hv.HSpan(*BENCHMARK).opts(color=line("muted"), alpha=0.12)
    parts: list[Any] = [band]
    parts.append(_area(data["kv"], "kv", color=line("hbm"), fill_alpha=0.75))
    parts.append(_area(data["weights"], "weights", color=line("hbm"), fill_alpha=0.35))
    parts += [_area(data[name], name, color=line("muted"), fill_alpha=0.4) for name in ("buffers", "margin")]
    parts.append(hatched(data["infeasible"], "infeasible"))
    parts.append(curve(data["total"], "total", "text", line_width=1.6))
    parts.append(curve(data["other"], "other", "text", line_width=1.6, line_dash=DASHES["memory"]))
    parts.append(curve(data["crossover"], "crossover", "decode_attention", line_width=1.6))
    parts.append(hv.HLine(data["capacity"]["location"], label="capacity").opts(color=line("text"), line_width=2))
    parts.append(cursor(data["depth"], "depth"))
    parts.append(texts(data["texts"], "texts", "text", text_align="left", text_font_size="11px"))
    frame = shared_options(
        min_height=360, logx=True, xlim=box[:2], ylim=box[2:], xlabel="Pipeline depth, stages", ylabel="Memory of one stage",
        xticks=[1, 2, 4, 8, 16, 32, 64], yformatter=tick_formatter("B"),
    )  # fmt: skip
    return hv.Overlay(parts).opts(frame)


MEMORY: Picture[Snapshot] = Picture(memory_build, memory_columns, memory_limits, min_height=360)


def speed_lines(s: Snapshot) -> dict[str, tuple[np.ndarray, str]]:
    """Token latency [s] and tokens/s of the full pipe, at each depth; NaN where it does not fit."""
    depths = depth_values(s.scenario)
    step = np.asarray(s.depths["roofline_s"])[:, _DECODE].sum(axis=-1)
    midfill = np.asarray(s.depths["roofline_s"])[:, REGIMES.index("midfill")]
    return {
        "tpot": (step, "s"),
        "ttft": (midfill, "s"),
        "pipe": (s.scenario.batch * depths / step, "tokens/s"),
        "gpu": (s.scenario.batch / (step * s.scenario.gpus_per_stage), "tokens/s"),
    }


def _speed_picture(names: tuple[str, str], words: tuple[str, str], unit: str, title: str) -> Picture[Snapshot]:
    """Two lines against depth on log-log axes, their names at the right end."""
    colors = {"tpot": "decode_attention", "ttft": "midfill", "pipe": "decode_experts", "gpu": "decode_shared"}

    def limits(s: Snapshot) -> Limits:
        values = np.concatenate([speed_lines(s)[name][0] for name in names])
        finite = values[np.isfinite(values)]
        low, high = (finite.min(), finite.max()) if finite.size else (1e-3, 1.0)
        return (X_LIMITS[0], 400.0, 10.0 ** math.floor(math.log10(low * 0.9)), 10.0 ** math.ceil(math.log10(high * 1.1)))

    def columns(s: Snapshot) -> Columns:
        x, lines, box = depth_values(s.scenario), speed_lines(s), limits(s)
        data: dict[str, dict[str, Any]] = {name: {"x": x, "y": lines[name][0]} for name in names}
        ends = [_last(lines[name][0]) for name in names]
        texts = [word if math.isfinite(end) else "" for word, end in zip(words, ends, strict=True)]
        heights = spread(ends, box[2:])
        for name, height, text in zip(names, heights, texts, strict=True):
            data[f"name {name}"] = {"x": [x[-1] * 1.08], "y": [height], "text": [text]}
        data["depth"] = {"location": float(s.scenario.pipeline_depth)}
        none = "" if any(map(math.isfinite, ends)) else "does not fit at any depth: no speed to show"
        data["infeasible"] = {"x": [8.0], "y": [math.sqrt(box[2] * box[3])], "text": [none]}
        return data

    def build(s: Snapshot) -> hv.Overlay:
        data, box = columns(s), limits(s)
        parts: list[Any] = []
        for name in names:
            parts.append(curve(data[name], name, colors[name], line_width=2))
            parts.append(texts(data[f"name {name}"], f"name {name}", colors[name], text_align="left"))
        parts.append(cursor(data["depth"], "depth"))
        parts.append(texts(data["infeasible"], "infeasible", "text", text_font_size="13px"))
        frame = shared_options(
            min_height=300, logx=True, logy=True, xlim=box[:2], ylim=box[2:], xlabel="Pipeline depth, stages", ylabel=title,
            xticks=[1, 2, 4, 8, 16, 32, 64], yformatter=tick_formatter(unit),
        )  # fmt: skip
        return hv.Overlay(parts).opts(frame)

    return Picture(build, columns, limits, min_height=300)


def _last(values: np.ndarray) -> float:
    finite = values[np.isfinite(values)]
    return float(finite[-1]) if finite.size else math.nan


LATENCY = _speed_picture(("tpot", "ttft"), ("one token (TPOT)", "midfill (TTFT)"), "s", "Latency")
THROUGHPUT = _speed_picture(("pipe", "gpu"), ("whole pipe", "per accelerator"), "tokens/s", "Decode throughput, tokens/s")
