"""A slow, obvious twin of the whole step, written from the design text: layer by layer, token by token, no closed forms.

It shares nothing with the core but the descriptions of models and machines. Where the text leaves room, the reading is said here:

- A window or chunk of w writes min(n, w) entries: it keeps at most w, so what a long step overwrites need not reach the memory.
- A compressed cache writes n/m entries a step (bytes per token times n) and reads the whole entries of the prefix, floor(P/m).
- Block-sparse attention and the 4:1 compressed cache read what their indexer chose, distinct entries counted as for sparse MLA.
- Recurrent state is kept in FP32, the tail of the short convolution (kernel - 1 inputs) in BF16.
- The projections into and out of the narrow width of a latent MoE belong to the shared class.
- Expert traffic is spread evenly: (G-1)/G of it leaves an accelerator. Over several scale-up domains a token crosses once for each other
  domain that holds any of its k experts. Dense layers are split by tensors and reduced; attention too when "tensor" is chosen.
- A reduction runs inside each domain, then among the accelerators of the same place of all domains, each with its share of the vector.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import pytest

import physics
from physics.catalog import models

# Bytes per weight: the published formats with their block scales (design notes, section 0, and the OCP and NVIDIA formats).
BYTES_PER_WEIGHT = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0 + 2.0**-12, "mxfp4": 4.25 / 8.0, "nvfp4": 4.5 / 8.0, "int4_g32": 4.5 / 8.0}
BYTES_PER_ELEMENT = {"bf16": 2.0, "fp8": 1.0}
FORMAT_OF_WEIGHTS = {"bf16": "bf16", "fp16": "fp16", "fp8": "fp8", "mxfp4": "fp4", "nvfp4": "fp4", "int4_g32": "fp4"}
WIDER = {"fp4": "fp8", "fp8": "bf16", "fp16": "bf16"}
ACTIVATION = {"bf16": 2.0, "fp8": 1.0, "fp4": 0.5}


class Entry(NamedTuple):
    """One line of the ledger: which part of the step, what it is, in which tensor class, how much."""

    part: str  # attention, experts, rest
    what: str  # flops, weight, kv, activation, up (bytes over scale-up links), out (scale-out), hop
    tensors: str
    amount: float


class Matrix(NamedTuple):
    tensors: str
    rows: int
    columns: int


@cache
def pairs(new: int, prefix: int, window: int = 0, chunk: int = 0, entry_tokens: int = 1, most: int = 0) -> int:
    """Query-key pairs of one request: every new token looks once at everything it may see."""
    total = 0
    for i in range(1, new + 1):
        position = prefix + i
        seen = position // entry_tokens
        if window:
            seen = min(seen, window)
        if chunk:
            seen = (position - 1) % chunk + 1
        if most:
            seen = min(seen, most)
        total += seen
    return total


def distinct_chosen(new: int, entries: int, most: int) -> float:
    """Entries that at least one new token chose, choices taken as independent."""
    left = 1.0
    for _ in range(new):
        left *= 1.0 - min(1.0, most / entries) if entries else 0.0
    return entries * (1.0 - left)


class Look(NamedTuple):
    """What one layer does for one request: score and value FLOPs, bytes read and written, up-projections of the cached latents."""

    flops: float
    read: float
    written: float
    up_flops: float = 0.0
    copies: float = 1.0


def looks(attention: Any, new: int, prefix: int, kv_dtype: str, gpus: int) -> Iterator[Look]:
    """Looks of one layer; `gpus` share it by tensors (1: each request's cache lies on one accelerator)."""
    element = BYTES_PER_ELEMENT.get(kv_dtype, 0.0)
    if isinstance(attention, physics.GroupedQueryAttention):
        yield from grouped_looks(attention, new, prefix, element, gpus)
    elif isinstance(attention, physics.LatentAttention):
        yield from latent_looks(attention, new, prefix, kv_dtype, gpus)
    elif isinstance(attention, physics.CompressedAttention):
        yield from compressed_looks(attention, new, prefix, kv_dtype, gpus)


def grouped_looks(a: Any, new: int, prefix: int, element: float, gpus: int) -> Iterator[Look]:
    per_pair = 2 * a.n_heads * (a.d_k + a.d_v)
    entry = a.n_kv_heads * (a.d_k + a.d_v) * element
    copies = max(1.0, gpus / a.n_kv_heads)
    if a.chosen_tokens:
        key = a.index_dim * element
        yield Look(pairs(new, prefix) * 2 * a.index_heads * a.index_dim, prefix * key, new * key, copies=gpus)
        read = distinct_chosen(new, prefix, a.chosen_tokens) * entry
        yield Look(pairs(new, prefix, most=a.chosen_tokens) * per_pair, read, new * entry, copies=copies)
    elif a.chunked:
        read, written = prefix % a.window * entry, min(new, a.window) * entry
        yield Look(pairs(new, prefix, chunk=a.window) * per_pair, read, written, copies=copies)
    elif a.window:
        read, written = min(prefix, a.window - 1) * entry, min(new, a.window) * entry
        yield Look(pairs(new, prefix, window=a.window) * per_pair, read, written, copies=copies)
    else:
        yield Look(pairs(new, prefix) * per_pair, prefix * entry, new * entry, copies=copies)


def latent_looks(a: Any, new: int, prefix: int, kv_dtype: str, gpus: int) -> Iterator[Look]:
    if kv_dtype == "fp8_ds_mla":  # FlashMLA: FP8 latent, an FP32 scale for each 128, rotary part in BF16; index keys FP8 with one scale
        entry, key = a.kv_rank + 4 * a.kv_rank // 128 + 2 * a.d_rope, a.index_dim + 4
    else:
        entry, key = (a.kv_rank + a.d_rope) * BYTES_PER_ELEMENT[kv_dtype], a.index_dim * BYTES_PER_ELEMENT[kv_dtype]
    absorbed_pair = 2 * a.n_heads * (2 * a.kv_rank + a.d_rope)
    if a.chosen_tokens:
        if a.index_heads:
            yield Look(pairs(new, prefix) * 2 * a.index_heads * a.index_dim, prefix * key, new * key, copies=gpus)
        read = distinct_chosen(new, prefix, a.chosen_tokens) * entry
        yield Look(pairs(new, prefix, most=a.chosen_tokens) * absorbed_pair, read, new * entry, copies=gpus)
        return
    # Both forms pass the up-projection once per new token (absorbed: on the query and the output); that is with the projections.
    absorbed = pairs(new, prefix) * absorbed_pair
    expanded = pairs(new, prefix) * 2 * a.n_heads * (a.d_nope + a.d_rope + a.d_v)
    up = prefix * 2 * a.kv_rank * a.n_heads * (a.d_nope + a.d_v)
    flops, up_flops = (expanded, up) if expanded + up < absorbed else (absorbed, 0)
    yield Look(flops, prefix * entry, new * entry, up_flops, copies=gpus)


def compressed_looks(a: Any, new: int, prefix: int, kv_dtype: str, gpus: int) -> Iterator[Look]:
    if kv_dtype == "fp8_ds_mla":  # vLLM: rotary part BF16, the rest FP8, 8 scale bytes; index keys 4 bits each and one scale
        entry, key = (a.d_head - a.d_rope) + 2 * a.d_rope + 8, a.index_dim / 2 + 4
    else:
        entry, key = a.d_head * BYTES_PER_ELEMENT[kv_dtype], a.index_dim * BYTES_PER_ELEMENT[kv_dtype]
    per_pair = 4 * a.n_heads * a.d_head
    yield Look(pairs(new, prefix, window=a.window) * per_pair, min(prefix, a.window - 1) * entry, min(new, a.window) * entry, copies=gpus)
    if not a.stride:
        return
    entries, written = prefix // a.stride, new / a.stride
    if a.chosen_entries:
        index_pairs = pairs(new, prefix, entry_tokens=a.stride)
        yield Look(index_pairs * 2 * a.index_heads * a.index_dim, entries * key, written * key, copies=gpus)
        core_pairs = pairs(new, prefix, entry_tokens=a.stride, most=a.chosen_entries)
        read = distinct_chosen(new, entries, a.chosen_entries) * entry
        yield Look(core_pairs * per_pair, read, written * entry, copies=gpus)
    else:
        yield Look(pairs(new, prefix, entry_tokens=a.stride) * per_pair, entries * entry, written * entry, copies=gpus)


def recurrence(a: Any) -> tuple[float, float]:
    """FLOPs of one token and bytes of state, one layer and request."""
    channels = 0 if a.rule == "lightning" else a.n_k_heads * a.d_k + a.n_k_heads * a.d_k + a.n_v_heads * a.d_v
    per_element = {"kda": 6, "gated_delta": 6, "mamba2": 4, "lightning": 4}[a.rule]
    flops = per_element * a.n_v_heads * a.d_k * a.d_v + 2 * a.conv_kernel * channels
    return flops, 4 * a.n_v_heads * a.d_k * a.d_v + 2 * (a.conv_kernel - 1) * channels


def attention_matrices(a: Any, h: int) -> list[Matrix]:
    """Every matrix of one attention layer as its paper draws it."""

    def m(rows: int, columns: int) -> Matrix:
        return Matrix("attention", rows, columns)

    if isinstance(a, physics.GroupedQueryAttention):
        found = [m(h, a.n_heads * a.d_k), m(h, a.n_kv_heads * a.d_k), m(a.n_heads * a.d_v, h)]
        found += [] if a.shared_kv_projection else [m(h, a.n_kv_heads * a.d_v)]
        found += [m(h, a.n_heads * a.d_v)] if a.output_gate else []
        return found + ([m(h, a.index_heads * a.index_dim), m(h, a.index_dim)] if a.index_heads else [])
    if isinstance(a, physics.LatentAttention):
        query = a.n_heads * (a.d_nope + a.d_rope)
        found = [m(h, a.q_rank), m(a.q_rank, query)] if a.q_rank else [m(h, query)]
        found += [m(h, a.kv_rank), m(h, a.d_rope), m(a.kv_rank, a.n_heads * a.d_nope), m(a.kv_rank, a.n_heads * a.d_v)]
        found += [m(a.n_heads * a.d_v, h)] + ([m(h, a.n_heads * a.d_v)] if a.output_gate else [])
        indexer = [m(a.q_rank or h, a.index_heads * a.index_dim), m(h, a.index_dim), m(h, a.index_heads)]
        return found + (indexer if a.index_heads else [])
    if isinstance(a, physics.CompressedAttention):
        found = [m(h, a.q_rank), m(a.q_rank, a.n_heads * a.d_head), m(h, a.d_head)]
        found += [m(a.n_heads * a.d_head // a.o_groups, a.o_rank)] * a.o_groups + [m(a.o_groups * a.o_rank, h)]
        if a.chosen_entries:  # overlapping compression windows: two sets of value and gate, for the latents and for the index keys
            found += [m(h, a.d_head)] * 4 + [m(h, a.index_dim)] * 4
            return [*found, m(a.q_rank, a.index_heads * a.index_dim), m(h, a.index_heads)]
        return found + ([m(h, a.d_head)] * 2 if a.stride else [])
    return recurrent_matrices(a, h)


def recurrent_matrices(a: Any, h: int) -> list[Matrix]:
    key, value = a.n_k_heads * a.d_k, a.n_v_heads * a.d_v
    inputs = {
        "mamba2": [value, value, key, key, a.n_v_heads],  # gate z, x, B, C, dt
        "gated_delta": [key, key, value, value, a.n_v_heads, a.n_v_heads],  # q, k, v, gate, beta, decay
        "kda": [key, key, value, a.n_v_heads],  # q, k, v, beta
        "lightning": [key, key, value, value],  # q, k, v, gate
    }[a.rule]
    found = [Matrix("attention", h, width) for width in inputs] + [Matrix("attention", value, h)]
    if a.rule == "kda":
        found += [Matrix("attention", h, a.d_k), Matrix("attention", a.d_k, key)]  # decay, low rank
        gate = [(h, value)] if a.full_rank_gate else [(h, a.d_v), (a.d_v, value)]
        found += [Matrix("attention", *shape) for shape in gate]
    if a.rule != "lightning":
        found += [Matrix("attention", a.conv_kernel, width) for width in (key, key, value)]
    return found


def ffn_matrices(f: Any, h: int) -> list[Matrix]:
    """Every matrix of one feed-forward layer that each token passes (not the routed experts)."""
    if isinstance(f, physics.DenseFFN):
        return [Matrix("dense", h, f.width)] * f.matrices
    if f is None:
        return []
    found = [Matrix("router", h, f.n_experts)] + [Matrix("shared", h, f.shared_width)] * f.matrices
    return found + ([Matrix("shared", h, f.input_width)] * 2 if f.input_width and f.input_width != h else [])


def distinct_experts(f: Any, tokens: int, routing: str) -> float:
    if routing == "round_robin":
        return min(f.top_k * tokens, f.n_experts)
    return f.n_experts * (1.0 - ((f.n_experts - f.top_k) / f.n_experts) ** tokens)


def peak(machine: physics.Machine, wanted: str) -> tuple[str, float]:
    while wanted not in machine.peaks:
        wanted = WIDER[wanted]
    return wanted, machine.peaks[wanted]


def step(s: physics.Scenario, new: int, prefix: int) -> Iterator[Entry]:
    """Everything one forward pass of R requests computes and moves."""
    for group in s.model.groups:
        for _ in range(group.count):
            if group.attention is not None:
                yield from attention_layer(s, group.attention, new, prefix)
            yield from ffn_layer(s, group.ffn, new)
    yield from matrices(s, [Matrix("head", s.model.hidden, s.model.vocab)], rows=s.batch)  # the last token of each request
    tokens, hidden = s.batch * new, s.model.hidden
    yield Entry("rest", "hop", "", (s.pipeline_depth - 1) * tokens * hidden * 2.0)


def formats(s: physics.Scenario, tensors: str) -> str:
    if tensors == "head" and s.model.tied_embeddings:
        tensors = "embedding"
    return s.weight_dtype or getattr(s.model.formats, tensors)


def matrices(s: physics.Scenario, found: list[Matrix], rows: int) -> Iterator[Entry]:
    for matrix in found:
        size = matrix.rows * matrix.columns
        yield Entry("rest", "flops", matrix.tensors, 2.0 * rows * size)
        yield Entry("rest", "weight", matrix.tensors, size * BYTES_PER_WEIGHT[formats(s, matrix.tensors)])


def reduction(s: physics.Scenario, tokens: int) -> Iterator[Entry]:
    gpus = s.gpus_per_stage
    inside = min(gpus, s.machine.scale_up_domain)
    domains = gpus / inside
    vector = tokens * s.model.hidden * 2.0
    yield Entry("rest", "up", "", gpus * 2.0 * (inside - 1) / inside * vector)
    yield Entry("rest", "out", "", gpus * 2.0 * (domains - 1) / domains * vector / inside)


def attention_layer(s: physics.Scenario, a: Any, new: int, prefix: int) -> Iterator[Entry]:
    tokens, tensor = s.batch * new, s.attention_parallel == "tensor"
    yield from matrices(s, attention_matrices(a, s.model.hidden), rows=tokens)
    if tensor:
        yield from reduction(s, tokens)
    if isinstance(a, physics.LinearAttention):
        flops, state = recurrence(a)
        yield Entry("attention", "flops", "core", tokens * flops)
        yield Entry("attention", "kv", "", s.batch * state * (2 if prefix else 1))
    override = s.kv_bytes_per_token / s.model.kv_bytes_per_token(s.kv_dtype) if s.kv_bytes_per_token else 1.0
    for look in looks(a, new, prefix, s.kv_dtype, s.gpus_per_stage if tensor else 1):
        yield Entry("attention", "flops", "core", s.batch * look.flops)
        yield Entry("rest", "flops", "attention", s.batch * look.up_flops)
        yield Entry("attention", "kv", "", s.batch * (look.read + look.written) * override * look.copies)


def ffn_layer(s: physics.Scenario, f: Any, new: int) -> Iterator[Entry]:
    tokens, h = s.batch * new, s.model.hidden
    yield from matrices(s, ffn_matrices(f, h), rows=tokens)
    if isinstance(f, physics.DenseFFN):
        yield from reduction(s, tokens)
    if not isinstance(f, physics.MoEFFN):
        return
    width = f.input_width or h
    expert = f.matrices * width * f.width
    yield Entry("experts", "flops", "routed", 2.0 * tokens * f.top_k * expert)
    yield Entry(
        "experts", "weight", "routed", distinct_experts(f, tokens, s.routing.kind) * expert * BYTES_PER_WEIGHT[formats(s, "routed")]
    )
    wanted, _ = peak(s.machine, s.compute_dtype or FORMAT_OF_WEIGHTS[formats(s, "routed")])
    one_way = tokens * width * (ACTIVATION[wanted] + 2.0)  # one copy there, one back
    yield Entry("experts", "activation", "routed", f.top_k * one_way)
    gpus, domain = s.gpus_per_stage, s.machine.scale_up_domain
    yield Entry("experts", "up", "", f.top_k * one_way * (gpus - 1) / gpus)
    domains = max(1.0, gpus / domain)
    reached = sum(1.0 - ((domains - 1) / domains) ** f.top_k for _ in range(int(domains) - 1))
    yield Entry("experts", "out", "", one_way * reached)


PARTS = {
    "prefill": ("attention", "experts", "rest"),
    "midfill": ("attention", "experts", "rest"),
    "decode_attention": ("attention",),
    "decode_experts": ("experts",),
    "decode_shared": ("rest",),
}


def twin(s: physics.Scenario) -> dict[str, dict[str, float]]:
    """The table of regimes, slowly."""
    prompt = s.context_tokens if s.prompt_tokens is None else s.prompt_tokens
    decode = list(step(s, 1, s.context_tokens))
    ledgers = {"prefill": list(step(s, prompt, 0)), "midfill": list(step(s, s.new_tokens, s.context_tokens))}
    return {regime: line(s, [e for e in ledgers.get(regime, decode) if e.part in parts]) for regime, parts in PARTS.items()}


def line(s: physics.Scenario, entries: list[Entry]) -> dict[str, float]:
    def total(what: str) -> float:
        return sum(e.amount for e in entries if e.what == what)

    gpus, machine, compute_s = s.gpus_per_stage, s.machine, 0.0
    for e in entries:
        if e.what == "flops":
            own = "bf16" if e.tensors == "core" else FORMAT_OF_WEIGHTS[formats(s, e.tensors)]
            compute_s += e.amount / (gpus * peak(machine, s.compute_dtype or own)[1])
    size = total("weight") + total("kv") + total("activation")
    network_s = max(total("up") / machine.scale_up_bytes_per_s, total("out") / machine.scale_out_bytes_per_s) / gpus
    times = (compute_s, size / (gpus * machine.memory_bytes_per_s), network_s)
    busy = max(times) if s.overlap else sum(times)
    return {
        "flops": total("flops"),
        "weight_bytes": total("weight"),
        "kv_bytes": total("kv"),
        "activation_bytes": total("activation"),
        "bytes": size,
        "network_bytes": total("up") + total("out") + total("hop"),
        "roofline_s": busy + total("hop") / (gpus * machine.scale_out_bytes_per_s),
    }


LOADS: dict[str, dict[str, int]] = {
    "one of each": dict(context_tokens=1, new_tokens=1, prompt_tokens=1, batch=1),
    "inside every window": dict(context_tokens=90, new_tokens=17, prompt_tokens=127, batch=3),
    "across the window of 128": dict(context_tokens=120, new_tokens=20, prompt_tokens=300, batch=2),
    "at the window": dict(context_tokens=128, new_tokens=128, prompt_tokens=128, batch=2),
    "across a chunk of 8192": dict(context_tokens=8190, new_tokens=5, prompt_tokens=8193, batch=2),
    "on the border of a chunk": dict(context_tokens=8192, new_tokens=1, prompt_tokens=8192, batch=1),
    "more new than a window": dict(context_tokens=5000, new_tokens=700, prompt_tokens=1500, batch=5),
    "across the top 2048": dict(context_tokens=2047, new_tokens=3, prompt_tokens=4099, batch=64),
    "new tokens beyond two chunks": dict(context_tokens=100, new_tokens=17_000, prompt_tokens=16_385, batch=1),
    "just absorbed": dict(context_tokens=20_000, new_tokens=170, prompt_tokens=2, batch=1),
    "just expanded": dict(context_tokens=20_000, new_tokens=172, prompt_tokens=3, batch=1),
}
MACHINES: dict[str, dict[str, Any]] = {
    "one accelerator": {},
    "two domains by tensors, deep": dict(
        gpus_per_stage=16, attention_parallel="tensor", pipeline_depth=3, overlap=False, weight_dtype="fp8", kv_dtype="fp8"
    ),
    "a domain, override": dict(gpus_per_stage=8, kv_bytes_per_token=70_000.0, routing="round_robin", compute_dtype="bf16"),
}


@pytest.mark.parametrize("setting", MACHINES)
@pytest.mark.parametrize("name", models())
def test_every_model_equals_its_slow_twin(name: str, setting: str) -> None:
    machine = physics.load_machine("H200").replace(memory_bytes=1e15)
    for load, fields in LOADS.items() if setting == "one accelerator" else list(LOADS.items())[2:7]:
        s = physics.Scenario(physics.load_model(name), machine, **fields, **MACHINES[setting])
        table, slow = physics.regimes(s), twin(s)
        for regime, cells in slow.items():
            for column, value in cells.items():
                assert table.loc[regime, column] == pytest.approx(value, rel=1e-9, abs=1e-30), (load, regime, column)


@pytest.mark.parametrize("name", ["DeepSeek-V3", "DeepSeek-V3.2", "GLM-5.2", "DeepSeek-V4-Pro", "DeepSeek-V4-Flash", "Kimi-K3"])
def test_the_cache_layout_of_latents(name: str) -> None:
    machine = physics.load_machine("H200").replace(memory_bytes=1e15)
    s = physics.Scenario(physics.load_model(name), machine, context_tokens=9000, new_tokens=11, prompt_tokens=40, kv_dtype="fp8_ds_mla")
    table = physics.regimes(s)
    for regime, cells in twin(s).items():
        assert table.loc[regime, "kv_bytes"] == pytest.approx(cells["kv_bytes"], rel=1e-9), regime


def test_parameters_equal_the_sum_of_the_matrices() -> None:
    for name in models():
        model = physics.load_model(name)
        total = model.vocab * model.hidden * (1 if model.tied_embeddings else 2)
        for group in model.groups:
            found = attention_matrices(group.attention, model.hidden) if group.attention else []
            found = found + ffn_matrices(group.ffn, model.hidden)
            f = group.ffn
            routed = f.n_experts * f.matrices * (f.input_width or model.hidden) * f.width if isinstance(f, physics.MoEFFN) else 0
            total += group.count * (sum(m.rows * m.columns for m in found) + routed)
        assert model.n_params == total, name


def test_every_kind_of_layer_is_among_the_models() -> None:
    kinds = {group.attention.label.split(",")[0] for name in models() for group in physics.load_model(name).groups if group.attention}
    expected = {"full MHA", "full GQA", "sliding GQA", "chunked GQA", "MLA", "sparse MLA", "block-sparse GQA", "window 128"}
    assert expected | {"compressed 4:1", "compressed 128:1", "KDA", "Gated DeltaNet", "Mamba-2"} <= kinds
    owners = {bool(g.attention.index_heads) for g in physics.load_model("GLM-5.2").groups}
    assert owners == {True, False}
    ffns = {type(group.ffn) for name in models() for group in physics.load_model(name).groups}
    assert ffns == {physics.DenseFFN, physics.MoEFFN, type(None)}
