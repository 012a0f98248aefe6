"""How much of the expert bank does a batch wake up, and what does sharing bring? Pictures of the page Experts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import holoviews as hv
import numpy as np

from app import expert_bank as b
from app.picture import Columns, Limits, Picture, kept
from app.plots.labels import beside_points, spread, spread_linear
from app.plots.marks import cursor, curve, decades_of, points, segments, texts
from app.quantities import format_quantity
from app.state import Snapshot
from app.theme import DASHES, GHOST_ALPHA, line, log_limits, shared_options, tick_formatter

LOOKS: dict[str, tuple[str, str, float]] = {
    "round_robin": ("muted", DASHES["guide"], 1.5),
    "uniform": ("text", "solid", 1.2),
    "skew": ("decode_experts", "solid", 2.5),
    "within": ("midfill", "solid", 2.5),
}
"""Meaning of the colour, dash and width of each line."""
LABEL_ROOM = 0.52
"""Room at the right end for the names of the lines, as a share of the axis."""
SHOWN_STEPS = {"decode_experts": "decode", "midfill": "midfill", "prefill": "prefill"}


def names(s: Snapshot) -> dict[str, str]:
    """What each line is called beside its end."""
    compared = b.laws(s)
    return {"round_robin": "round robin", "uniform": "uniform", "skew": compared.skew_name, "within": compared.within_name}


# ------------------------------------------------------------------------------------------------------ distinct experts
def tokens_shown(s: Snapshot) -> float:
    """Where the curves end: eight times the tokens that fill the bank in balance, or beyond the decode batch."""
    held = b.bank(s)
    return float(min(max(8.0 * held.n_experts / held.top_k, 1.5 * s.scenario.batch, 16.0), b.TOKENS[-1]))


def _ends(s: Snapshot, curves: dict[str, np.ndarray]) -> tuple[float, list[float]]:
    end = tokens_shown(s)
    return end, [float(np.interp(math.log(end), np.log(b.TOKENS), curves[name])) for name in b.LINES]


def _shown(values: np.ndarray, end: float) -> np.ndarray:
    """A line up to `end`, its last sample there."""
    return np.where(end >= b.TOKENS, values, np.nan)


def distinct_limits(s: Snapshot) -> Limits:
    """From one token to where the bank is full, with room for names; from nothing to all experts."""
    return 1.0, tokens_shown(s) ** (1.0 + LABEL_ROOM), 0.0, b.bank(s).n_experts * 1.06


@kept(b.key)
def distinct_columns(s: Snapshot) -> Columns:
    """Four lines, the band of two standard deviations, the regimes that lie in view, and names."""
    curves, box = b.distinct_curves(s), distinct_limits(s)
    data = _line_columns(s, b.distinct_curves, box, spread_linear)
    end, held = tokens_shown(s), b.bank(s)
    low, high = (np.clip(curves["skew"] + side * curves["sd"], 0.0, held.n_experts) for side in (-2.0, 2.0))
    inside = end >= b.TOKENS
    last = int(np.flatnonzero(inside)[-1])
    x, low, high = (np.where(inside, values, values[last]) for values in (b.TOKENS, low, high))
    data["band"] = {"x": np.concatenate([x, x[::-1]]), "y": np.concatenate([low, high[::-1]])}
    return data | _step_points(s, box, "distinct", curves, data)


GHOSTS = ("skew", "within")
_NOWHERE = np.full(b.TOKENS.size, math.nan)


def _line_columns(
    s: Snapshot, curves_of: Callable[[Snapshot], dict[str, np.ndarray]], box: Limits, apart: Any
) -> dict[str, dict[str, Any]]:
    """The lines, those of a pinned state as ghosts, and their names at the ends."""
    curves = curves_of(s)
    end, heights = _ends(s, curves)
    heights = apart(heights, box[2:])
    data: dict[str, dict[str, Any]] = {}
    for name in GHOSTS:
        data[f"ghost {name}"] = {"x": b.TOKENS, "y": _shown(curves_of(s.pinned)[name], end) if s.pinned is not None else _NOWHERE}
    for name in b.LINES:
        data[name] = {"x": b.TOKENS, "y": _shown(curves[name], end)}
    called = names(s)
    data["names"] = {"x": [end * (box[1] / end) ** 0.05] * len(b.LINES), "y": heights, "text": [called[name] for name in b.LINES]}
    return data


def _step_points(
    s: Snapshot, box: Limits, field: str, curves: dict[str, np.ndarray], lines: dict[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Where the scenario's own steps are, those within the curves' reach, and their names where no line is covered."""
    found, end = b.steps(s), tokens_shown(s)
    inside = np.array([found[name].tokens <= end for name in b.STEPS])
    x = np.where(inside, [found[name].tokens for name in b.STEPS], math.nan)
    y = np.where(inside, [float(getattr(found[name], field)) for name in b.STEPS], math.nan)
    words = [SHOWN_STEPS[name] if shown else "" for name, shown in zip(b.STEPS, inside, strict=True)]
    to_log, from_log = (_curved(box), _straight(box)) if field == "distinct" else (np.asarray, np.asarray)
    at = np.arange(0, int((end >= b.TOKENS).sum()) - 9, 9)
    strokes = [
        (b.TOKENS[i], float(to_log(curves[name][i])), b.TOKENS[i + 9], float(to_log(curves[name][i + 9]))) for name in b.LINES for i in at
    ]
    named = lines["names"]
    standing = [(place, float(to_log(height)), text, 1) for place, height, text in zip(named["x"], named["y"], named["text"], strict=True)]
    heights = (float(to_log(box[2])), float(to_log(box[3])))
    place_x, place_y = beside_points(x, to_log(y), words, (box[0], box[1], *heights), standing, strokes)
    return {"steps": {"x": x, "y": y}, "step names": {"x": place_x, "y": from_log(np.asarray(place_y)), "text": words}}


