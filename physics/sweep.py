"""One or more axes in place of a scenario's numeric fields: arrays, tidy frames.

A sweep is the product of its axes, evaluated in chunks on all cores; it equals `regimes` point by point.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd

from physics import kernels as k
from physics.regimes import BOUNDS, COLUMNS, CONTRACT_COLUMNS, REGIMES, Evaluation, Grid, distinct_experts
from physics.scenario import KV_RANGE, RANGES, Scenario
from physics.workload import LEAVES

AXES = tuple(LEAVES)
CHUNK = 16_384

Progress = Callable[[int, int], bool | None]
"""Called with (points done, points in all) after each chunk; returning False cancels."""


class SweepCancelledError(RuntimeError):
    """A sweep whose progress callback returned False."""


def _axis(s: Scenario, name: str, values: Iterable[Any]) -> np.ndarray:
    if name not in AXES:
        raise ValueError(f"sweep axis: {name!r} is not one of {', '.join(AXES)}")
    try:
        axis = np.atleast_1d(np.asarray(values, dtype=float))
    except (TypeError, ValueError) as problem:
        raise ValueError(f"{name}: a sweep axis is a list of numbers ({problem})") from None
    if axis.ndim != 1 or not axis.size:
        raise ValueError(f"{name}: a sweep axis is a non-empty list of numbers")
    low, high = KV_RANGE if name == "kv_bytes_per_token" else map(float, RANGES[name])
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


def _columns(columns: str | Iterable[str] | None) -> tuple[str, ...]:
    """Names of the columns asked for: None the public contract's, "all" every one."""
    if columns is None:
        return CONTRACT_COLUMNS
    names = COLUMNS if columns == "all" else (columns,) if isinstance(columns, str) else tuple(columns)
    for name in names:
        if name not in COLUMNS:
            raise ValueError(f"columns: {name!r} is not one of {', '.join(COLUMNS)}")
    return names


def _grid(s: Scenario, axes: dict[str, np.ndarray]) -> Grid:
    """The axes as the kernel walks them, and the distinct experts of each step over the axes it depends on."""
    prompt = "context_tokens" if s.prompt_tokens is None and "prompt_tokens" not in axes else "prompt_tokens"
    rows = np.zeros((len(axes), k.GRID_WIDTH), np.int64)
    leaves = [np.zeros(0)]
    for row, (name, values) in zip(rows, axes.items(), strict=True):
        row[[k.GRID_LEAF, k.GRID_ALSO]] = LEAVES[name], k.POINT_PROMPT if name == prompt else LEAVES[name]
        row[k.GRID_LENGTH], row[k.GRID_FIRST] = values.size, sum(map(len, leaves))
        leaves.append(values / s.model.kv_bytes_per_token(s.kv_dtype) if name == "kv_bytes_per_token" else values)
    tables: list[np.ndarray] = []
    firsts = []
    for which, tokens in enumerate((prompt, "new_tokens", "")):
        table, rows[:, k.GRID_TABLES + which] = _touched(s, axes, tokens)
        firsts.append(sum(map(len, tables)))
        tables.append(table)
    size = math.prod(values.size for values in axes.values())
    return Grid(rows, np.concatenate(leaves), np.concatenate(tables), np.array(firsts), size)


def _touched(s: Scenario, axes: dict[str, np.ndarray], tokens: str) -> tuple[np.ndarray, list[int]]:
    """Distinct experts over the axes that move a step's tokens, [row, bank], and how far one place of each axis moves in it.

    tokens: the axis that moves the tokens of each request, or empty for a decode step.
    """
    moving = [name for name in axes if name in (tokens, "batch")]
    spread = dict(zip(moving, np.meshgrid(*(axes[name] for name in moving), indexing="ij", sparse=True), strict=True)) if moving else {}
    fixed = {"context_tokens": s.prefill_tokens, "prompt_tokens": s.prefill_tokens, "new_tokens": s.new_tokens, "": 1}[tokens]
    table = distinct_experts(s, spread.get("batch", float(s.batch)), spread.get(tokens, float(fixed)))
    lengths = [axes[name].size if name in moving else 1 for name in axes]
    strides = [math.prod(lengths[place + 1 :]) if name in moving else 0 for place, name in enumerate(axes)]
    return table.reshape(math.prod(table.shape[:-1]), table.shape[-1]), strides


def sweep_arrays(
    scenario: Scenario, progress: Progress | None = None, columns: str | Iterable[str] | None = None, **axes: Iterable[Any]
) -> dict[str, np.ndarray]:
    """Results of every point of the product of `axes`, without a frame.

    Values of integer fields may be real numbers, so that curves and crossings have a continuous axis.
    scenario: what stays fixed.
    progress: called after each chunk with (done, all); return False to cancel.
    columns: names of `regimes`' numeric columns; None: the public contract's; "all".
    axes: field name -> values; any of AXES.
    Returns the axes by name, each column as an array of shape (axis lengths in order, 5 regimes), and, always,
    `bound_index` (0 compute, 1 memory, 2 network) and `fits`.
    Raises ValueError for an unknown axis or column, or a value outside its range, SweepCancelledError when cancelled.
    """
    checked = {name: _axis(scenario, name, values) for name, values in axes.items()}
    evaluation = Evaluation(scenario, _grid(scenario, checked), _columns(columns))
    _fill(evaluation, progress)
    return dict(checked) | evaluation.arrays(tuple(axis.size for axis in checked.values()))


def _fill(evaluation: Evaluation, progress: Progress | None) -> None:
    count = evaluation.grid.size
    if count <= CHUNK:
        evaluation.fill(0, count)
        if progress is not None:
            progress(count, count)
        return
    starts = range(0, count, CHUNK)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        chunks = pool.map(lambda start: evaluation.fill(start, min(start + CHUNK, count)), starts)
        for done, _ in enumerate(chunks, 1):
            if progress is not None and progress(min(done * CHUNK, count), count) is False:
                pool.shutdown(cancel_futures=True)
                raise SweepCancelledError(f"sweep cancelled after {min(done * CHUNK, count):,} of {count:,} points")


def sweep(
    scenario: Scenario, progress: Progress | None = None, columns: str | Iterable[str] | None = None, **axes: Iterable[Any]
) -> pd.DataFrame:
    """Tidy frame of a sweep: one row per point and regime, the axes and the columns asked for, bound and fits.

    scenario: what stays fixed.
    progress: called after each chunk with (done, all); return False to cancel.
    columns: names of `regimes`' numeric columns; None: the public contract's; "all".
    axes: field name -> values; any of AXES.
    """
    arrays = sweep_arrays(scenario, progress, columns, **axes)
    shape = tuple(arrays[name].size for name in axes)
    frame: dict[str, Any] = {}
    for place, name in enumerate(axes):
        spread = arrays[name].reshape([-1 if i == place else 1 for i in range(len(shape) + 1)])
        frame[name] = np.broadcast_to(spread, (*shape, k.N_REGIMES)).ravel()
    codes = np.broadcast_to(np.arange(k.N_REGIMES), (*shape, k.N_REGIMES)).ravel()
    frame["regime"] = pd.Categorical.from_codes(codes, categories=pd.Index(REGIMES))
    for name, values in arrays.items():
        if name == "bound_index":
            frame["bound"] = pd.Categorical.from_codes(values.ravel(), categories=pd.Index(BOUNDS))
        elif name not in axes:
            frame[name] = values.ravel()
    return pd.DataFrame(frame)
