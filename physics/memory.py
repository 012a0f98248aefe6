"""What one pipeline stage holds in memory, and whether it fits."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

import numpy as np

from physics import kernels as k
from physics.pipeline import cache_copies
from physics.scenario import RANGES, Scenario
from physics.workload import LEAVES, base_point, hardware, workload

PARTS = ("weights", "kv", "buffers", "margin")


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
    min_gpus: accelerators per stage needed for everything to fit, the margin kept free [1].
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
    return float(cache_copies(scenario.gpus_per_stage, shards))


def memory_parts(scenario: Scenario, **axes: Any) -> dict[str, Any]:
    """Parts of a stage's memory with arrays in place of some numeric fields; arrays broadcast [B].

    axes: context_tokens, batch, new_tokens, pipeline_depth, gpus_per_stage or kv_bytes_per_token as scalars or arrays.
    """
    s, work = scenario, workload(scenario)
    given = {name: np.asarray(value, float) for name, value in axes.items()}
    shape = np.broadcast_shapes(*(value.shape for value in given.values()))
    points = np.broadcast_to(base_point(s), (*shape, k.POINT_WIDTH)).copy()
    for name, value in given.items():
        points[..., LEAVES[name]] = value / s.model.kv_bytes_per_token(s.kv_dtype) if name == "kv_bytes_per_token" else value
    held = np.empty((4, points.size // k.POINT_WIDTH))
    k.stages(work.scans, work.totals, hardware(s), points.reshape(-1, k.POINT_WIDTH), held)
    parts: dict[str, Any] = dict(zip(PARTS, held.reshape(4, *shape), strict=True))
    parts["total"] = parts["weights"] + parts["kv"] + parts["buffers"] + parts["margin"]
    parts["capacity"] = s.machine.memory_bytes * points[..., k.POINT_GPUS]
    return parts


def stage_memory(scenario: Scenario) -> StageMemory:
    """Memory of one stage in a full pipe.

    Weights W/P; KV of `batch` requests at full context whatever P, since a full pipe holds P groups and a stage has 1/P
    of their layers; buffers for one chunk in and one out.
    """
    return stage_memory_of(scenario, {name: float(amount) for name, amount in memory_parts(scenario).items()})


def stage_memory_of(scenario: Scenario, parts: dict[str, float]) -> StageMemory:
    """The memory of a stage from parts that are there already, for example of `memory_parts` over a grid.

    scenario: what the parts are of.
    parts: weights, kv, buffers, margin, total and capacity [B].
    """
    return StageMemory(**parts, fits=bool(parts["total"] <= parts["capacity"]), min_gpus=_least_accelerators(scenario, parts))


def _least_accelerators(scenario: Scenario, parts: dict[str, float]) -> int:
    """Accelerators per stage that everything fits on; one more than the largest allowed number where none suffices."""
    if scenario.attention_parallel == "data":
        usable = scenario.machine.memory_bytes * (1.0 - scenario.memory_margin_frac)
        return math.ceil((parts["weights"] + parts["kv"] + parts["buffers"]) / usable)

    def enough(accelerators: int) -> bool:  # copies of the cache grow with the stage, so what is needed does too
        held = memory_parts(scenario, gpus_per_stage=accelerators)
        return bool(held["total"] <= held["capacity"])

    return 1 + bisect_left(range(1, RANGES["gpus_per_stage"][1] + 1), True, key=enough)
