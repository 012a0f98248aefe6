"""The step, compiled: one forward pass of one group, in FLOPs, bytes, seconds and joules.

Private. `workload` fills the arrays, `regimes` and `sweep` call `evaluate`. Index names below are the only contract.
The formulas are those of `attention` and `network`, called as they stand.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from physics._numba import kernel
from physics.attention import chosen_entries_read, chunk_entries_read, chunked_pairs, seen_pairs, window_entries_read
from physics.formats import OUTPUT_BYTES
from physics.network import reduce_bytes, remote_domains, remote_frac

# Columns of a scan row.
SCAN_READ, SCAN_STRIDE, SCAN_LIMIT, SCAN_PAIR_FLOPS, SCAN_ENTRY_BYTES, SCAN_EXPANDED_FLOPS, SCAN_UP_FLOPS, SCAN_SHARDS, SCAN_WIDTH = range(
    9
)
# Columns of an expert row: per token, except the bytes of one distinct expert of each layer.
EXPERT_TOP_K, EXPERT_FLOPS, EXPERT_BYTES, EXPERT_SENT, EXPERT_RETURNED, EXPERT_WIDTH = range(6)
# Whole-model totals.
(
    TOTAL_ATTENTION,
    TOTAL_DENSE,
    TOTAL_SHARED,
    TOTAL_ROUTER,
    TOTAL_HEAD,
    TOTAL_ATTENTION_BYTES,
    TOTAL_DENSE_BYTES,
    TOTAL_SHARED_BYTES,
    TOTAL_HEAD_BYTES,
    TOTAL_TOKEN_FLOPS,
    TOTAL_STATE_BYTES,
    TOTAL_HIDDEN,
    TOTAL_ATTENTION_LAYERS,
    TOTAL_DENSE_LAYERS,
    TOTAL_WIDTH,
) = range(15)
# What varies from point to point.
POINT_PROMPT, POINT_CONTEXT, POINT_BATCH, POINT_NEW, POINT_KV_SCALE, POINT_DEPTH, POINT_GPUS, POINT_WIDTH = range(8)
# The machine and the options; peaks and joules per FLOP are arrays of their own.
(
    HW_MEMORY_S,
    HW_UP_S,
    HW_DOMAIN,
    HW_OUT_S,
    HW_HOP_S,
    HW_OVERLAP,
    HW_TENSOR,
    HW_J_MEMORY,
    HW_J_UP,
    HW_J_OUT,
    HW_IDLE_W,
    HW_WIDTH,
) = range(12)
# A step's ledger: FLOPs in the order of workload.FLOP_CLASSES, bytes, and link bytes of the whole group.
F_CORE, F_ATTENTION, F_DENSE, F_SHARED, F_ROUTER, F_ROUTED, F_HEAD = range(7)
(
    B_ATTENTION,
    B_DENSE,
    B_SHARED,
    B_ROUTED,
    B_HEAD,
    B_KV_READ,
    B_KV_WRITE,
    B_ACTIVATION,
    N_UP_EXPERTS,
    N_OUT_EXPERTS,
    N_UP_REDUCE,
    N_HOP,
    LEDGER_WIDTH,
) = range(7, 20)
# One row of results per regime.
(
    OUT_FLOPS,
    OUT_CORE_FLOPS,
    OUT_WEIGHT_BYTES,
    OUT_KV_READ_BYTES,
    OUT_KV_WRITE_BYTES,
    OUT_ACTIVATION_BYTES,
    OUT_UP_BYTES,
    OUT_OUT_BYTES,
    OUT_COMPUTE_S,
    OUT_MEMORY_S,
    OUT_NETWORK_S,
    OUT_HOP_S,
    OUT_ROOFLINE_S,
    OUT_WEIGHTS_J,
    OUT_KV_J,
    OUT_ACTIVATION_J,
    OUT_NETWORK_J,
    OUT_FLOP_J,
    OUT_IDLE_J,
    OUT_WIDTH,
) = range(20)

N_REGIMES = 5
PREFILL, MIDFILL, DECODE_ATTENTION, DECODE_EXPERTS, DECODE_SHARED = range(N_REGIMES)

_ATTENTION_PART = (F_CORE, B_KV_READ, B_KV_WRITE)
_EXPERT_PART = (F_ROUTED, B_ROUTED, B_ACTIVATION, N_UP_EXPERTS, N_OUT_EXPERTS)


def _shares() -> np.ndarray:
    """Which ledger entries each regime counts: all of a prefill or midfill; the three decode lines split a decode step."""
    shares = np.ones((N_REGIMES, LEDGER_WIDTH))
    shares[[DECODE_ATTENTION, DECODE_EXPERTS]] = 0.0
    shares[DECODE_ATTENTION, list(_ATTENTION_PART)] = 1.0
    shares[DECODE_EXPERTS, list(_EXPERT_PART)] = 1.0
    shares[DECODE_SHARED] -= shares[DECODE_ATTENTION] + shares[DECODE_EXPERTS]
    return shares


SHARES = _shares()


@kernel
def scan_work(row: Any, new: float, prefix: float, entry_scale: float) -> tuple[float, float, float, float]:
    """FLOPs of pairs, FLOPs of up-projecting the prefix, bytes read and bytes written: one request, one scan."""
    read, stride, limit = int(row[SCAN_READ]), row[SCAN_STRIDE], row[SCAN_LIMIT]
    entry_bytes = row[SCAN_ENTRY_BYTES] * entry_scale
    written = new / stride
    if read == 2:  # READ_CHUNK
        pairs = chunked_pairs(new, prefix, limit)
        entries = chunk_entries_read(prefix, limit)
        written = min(new, limit)
    elif read == 1:  # READ_RECENT
        pairs = seen_pairs(new, prefix, stride, limit)
        entries = window_entries_read(prefix, limit)
        written = min(new, limit)
    else:
        pairs = seen_pairs(new, prefix, stride, limit)
        entries = np.floor(prefix / stride) if stride > 1.0 else prefix
        if read == 3:  # READ_CHOSEN
            entries = chosen_entries_read(new, entries, limit)
    flops, up_flops = pairs * row[SCAN_PAIR_FLOPS], 0.0
    if row[SCAN_UP_FLOPS] > 0.0:
        expanded, up = pairs * row[SCAN_EXPANDED_FLOPS], prefix * row[SCAN_UP_FLOPS]
        if expanded + up < flops:
            flops, up_flops = expanded, up
    return flops, up_flops, entries * entry_bytes, written * entry_bytes


@kernel
def step(scans: Any, experts: Any, totals: Any, distinct: Any, hw: Any, new: float, prefix: float, point: Any, ledger: Any) -> None:
    """Fill `ledger` with one forward pass: `batch` requests append `new` tokens each to `prefix` cached ones."""
    requests, gpus = point[POINT_BATCH], point[POINT_GPUS]
    tokens = new * requests
    ledger[:] = 0.0
    ledger[B_KV_WRITE] = requests * totals[TOTAL_STATE_BYTES]
    if prefix > 0.0:  # a prefill starts from an empty state and only writes it
        ledger[B_KV_READ] = requests * totals[TOTAL_STATE_BYTES]
    for i in range(scans.shape[0]):
        copies = gpus / min(gpus, scans[i, SCAN_SHARDS]) if hw[HW_TENSOR] > 0.0 else 1.0
        flops, up_flops, read, written = scan_work(scans[i], new, prefix, point[POINT_KV_SCALE] * copies)
        ledger[F_CORE] += requests * flops
        ledger[F_ATTENTION] += requests * up_flops
        ledger[B_KV_READ] += requests * read
        ledger[B_KV_WRITE] += requests * written
    ledger[F_CORE] += tokens * totals[TOTAL_TOKEN_FLOPS]
    ledger[F_ATTENTION] += 2.0 * tokens * totals[TOTAL_ATTENTION]
    ledger[F_DENSE] = 2.0 * tokens * totals[TOTAL_DENSE]
    ledger[F_SHARED] = 2.0 * tokens * totals[TOTAL_SHARED]
    ledger[F_ROUTER] = 2.0 * tokens * totals[TOTAL_ROUTER]
    ledger[F_HEAD] = 2.0 * requests * totals[TOTAL_HEAD]  # the last token of each request
    ledger[B_ATTENTION] = totals[TOTAL_ATTENTION_BYTES]
    ledger[B_DENSE] = totals[TOTAL_DENSE_BYTES]
    ledger[B_SHARED] = totals[TOTAL_SHARED_BYTES]
    ledger[B_HEAD] = totals[TOTAL_HEAD_BYTES]
    for i in range(experts.shape[0]):
        row = experts[i]
        moved = tokens * (row[EXPERT_SENT] + row[EXPERT_RETURNED])
        ledger[F_ROUTED] += tokens * row[EXPERT_FLOPS]
        ledger[B_ROUTED] += distinct[i] * row[EXPERT_BYTES]
        ledger[B_ACTIVATION] += moved
        ledger[N_UP_EXPERTS] += moved * remote_frac(gpus)
        ledger[N_OUT_EXPERTS] += moved / row[EXPERT_TOP_K] * remote_domains(gpus, hw[HW_DOMAIN], row[EXPERT_TOP_K])
    reduced = totals[TOTAL_DENSE_LAYERS] + hw[HW_TENSOR] * totals[TOTAL_ATTENTION_LAYERS]
    ledger[N_UP_REDUCE] = reduced * gpus * reduce_bytes(tokens, gpus, totals[TOTAL_HIDDEN], OUTPUT_BYTES)
    ledger[N_HOP] = (point[POINT_DEPTH] - 1.0) * tokens * totals[TOTAL_HIDDEN] * OUTPUT_BYTES


@kernel
def price(ledger: Any, share: Any, peaks: Any, hw: Any, flop_j: Any, point: Any, out: Any) -> None:
    """Seconds and joules of the ledger entries a regime counts, on `gpus` accelerators per stage."""
    gpus = point[POINT_GPUS]
    flops, compute_s, joules = 0.0, 0.0, 0.0
    for c in range(F_HEAD + 1):
        amount = ledger[c] * share[c]
        flops += amount
        compute_s += amount / (gpus * peaks[c])
        joules += amount * flop_j[c]
    weights = 0.0
    for c in range(B_ATTENTION, B_HEAD + 1):
        weights += ledger[c] * share[c]
    read, written = ledger[B_KV_READ] * share[B_KV_READ], ledger[B_KV_WRITE] * share[B_KV_WRITE]
    activation = ledger[B_ACTIVATION] * share[B_ACTIVATION]
    reduce = ledger[N_UP_REDUCE] * share[N_UP_REDUCE]
    out_domain = ledger[N_OUT_EXPERTS] * share[N_OUT_EXPERTS]
    if gpus > hw[HW_DOMAIN]:  # a reduction that spans domains crosses each domain's border once
        out_domain += reduce * hw[HW_DOMAIN] / gpus
    up = ledger[N_UP_EXPERTS] * share[N_UP_EXPERTS] + reduce
    hop = ledger[N_HOP] * share[N_HOP]
    memory_s = (weights + read + written + activation) / (gpus * hw[HW_MEMORY_S])
    network_s = 0.0
    if up > 0.0:
        network_s = up / (gpus * hw[HW_UP_S])
    if out_domain > 0.0:
        network_s = max(network_s, out_domain / (gpus * hw[HW_OUT_S]))
    hop_s = hop / (gpus * hw[HW_HOP_S]) if hop > 0.0 else 0.0
    if hw[HW_OVERLAP] > 0.0:
        roofline_s = max(compute_s, memory_s, network_s) + hop_s
    else:
        roofline_s = compute_s + memory_s + network_s + hop_s
    out[OUT_FLOPS] = flops
    out[OUT_CORE_FLOPS] = ledger[F_CORE] * share[F_CORE]
    out[OUT_WEIGHT_BYTES] = weights
    out[OUT_KV_READ_BYTES], out[OUT_KV_WRITE_BYTES] = read, written
    out[OUT_ACTIVATION_BYTES] = activation
    out[OUT_UP_BYTES], out[OUT_OUT_BYTES] = up, out_domain + hop
    out[OUT_COMPUTE_S], out[OUT_MEMORY_S], out[OUT_NETWORK_S] = compute_s, memory_s, network_s
    out[OUT_HOP_S], out[OUT_ROOFLINE_S] = hop_s, roofline_s
    out[OUT_WEIGHTS_J] = weights * hw[HW_J_MEMORY]
    out[OUT_KV_J] = (read + written) * hw[HW_J_MEMORY]
    out[OUT_ACTIVATION_J] = activation * hw[HW_J_MEMORY]
    out[OUT_NETWORK_J] = (up * hw[HW_J_UP] if up > 0.0 else 0.0) + ((out_domain + hop) * hw[HW_J_OUT] if out_domain + hop > 0.0 else 0.0)
    out[OUT_FLOP_J] = joules
    out[OUT_IDLE_J] = hw[HW_IDLE_W] * gpus * point[POINT_DEPTH] * roofline_s


@kernel
def evaluate(
    scans: Any, experts: Any, totals: Any, peaks: Any, hw: Any, flop_j: Any, shares: Any, points: Any, distinct: Any, out: Any
) -> None:
    """All regimes at every point: points[N, POINT_WIDTH], distinct[N, 3, M], out[N, N_REGIMES, OUT_WIDTH].

    `distinct` holds the distinct experts of a prefill, a midfill and a decode step for each expert row.
    """
    ledger = np.zeros(LEDGER_WIDTH)
    for i in range(points.shape[0]):
        point = points[i]
        step(scans, experts, totals, distinct[i, 0], hw, point[POINT_PROMPT], 0.0, point, ledger)
        price(ledger, shares[PREFILL], peaks, hw, flop_j, point, out[i, PREFILL])
        step(scans, experts, totals, distinct[i, 1], hw, point[POINT_NEW], point[POINT_CONTEXT], point, ledger)
        price(ledger, shares[MIDFILL], peaks, hw, flop_j, point, out[i, MIDFILL])
        step(scans, experts, totals, distinct[i, 2], hw, 1.0, point[POINT_CONTEXT], point, ledger)
        for regime in range(DECODE_ATTENTION, N_REGIMES):
            price(ledger, shares[regime], peaks, hw, flop_j, point, out[i, regime])
