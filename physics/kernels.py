"""The step, compiled: one forward pass of one group, in FLOPs, bytes, seconds and joules, at every point of a grid.

Private. `workload` fills the arrays, `sweep` lays out the grid, `regimes` names the columns. Index names below are the only contract.
The formulas are those of `attention`, `network` and `pipeline`, called as they stand.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from physics._numba import bare_kernel, bare_part
from physics.attention import causal_pairs, chosen_entries_read, chunk_entries_read, chunked_pairs, seen_pairs, window_entries_read
from physics.formats import OUTPUT_BYTES
from physics.layers import READ_CHOSEN, READ_CHUNK, READ_RECENT
from physics.network import reduce_bytes, remote_domains, remote_frac
from physics.pipeline import cache_copies, kept_entries

# Columns of a scan row; amounts are of all its layers together.
SCAN_READ, SCAN_STRIDE, SCAN_LIMIT, SCAN_PAIR_FLOPS, SCAN_ENTRY_BYTES, SCAN_EXPANDED_FLOPS, SCAN_UP_FLOPS, SCAN_SHARDS = range(8)
SCAN_WIDTH = 8
# Columns of a bank, the layers of equal experts: per token, except the bytes of one distinct expert of each layer.
BANK_TOP_K, BANK_FLOPS, BANK_FLOP_S, BANK_FLOP_J, BANK_EXPERT_BYTES, BANK_MOVED_BYTES = range(6)
BANK_WIDTH = 6
# Whole-model totals. "Rest" is all but attention's core and the routed experts; S is seconds on one accelerator at its peaks.
TOTAL_TOKEN_FLOPS, TOTAL_TOKEN_S, TOTAL_TOKEN_J = range(3)  # rest, per token
TOTAL_REQUEST_FLOPS, TOTAL_REQUEST_S, TOTAL_REQUEST_J = range(3, 6)  # rest, per request: the head on its last token
TOTAL_CORE_S, TOTAL_CORE_J, TOTAL_UP_S, TOTAL_UP_J = range(6, 10)  # one FLOP of attention's core, and of its projections
TOTAL_RECURRENT_FLOPS, TOTAL_STATE_BYTES, TOTAL_REST_BYTES, TOTAL_WEIGHT_BYTES = range(10, 14)
TOTAL_HIDDEN, TOTAL_ATTENTION_LAYERS, TOTAL_DENSE_LAYERS = range(14, 17)
TOTAL_WIDTH = 17
# The machine and the options; S is seconds per byte of one accelerator.
HW_MEMORY_S, HW_UP_S, HW_DOMAIN, HW_OUT_S, HW_HOP_S, HW_OVERLAP, HW_TENSOR = range(7)
HW_J_MEMORY, HW_J_UP, HW_J_OUT, HW_IDLE_W = range(7, 11)
HW_CAPACITY, HW_MARGIN_FRAC, HW_KV_COPIES, HW_CHUNK = range(11, 15)
HW_BY_PART, HW_RATES = 15, 16  # whether parts follow one another; RATE_WIDTH numbers of each part in each phase, then the spread
RATE_COMPUTE, RATE_PAD, RATE_MEMORY, RATE_NETWORK, RATE_FLOOR_S, RATE_COLLECTIVE_S = range(6)  # 1/efficiency, but s/B, 1/..., s
RATE_WIDTH = 6
HW_LOW = HW_RATES + 9 * RATE_WIDTH  # of each regime
HW_HIGH = HW_LOW + 5
HW_WIDTH = HW_HIGH + 5
# What varies from point to point.
POINT_PROMPT, POINT_CONTEXT, POINT_BATCH, POINT_NEW, POINT_KV_SCALE, POINT_DEPTH, POINT_GPUS = range(7)
POINT_WIDTH = 7
# An axis of the grid: the leaf of the point it moves and another it moves along (or the same again), where its values lie,
# and how far one place moves in each table of distinct experts (prefill, midfill, decode).
GRID_LEAF, GRID_ALSO, GRID_LENGTH, GRID_FIRST, GRID_TABLES = range(5)
GRID_WIDTH = GRID_TABLES + 3
# What depends on the number of accelerators alone: how often a dispatched byte is remote, how many vectors one reduction sends inside
# the domains and between them, and, from LINK_REACHED on, how many other domains a token of each bank reaches.
LINK_REMOTE, LINK_INSIDE, LINK_BETWEEN, LINK_REACHED = range(4)
# What one part of a step does; a prefill or midfill counts all three, the decode lines one each.
WORK_CORE_FLOPS, WORK_FLOPS, WORK_FLOP_S, WORK_FLOP_J, WORK_WEIGHTS, WORK_KV_READ, WORK_KV_WRITE = range(7)
WORK_ACTIVATION, WORK_UP, WORK_OUT, WORK_HOP = range(7, 11)
WORK_WIDTH = 11
PART_ATTENTION, PART_EXPERTS, PART_REST = range(3)
# What one stage holds.
STAGE_WEIGHTS, STAGE_KV, STAGE_BUFFERS, STAGE_MARGIN = range(4)
# Results. Those after the last of the public contract are worked out only when one of them is asked for.
OUT_FLOPS, OUT_BYTES, OUT_WEIGHT_BYTES, OUT_KV_BYTES, OUT_ACTIVATION_BYTES, OUT_INTENSITY, OUT_ROOFLINE_S, OUT_ENERGY_J = range(8)
OUT_CORE_FLOPS, OUT_KV_READ_BYTES, OUT_KV_WRITE_BYTES, OUT_NETWORK_BYTES, OUT_RIDGE = range(8, 13)
OUT_COMPUTE_FRAC, OUT_MEMORY_FRAC, OUT_NETWORK_FRAC = range(13, 16)
OUT_COMPUTE_S, OUT_MEMORY_S, OUT_NETWORK_S, OUT_HOP_S, OUT_ESTIMATE_S, OUT_ESTIMATE_LOW_S, OUT_ESTIMATE_HIGH_S = range(16, 23)
OUT_WEIGHTS_J, OUT_KV_J, OUT_ACTIVATION_J, OUT_NETWORK_J, OUT_FLOP_J, OUT_IDLE_J = range(23, 29)
OUT_WIDTH = 29
OUT_CONTRACT = 8

N_REGIMES = 5
PREFILL, MIDFILL, DECODE_ATTENTION, DECODE_EXPERTS, DECODE_SHARED = range(N_REGIMES)


@bare_part
def scan_work(scans: Any, i: int, new: float, prefix: float) -> tuple[float, float, float, float]:
    """FLOPs of pairs, FLOPs of up-projecting the prefix, entries read and entries written: one request, one scan."""
    read, stride, limit = scans[i, SCAN_READ], scans[i, SCAN_STRIDE], scans[i, SCAN_LIMIT]
    entries, written = prefix, new
    if read == READ_CHUNK:
        pairs, entries, written = chunked_pairs(new, prefix, limit), chunk_entries_read(prefix, limit), min(new, limit)
    elif read == READ_RECENT:
        pairs, entries, written = seen_pairs(new, prefix, stride, limit), window_entries_read(prefix, limit), min(new, limit)
    elif stride == 1.0 and limit == np.inf:
        pairs = causal_pairs(new, prefix)
    else:
        pairs, written = seen_pairs(new, prefix, stride, limit), new / stride
        entries = np.floor(prefix / stride) if stride > 1.0 else prefix
        if read == READ_CHOSEN:
            entries = chosen_entries_read(new, entries, limit)
    flops, up_flops = pairs * scans[i, SCAN_PAIR_FLOPS], 0.0
    if scans[i, SCAN_UP_FLOPS] > 0.0:  # a latent: the cheaper of its two forms
        expanded, up = pairs * scans[i, SCAN_EXPANDED_FLOPS], prefix * scans[i, SCAN_UP_FLOPS]
        if expanded + up < flops:
            flops, up_flops = expanded, up
    return flops, up_flops, entries, written


@bare_part
def entry_bytes(scans: Any, i: int, hw: Any, point: Any) -> float:
    """Bytes of one cached entry of all layers of a scan, with the copies that tensor parallelism keeps of it."""
    copies = cache_copies(point[POINT_GPUS], scans[i, SCAN_SHARDS]) if hw[HW_TENSOR] > 0.0 else 1.0
    return float(scans[i, SCAN_ENTRY_BYTES] * point[POINT_KV_SCALE] * copies)


@bare_part
def attention_work(scans: Any, totals: Any, hw: Any, point: Any, new: float, prefix: float, work: Any) -> float:
    """Fill in the attention part of a step; what comes back are the FLOPs of expanding cached latents, which the rest counts."""
    requests = point[POINT_BATCH]
    flops, up_flops, written = new * totals[TOTAL_RECURRENT_FLOPS], 0.0, totals[TOTAL_STATE_BYTES]
    read = written if prefix > 0.0 else 0.0  # a prefill starts from an empty state and only writes it
    for i in range(scans.shape[0]):
        pair_flops, expansion, entries_read, entries_written = scan_work(scans, i, new, prefix)
        size = entry_bytes(scans, i, hw, point)
        flops += pair_flops
        up_flops += expansion
        read += entries_read * size
        written += entries_written * size
    flops *= requests
    work[PART_ATTENTION, WORK_CORE_FLOPS] = work[PART_ATTENTION, WORK_FLOPS] = flops
    work[PART_ATTENTION, WORK_FLOP_S], work[PART_ATTENTION, WORK_FLOP_J] = flops * totals[TOTAL_CORE_S], flops * totals[TOTAL_CORE_J]
    work[PART_ATTENTION, WORK_KV_READ], work[PART_ATTENTION, WORK_KV_WRITE] = requests * read, requests * written
    return float(requests * up_flops)


@bare_part
def set_links(banks: Any, hw: Any, gpus: float, links: Any) -> None:
    """Fill in what depends on the number of accelerators alone."""
    # A reduction runs inside each domain, then between the domains: together the 2(G-1)/G of one ring.
    domains = max(gpus / hw[HW_DOMAIN], 1.0)
    links[LINK_REMOTE] = remote_frac(gpus)
    links[LINK_INSIDE] = gpus * reduce_bytes(1.0, gpus / domains, 1.0, 1.0)
    links[LINK_BETWEEN] = domains * reduce_bytes(1.0, domains, 1.0, 1.0)
    for i in range(banks.shape[0]):
        links[LINK_REACHED + i] = remote_domains(gpus, hw[HW_DOMAIN], banks[i, BANK_TOP_K]) if gpus > hw[HW_DOMAIN] else 0.0


@bare_part
def expert_work(banks: Any, distinct: Any, row: int, links: Any, tokens: float, work: Any) -> None:
    """Fill in the routed experts' part of a step."""
    flops = flop_s = flop_j = weights = moved = up = out = 0.0
    for i in range(banks.shape[0]):
        size = tokens * banks[i, BANK_MOVED_BYTES]
        flops += tokens * banks[i, BANK_FLOPS]
        flop_s += tokens * banks[i, BANK_FLOP_S]
        flop_j += tokens * banks[i, BANK_FLOP_J]
        weights += distinct[row, i] * banks[i, BANK_EXPERT_BYTES]
        moved += size
        up += size * links[LINK_REMOTE]
        out += size / banks[i, BANK_TOP_K] * links[LINK_REACHED + i]
    work[PART_EXPERTS, WORK_FLOPS], work[PART_EXPERTS, WORK_FLOP_S], work[PART_EXPERTS, WORK_FLOP_J] = flops, flop_s, flop_j
    work[PART_EXPERTS, WORK_WEIGHTS], work[PART_EXPERTS, WORK_ACTIVATION] = weights, moved
    work[PART_EXPERTS, WORK_UP], work[PART_EXPERTS, WORK_OUT] = up, out


