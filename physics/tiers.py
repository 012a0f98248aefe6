"""Where KV can wait: tiers of memory, and the closed forms for holding, moving and rebuilding.

Holding costs by the second, moving and rebuilding once. Between two places there is an idle time at which both cost the same: the
five-minute rule (Gray and Putzolu 1987; Gray and Graefe 1997) with KV in the place of pages and a prefill in the place of a disk.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

TIERS = ("hbm", "dram", "pool", "ssd")
"""Tiers from the top down; below the last one KV is discarded."""
LABELS = {"hbm": "HBM", "dram": "CPU DRAM", "pool": "pooled DRAM", "ssd": "SSD", "discard": "discard"}
FIELDS = ("capacity_bytes", "bytes_per_s", "latency_s", "j_per_byte", "usd_per_gb", "w_per_gb")


@dataclass(frozen=True)
class Tier:
    """One place for KV, per accelerator. NaN where no source states a number and the user gave none.

    name: key of TIERS.
    capacity_bytes: capacity [B].
    bytes_per_s: bandwidth to the accelerator's HBM; inf for HBM itself [B/s].
    latency_s: time until the first byte arrives; NaN counts as 0 [s].
    j_per_byte: energy of moving a byte to or from HBM [J/B].
    usd_per_gb: price of a gigabyte, written off over the lifetime; of HBM, that share of the accelerator's rent over the same time [$/GB].
    w_per_gb: power of holding a gigabyte; NaN counts as 0 [W/GB].
    lifetime_s: time over which the price is written off [s].
    """

    name: str
    capacity_bytes: float = math.nan
    bytes_per_s: float = math.nan
    latency_s: float = math.nan
    j_per_byte: float = math.nan
    usd_per_gb: float = math.nan
    w_per_gb: float = math.nan
    lifetime_s: float = math.nan

    def __post_init__(self) -> None:
        if self.name not in TIERS:
            raise ValueError(f"tier: {self.name!r} is not one of {', '.join(TIERS)}")
        for name in (*FIELDS, "lifetime_s"):
            value = getattr(self, name)
            positive = name in ("bytes_per_s", "lifetime_s")
            if isinstance(value, bool) or not isinstance(value, int | float) or value < 0.0 or (positive and value == 0.0):
                raise ValueError(f"{self.name}.{name}: {value!r} is not a number {'above' if positive else 'of at least'} 0")

    @property
    def usd_per_byte_s(self) -> float:
        """Cost of holding a byte for a second [$/B/s]."""
        return self.usd_per_gb / 1e9 / self.lifetime_s

    @property
    def priced(self) -> bool:
        """Whether bandwidth and price are known, so that holding here can be weighed."""
        return self.bytes_per_s > 0 and math.isfinite(self.usd_per_byte_s)

    def replace(self, **changes: Any) -> Tier:
        """The same tier with some fields changed, validated anew."""
        return replace(self, **changes)


def break_even_idle_s(fast_access: Any, slow_access: Any, fast_holding_per_s: Any, slow_holding_per_s: Any) -> Any:
    """Idle time above which the slow place is the cheaper one [s].

    T = (slow_access - fast_access) / (fast_holding - slow_holding), costs in one currency, seconds of idle time in the other. 0 where
    the slow place is never dearer, inf where it is never cheaper.
    fast_access, slow_access: cost of using the KV once from either place, its way there included [1].
    fast_holding_per_s, slow_holding_per_s: cost of holding it for a second [1/s].

    Gray and Graefe 1997, with 8 KB pages, 64 accesses/s of a 2,000 USD disk, 15 USD a megabyte:

    >>> round(float(break_even_idle_s(0.0, 2000 / 64, 15 / 128, 0.0)))
    267
    """
    extra = np.asarray(slow_access, float) - np.asarray(fast_access, float)
    saved = np.asarray(fast_holding_per_s, float) - np.asarray(slow_holding_per_s, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        idle = np.where(saved > 0.0, np.maximum(extra, 0.0) / saved, np.where(extra > 0.0, np.inf, 0.0))
    return np.where(np.isnan(extra) | np.isnan(saved), np.nan, idle)[()]


def least_loading_bytes_per_s(kv_bytes: Any, rebuild_s: Any) -> Any:
    """Bandwidth above which loading KV is faster than rebuilding it [B/s].

    kv_bytes: KV of the prefix [B].
    rebuild_s: seconds of filling it again [s].

    >>> float(least_loading_bytes_per_s(9e9, 1.5))
    6e9
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(kv_bytes, float) / np.asarray(rebuild_s, float)


def mooncake_bytes_per_s(
    prefix_tokens: Any,
    hidden: float,
    gqa: float,
    flops_per_s: float,
    element_bytes: float = 2.0,
    attention: float = 4.0,
    linear: float = 22.0,
) -> Any:
    """The same for a dense GQA model in closed form: B = G * 2ds / (gqa * (apd + bd^2)) [B/s].

    Equations 1 and 2 of Qin et al., Mooncake, FAST 2025: filling p tokens takes l(ap^2d + bpd^2) FLOP, loading them l*2pds/gqa bytes. It
    counts the full square of attention, not the causal half, so at long prefixes it asks for less bandwidth than this project's fills do.
    prefix_tokens: cached tokens p [token].
    hidden: width of the model d [1].
    gqa: query heads per KV head [1].
    flops_per_s: what the accelerators compute together, G [FLOP/s].
    element_bytes: size of a cached element s [B].
    attention, linear: FLOP per token pair and per token, a and b [1].

    Llama-3-70B, 8,192 tokens, eight A800:

    >>> round(float(mooncake_bytes_per_s(8192, 8192, 8, 8 * 312e12)) / 1e9, 2)
    5.86
    """
    p, d = np.asarray(prefix_tokens, float), float(hidden)
    return flops_per_s * 2.0 * d * element_bytes / (gqa * (attention * p * d + linear * d * d))
