"""Speed of routing against the limits it was built for, as ratios in one run: `python -m benchmarks.routing`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import physics
from benchmarks.regimes import best_s, opening_scenario
from physics import OverlapLaw, Routing, inclusion, stragglers

LIMIT_S = {"inclusion, 896/16": 5e-3, "stragglers, both": 20e-3}


def sweep_s(routing: Routing, per_axis: int = 1_000) -> float:
    """Seconds of a square grid of context against batch, a million points by default [s]."""
    scenario = opening_scenario().replace(routing=routing)
    context, batch = np.geomspace(1_024, 1e6, per_axis), np.geomspace(1, 1_024, per_axis)
    return best_s(lambda: physics.sweep_arrays(scenario, context_tokens=context, batch=batch))


def both_stragglers(gpus: int, slots: int, tokens: float) -> Callable[[], Any]:
    """Replicated placement and both expected maxima of DeepSeek-V3's experts."""
    pi = physics.inclusion_probabilities(inclusion.lognormal_weights(256, 1.1), 8)

    def run() -> None:
        placement = stragglers.replicated_placement(pi, gpus, slots)
        stragglers.expected_max_tokens(pi, placement, tokens)
        stragglers.expected_max_distinct_experts(pi, placement, tokens)

    return run


def main() -> None:
    """Print one line per measurement: time, and the ratio to its limit or to the line it is compared with."""
    weights = inclusion.lognormal_weights(896, 1.1)
    # The uncached computation: the public function keeps its result.
    anew_s = best_s(lambda: inclusion._router_inclusion(weights, 16))
    kept_s = best_s(lambda: physics.inclusion_probabilities(weights, 16))
    print(f"inclusion, 896/16          {anew_s * 1e3:10.3f} ms   {anew_s / LIMIT_S['inclusion, 896/16']:8.2f} × its limit")
    print(f"the same, asked again      {kept_s * 1e6:10.1f} µs   {kept_s / anew_s:8.4f} × the first")
    plain_s = sweep_s(Routing.uniform())
    for name, routing in {
        "uniform": Routing.uniform(),
        "skewed": Routing.skewed(sigma=1.1),
        "skewed, law": Routing.skewed(sigma=1.1, overlap=OverlapLaw()),
    }.items():
        slider_s = best_s(lambda routing=routing: routing.distinct_experts(896, 16, 64.0, 1_000.0))  # type: ignore[misc]
        swept_s = sweep_s(routing)
        print(f"distinct experts, {name:11} {slider_s * 1e6:7.1f} µs   sweep of 1e6 points {swept_s / plain_s:8.2f} × uniform")
    for gpus, slots, tokens in ((8, 256, 64.0), (72, 288, 4_096.0), (72, 288, 1e6), (256, 512, 1e5)):
        both_s = best_s(both_stragglers(gpus, slots, tokens))
        label = f"{gpus} GPUs, {slots} slots, {tokens:.0f}"
        print(f"stragglers {label:26} {both_s * 1e3:6.2f} ms   {both_s / LIMIT_S['stragglers, both']:8.2f} × its limit")


if __name__ == "__main__":
    main()
