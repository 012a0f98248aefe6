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


def best_s(work: Callable[[], Any], at_least_s: float = 1.0, clock: Callable[[], float] = time.perf_counter) -> float:
    """Shortest of the runs that fit into a second or so, after one to warm up [s]."""
    work()
    best, end = float("inf"), time.perf_counter() + at_least_s
    while time.perf_counter() < end:
        start = clock()
        work()
        best = min(best, clock() - start)
    return best


def sweep_point_s(
    scenario: physics.Scenario,
    per_axis: int,
    frame: bool = False,
    columns: str | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Seconds per point, all regimes, of a square grid of context against batch [s]."""
    context, batch = np.geomspace(1_024, 1e6, per_axis), np.geomspace(1, 1_024, per_axis)
    run: Callable[..., Any] = physics.sweep if frame else physics.sweep_arrays
    return best_s(lambda: run(scenario, columns=columns, context_tokens=context, batch=batch), clock=clock) / per_axis**2


def twin_point_s() -> float:
    """Seconds per point of the same sweep in a process that compiles nothing [s]."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-m", "benchmarks.regimes", "--twin"]
    return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def swept(title: str, point_s: float, cpu_s: float, unit_s: float) -> None:
    """Print one sweep: wall time, points per second, and what one core could do alone, which a busy machine does not change."""
    rates = f"{1 / point_s / 1e6:6.2f} million points/s, {1 / cpu_s / 1e6:6.2f} million per second of a core"
    print(f"{title:36}{point_s * 1e6:10.3f} µs {rates} {point_s / unit_s:8.1f} ×")


def report(per_axis: int) -> None:
    """Print one line per measurement: time, points per second, and the ratio to the plain sweep."""
    scenario = opening_scenario()
    scalar_s = best_s(lambda: physics.regimes(scenario))
    unit_s = sweep_point_s(scenario, per_axis)
    print(f"{os.cpu_count()} cores; a point is all regimes; ratios are to the first sweep")
    cases: list[tuple[str, physics.Scenario, str | None]] = [
        ("sweep_arrays, contract's columns", scenario, None),
        ("sweep_arrays, one column", scenario, "bytes"),
        ("sweep_arrays, every column", scenario, "all"),
        ("slowest hybrid: DeepSeek-V4-Flash", scenario.replace(model=physics.load_model("DeepSeek-V4-Flash")), None),
        ("skewed routing", scenario.replace(routing=physics.Routing.skewed(sigma=1.0)), None),
        ("overlap within a request", scenario.replace(routing=physics.Routing.uniform(overlap=0.3)), None),
    ]
    for title, one, columns in cases:
        wall_s, cpu_s = (sweep_point_s(one, per_axis, columns=columns, clock=clock) for clock in (time.perf_counter, time.process_time))
        swept(title, wall_s, cpu_s, unit_s)
    for title, point_s in (
        ("sweep, a frame", sweep_point_s(scenario, max(per_axis // 4, 2), frame=True)),
        ("regimes(), one scenario", scalar_s),
        ("sweep_arrays, not compiled", twin_point_s()),
    ):
        print(f"{title:36}{point_s * 1e6:10.3f} µs {point_s / unit_s:8.1f} ×")


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
