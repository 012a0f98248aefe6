"""The answers of the Sessions page in words, **bold** where a number changes."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from app.quantities import format_quantity
from app.sentences import bold, first_share, share_text
from app.sessions import CAPACITY_TOKENS, IDLE, PREFIXES, SessionsView, duration
from app.state import Snapshot
from physics.conversation import LIMITS, cached_frac
from physics.regimes import REGIMES
from physics.tiers import LABELS, least_loading_bytes_per_s

REBUILT = (
    "A rebuilt cache may differ subtly from the original (another batch, another order of sums), so services differ in how freely "
    "they discard."
)


def _tokens(value: float) -> str:
    return bold(format_quantity(value, "tokens"))


def _number(value: float, unit: str) -> str:
    return bold(format_quantity(value, unit))


def trace(s: Snapshot) -> str:
    """Which requests these are, and what an unlimited cache would find."""
    own = s.sessions.trace
    what = f"{bold(own.name)}: {bold(f'{len(own):,}')} requests of {bold(f'{own.n_conversations:,}')} conversations"
    if not s.sessions.chosen.trace_file or own.name != s.sessions.chosen.trace_file:
        what += ", drawn from distributions fitted on a recorded trace of coding agents; load your own below"
    missing = s.sessions.chosen.trace_file and own.name != s.sessions.chosen.trace_file
    lost = f" The link was made with {bold(s.sessions.chosen.trace_file[:60])}, which this session does not have." if missing else ""
    notes = " ".join(own.notes[:4]) if s.sessions.chosen.trace_file and not missing else ""
    return f"{what}. An unlimited cache would find {bold(f'{100 * own.hit_frac:.1f} %')} of all input tokens.{lost} {notes}".strip()


def mix(s: Snapshot) -> str:
    """How much of everything is midfill: many small ones, and few large ones that carry most tokens."""
    view = s.sessions
    shares, fills = view.shares, view.mix.loc[["prefill", "midfill", "midfill_large"]]
    midfills = float(shares.requests["midfill"] + shares.requests["midfill_large"])
    added = fills.tokens / max(float(fills.tokens.sum()), 1.0)
    new = view.trace.new_tokens
    large = new > view.chosen.large_limit_tokens
    carried = float(new[large].sum() / max(new.sum(), 1.0))
    decode = float(shares.loc["decode_attention":, "seconds"].sum()) if s.memory.fits else math.nan
    energy = float(shares.loc["decode_attention":, "joules"].sum())
    time = f"{bold(share_text(decode))} of the machine time and " if math.isfinite(decode) else ""
    return (
        f"{first_share(midfills)} of requests are midfills: they append to more than {_tokens(view.chosen.prefix_limit_tokens)} that "
        f"are cached. {first_share(float(shares.requests['midfill']))} append at most {_tokens(view.chosen.large_limit_tokens)}. But "
        f"the {bold(share_text(float(large.mean())))} of requests that bring more carry {bold(share_text(carried))} of all new tokens: "
        f"{bold(share_text(float(added['midfill_large'])))} in large midfills, the rest in prompts with less in the cache. "
        f"Decode takes {time}{bold(share_text(energy))} of the joules."
    )


def density(s: Snapshot) -> str:
    """The typical request, and what an agent's append means to the machine."""
    view = s.sessions
    fills = view.trace.prefix_tokens > view.chosen.prefix_limit_tokens
    if not fills.any():
        return f"No request of this trace has more than {_tokens(view.chosen.prefix_limit_tokens)} cached: nothing here is a midfill."
    new, prefix = float(np.median(view.trace.new_tokens[fills])), float(np.median(view.trace.prefix_tokens[fills]))
    typical = f"The median midfill appends {_tokens(new)} to {_tokens(prefix)}"
    at = _at_ridge(view, prefix, float(s.results["ridge_flops_per_byte"][REGIMES.index("midfill")]))
    if not math.isfinite(at):
        return f"{typical}. Filled alone, memory limits all of them: none below a million tokens would be limited by arithmetic."
    above = float((view.trace.new_tokens[fills] > at).mean())
    side = "above" if new > at else "below"
    return (
        f"{typical}, {side} the {_tokens(at)} from which arithmetic, not memory, limits a fill on its own (the ridge). "
        f"{first_share(above)} of midfills append more than that."
    )


