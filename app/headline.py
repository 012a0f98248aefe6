"""The strip of six numbers on every page: does it fit, how fast, at what cost."""

from __future__ import annotations

import math

from app.components import Tile, tile
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
    return [
        _memory(s),
        tile("ttft_s", "TTFT of a midfill", turn.ttft_s, "s", "bound", _new_tokens(s), words["ttft_s"]["definition"]),
        tile("tpot_s", "TPOT", turn.tpot_s, "s", "bound", f"{per_user} per user" if _known(turn.tpot_s) else "", words["tpot_s"]["definition"]),
        tile("tokens_per_s_per_gpu", "Decode per GPU", turn.tokens_per_s_per_gpu, "tokens/s", "bound", "full pipe", words["tokens_per_s_per_gpu"]["definition"]),
        tile("j_per_token", "Energy per M tokens", energy, "J", "estimate", _accounting(s), words["j_per_token"]["definition"]),
        tile("usd_per_mtok", "Rent per M tokens", turn.usd_per_mtok, "$", "bound", _rent(s), words["usd_per_mtok"]["definition"]),
    ]


def _known(value: float) -> bool:
    return math.isfinite(value)


def _memory(s: Snapshot) -> Tile:
    memory = s.memory
    size = format_quantity(memory.capacity, "B")
    note = f"of {size} per stage" if memory.fits else f"of {size}: needs {format_exact(memory.min_gpus, 'GPUs')} per stage"
    label = "Fits" if memory.fits else "Does not fit"
    return tile("fits", label, memory.total, "B", "bound", note, glossary()["fits"]["definition"], bad=not memory.fits)


def _new_tokens(s: Snapshot) -> str:
    return f"{format_quantity(s.scenario.new_tokens, 'tokens')} on {format_quantity(s.scenario.context_tokens, 'tokens')}"


def _accounting(s: Snapshot) -> str:
    return f"decode, bytes at the {s.scenario.energy_accounting}" if s.scenario.energy_accounting == "interface" else f"decode, {s.scenario.energy_accounting}"


def _rent(s: Snapshot) -> str:
    price = s.scenario.machine.price_per_hour_usd
    return f"at {format_quantity(price, '$/h')} per GPU" if price > 0 else "no price known"
