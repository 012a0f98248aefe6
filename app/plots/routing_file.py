"""A user's own routing beside the scenario's: popularity of experts, overlap by distance, and distinct experts within one request."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import holoviews as hv
import numpy as np
import pandas as pd

import physics
from app import expert_bank as b
from app.picture import Columns, Limits, Picture, kept
from app.plots.labels import spread, spread_linear
from app.plots.marks import curve, points, texts
from app.state import Explorer, Snapshot
from app.theme import DASHES, line, shared_options, tick_formatter

RANKS = 128
DISTANCES = np.geomspace(1.0, 512.0, 40)
N_POINTS = 24
WINDOWS = (2, 4, 8, 16, 32, 64, 128, 256)


def _key(s: Snapshot) -> tuple[Any, ...] | None:
    """All these pictures hang on without a file: none of the sliders of size moves them. A file stays in its session."""
    held = b.bank(s)
    return None if s.observed is not None else (held.n_experts, held.top_k, b.routing_of(s), b.laws(s), s.choices.routing)


# -------------------------------------------------------------------------------------------------------------- popularity
def _ranked(shares: np.ndarray) -> np.ndarray:
    """Shares of the experts of each layer over the mean share, most popular first, at RANKS ranks: [layer, rank]."""
    ordered = np.sort(np.atleast_2d(shares), axis=1)[:, ::-1]
    place = np.minimum((np.arange(RANKS) / RANKS * ordered.shape[1]).astype(int), ordered.shape[1] - 1)
    values: np.ndarray = ordered[:, place] / ordered.mean(axis=1, keepdims=True)
    return values


def popularity(s: Snapshot) -> dict[str, np.ndarray]:
    """Load over the mean by rank: of the skew compared, and of the file's middle, most even and most skewed layers."""
    held, nothing = b.bank(s), np.full(RANKS, math.nan)
    lines = {"skew": _ranked(b.laws(s).skew.inclusion(held.n_experts, held.top_k)).mean(axis=0)}
    if s.observed is None:
        return lines | dict.fromkeys(("low", "file", "high"), nothing)
    layers = _ranked(s.observed.counts)
    return lines | {"low": layers.min(axis=0), "file": np.median(layers, axis=0), "high": layers.max(axis=0)}


def popularity_limits(s: Snapshot) -> Limits:
    """All ranks with room for names; from nothing to the most popular expert."""
    lines = popularity(s)
    top = float(np.nanmax(np.stack(list(lines.values()))))
    return 0.0, 1.5, 0.0, max(2.0, 1.08 * top)


@kept(_key)
def popularity_columns(s: Snapshot) -> Columns:
    """Lines by rank, the file's layers as a band."""
    lines, box = popularity(s), popularity_limits(s)
    x = (np.arange(RANKS) + 0.5) / RANKS
    low, high = (np.nan_to_num(lines[name]) for name in ("low", "high"))
    data: dict[str, dict[str, Any]] = {"band": {"x": np.concatenate([x, x[::-1]]), "y": np.concatenate([low, high[::-1]])}}
    data |= {name: {"x": x, "y": lines[name]} for name in ("skew", "file")}
    named = {
        "skew": "in force" if s.choices.routing == "loaded" else b.laws(s).skew_name,
        "file": "your file" if s.observed is not None else "",
    }
    heights = spread_linear([lines["skew"][-1], lines["file"][-1]], box[2:])
    data["names"] = {"x": [1.02] * 2, "y": heights, "text": list(named.values())}
    return data


