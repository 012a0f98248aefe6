"""Scenario to the regimes' results: the only place where formulas, memory and machine meet."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from physics import kernels as k
from physics.memory import stage_memory
from physics.scenario import Efficiencies, Scenario
from physics.workload import Workload, workload

REGIMES = ("prefill", "midfill", "decode_attention", "decode_experts", "decode_shared")
DECODE = REGIMES[2:]
BOUNDS = ("compute", "memory", "network")


def hardware(s: Scenario) -> np.ndarray:
    """The machine and the options as the kernel reads them."""
    hw = np.zeros(k.HW_WIDTH)
    machine = s.machine
    hw[k.HW_MEMORY_S], hw[k.HW_UP_S] = machine.memory_bytes_per_s, machine.scale_up_bytes_per_s
    hw[k.HW_DOMAIN], hw[k.HW_OUT_S] = machine.scale_up_domain, machine.scale_out_bytes_per_s
    hw[k.HW_HOP_S] = s.hop_bytes_per_s
    hw[k.HW_OVERLAP], hw[k.HW_TENSOR] = s.overlap, s.attention_parallel == "tensor"
    for index, level in ((k.HW_J_MEMORY, "memory"), (k.HW_J_UP, "scale_up"), (k.HW_J_OUT, "scale_out")):
        found = machine.levels.get((level, s.energy_accounting))
        hw[index] = found.j_per_byte if found else np.nan
    hw[k.HW_IDLE_W] = machine.idle_w
    return hw


def flop_joules(s: Scenario, work: Workload) -> np.ndarray:
    """Joules of one FLOP of each class, by the format it computes in; NaN where no source gives it."""
    return np.array([s.machine.flop_j[name].j_per_byte if name in s.machine.flop_j else np.nan for name in work.formats])


def point(s: Scenario) -> np.ndarray:
    """The scenario's own numeric leaves in the kernel's order."""
    values = np.empty(k.POINT_WIDTH)
    values[k.POINT_PROMPT], values[k.POINT_CONTEXT], values[k.POINT_BATCH] = s.prefill_tokens, s.context_tokens, s.batch
    values[k.POINT_NEW], values[k.POINT_KV_SCALE] = s.new_tokens, s.kv_scale
    values[k.POINT_DEPTH], values[k.POINT_GPUS] = s.pipeline_depth, s.gpus_per_stage
    return values


def distinct_experts(s: Scenario, prompt: Any, new: Any, batch: Any) -> np.ndarray:
    """Distinct experts per layer of a prefill, a midfill and a decode step, for each group of MoE layers: [..., 3, M]."""
    shape = np.broadcast(prompt, new, batch).shape
    moes = s.model.moe_groups
    distinct = np.zeros((*shape, 3, len(moes)))
    for column, (_, moe) in enumerate(moes):
        for row, tokens in enumerate((prompt, new, 1.0)):
            distinct[..., row, column] = s.routing.distinct_experts(moe.n_experts, moe.top_k, batch, tokens)  # type: ignore[union-attr]
    return distinct


def evaluate_points(s: Scenario, points: np.ndarray, distinct: np.ndarray) -> np.ndarray:
    """Raw results [N, regime, column] at every point of one scenario's model, machine and options."""
    work = workload(s)
    out = np.empty((len(points), k.N_REGIMES, k.OUT_WIDTH))
    arrays = (work.scans, work.experts, work.totals, work.peaks, hardware(s), flop_joules(s, work), k.SHARES)
    k.evaluate(*arrays, points, distinct, out)
    return out


