"""A trace replayed through tiers of memory: what is found where, what is moved, what must be filled again.

Two ways to decide where KV waits. *By capacity*: least recently used, each tier pushing its oldest tokens down to the next and the last
one discarding them; tiers are exclusive, and a request brings its whole context back to the top. Such a hierarchy is one stack: tokens
whose depth lies within a tier's share of it are found there, so a single pass with a tree of partial sums tells the hits of every capacity
at once (Mattson et al. 1970). *By idle time*: KV left alone for longer than a tier's limit moves down, whatever the capacity; one
limit for all is a time to live, limits by length of context are the thresholds of `waiting`.

The unit is the token: every token of a context weighs the same, so capacities are bytes over bytes per token. State that does not grow
with the context is not moved here. A tail that is cut off stays until its piece is evicted, as it would in a block cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from physics._numba import kernel
from physics.traces import Trace

Array = np.ndarray[Any, Any]

LENGTH_CLASSES = 16
"""Classes of context length, an octave each: up to 1,023 tokens, to 2,047, ... and 2**24 or more."""


@dataclass(frozen=True)
class Replay:
    """What happened to each request and on each link.

    hit_tokens: tokens of each request found in each tier, [request, tier] [token].
    filled_tokens: tokens of each request that had to be computed, new ones and lost ones [token].
    rebuilt_tokens: the lost ones among them: an unlimited cache would have held them [token].
    down_tokens: tokens moved from each tier to the next; the last number is what was discarded [token].
    held_tokens: mean tokens waiting in each tier over the trace [token].
    peak_tokens: most tokens waiting in each tier at once; NaN for limits of idle time [token].
    span_s: from the first request to the last [s].
    """

    hit_tokens: Array
    filled_tokens: Array
    rebuilt_tokens: Array
    down_tokens: Array
    held_tokens: Array
    peak_tokens: Array
    span_s: float

    @property
    def hit_frac(self) -> float:
        """Share of all input tokens found in some tier [1]."""
        hits = float(self.hit_tokens.sum())
        total = hits + float(self.filled_tokens.sum())
        return hits / total if total else float("nan")

    @property
    def tier_hit_frac(self) -> Array:
        """Share of all input tokens found in each tier [1]."""
        total = float(self.hit_tokens.sum() + self.filled_tokens.sum())
        return np.asarray(self.hit_tokens.sum(axis=0) / total)

    @property
    def n_rebuilds(self) -> int:
        """Requests that had to fill lost tokens again."""
        return int(np.count_nonzero(self.rebuilt_tokens > 0))


def length_class(tokens: Any) -> Any:
    """Class of a context length, see LENGTH_CLASSES [1].

    tokens: context [token].

    >>> [int(length_class(n)) for n in (1, 1023, 1024, 131_072)]
    [0, 0, 1, 8]
    """
    with np.errstate(divide="ignore"):
        octave = np.floor(np.log2(np.maximum(np.asarray(tokens, float), 1.0))) - 9.0
    return np.clip(octave, 0, LENGTH_CLASSES - 1).astype(np.int64)


def replay_by_capacity(trace: Trace, capacity_tokens: Any) -> Replay:
    """Replay with least recently used tokens pushed down when a tier is full.

    trace: requests in the order of time.
    capacity_tokens: of each tier, top first; inf for one without end [token].
    Raises ValueError for a capacity below zero or no tier at all.
    """
    capacity = np.atleast_1d(np.asarray(capacity_tokens, float))
    if capacity.ndim != 1 or not capacity.size or not (capacity >= 0.0).all():
        raise ValueError(f"capacity_tokens: {capacity_tokens!r} is not a list of capacities of at least 0 tokens, one per tier")
    return _replayed(trace, np.cumsum(capacity), np.zeros((1, capacity.size)), np.zeros(0))[0]


def replay_by_idle(trace: Trace, limit_s: Any) -> Replay:
    """Replay with KV moved down a tier when it was left alone for longer than the tier's limit.

    trace: requests in the order of time.
    limit_s: idle time at which each tier gives KV to the next, top first and not falling; or one row per length class [s].
    Raises ValueError for limits that fall, are negative or of the wrong shape.
    """
    limits = np.atleast_2d(np.asarray(limit_s, float))
    if len(limits) not in (1, LENGTH_CLASSES) or limits.ndim != 2 or not limits.size:
        raise ValueError(f"limit_s: one limit per tier, or {LENGTH_CLASSES} rows of them; got the shape {np.shape(limit_s)}")
    if not (limits >= 0.0).all() or (limits[:, 1:] < limits[:, :-1]).any():
        raise ValueError("limit_s: limits are at least 0 s and do not fall from one tier to the next")
    rows = np.tile(limits, (LENGTH_CLASSES // len(limits), 1))  # writable: for a read-only array the walk would compile again
    return _replayed(trace, np.zeros(0), rows, np.zeros(0))[0]


def hit_curve(trace: Trace, capacity_tokens: Any) -> Array:
    """Share of all input tokens found in a single least-recently-used cache, for every capacity at once [1].

    trace: requests in the order of time.
    capacity_tokens: ascending [token].
    """
    grid = np.asarray(capacity_tokens, float)
    if grid.ndim != 1 or not grid.size or (np.diff(grid) < 0).any() or not (grid >= 0).all():
        raise ValueError("capacity_tokens: capacities of at least 0 tokens, in ascending order")
    hits = _replayed(trace, np.array([np.inf]), np.zeros((1, 1)), grid)[1]
    total = float(trace.input_tokens.sum())
    return np.asarray(hits / total) if total else np.full(grid.size, np.nan)


def _replayed(trace: Trace, edges: Array, limits: Array, grid: Array) -> tuple[Replay, Array]:
    blobs, n = trace.blobs, len(trace)
    tiers = edges.size or limits.shape[1]
    hits, down, held, peak = np.zeros((n, tiers)), np.zeros(tiers), np.zeros(tiers), np.zeros(tiers)
    steep, flat = np.zeros(grid.size + 1), np.zeros(grid.size + 1)
    touches = int(_path_lengths(blobs.parent, blobs.leaf).sum())
    classes = length_class(blobs.held_tokens)
    arrays = (blobs.parent, blobs.start, blobs.leaf, blobs.held_tokens, max(blobs.depth, 1), trace.time_s, trace.prefix_tokens)
    _walk(*arrays, classes, touches, edges, limits, grid, hits, down, held, peak, steep, flat)
    span = float(trace.time_s[-1] - trace.time_s[0]) if n else 0.0
    found = hits.sum(axis=1)
    mean = held / span if span > 0 else np.full(tiers, np.nan)
    peaks = peak if edges.size else np.full(tiers, np.nan)
    result = Replay(hits, trace.input_tokens - found, trace.prefix_tokens - found, down, mean, peaks, span)
    return result, np.cumsum(steep[:-1]) * grid + np.cumsum(flat[:-1])


@kernel
def _path_lengths(parent: Any, leaf: Any) -> Any:
    out = np.zeros(leaf.size, np.int64)
    for i in range(leaf.size):
        at = leaf[i]
        while at >= 0:
            out[i] += 1
            at = parent[at]
    return out


@kernel
def _add(sums: Any, place: int, amount: float) -> None:
    """Add to one place of a tree of partial sums (Fenwick 1994)."""
    i = place + 1
    while i < sums.size:
        sums[i] += amount
        i += i & -i


@kernel
def _up_to(sums: Any, place: int) -> float:
    """Sum of the places 0..place."""
    total, i = 0.0, place + 1
    while i > 0:
        total += sums[i]
        i -= i & -i
    return total


@kernel
def _overlap(low: float, high: float, left: float, right: float) -> float:
    return float(max(min(high, right) - max(low, left), 0.0))


@kernel
def _note_curve(grid: Any, depth: float, want: float, steep: Any, flat: Any) -> None:
    """Add clip(capacity - depth, 0, want) to a function of capacity, kept as slopes and constants that start at a place of the grid."""
    first = np.searchsorted(grid, depth)
    full = np.searchsorted(grid, depth + want)
    steep[first] += 1.0
    flat[first] -= depth
    steep[full] -= 1.0
    flat[full] += depth + want


@kernel
def _walk(
    parent: Any, start: Any, leaf: Any, extent: Any, depth_limit: int, time: Any, prefix: Any, classes: Any, touches: int, edges: Any,
    limits: Any, grid: Any, hits: Any, down: Any, held: Any, peak: Any, steep: Any, flat: Any,
) -> None:  # fmt: skip
    """Walk the requests: hits[N, tier], down[tier], held[tier] in token seconds, and the curve over the grid."""
    by_capacity, tiers = edges.size > 0, down.size
    sums = np.zeros(touches + 2 if by_capacity else 1)
    place, size = np.full(parent.size, -1, np.int64), np.zeros(parent.size)
    last, length = np.zeros(parent.size), np.zeros(parent.size, np.int64)
    path, sizes, depths = np.empty(depth_limit, np.int64), np.empty(depth_limit), np.empty(depth_limit)
    total, next_place, before = 0.0, 0, time[0] if time.size else 0.0
    for i in range(leaf.size):
        n, at, end = 0, leaf[i], extent[i]
        while at >= 0:
            path[n] = at
            sizes[n] = max(size[at], end - start[at])
            n, at, end = n + 1, parent[at], start[at]
        if by_capacity:
            hold(edges, total, time[i] - before, held)
            before = time[i]
        sound = True
        for j in range(n - 1, -1, -1):  # root first: a prefix is useful up to its first gap
            at = path[j]
            depths[j] = total - _up_to(sums, place[at]) if by_capacity and place[at] >= 0 else 0.0
            want = prefix[i] - start[at]
            if j > 0:
                want = min(want, start[path[j - 1]] - start[at])
            if want <= 0.0 or not sound:
                continue
            sound = place[at] >= 0 and want <= size[at]
            if place[at] < 0:
                continue
            want = min(want, size[at])
            if not by_capacity:
                tier = np.searchsorted(limits[length[at]], time[i] - last[at])
                if tier < tiers:
                    hits[i, tier] += want
                sound = sound and tier < tiers
                continue
            if grid.size:
                _note_curve(grid, depths[j], want, steep, flat)
            low = 0.0
            for k in range(tiers):
                hits[i, k] += _overlap(low, edges[k], depths[j], depths[j] + want)
                low = edges[k]
        if by_capacity:
            grown = total
            for j in range(n):
                grown += sizes[j] - size[path[j]]
            for k in range(tiers):
                inside = 0.0
                for j in range(n):
                    if place[path[j]] >= 0:
                        inside += _overlap(0.0, edges[k], depths[j], depths[j] + size[path[j]])
                entered = -inside
                for j in range(n):
                    entered += sizes[j]
                down[k] += max(min(total, edges[k]) - min(grown, edges[k]) + entered, 0.0)
            total = grown
        for j in range(n):  # leaf first, so that the root is the last to be evicted
            at = path[j]
            if by_capacity:
                if place[at] >= 0:
                    _add(sums, place[at], -size[at])
                _add(sums, next_place, sizes[j])
            elif place[at] >= 0:
                wait(limits[length[at]], time[i] - last[at], size[at], down, held)
            place[at], size[at], last[at], length[at] = next_place, sizes[j], time[i], classes[i]
            next_place += 1
        if by_capacity:
            occupy(edges, total, peak)
    if by_capacity:
        return
    for at in range(parent.size):
        if place[at] >= 0:
            wait(limits[length[at]], time[-1] - last[at], size[at], down, held)


@kernel
def hold(edges: Any, total: float, seconds: float, held: Any) -> None:
    """Add token seconds of each tier of a stack of `total` tokens."""
    low = 0.0
    for k in range(edges.size):
        held[k] += _overlap(low, edges[k], 0.0, total) * seconds
        low = edges[k]


@kernel
def occupy(edges: Any, total: float, peak: Any) -> None:
    """Keep the most tokens each tier has held."""
    low = 0.0
    for k in range(edges.size):
        peak[k] = max(peak[k], _overlap(low, edges[k], 0.0, total))
        low = edges[k]


@kernel
def wait(limit: Any, idle: float, size: float, down: Any, held: Any) -> None:
    """Add the moves and token seconds of a piece that was left alone for `idle` seconds."""
    low = 0.0
    for k in range(limit.size):
        held[k] += _overlap(low, limit[k], 0.0, idle) * size
        low = limit[k]
        if idle > limit[k]:
            down[k] += size
