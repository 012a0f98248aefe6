"""Measured serving runs as scenarios: what a decode step and the prefill of one prompt ask of each resource.

Aggregated runs only, where one group of accelerators does both. The files do not say the format of the cache (taken as FP8 where the
weights are quantised), how lengths were drawn (taken as fixed), nor drafts (taken as none).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from physics.calibration.forms import STACKS
from physics.calibration.kernel_rows import machine_of
from physics.catalog import load_model
from physics.efficiency import PARTS
from physics.formats import WeightFormats
from physics.model import Model
from physics.regimes import REGIMES, part_seconds, regime_arrays
from physics.scenario import Scenario

LARGEST = 8
"""Most accelerators of a run that is mapped: runs labelled larger repeat the times of smaller ones, so their label is in doubt."""
ALIASES = {
    "Qwen/Qwen3-235B-A22B-FP8": "Qwen3-235B-A22B",
    "nvidia/DeepSeek-R1-NVFP4": "DeepSeek-R1",
    "nvidia/DeepSeek-V3.1-NVFP4": "DeepSeek-V3",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "Llama-3.1-8B",
    "zhipuai/GLM-5": "GLM-5",
}
FAMILY_OF_MODEL = {"DeepSeek-R1": "DeepSeek-V3"}
"""Models of one shape are one model when models are left out."""
PHASES = {"prefill": 0, "decode": 2}


def reasons(frame: pd.DataFrame) -> pd.Series:
    """Why a run is not mapped, empty where it is.

    frame: the file `serving_runs` as it is.
    """
    gpus = _gpus(frame)
    same = ["model_path", "system", "isl", "osl", "concurrency", "ttft_ms", "tpot_ms"]
    repeated = frame.assign(gpus=gpus, row=range(len(frame))).sort_values(["gpus", "row"]).duplicated(same).sort_index()
    incomplete = frame[["isl", "osl", "concurrency", "ttft_ms", "tpot_ms"]].isna().any(axis=1)
    reason = pd.Series("", index=frame.index)
    reason[gpus > LARGEST] = "labelled larger than eight accelerators, like rows that repeat smaller runs"
    reason[repeated] = "repeats the times of another row under another label"
    reason[incomplete] = "no length or concurrency stated"
    reason[frame["mode"] != "agg"] = "prefill and decode on separate accelerators"
    return reason


def _gpus(frame: pd.DataFrame) -> pd.Series:
    tensor, data = frame["tp_size"].fillna(1), frame["attention_dp_size"].fillna(1).clip(lower=1)
    return tensor * data.where(data != tensor, 1)


def served_model(path: str, precision: str) -> Model:
    """The catalog's model with its weights in the precision it was served in.

    path: name on the hub. precision: "bf16", "fp8" or "fp4".
    """
    model = load_model(ALIASES.get(path, path))
    if precision == "fp8":
        return model.replace(formats=WeightFormats(attention="fp8", dense="fp8", shared="fp8", routed="fp8"))
    if precision == "fp4":
        latent = model.name.startswith(("DeepSeek", "GLM"))  # their 4-bit checkpoints keep attention in BF16
        return model.replace(formats=WeightFormats(attention="bf16" if latent else "nvfp4", dense="nvfp4", shared="nvfp4", routed="nvfp4"))
    return model.replace(formats=WeightFormats())


def _scenario(row: Any) -> Scenario:
    return Scenario(
        model=served_model(row.model_path, row.precision),
        machine=machine_of(row.system),
        context_tokens=int(row.isl + row.osl / 2),
        batch=int(row.concurrency),
        prompt_tokens=int(row.isl),
        gpus_per_stage=int(row.gpus),
        kv_dtype="bf16" if row.precision == "bf16" else "fp8",
        attention_parallel="tensor" if row.gpus > 1 and not row.attention_dp_size > 1 else "data",
    )


def _work(scenario: Scenario) -> dict[str, float]:
    """Seconds of each part and resource of a decode step and of one prompt's prefill, and their bounds."""
    one = scenario.replace(batch=1)
    parts = {"decode": part_seconds(scenario)[PHASES["decode"]], "prefill": part_seconds(one)[PHASES["prefill"]]}
    work = {
        f"{phase}_{part}_{name}": float(seconds[i, j])
        for phase, seconds in parts.items()
        for i, part in enumerate(PARTS)
        for j, name in enumerate(("compute_s", "memory_s", "network_s", "token_s"))
    }
    # The bound does not depend on whether the cache fits: more memory at the same bandwidth.
    roomy = {"machine": scenario.machine.replace(memory_bytes=1e15)}
    decode = regime_arrays(scenario.replace(**roomy))["roofline_s"][2:].sum()
    prefill = regime_arrays(one.replace(**roomy))["roofline_s"][REGIMES.index("prefill")]
    networks = {f"{phase}_network_s": sum(work[f"{phase}_{part}_network_s"] for part in PARTS) for phase in PHASES}
    return work | networks | {"decode_bound_s": float(decode), "prefill_bound_s": float(prefill)}