def popularity_build(s: Snapshot) -> hv.Overlay:
    """The overlay of a snapshot."""
    data, box = popularity_columns(s), popularity_limits(s)
    x, y = data["band"]["x"][:RANKS], data["band"]["y"]
    band = hv.Area((x, y[:RANKS], y[RANKS:][::-1]), "x", ["y", "high"], label="band")
    parts = [band.opts(line_alpha=0, color=line("text"), fill_alpha=0.15)]
    meanings = {"skew": "decode_experts", "file": "text"}
    parts += [curve(data[name], name, meaning, line_width=2.2) for name, meaning in meanings.items()]
    parts.append(texts(data["names"], "names", list(meanings.values()), text_align="left", text_font_size="11px"))
    frame = shared_options(
        min_height=280, xlim=box[:2], ylim=box[2:], xlabel="Experts, most popular first, %", ylabel="Load over the mean",
        xformatter=tick_formatter("%"), xticks=[0, 0.25, 0.5, 0.75, 1.0], yformatter=tick_formatter(""),
    )  # fmt: skip
    return hv.Overlay(parts).opts(frame)


POPULARITY: Picture[Snapshot] = Picture(popularity_build, popularity_columns, popularity_limits, min_height=280)


# ----------------------------------------------------------------------------------------------------- overlap by distance
def overlap_lines(s: Snapshot) -> dict[str, np.ndarray]:
    """Overlap of two tokens of a request along DISTANCES: the law in force, chance, and the file's fitted law [1]."""
    held, compared = b.bank(s), b.laws(s)
    chance = float(np.mean((compared.skew.inclusion(held.n_experts, held.top_k) ** 2).sum(axis=1)) / held.top_k)
    within, nothing = compared.within.overlap, np.full(DISTANCES.size, math.nan)
    if isinstance(within, physics.OverlapLaw):
        used = np.asarray(within.carried(within.at_distance(DISTANCES), chance))
    else:
        used = np.full(DISTANCES.size, max(float(within or 0.0), chance))
    law = s.observed.law if s.observed is not None else None
    fitted = nothing if law is None else np.asarray(law.at_distance(DISTANCES))
    return {"used": used, "chance": np.full(DISTANCES.size, chance), "fitted": fitted}


def overlap_limits(_: Snapshot) -> Limits:
    """Distances with room for names; no overlap to all experts."""
    return 1.0, 512.0**1.42, 0.0, 1.0


@kept(_key)
def overlap_columns(s: Snapshot) -> Columns:
    """Lines against distance and the file's measured points."""
    lines, box = overlap_lines(s), overlap_limits(s)
    data: dict[str, dict[str, Any]] = {name: {"x": DISTANCES, "y": values} for name, values in lines.items()}
    frame = s.observed.overlap if s.observed is not None else pd.DataFrame({"distance_tokens": [], "overlap_frac": []})
    pad = np.full(N_POINTS - len(frame), math.nan)
    x, y = (np.concatenate([frame[name].to_numpy(float), pad]) for name in ("distance_tokens", "overlap_frac"))
    data["measured"] = {"x": x, "y": y}
    word = "in force" if b.routing_of(s).overlap is not None else "as measured"
    named = {"used": word, "chance": "chance", "fitted": "your file" if np.isfinite(lines["fitted"]).all() else ""}
    heights = spread_linear([float(lines[name][-1]) for name in named], box[2:])
    data["names"] = {"x": [560.0] * len(named), "y": heights, "text": list(named.values())}
    return data


def overlap_build(s: Snapshot) -> hv.Overlay:
    """The overlay of a snapshot."""
    data, box = overlap_columns(s), overlap_limits(s)
    looks = {"used": ("midfill", "solid"), "chance": ("muted", DASHES["guide"]), "fitted": ("text", "solid")}
    parts = [curve(data[name], name, meaning, line_dash=dash, line_width=2.0) for name, (meaning, dash) in looks.items()]
    parts.append(texts(data["names"], "names", [meaning for meaning, _ in looks.values()], text_align="left", text_font_size="11px"))
    parts.append(points(data["measured"], "measured", "text", size=6, fill_alpha=0, line_width=1.5))
    frame = shared_options(
        min_height=280, logx=True, xlim=box[:2], ylim=box[2:], xlabel="Distance of two tokens of a request", ylabel="Experts in common, %",
        xformatter=tick_formatter("tokens"), yformatter=tick_formatter("%"), xticks=[1, 10, 100], yticks=[0, 0.25, 0.5, 0.75, 1.0],
    )  # fmt: skip
    return hv.Overlay(parts).opts(frame)


