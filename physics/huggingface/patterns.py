"""Which layer does what: patterns of attention kinds and of experts over the depth of a model."""

from __future__ import annotations

from collections.abc import Callable

from physics.huggingface.fields import Fields
from physics.huggingface.vocabulary import MTP_COUNTS

FULL, SLIDING, CHUNKED, LINEAR, SPARSE = "full", "sliding", "chunked", "linear", "sparse"

LAYER_TYPES = {
    "full_attention": FULL,
    "attention": FULL,
    "sliding_attention": SLIDING,
    "chunked_attention": CHUNKED,
    "linear_attention": LINEAR,
    "mamba": LINEAR,
    "minimax_m3_sparse": SPARSE,
    "indexed_attention": SPARSE,
}
"""Entries of `layer_types` (transformers 5, configuration_utils.py ALLOWED_LAYER_TYPES) as kinds."""

Kinds = Callable[[Fields, int], list[str]]


def n_layers(f: Fields) -> int:
    """Layers of one forward pass; multi-token-prediction layers are not among them [layer]."""
    return f.count("num_hidden_layers")


def n_mtp_layers(f: Fields) -> int:
    """Multi-token-prediction layers a config lists beside the stack [layer]."""
    counts = [f.data.get(name) for name in MTP_COUNTS]
    return max([c for c in counts if isinstance(c, int) and not isinstance(c, bool) and 0 < c < 1000], default=0)


def typed(f: Fields, n: int, kinds: tuple[str, ...], name: str = "layer_types") -> list[str] | None:
    """Kinds from the config's own list of layer types, where it has one."""
    words = [word for word, kind in LAYER_TYPES.items() if kind in kinds]
    types = f.series(name, n, words, longer=n_mtp_layers(f))
    return None if types is None else [LAYER_TYPES[word] for word in types]


def all_full(f: Fields, n: int) -> list[str]:
    """Every layer attends to everything."""
    return typed(f, n, (FULL,)) or [FULL] * n


def all_listed_full(f: Fields, n: int) -> list[str]:
    """MiniMax-M2: full attention, which `attn_type_list` repeats for every layer where present."""
    f.series("attn_type_list", n, (1,))
    return all_full(f, n)


def all_sliding(f: Fields, n: int) -> list[str]:
    """Every layer slides where there is a window (Mistral 7B v0.1), else none."""
    window = f.optional("sliding_window")
    return typed(f, n, (FULL, SLIDING)) or [SLIDING if window else FULL] * n


def top_layers_slide(f: Fields, n: int) -> list[str]:
    """Qwen2 and Qwen3: only with `use_sliding_window`, and then from layer `max_window_layers` on."""
    given = typed(f, n, (FULL, SLIDING))
    if given or not f.flag("use_sliding_window"):
        f.ignore("use_sliding_window", "max_window_layers", *(() if given and SLIDING in given else ("sliding_window",)))
        return given or [FULL] * n
    window, first = f.optional("sliding_window"), f.count("max_window_layers", 0)
    return [SLIDING if window and i >= first else FULL for i in range(n)]


def window_unused(f: Fields, n: int) -> list[str]:
    """Full attention where `use_sliding_window` is off; versions of transformers disagree about the layers where it is on."""
    given = typed(f, n, (FULL, SLIDING))
    if given is None and f.flag("use_sliding_window"):
        f.fail("use_sliding_window", "true without layer_types does not say which layers slide; add layer_types")
    f.ignore("use_sliding_window", "max_window_layers")
    if not given or SLIDING not in given:
        f.ignore("sliding_window")
    return given or [FULL] * n


def interval(period: int, field: str = "sliding_window_pattern") -> Kinds:
    """Every `period`-th layer is full, the others slide; `field` overrides the period."""

    def kinds(f: Fields, n: int) -> list[str]:
        given = typed(f, n, (FULL, SLIDING))
        every = f.optional(field, 0) if f.has(field) else period
        f.ignore(field)
        if given is None and f.optional("sliding_window") is None:
            return [FULL] * n
        return given or [FULL if every and (i + 1) % every == 0 else SLIDING for i in range(n)]

    return kinds


def linear_interval(f: Fields, n: int) -> list[str]:
    """Qwen3-Next and Qwen3.5: every `full_attention_interval`-th layer is full, the others recurrent."""
    given = typed(f, n, (FULL, LINEAR))
    every = f.count("full_attention_interval")
    return given or [LINEAR if (i + 1) % every else FULL for i in range(n)]


def chunks_without_position(f: Fields, n: int) -> list[str]:
    """Llama-4: layers with rotary embedding attend within chunks, those without (every fourth) to everything."""
    given = typed(f, n, (FULL, CHUNKED))
    every = f.count("no_rope_layer_interval")
    rotary = f.series("no_rope_layers", n, (0, 1)) if f.data.get("no_rope_layers") else None
    f.ignore("no_rope_layers")
    rotary = rotary or [int((i + 1) % every != 0) for i in range(n)]
    chunk = f.optional("attention_chunk_size")
    return given or [CHUNKED if chunk and rotary[i] else FULL for i in range(n)]


def sparse_layers(f: Fields, n: int) -> list[bool]:
    """Which layers route to experts, from every way the config says it; ways that disagree are refused."""
    ways: dict[str, list[bool]] = {}
    types = f.series("mlp_layer_types", n, ("dense", "sparse", "moe", "hash_moe"), longer=n_mtp_layers(f))
    if types:
        ways["mlp_layer_types"] = [kind != "dense" for kind in types]
    listed = f.indices("moe_layers_enum", n + n_mtp_layers(f))
    if listed is not None:
        ways["moe_layers_enum"] = [i in listed for i in range(n)]
    if isinstance(f.data.get("moe_layer_freq"), (list, tuple)):
        ways["moe_layer_freq"] = [bool(flag) for flag in f.series("moe_layer_freq", n, (0, 1), longer=n_mtp_layers(f)) or []]
    if not ways or f.has("first_k_dense_replace"):
        ways["first_k_dense_replace"] = _after_dense(f, n, bool(ways))
    f.ignore("first_k_dense_replace", "moe_layer_freq")
    (name, mask), *others = ways.items()
    for other, differing in others:
        if differing != mask:
            f.fail(other, f"names other layers as dense than {name} does; correct one of them")
    return mask


def _after_dense(f: Fields, n: int, listed: bool) -> list[bool]:
    first = f.count("first_k_dense_replace", 0)
    every = 1 if listed and isinstance(f.data.get("moe_layer_freq"), (list, tuple)) else f.optional("moe_layer_freq") or 1
    return [i >= first and i % every == 0 for i in range(n)]


def every_step(f: Fields, n: int) -> list[bool]:
    """Qwen: experts in every `decoder_sparse_step`-th layer, except `mlp_only_layers`."""
    step = f.count("decoder_sparse_step")
    dense = f.indices("mlp_only_layers", n) or set()
    return [i not in dense and (i + 1) % step == 0 for i in range(n)]


def interleaved(f: Fields, n: int) -> list[bool]:
    """Llama-4: experts in the listed `moe_layers`, else in every `interleave_moe_layer_step`-th layer."""
    step = f.count("interleave_moe_layer_step")
    listed = f.indices("moe_layers", n)
    return [i in listed if listed is not None else (i + 1) % step == 0 for i in range(n)]


def everywhere(f: Fields, n: int) -> list[bool]:
    """Every layer routes to experts."""
    del f
    return [True] * n
