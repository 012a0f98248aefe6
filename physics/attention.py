"""How many query-key pairs a step computes and how many cached entries it reads, in closed form.

The picture: a request has `prefix_tokens` in its cache and appends `new_tokens`; new token i = 1..n sits at position
P + i and sees itself and what its layer's kind of attention lets it see. Formulas take scalars or arrays that
broadcast, and are called from compiled kernels as they stand. Nonsense inputs give NaN or nonsense, not errors:
`Scenario` validates. Source of the kinds: design notes section 2, and the papers named in `physics.model`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from physics._numba import formula


@formula
def causal_pairs(new_tokens: Any, prefix_tokens: Any) -> Any:
    """Query-key pairs of full attention, per request [pairs].

    n*P + n*(n+1)/2: token i sees the prefix, the tokens before it, and itself.
    new_tokens: tokens appended per request [token].
    prefix_tokens: tokens already cached per request [token].

    >>> causal_pairs(2, 10)
    23.0
    """
    return new_tokens * prefix_tokens + new_tokens * (new_tokens + 1.0) / 2.0


@formula
def entries_up_to(position: Any, stride: Any) -> Any:
    """Sum over positions j = 1..N of floor(j / stride): entries seen by all tokens up to N [pairs].

    With q = floor(N / m) and r = N - q*m: m*q*(q-1)/2 + q*(r+1). At stride 1 it is N*(N+1)/2, exact for whole N;
    between whole numbers it interpolates, so crossings can be found on a continuous axis.
    position: N [token].
    stride: tokens per entry m [token].

    >>> entries_up_to(7, 3)
    7.0
    """
    quotient = np.floor(position / stride)
    rest = position - quotient * stride
    return stride * quotient * (quotient - 1.0) / 2.0 + quotient * (rest + 1.0)


@formula
def capped_entries_up_to(position: Any, stride: Any, limit: Any) -> Any:
    """Sum over positions j = 1..N of min(floor(j / stride), limit) [pairs].

    Positions below stride*limit see every entry, later ones exactly `limit`.
    position: N [token].
    stride: tokens per entry [token].
    limit: most entries one token looks at; infinity for no limit [entry].

    >>> capped_entries_up_to(5, 1, 2)
    9.0
    """
    last_growing = np.minimum(position, stride * limit)
    beyond = position - last_growing
    return entries_up_to(last_growing, stride) + beyond * np.minimum(limit, position)  # no limit: nothing is beyond


@formula
def seen_pairs(new_tokens: Any, prefix_tokens: Any, stride: Any, limit: Any) -> Any:
    """Query-key pairs of a sliding window, a top-k choice or a compressed cache, per request [pairs].

    Sum over i = 1..n of min(floor((P+i) / stride), limit). Sliding window w: stride 1, limit w. Sparse top-k: stride 1,
    limit k. Compressed m:1: stride m. Full attention: stride 1, no limit.
    new_tokens: n [token].
    prefix_tokens: P [token].
    stride: tokens per cached entry [token].
    limit: most entries one token looks at [entry].

    >>> seen_pairs(3, 10, 1, 4)
    12.0
    """
    last = prefix_tokens + new_tokens
    return capped_entries_up_to(last, stride, limit) - capped_entries_up_to(prefix_tokens, stride, limit)


@formula
def chunked_up_to(position: Any, chunk: Any) -> Any:
    """Sum over positions j = 1..N of ((j-1) mod chunk) + 1: pairs inside chunks up to N [pairs].

    Whole chunks hold chunk*(chunk+1)/2 pairs each; the last, of r tokens, r*(r+1)/2.
    position: N [token].
    chunk: tokens per chunk [token].

    >>> chunked_up_to(5, 4)
    11.0
    """
    whole = np.floor(position / chunk)
    rest = position - whole * chunk
    return whole * chunk * (chunk + 1.0) / 2.0 + rest * (rest + 1.0) / 2.0


@formula
def chunked_pairs(new_tokens: Any, prefix_tokens: Any, chunk: Any) -> Any:
    """Query-key pairs of chunked attention (Llama-4), per request [pairs].

    Sum over i = 1..n of ((P+i-1) mod chunk) + 1: a token sees its own chunk up to itself.
    new_tokens: n [token].
    prefix_tokens: P [token].
    chunk: tokens per chunk [token].

    >>> chunked_pairs(2, 4, 4)
    3.0
    """
    return chunked_up_to(prefix_tokens + new_tokens, chunk) - chunked_up_to(prefix_tokens, chunk)


@formula
def chosen_entries_read(new_tokens: Any, entries: Any, limit: Any) -> Any:
    """Distinct cached entries fetched when each new token chooses `limit` of them, per request [entry].

    N * (1 - (1 - min(1, k/N))^n): an estimate that takes the choices of the new tokens as independent; exact for n = 1.
    new_tokens: n [token].
    entries: cached entries N to choose from [entry].
    limit: entries one token chooses k [entry].

    >>> chosen_entries_read(1, 100.0, 10.0)
    10.0
    """
    share = np.minimum(1.0, limit / np.maximum(entries, 1e-300))
    return entries * -np.expm1(new_tokens * np.log1p(-share))


@formula
def window_entries_read(prefix_tokens: Any, window: Any) -> Any:
    """Cached entries a sliding window fetches: min(P, w - 1), since the new token fills the last place [entry].

    prefix_tokens: P [token].
    window: w [token].

    >>> float(window_entries_read(1000, 128))
    127.0
    """
    return np.minimum(prefix_tokens, window - 1.0)


@formula
def chunk_entries_read(prefix_tokens: Any, chunk: Any) -> Any:
    """Cached entries of the present chunk: P mod chunk [entry].

    prefix_tokens: P [token].
    chunk: tokens per chunk [token].

    >>> chunk_entries_read(8193.0, 8192.0)
    1.0
    """
    return prefix_tokens - np.floor(prefix_tokens / chunk) * chunk


@formula
def absorb_crossover_tokens(kv_rank: Any, d_nope: Any, d_rope: Any, d_v: Any) -> Any:
    """New tokens above which expanding the latents costs fewer FLOPs than absorbing, at a long prefix [token].

    c*(d_n + d_v) / ((2c + r) - (d_n + r + d_v)), whatever the heads and the prefix.
    kv_rank: width c of the latent [element].
    d_nope: query-key width without rotary part d_n [element].
    d_rope: rotary width r [element].
    d_v: value width [element].

    >>> round(absorb_crossover_tokens(512, 128, 64, 128), 2)
    170.67
    """
    return kv_rank * (d_nope + d_v) / ((2.0 * kv_rank + d_rope) - (d_nope + d_rope + d_v))