@bare_part
def rest_work(totals: Any, hw: Any, links: Any, point: Any, tokens: float, up_flops: float, work: Any) -> None:
    """Fill in the rest of a step: matrices every token passes, the head, reductions, hops between stages."""
    requests, vector_bytes = point[POINT_BATCH], tokens * totals[TOTAL_HIDDEN] * OUTPUT_BYTES
    work[PART_REST, WORK_FLOPS] = tokens * totals[TOTAL_TOKEN_FLOPS] + requests * totals[TOTAL_REQUEST_FLOPS] + up_flops
    work[PART_REST, WORK_FLOP_S] = tokens * totals[TOTAL_TOKEN_S] + requests * totals[TOTAL_REQUEST_S] + up_flops * totals[TOTAL_UP_S]
    work[PART_REST, WORK_FLOP_J] = tokens * totals[TOTAL_TOKEN_J] + requests * totals[TOTAL_REQUEST_J] + up_flops * totals[TOTAL_UP_J]
    work[PART_REST, WORK_WEIGHTS] = totals[TOTAL_REST_BYTES]
    reductions = (totals[TOTAL_DENSE_LAYERS] + hw[HW_TENSOR] * totals[TOTAL_ATTENTION_LAYERS]) * vector_bytes
    work[PART_REST, WORK_UP], work[PART_REST, WORK_OUT] = reductions * links[LINK_INSIDE], reductions * links[LINK_BETWEEN]
    work[PART_REST, WORK_HOP] = (point[POINT_DEPTH] - 1.0) * vector_bytes