def _curved(box: Limits) -> Any:
    """A linear axis as a logarithmic one of the same length, for what places labels on logarithmic axes."""
    return lambda y: np.exp((np.asarray(y, float) - box[2]) / (box[3] - box[2]))


def _straight(box: Limits) -> Any:
    return lambda y: box[2] + (box[3] - box[2]) * np.log(y)


def _lines(data: Columns) -> list[Any]:
    parts = [curve(data[f"ghost {name}"], f"ghost {name}", LOOKS[name][0], alpha=GHOST_ALPHA, line_width=2) for name in GHOSTS]
    parts += [curve(data[name], name, meaning, line_dash=dash, line_width=width) for name, (meaning, dash, width) in LOOKS.items()]
    parts.append(texts(data["names"], "names", [meaning for meaning, _, _ in LOOKS.values()], text_align="left"))
    return [*parts, *_steps(data)]


def _steps(data: Columns) -> list[Any]:
    """The regimes' own steps and their names."""
    return [points(data["steps"], "steps", b.STEPS, size=10), texts(data["step names"], "step names", b.STEPS, text_font_size="11px")]


def distinct_build(s: Snapshot) -> hv.Overlay:
    """The overlay of a snapshot."""
    data, box = distinct_columns(s), distinct_limits(s)
    half = len(b.TOKENS)
    x, y = data["band"]["x"][:half], data["band"]["y"]
    band = hv.Area((x, y[:half], y[half:][::-1]), "x", ["y", "high"], label="band")
    parts = [band.opts(line_alpha=0, color=line("decode_experts"), fill_alpha=0.18), *_lines(data)]
    frame = shared_options(
        min_height=330, hooks=[decades_of("uniform")], logx=True, xlim=box[:2], ylim=box[2:], xlabel="Tokens in a step",
        ylabel="Distinct experts of a layer", xformatter=tick_formatter("tokens"), yformatter=tick_formatter("experts"),
    )  # fmt: skip
    return hv.Overlay(parts).opts(frame)


DISTINCT: Picture[Snapshot] = Picture(distinct_build, distinct_columns, distinct_limits, min_height=330)


# ---------------------------------------------------------------------------------------------- tokens per touched expert
def shared_curves(s: Snapshot) -> dict[str, np.ndarray]:
    """Tokens per touched expert along TOKENS by line [token]."""
    curves, k = b.distinct_curves(s), b.bank(s).top_k
    return {name: k * b.TOKENS / curves[name] for name in b.LINES}


