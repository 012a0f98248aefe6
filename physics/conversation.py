"""One conversation turn by turn: context, waiting, joules and KV, and what compaction does to them.

Compaction abandons the cache: the model writes a summary of its context, and the next turn fills that summary and what it reads again, on
what is kept of the beginning, together with its own new tokens. It pays once the turns after it, on a shorter context, have saved what
it cost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from physics.catalog import workload_rows
from physics.regimes import steps_at
from physics.request_costs import fill_costs
from physics.scenario import Scenario
from physics.traces import Trace

Array = np.ndarray[Any, Any]

LIMITS = {"250k": 250_000, "1M": 1_000_000}
"""Practical limits of context at which agents compact [token]."""


@dataclass(frozen=True)
class Compaction:
    """When and how a conversation is compacted; `load_compaction` has measured defaults.

    limit_tokens: context that may not be passed; inf for never [token].
    kept_tokens: beginning of the context, instructions and tools, that stays cached [token].
    refill_tokens: new tokens of the next turn beside its own: the summary and what is read again [token].
    summary_tokens: tokens of the summary that the model writes first; 0 counts no writing [token].
    """

    limit_tokens: float
    kept_tokens: float
    refill_tokens: float
    summary_tokens: float = 0.0

    def __post_init__(self) -> None:
        for name in ("limit_tokens", "kept_tokens", "refill_tokens", "summary_tokens"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
                raise ValueError(f"compaction.{name}: {value!r} is not a number of tokens from 0")
        if self.refill_tokens + self.kept_tokens >= self.limit_tokens:
            raise ValueError(
                f"compaction.limit_tokens: {self.limit_tokens:,.0f} leaves no room beside {self.kept_tokens:,.0f} tokens kept and "
                f"{self.refill_tokens:,.0f} filled again; choose a higher limit, or keep less"
            )


def load_compaction(limit_tokens: float = LIMITS["250k"], summary_tokens: float = 0.0) -> Compaction:
    """Compaction with what coding agents were seen to keep and to fill again.

    limit_tokens: context that may not be passed [token].
    summary_tokens: tokens of the summary that the model writes; no trace shows it, so 0 counts no writing [token].
    """
    seen = {row["quantity"]: float(row["value"]) for row in workload_rows() if row["workload"] == "compaction"}
    return Compaction(limit_tokens, seen["kept_tokens"], seen["refill_tokens"], summary_tokens)


def seen_compactions(trace: Trace, above_tokens: float = 100_000) -> tuple[int, float, float]:
    """(number, median tokens kept, median tokens filled again) of the turns whose input fell below half of the one before [1].

    trace: the requests.
    above_tokens: only contexts longer than this count [token].
    """
    order = np.lexsort((np.arange(len(trace)), trace.branch))
    later = np.flatnonzero(np.diff(trace.branch[order]) == 0) + 1
    rows, before = order[later], trace.input_tokens[order[later - 1]]
    fell = rows[(before > above_tokens) & (trace.input_tokens[rows] < 0.5 * before)]
    if not fell.size:
        return 0, math.nan, math.nan
    return len(fell), float(np.median(trace.prefix_tokens[fell])), float(np.median(trace.new_tokens[fell]))


def turns_of(trace: Trace, conversation: int) -> tuple[Array, Array]:
    """(tokens added to the context, output tokens) of the turns of a conversation's longest branch, as if it had only been appended to.

    A turn that started again from a part of its context adds by how much its input exceeds the one before, one token at least.
    trace: the requests.
    conversation: its number [1].
    """
    own = np.flatnonzero(trace.conversation == conversation)
    if not own.size:
        raise ValueError(f"conversation: {conversation!r} is not one of the {trace.n_conversations:,} of {trace.name}")
    branches, counts = np.unique(trace.branch[own], return_counts=True)
    rows = own[trace.branch[own] == branches[np.argmax(counts)]]
    inputs = trace.input_tokens[rows]
    growth = np.maximum(np.diff(inputs, prepend=0.0), 1.0)
    appended = trace.prefix_tokens[rows] >= np.r_[0.0, inputs[:-1]] - 1024.0
    return np.where(appended, np.minimum(trace.new_tokens[rows], growth), growth), trace.output_tokens[rows]


def heaviest_conversation(trace: Trace) -> int:
    """The conversation that sent most tokens, cached or not [1].

    trace: the requests.
    """
    return int(np.argmax(np.bincount(trace.conversation, trace.input_tokens)))


def timeline(scenario: Scenario, added_tokens: Any, output_tokens: Any, compaction: Compaction | None = None) -> pd.DataFrame:
    """A row per turn: tokens, seconds of waiting, joules and KV of a conversation that only grows, or is compacted.

    The output of a turn is read again as part of what the next one adds, as the agents' traces show. `ttft_s` is the fill alone,
    `decode_s` the output at the pace of a group of `scenario.batch` requests of the same context; a compaction adds the decode of its
    summary to `ttft_s`, for the user waits for it. `joules` is this request's share. Bounds, not estimates.

    scenario: model, machine and layout, and the group that decodes together.
    added_tokens: tokens each turn adds to the context [token].
    output_tokens: tokens each turn generates [token].
    compaction: when to compact; None: never.
    """
    added, output = np.asarray(added_tokens, float), np.asarray(output_tokens, float)
    if added.ndim != 1 or added.shape != output.shape or not added.size or not (added >= 1).all() or not (output >= 0).all():
        raise ValueError("added_tokens, output_tokens: equally long lists, at least one token added a turn")
    prefix, new, summarised = _contexts(added, compaction)
    context = prefix + new
    fill = fill_costs(scenario, new, prefix)
    batch = float(scenario.batch)
    pace, write = (_decode(scenario, tokens) for tokens in (context + np.maximum(output - 1.0, 0.0) / 2.0, np.maximum(summarised, 1.0)))
    summary = np.where(summarised > 0.0, compaction.summary_tokens, 0.0) if compaction else np.zeros(added.size)
    return pd.DataFrame(
        {
            "turn": np.arange(1, added.size + 1),
            "context_tokens": context,
            "prefix_tokens": prefix,
            "new_tokens": new,
            "output_tokens": output,
            "compacted": summarised > 0.0,
            "ttft_s": fill["seconds"] + summary * write["roofline_s"],
            "decode_s": output * pace["roofline_s"],
            "joules": fill["joules"] + (output * pace["energy_j"] + summary * write["energy_j"]) / batch,
            "kv_bytes": context * scenario.kv_token_bytes,
        }
    )


def _decode(scenario: Scenario, context: Array) -> dict[str, Array]:
    steps = steps_at(scenario, float(scenario.batch), np.ones(len(context)), context, split=True)
    return {name: steps[name].sum(axis=0) for name in ("roofline_s", "energy_j")}


def _contexts(added: Array, compaction: Compaction | None) -> tuple[Array, Array, Array]:
    """(cached, new, context that a summary was written of or 0) of each turn."""
    prefix, new, summarised = np.zeros(len(added)), np.zeros(len(added)), np.zeros(len(added))
    context = 0.0
    for i, more in enumerate(added.tolist()):
        if compaction and context + more > compaction.limit_tokens and context > compaction.kept_tokens + compaction.refill_tokens:
            summarised[i], context, more = context, compaction.kept_tokens, more + compaction.refill_tokens
        prefix[i], new[i] = context, more
        context += more
    return prefix, new, summarised


@dataclass(frozen=True)
class Payback:
    """Whether compaction pays in one measure over a conversation.

    spent_at_turn: turn of the first compaction; 0 for none [1].
    repaid_at_turn: first turn by which the whole conversation has cost no more than without; 0 if it never does [1].
    saved: what the conversation costs less in the end, negative where it costs more [s] or [J].
    """

    spent_at_turn: int
    repaid_at_turn: int
    saved: float


def payback(without: pd.DataFrame, compacted: pd.DataFrame, measure: str) -> Payback:
    """When compaction has paid for itself.

    without, compacted: timelines of the same turns.
    measure: "seconds" (waiting and decode) or "joules".
    """
    costs = [f["ttft_s"] + f["decode_s"] if measure == "seconds" else f["joules"] for f in (without, compacted)]
    saved = (costs[0] - costs[1]).cumsum().to_numpy()
    events = np.flatnonzero(compacted["compacted"])
    if not events.size:
        return Payback(0, 0, 0.0)
    repaid = np.flatnonzero(saved[events[0] :] >= 0.0)
    return Payback(int(events[0]) + 1, int(events[0] + repaid[0]) + 1 if repaid.size else 0, float(saved[-1]))


def cached_frac(frame: pd.DataFrame) -> float:
    """Share of a timeline's input tokens that were cached [1].

    frame: see `timeline`.
    """
    return float(frame["prefix_tokens"].sum() / frame["context_tokens"].sum())