@bare_part
def step(
    scans: Any,
    banks: Any,
    totals: Any,
    hw: Any,
    links: Any,
    distinct: Any,
    row: int,
    point: Any,
    new: float,
    prefix: float,
    work: Any,
) -> None:
    """Fill `work` with one forward pass: `batch` requests append `new` tokens each to `prefix` cached ones."""
    tokens = new * point[POINT_BATCH]
    up_flops = attention_work(scans, totals, hw, point, new, prefix, work)
    expert_work(banks, distinct, row, links, tokens, work)
    rest_work(totals, hw, links, point, tokens, up_flops, work)


@bare_part
def price(work: Any, first: int, last: int, hw: Any, point: Any, each: float, fits: bool, details: bool, out: Any) -> int:
    """Seconds and joules of parts first..last of a step on one stage's accelerators; what binds comes back: 0 compute, 1 memory, 2 network.

    `each` is one accelerator's share of a stage. Seconds are NaN where the scenario does not fit.
    """
    core = flops = flop_s = flop_j = weights = read = written = activation = up = outside = hop = 0.0
    for part in range(first, last + 1):
        core += work[part, WORK_CORE_FLOPS]
        flops += work[part, WORK_FLOPS]
        flop_s += work[part, WORK_FLOP_S]
        flop_j += work[part, WORK_FLOP_J]
        weights += work[part, WORK_WEIGHTS]
        read += work[part, WORK_KV_READ]
        written += work[part, WORK_KV_WRITE]
        activation += work[part, WORK_ACTIVATION]
        up += work[part, WORK_UP]
        outside += work[part, WORK_OUT]
        hop += work[part, WORK_HOP]
    size = weights + (read + written) + activation
    compute_s, memory_s = flop_s * each, size * each * hw[HW_MEMORY_S]
    up_s, out_s = up * each * hw[HW_UP_S] if up > 0.0 else 0.0, outside * each * hw[HW_OUT_S] if outside > 0.0 else 0.0
    network_s, hop_s = max(up_s, out_s), hop * each * hw[HW_HOP_S] if hop > 0.0 else 0.0
    busy_s = max(compute_s, memory_s, network_s) if hw[HW_OVERLAP] > 0.0 else compute_s + memory_s + network_s
    network_j = (up * hw[HW_J_UP] if up > 0.0 else 0.0) + ((outside + hop) * hw[HW_J_OUT] if outside + hop > 0.0 else 0.0)
    idle_j = hw[HW_IDLE_W] / each * point[POINT_DEPTH] * (busy_s + hop_s)
    shown = 1.0 if fits else np.nan
    out[OUT_FLOPS], out[OUT_BYTES], out[OUT_WEIGHT_BYTES], out[OUT_KV_BYTES] = flops, size, weights, read + written
    out[OUT_ACTIVATION_BYTES], out[OUT_INTENSITY] = activation, flops / size
    out[OUT_ROOFLINE_S], out[OUT_ENERGY_J] = (busy_s + hop_s) * shown, size * hw[HW_J_MEMORY] + flop_j + network_j + idle_j
    if details:
        out[OUT_CORE_FLOPS], out[OUT_KV_READ_BYTES], out[OUT_KV_WRITE_BYTES] = core, read, written
        out[OUT_NETWORK_BYTES] = up + outside + hop
        out[OUT_RIDGE] = flops / size * memory_s / compute_s  # of this regime's own mix of formats: where both times are equal
        out[OUT_COMPUTE_FRAC], out[OUT_MEMORY_FRAC] = compute_s / (busy_s + hop_s), memory_s / (busy_s + hop_s)
        out[OUT_NETWORK_FRAC] = network_s / (busy_s + hop_s)
        out[OUT_COMPUTE_S], out[OUT_MEMORY_S], out[OUT_NETWORK_S] = compute_s * shown, memory_s * shown, network_s * shown
        out[OUT_HOP_S] = hop_s * shown
        out[OUT_WEIGHTS_J], out[OUT_KV_J] = weights * hw[HW_J_MEMORY], (read + written) * hw[HW_J_MEMORY]
        out[OUT_ACTIVATION_J], out[OUT_NETWORK_J] = activation * hw[HW_J_MEMORY], network_j
        out[OUT_FLOP_J], out[OUT_IDLE_J] = flop_j, idle_j
    if network_s > compute_s and network_s > memory_s:
        return 2
    return 1 if memory_s > compute_s else 0


