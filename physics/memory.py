"""What one pipeline stage holds in memory, and whether it fits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from physics.formats import OUTPUT_BYTES
from physics.layers import READ_CHUNK, READ_RECENT
from physics.scenario import Scenario


@dataclass(frozen=True)
class StageMemory:
    """Bytes of one stage of a full pipe [B]; also readable by key, as in `memory["weights"]`.

    weights: this stage's share of the weights [B].
    kv: cache, windows and state of all groups in the pipe, this stage's layers [B].
    buffers: activations received and sent, one chunk each [B].
    margin: kept free on purpose [B].
    total: all of them [B].
    capacity: memory of the stage's accelerators [B].
    fits: whether total is at most capacity.
    min_gpus: accelerators per stage needed for everything but the margin share to fit [1].
    """

    weights: float
    kv: float
    buffers: float
    margin: float
    total: float
    capacity: float
    fits: bool
    min_gpus: int

    def __getitem__(self, name: str) -> Any:
        if name not in self.__dataclass_fields__:
            raise KeyError(f"{name!r} is not one of {', '.join(self.__dataclass_fields__)}")
        return getattr(self, name)

    def keys(self) -> tuple[str, ...]:
        """Names of the parts, so that dict(memory) works."""
        return tuple(self.__dataclass_fields__)


def kv_copies(scenario: Scenario, shards: int) -> float:
    """Copies of a cache entry a stage holds: 1 with data-parallel attention; latents and few heads repeat under tensor [1].

    shards: accelerators that can split the entry by heads [1].
    """
    if scenario.attention_parallel == "data":
        return 1.0
    return scenario.gpus_per_stage / min(scenario.gpus_per_stage, shards)


def kv_request_bytes(scenario: Scenario, context_tokens: Any) -> Any:
    """Cache, windows and state of one request at a context, all layers [B].

    context_tokens: tokens held, scalar or array [token].
    """
    context = np.asarray(context_tokens, float)
    held = np.full(context.shape, scenario.model.state_bytes())
    for layers, scan in scenario.model.scans(scenario.kv_dtype):
        kept = np.minimum(context, scan.limit) if scan.read in (READ_RECENT, READ_CHUNK) else context / scan.stride
        held = held + layers * scan.bytes_per_entry * scenario.kv_scale * kv_copies(scenario, scan.shards) * kept
    return held


def memory_parts(scenario: Scenario, **axes: Any) -> dict[str, Any]:
    """Parts of a stage's memory with arrays in place of some numeric fields; arrays broadcast [B].

    axes: context_tokens, batch, new_tokens, pipeline_depth, gpus_per_stage or kv_bytes_per_token as scalars or arrays.
    """
    s = scenario

    def value(name: str) -> Any:
        return np.asarray(axes.get(name, getattr(s, name)), float)

    kv = kv_request_bytes(s, value("context_tokens"))
    if axes.get("kv_bytes_per_token") is not None:
        kv_fixed = s.model.state_bytes()
        kv = kv_fixed + (kv - kv_fixed) * value("kv_bytes_per_token") / s.kv_token_bytes
    in_flight = np.minimum(value("batch") * value("new_tokens"), s.chunk_tokens)
    capacity = s.machine.memory_bytes * value("gpus_per_stage")
    parts = {
        "weights": s.model.weight_bytes(s.weight_dtype) / value("pipeline_depth"),
        "kv": value("batch") * kv * (2.0 if s.double_buffered else 1.0),
        "buffers": 2.0 * in_flight * s.model.hidden * OUTPUT_BYTES,
        "margin": s.memory_margin_frac * capacity,
    }
    parts["total"] = parts["weights"] + parts["kv"] + parts["buffers"] + parts["margin"]
    parts["capacity"] = capacity
    return parts


def stage_memory(scenario: Scenario) -> StageMemory:
    """Memory of one stage in a full pipe.

    Weights W/P; KV of `batch` requests at full context whatever P, since a full pipe holds P groups and a stage has 1/P
    of their layers; buffers for one chunk in and one out.
    """
    parts = {name: float(amount) for name, amount in memory_parts(scenario).items()}
    usable = scenario.machine.memory_bytes * (1.0 - scenario.memory_margin_frac)
    needed = parts["weights"] + parts["kv"] + parts["buffers"]
    return StageMemory(**parts, fits=bool(parts["total"] <= parts["capacity"]), min_gpus=math.ceil(needed / usable))
