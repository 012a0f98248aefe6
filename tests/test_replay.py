"""Replay of traces through tiers: against slow obvious twins, published hit rates, conservation and monotony."""

from __future__ import annotations

import time

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from physics.replay import LENGTH_CLASSES, hit_curve, length_class, replay_by_capacity, replay_by_idle
from physics.traces import Trace
from tests.trace_fixtures import AGENTIC, MOONCAKE, shared, small_trace

UNIT = 1500.0
"""Tokens of the twins: above the tail that may be rewritten in place, so that every edit makes a strand."""


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Conversations that append, edit, branch and start anew, in units of UNIT tokens."""
    rows, now = [], 0.0
    for _ in range(draw(st.integers(1, 24))):
        now += draw(st.integers(0, 5))
        conversation, branch = draw(st.integers(0, 2)), draw(st.integers(0, 1))
        size = draw(st.integers(1, 8))
        rows.append((conversation, branch, now, size * UNIT, draw(st.integers(0, size)) * UNIT, draw(st.integers(0, 2)) * UNIT))
    return small_trace(rows)


def _path(trace: Trace, i: int) -> list[tuple[int, float, float]]:
    """(piece, first token, end) of a request, root first."""
    blobs, at, end, out = trace.blobs, int(trace.blobs.leaf[i]), float(trace.blobs.held_tokens[i]), []
    while at >= 0:
        out.append((at, float(blobs.start[at]), end))
        at, end = int(blobs.parent[at]), float(blobs.start[at])
    return out[::-1]


def _capacity_twin(trace: Trace, units: list[int]) -> tuple[np.ndarray, list[int], list[int]]:
    """Lists of units for each tier, youngest first; what a tier cannot hold goes to the front of the next."""
    tiers: list[list[tuple[int, int]]] = [[] for _ in units]
    size: dict[int, int] = {}
    hits, down, peak = np.zeros((len(trace), len(units))), [0] * len(units), [0] * len(units)
    for i in range(len(trace)):
        path, context = _path(trace, i), []
        for piece, start, end in path:
            length = round((end - start) / UNIT)
            size[piece] = max(size.get(piece, 0), length)
            wanted = min(round((trace.prefix_tokens[i] - start) / UNIT), length)
            for k, tier in enumerate(tiers):
                hits[i, k] += sum((piece, n) in tier for n in range(wanted))
            context += [(piece, n) for n in range(size[piece])]
        for tier in tiers:
            tier[:] = [unit for unit in tier if unit not in context]
        moving = context
        for k, tier in enumerate(tiers):
            tier[:0] = moving
            moving = tier[units[k] :]
            del tier[units[k] :]
            down[k] += len(moving)
            peak[k] = max(peak[k], len(tier))
    return hits, down, peak


def _idle_twin(trace: Trace, limits: list[float]) -> tuple[np.ndarray, list[float], list[float]]:
    last: dict[int, float] = {}
    size: dict[int, float] = {}
    hits, down, held = np.zeros((len(trace), len(limits))), [0.0] * len(limits), [0.0] * len(limits)

    def leave(piece: int, now: float) -> None:
        for k, limit in enumerate(limits):
            before = limits[k - 1] if k else 0.0
            held[k] += size[piece] * max(min(now - last[piece], limit) - before, 0.0)
            down[k] += size[piece] * (now - last[piece] > limit)

    for i, now in enumerate(trace.time_s):
        sound = True
        for piece, start, end in _path(trace, i):
            wanted = min(trace.prefix_tokens[i] - start, end - start)
            if piece in last:
                tier = next((k for k, limit in enumerate(limits) if now - last[piece] <= limit), None)
                sound = sound and tier is not None
                if sound and wanted > 0:
                    hits[i, tier] += wanted
                leave(piece, now)
            size[piece], last[piece] = max(size.get(piece, 0.0), end - start), now
    for piece in last:
        leave(piece, trace.time_s[-1])
    return hits, down, held


@given(traces(), st.lists(st.integers(0, 12), min_size=1, max_size=3))
def test_least_recently_used_equals_lists_of_tokens(trace: Trace, units: list[int]) -> None:
    fast = replay_by_capacity(trace, np.array(units) * UNIT)
    hits, down, peak = _capacity_twin(trace, units)
    np.testing.assert_allclose(fast.hit_tokens, hits * UNIT)
    np.testing.assert_allclose(fast.down_tokens, np.array(down) * UNIT)
    np.testing.assert_allclose(fast.peak_tokens, np.array(peak) * UNIT)


@given(traces(), st.lists(st.integers(0, 20), min_size=1, max_size=3).map(sorted))
def test_idle_limits_equal_the_obvious_clock(trace: Trace, limits: list[int]) -> None:
    fast = replay_by_idle(trace, [float(limit) for limit in limits])
    hits, down, held = _idle_twin(trace, [float(limit) for limit in limits])
    np.testing.assert_allclose(fast.hit_tokens, hits)
    np.testing.assert_allclose(fast.down_tokens, down)
    if fast.span_s > 0:
        np.testing.assert_allclose(fast.held_tokens * fast.span_s, held, atol=1e-6)


@given(traces(), st.lists(st.integers(0, 30), min_size=1, max_size=4))
def test_every_input_token_is_hit_or_filled_once(trace: Trace, units: list[int]) -> None:
    for replay in (replay_by_capacity(trace, np.array(units) * UNIT), replay_by_idle(trace, np.sort(units).astype(float))):
        np.testing.assert_allclose(replay.hit_tokens.sum(axis=1) + replay.filled_tokens, trace.input_tokens)
        np.testing.assert_allclose(replay.filled_tokens - replay.rebuilt_tokens, trace.new_tokens)
        assert (replay.hit_tokens >= 0).all()
        assert (replay.rebuilt_tokens >= -1e-9).all()
        assert (replay.down_tokens >= 0).all()


@given(traces(), st.lists(st.floats(0, 40), min_size=2, max_size=12).map(sorted))
def test_hits_never_fall_with_capacity_and_the_curve_is_the_replay(trace: Trace, units: list[float]) -> None:
    capacities = np.array(units) * UNIT
    curve = hit_curve(trace, capacities)
    assert (np.diff(curve) >= -1e-12).all()
    for capacity, share in zip(capacities, curve, strict=True):
        assert replay_by_capacity(trace, [capacity]).hit_frac == pytest.approx(share, abs=1e-12)


@given(traces())
def test_unlimited_tiers_hit_what_the_reader_located(trace: Trace) -> None:
    for replay in (replay_by_capacity(trace, [np.inf]), replay_by_idle(trace, [np.inf])):
        np.testing.assert_allclose(replay.hit_tokens[:, 0], trace.prefix_tokens)
        assert replay.n_rebuilds == 0
        assert replay.down_tokens[0] == 0


@given(traces(), st.integers(1, 9), st.integers(1, 9))
def test_a_lower_tier_does_not_change_what_the_upper_one_holds(trace: Trace, top: int, below: int) -> None:
    one = replay_by_capacity(trace, [top * UNIT])
    two = replay_by_capacity(trace, [top * UNIT, below * UNIT])
    np.testing.assert_allclose(one.hit_tokens[:, 0], two.hit_tokens[:, 0])
    assert two.hit_frac == pytest.approx(replay_by_capacity(trace, [(top + below) * UNIT]).hit_frac)


def test_agentic_trace_hits_96_2_percent_of_its_input() -> None:
    trace = shared(AGENTIC)
    assert len(trace) == 46_218
    assert trace.hit_frac == pytest.approx(0.962, abs=5e-4)
    for replay in (replay_by_capacity(trace.started(60.0), [np.inf]), replay_by_idle(trace.started(10.0), [np.inf])):
        assert replay.hit_frac == pytest.approx(0.962, abs=5e-4)


def test_mooncake_conversations_hit_about_37_percent() -> None:
    """Against a set of all block hashes seen, the definition of a prefix cache without limit."""
    import gzip
    import json

    trace = shared(MOONCAKE)
    seen: set[int] = set()
    hit = total = 0
    with gzip.open(MOONCAKE, "rt") as lines:
        for row in map(json.loads, lines):
            known = next((n for n, block in enumerate(row["hash_ids"]) if block not in seen), len(row["hash_ids"]))
            hit += min(known * 512, row["input_length"])
            total += row["input_length"]
            seen.update(row["hash_ids"])
    assert hit / total == pytest.approx(0.37, abs=0.005)
    assert trace.hit_frac == pytest.approx(hit / total, rel=1e-12)
    assert replay_by_capacity(trace, [np.inf]).hit_frac == pytest.approx(hit / total, rel=1e-12)


def test_mooncake_least_recently_used_equals_an_ordered_set_of_blocks() -> None:
    """Independent of strands and pieces: an OrderedDict of block hashes, evicted oldest first, tails before heads."""
    import gzip
    import json
    from collections import OrderedDict

    trace = shared(MOONCAKE)
    with gzip.open(MOONCAKE, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    for blocks in (2_000, 20_000):
        cache: OrderedDict[int, None] = OrderedDict()
        hit = 0
        for row in rows:
            known = next((n for n, block in enumerate(row["hash_ids"]) if block not in cache), len(row["hash_ids"]))
            hit += min(known * 512, row["input_length"])
            for block in reversed(row["hash_ids"]):
                cache[block] = None
                cache.move_to_end(block)
            while len(cache) > blocks:
                cache.popitem(last=False)
        expected = hit / trace.input_tokens.sum()
        # Last blocks are partly filled: in tokens they take less room than as whole blocks.
        assert replay_by_capacity(trace, [blocks * 512.0]).hit_frac == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("path", [AGENTIC, MOONCAKE], ids=["agentic", "mooncake"])
def test_a_million_requests_a_second(path: object) -> None:
    trace = shared(path).started(60.0)  # type: ignore[arg-type]
    replay_by_capacity(trace, [1e6, 1e7])
    replay_by_idle(trace, [60.0, 600.0])
    hit_curve(trace, [1e6])
    grid = np.geomspace(1e4, 1e9, 64)
    runs = (lambda: replay_by_capacity(trace, [1e6, 1e7]), lambda: replay_by_idle(trace, [60.0, 600.0]), lambda: hit_curve(trace, grid))
    for run in runs:
        best = np.inf
        for _ in range(7):
            start = time.process_time()
            run()
            best = min(best, time.process_time() - start)
        assert len(trace) / best > 1e6


@pytest.mark.parametrize("bad", [[-1.0], [np.nan], [], [[1.0, 2.0]]])
def test_capacities_that_are_none_are_refused(bad: object) -> None:
    trace = small_trace([(0, 0, 0.0, 100, 0, 10)])
    with pytest.raises(ValueError, match="capacity_tokens"):
        replay_by_capacity(trace, bad)


@pytest.mark.parametrize("bad", [[5.0, 1.0], [-1.0], [np.nan], np.zeros((3, 2))])
def test_limits_that_fall_are_refused(bad: object) -> None:
    with pytest.raises(ValueError, match="limit"):
        replay_by_idle(small_trace([(0, 0, 0.0, 100, 0, 10)]), bad)


def test_length_classes_are_octaves() -> None:
    assert length_class([0, 1023, 1024, 2047, 2048, 2**24, 2**40]).tolist() == [0, 0, 1, 1, 2, 15, 15]
    assert length_class(1e9) == LENGTH_CLASSES - 1