OVERLAP: Picture[Snapshot] = Picture(overlap_build, overlap_columns, overlap_limits, min_height=280)


# ------------------------------------------------------------------------------------------- the proof: within one request
FORMS: dict[str, tuple[str, str, str]] = {
    "independent": ("decode_experts", "solid", "independent tokens"),
    "beta_measured": ("midfill", "solid", "beta form"),
    "beta_law": ("midfill", DASHES["memory"], "beta form, fitted law"),
}
"""Columns of `ObservedRouting.within_request` as lines; the measured distinct experts are points."""


_NOTHING = pd.DataFrame({"tokens": WINDOWS} | {name: np.full(len(WINDOWS), math.nan) for name in ("measured", *FORMS)})


@lru_cache(maxsize=4)
def within_request(observed: physics.ObservedRouting) -> pd.DataFrame:
    """Distinct experts of windows of one request, measured and by each form, WINDOWS long where requests are; NaN beyond."""
    return observed.within_request(WINDOWS).set_index("tokens").reindex(WINDOWS).reset_index()


def _forms(s: Snapshot) -> pd.DataFrame:
    if s.observed is None or s.observed.chosen is None:
        return _NOTHING
    return within_request(s.observed)


def proof_limits(s: Snapshot) -> Limits:
    """Windows with room for names; whole range of the lines."""
    values = _forms(s)[["measured", *FORMS]].to_numpy(float)
    low, high = (float(np.nanmin(values)), float(np.nanmax(values))) if np.isfinite(values).any() else (1.0, 10.0)
    return 1.6, 256.0 * 160.0**0.75, low * 0.85, high * 1.15


@kept(_key)
def proof_columns(s: Snapshot) -> Columns:
    """Measured windows and the forms."""
    frame, box = _forms(s), proof_limits(s)
    data: dict[str, dict[str, Any]] = {name: {"x": frame["tokens"], "y": frame[name]} for name in ("measured", *FORMS)}
    lines = {name: frame[name].to_numpy(float) for name in ("measured", *FORMS)}
    ends = {name: values[np.isfinite(values)] for name, values in lines.items()}
    heights = spread([float(values[-1]) if values.size else math.nan for values in ends.values()], box[2:])
    called = ["measured", *(text for _, _, text in FORMS.values())]
    words = [text if math.isfinite(height) else "" for text, height in zip(called, heights, strict=True)]
    data["names"] = {"x": [300.0] * len(words), "y": heights, "text": words}
    return data


def proof_build(s: Snapshot) -> hv.Overlay:
    """The overlay of a snapshot."""
    data, box = proof_columns(s), proof_limits(s)
    parts = [curve(data[name], name, meaning, line_dash=dash, line_width=2.0) for name, (meaning, dash, _) in FORMS.items()]
    parts.append(points(data["measured"], "measured", "text", size=9, fill_alpha=0, line_width=1.8))
    meanings = ["text", *(meaning for meaning, _, _ in FORMS.values())]
    parts.append(texts(data["names"], "names", meanings, text_align="left", text_font_size="11px"))
    frame = shared_options(
        min_height=300, logx=True, logy=True, xlim=box[:2], ylim=box[2:], xlabel="Tokens of one request",
        ylabel="Distinct experts of a layer", xformatter=tick_formatter("tokens"), yformatter=tick_formatter("experts"),
        xticks=[2, 8, 32, 128], yticks=[2, 4, 8, 16, 32, 64, 128, 256, 512],
    )  # fmt: skip
    return hv.Overlay(parts).opts(frame)


PROOF: Picture[Snapshot] = Picture(proof_build, proof_columns, proof_limits, min_height=300)


def trace_proof(observed: physics.ObservedRouting) -> hv.Overlay:
    """For a notebook: distinct experts within one request of a trace, measured, by the beta form, and if tokens were independent."""
    return proof_build(replace(Explorer().snapshot, observed=observed))
