"""How a row of the architecture tables is written, and where each family keeps its tensors."""

from __future__ import annotations

from typing import Any

from physics.huggingface.parts import Architecture, Build, Names

BLOCK_SPARSE = Names(
    routed=("block_sparse_moe.experts",),
    shared=("block_sparse_moe.shared_experts", "shared_mlp"),
    router=("block_sparse_moe.gate",),
)
FEED_FORWARD = Names(
    dense=("feed_forward",), routed=("feed_forward.experts",), shared=("feed_forward.shared_expert",), router=("feed_forward.router",)
)
MIXER = Names(
    attention=("mixer",),
    linear=("mixer",),
    dense=("mixer",),
    routed=("mixer.experts",),
    shared=("mixer.shared_experts",),
    router=("mixer.gate",),
)
GEMMA4 = Names(routed=("experts", "moe.experts"), shared=("mlp",), router=("router",))
NATIVE_V4 = Names(
    attention=("attn", "self_attn"),
    routed=("ffn.experts", "mlp.experts"),
    shared=("ffn.shared_experts", "mlp.shared_experts"),
    router=("ffn.gate", "mlp.gate"),
)
STEP = Names(routed=("moe", "mlp.experts"), shared=("share_expert", "mlp.shared_experts"), router=("moe.gate", "mlp.gate"))
KDA = Names(
    linear=("self_attn",),
    routed=("block_sparse_moe.experts", "mlp.experts"),
    shared=("block_sparse_moe.shared_experts", "mlp.shared_experts"),
    router=("block_sparse_moe.gate", "mlp.gate"),
)
LONGCAT = Names(attention=("self_attn",), dense=("mlps",), shared=("mlps",), router=("mlp.router", "mlp.router.classifier"))


def row(build: Build, folder: str, sizes: str, names: Names | None = None, classes: str = "", **more: Any) -> Architecture:
    """One architecture; `sizes` are vocabulary, hidden, intermediate, layers, heads, key-value heads of its class (- for none)."""
    fields = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")
    defaults = {field: int(word) for field, word in zip(fields, sizes.split(), strict=True) if word != "-"}
    source = folder if ":" in folder else f"transformers 5.24:models/{folder}/configuration_{folder}.py"
    return Architecture(build, {**defaults, **more}, source, names or Names(), tuple(classes.split()))
