"""Times one planner in its own environment; imports nothing of this project: `python peer_program.py NAME < points.json`.

Points are pairs of batch and context.
Prints JSON: seconds of the set-up (import and first call), seconds per point, and the decode step of one point.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

Step = Callable[[int, int], float]
"""Batch, context -> seconds of a decode step."""
BUDGET_S = 8.0


def aiconfigurator(model: str, machine: str, **layout: int) -> Step:
    """A compiled engine over measured kernels."""
    from aiconfigurator_core.sdk import EngineHandle  # type: ignore[import-not-found]  # installed in its own environment

    engine = EngineHandle.compile(model, machine, "trtllm", **layout)
    return lambda batch, context: float(engine.predict_decode_latency(batch, context, 2)) / 1e3


def llm_analysis() -> Step:
    """Its own Llama-2-70B: it takes no FFN whose width is not a multiple of the hidden width."""
    from llm_analysis import analysis, config  # type: ignore[import-not-found]  # installed in its own environment

    model = config.get_model_config_by_name("upstage_Llama-2-70b-instruct-v2")
    model.max_seq_len = 131_072
    gpu, formats = config.get_gpu_config_by_name("h100-sxm-80gb"), config.get_dtype_config_by_name("w16a16e16")
    layout = config.ParallelismConfig(tp_size=8, pp_size=1, sp_size=8, dp_size=1)
    one = analysis.LLMAnalysis(model, gpu, formats, layout, flops_efficiency=1.0, hbm_memory_efficiency=1.0)

    def step(batch: int, context: int) -> float:
        return float(one.inference(batch_size_per_gpu=batch, seq_len=context, num_tokens_to_generate=1)["decode_latency"])

    return step


def genz() -> Step:
    """Operators' rooflines and collectives of one decode step."""
    from GenZ import decode_moddeling  # type: ignore[import-not-found]  # installed in its own environment

    fixed = {"model": "meta-llama/Llama-3.1-70B", "output_tokens": 1, "Bb": 1, "system_name": "H100_GPU", "bits": "bf16"}

    def step(batch: int, context: int) -> float:
        return float(decode_moddeling(**fixed, batch_size=batch, input_tokens=context, tensor_parallel=8)["Latency"]) / 1e3

    return step


PEERS: dict[str, tuple[str, Callable[[], Step]]] = {
    "aiconfigurator-core": ("aiconfigurator-core", lambda: aiconfigurator("meta-llama/Meta-Llama-3.1-70B", "h100_sxm", tp_size=8)),
    "aiconfigurator-core, DeepSeek-V3": (
        "aiconfigurator-core",
        lambda: aiconfigurator("deepseek-ai/DeepSeek-V3", "h200_sxm", tp_size=8, moe_tp_size=1, moe_ep_size=8),
    ),
    "llm-analysis": ("llm-analysis", llm_analysis),
    "genz-llm": ("genz-llm", genz),
}


def timed(step: Step, points: list[list[int]]) -> tuple[float, int]:
    """(seconds per point, points): as many as fit the budget, best of the passes, contexts moved on so that nothing is remembered."""
    start, best, shift = time.perf_counter(), float("inf"), 0
    chosen = points
    begin = time.perf_counter()
    step(*points[1])
    once = time.perf_counter() - begin
    if once * len(points) > BUDGET_S / 3:
        chosen = points[:: max(1, int(once * len(points) / (BUDGET_S / 3)))]
    while time.perf_counter() - start < BUDGET_S:
        shift += 1
        begin = time.perf_counter()
        for batch, context in chosen:
            step(batch, context + shift)
        best = min(best, (time.perf_counter() - begin) / len(chosen))
    return best, len(chosen)


def main(name: str) -> None:
    """Measure one planner and print."""
    package, make = PEERS[name]
    given: dict[str, Any] = json.load(sys.stdin)
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    with contextlib.redirect_stdout(sys.stderr):
        start = time.perf_counter()
        step = make()
        step(*given["points"][0])
        ready = time.perf_counter()
        point_s, count = timed(step, given["points"])
        step_s = step(*given["shown"])
    result = {"version": version(package), "setup_s": ready - start, "point_s": point_s, "points": count}
    print(json.dumps(result | {"step_s": step_s}))


if __name__ == "__main__":
    main(sys.argv[1])
