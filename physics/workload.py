"""A scenario's model and machine as flat arrays: what the compiled step of `kernels` reads.

Everything linear in the layers is summed over them here, once; what is left per step are the scans and the experts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from physics import kernels as k
from physics.formats import ACTIVATION_BYTES, OUTPUT_BYTES, WEIGHT_BYTES, compute_format
from physics.layers import DenseFFN
from physics.machine import Machine
from physics.model import Model
from physics.scenario import Scenario

FLOP_CLASSES = ("core", "attention", "dense", "shared", "router", "routed", "head")
"""Classes of FLOPs, each computed at one peak: attention's core (scores, values, recurrence), then the weight classes."""


@dataclass(frozen=True)
class Workload:
    """Flat arrays of one (model, machine, formats): see the index names in `kernels`."""

    scans: np.ndarray
    experts: np.ndarray
    totals: np.ndarray
    peaks: np.ndarray
    formats: tuple[str, ...]


def formats_in_use(
    model: Model, machine: Machine, weight_dtype: str | None, compute_dtype: str | None, attention_dtype: str | None
) -> tuple[str, ...]:
    """The arithmetic format of each of FLOP_CLASSES on this machine.

    `compute_dtype` overrides all; otherwise the core runs in `attention_dtype` or BF16, a matrix in its weights' format,
    widened where the machine lacks the unit. Raises ValueError where it has no wider one either.
    """
    weights = model.weight_formats(weight_dtype)
    wanted = [compute_dtype or attention_dtype or "bf16"]
    wanted += [compute_dtype or compute_format(getattr(weights, name)) for name in FLOP_CLASSES[1:]]
    return tuple(machine.compute_format(name) for name in wanted)


def workload(scenario: Scenario) -> Workload:
    """The arrays of this scenario's model, machine and formats, cached."""
    s = scenario
    return _workload(s.model, s.machine, s.weight_dtype, s.kv_dtype, s.compute_dtype, s.attention_dtype)


@lru_cache(maxsize=256)
def _workload(
    model: Model, machine: Machine, weight_dtype: str | None, kv_dtype: str, compute_dtype: str | None, attention_dtype: str | None
) -> Workload:
    formats = formats_in_use(model, machine, weight_dtype, compute_dtype, attention_dtype)
    peaks = np.array([machine.peaks[name] for name in formats])
    routed_format = formats[FLOP_CLASSES.index("routed")]
    return Workload(
        scans=_scans(model, kv_dtype),
        experts=_experts(model, weight_dtype, routed_format),
        totals=_totals(model, weight_dtype),
        peaks=peaks,
        formats=formats,
    )


def _scans(model: Model, kv_dtype: str) -> np.ndarray:
    """One row per different scan, FLOPs and bytes multiplied by its layers and equal scans of several groups merged."""
    merged: dict[tuple[float, ...], np.ndarray] = {}
    for layers, scan in model.scans(kv_dtype):
        amounts = np.array([scan.flops_per_pair, scan.bytes_per_entry, scan.expanded_flops_per_pair, scan.up_projection_flops])
        # The form is chosen scan by scan, so only scans of one shape may be summed: same forms up to a common factor.
        shape = tuple(amounts[2:] / scan.flops_per_pair)
        key = (scan.read, scan.stride, scan.limit, scan.shards, *shape)
        merged[key] = merged.get(key, np.zeros(4)) + layers * amounts
    rows = np.zeros((len(merged), k.SCAN_WIDTH))
    for row, (key, amounts) in zip(rows, merged.items(), strict=True):
        row[[k.SCAN_READ, k.SCAN_STRIDE, k.SCAN_LIMIT, k.SCAN_SHARDS]] = key[:4]
        row[[k.SCAN_PAIR_FLOPS, k.SCAN_ENTRY_BYTES, k.SCAN_EXPANDED_FLOPS, k.SCAN_UP_FLOPS]] = amounts
    return rows


def _experts(model: Model, weight_dtype: str | None, routed_format: str) -> np.ndarray:
    """One row per group of MoE layers, amounts multiplied by its layers."""
    rows = np.zeros((len(model.moe_groups), k.EXPERT_WIDTH))
    weight_bytes = WEIGHT_BYTES[model.weight_formats(weight_dtype).routed]
    for row, (layers, moe) in zip(rows, model.moe_groups, strict=True):
        width = moe.expert_input_width(model.hidden)
        params = moe.expert_params(model.hidden)
        row[k.EXPERT_TOP_K] = moe.top_k
        row[k.EXPERT_FLOPS] = layers * 2.0 * moe.top_k * params
        row[k.EXPERT_BYTES] = layers * params * weight_bytes
        row[k.EXPERT_SENT] = layers * moe.top_k * width * ACTIVATION_BYTES[routed_format]
        row[k.EXPERT_RETURNED] = layers * moe.top_k * width * OUTPUT_BYTES
    return rows


def _totals(model: Model, weight_dtype: str | None) -> np.ndarray:
    """Parameters, weight bytes and constants of the whole model."""
    params = model.params_by_class()
    weights = model.weight_bytes_by_class(weight_dtype)
    formats = model.weight_formats(weight_dtype)
    head_params = model.vocab * model.hidden  # a tied head reads the embedding's matrix
    totals = np.zeros(k.TOTAL_WIDTH)
    totals[k.TOTAL_ATTENTION], totals[k.TOTAL_ATTENTION_BYTES] = params["attention"], weights["attention"]
    totals[k.TOTAL_DENSE], totals[k.TOTAL_DENSE_BYTES] = params["dense"], weights["dense"]
    totals[k.TOTAL_SHARED], totals[k.TOTAL_ROUTER] = params["shared"], params["router"]
    totals[k.TOTAL_SHARED_BYTES] = weights["shared"] + weights["router"]
    totals[k.TOTAL_HEAD] = head_params
    totals[k.TOTAL_HEAD_BYTES] = head_params * WEIGHT_BYTES[formats.embedding if model.tied_embeddings else formats.head]
    totals[k.TOTAL_TOKEN_FLOPS] = sum(g.count * g.attention.token_flops() for g in model.groups if g.attention is not None)
    totals[k.TOTAL_STATE_BYTES] = model.state_bytes()
    totals[k.TOTAL_HIDDEN] = model.hidden
    totals[k.TOTAL_ATTENTION_LAYERS] = sum(g.count for g in model.groups if g.attention is not None)
    totals[k.TOTAL_DENSE_LAYERS] = sum(g.count for g in model.groups if isinstance(g.ffn, DenseFFN))
    return totals
