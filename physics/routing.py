"""How tokens choose experts: a frozen description that every regime, the energy model and the sweeps share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from physics.experts import distinct_experts_round_robin, distinct_experts_uniform


@dataclass(frozen=True)
class Routing:
    """Law by which T tokens pick their experts.

    kind: "uniform" (independent tokens, every expert equally likely) or "round_robin" (dealt in perfect balance).
    """

    kind: str = "uniform"

    KINDS = ("uniform", "round_robin")

    def __post_init__(self) -> None:
        if self.kind not in self.KINDS:
            raise ValueError(f"routing: {self.kind!r} is not one of {', '.join(self.KINDS)}")

    @classmethod
    def uniform(cls) -> Routing:
        """Independent tokens, all experts equally likely."""
        return cls("uniform")

    @classmethod
    def round_robin(cls) -> Routing:
        """Perfect balance: min(kT, E) experts awake, the limit that synthetic benchmarks follow."""
        return cls("round_robin")

    @classmethod
    def of(cls, routing: str | Routing) -> Routing:
        """A Routing from its name or itself; ValueError naming the choices otherwise."""
        if isinstance(routing, Routing):
            return routing
        if isinstance(routing, str):
            return cls(routing.strip().lower().replace("-", "_"))
        raise ValueError(f"routing: {routing!r} is neither a name ({', '.join(cls.KINDS)}) nor a physics.Routing")

    def distinct_experts(self, n_experts: Any, top_k: Any, requests: Any, tokens_per_request: Any) -> Any:
        """Expected distinct experts of one layer that a step touches [expert].

        n_experts: routed experts per layer E [1].
        top_k: experts per token k [1].
        requests: requests R in the group [1].
        tokens_per_request: tokens each of them brings [token].
        """
        tokens = np.asarray(requests, float) * np.asarray(tokens_per_request, float)
        with np.errstate(divide="ignore"):  # k = E: log(0), every expert is touched
            if self.kind == "round_robin":
                return distinct_experts_round_robin(n_experts, top_k, tokens)
            return distinct_experts_uniform(n_experts, top_k, tokens)


def expected_distinct_experts(n_experts: Any, top_k: Any, tokens: Any, routing: str | Routing = "uniform") -> Any:
    """Expected distinct experts of one MoE layer that independent tokens touch; arrays broadcast [expert].

    n_experts: routed experts per layer E [1].
    top_k: experts per token k [1].
    tokens: tokens T [token].
    routing: name or `Routing`.

    >>> round(float(expected_distinct_experts(256, 8, 32)), 2)
    163.31
    """
    return Routing.of(routing).distinct_experts(n_experts, top_k, tokens, 1.0)
