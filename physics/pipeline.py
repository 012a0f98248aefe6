"""Pipeline depth: what one stage must hold, and the depth beyond which KV, not weights, fills it.

The picture: P stages of G accelerators; a full pipe holds P groups of requests, and each stage holds its 1/P of the
layers of all of them, so the KV of a stage does not shrink with P while its weights do. Source: design notes section 5.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from physics._numba import formula


@formula
def kept_entries(context_tokens: Any, stride: Any, limit: Any) -> Any:
    """Cache entries one layer keeps of one request: context / stride, at most `limit` [entry].

    context_tokens: tokens of the request [token].
    stride: tokens per entry [token].
    limit: window or chunk that bounds what is kept; infinity for a cache that grows [entry].

    >>> float(kept_entries(1000, 1, 128))
    128.0
    """
    return np.minimum(context_tokens / stride, limit)


@formula
def cache_copies(accelerators: Any, shards: Any) -> Any:
    """Copies of a cache entry a stage holds and reads under tensor parallelism: G / min(G, shards) [1].

    Each accelerator holds the heads it computes; few heads, or a latent that all heads share, repeat.
    accelerators: G of the stage [1].
    shards: accelerators that can split one entry by heads [1].

    >>> float(cache_copies(16, 8))
    2.0
    """
    return accelerators / np.minimum(accelerators, shards)


@formula
def kv_crossover_depth(
    weight_bytes: Any, kv_bytes_per_token: Any, live_tokens: Any, state_bytes: Any = 0.0, double_buffered: Any = False
) -> Any:
    """Pipeline depth at which a stage holds as many bytes of KV as of weights [1].

    P* = W / (kv * live + state), halved when KV is double buffered. Beyond it depth saves at most half a stage.
    weight_bytes: weights W of the whole model [B].
    kv_bytes_per_token: cache bytes per token [B/token].
    live_tokens: batch x context of one group [token].
    state_bytes: windows and recurrent state of one group, independent of context [B].
    double_buffered: whether two copies of the KV are held [1].

    >>> round(kv_crossover_depth(671e9, 70_272, 2e6), 3)
    4.774
    """
    copies = 1.0 + double_buffered
    return weight_bytes / (copies * (kv_bytes_per_token * live_tokens + state_bytes))


@formula
def hop_seconds(tokens: Any, hidden: Any, bytes_per_element: Any, link_bytes_per_s: Any) -> Any:
    """Time to hand one group's activations to the next stage [s].

    T * hidden * element over the scale-out links of the stage.
    tokens: tokens T in flight in the group [token].
    hidden: width of the residual stream [element].
    bytes_per_element: bytes of one activation [B].
    link_bytes_per_s: scale-out bandwidth of all accelerators of a stage, one direction [B/s].

    >>> hop_seconds(64, 7168, 2, 50e9)
    1.835008e-05
    """
    return tokens * hidden * bytes_per_element / link_bytes_per_s
