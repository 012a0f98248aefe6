"""Joules of a byte and of an expert: SRAM banks and wires, and experts kept in HBM against experts kept in SRAM.

The picture: an expert in HBM is read once for the queue of tokens that meet in it; an expert in SRAM is read anew for each
token, cheaply. So HBM catches up once the queue is as long as HBM is dear. Source: design notes section 6. Values come from
`data/`; what an energy per byte includes (its accounting) is looked after in `expert_memory`.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def bank_j_per_byte(bank_bytes: Any, anchor_bytes: Any, anchor_j_per_byte: Any, extrapolate: bool = False) -> Any:
    """Energy of reading one byte from a bare SRAM bank of a given size [J/B].

    Straight lines between published banks on log-log axes; no distance, no control outside the bank. Valid between the smallest
    and the largest published bank; NaN outside, unless `extrapolate` continues the last line, which nobody measured.
    bank_bytes: size of the bank [B].
    anchor_bytes: sizes of the published banks, ascending [B].
    anchor_j_per_byte: their energies [J/B].

    >>> round(float(bank_j_per_byte(65536, [8192, 524288], [1e-12, 4e-12])) * 1e12, 6)  # half way in the logarithm
    2.0
    >>> bank_j_per_byte(4096, [8192, 524288], [1e-12, 4e-12])
    nan
    """
    size, x, y = (
        np.log(np.asarray(bank_bytes, float)),
        np.log(np.asarray(anchor_bytes, float)),
        np.log(np.asarray(anchor_j_per_byte, float)),
    )
    energy = np.interp(size, x, y)
    if extrapolate:
        low, high = (y[1] - y[0]) / (x[1] - x[0]), (y[-1] - y[-2]) / (x[-1] - x[-2])
        energy = np.where(size < x[0], y[0] + low * (size - x[0]), np.where(size > x[-1], y[-1] + high * (size - x[-1]), energy))
        return np.exp(energy)[()]
    inside = (size >= x[0] - 1e-12) & (size <= x[-1] + 1e-12)
    return np.where(inside, np.exp(energy), np.nan)[()]


def wire_j_per_byte(distance_mm: Any, wire_j_per_byte_mm: Any) -> Any:
    """Energy of carrying one byte over an on-die wire: linear in the distance [J/B].

    distance_mm: length of the wire [mm].
    wire_j_per_byte_mm: energy per byte and millimetre [J/B/mm].

    >>> wire_j_per_byte(2.0, 0.4e-12) / 8e-12  # 2 mm at 0.05 pJ/bit/mm, in pJ/bit
    0.1
    """
    return distance_mm * wire_j_per_byte_mm


def queue_tokens(top_k: Any, tokens: Any, distinct_experts: Any) -> Any:
    """Tokens per touched expert kT/D: how often one read of an expert is used [token].

    top_k: experts per token k [1].
    tokens: tokens T of the step [token].
    distinct_experts: experts D that they touch [expert].

    >>> queue_tokens(8, 480, 256)
    15.0
    """
    return top_k * tokens / distinct_experts


def shared_read_j_per_token(
    distinct_experts: Any, tokens: Any, top_k: Any, expert_bytes: Any, memory_j_per_byte: Any, sram_j_per_byte: Any, reread_frac: Any = 0.0
) -> Any:
    """Energy of expert weights kept in main memory, per token: D(T)*B_W*e/T, plus what re-reading them on chip costs [J].

    Each touched expert is read once for its queue. With phi > 0 each token of the queue reads it again from a buffer on the chip, at
    phi of the energy of the SRAM compared with: phi*k*B_W*e_sram.
    distinct_experts: D [expert].
    tokens: T [token].
    top_k: k [1].
    expert_bytes: bytes B_W of one expert, of all its layers [B].
    memory_j_per_byte: energy of the main memory [J/B].
    sram_j_per_byte: energy of the SRAM compared with [J/B].
    reread_frac: phi [1].

    >>> shared_read_j_per_token(256, 480, 8, 1e6, 40e-12, 2e-12) * 1e6  # 256 MB at 40 pJ/B for 480 tokens, in µJ
    21.333333
    """
    once = distinct_experts * expert_bytes * memory_j_per_byte / tokens
    return once + reread_frac * private_read_j_per_token(top_k, expert_bytes, sram_j_per_byte)


def private_read_j_per_token(top_k: Any, expert_bytes: Any, sram_j_per_byte: Any) -> Any:
    """Energy of expert weights kept in SRAM, per token: k*B_W*e_sram, whatever the batch, since nothing is shared [J].

    top_k: k [1].
    expert_bytes: bytes B_W of one expert, of all its layers [B].
    sram_j_per_byte: energy of the SRAM [J/B].

    >>> private_read_j_per_token(8, 1e6, 2e-12) * 1e6
    16.0
    """
    return top_k * expert_bytes * sram_j_per_byte


def break_even_queue_tokens(ratio: Any, reread_frac: Any = 0.0) -> Any:
    """Tokens per touched expert at which main memory costs what SRAM does: rho/(1 - phi) [token].

    At phi = 1 they never meet (infinity). A ratio below 1 - phi gives less than one token: SRAM is never cheaper.
    ratio: rho, energy per byte of the main memory over that of SRAM [1].
    reread_frac: phi, energy of re-reading on chip over that of SRAM [1].

    >>> float(break_even_queue_tokens(15.0)), float(break_even_queue_tokens(15.0, 0.5)), float(break_even_queue_tokens(15.0, 1.0))
    (15.0, 30.0, inf)
    """
    kept = 1.0 - np.asarray(reread_frac, float)
    return np.where(kept > 0.0, ratio / np.where(kept > 0.0, kept, 1.0), np.inf)[()]


def break_even_ratio(queue_tokens: Any, reread_frac: Any = 0.0) -> Any:
    """Ratio of energies per byte at which a queue of this length breaks even: the reverse question, n*(1 - phi) [1].

    queue_tokens: tokens per touched expert n [token].
    reread_frac: phi [1].

    >>> break_even_ratio(15.0), break_even_ratio(30.0, 0.5)
    (15.0, 15.0)
    """
    return queue_tokens * (1.0 - reread_frac)


def chips_to_hold(stored_bytes: Any, chip_bytes: Any) -> Any:
    """Chips whose memory holds so many bytes, nothing else stored on them [1].

    stored_bytes: what is to be held [B].
    chip_bytes: SRAM of one chip [B].

    >>> float(chips_to_hold(654e9, 0.5e9))
    1308.0
    """
    return np.ceil(stored_bytes / chip_bytes)


def expert_s(expert_bytes: Any, chip_bytes: Any, chip_bytes_per_s: Any) -> Any:
    """Time to stream one expert of one layer through the chips that hold it: the bound on its turnaround [s].

    An expert that does not fit one chip lies on several, which read at once.
    expert_bytes: bytes of one expert of one layer [B].
    chip_bytes: SRAM of one chip [B].
    chip_bytes_per_s: its bandwidth [B/s].

    >>> round(float(expert_s(45e6, 0.5e9, 150e12)) * 1e6, 3)  # µs
    0.3
    """
    return expert_bytes / (chip_bytes_per_s * np.maximum(chips_to_hold(expert_bytes, chip_bytes), 1.0))


def messages_per_s(distinct_experts: Any, expert_s: Any) -> Any:
    """Messages a switch must carry while one layer's experts run without waiting: 2*D over the turnaround [1/s].

    Each touched expert takes in one token and gives back one result per turnaround.
    distinct_experts: experts at work D [expert].
    expert_s: turnaround of one expert [s].

    >>> round(messages_per_s(222.0, 0.3e-6) / 1e9, 3)  # billions per second
    1.48
    """
    return 2.0 * distinct_experts / expert_s


def leakage_j_per_token(leakage_w_per_gb: Any, stored_bytes: Any, step_s: Any, tokens: Any) -> Any:
    """Energy that SRAM leaks during a step, per token of it: it holds all experts, whether they are read or not [J].

    leakage_w_per_gb: leakage of the SRAM [W/GB].
    stored_bytes: bytes held [B].
    step_s: time of the step [s].
    tokens: tokens of the step [token].

    >>> leakage_j_per_token(1.0, 600e9, 0.01, 60)
    0.1
    """
    return leakage_w_per_gb * stored_bytes / 1e9 * step_s / tokens
