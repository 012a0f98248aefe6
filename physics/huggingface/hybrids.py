"""Families with recurrent layers: Qwen3-Next and 3.5, Kimi-Linear and K3, MiniMax-M1, Nemotron-H and 3, Granite-4, Bamba."""

from __future__ import annotations

from physics.huggingface import patterns as at
from physics.huggingface.fields import Fields
from physics.huggingface.grouped import FFN, ffns
from physics.huggingface.parts import Build, Layer, dense, experts, grouped, latent
from physics.layers import Attention, MoEFFN
from physics.recurrent import LinearAttention


def _state_dtype(f: Fields, name: str) -> None:
    """State is counted in FP32; a config that keeps it otherwise gets a note."""
    if f.raw(name) not in (None, "float32"):
        f.notes.append(f"{name} asks for another format; recurrent state is counted in FP32.")


def qwen_next(mask_by_step: bool, routed: bool) -> Build:
    """Gated DeltaNet in most layers, gated full attention in every fourth.

    mask_by_step: whether `decoder_sparse_step` and `mlp_only_layers` apply. routed: whether there are experts.
    """

    def build(f: Fields) -> list[Layer]:
        n = at.n_layers(f)
        kinds = at.linear_interval(f, n)
        made: dict[str, Attention] = {}
        if at.LINEAR in kinds:
            made[at.LINEAR] = _gated_delta(f)
        if at.FULL in kinds:
            made[at.FULL] = grouped(f, output_gate=f.flag("attn_output_gate", True))
        f.ignore("attn_output_gate")
        if not routed:
            f.ignore("mlp_only_layers", "decoder_sparse_step")
            parts: list[FFN] = [dense(f)] * n
        else:
            mask = at.every_step(f, n) if mask_by_step else [True] * n
            parts = ffns(f, mask, shared=lambda g: g.optional("shared_expert_intermediate_size", 0) or 0)
        return list(zip([made[kind] for kind in kinds], parts, strict=True))

    return build


def _gated_delta(f: Fields) -> LinearAttention:
    _state_dtype(f, "mamba_ssm_dtype")
    key_heads, value_heads = f.count("linear_num_key_heads"), f.count("linear_num_value_heads")
    if value_heads % key_heads:
        f.fail("linear_num_value_heads", f"{value_heads} is no multiple of linear_num_key_heads {key_heads}")
    return LinearAttention(
        rule="gated_delta",
        n_k_heads=key_heads,
        n_v_heads=value_heads,
        d_k=f.count("linear_key_head_dim"),
        d_v=f.count("linear_value_head_dim"),
        conv_kernel=f.count("linear_conv_kernel_dim"),
    )


def kimi_linear(f: Fields) -> list[Layer]:
    """Kimi-Linear and Kimi-K3: Kimi delta attention in most layers, latent attention in every fourth and the last."""
    n = at.n_layers(f)
    linear = f.child("linear_attn_config") or Fields({}, f.architecture, where="linear_attn_config.")
    heads = linear.optional("num_heads") or f.count("linear_num_heads")
    size = linear.optional("head_dim") or f.count("linear_head_dim")
    delta = LinearAttention(
        rule="kda",
        n_k_heads=heads,
        n_v_heads=heads,
        d_k=size,
        d_v=size,
        conv_kernel=linear.optional("short_conv_kernel_size") or f.count("linear_conv_kernel_dim"),
        full_rank_gate=linear.flag("use_full_rank_gate"),
    )
    full = latent(f, output_gate=f.flag("mla_use_output_gate"))
    f.ignore("linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim")
    if f.has("attn_res_block_size"):
        f.notes.append(f"Residual paths between blocks of {f.count('attn_res_block_size')} layers are not counted.")
    kinds = _kimi_kinds(f, linear, n)
    parts = _kimi_ffns(f, at.sparse_layers(f, n))
    return list(zip([delta if kind == at.LINEAR else full for kind in kinds], parts, strict=True))


def _kimi_kinds(f: Fields, linear: Fields, n: int) -> list[str]:
    given = at.typed(f, n, (at.FULL, at.LINEAR))
    full, delta = linear.indices("full_attn_layers", n, first=1), linear.indices("kda_layers", n, first=1)
    if given:
        return given
    if full is None or delta is None:
        f.fail("linear_attn_config", "does not list full_attn_layers and kda_layers; both are needed")
    if full & delta or full | delta != set(range(n)):
        linear.fail("full_attn_layers", f"and kda_layers do not name each of the {n} layers once")
    return [at.LINEAR if i in delta else at.FULL for i in range(n)]


def _kimi_ffns(f: Fields, mask: list[bool]) -> list[FFN]:
    narrow = f.optional("routed_expert_hidden_size") or 0
    width = (f.optional("n_shared_experts", 0) or 0) * f.count("moe_intermediate_size")
    moe, first = experts(f, shared_width=width, input_width=narrow), dense(f)
    return [moe if is_sparse else first for is_sparse in mask]


