"""A request trace: who asked when, how much of each input was cached already, and which immutable pieces of KV it reads.

A conversation grows by appending, so the KV of a request is a path through a tree: a *strand* is a run of tokens that starts in another
strand (or at nothing) and is only ever appended to. An edit, a compaction or a branch is a new strand that departs from the old one;
what both share is held once. `blobs` cuts the strands where others depart, so that every piece is whole or absent for everyone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from physics._numba import kernel

Array = np.ndarray[Any, Any]

MAX_REQUESTS = 2_000_000
MAX_TOKENS = 100_000_000
TRIM_TOKENS = 1024
"""A tail up to this long, beside the last output, may be rewritten without it counting as another strand: block rounding [token]."""
QUANTITIES = ("input_tokens", "prefix_tokens", "new_tokens", "output_tokens", "idle_s")
PERCENTILES = (1, 10, 25, 50, 75, 90, 99)


@dataclass(frozen=True)
class Blobs:
    """The pieces of KV of a trace, a tree: a request holds the path from its leaf to the root.

    parent: the piece before, -1 at the root, one per piece [1].
    start: first token of each piece, counted from the start of its context [token].
    leaf: piece in which each request ends [1].
    held_tokens: tokens a request leaves cached, its output included where that may be reused [token].
    depth: pieces on the longest path [1].
    """

    parent: Array
    start: Array
    leaf: Array
    held_tokens: Array
    depth: int


@dataclass(frozen=True, eq=False)
class Trace:
    """Requests in the order of their times.

    name: what it is called.
    conversation: number of the conversation, one per request [1].
    branch: number of the branch, a chain of turns: unique over the trace [1].
    time_s: when a request arrives [s].
    input_tokens: whole context sent, cached or not [token].
    prefix_tokens: leading part of it that an unlimited cache would hold [token].
    output_tokens: tokens generated [token].
    strand: strand that each request extends or reads [1].
    strand_parent: strand that each strand departs from, -1 for none [1].
    strand_start: token at which it departs [token].
    relative: whether times count from the start of each conversation.
    keeps_output: whether the output stays cached as part of the context.
    notes: what had to be assumed, a sentence each.
    """

    name: str
    conversation: Array
    branch: Array
    time_s: Array
    input_tokens: Array
    prefix_tokens: Array
    output_tokens: Array
    strand: Array
    strand_parent: Array
    strand_start: Array
    relative: bool = False
    keeps_output: bool = True
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.time_s)

    @property
    def n_conversations(self) -> int:
        """Conversations of the trace."""
        return int(self.conversation.max()) + 1 if len(self) else 0

    @cached_property
    def new_tokens(self) -> Array:
        """Tokens of each request that no cache could hold [token]."""
        return np.asarray(self.input_tokens - self.prefix_tokens)

    @cached_property
    def idle_s(self) -> Array:
        """Seconds since the branch's last request arrived; NaN for its first [s]."""
        order = np.lexsort((np.arange(len(self)), self.branch))
        gaps = np.full(len(self), np.nan)
        same = np.flatnonzero(np.diff(self.branch[order]) == 0)
        gaps[order[same + 1]] = np.diff(self.time_s[order])[same]
        return gaps

    @cached_property
    def blobs(self) -> Blobs:
        """The pieces of KV: strands cut where others depart."""
        return cut_strands(self)

    @property
    def hit_frac(self) -> float:
        """Share of all input tokens that an unlimited cache would serve [1]."""
        total = float(self.input_tokens.sum())
        return float(self.prefix_tokens.sum()) / total if total else float("nan")

    def percentiles(self) -> pd.DataFrame:
        """Mean and percentiles of input, cached prefix, new and output tokens and of the idle time between turns."""
        rows = {}
        for name in QUANTITIES:
            values = getattr(self, name)
            known = values[np.isfinite(values)]
            if known.size:
                rows[name] = [known.mean(), *np.percentile(known, PERCENTILES)]
        return pd.DataFrame.from_dict(rows, orient="index", columns=["mean", *(f"p{p}" for p in PERCENTILES)])

    def started(self, interval_s: float, seed: int = 0) -> Trace:
        """The same requests with conversations that start one after another, for a trace whose times count from each start.

        interval_s: mean seconds between starts, exponentially distributed [s].
        seed: of the random starts [1].
        Raises ValueError for an interval that is no positive number; a trace with a clock of its own comes back as it is.
        """
        if not self.relative:
            return self
        if not 0.0 < interval_s < 1e9:
            raise ValueError(f"interval_s: {interval_s!r} s is outside 0 < value < 1e9 s")
        starts = np.cumsum(np.random.default_rng(seed).exponential(interval_s, self.n_conversations))
        times = self.time_s + starts[self.conversation]
        return self.ordered(np.argsort(times, kind="stable"), times)

    def ordered(self, order: Array, times: Array) -> Trace:
        """The same requests in another order, at other times.

        order: places of the requests, first to last [1].
        times: when each of them arrives, in the present order [s].
        """
        names = ("conversation", "branch", "input_tokens", "prefix_tokens", "output_tokens", "strand")
        return replace(self, **{n: getattr(self, n)[order] for n in names}, time_s=times[order], relative=False)

    def only(self, conversation: int) -> Trace:
        """The requests of one conversation.

        conversation: its number [1].
        """
        keep = np.flatnonzero(self.conversation == conversation)
        return self.ordered(keep, self.time_s)


