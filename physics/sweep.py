"""One or more axes in place of a scenario's numeric fields: arrays, tidy frames.

A sweep is the product of its axes, evaluated in chunks on all cores; it equals `regimes` point by point.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd

from physics import kernels as k
from physics.memory import memory_parts
from physics.regimes import BOUNDS, REGIMES, columns, distinct_experts, evaluate_points
from physics.scenario import RANGES, Scenario

AXES = ("context_tokens", "batch", "kv_bytes_per_token", "pipeline_depth", "new_tokens", "prompt_tokens", "gpus_per_stage")
CHUNK = 16_384

Progress = Callable[[int, int], bool | None]
"""Called with (points done, points in all) after each chunk; returning False cancels."""


class SweepCancelledError(RuntimeError):
    """A sweep whose progress callback returned False."""


def _axis(s: Scenario, name: str, values: Iterable[Any]) -> np.ndarray:
    if name not in AXES:
        raise ValueError(f"sweep axis: {name!r} is not one of {', '.join(AXES)}")
    axis = np.atleast_1d(np.asarray(values, dtype=float))
    if axis.ndim != 1 or not axis.size:
        raise ValueError(f"{name}: a sweep axis is a non-empty list of numbers")
    low, high = (1.0, 1e9) if name == "kv_bytes_per_token" else map(float, RANGES[name])
    if name == "pipeline_depth":
        high = min(high, s.model.n_layers)
    bad = axis[~((axis >= low) & (axis <= high))]
    if bad.size:
        raise ValueError(f"{name}: {bad[0]!r} is outside {low:,.0f} to {high:,.0f}")
    # The links that an axis may reach must be known, as they must for a single scenario.
    if name in ("gpus_per_stage", "pipeline_depth"):
        s.replace(**{name: int(axis.max())})
    if name == "kv_bytes_per_token":
        s.replace(kv_bytes_per_token=float(axis.max()))
    return axis


def sweep_arrays(scenario: Scenario, progress: Progress | None = None, **axes: Iterable[Any]) -> dict[str, np.ndarray]:
    """Results of every point of the product of `axes`, without a frame.

    Values of integer fields may be real numbers, so that curves and crossings have a continuous axis.
    scenario: what stays fixed.
    progress: called after each chunk with (done, all); return False to cancel.
    axes: field name -> values; any of AXES.
    Returns the axes by name, and each column of `regimes` as an array of shape (axis lengths in order, 5 regimes).
    Raises ValueError for an unknown axis or a value outside its range, SweepCancelledError when cancelled.
    """
    checked = {name: _axis(scenario, name, values) for name, values in axes.items()}
    shape = tuple(axis.size for axis in checked.values())
    raw = _evaluate(scenario, checked, shape, progress)
    grid = dict(zip(checked, np.meshgrid(*checked.values(), indexing="ij", sparse=True), strict=True)) if checked else {}
    parts = memory_parts(scenario, **grid)
    fits = np.broadcast_to(parts["total"] <= parts["capacity"], shape)
    result: dict[str, np.ndarray] = dict(checked)
    result.update(columns(raw, fits, scenario.efficiencies, scenario.model.n_layers, scenario.overlap))
    result["fits"] = np.broadcast_to(fits[..., None], (*shape, k.N_REGIMES))
    return result


def _evaluate(s: Scenario, axes: dict[str, np.ndarray], shape: tuple[int, ...], progress: Progress | None) -> np.ndarray:
    names = list(axes)
    count = int(np.prod(shape))
    raw = np.empty((count, k.N_REGIMES, k.OUT_WIDTH))

    def run(start: int) -> None:
        stop = min(start + CHUNK, count)
        places = np.unravel_index(np.arange(start, stop), shape) if shape else ()
        leaf = {name: axes[name][place] for name, place in zip(names, places, strict=True)}
        points, distinct = _chunk(s, leaf, stop - start)
        raw[start:stop] = evaluate_points(s, points, distinct)

    starts = range(0, count, CHUNK)
    if len(starts) == 1:
        run(0)
        return raw.reshape(*shape, k.N_REGIMES, k.OUT_WIDTH)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for done, _ in enumerate(pool.map(run, starts), 1):
            if progress is not None and progress(min(done * CHUNK, count), count) is False:
                pool.shutdown(cancel_futures=True)
                raise SweepCancelledError(f"sweep cancelled after {min(done * CHUNK, count):,} of {count:,} points")
    return raw.reshape(*shape, k.N_REGIMES, k.OUT_WIDTH)


def _chunk(s: Scenario, leaf: dict[str, np.ndarray], size: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and distinct experts of one chunk."""
    points = np.empty((size, k.POINT_WIDTH))
    context = leaf.get("context_tokens", float(s.context_tokens))
    prompt = leaf.get("prompt_tokens", context if s.prompt_tokens is None else float(s.prompt_tokens))
    batch, new = leaf.get("batch", float(s.batch)), leaf.get("new_tokens", float(s.new_tokens))
    points[:, k.POINT_PROMPT], points[:, k.POINT_CONTEXT] = prompt, context
    points[:, k.POINT_BATCH], points[:, k.POINT_NEW] = batch, new
    override = leaf.get("kv_bytes_per_token")
    points[:, k.POINT_KV_SCALE] = s.kv_scale if override is None else override / s.model.kv_bytes_per_token(s.kv_dtype)
    points[:, k.POINT_DEPTH] = leaf.get("pipeline_depth", float(s.pipeline_depth))
    points[:, k.POINT_GPUS] = leaf.get("gpus_per_stage", float(s.gpus_per_stage))
    distinct = distinct_experts(s, points[:, k.POINT_PROMPT], points[:, k.POINT_NEW], points[:, k.POINT_BATCH])
    return points, distinct


def sweep(scenario: Scenario, progress: Progress | None = None, **axes: Iterable[Any]) -> pd.DataFrame:
    """Tidy frame of a sweep: one row per point and regime, the axes and the columns of `regimes`.

    scenario: what stays fixed.
    progress: called after each chunk with (done, all); return False to cancel.
    axes: field name -> values; any of AXES.
    """
    arrays = sweep_arrays(scenario, progress, **axes)
    shape = tuple(arrays[name].size for name in axes)
    frame: dict[str, Any] = {}
    for place, name in enumerate(axes):
        spread = arrays[name].reshape([-1 if i == place else 1 for i in range(len(shape) + 1)])
        frame[name] = np.broadcast_to(spread, (*shape, k.N_REGIMES)).ravel()
    codes = np.broadcast_to(np.arange(k.N_REGIMES), (*shape, k.N_REGIMES)).ravel()
    frame["regime"] = pd.Categorical.from_codes(codes, categories=pd.Index(REGIMES))
    for name, values in arrays.items():
        if name in axes:
            continue
        if name == "bound_index":
            frame["bound"] = pd.Categorical.from_codes(values.ravel(), categories=pd.Index(BOUNDS))
        else:
            frame[name] = values.ravel()
    return pd.DataFrame(frame)
