"""A scenario's model, machine and options as flat arrays: what the compiled step of `kernels` reads.

Everything linear in the layers is summed over them here, once; what is left per step are the scans and the expert banks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from physics import kernels as k
from physics.efficiency import PARTS, PHASES, REGIMES, Efficiencies, PartEfficiency
from physics.formats import ACTIVATION_BYTES, OUTPUT_BYTES, WEIGHT_BYTES, compute_format
from physics.layers import DenseFFN
from physics.machine import Machine
from physics.model import Model
from physics.scenario import Scenario

FORMAT_OF = {"attention": "attention", "experts": "routed", "rest": "attention"}
"""Tensor class whose weight format an efficiency of each part is looked up by."""

FLOP_CLASSES = ("core", "attention", "dense", "shared", "router", "routed", "head")
"""Classes of FLOPs, each computed at one peak: attention's core (scores, values, recurrence), then the weight classes."""

LEAVES = {
    "context_tokens": k.POINT_CONTEXT,
    "batch": k.POINT_BATCH,
    "kv_bytes_per_token": k.POINT_KV_SCALE,
    "pipeline_depth": k.POINT_DEPTH,
    "new_tokens": k.POINT_NEW,
    "prompt_tokens": k.POINT_PROMPT,
    "gpus_per_stage": k.POINT_GPUS,
}
"""Numeric fields that may vary from point to point; KV bytes per token as a multiple of the model's own."""


@dataclass(frozen=True)
class Workload:
    """Flat arrays of one (model, machine, formats): see the index names in `kernels`.

    scans, banks, totals: what the step reads. formats, peaks, flop_j: of each of FLOP_CLASSES [-, FLOP/s, J].
    experts: (experts per layer, top-k) of each bank.
    """

    scans: np.ndarray
    banks: np.ndarray
    totals: np.ndarray
    experts: tuple[tuple[int, int], ...]
    formats: tuple[str, ...]
    peaks: np.ndarray
    flop_j: np.ndarray


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
    flop_j = np.array([machine.flop_j[name].j_per_byte if name in machine.flop_j else np.nan for name in formats])
    rates = {name: np.array([1.0, 1.0 / peak, j]) for name, peak, j in zip(FLOP_CLASSES, peaks, flop_j, strict=True)}
    experts, banks = _banks(model, weight_dtype, rates["routed"], ACTIVATION_BYTES[formats[FLOP_CLASSES.index("routed")]])
    return Workload(_scans(model, kv_dtype), banks, _totals(model, weight_dtype, rates), experts, formats, peaks, flop_j)


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


def _banks(
    model: Model, weight_dtype: str | None, rates: np.ndarray, activation_bytes: float
) -> tuple[tuple[tuple[int, int], ...], np.ndarray]:
    """(experts, top-k) of each bank, and its row: amounts of all its layers, groups that choose alike merged."""
    merged: dict[tuple[int, int], np.ndarray] = {}
    weight_bytes = WEIGHT_BYTES[model.weight_formats(weight_dtype).routed]
    for layers, moe in model.moe_groups:
        params, row = layers * moe.expert_params(model.hidden), np.zeros(k.BANK_WIDTH)
        row[[k.BANK_FLOPS, k.BANK_FLOP_S, k.BANK_FLOP_J]] = 2.0 * moe.top_k * params * rates
        row[k.BANK_EXPERT_BYTES] = params * weight_bytes
        row[k.BANK_MOVED_BYTES] = layers * moe.top_k * moe.expert_input_width(model.hidden) * (activation_bytes + OUTPUT_BYTES)
        key = (moe.n_experts, moe.top_k)
        merged[key] = merged.get(key, np.zeros(k.BANK_WIDTH)) + row
    rows = np.array(list(merged.values())).reshape(len(merged), k.BANK_WIDTH)
    rows[:, k.BANK_TOP_K] = [top_k for _, top_k in merged]
    return tuple(merged), rows


def _totals(model: Model, weight_dtype: str | None, rates: dict[str, np.ndarray]) -> np.ndarray:
    """Work per token and request, weight bytes and constants of the whole model."""
    params, weights = model.params_by_class(), model.weight_bytes_by_class(weight_dtype)
    formats = model.weight_formats(weight_dtype)
    head_params = model.vocab * model.hidden  # a tied head reads the embedding's matrix
    passed = ("attention", "dense", "shared", "router")
    attentions = [(group.count, group.attention) for group in model.groups if group.attention is not None]
    totals = np.zeros(k.TOTAL_WIDTH)
    # A class without parameters is left out: its format may have no known energy, and 0 times NaN would spread.
    totals[k.TOTAL_TOKEN_FLOPS : k.TOTAL_TOKEN_J + 1] = sum(2.0 * params[name] * rates[name] for name in passed if params[name])
    totals[k.TOTAL_REQUEST_FLOPS : k.TOTAL_REQUEST_J + 1] = 2.0 * head_params * rates["head"]
    totals[k.TOTAL_CORE_S : k.TOTAL_CORE_J + 1] = rates["core"][1:]
    totals[k.TOTAL_UP_S : k.TOTAL_UP_J + 1] = rates["attention"][1:]
    totals[k.TOTAL_RECURRENT_FLOPS] = sum(count * attention.token_flops() for count, attention in attentions)
    totals[k.TOTAL_STATE_BYTES] = model.state_bytes()
    totals[k.TOTAL_REST_BYTES] = sum(weights[name] for name in passed)
    totals[k.TOTAL_REST_BYTES] += head_params * WEIGHT_BYTES[formats.embedding if model.tied_embeddings else formats.head]
    totals[k.TOTAL_WEIGHT_BYTES] = model.weight_bytes(weight_dtype)
    totals[k.TOTAL_HIDDEN] = model.hidden
    totals[k.TOTAL_ATTENTION_LAYERS] = sum(count for count, _ in attentions)
    totals[k.TOTAL_DENSE_LAYERS] = sum(g.count for g in model.groups if isinstance(g.ffn, DenseFFN))
    return totals


