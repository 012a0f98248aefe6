"""One or more axes in place of a scenario's fields: arrays, tidy frames.

A sweep is the product of its axes, evaluated in chunks on all cores; it equals `regimes` point by point. Fields that a kernel varies from
point to point (AXES) cost a fraction of a microsecond a point; models, machines, routings and every other field (OUTER) are axes too,
and cost one set of arrays for each combination.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from physics import kernels as k
from physics.combinations import OUTER, combinations
from physics.regimes import BOUNDS, COLUMNS, CONTRACT_COLUMNS, REGIMES, Evaluation, Grid, Results, distinct_experts
from physics.scenario import KV_RANGE, RANGES, Scenario
from physics.workload import LEAVES

AXES = tuple(LEAVES)
CHUNK = 16_384
IN_FLIGHT = 16
"""Chunks that wait for a core at once; those behind them are not laid out yet, which bounds the memory."""

Progress = Callable[[int, int], bool | None]
"""Called with (points done, points in all) after each chunk; returning False cancels."""


class SweepCancelledError(RuntimeError):
    """A sweep whose progress callback returned False."""


def _axis(name: str, values: Iterable[Any]) -> np.ndarray:
    try:
        axis = np.atleast_1d(np.asarray(values, dtype=float))
    except (TypeError, ValueError) as problem:
        raise ValueError(f"{name}: a sweep axis is a list of numbers ({problem})") from None
    if axis.ndim != 1 or not axis.size:
        raise ValueError(f"{name}: a sweep axis is a non-empty list of numbers")
    return axis


def _check_axis(s: Scenario, name: str, axis: np.ndarray) -> None:
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


def _check_axes(s: Scenario, axes: dict[str, np.ndarray]) -> None:
    for name, axis in axes.items():
        _check_axis(s, name, axis)


def _sorted_out(axes: dict[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """(outer axes, axes of the grid); ValueError for what is neither."""
    for name in axes:
        if name not in AXES and name not in OUTER:
            raise ValueError(f"sweep axis: {name!r} is not one of {', '.join((*AXES, *OUTER))}")
    return {n: v for n, v in axes.items() if n in OUTER}, {n: _axis(n, v) for n, v in axes.items() if n in AXES}


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
    scenario: Scenario, progress: Progress | None = None, columns: str | Iterable[str] | None = None, **axes: Any
) -> dict[str, np.ndarray]:
    """Results of every point of the product of `axes`, without a frame.

    Values of integer fields may be real numbers, so that curves and crossings have a continuous axis.
    scenario: what stays fixed.
    progress: called after each chunk with (done, all); return False to cancel.
    columns: names of `regimes`' numeric columns; None: the public contract's; "all".
    axes: field -> values; any of AXES and OUTER. An outer axis may be a dictionary label -> value; models, machines and routings may be
        given by name. Outer axes come first, then those of AXES, each in the order given.
    Returns the axes by name (of an outer one its labels), each column as an array of shape (axis lengths, 5 regimes), and, always,
    `bound_index` (0 compute, 1 memory, 2 network) and `fits`.
    Raises ValueError for an unknown axis or column, a value outside its range or a combination that is no sound scenario,
    SweepCancelledError when cancelled.
    """
    names, (outer, inner) = _columns(columns), _sorted_out(axes)
    cases = combinations(scenario, outer, lambda s: _check_axes(s, inner))
    size = math.prod(axis.size for axis in inner.values())
    results = Results(names, len(cases.scenarios), size)
    evaluations = (Evaluation(s, _grid(s, inner), results, place) for place, s in enumerate(cases.scenarios))
    _fill(evaluations, len(cases.scenarios) * size, progress)
    return cases.labels | inner | results.arrays((*cases.shape, *(axis.size for axis in inner.values())))


def _fill(evaluations: Iterable[Evaluation], count: int, progress: Progress | None) -> None:
    """Evaluate all, chunk by chunk, on all cores; scenarios are laid out as the chunks get to them."""
    chunks = ((one, start, min(start + CHUNK, one.grid.size)) for one in evaluations for start in range(0, one.grid.size, CHUNK))
    waiting: deque[tuple[Future[None], int]] = deque()
    done = 0
    first = next(chunks, None)
    if first is not None and first[2] - first[1] == count:
        first[0].fill(*first[1:])  # threads would take longer to start
        _tell(progress, count, count)
        return
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for one, start, stop in chain([first] if first else [], chunks):
            waiting.append((pool.submit(one.fill, start, stop), stop - start))
            if len(waiting) == IN_FLIGHT:
                done = _finish(waiting, done, count, progress)
        while waiting:
            done = _finish(waiting, done, count, progress)


def _finish(waiting: deque[tuple[Future[None], int]], done: int, count: int, progress: Progress | None) -> int:
    """Wait for the oldest chunk and tell; the points done so far."""
    future, points = waiting.popleft()
    try:
        future.result()
        _tell(progress, done + points, count)
    except BaseException:
        for other, _ in waiting:
            other.cancel()
        raise
    return done + points


def _tell(progress: Progress | None, done: int, count: int) -> None:
    if progress is not None and progress(done, count) is False and done < count:
        raise SweepCancelledError(f"sweep cancelled after {done:,} of {count:,} points")


def sweep(scenario: Scenario, progress: Progress | None = None, columns: str | Iterable[str] | None = None, **axes: Any) -> pd.DataFrame:
    """Tidy frame of a sweep: one row per point and regime, the axes and the columns asked for, bound and fits.

    scenario: what stays fixed.
    progress: called after each chunk with (done, all); return False to cancel.
    columns: names of `regimes`' numeric columns; None: the public contract's; "all".
    axes: field -> values; any of AXES and OUTER, see `sweep_arrays`. Models, machines and other things are named in their column.
    """
    arrays = sweep_arrays(scenario, progress, columns, **axes)
    ordered = [name for name in arrays if name in axes]
    shape = tuple(arrays[name].size for name in ordered)
    frame: dict[str, Any] = {}
    for place, name in enumerate(ordered):
        frame[name] = _along(arrays[name], place, shape)
    frame["regime"] = _along(np.array(REGIMES), len(shape), shape)
    for name, values in arrays.items():
        if name == "bound_index":
            frame["bound"] = pd.Categorical.from_codes(values.ravel(), categories=pd.Index(BOUNDS))
        elif name not in axes:
            frame[name] = values.ravel()
    return pd.DataFrame(frame)


def _along(values: np.ndarray, place: int, shape: tuple[int, ...]) -> Any:
    """One axis of a sweep repeated along the others and the regimes, one entry per row of the frame; names as categories."""
    full = (*shape, k.N_REGIMES)
    spread = np.arange(values.size) if values.dtype.kind == "U" else values
    rows = np.broadcast_to(spread.reshape([-1 if i == place else 1 for i in range(len(full))]), full).ravel()
    return pd.Categorical.from_codes(rows, categories=pd.Index(values)) if values.dtype.kind == "U" else rows