@bare_part
def estimate(work: Any, regime: int, hw: Any, each: float, out: Any) -> None:
    """Each resource's bound over its efficiency plus the floors, and the interval it is known to, not below the bound of `price`.

    NaN where no efficiencies are stated. Stated for the step, they apply to its totals and the floor goes to the line that holds
    the rest; stated by part, the parts add up and what the network carries is not hidden behind them.
    """
    phase, first, last = min(regime, 2), PART_ATTENTION, PART_REST
    if regime >= DECODE_ATTENTION:
        first = last = regime - DECODE_ATTENTION
    compute = memory = up = outside = busy = floors = 0.0
    for part in range(first, last + 1):
        row = HW_RATES + (3 * phase + part) * RATE_WIDTH
        size = work[part, WORK_WEIGHTS] + work[part, WORK_KV_READ] + work[part, WORK_KV_WRITE] + work[part, WORK_ACTIVATION]
        compute += (work[part, WORK_FLOP_S] + hw[row + RATE_PAD] * work[part, WORK_WEIGHTS]) * each * hw[row + RATE_COMPUTE]
        memory += size * each * hw[HW_MEMORY_S] * hw[row + RATE_MEMORY]
        if work[part, WORK_UP] > 0.0:
            up += work[part, WORK_UP] * hw[HW_UP_S] * each * hw[row + RATE_NETWORK]
        if work[part, WORK_OUT] > 0.0:
            outside += work[part, WORK_OUT] * hw[HW_OUT_S] * each * hw[row + RATE_NETWORK]
        floors += hw[row + RATE_FLOOR_S] + (hw[row + RATE_COLLECTIVE_S] if each < 1.0 else 0.0)
        if work[part, WORK_HOP] > 0.0:
            floors += work[part, WORK_HOP] * each * hw[HW_HOP_S] * hw[row + RATE_NETWORK]
        if hw[HW_BY_PART] > 0.0:
            busy += max(up, outside) + (max(compute, memory) if hw[HW_OVERLAP] > 0.0 else compute + memory)
            compute = memory = up = outside = 0.0
    busy += max(compute, memory, up, outside) if hw[HW_OVERLAP] > 0.0 else compute + memory + max(up, outside)
    value = busy + floors if each * hw[HW_RATES] > 0.0 else np.nan  # `each` is NaN where the stage does not fit
    out[OUT_ESTIMATE_S] = value
    out[OUT_ESTIMATE_LOW_S], out[OUT_ESTIMATE_HIGH_S] = value * hw[HW_LOW + regime], value * hw[HW_HIGH + regime]
    if out[OUT_ESTIMATE_LOW_S] < out[OUT_ROOFLINE_S]:
        out[OUT_ESTIMATE_LOW_S] = out[OUT_ROOFLINE_S]