def hardware(s: Scenario) -> np.ndarray:
    """The machine and the options as the kernels read them."""
    machine, hw = s.machine, np.empty(k.HW_WIDTH)
    rates = [machine.memory_bytes_per_s, machine.scale_up_bytes_per_s, machine.scale_out_bytes_per_s, s.hop_bytes_per_s]
    hw[[k.HW_MEMORY_S, k.HW_UP_S, k.HW_OUT_S, k.HW_HOP_S]] = [1.0 / rate if rate > 0.0 else np.nan for rate in rates]
    hw[k.HW_DOMAIN] = machine.scale_up_domain
    hw[k.HW_OVERLAP], hw[k.HW_TENSOR] = s.overlap, s.attention_parallel == "tensor"
    for index, level in ((k.HW_J_MEMORY, "memory"), (k.HW_J_UP, "scale_up"), (k.HW_J_OUT, "scale_out")):
        found = machine.levels.get((level, s.energy_accounting))
        hw[index] = found.j_per_byte if found else np.nan
    hw[k.HW_IDLE_W], hw[k.HW_CAPACITY], hw[k.HW_MARGIN_FRAC] = machine.idle_w, machine.memory_bytes, s.memory_margin_frac
    hw[k.HW_KV_COPIES], hw[k.HW_CHUNK] = 2.0 if s.double_buffered else 1.0, s.chunk_tokens
    hw[k.HW_BY_PART], hw[k.HW_RATES : k.HW_LOW], hw[k.HW_LOW :] = 0.0, np.nan, 1.0
    if s.efficiencies is not None:
        hw[k.HW_BY_PART] = bool(s.efficiencies.parts)
        hw[k.HW_RATES : k.HW_LOW] = _rates(s, s.efficiencies).ravel()
        for regime, low, high in s.efficiencies.spread:
            hw[k.HW_LOW + REGIMES.index(regime)], hw[k.HW_HIGH + REGIMES.index(regime)] = low, high
    return hw


def _rates(s: Scenario, e: Efficiencies) -> np.ndarray:
    """Inverse efficiencies and floors of each part in each phase, in the order of the kernels' RATE_*."""
    rates = np.zeros((len(PHASES), len(PARTS), k.RATE_WIDTH))
    plain = not e.parts
    work, layers = workload(s), _part_layers(s.model)
    for i, phase in enumerate(PHASES):
        for j, part in enumerate(PARTS):
            row, found = rates[i, j], e if plain else e.part(part, phase, getattr(s.model.weight_formats(s.weight_dtype), FORMAT_OF[part]))
            row[[k.RATE_COMPUTE, k.RATE_MEMORY]] = 1.0 / found.compute_frac, 1.0 / found.memory_frac
            row[k.RATE_NETWORK] = 1.0 / found.network_frac
            if isinstance(found, PartEfficiency):
                row[k.RATE_PAD] = found.pad_tokens * second_per_byte(work, part)
                row[k.RATE_FLOOR_S], row[k.RATE_COLLECTIVE_S] = layers[j] * found.layer_floor_s, layers[j] * found.collective_floor_s
        rates[i, -1, k.RATE_FLOOR_S] += s.model.n_layers * e.layer_floor_s * plain + e.step_s
    return rates


def _part_layers(model: Model) -> tuple[int, int, int]:
    """Layers that have attention, routed experts, anything [1]."""
    return sum(g.count for g in model.groups if g.attention is not None), sum(count for count, _ in model.moe_groups), model.n_layers


def second_per_byte(work: Workload, part: str) -> float:
    """Seconds of arithmetic that one more token costs, per byte of the weights it passes [s/B]."""
    if part == "rest":
        return float(work.totals[k.TOTAL_TOKEN_S] / work.totals[k.TOTAL_REST_BYTES])
    if part == "experts" and len(work.banks):
        return float(work.banks[0, k.BANK_FLOP_S] / work.banks[0, k.BANK_TOP_K] / work.banks[0, k.BANK_EXPERT_BYTES])
    return 0.0


def base_point(s: Scenario) -> np.ndarray:
    """The scenario's own numeric leaves in the kernels' order."""
    values = np.empty(k.POINT_WIDTH)
    values[k.POINT_PROMPT], values[k.POINT_CONTEXT], values[k.POINT_BATCH] = s.prefill_tokens, s.context_tokens, s.batch
    values[k.POINT_NEW], values[k.POINT_KV_SCALE] = s.new_tokens, s.kv_scale
    values[k.POINT_DEPTH], values[k.POINT_GPUS] = s.pipeline_depth, s.gpus_per_stage
    return values
