"""Expert coincidence: how many distinct experts a batch of tokens wakes up, and what that does to intensity.

The picture: one MoE layer with E experts; each of T tokens picks k different ones. Not k, not E and not min(kT, E)
expert weights are read, but the number of *distinct* experts touched. Source: design notes section 4; closed forms
are occupancy counts (hypergeometric draws per token, independent between tokens).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from physics._numba import formula


@formula
def idle_probability(n_experts: Any, top_k: Any, tokens: Any) -> Any:
    """Probability that one given expert gets none of the tokens under uniform routing [1].

    (1 - k/E)^T.
    n_experts: routed experts per layer E [1].
    top_k: experts per token k [1].
    tokens: independent tokens T [token].

    >>> float(idle_probability(256, 8, 1))
    0.96875
    """
    return np.exp(tokens * np.log1p(-(top_k / n_experts)))


@formula
def distinct_experts_uniform(n_experts: Any, top_k: Any, tokens: Any) -> Any:
    """Expected distinct experts of one layer under uniform routing without replacement [expert].

    E * (1 - (1 - k/E)^T). T = 1 gives k exactly, T to infinity gives E; k = E is a dense layer.
    n_experts: E [1].
    top_k: k [1].
    tokens: independent tokens T [token].

    >>> round(float(distinct_experts_uniform(256, 8, 128)), 2)
    251.6
    """
    return -n_experts * np.expm1(tokens * np.log1p(-(top_k / n_experts)))


@formula
def distinct_experts_round_robin(n_experts: Any, top_k: Any, tokens: Any) -> Any:
    """Distinct experts when tokens are dealt in perfect balance: min(k*T, E) [expert].

    The other limit of uniform routing; synthetic "balanced" benchmarks follow it, real routing does not.
    n_experts: E [1].
    top_k: k [1].
    tokens: T [token].

    >>> float(distinct_experts_round_robin(256, 8, 16))
    128.0
    """
    return np.minimum(top_k * tokens, n_experts * 1.0)


def distinct_experts_sd(n_experts: Any, top_k: Any, tokens: Any) -> Any:
    """Standard deviation of the distinct experts under uniform routing [expert].

    Var = E*q*(1-q) + E*(E-1)*(q2 - q^2) with q = (1-k/E)^T and q2 = [(E-k)(E-k-1) / (E(E-1))]^T, the probability that two
    given experts are both idle.
    n_experts: E [1].
    top_k: k [1].
    tokens: independent tokens T [token].

    >>> round(float(distinct_experts_sd(256, 8, 128)), 2)
    2.0
    """
    experts, chosen, count = np.asarray(n_experts, float), np.asarray(top_k, float), np.asarray(tokens, float)
    idle = (1.0 - chosen / experts) ** count
    both = np.where(experts > 1, (experts - chosen) * (experts - chosen - 1.0) / (experts * np.maximum(experts - 1.0, 1.0)), 0.0)
    variance = experts * idle * (1.0 - idle) + experts * (experts - 1.0) * (np.maximum(both, 0.0) ** count - idle**2)
    return np.sqrt(np.maximum(variance, 0.0))


def shared_expert_probability(n_experts: int, top_k: int) -> float:
    """Probability that two independent tokens share at least one expert under uniform routing [1].

    1 - C(E-k, k) / C(E, k), multiplied out factor by factor.
    n_experts: E [1].
    top_k: k [1].

    >>> round(shared_expert_probability(256, 8), 5)
    0.22709
    """
    steps = np.arange(top_k)
    return float(1.0 - np.prod(np.maximum(n_experts - top_k - steps, 0) / (n_experts - steps)))


def expert_intensity(
    tokens: Any, expert_params: Any, weight_bytes: Any, activation_bytes_per_token: Any, output_bytes_per_token: Any
) -> Any:
    """Arithmetic intensity of one expert that serves a queue of tokens [FLOP/B].

    2*n*W / (B_W + n*(B_A + B_O)): the weights are read once for the queue, activations per token.
    tokens: tokens n on this expert [token].
    expert_params: parameters W of the expert [1].
    weight_bytes: bytes B_W of its weights [B].
    activation_bytes_per_token: bytes B_A of one token's input [B].
    output_bytes_per_token: bytes B_O of one token's output [B].

    >>> round(float(expert_intensity(345, 44_040_192, 44_040_192, 7168, 14336)))
    591
    """
    count = np.asarray(tokens, float)
    return 2.0 * count * expert_params / (weight_bytes + count * (activation_bytes_per_token + output_bytes_per_token))


def tokens_at_ridge(
    ridge_flops_per_byte: Any, expert_params: Any, weight_bytes: Any, activation_bytes_per_token: Any, output_bytes_per_token: Any
) -> Any:
    """Tokens on one expert at which it stops being bound by bandwidth: infinity where it never does [token].

    n* = I* * B_W / (2W - I*(B_A + B_O)); if 2W <= I*(B_A + B_O) the activations alone keep it under the ridge.
    ridge_flops_per_byte: ridge I* of the machine [FLOP/B].
    expert_params: W [1].
    weight_bytes: B_W [B].
    activation_bytes_per_token: B_A [B].
    output_bytes_per_token: B_O [B].

    >>> round(float(tokens_at_ridge(1979 / 3.35, 44_040_192, 44_040_192, 7168, 14336)))
    345
    """
    ridge = np.asarray(ridge_flops_per_byte, float)
    headroom = 2.0 * expert_params - ridge * (activation_bytes_per_token + output_bytes_per_token)
    return np.where(headroom > 0.0, ridge * weight_bytes / np.where(headroom > 0.0, headroom, 1.0), np.inf)


def tokens_at_half_ceiling(weight_bytes: Any, activation_bytes_per_token: Any, output_bytes_per_token: Any) -> Any:
    """Tokens on one expert at which its intensity is half of its own ceiling: B_W / (B_A + B_O) [token].

    The second "flattening": a property of the expert, not of the machine.
    weight_bytes: B_W [B].
    activation_bytes_per_token: B_A [B].
    output_bytes_per_token: B_O [B].

    >>> tokens_at_half_ceiling(44_040_192, 7168, 14336)
    2048.0
    """
    return weight_bytes / (activation_bytes_per_token + output_bytes_per_token)