@bare_part
def stage_bytes(scans: Any, totals: Any, hw: Any, point: Any) -> tuple[float, float, float, float]:
    """Weights, KV, buffers and margin of one stage of a full pipe, in the order of STAGE_*."""
    context, held = point[POINT_CONTEXT], totals[TOTAL_STATE_BYTES]
    for i in range(scans.shape[0]):
        recent = scans[i, SCAN_READ] == READ_RECENT or scans[i, SCAN_READ] == READ_CHUNK
        limit = scans[i, SCAN_LIMIT] if recent else np.inf
        held += entry_bytes(scans, i, hw, point) * kept_entries(context, scans[i, SCAN_STRIDE], limit)
    in_flight = min(point[POINT_BATCH] * point[POINT_NEW], hw[HW_CHUNK])
    buffers = 2.0 * in_flight * totals[TOTAL_HIDDEN] * OUTPUT_BYTES
    margin = hw[HW_MARGIN_FRAC] * hw[HW_CAPACITY] * point[POINT_GPUS]
    return totals[TOTAL_WEIGHT_BYTES] / point[POINT_DEPTH], point[POINT_BATCH] * held * hw[HW_KV_COPIES], buffers, margin


@bare_kernel
def stages(scans: Any, totals: Any, hw: Any, points: Any, out: Any) -> None:
    """What a stage holds at every point: points[N, POINT_WIDTH], out[4, N]."""
    for i in range(points.shape[0]):
        out[STAGE_WEIGHTS, i], out[STAGE_KV, i], out[STAGE_BUFFERS, i], out[STAGE_MARGIN, i] = stage_bytes(scans, totals, hw, points[i])