def shared_limits(s: Snapshot) -> Limits:
    """The tokens of the picture of distinct experts; from one to the decade above the longest queue."""
    _, ends = _ends(s, shared_curves(s))
    return 1.0, distinct_limits(s)[1], 0.9, max(ends) * 1.5


@kept(b.key)
def shared_columns(s: Snapshot) -> Columns:
    """Four lines, the regimes that lie in view, and names."""
    box, curves = shared_limits(s), shared_curves(s)
    data = _line_columns(s, shared_curves, box, spread)
    return data | _step_points(s, box, "shared", curves, data)


def shared_build(s: Snapshot) -> hv.Overlay:
    """The overlay of a snapshot."""
    data, box = shared_columns(s), shared_limits(s)
    frame = shared_options(
        min_height=330, hooks=[decades_of("uniform")], logx=True, logy=True, xlim=box[:2], ylim=box[2:], xlabel="Tokens in a step",
        ylabel="Tokens per touched expert", xformatter=tick_formatter("tokens"), yformatter=tick_formatter("tokens"),
        yticks=[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000],
    )  # fmt: skip
    return hv.Overlay(_lines(data)).opts(frame)


SHARED: Picture[Snapshot] = Picture(shared_build, shared_columns, shared_limits, min_height=330)


# ------------------------------------------------------------------------------------------------------- bytes per token
TRAFFIC: dict[str, tuple[str, str, float, str]] = {
    "experts": ("decode_experts", "solid", 2.5, "experts"),
    "balanced": ("decode_experts", DASHES["guide"], 1.5, "if round robin"),
    "shared": ("decode_shared", "solid", 2.0, "shared weights"),
    "kv": ("decode_attention", "solid", 2.0, "KV and state"),
}


def _positive(values: np.ndarray) -> np.ndarray:
    return np.where(values > 0.0, values, np.nan)


def traffic_limits(s: Snapshot) -> Limits:
    """The batch slider's range with room for names; whole decades around the lines."""
    values = np.concatenate([_positive(values) for values in b.traffic(s).values()])
    low, high = log_limits(float(np.nanmin(values)) * 0.999, float(np.nanmax(values)) * 1.001)
    return 1.0, float(b.BATCHES[-1] ** (1.0 + LABEL_ROOM)), low, high


def traffic_columns(s: Snapshot) -> Columns:
    """Bytes per token of a decode step by cause, where sharing pays, and the present batch."""
    lines, box = b.traffic(s), traffic_limits(s)
    data: dict[str, dict[str, Any]] = {name: {"x": b.BATCHES, "y": _positive(lines[name])} for name in TRAFFIC}
    ghost = np.full(b.BATCHES.size, math.nan) if s.pinned is None else _positive(b.traffic(s.pinned)["experts"])
    heights = spread([float(data[name]["y"][-1]) for name in TRAFFIC], box[2:])
    words = [text if math.isfinite(height) else "" for (_, _, _, text), height in zip(TRAFFIC.values(), heights, strict=True)]
    data["names"] = {"x": [b.BATCHES[-1] * 1.25] * len(words), "y": heights, "text": words}
    return data | {"ghost": {"x": b.BATCHES, "y": ghost}} | _pays_columns(s, lines, box)


def _pays_columns(s: Snapshot, lines: dict[str, np.ndarray], box: Limits) -> dict[str, dict[str, Any]]:
    """Rings where sharing starts to pay and where it halves the traffic, their words, and the present batch."""
    batches = [math.ceil(batch) for batch in b.pays_from(s)]
    x = [batch if batch <= b.BATCHES[-1] else math.nan for batch in batches]
    y = np.interp(np.log(x), np.log(b.BATCHES), lines["experts"])
    words = [f"{text} from {batch:,}" if batch <= b.BATCHES[-1] else "" for text, batch in zip(("−10 %", "half"), batches, strict=True)]
    strokes = [
        (float(b.BATCHES[i]), float(values[i]), float(b.BATCHES[i + 12]), float(values[i + 12]))
        for values in lines.values() if values[-1] > 0.0 for i in range(0, len(b.BATCHES) - 12, 12)
    ]  # fmt: skip
    strokes.append((s.scenario.batch, box[2], s.scenario.batch, box[3]))
    place_x, place_y = beside_points(x, y, words, box, strokes=strokes)
    data: dict[str, dict[str, Any]] = {"pays": {"x": x, "y": y}, "pays text": {"x": place_x, "y": place_y, "text": words}}
    data["batch"] = {"location": float(s.scenario.batch)}
    return data