def _at_ridge(view: SessionsView, prefix: float, ridge: float) -> float:
    """New tokens at the ridge for one prefix, between the prefixes the lines are drawn for."""
    lines = view.new_tokens_at_intensity(ridge, PREFIXES)
    return float(np.interp(math.log(max(prefix, 1.0)), np.log(PREFIXES), lines))


def context(s: Snapshot) -> str:
    """When compaction pays, and what it costs in hit rate."""
    view = s.sessions
    turns, longest = len(view.plain), float(view.plain["context_tokens"].max())
    published = s.scenario.model.max_context
    beyond = f", beyond the {_tokens(published)} that {s.scenario.model.name} was published for" if 0 < published < longest else ""
    grown = f"Over {bold(f'{turns:,}')} turns the context grows to {_tokens(longest)}{beyond}"
    if view.chosen.compaction == "none":
        return f"{grown}; it is never compacted."
    limit = _tokens(LIMITS[view.chosen.compaction])
    count = int(view.compacted["compacted"].sum())
    if not count:
        return f"{grown}, so a limit of {limit} is never reached."
    hits = [f"{100 * cached_frac(frame):.1f} %" for frame in (view.plain, view.compacted)]
    times = {1: "once", 2: "twice"}.get(count, f"{count:,} times")
    return (
        f"{grown}; at {limit} it is compacted {bold(times)}. {_pays(s, 'seconds')}, {_pays(s, 'joules', start=False)}. "
        f"The share of input found in the cache falls from {bold(hits[0])} to {bold(hits[1])}.{_unwritten(view)}"
    )


def _pays(s: Snapshot, measure: str, start: bool = True) -> str:
    """After how many turns compaction has paid in one measure, and what it saves in the end."""
    if measure == "seconds" and not s.memory.fits:
        return "Seconds are withheld, for it does not fit the memory" if start else "seconds are withheld"
    result = s.sessions.payback(measure)
    words = "In seconds of waiting and decode" if measure == "seconds" else "in joules"
    amount = duration(abs(result.saved)) if measure == "seconds" else format_quantity(abs(result.saved), "J")
    if not result.repaid_at_turn:
        return f"{words} it does not pay: it costs {bold(amount)} more by the end"
    later = result.repaid_at_turn - result.spent_at_turn
    when = "within the same turn" if later == 0 else f"after {bold(f'{later:,}')} more turn{'s' if later > 1 else ''}"
    end = f"saves {bold(amount)}" if result.saved >= 0 else f"costs {bold(amount)} more"
    return f"{words} it pays {when} and {end} by the end"


def _unwritten(view: SessionsView) -> str:
    return "" if view.chosen.summary_tokens else " Writing the summary is not counted: no trace shows its length; give one."