def minimax(f: Fields) -> list[Layer]:
    """MiniMax-Text-01 and M1: lightning attention, full attention in every eighth layer, experts everywhere."""
    n = at.n_layers(f)
    listed = f.series("attn_type_list", n, (0, 1))
    kinds = at.typed(f, n, (at.FULL, at.LINEAR)) or [at.FULL if kind else at.LINEAR for kind in listed or []]
    if not kinds:
        f.fail("attn_type_list", "is missing; it says which layers are linear (0) and which full (1)")
    full = grouped(f)
    lightning = LinearAttention("lightning", full.n_heads, full.n_heads, full.d_k, full.d_k, conv_kernel=0)
    moe = experts(f, "intermediate_size", shared_width=f.optional("shared_intermediate_size", 0) or 0)
    f.ignore("block_size", "full_attn_alpha_factor", "full_attn_beta_factor", "linear_attn_alpha_factor", "linear_attn_beta_factor")
    f.ignore("mlp_alpha_factor", "mlp_beta_factor")
    return [(lightning if kind == at.LINEAR else full, moe) for kind in kinds]


BLOCKS = {"M": "mamba", "E": "moe", "*": "attention", "-": "mlp"}
"""Characters of `hybrid_override_pattern` (transformers, configuration_nemotron_h.py)."""
BLOCK_WORDS = {**{word: word for word in BLOCKS.values()}, "linear_attention": "mamba", "full_attention": "attention"}


def nemotron_h(f: Fields) -> list[Layer]:
    """Nemotron-H and Nemotron-3: each layer is one thing only, a Mamba-2, an attention, a dense part or experts."""
    blocks = _nemotron_blocks(f)
    made: dict[str, Layer] = {}
    for block in dict.fromkeys(blocks):
        made[block] = _nemotron_layer(f, block)
    f.ignore("expand", "intermediate_size", "moe_intermediate_size", "moe_shared_expert_intermediate_size", "moe_latent_size", "n_groups")
    f.ignore("n_experts", "experts_per_token", "n_shared_experts", "n_group", "topk_group", "num_key_value_heads", "head_dim")
    return [made[block] for block in blocks]


def _nemotron_blocks(f: Fields) -> list[str]:
    pattern, listed = f.raw("hybrid_override_pattern"), f.raw("layers_block_type")
    name = "hybrid_override_pattern" if listed is None else "layers_block_type"
    given = pattern if listed is None else listed
    if not isinstance(given, (str, list, tuple)) or not given:
        f.fail("hybrid_override_pattern", "or layers_block_type is needed: what each layer is")
    f.agree("num_hidden_layers", len(given), f"entries of {name}")
    if listed is None:
        return [BLOCKS[char] for char in f.series(name, len(given), tuple(BLOCKS)) or []]
    return [BLOCK_WORDS[word] for word in f.series(name, len(given), tuple(BLOCK_WORDS)) or []]


def _nemotron_layer(f: Fields, block: str) -> Layer:
    if block == "attention":
        return grouped(f), None
    if block == "mlp":
        return None, dense(f, matrices=2)
    if block == "moe":
        return None, _nemotron_experts(f)
    _state_dtype(f, "mamba_ssm_cache_dtype")
    names = ("n_groups", "mamba_num_heads", "ssm_state_size", "mamba_head_dim", "conv_kernel")
    return mamba2(f, *names), None


def _nemotron_experts(f: Fields) -> MoEFFN:
    """One shared expert of `moe_shared_expert_intermediate_size`, whatever their number (modeling_nemotron_h.py)."""
    shared = (f.optional("moe_shared_expert_intermediate_size", 0) or 0) if f.optional("n_shared_experts", 0) else 0
    return experts(f, shared_width=shared, input_width=f.optional("moe_latent_size") or 0, matrices=2)


def mamba2(f: Fields, groups: str, heads: str, state: str, size: str, kernel: str) -> LinearAttention:
    """A Mamba-2 layer from the names of its five fields."""
    n_heads = f.count(heads)
    if n_heads % f.count(groups):
        f.fail(groups, f"{f.count(groups)} does not divide {heads} {n_heads}")
    return LinearAttention("mamba2", f.count(groups), n_heads, f.count(state), f.count(size), f.count(kernel))


def granite_hybrid(routed: bool) -> Build:
    """Granite-4 hybrids and Bamba: Mamba-2 or attention, each followed by a feed-forward part.

    routed: Granite's experts with a shared one; otherwise dense.
    """

    def build(f: Fields) -> list[Layer]:
        n = at.n_layers(f)
        attending = f.indices("attn_layer_indices", n)
        f.ignore("layers_block_type")
        kinds = at.typed(f, n, (at.FULL, at.LINEAR)) or [at.FULL if i in (attending or ()) else at.LINEAR for i in range(n)]
        expected = f.count("mamba_expand") * f.count("hidden_size") // f.count("mamba_n_heads")
        if f.data.get("mamba_d_head") in (None, "auto"):
            f.data = {**f.data, "mamba_d_head": expected}
        f.agree("mamba_d_head", expected, "mamba_expand x hidden_size / mamba_n_heads")
        recurrent = mamba2(f, "mamba_n_groups", "mamba_n_heads", "mamba_d_state", "mamba_d_head", "mamba_d_conv")
        full = grouped(f)
        ffn = _granite_ffn(f) if routed else dense(f)
        return [(recurrent if kind == at.LINEAR else full, ffn) for kind in kinds]

    return build


def _granite_ffn(f: Fields) -> FFN:
    if f.optional("n_experts", 0):
        return experts(f, "intermediate_size", shared_width=f.count("shared_intermediate_size", 0))
    f.ignore("n_experts", "experts_per_token", "intermediate_size")
    return dense(f, "shared_intermediate_size")