def traffic_build(s: Snapshot) -> hv.Overlay:
    """The overlay of a snapshot."""
    data, box = traffic_columns(s), traffic_limits(s)
    parts: list[Any] = [curve(data["ghost"], "ghost", "decode_experts", alpha=GHOST_ALPHA, line_width=2)]
    parts += [curve(data[name], name, meaning, line_dash=dash, line_width=width) for name, (meaning, dash, width, _) in TRAFFIC.items()]
    parts.append(texts(data["names"], "names", [meaning for meaning, _, _, _ in TRAFFIC.values()], text_align="left"))
    parts.append(points(data["pays"], "pays", "text", size=9, fill_alpha=0, line_width=1.5))
    parts.append(texts(data["pays text"], "pays text", "text", text_font_size="11px"))
    parts.append(cursor(data["batch"], "batch"))
    frame = shared_options(
        min_height=330, hooks=[decades_of("shared")], logx=True, logy=True, xlim=box[:2], ylim=box[2:], xlabel="Batch, requests",
        ylabel="Bytes per decoded token", xformatter=tick_formatter("requests"), yformatter=tick_formatter("B/token"),
    )  # fmt: skip
    return hv.Overlay(parts).opts(frame)


BYTES: Picture[Snapshot] = Picture(traffic_build, traffic_columns, traffic_limits, min_height=330)


# ------------------------------------------------------------------------------------------------------------- intensity
def intensity_limits(s: Snapshot) -> Limits:
    """Queues of 1 to a million tokens; from the intensity of one token to above ceiling and ridge."""
    held = b.bank(s)
    low, _ = log_limits(float(b.intensity(held, 1.0)) * 0.999, 10.0)
    return 1.0, 1e6, low, 3.0 * max(b.ceiling(held), held.ridge)


def _flat_texts(s: Snapshot) -> tuple[list[float], list[float], list[str], list[str]]:
    """Both flattenings: where, and what is said; what the ridge and the ceiling are called."""
    held = b.bank(s)
    at_ridge, at_half = b.flattenings(held)
    x = [at_ridge if at_ridge <= 1e6 else math.nan, at_half]
    y = [held.ridge if math.isfinite(x[0]) else math.nan, b.ceiling(held) / 2.0]
    said = [f"ridge at {format_quantity(x[0], 'tokens')}" if math.isfinite(x[0]) else "", f"half at {format_quantity(at_half, 'tokens')}"]
    reach = "" if math.isfinite(at_ridge) else ", never reached"
    roofs = [f"{held.arithmetic.upper()} ridge {format_quantity(held.ridge, '')}{reach}", f"ceiling {format_quantity(b.ceiling(held), '')}"]
    return x, y, said, roofs


@kept(b.key)
def intensity_columns(s: Snapshot) -> Columns:
    """One expert's curve, ridge and ceiling, both flattenings, and the mean queues of the regimes."""
    held, box = b.bank(s), intensity_limits(s)
    x, y, said, roofs = _flat_texts(s)
    data: dict[str, dict[str, Any]] = {"curve": {"x": b.QUEUES, "y": b.intensity(held, b.QUEUES)}}
    for name, height in (("ridge", held.ridge), ("ceiling", b.ceiling(held))):
        data[name] = {"x": [box[0], box[1]], "y": [height, height]}
    heights = spread([held.ridge * 1.001, b.ceiling(held)], (box[2], box[3]), gap_px=34.0)
    lift = (box[3] / box[2]) ** 0.035
    data["roofs"] = {"x": [1.3, 1.3], "y": [height * lift for height in heights], "text": roofs}
    queues = [step.shared if step.shared <= 1e6 else math.nan for step in b.steps(s).values()]
    shown = b.intensity(held, np.asarray(queues))
    strokes = [
        (a, float(b.intensity(held, a)), c, float(b.intensity(held, c))) for a, c in zip(b.QUEUES[:-10:10], b.QUEUES[10::10], strict=True)
    ]
    strokes += [(box[0], height, box[1], height) for height in (held.ridge, b.ceiling(held))]
    standing = [(1.3, height * lift, text, 1) for height, text in zip(heights, roofs, strict=True)]
    labels = [SHOWN_STEPS[name] for name in b.STEPS]
    place_x, place_y = beside_points([*queues, *x], [*shown, *y], [*labels, *said], box, standing, strokes)
    data["steps"] = {"x": queues, "y": shown}
    data["step names"] = {"x": place_x[:3], "y": place_y[:3], "text": labels}
    data["flat"] = {"x": x, "y": y}
    data["flat text"] = {"x": place_x[3:], "y": place_y[3:], "text": said}
    return data