def from_columns(
    name: str, columns: Mapping[str, Array], relative: bool = False, keeps_output: bool = True, notes: tuple[str, ...] = ()
) -> Trace:
    """A trace of requests without block hashes; what they share is worked out from their recorded prefixes.

    columns: `conversation`, `branch` (both numbers), `time_s`, `input_tokens`, `prefix_tokens`, `output_tokens`, equally long.
    A prefix is sought in the request's own branch, then in the newest strand of its conversation that is long enough; the part that no
    earlier request can have left behind is taken as new, and a note says how much that is.
    """
    order = np.lexsort((np.arange(len(columns["time_s"])), columns["time_s"]))
    arranged = {key: np.ascontiguousarray(np.asarray(values)[order]) for key, values in columns.items()}
    numbers = {key: arranged[key].astype(float) for key in ("time_s", "input_tokens", "prefix_tokens", "output_tokens")}
    conversation = np.unique(arranged["conversation"], return_inverse=True)[1].astype(np.int64)
    pair = np.stack([conversation, arranged["branch"].astype(np.int64)])
    branch = np.unique(pair, axis=1, return_inverse=True)[1].reshape(-1).astype(np.int64)
    found = find_strands(conversation, branch, numbers["input_tokens"], numbers["prefix_tokens"], numbers["output_tokens"] * keeps_output)
    strand, parent, start, located = found
    lost = float((numbers["prefix_tokens"] - located).sum())
    if lost > 0:
        share = lost / max(float(numbers["prefix_tokens"].sum()), 1.0)
        notes = (*notes, f"{share:.2%} of the cached tokens were left by no earlier request of the file; they count as new.")
    numbers["prefix_tokens"] = located
    return Trace(name, conversation, branch, **numbers, strand=strand, strand_parent=parent, strand_start=start, relative=relative,
                 keeps_output=keeps_output, notes=notes)  # fmt: skip


def find_strands(conversation: Array, branch: Array, inputs: Array, prefixes: Array, outputs: Array) -> tuple[Array, Array, Array, Array]:
    """(strand of each request, parent and start of each strand, prefix located) of requests in the order of time.

    conversation, branch: numbers from 0 [1].
    inputs, prefixes, outputs: tokens of each request; outputs 0 where they are not kept [token].
    """
    n = len(inputs)
    strand, located = np.empty(n, np.int64), np.zeros(n)
    parent, start = np.full(n, -1, np.int64), np.zeros(n)
    if n == 0:
        return strand, parent, start, located
    order = np.argsort(conversation, kind="stable")
    count = _find_strands(
        conversation, branch, inputs, np.minimum(prefixes, inputs), outputs, order, int(branch.max()) + 1, strand, parent, start, located
    )
    return strand, parent[:count], start[:count], located