@bare_part
def place_on(grid: Any, values: Any, index: int, place: Any, point: Any) -> None:
    """Set `place` and `point` to the index-th point of the grid, last axis fastest."""
    for a in range(grid.shape[0] - 1, -1, -1):
        place[a] = index % grid[a, GRID_LENGTH]
        index //= grid[a, GRID_LENGTH]
        point[grid[a, GRID_LEAF]] = point[grid[a, GRID_ALSO]] = values[grid[a, GRID_FIRST] + place[a]]


@bare_part
def advance(grid: Any, values: Any, place: Any, point: Any) -> None:
    """Move `place` and `point` to the next point of the grid."""
    for a in range(grid.shape[0] - 1, -1, -1):
        place[a] += 1
        if place[a] == grid[a, GRID_LENGTH]:
            place[a] = 0
        point[grid[a, GRID_LEAF]] = point[grid[a, GRID_ALSO]] = values[grid[a, GRID_FIRST] + place[a]]
        if place[a] != 0:
            return


@bare_part
def table_row(grid: Any, place: Any, tables: Any, which: int) -> int:
    """Row of this place in the table of distinct experts of a prefill (0), midfill (1) or decode step (2)."""
    row = tables[which]
    for a in range(grid.shape[0]):
        row += place[a] * grid[a, GRID_TABLES + which]
    return int(row)


