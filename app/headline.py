"""The strip of six numbers on every page: does it fit, how fast, at what cost."""

from __future__ import annotations

import math

from app import estimates
from app.cells import Tile, tile
from app.quantities import format_exact, format_quantity
from app.state import Snapshot
from physics.catalog import glossary

MILLION = 1e6


def tiles(s: Snapshot) -> list[Tile]:
    """The tiles of a snapshot; speeds are withheld where it does not fit."""
    words = glossary()
    turn = s.turn
    per_user = format_quantity(turn.tokens_per_s_per_user, "tokens/s")
    energy = turn.j_per_token * MILLION
    shown = {
        "ttft_s": tile("ttft_s", "TTFT", turn.ttft_s, "s", "bound", _new_tokens(s)),
        "tpot_s": tile("tpot_s", "TPOT", turn.tpot_s, "s", "bound", f"{per_user} a user" if math.isfinite(turn.tpot_s) else ""),
        "tokens_per_s_per_gpu": tile("tokens_per_s_per_gpu", "Decode", turn.tokens_per_s_per_gpu, "tokens/s", "bound", "a GPU, full pipe"),
        "j_per_token": tile("j_per_token", "Energy", energy, "J", "estimate", _joules(s)),
        "usd_per_mtok": tile("usd_per_mtok", "Rent", turn.usd_per_mtok, "$", "bound", _rent(s)),
    }
    shown |= _estimates(s)
    pinned = _pinned(s)
    return [_memory(s), *(_noted(part, words[key]["definition"], pinned.get(key)) for key, part in shown.items())]


def _estimates(s: Snapshot) -> dict[str, Tile]:
    """Tiles that show an estimate as an interval in place of the bound, which moves to the small print."""
    found = {
        "ttft_s": (estimates.ttft(s), "TTFT", "s", s.turn.ttft_s),
        "tpot_s": (estimates.tpot(s), "TPOT", "s", s.turn.tpot_s),
        "tokens_per_s_per_gpu": (estimates.throughput(s), "Decode", "tok/s", s.turn.tokens_per_s_per_gpu),
        "usd_per_mtok": (estimates.rent(s), "Rent", "$", s.turn.usd_per_mtok),
    }
    together = f", {format_exact(s.scenario.batch, 'requests')} together" if s.scenario.batch > 1 else ""
    each = {"ttft_s": together, "tokens_per_s_per_gpu": " a GPU", "usd_per_mtok": " per M tokens"}
    return {
        key: tile(key, label, *interval.text(unit), "estimate", f"bound {format_quantity(bound, unit)}{each.get(key, '')}")
        for key, (interval, label, unit, bound) in found.items()
        if interval is not None and math.isfinite(interval.value)
    }


def _noted(part: Tile, hint: str, pinned: str | None) -> Tile:
    """A tile with its meaning on hover, and the pinned value in its small print."""
    return Tile(**(part | {"hint": hint, "note": f"pinned {pinned}" if pinned else part["note"]}))


def _pinned(s: Snapshot) -> dict[str, str]:
    """Values of the pinned state, as shown, by tile; empty where nothing is pinned."""
    if s.pinned is None:
        return {}
    turn = s.pinned.turn
    return {
        "ttft_s": format_quantity(turn.ttft_s, "s"),
        "tpot_s": format_quantity(turn.tpot_s, "s"),
        "tokens_per_s_per_gpu": format_quantity(turn.tokens_per_s_per_gpu, "tokens/s"),
        "j_per_token": format_quantity(turn.j_per_token * MILLION, "J"),
        "usd_per_mtok": format_quantity(turn.usd_per_mtok, "$"),
    }


def _memory(s: Snapshot) -> Tile:
    memory = s.memory
    size = format_quantity(memory.capacity, "B")
    note = f"of {size} a stage" if memory.fits else f"of {size}: needs {format_exact(memory.min_gpus, 'GPUs')}"
    label = "Fits" if memory.fits else "Does not fit"
    return tile("fits", label, memory.total, "B", "bound", note, glossary()["fits"]["definition"], bad=not memory.fits)


def _new_tokens(s: Snapshot) -> str:
    """What is appended before the first token: by all requests of the batch together."""
    new, old = (format_quantity(value, "tokens") for value in (s.scenario.new_tokens, s.scenario.context_tokens))
    return f"{new} on {old}" if s.scenario.batch == 1 else f"{s.scenario.batch:,} × {new} on {old}"


def _joules(s: Snapshot) -> str:
    """What is counted; no source states the idle power of most machines."""
    return "per M output tokens" if s.scenario.machine.idle_w else "per M output tokens, without idle power"


def _rent(s: Snapshot) -> str:
    price = s.scenario.machine.price_per_hour_usd
    return f"per M tokens at {format_quantity(price, '$/h')}" if price > 0 else "no price known"