@kernel
def _find_strands(
    conversation: Any, branch: Any, inputs: Any, prefixes: Any, outputs: Any, order: Any, n_branches: int, strand: Any, parent: Any,
    start: Any, located: Any,
) -> int:  # fmt: skip
    present, sent = np.full(n_branches, -1, np.int64), np.zeros(n_branches)
    extent = np.zeros(inputs.size)
    count, first, last = 0, 0, -1
    for place in range(order.size):
        i = order[place]
        if conversation[i] != last:
            first, last = count, conversation[i]
        own, prefix = present[branch[i]], prefixes[i]
        home = -1
        if own >= 0 and prefix <= extent[own]:
            home = own
        elif prefix > 0.0:
            longest = own
            for other in range(count - 1, first - 1, -1):  # the newest that is long enough, or the longest of all
                if extent[other] >= prefix:
                    home = other
                    break
                if longest < 0 or extent[other] > extent[longest]:
                    longest = other
            if home < 0 and longest >= 0:
                home, prefix = longest, min(prefix, extent[longest])
        if home < 0:
            prefix = 0.0
        located[i] = prefix
        if home >= 0 and home == own and prefix > 0.0 and prefix >= sent[branch[i]] - TRIM_TOKENS and prefix > start[home]:
            own = home
        else:
            while home >= 0 and start[home] >= prefix:
                home = parent[home]
            own = count
            count += 1
            parent[own], start[own] = home, prefix if home >= 0 else 0.0
        strand[i], present[branch[i]] = own, own
        extent[own], sent[branch[i]] = inputs[i] + outputs[i], inputs[i]
    return count


def cut_strands(trace: Trace) -> Blobs:
    """Cut strands into pieces at every token where another departs.

    trace: requests with their strands.
    """
    parent, start = trace.strand_parent, trace.strand_start
    n, child = len(parent), np.flatnonzero(parent >= 0)
    owners = np.concatenate([np.arange(n), parent[child]])
    cuts = np.concatenate([start, start[child]])
    pairs = np.unique(np.stack([owners.astype(float), cuts]), axis=1)
    owner, first = pairs[0].astype(np.int64), np.ascontiguousarray(pairs[1])
    heads = np.searchsorted(owner, np.arange(n))
    before = np.arange(len(owner)) - 1
    # The piece before a strand's first one ends where the strand departs, in the strand it departs from.
    before[heads] = -1
    for_child = _piece_of(owner, first, parent[child], start[child])
    before[heads[child]] = for_child
    held = trace.input_tokens + (trace.output_tokens if trace.keeps_output else 0.0)
    leaf = _piece_of(owner, first, trace.strand, held)
    depths = _depths(before)
    return Blobs(before, first, leaf, held, int(depths.max(initial=0)))


def _piece_of(owner: Array, first: Array, strand: Array, token: Array) -> Array:
    """Piece of each strand that holds the token just before `token`; the strand's first one where there is none."""
    order = np.lexsort((token, strand))
    place = np.empty(len(strand), np.int64)
    place[order] = _last_before(owner, first, strand[order], token[order])
    return place


@kernel
def _last_before(owner: Any, first: Any, strand: Any, token: Any) -> Any:
    out, j = np.empty(strand.size, np.int64), 0
    for i in range(strand.size):
        while owner[j] < strand[i]:
            j += 1
        while j + 1 < owner.size and owner[j + 1] == strand[i] and first[j + 1] < token[i]:
            j += 1
        out[i] = j
    return out


@kernel
def _depths(parent: Any) -> Any:
    out = np.zeros(parent.size, np.int64)
    for i in range(parent.size):
        steps, at = 0, i
        while at >= 0:
            if out[at] > 0:
                steps += out[at]
                break
            steps += 1
            at = parent[at]
        out[i] = steps
    return out