@bare_kernel
def evaluate(
    scans: Any,
    banks: Any,
    totals: Any,
    hw: Any,
    grid: Any,
    values: Any,
    distinct: Any,
    tables: Any,
    wanted: Any,
    details: bool,
    start: int,
    stop: int,
    point: Any,
    place: Any,
    work: Any,
    links: Any,
    row: Any,
    out: Any,
    bound: Any,
    fits: Any,
) -> None:
    """All regimes at points start..stop of a grid: out[len(wanted), N, N_REGIMES], bound[N, N_REGIMES], fits[N].

    point[POINT_WIDTH] comes with what no axis moves; distinct[row, bank] holds the distinct experts per layer, tables the first row
    of a prefill's, a midfill's and a decode step's; details: whether a column beyond the contract's is wanted. place[axes],
    work[3, WORK_WIDTH], links[LINK_REACHED + banks] and row[OUT_WIDTH] are room to work in, work zeroed.
    """
    place_on(grid, values, start, place, point)
    gpus = 0.0
    for i in range(start, stop):
        weights, kv, buffers, margin = stage_bytes(scans, totals, hw, point)
        if point[POINT_GPUS] != gpus:
            gpus = point[POINT_GPUS]
            set_links(banks, hw, gpus, links)
        fits[i] = weights + kv + buffers + margin <= hw[HW_CAPACITY] * gpus
        for regime in range(N_REGIMES):
            first, last = PART_ATTENTION, PART_REST
            if regime <= DECODE_ATTENTION:  # the lines after it are parts of the same step
                new = point[POINT_PROMPT] if regime == PREFILL else point[POINT_NEW] if regime == MIDFILL else 1.0
                prefix = 0.0 if regime == PREFILL else point[POINT_CONTEXT]
                step(scans, banks, totals, hw, links, distinct, table_row(grid, place, tables, regime), point, new, prefix, work)
            if regime >= DECODE_ATTENTION:
                first = last = regime - DECODE_ATTENTION
            bound[i, regime] = price(work, first, last, hw, point, 1.0 / gpus, fits[i], details, row)
            if details:
                estimate(work, regime, hw, 1.0 / gpus if fits[i] else np.nan, row)
            for c in range(wanted.size):
                out[c, i, regime] = row[wanted[c]]
        advance(grid, values, place, point)


@bare_kernel
def steps_at(
    scans: Any,
    banks: Any,
    totals: Any,
    hw: Any,
    distinct: Any,
    rows: Any,
    new: Any,
    prefix: Any,
    parts: int,
    point: Any,
    work: Any,
    links: Any,
    row: Any,
    out: Any,
) -> None:
    """A step for each of new[N] and prefix[N] tokens: out[1, N, OUT_WIDTH] of the whole step, or out[3, N, OUT_WIDTH] of its parts.

    point[POINT_WIDTH] holds the group and the layout; rows[N] say where in `distinct` a step's experts are. work, links and row are room
    to work in, work zeroed.
    """
    set_links(banks, hw, point[POINT_GPUS], links)
    for i in range(new.size):
        step(scans, banks, totals, hw, links, distinct, rows[i], point, new[i], prefix[i], work)
        for line in range(parts):
            first = PART_ATTENTION if parts == 1 else line
            last = PART_REST if parts == 1 else line
            price(work, first, last, hw, point, 1.0 / point[POINT_GPUS], True, True, row)
            for c in range(OUT_WIDTH):
                out[line, i, c] = row[c]
