"""The sliders that are axes too: their ends and units, what can be drawn against them, and where it is sampled."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

import physics

AXES: Mapping[str, tuple[float, float, str]] = {
    "context_tokens": (1e3, 1e7, "tokens"),
    "batch": (1, 4096, "requests"),
    "kv_bytes_per_token": (1e3, 4e6, "B/token"),
    "pipeline_depth": (1, 64, "stages"),
    "new_tokens": (1, 1e5, "tokens"),
    "gpus_per_stage": (1, 1024, "GPUs"),
}
"""Sliders and crossover axes: ends and unit."""

QUANTITIES: Mapping[str, str] = {
    "bytes": "B",
    "roofline_s": "s",
    "flops": "FLOP",
    "intensity_flops_per_byte": "FLOP/B",
    "energy_j": "J",
}
"""What the crossover plot can show, with units."""

SAMPLES = 129
DEPTHS = np.unique(np.geomspace(1, 64, 49).round())


def depth_values(scenario: physics.Scenario) -> np.ndarray:
    """Depths a page shows: whole numbers up to 64 or the number of layers, always of one length (the last repeats)."""
    return np.minimum(DEPTHS, scenario.model.n_layers)


def axis_values(axis: str, scenario: physics.Scenario) -> np.ndarray:
    """Samples of an axis, evenly spaced in the logarithm, within what the scenario's model and machine allow."""
    low, high, _ = AXES[axis]
    if axis == "pipeline_depth":
        high = min(high, scenario.model.n_layers)
    if axis == "gpus_per_stage" and not scenario.machine.scale_out_bytes_per_s > 0:
        high = min(high, scenario.machine.scale_up_domain)
    values = np.geomspace(low, max(high, low + 1e-6), SAMPLES)
    values[0], values[-1] = low, high
    return values
