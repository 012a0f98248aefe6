"""Recurrent layers: linear attention and state space models, whose memory does not grow with context."""

from __future__ import annotations

from dataclasses import dataclass

from physics.layers import Scan, UnsupportedModelError

STATE_BYTES = 4.0  # recurrent state is kept in FP32 (mamba_ssm_dtype float32 of the published configs)
CONV_BYTES = 2.0  # the convolution's tail is kept in BF16


@dataclass(frozen=True)
class LinearAttention:
    """A recurrent layer: delta rule (KDA, Gated DeltaNet), decay (lightning attention) or Mamba-2 state space.

    Its memory is a state of constant size per request, read and written once per step. For Mamba-2, `d_k` is the state
    size, `d_v` the head size and `n_k_heads` the number of B/C groups.
    """

    rule: str  # "kda", "gated_delta", "lightning" or "mamba2"
    n_k_heads: int
    n_v_heads: int
    d_k: int
    d_v: int
    conv_kernel: int = 4
    full_rank_gate: bool = False

    RULES = ("kda", "gated_delta", "lightning", "mamba2")

    def __post_init__(self) -> None:
        if self.rule not in self.RULES:
            raise UnsupportedModelError(f"linear attention rule {self.rule!r} is not one of {', '.join(self.RULES)}")

    @property
    def label(self) -> str:
        """Name of this kind as a person would say it."""
        return {"kda": "KDA", "gated_delta": "Gated DeltaNet", "lightning": "lightning attention", "mamba2": "Mamba-2"}[self.rule]

    @property
    def conv_channels(self) -> int:
        """Channels of the short convolution [1]."""
        if self.rule == "lightning":
            return 0
        return 2 * self.n_k_heads * self.d_k + self.n_v_heads * self.d_v

    def n_params(self, hidden: int) -> int:
        """Parameters of one layer [1].

        hidden: width of the residual stream [element].
        """
        value, key = self.n_v_heads * self.d_v, self.n_k_heads * self.d_k
        conv = self.conv_kernel * self.conv_channels
        output = value * hidden
        if self.rule == "mamba2":
            return hidden * (2 * value + 2 * key + self.n_v_heads) + conv + output
        if self.rule == "gated_delta":
            return hidden * (2 * key + 2 * value + 2 * self.n_v_heads) + conv + output
        if self.rule == "lightning":
            return hidden * (2 * key + 2 * value) + output
        low_rank = hidden * self.d_k + self.d_k * key  # KDA's decay gate
        gate = hidden * value if self.full_rank_gate else hidden * self.d_v + self.d_v * value
        return hidden * (2 * key + value + self.n_v_heads) + low_rank + gate + conv + output

    def scans(self, kv_dtype: str) -> list[Scan]:
        """What one layer does over its cached entries.

        kv_dtype: cache format.
        """
        del kv_dtype
        return []

    def state_bytes(self) -> float:
        """Recurrent state of one request and layer [B]."""
        recurrent = self.n_v_heads * self.d_k * self.d_v * STATE_BYTES
        return recurrent + max(self.conv_kernel - 1, 0) * self.conv_channels * CONV_BYTES

    def token_flops(self) -> float:
        """FLOPs per token beyond scans and projections, one layer [FLOP]."""
        per_element = 6.0 if self.rule in ("kda", "gated_delta") else 4.0
        recurrence = per_element * self.n_v_heads * self.d_k * self.d_v
        return recurrence + 2.0 * self.conv_kernel * self.conv_channels

    def up_projection_params(self) -> int:
        """Parameters that expand a latent into keys and values, one layer [1]."""
        return 0
