"""The routing of a scenario from plain choices: a name, a number for it, and how much tokens of one request overlap."""

from __future__ import annotations

from dataclasses import replace

import physics

ROUTINGS = {
    "uniform": "uniform",
    "round_robin": "round robin",
    "skewed": "skewed, lognormal",
    "zipf": "skewed, Zipf",
    "loaded": "from your file",
}
"""How experts are chosen, and how each is called."""

OVERLAPS = {"none": "none: independent", "constant": "constant", "measured": "falls with distance, as measured"}
"""How tokens of one request overlap, and how each is called."""

MOST_SLOTS = 4096


def chosen_routing(
    kind: str, sigma: float, zipf: float, overlap: str, overlap_frac: float, loaded: physics.ObservedRouting | None = None, file: str = ""
) -> physics.Routing:
    """The routing that these choices describe; every one is checked, also those without effect now.

    kind: of ROUTINGS. sigma, zipf: of the skewed kinds. overlap: of OVERLAPS. overlap_frac: of the constant one.
    loaded: the user's routing of this session, and `file`, where it came from.
    Raises ValueError with one sentence that says what to change.
    """
    if kind not in ROUTINGS:
        raise ValueError(f"routing: {str(kind)[:40]!r} is not one of {', '.join(ROUTINGS)}")
    within = _overlap(overlap, overlap_frac, loaded if kind == "loaded" else None)
    skewed = {"skewed": physics.Routing.skewed(sigma=sigma), "zipf": physics.Routing.skewed(zipf=zipf)}
    if kind == "loaded":
        if loaded is None:
            named = repr(file[:60]) if file else "a file"
            raise ValueError(f"routing: 'loaded' came from {named}, which this session does not have; load it on the page Experts")
        return loaded.routing(overlap=False) if within is None else replace(loaded.routing(overlap=False), overlap=within)
    return replace(skewed.get(kind) or physics.Routing(kind), overlap=within)


def _overlap(name: str, overlap_frac: float, loaded: physics.ObservedRouting | None) -> float | physics.OverlapLaw | None:
    """None, a constant, or a law: the file's where it has one, else the one measured on gpt-oss-20b."""
    if name not in OVERLAPS:
        raise ValueError(f"request_overlap: {str(name)[:40]!r} is not one of {', '.join(OVERLAPS)}")
    constant = physics.Routing.uniform(overlap=overlap_frac).overlap
    law = (loaded.law if loaded is not None else None) or physics.OverlapLaw()
    return {"none": None, "constant": constant, "measured": law}[name]


def checked_slots(value: int | None) -> int | None:
    """Redundant expert slots: None, or a whole number; ValueError otherwise."""
    if value is not None and (isinstance(value, bool) or not 0 <= value <= MOST_SLOTS or value != int(value)):
        raise ValueError(f"redundant_slots: {value!r} is not a whole number from 0 to {MOST_SLOTS:,}")
    return value
