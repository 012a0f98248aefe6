"""The Python lines that reproduce the pictures of the Sessions page."""

from __future__ import annotations

from app.recipe import scenario_lines
from app.sessions import SYNTHETIC, tier_changes
from app.state import Snapshot
from physics.conversation import LIMITS


def trace_lines(s: Snapshot) -> str:
    """The scenario and the trace."""
    view = s.sessions
    own = view.trace.name == view.chosen.trace_file
    source = f"physics.read_trace({view.trace.name!r})" if own else f"physics.synthetic_trace(physics.load_workload(), {SYNTHETIC})"
    return f"{scenario_lines(s.choices)}\ntrace = {source}"


def _clocked(s: Snapshot) -> str:
    view = s.sessions
    start = f".started({3600.0 / view.chosen.conversations_per_h:g})" if view.trace.relative else ""
    return f"{trace_lines(s)}\nclocked = trace{start}"


def mix_lines(s: Snapshot) -> str:
    """The shares of each kind of work."""
    limits = f"{s.sessions.chosen.prefix_limit_tokens:g}, {s.sessions.chosen.large_limit_tokens:g}"
    return f"{trace_lines(s)}\nmix = physics.regime_mix(trace, physics.request_costs(s, trace), {limits})\nmix / mix.sum()"


def timeline_lines(s: Snapshot) -> str:
    """Both timelines."""
    view, how = s.sessions, ""
    if view.chosen.compaction != "none":
        how = f", physics.load_compaction({LIMITS[view.chosen.compaction]}, {view.chosen.summary_tokens or 0:g})"
    number = "conversation.heaviest_conversation(trace)" if view.chosen.conversation == "heaviest" else "0  # choose one"
    return (
        f"{trace_lines(s)}\nfrom physics import conversation\n\nturns = conversation.turns_of(trace, {number})\n"
        f"physics.timeline(s, *turns), physics.timeline(s, *turns{how})"
    )


def _tiers(s: Snapshot) -> str:
    lines = "tiers = physics.load_tiers(s.machine)"
    for name, values in tier_changes(s.sessions.chosen.tiers).items():
        given = ", ".join(f"{field}={value:g}" for field, value in values.items())
        lines += f"\ntiers = tuple(t.replace({given}) if t.name == {name!r} else t for t in tiers)"
    return lines


def map_lines(s: Snapshot) -> str:
    """The break-even idle times by length."""
    view = s.sessions
    return (
        f"{scenario_lines(s.choices)}\nimport numpy as np\n\n{_tiers(s)}\n"
        f"costs = physics.waiting_costs(s, tiers, np.geomspace(1e3, 1e6, 61), {view.measure!r}, {view.chosen.stall_frac:g})\n"
        "costs.break_evens()"
    )


def reuse_lines(s: Snapshot) -> str:
    """The probability of another use."""
    return f"{_clocked(s)}\nimport numpy as np\n\nphysics.reuse(clocked).probability(np.geomspace(1, 1e8, 97))"


def curve_lines(s: Snapshot) -> str:
    """The working-set curve."""
    size = f"a token is {s.sessions.token_bytes:g} B"
    return f"{_clocked(s)}\nimport numpy as np\n\nphysics.hit_curve(clocked, np.geomspace(3e4, 3e9, 121))  # tokens; {size}"


def replay_lines(s: Snapshot) -> str:
    """The replay under the chosen policy."""
    view = s.sessions
    if view.chosen.policy == "lru":
        room = ", ".join(f"{view.capacity_bytes(tier):g}" for tier in view.kept_tiers)
        names = ", ".join(t.name for t in view.kept_tiers)
        run = f"physics.replay_by_capacity(clocked, [size / {view.token_bytes:g} for size in room])"
        return f"{_clocked(s)}\nroom = [{room}]  # bytes of {names}\n{run}"
    if view.chosen.policy == "ttl":
        return f"{_clocked(s)}\nphysics.replay_by_idle(clocked, [{view.chosen.ttl_s:g}])"
    return (
        f"{_clocked(s)}\nfrom physics.waiting import CLASS_TOKENS\n\n{_tiers(s)}\n"
        f"costs = physics.waiting_costs(s, tiers, CLASS_TOKENS, {view.measure!r}, {view.chosen.stall_frac:g})\n"
        "physics.replay_by_idle(clocked, physics.best_limits(costs, physics.reuse(clocked)))"
    )
