"""Speed of one scenario and of a sweep, as ratios measured in one run: `python -m benchmarks.regimes`.

The twin is the same source without compilation (NUMBA_DISABLE_JIT=1) in a process of its own, so nothing but the compiler differs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import physics


def opening_scenario() -> physics.Scenario:
    """What the explorer opens on: DeepSeek-V3 on 16 H200 per stage."""
    return physics.Scenario(
        model=physics.load_model("DeepSeek-V3"),
        machine=physics.load_machine("H200"),
        context_tokens=131_072,
        batch=64,
        new_tokens=1_000,
        gpus_per_stage=16,
    )


def best_s(work: Callable[[], Any], at_least_s: float = 1.0) -> float:
    """Shortest of the runs that fit into a second or so, after one to warm up [s]."""
    work()
    best, end = float("inf"), time.perf_counter() + at_least_s
    while time.perf_counter() < end:
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def sweep_point_s(scenario: physics.Scenario, per_axis: int, frame: bool = False) -> float:
    """Seconds per point, all regimes, of a square grid of context against batch [s]."""
    context, batch = np.geomspace(1_024, 1e6, per_axis), np.geomspace(1, 1_024, per_axis)
    run: Callable[..., Any] = physics.sweep if frame else physics.sweep_arrays
    return best_s(lambda: run(scenario, context_tokens=context, batch=batch)) / per_axis**2


def twin_point_s() -> float:
    """Seconds per point of the same sweep in a process that compiles nothing [s]."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-m", "benchmarks.regimes", "--twin"]
    return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def report(per_axis: int) -> None:
    """Print one line per measurement: time, and the ratio to the line it is compared with."""
    scenario = opening_scenario()
    scalar_s = best_s(lambda: physics.regimes(scenario))
    swept_s = sweep_point_s(scenario, per_axis)
    framed_s = sweep_point_s(scenario, max(per_axis // 4, 2), frame=True)
    plain_s = twin_point_s()
    print(f"regimes(scenario)          {scalar_s * 1e3:10.3f} ms")
    rate = f"{1 / swept_s / 1e6:.2f} million points/s, all regimes, {os.cpu_count()} cores"
    print(f"sweep_arrays, per point    {swept_s * 1e6:10.3f} µs   {rate}")
    print(f"sweep (frame), per point   {framed_s * 1e6:10.3f} µs   {framed_s / swept_s:8.1f} × sweep_arrays")
    print(f"regimes(), per point       {scalar_s * 1e6:10.3f} µs   {scalar_s / swept_s:8.1f} × sweep_arrays")
    print(f"not compiled, per point    {plain_s * 1e6:10.3f} µs   {plain_s / swept_s:8.1f} × sweep_arrays")


def main() -> None:
    """Measure and print, or, as the twin, print seconds per point alone."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.regimes", description=__doc__)
    parser.add_argument("--per-axis", type=int, default=1_000, help="points on each of the two axes")
    parser.add_argument("--twin", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.twin:
        print(sweep_point_s(opening_scenario(), 20))
    else:
        report(arguments.per_axis)


if __name__ == "__main__":
    main()