def intensity_build(s: Snapshot) -> hv.Overlay:
    """The overlay of a snapshot."""
    data, box = intensity_columns(s), intensity_limits(s)
    parts = [
        curve(data["ridge"], "ridge", "text", line_width=1.2),
        curve(data["ceiling"], "ceiling", "muted", line_dash=DASHES["guide"], line_width=1.2),
        curve(data["curve"], "curve", "decode_experts", line_width=2.5),
        texts(data["roofs"], "roofs", "muted", text_align="left", text_font_size="11px"),
    ]
    parts += _steps(data)
    parts.append(points(data["flat"], "flat", "text", size=14, fill_alpha=0, line_width=1.5))  # a ring may lie around a point
    parts.append(texts(data["flat text"], "flat text", "text", text_font_size="11px"))
    frame = shared_options(
        min_height=330, logx=True, logy=True, xlim=box[:2], ylim=box[2:], xlabel="Tokens on one expert", ylabel="Intensity, FLOP/B",
        xformatter=tick_formatter("tokens"), yformatter=tick_formatter(""),
    )  # fmt: skip
    return hv.Overlay(parts).opts(frame)


INTENSITY: Picture[Snapshot] = Picture(intensity_build, intensity_columns, intensity_limits, min_height=330)


# ---------------------------------------------------------------------------------------------------- sharing per regime
ROWS = {name: 2.0 - i for i, name in enumerate(b.STEPS)}


def sharing_limits(s: Snapshot) -> Limits:
    """From one token to the decade above the longest queue, with room for the numbers."""
    _, high = log_limits(1.0, max(max(step.shared, step.uniform) for step in b.steps(s).values()) * 1.01)
    return 0.8, high * 1.5, -0.6, 2.6


@kept(b.key)
def sharing_columns(s: Snapshot) -> Columns:
    """A bar for each regime, a ring where independent and uniform tokens would be, and the numbers."""
    found, y = b.steps(s), list(ROWS.values())
    words = []
    for name, step in found.items():
        tokens, each = (format_quantity(value, "tokens") for value in (step.tokens, step.shared))
        words.append(f"{SHOWN_STEPS[name]}: {tokens} wake {format_quantity(step.distinct, '')}: {each} each")
    return {
        "bars": {"x1": [step.shared for step in found.values()]},
        "rings": {"x": [step.uniform for step in found.values()], "y": y},
        "words": {"x": [1.08] * len(y), "y": [row + 0.30 for row in y], "text": words},
    }


def _no_rows(plot: Any, _element: Any) -> None:
    """The rows name themselves."""
    plot.handles["yaxis"].visible = False
    plot.state.ygrid.visible = False


def sharing_build(s: Snapshot) -> hv.Overlay:
    """The overlay of a snapshot."""
    data, box, y = sharing_columns(s), sharing_limits(s), list(ROWS.values())
    parts = [
        segments({"x": [1.0] * len(y), "y": y, "y1": y, **data["bars"]}, "bars", b.STEPS, line_width=9),
        points(data["rings"], "rings", "text", size=10, fill_alpha=0, line_width=1.5),
        texts(data["words"], "words", b.STEPS, text_align="left"),
    ]
    frame = shared_options(
        min_height=280, hooks=[_no_rows], logx=True, xlim=box[:2], ylim=box[2:],
        xlabel="Tokens per touched expert; ring: if uniform and independent", xformatter=tick_formatter("tokens"),
    )  # fmt: skip
    return hv.Overlay(parts).opts(frame)


SHARING: Picture[Snapshot] = Picture(sharing_build, sharing_columns, sharing_limits, min_height=280)
