"""Synthetic workloads of agent conversations, from stated distributions; the defaults are fitted on a trace of coding agents.

A conversation has a lognormal number of turns and a lognormal first input. A later turn either appends to all that is cached, or, rarely,
starts again from a part of it, as after an edit, a compaction or a change of tools. Appended tokens and the time between turns are mixtures
of two lognormals: tool output and people. Draws are independent of one another.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from physics.catalog import workload_rows
from physics.traces import TRIM_TOKENS, Trace, from_columns

Array = np.ndarray[Any, Any]

MAX_CONTEXT_TOKENS = 1_000_000
MAX_TURNS = 2000


@dataclass(frozen=True)
class Workload:
    """Distributions of one kind of conversations; mu and sigma are of the natural logarithm.

    turns_mu, turns_sigma: requests per branch [1].
    first_mu, first_sigma: input of the first request, in tokens [1].
    append_1_frac: share of appends of the first kind [1].
    append_1_mu, append_1_sigma, append_2_mu, append_2_sigma: tokens appended by either kind [1].
    output_mu, output_sigma: tokens generated [1].
    idle_1_frac: share of waits of the first kind [1].
    idle_1_mu, idle_1_sigma, idle_2_mu, idle_2_sigma: seconds from a request to the next of its branch [1].
    restart_frac: share of later turns that reuse only a part of the context [1].
    restart_kept_frac: part of the context they reuse, mean [1].
    restart_mu, restart_sigma: new tokens of such a turn [1].
    """

    turns_mu: float
    turns_sigma: float
    first_mu: float
    first_sigma: float
    append_1_frac: float
    append_1_mu: float
    append_1_sigma: float
    append_2_mu: float
    append_2_sigma: float
    output_mu: float
    output_sigma: float
    idle_1_frac: float
    idle_1_mu: float
    idle_1_sigma: float
    idle_2_mu: float
    idle_2_sigma: float
    restart_frac: float
    restart_kept_frac: float
    restart_mu: float
    restart_sigma: float

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            high = 1.0 if name.endswith("frac") else 5.0 if name.endswith("sigma") else 20.0
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= high:
                raise ValueError(f"workload.{name}: {value!r} is not a number from 0 to {high:g}")


def load_workload(name: str = "coding agents") -> Workload:
    """A workload of `data/workloads.csv`; KeyError naming those there are.

    name: its name there.
    """
    rows = workload_rows()
    values = {row["quantity"]: float(row["value"]) for row in rows if row["workload"] == name}
    if not values:
        raise KeyError(f"workload {name!r} is not one of {', '.join(sorted({row['workload'] for row in rows}))}")
    return Workload(**values)


def synthetic_trace(workload: Workload, conversations: int = 200, seed: int = 0, name: str = "synthetic coding agents") -> Trace:
    """A trace of conversations drawn from a workload; its times count from the start of each.

    workload: the distributions.
    conversations: how many [1].
    seed: of the draws; the same gives the same trace [1].
    name: what to call it.
    Raises ValueError for a number of conversations outside 1 to 20,000.
    """
    if not 1 <= conversations <= 20_000:
        raise ValueError(f"conversations: {conversations!r} is outside 1 to 20,000")
    rng, w = np.random.default_rng(seed), workload
    turns = np.clip(np.round(rng.lognormal(w.turns_mu, w.turns_sigma, conversations)), 1, MAX_TURNS).astype(np.int64)
    conversation = np.repeat(np.arange(conversations), turns)
    n, first = len(conversation), np.r_[0, np.cumsum(turns)[:-1]]
    new = _mixture(rng, n, w.append_1_frac, (w.append_1_mu, w.append_1_sigma), (w.append_2_mu, w.append_2_sigma))
    restart = rng.random(n) < w.restart_frac
    new = np.where(restart, rng.lognormal(w.restart_mu, w.restart_sigma, n), new)
    new[first] = rng.lognormal(w.first_mu, w.first_sigma, conversations)
    kept = np.where(restart, w.restart_kept_frac, 1.0)
    kept[first] = 0.0
    new = np.clip(np.round(new), 1, MAX_CONTEXT_TOKENS / 2)
    idle = _mixture(rng, n, w.idle_1_frac, (w.idle_1_mu, w.idle_1_sigma), (w.idle_2_mu, w.idle_2_sigma))
    idle[first] = 0.0
    times = np.cumsum(idle) - np.repeat(np.cumsum(idle)[first], turns)
    prefix = _prefixes(new, kept)
    columns = {
        "conversation": conversation, "branch": conversation, "time_s": np.round(times, 3), "input_tokens": prefix + new,
        "prefix_tokens": prefix, "output_tokens": np.maximum(np.round(rng.lognormal(w.output_mu, w.output_sigma, n)), 1),
    }  # fmt: skip
    return from_columns(name, columns, relative=True, notes=("Drawn from distributions, not recorded.",))


def _prefixes(new: Array, kept: Array) -> Array:
    """Cached tokens of each turn: the kept part of the context before it; a full context starts again from a tenth."""
    prefix, context = np.zeros(len(new)), 0.0
    for i, (added, part) in enumerate(zip(new.tolist(), kept.tolist(), strict=True)):
        context = float(int(context * part))
        if context + added > MAX_CONTEXT_TOKENS:
            context = float(int(context * 0.1))
        prefix[i] = context
        context += added
    return prefix


def _mixture(rng: Any, n: int, share: float, one: tuple[float, float], other: tuple[float, float]) -> Array:
    first = rng.random(n) < share
    return np.asarray(np.where(first, rng.lognormal(*one, n), rng.lognormal(*other, n)))


def fitted_workload(trace: Trace) -> Workload:
    """The distributions fitted on a trace: moments of logarithms, and mixtures by expectation and maximisation.

    A later turn counts as a restart where its cached prefix falls short of the input before by more than TRIM_TOKENS.
    trace: conversations with recorded prefixes, at least 50 later turns with some restarts among them.
    Raises ValueError for a trace that is too small.
    """
    order = np.lexsort((np.arange(len(trace)), trace.branch))
    later = np.flatnonzero(np.diff(trace.branch[order]) == 0) + 1
    rows, before = order[later], order[later - 1]
    first = np.delete(order, later)
    short = trace.prefix_tokens[rows] < trace.input_tokens[before] - TRIM_TOKENS
    if len(rows) < 50 or short.sum() < 2 or len(first) < 2:
        raise ValueError(f"trace: {len(rows)} later turns, {int(short.sum())} of them restarts; a fit needs 50 and 2")
    kept = trace.prefix_tokens[rows][short] / trace.input_tokens[before][short]
    append = _two_lognormals(np.maximum(trace.new_tokens[rows][~short], 1.0))
    idle = _two_lognormals(np.maximum(trace.idle_s[rows], 1e-3))
    turns = np.bincount(trace.branch)
    values = {
        **_log_moments("turns", turns), **_log_moments("first", trace.input_tokens[first]), **_names("append", append),
        **_log_moments("output", np.maximum(trace.output_tokens, 1.0)), **_names("idle", idle),
        "restart_frac": float(short.mean()), "restart_kept_frac": float(kept.mean()),
        **_log_moments("restart", np.maximum(trace.new_tokens[rows][short], 1.0)),
    }  # fmt: skip
    return Workload(**{field.name: values[field.name] for field in fields(Workload)})


def _names(stem: str, mixture: tuple[float, float, float, float, float]) -> dict[str, float]:
    """Field names of a mixture's numbers.

    stem: what is distributed.
    mixture: share of the first part, its mu and sigma, those of the other [1].
    """
    names = (f"{stem}_1_frac", f"{stem}_1_mu", f"{stem}_1_sigma", f"{stem}_2_mu", f"{stem}_2_sigma")
    return dict(zip(names, mixture, strict=True))


def _log_moments(name: str, values: Array) -> dict[str, float]:
    logs = np.log(values)
    return {f"{name}_mu": float(logs.mean()), f"{name}_sigma": float(logs.std())}


def _two_lognormals(values: Array, steps: int = 300) -> tuple[float, float, float, float, float]:
    """Share, mu and sigma of the first, mu and sigma of the second lognormal; the first has the smaller mu."""
    logs, counts = np.unique(np.log(values), return_counts=True)
    middle = float(np.average(logs, weights=counts))
    spread = float(np.sqrt(np.average((logs - middle) ** 2, weights=counts)))
    share, mus, sigmas = 0.5, np.array([middle - spread / 2, middle + spread]), np.full(2, spread)
    for _ in range(steps):
        weights = np.array([share, 1.0 - share])[:, None] / sigmas[:, None]
        density = weights * np.exp(-0.5 * ((logs - mus[:, None]) / sigmas[:, None]) ** 2)
        owned = counts * density / np.maximum(density.sum(axis=0), 1e-300)
        total = owned.sum(axis=1)
        share, mus = float(total[0] / counts.sum()), (owned * logs).sum(axis=1) / total
        sigmas = np.maximum(np.sqrt((owned * (logs - mus[:, None]) ** 2).sum(axis=1) / total), 1e-3)
    if mus[0] > mus[1]:
        share, mus, sigmas = 1.0 - share, mus[::-1], sigmas[::-1]
    return share, float(mus[0]), float(sigmas[0]), float(mus[1]), float(sigmas[1])