def waits(s: Snapshot) -> str:
    """What a long context does to a turn."""
    if not s.memory.fits:
        return "It does not fit the memory: seconds are withheld."
    frame = s.sessions.plain
    half = max(len(frame) // 10, 1)
    early, late = frame.iloc[:half], frame.iloc[-half:]
    seconds = [float((part["ttft_s"] + part["decode_s"]).median()) for part in (early, late)]
    share = float(late["decode_s"].sum() / (late["ttft_s"] + late["decode_s"]).sum())
    return (
        f"Never compacted, a turn takes {bold(duration(seconds[0]))} among the first tenth and {bold(duration(seconds[1]))} among the "
        "last; "
        f"there {bold(share_text(share))} of it is decode. Bounds: a fill alone, decode in a group of {bold(f'{s.scenario.batch:,}')}."
    )


def where(s: Snapshot) -> str:
    """Break-even idle times at the present context, and the link below which loading never pays."""
    view = s.sessions
    costs = view.waiting(np.array([float(s.scenario.context_tokens)]))
    chosen = costs.cheapest(np.geomspace(1e-3, 1e10, 400))[:, 0]
    order = list(dict.fromkeys(chosen.tolist()))
    pairs = costs.break_evens()
    steps = [
        f"{_leaving(costs.places[a], costs.places[b])} after {bold(duration(float(pairs[costs.places[a], costs.places[b]][0])))}"
        for a, b in pairwise(order)
    ]
    unit = "in dollars" if view.measure == "usd" else "in joules"
    if view.chosen.waiting_measure == "usd" and not view.weighable:
        unit = f"in joules, for no rent of {s.scenario.machine.name} is known"
    head = f"Weighed {unit}, {_tokens(s.scenario.context_tokens)} of KV ({_number(s.scenario.context_tokens * view.token_bytes, 'B')})"
    body = f" should {', '.join(steps)}." if steps else f" should stay in {bold(LABELS[costs.places[order[0]]])}, however long idle."
    link = float(least_loading_bytes_per_s(s.scenario.context_tokens * view.token_bytes, costs.access_s[-1, 0]))
    loads = f" Loading is faster than rebuilding above {_number(link, 'B/s')}." if math.isfinite(link) and s.memory.fits else ""
    free = (
        " No power of holding is stated, so holding costs no joules."
        if view.measure == "joules" and not (costs.holding_per_s > 0).any()
        else ""
    )
    discards = f" {REBUILT}" if costs.places[order[-1]] == "discard" else ""
    return head + body + loads + free + discards


def _leaving(place: str, other: str) -> str:
    return f"leave {LABELS[place]} to be discarded" if other == "discard" else f"leave {LABELS[place]} for {LABELS[other]}"


def reuse(s: Snapshot) -> str:
    """How likely a context comes back, fresh and after an hour."""
    now, hour = (float(np.interp(math.log(t), np.log(IDLE), s.sessions.reused)) for t in (1.0, 3600.0))
    idle = s.sessions.percentiles
    if "idle_s" not in idle.index:
        return "No turn of this trace follows another, so no context is ever used again."
    half = duration(float(idle["p50"]["idle_s"]))
    later = f"of those still idle after an hour {bold(share_text(hour))} do" if math.isfinite(hour) else "none is idle for an hour"
    return f"{first_share(now)} of contexts idle for a second are used again, half of the turns within {bold(half)}; {later}."


def working_set(s: Snapshot) -> str:
    """How much cache most of the hits need, and what HBM has."""
    view = s.sessions
    curve, sizes = view.curve, CAPACITY_TOKENS * view.token_bytes
    if not curve[-1] > 0:
        return "Nothing of this trace is ever sent twice: no cache can find anything."
    need = float(np.interp(0.95 * curve[-1], curve, sizes))
    room = view.capacity_bytes(view.tiers[0])
    found = float(np.interp(room, sizes, curve, left=0.0))
    own = (
        f"HBM has {_number(room, 'B')} beside the weights and finds {bold(share_text(found))}"
        if room > 0
        else "HBM has no room beside the weights"
    )
    clock = (
        f", with {bold(format_quantity(view.chosen.conversations_per_h, ''))} conversations starting an hour" if view.trace.relative else ""
    )
    return f"95 % of what can be found needs {_number(need, 'B')}{clock}; {own}."


def replay(s: Snapshot) -> str:
    """What the policy finds and what it costs per request."""
    view, result = s.sessions, s.sessions.replay
    words = {"thresholds": "With the thresholds of least cost", "lru": "With least recently used", "ttl": "With a time to live of "}[
        view.chosen.policy
    ]
    if view.chosen.policy == "ttl":
        words += bold(duration(view.chosen.ttl_s))
    one = result.n_rebuilds == 1
    rebuilt = f"{bold(f'{result.n_rebuilds:,}')} request{'' if one else 's'} rebuild{'s' if one else ''} lost KV"
    costs = view.costs
    mean = float((costs.load_s + costs.fill_s).mean())
    time = f", {bold(duration(mean))} a request to load and fill" if s.memory.fits else ""
    joules = f"{_number(float((costs.load_j + costs.fill_j).mean()), 'J')} each"
    discards = f" {REBUILT}" if result.n_rebuilds else ""
    return f"{words}, {bold(f'{100 * result.hit_frac:.1f} %')} of input tokens are found; {rebuilt}{time}, {joules}.{discards}"


def tiers(s: Snapshot) -> str:
    """What is not known and would change the picture."""
    blank = [LABELS[t.name] for t in s.sessions.tiers if math.isnan(t.capacity_bytes)]
    asked = f" No source states a capacity of {bold(', '.join(blank))}: give one to use it in the replay by capacity." if blank else ""
    powers = all(math.isnan(t.w_per_gb) for t in s.sessions.tiers)
    held = " No power of holding is stated either: joules count it once you give it." if powers else ""
    return f"Per accelerator; click a number for its source. A blank counts as nothing.{asked}{held}"
