"""What the requests of a trace cost on a scenario's model and machine, and which regime the cost belongs to.

Each request is one fill of its new tokens on its cached prefix, a step of its own, and then its output tokens, each a share of a decode
step of `scenario.batch` requests of its own mean context: for attention that reads its whole cache, a group of mixed contexts costs as
much as the mean of such groups. Bounds, not estimates; whether a group of long contexts fits the memory is not asked here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from physics.regimes import steps_at
from physics.replay import Replay
from physics.scenario import Scenario
from physics.tiers import Tier
from physics.traces import Trace

Array = np.ndarray[Any, Any]

COSTS = ("flops", "bytes", "seconds", "joules")
COLUMNS = {"flops": "flops", "bytes": "bytes", "seconds": "roofline_s", "joules": "energy_j"}
KINDS = ("prefill", "midfill", "midfill_large", "decode_attention", "decode_experts", "decode_shared")
"""Rows of a mix: fills on a short prefix, on a long one, those of them that append much, and the three lines of decode."""
PREFIX_TOKENS = 4096
LARGE_TOKENS = 5000
"""Defaults of what makes a fill a midfill, and a large one [token]."""


@dataclass(frozen=True)
class RequestCosts:
    """Work, bytes, seconds and joules of each request.

    fill: cost -> of the fill, [request].
    decode: cost -> of all output tokens, this request's share of its group, [line of decode, request].
    """

    fill: Mapping[str, Array]
    decode: Mapping[str, Array]

    def total(self, cost: str) -> Array:
        """Fill and decode together, per request [FLOP], [B], [s] or [J].

        cost: one of COSTS.
        """
        return np.asarray(self.fill[cost] + self.decode[cost].sum(axis=0))


def fill_costs(scenario: Scenario, new_tokens: Any, prefix_tokens: Any) -> dict[str, Array]:
    """Cost of filling each request alone: cost -> one number per request [FLOP], [B], [s], [J].

    scenario: model, machine and layout; its batch and tokens are not used.
    new_tokens, prefix_tokens: of each request [token].
    """
    steps = steps_at(scenario, 1.0, new_tokens, prefix_tokens)
    return {cost: steps[column] for cost, column in COLUMNS.items()}


def request_costs(scenario: Scenario, trace: Trace, replay: Replay | None = None) -> RequestCosts:
    """Costs of all requests of a trace.

    scenario: model, machine, layout and the group that decodes together.
    trace: the requests.
    replay: what was found in the tiers; None: all that an unlimited cache would hold.
    """
    new = trace.new_tokens if replay is None else replay.filled_tokens
    fill = fill_costs(scenario, new, trace.input_tokens - new)
    context = trace.input_tokens + np.maximum(trace.output_tokens - 1.0, 0.0) / 2.0
    steps = steps_at(scenario, float(scenario.batch), np.ones(len(trace)), context, split=True)
    shares = trace.output_tokens / scenario.batch
    return RequestCosts(fill, {cost: steps[column] * shares for cost, column in COLUMNS.items()})


def fill_kinds(
    prefix_tokens: Any, new_tokens: Any, prefix_limit_tokens: float = PREFIX_TOKENS, large_limit_tokens: float = LARGE_TOKENS
) -> Array:
    """Kind of each fill: 0 prefill, 1 midfill, 2 midfill that appends much [1].

    prefix_tokens, new_tokens: of each request [token].
    prefix_limit_tokens: a fill on more cached tokens than this is a midfill [token].
    large_limit_tokens: one that appends more than this is a large one [token].
    """
    midfill = np.asarray(prefix_tokens, float) > prefix_limit_tokens
    return np.where(midfill, np.where(np.asarray(new_tokens, float) > large_limit_tokens, 2, 1), 0)


def regime_mix(
    trace: Trace, costs: RequestCosts, prefix_limit_tokens: float = PREFIX_TOKENS, large_limit_tokens: float = LARGE_TOKENS
) -> pd.DataFrame:
    """Requests, tokens, FLOP, bytes, seconds and joules by kind of work: one row for each of KINDS, absolute amounts.

    Tokens are new tokens of fills and output tokens of decode, the latter once, in the row of attention; requests are counted as fills.

    trace: the requests.
    costs: their costs.
    prefix_limit_tokens, large_limit_tokens: what makes a midfill, and a large one [token].
    """
    kinds = fill_kinds(trace.prefix_tokens, trace.new_tokens, prefix_limit_tokens, large_limit_tokens)
    amounts = {"requests": np.ones(len(trace)), "tokens": trace.new_tokens} | dict(costs.fill)
    frame = pd.DataFrame({name: np.bincount(kinds, values, 3) for name, values in amounts.items()}, index=list(KINDS[:3]))
    decode = {"requests": np.zeros(3), "tokens": np.array([trace.output_tokens.sum(), 0.0, 0.0])}
    decode |= {cost: values.sum(axis=1) for cost, values in costs.decode.items()}
    result: pd.DataFrame = pd.concat([frame, pd.DataFrame(decode, index=list(KINDS[3:]))])
    result.index.name = "kind"
    return result


@dataclass(frozen=True)
class ReplayCosts:
    """Seconds and joules of a replay, per request.

    load_s, load_j: bringing found tokens up from the tiers below HBM [s], [J].
    fill_s, fill_j: filling new and lost tokens [s], [J].
    """

    load_s: Array
    load_j: Array
    fill_s: Array
    fill_j: Array


def kv_links(scenario: Scenario) -> int:
    """Links over which the KV of one request reaches its accelerators: one a stage, or all of a stage under tensor parallelism [1]."""
    return scenario.pipeline_depth * (scenario.gpus_per_stage if scenario.attention_parallel == "tensor" else 1)


def replay_costs(scenario: Scenario, replay: Replay, tiers: tuple[Tier, ...]) -> ReplayCosts:
    """Seconds and joules of loading and filling for each request of a replay.

    scenario: model, machine and layout.
    replay: hits by tier, the first being HBM.
    tiers: the same tiers.
    """
    if len(tiers) != replay.hit_tokens.shape[1]:
        raise ValueError(f"tiers: {len(tiers)} for a replay with {replay.hit_tokens.shape[1]}")
    kv, links = scenario.kv_token_bytes, kv_links(scenario)
    load_s, load_j = np.zeros(len(replay.filled_tokens)), np.zeros(len(replay.filled_tokens))
    for tier, hits in list(zip(tiers, replay.hit_tokens.T, strict=True))[1:]:
        seconds = hits * kv / (tier.bytes_per_s * links) + (hits > 0) * np.nan_to_num(tier.latency_s)
        load_s += np.where(hits > 0, seconds, 0.0)
        load_j += np.where(hits > 0, hits * kv * tier.j_per_byte, 0.0)
    fill = fill_costs(scenario, replay.filled_tokens, replay.hit_tokens.sum(axis=1))
    return ReplayCosts(load_s, load_j, fill["seconds"], fill["joules"])