def serving_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Mapped runs, twice each: TPOT and TTFT by `is_ttft`, with what `forms.serving_seconds` reads, kernels apart.

    frame: the file `serving_runs` as it is.
    """
    known = frame[reasons(frame) == ""].reset_index(drop=True)
    known = known.assign(precision=known["precision"].fillna("bf16"), gpus=_gpus(known))
    scenarios = [_scenario(row) for row in known.itertuples()]
    work = pd.DataFrame([_work(s) for s in scenarios])
    words = known["isl"].astype(int).astype(str) + "/" + known["osl"].astype(int).astype(str) + ", concurrency "
    words = (
        words + known["concurrency"].astype(int).astype(str) + ", " + known["gpus"].astype(int).astype(str) + " GPUs, " + known["backend"]
    )
    names = [s.model.name for s in scenarios]
    both = work.assign(
        dataset="serving_runs", machine=[s.machine.name for s in scenarios], model=[FAMILY_OF_MODEL.get(name, name) for name in names],
        format=[s.model.formats.routed for s in scenarios], label=words, concurrency=known["concurrency"].astype(float),
        output_tokens=known["osl"].astype(float), layers=[float(s.model.n_layers) for s in scenarios], is_split=known["gpus"] > 1,
        stack=known["backend"].map(STACKS.index),
    )  # fmt: skip
    tpot = both.assign(is_ttft=False, regime="TPOT", measured_s=known["tpot_ms"] / 1e3, bound_s=both["decode_bound_s"])
    ttft = both.assign(is_ttft=True, regime="TTFT", measured_s=known["ttft_ms"] / 1e3, bound_s=both["prefill_bound_s"])
    return pd.concat([tpot, ttft], ignore_index=True)


def with_kernels(rows: pd.DataFrame, lookup: Any) -> pd.DataFrame:
    """The rows with seconds of attention and experts at their kernels' efficiencies, floors apart.

    rows: of `serving_rows`. lookup: (machine, part, phase, format) -> parameters by name.
    """
    out = {phase: np.empty(len(rows)) for phase in PHASES}
    for key, at in rows.groupby(["machine", "format"]).indices.items():
        machine, weights = str(key[0]), str(key[1])  # type: ignore[index]
        for phase, seconds in out.items():
            total = np.zeros(len(at))
            for part in ("attention", "experts"):
                e = lookup(machine, part, phase, weights)
                compute, memory, token = (rows[f"{phase}_{part}_{name}"].to_numpy()[at] for name in ("compute_s", "memory_s", "token_s"))
                padded = compute + e.get("pad_tokens", 0.0) * token
                total += np.maximum(padded / e["compute_frac"], memory / e["memory_frac"])
            seconds[at] = total
    return rows.assign(**{f"{phase}_kernels_s": seconds for phase, seconds in out.items()})
