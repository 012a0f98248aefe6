"""Measured kernels as work: seconds each resource needs at its peak, beside what was measured.

One row is one kernel on one accelerator. `core_*` is the work the regime is about, `rest_*` the projections a measured module holds
beside it, `token_s` the arithmetic that one more token would cost in every expert that is awake. FLOPs and bytes are those of
`physics.layers` and `physics.attention`; the routing is followed as it was run (`collector`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from physics.attention import causal_pairs, chosen_entries_read, seen_pairs
from physics.calibration.collector import Load, measured_load
from physics.catalog import load_machine, load_model, models
from physics.formats import ACTIVATION_BYTES, OUTPUT_BYTES, WEIGHT_BYTES, compute_format
from physics.layers import LatentAttention, MoEFFN
from physics.machine import Machine
from physics.recurrent import LinearAttention

FORMATS = {
    "bfloat16": "bf16",
    "fp8": "fp8_tensor",
    "fp8_block": "fp8",
    "fp8_e4m3": "fp8",
    "int4_wo": "int4_g128",
    "nvfp4": "nvfp4",
    "w4a8_mxfp4_mxfp8": "mxfp4",
}
"""Words of the measured files as formats of ours."""
ARITHMETIC = {"int4_g128": "bf16", "mxfp4": "fp8"}
"""What the measured kernels compute in where it is not what the weights would ask for: W4A16 and W4A8."""
COLUMNS = (
    "dataset", "machine", "model", "regime", "format", "label", "tokens", "measured_s", "core_compute_s", "core_memory_s", "token_s",
    "rest_compute_s", "rest_memory_s",
)  # fmt: skip


def machine_of(system: str) -> Machine:
    """The catalog's machine behind a name of the measured files, like "h200_sxm"."""
    return load_machine(system)


def _rate(frame: pd.DataFrame, value: Any) -> Any:
    """A number of each row's machine."""
    found = {system: value(machine_of(system)) for system in frame["system"].unique()}
    return frame["system"].map(found).to_numpy(float)


def peaks(frame: pd.DataFrame, formats: pd.Series) -> Any:
    """Dense peak of each row's machine in each row's format [FLOP/s].

    frame: rows with `system`. formats: the arithmetic of each row.
    """
    pairs = zip(frame["system"], formats, strict=True)
    return np.array([machine_of(system).peak_flops_per_s(compute_format(name)) for system, name in pairs])


def _rows(frame: pd.DataFrame, dataset: str, **columns: Any) -> pd.DataFrame:
    """The columns of COLUMNS and the bound: the longest of all arithmetic and all traffic."""
    machines = {system: machine_of(system).name for system in frame["system"].unique()}
    filled = {"token_s": 0.0, "rest_compute_s": 0.0, "rest_memory_s": 0.0} | columns
    rows = pd.DataFrame({name: filled[name] for name in COLUMNS if name in filled}, index=frame.index)
    rows = rows.assign(dataset=dataset, machine=frame["system"].map(machines), measured_s=frame["latency_ms"] / 1e3)
    compute, memory = rows["core_compute_s"] + rows["rest_compute_s"], rows["core_memory_s"] + rows["rest_memory_s"]
    return rows[list(COLUMNS)].assign(bound_s=np.maximum(compute, memory)).reset_index(drop=True)


# ---------------------------------------------------------------- experts


@lru_cache
def _moe_shapes() -> dict[tuple[int, int, int, int], tuple[str, MoEFFN]]:
    """(input width, width, top-k, experts) -> (model, layer), the first of the catalog."""
    shapes: dict[tuple[int, int, int, int], tuple[str, MoEFFN]] = {}
    for name in models():
        model = load_model(name)
        for _, moe in model.moe_groups:
            shapes.setdefault((moe.expert_input_width(model.hidden), moe.width, moe.top_k, moe.n_experts), (name, moe))
    return shapes


def _shape(row: Any) -> tuple[str, MoEFFN]:
    key = (row.hidden_size, row.inter_size, row.topk, row.num_experts)
    unknown = MoEFFN(row.num_experts, row.topk, row.inter_size)
    return _moe_shapes().get(key, ("x".join(map(str, key)), unknown))