def columns(raw: np.ndarray, fits: Any, efficiencies: Efficiencies | None, layers: int, overlap: bool) -> dict[str, np.ndarray]:
    """Named results from raw ones, [..., regime] each; seconds are withheld (NaN) where the scenario does not fit."""
    speed = np.where(np.asarray(fits)[..., None], 1.0, np.nan)
    weight, activation = raw[..., k.OUT_WEIGHT_BYTES], raw[..., k.OUT_ACTIVATION_BYTES]
    kv_read, kv_write = raw[..., k.OUT_KV_READ_BYTES], raw[..., k.OUT_KV_WRITE_BYTES]
    total = weight + kv_read + kv_write + activation
    seconds = {name: raw[..., index] for name, index in _SECONDS.items()}
    resources = np.stack([seconds["compute_s"], seconds["memory_s"], seconds["network_s"]], axis=-1)
    flops, roofline = raw[..., k.OUT_FLOPS], seconds["roofline_s"]
    joules = {name: raw[..., index] for name, index in _JOULES.items()}
    result = {
        "flops": flops,
        "core_flops": raw[..., k.OUT_CORE_FLOPS],
        "bytes": total,
        "weight_bytes": weight,
        "kv_bytes": kv_read + kv_write,
        "kv_read_bytes": kv_read,
        "kv_write_bytes": kv_write,
        "activation_bytes": activation,
        "network_bytes": raw[..., k.OUT_UP_BYTES] + raw[..., k.OUT_OUT_BYTES],
    }
    with np.errstate(divide="ignore", invalid="ignore"):
        result["intensity_flops_per_byte"] = flops / total
        # The ridge of this regime's own mix of formats: where its compute and memory times are equal.
        result["ridge_flops_per_byte"] = result["intensity_flops_per_byte"] * seconds["memory_s"] / seconds["compute_s"]
        for index, name in enumerate(BOUNDS):
            result[f"{name}_frac"] = resources[..., index] / roofline
    result["bound_index"] = np.argmax(resources, axis=-1)
    result.update({name: value * speed for name, value in seconds.items()})
    result["estimate_s"] = _estimate(resources, seconds["hop_s"], efficiencies, layers, overlap) * speed
    result["energy_j"] = sum(joules.values())
    result.update(joules)
    return result


_SECONDS = {
    "compute_s": k.OUT_COMPUTE_S,
    "memory_s": k.OUT_MEMORY_S,
    "network_s": k.OUT_NETWORK_S,
    "hop_s": k.OUT_HOP_S,
    "roofline_s": k.OUT_ROOFLINE_S,
}
_JOULES = {
    "energy_weights_j": k.OUT_WEIGHTS_J,
    "energy_kv_j": k.OUT_KV_J,
    "energy_activation_j": k.OUT_ACTIVATION_J,
    "energy_network_j": k.OUT_NETWORK_J,
    "energy_flop_j": k.OUT_FLOP_J,
    "energy_idle_j": k.OUT_IDLE_J,
}


def _estimate(resources: np.ndarray, hop_s: np.ndarray, e: Efficiencies | None, layers: int, overlap: bool) -> np.ndarray:
    """Bound of each resource over its efficiency, plus the floor of the layers; NaN where no efficiencies are stated."""
    if e is None:
        return np.full(resources.shape[:-1], np.nan)
    slowed = resources / np.array([e.compute_frac, e.memory_frac, e.network_frac])
    busy = slowed.max(axis=-1) if overlap else slowed.sum(axis=-1)
    # A decode step passes its layers once: its floor is charged to the line that holds the rest of the step.
    passes = np.array([1.0, 1.0, 0.0, 0.0, 1.0])
    return np.asarray(busy + hop_s / e.network_frac + passes * layers * e.layer_floor_s)


def regime_arrays(s: Scenario) -> dict[str, np.ndarray]:
    """The regimes' results as arrays of five: the fast path under `regimes` [see `regimes` for the columns]."""
    distinct = distinct_experts(s, float(s.prefill_tokens), float(s.new_tokens), float(s.batch))
    raw = evaluate_points(s, point(s)[None], distinct[None])[0]
    fits = stage_memory(s).fits
    result = columns(raw, fits, s.efficiencies, s.model.n_layers, s.overlap)
    result["fits"] = np.full(k.N_REGIMES, fits)
    return result


def regimes(scenario: Scenario) -> pd.DataFrame:
    """Work, traffic, bound and joules of the four regimes, and of the weights decode shares between requests.

    One row per regime: prefill, midfill, decode_attention, decode_experts, decode_shared; the three decode lines add up
    to the decode step. Totals of one step of one group over the whole model; `roofline_s` is that step's latency bound.
    Columns (units in `data/quantities.csv`): flops and its attention core, bytes and its parts, network_bytes, intensity
    and ridge, seconds of each resource, roofline_s (a bound), estimate_s (NaN without efficiencies), bound, the share of
    the bound each resource is busy, energy_j and its parts, fits. Seconds are NaN where the scenario does not fit.

    scenario: frozen inputs, validated.
    """
    result = regime_arrays(scenario)
    index = result.pop("bound_index")
    frame = pd.DataFrame(result, index=pd.Index(REGIMES, name="regime"))
    frame.insert(list(result).index("roofline_s") + 1, "bound", [BOUNDS[i] for i in index])
    return frame
