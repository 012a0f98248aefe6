"""What an estimate is made of: parameters with their ranges, and seconds from the work of a row.

Every form is the bound of each resource over an efficiency, the longer of arithmetic and traffic counting, plus floors. The starts
are what such kernels are generally known to reach, and matter only where data says nothing; spreads say how little they bind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from physics.calibration.fit import Form, Parameter

STACKS = ("sglang", "trtllm", "vllm")
"""Serving stacks of the measured runs: what they do between requests and steps is no property of a machine."""


def _fraction(name: str, start: float, spread: float, low: float = 0.02) -> Parameter:
    return Parameter(name, start, spread, low, 1.0)


COMPUTE, MEMORY = _fraction("compute_frac", 0.5, 0.7), _fraction("memory_frac", 0.75, 0.3, 0.1)
FLOOR = Parameter("layer_floor_s", 2e-5, 1.0, 1e-7, 1e-3, "s")


def _core(values: Mapping[str, float], rows: Any) -> Any:
    padded = rows["core_compute_s"] + values.get("pad_tokens", 0.0) * rows["token_s"]
    return np.maximum(padded / values["compute_frac"], rows["core_memory_s"] / values["memory_frac"])


def _kernel_seconds(values: Mapping[str, float], rows: Any) -> Any:
    return _core(values, rows) + values["layer_floor_s"]


def _module_seconds(values: Mapping[str, float], rows: Any) -> Any:
    """A measured attention module: its core, its projections, and the floor of its small kernels."""
    compute, memory = rows["rest_compute_s"] / values["rest_compute_frac"], rows["rest_memory_s"] / values["rest_memory_frac"]
    return _core(values, rows) + np.maximum(compute, memory) + values["layer_floor_s"]


EXPERTS = Form("experts", (COMPUTE, MEMORY, Parameter("pad_tokens", 8.0, 1.0, 0.01, 300.0, "token"), FLOOR), _kernel_seconds)
KERNEL = Form("kernel", (COMPUTE, MEMORY, FLOOR), _kernel_seconds)
MODULE = Form(
    "module",
    (COMPUTE, MEMORY, _fraction("rest_compute_frac", 0.5, 0.7), _fraction("rest_memory_frac", 0.8, 0.2), FLOOR),
    _module_seconds,
)

SERVING_STEP = (
    _fraction("compute_frac", 0.5, 0.3),
    _fraction("memory_frac", 0.75, 0.15, 0.2),
    _fraction("network_frac", 0.4, 0.5),
    Parameter("layer_floor_s", 4e-5, 0.6, 1e-6, 1e-3, "s"),
    Parameter("collective_floor_s", 1.5e-5, 0.6, 1e-6, 1e-3, "s"),
    Parameter("step_s", 1.5e-3, 0.7, 1e-5, 2e-2, "s"),
    Parameter("prefill_layer_floor_s", 1e-4, 0.8, 1e-6, 5e-3, "s"),
)
SERVING_REQUEST = tuple(
    parameter
    for stack in STACKS
    for parameter in (
        Parameter(f"queue_frac_{stack}", 0.1, 0.7, 1e-3, 1.0),
        Parameter(f"request_s_{stack}", 0.1, 0.7, 1e-3, 1.0, "s"),
    )
)


def _step(values: Mapping[str, float], rows: Any, phase: str, floor: str) -> Any:
    """One step: attention and experts at their kernels' efficiencies, the rest at fitted ones, exchange and floors."""
    rest = np.maximum(rows[f"{phase}_rest_compute_s"] / values["compute_frac"], rows[f"{phase}_rest_memory_s"] / values["memory_frac"])
    floors = rows["layers"] * (values[floor] + values["collective_floor_s"] * rows["is_split"]) + values["step_s"]
    return rows[f"{phase}_kernels_s"] + rest + rows[f"{phase}_network_s"] / values["network_frac"] + floors


def serving_seconds(values: Mapping[str, float], rows: Any) -> Any:
    """TPOT or TTFT of a closed loop of requests, by `is_ttft`.

    TPOT = decode step + (c - 1) / osl * prefill: while a request decodes, each of the c - 1 others is prefilled once.
    TTFT = prefill * (1 + q (c - 1)) + r: a share q of the others waits in front, and the stack takes r per request.
    values: parameters by name. rows: columns of `serving_rows`.
    """
    decode = _step(values, rows, "decode", "layer_floor_s")
    prefill = _step(values, rows, "prefill", "prefill_layer_floor_s")
    others, stack = rows["concurrency"] - 1.0, np.asarray(rows["stack"], int)
    queue, request = (np.array([values[f"{name}_{one}"] for one in STACKS])[stack] for name in ("queue_frac", "request_s"))
    return np.where(rows["is_ttft"], prefill * (1.0 + queue * others) + request, decode + others / rows["output_tokens"] * prefill)


SERVING = Form("serving", (*SERVING_STEP, *SERVING_REQUEST), serving_seconds, prior_rows=100.0)


def without_stack(values: Mapping[str, float]) -> dict[str, float]:
    """The same parameters where the stack is not known: each stack's at their geometric mean [as they are].

    values: parameters of SERVING by name.
    """
    means = {name: float(np.exp(np.mean([np.log(values[f"{name}_{one}"]) for one in STACKS]))) for name in ("queue_frac", "request_s")}
    return dict(values) | {f"{name}_{one}": mean for name, mean in means.items() for one in STACKS}