def expert_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows of `expert_kernels`: one MoE layer on one rank, routed as the benchmark routes.

    frame: the file as it is.
    """
    by = ["num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_ep_size", "distribution"]
    cases = frame[by].drop_duplicates()
    loads = [_load(row) for row in cases.itertuples()]
    cases = cases.assign(distinct=[load.distinct for load in loads], assignments=[load.assignments for load in loads])
    full = frame.merge(cases, on=by, how="left")
    words = full["distribution"] + ", EP" + full["moe_ep_size"].astype(str) + " TP" + full["moe_tp_size"].astype(str)
    return _expert_work(full, "expert_kernels", words)


def _load(row: Any) -> Load:
    _, moe = _shape(row)
    groups = (moe.n_groups, moe.top_groups) if moe.n_groups > 1 else None
    return measured_load(row.num_tokens, row.num_experts, row.topk, row.moe_ep_size, row.distribution, groups)


def wide_expert_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows of `wide_ep_expert_kernels`, where the load of the timed rank can be told from the tokens that reach it.

    A share h of tokens reaches the rank: h = 1 - (1 - p)^k, so T k p assignments; experts of the rank are taken as equally likely.
    frame: the file as it is; rows where (almost) every token reaches the rank say nothing of p and are left out.
    """
    known = frame[frame["rank0_num_tokens"] <= 0.95 * frame["num_tokens"]].reset_index(drop=True)
    reached = known["rank0_num_tokens"] / known["num_tokens"]
    assignments = known["num_tokens"] * known["topk"] * (1.0 - (1.0 - reached) ** (1.0 / known["topk"]))
    local = known["num_slots"] / known["moe_ep_size"]
    distinct = np.where(local > 1.0, local * -np.expm1(assignments * np.log1p(-1.0 / np.maximum(local, 1.0 + 1e-9))), 1.0)
    words = known["distribution"] + ", EP" + known["moe_ep_size"].astype(str) + ", " + known["num_slots"].astype(str) + " slots"
    return _expert_work(known.assign(distinct=np.maximum(distinct, 1.0), assignments=assignments), "wide_ep_expert_kernels", words)


def _expert_work(full: pd.DataFrame, dataset: str, words: pd.Series) -> pd.DataFrame:
    shapes = [_shape(row) for row in full.itertuples()]
    params = np.array([moe.matrices for _, moe in shapes]) * full["hidden_size"] * full["inter_size"] / full["moe_tp_size"]
    formats = full["moe_dtype"].map(FORMATS)
    arithmetic = formats.map(lambda name: ARITHMETIC.get(name, compute_format(name)))
    moved = full["hidden_size"] * (arithmetic.map(ACTIVATION_BYTES) + OUTPUT_BYTES)
    bandwidth, peak = _rate(full, lambda m: m.memory_bytes_per_s), peaks(full, arithmetic)
    return _rows(
        full,
        dataset,
        model=[name for name, _ in shapes],
        regime="experts" if dataset == "expert_kernels" else "wide experts",
        format=formats,
        label=full["num_tokens"].astype(str) + " tokens, " + words,
        tokens=full["num_tokens"],
        core_compute_s=2.0 * full["assignments"] * params / peak,
        core_memory_s=(full["distinct"] * params * formats.map(WEIGHT_BYTES) + full["assignments"] * moved) / bandwidth,
        token_s=2.0 * full["distinct"] * params / peak,
    )


# ---------------------------------------------------------------- attention


def mla_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows of `mla_kernels`: one attention module of DeepSeek-V3, projections included, with some of its heads.

    frame: the file as it is.
    """
    new, prefix, batch, heads = (frame[name].to_numpy(float) for name in ("isl", "step", "batch_size", "num_heads"))
    flops, size, projections, up = (np.empty(len(frame)) for _ in range(4))
    for key, at in frame.groupby(["num_heads", "kv_cache_dtype"]).indices.items():
        count, cache = str(key[0]), str(key[1])  # type: ignore[index]
        layer = _heads("DeepSeek-V3", int(count))
        scan = layer.scans(FORMATS[cache].removesuffix("_tensor"))[0]
        pairs = causal_pairs(new[at], prefix[at])
        expanded = pairs * scan.expanded_flops_per_pair + prefix[at] * scan.up_projection_flops
        flops[at] = batch[at] * np.minimum(pairs * scan.flops_per_pair, expanded)
        size[at] = batch[at] * (prefix[at] + new[at]) * scan.bytes_per_entry
        up[at] = layer.up_projection_params()
        projections[at] = layer.n_params(load_model("DeepSeek-V3").hidden) - up[at]
    bandwidth, tokens = _rate(frame, lambda m: m.memory_bytes_per_s), new * batch
    weights, core = frame["gemm_type"].map(FORMATS), frame["mla_dtype"].map(FORMATS)
    words = frame["isl"].astype(str) + " new on " + frame["step"].astype(str) + ", batch " + frame["batch_size"].astype(str)
    return _rows(
        frame,
        "mla_kernels",
        model=np.char.add(heads.astype(int).astype(str), " heads"),
        regime=np.where(frame["op_name"] == "mla_generation_module", "MLA decode", "MLA prefill"),
        format=weights,
        label=words + ", KV " + frame["kv_cache_dtype"] + ", attention " + frame["mla_dtype"],
        tokens=tokens,
        core_compute_s=flops / peaks(frame, core),
        core_memory_s=size / bandwidth,
        rest_compute_s=2.0 * tokens * (projections / peaks(frame, weights) + up / _rate(frame, lambda m: m.peak_flops_per_s("bf16"))),
        rest_memory_s=(projections * weights.map(WEIGHT_BYTES) + up * WEIGHT_BYTES["bf16"]) / bandwidth,
    )


@lru_cache
def _heads(model: str, count: int) -> LatentAttention:
    """Latent attention of a model with another number of heads: what one rank of tensor parallelism holds."""
    found = next(group.attention for group in load_model(model).groups if isinstance(group.attention, LatentAttention))
    return replace(found, n_heads=int(count))


def sparse_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows of `glm52_sparse_kernels` with modelled work: the indexer's scores, and the attention over chosen entries.

    frame: the file as it is; the selection of the top k, which no bound of ours describes, is left out.
    """
    known = frame[frame["op_name"] != "glm5_topk_module"].reset_index(drop=True)
    layers = [group.attention for group in load_model("GLM-5.2").groups if isinstance(group.attention, LatentAttention)]
    layer = next(one for one in layers if one.index_heads)
    index, core = layer.scans("bf16")
    index_bytes = layer.scans("fp8_ds_mla")[0].bytes_per_entry
    new, prefix, batch = (known[name].to_numpy(float) for name in ("isl", "step", "batch_size"))
    is_index = (known["op_name"] == "glm5_mqa_logits_module").to_numpy()
    pairs = np.where(is_index, causal_pairs(new, prefix), seen_pairs(new, prefix, 1.0, core.limit))
    flops = batch * pairs * np.where(is_index, index.flops_per_pair, core.flops_per_pair)
    with np.errstate(divide="ignore"):
        read = chosen_entries_read(new, prefix, core.limit)
    size = batch * np.where(is_index, (prefix + new) * index_bytes, (read + new) * core.bytes_per_entry)
    words = known["isl"].astype(str) + " new on " + known["step"].astype(str) + ", batch " + known["batch_size"].astype(str)
    phase = np.select([prefix == 0, new == 1], ["prefill", "decode"], "midfill")
    return _rows(
        known,
        "glm52_sparse_kernels",
        model=known["model"].map(lambda path: "GLM-5.2" if "5.2" in path else "GLM-5"),
        regime=np.char.add(np.where(is_index, "indexer ", "sparse attention "), phase),
        format=np.where(is_index, "fp8", "bf16"),
        label=words,
        tokens=new * batch,
        core_compute_s=flops / np.where(is_index, _rate(known, lambda m: m.peaks["fp8"]), _rate(known, lambda m: m.peaks["bf16"])),
        core_memory_s=size / _rate(known, lambda m: m.memory_bytes_per_s),
    )


def kda_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows of `kda_kernels` that run the recurrence of Kimi-K3, with some of its heads.

    frame: the file as it is; convolutions and verification of drafts are left out.
    """
    convolution = frame["kernel_source"].str.startswith("causal_conv1d")
    known = frame[~convolution & frame["phase"].isin(["context", "generation"])].reset_index(drop=True)
    found = next(g.attention for g in load_model("Kimi-K3").groups if isinstance(g.attention, LinearAttention))
    layers = {int(n): replace(found, n_k_heads=int(n), n_v_heads=int(n), conv_kernel=0) for n in known["num_v_heads"].unique()}
    state = known["num_v_heads"].map({n: layer.state_bytes() for n, layer in layers.items()})
    flops = known["num_tokens"] * known["num_v_heads"].map({n: layer.token_flops() for n, layer in layers.items()})
    decode = (known["phase"] == "generation").to_numpy()
    return _rows(
        known,
        "kda_kernels",
        model=known["num_v_heads"].astype(str) + " heads",
        regime=np.where(decode, "KDA decode", "KDA prefill"),
        format="bf16",
        label=known["seq_len"].astype(str) + " new, batch " + known["batch_size"].astype(str) + ", " + known["kernel_source"],
        tokens=known["num_tokens"],
        core_compute_s=flops / _rate(known, lambda m: m.peak_flops_per_s("bf16")),
        core_memory_s=known["batch_size"] * state * np.where(decode, 2.0, 1.0) / _rate(known, lambda m: m.memory_bytes_per_s),
    )
