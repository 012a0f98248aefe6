"""Tables of the Sessions page: distributions of the trace, what the replay did in each tier, and the tiers' numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd

from app.cells import Column, Row, column
from app.components import Block
from app.quantities import DASH, format_exact, format_quantity
from app.sentences import share_text
from app.sessions import duration, tier_changes
from app.state import Snapshot
from physics.catalog import source_keys, sources
from physics.catalog import tier_rows as sourced_rows
from physics.request_costs import kv_links
from physics.tiers import LABELS, Tier

QUANTITIES: Mapping[str, str] = {
    "input_tokens": "Input", "prefix_tokens": "Cached prefix", "new_tokens": "New tokens", "output_tokens": "Output",
    "idle_s": "Idle between turns",
}  # fmt: skip
_SHOWN = {"mean": "Mean", "p1": "1 %", "p10": "10 %", "p50": "Median", "p90": "90 %", "p99": "99 %"}
PERCENTILE_COLUMNS: list[Column] = [
    column("quantity", "Of a request", align="left"),
    *(column(key, word, hint="" if key == "mean" else "So many of the requests have at most this") for key, word in _SHOWN.items()),
]


def percentile_rows(s: Snapshot) -> list[Row]:
    """Distributions of the trace, a row per quantity."""
    frame = s.sessions.percentiles
    rows = []
    for name, word in QUANTITIES.items():
        if name in frame.index:
            values = [float(frame[key][name]) for key in _SHOWN]
            cells = [
                duration(v) if name == "idle_s" else format_quantity(v, "tokens").replace(" tokens", "").replace(" token", "")
                for v in values
            ]
            rows.append(Row(key=name, cells=[word, *cells], color=""))
    return rows


REPLAY_COLUMNS: list[Column] = [
    column("tier", "Place", align="left"),
    column("found", "Found", hint="Share of all input tokens found there; the last row is what had to be rebuilt"),
    column("loaded", "Loaded", hint="Bytes brought up from there to HBM over the trace"),
    column("down", "Moved on", hint="Bytes moved from there to the next place, or discarded after the last"),
    column("held", "Waiting, mean", hint="Bytes held there on average over the trace"),
    column("peak", "Most at once", hint="By capacity only: a limit of idle time does not bound it"),
    column("room", "Room", hint="Capacity over all accelerators; of HBM, what the weights leave"),
    column("access", "Until usable", hint="Seconds until the trace's median context can be used from there: a bound"),
]


def replay_frame(s: Snapshot) -> pd.DataFrame:
    """What the replay did in each tier, and what it rebuilt; bytes and seconds in base units."""
    view, result, kv = s.sessions, s.sessions.replay, s.sessions.token_bytes
    total = float(view.clocked.input_tokens.sum())
    median = float(np.median(view.clocked.input_tokens))
    access = view.waiting(np.array([median])).access_s[-1, 0] if s.memory.fits else math.nan
    rows = []
    for i, tier in enumerate(view.kept_tiers):
        hits = float(result.hit_tokens[:, i].sum())
        link = 0.0 if i == 0 else median * kv / (tier.bytes_per_s * kv_links(s.scenario)) + float(np.nan_to_num(tier.latency_s))
        rows.append({
            "tier": tier.name, "found_frac": hits / total, "loaded_bytes": hits * kv if i else 0.0,
            "down_bytes": float(result.down_tokens[i]) * kv, "held_bytes": float(result.held_tokens[i]) * kv,
            "peak_bytes": float(result.peak_tokens[i]) * kv, "room_bytes": view.capacity_bytes(tier), "access_s": link,
        })  # fmt: skip
    rebuilt = float(result.rebuilt_tokens.sum())
    rows.append({"tier": "discard", "found_frac": rebuilt / total, "access_s": float(access)})
    return pd.DataFrame(rows)


def replay_rows(s: Snapshot) -> list[Row]:
    """The same as texts."""
    rows = []
    for record in replay_frame(s).to_dict("records"):
        name, rebuilt = str(record["tier"]), record["tier"] == "discard"
        sizes = [
            format_quantity(float(record[key]), "B") for key in ("loaded_bytes", "down_bytes", "held_bytes", "peak_bytes", "room_bytes")
        ]
        over = not rebuilt and record["held_bytes"] > record["room_bytes"]
        sizes[2] += " (more than its room)" if over else ""
        found = share_text(float(record["found_frac"])) + (" rebuilt" if rebuilt else "")
        label = "discarded" if rebuilt else LABELS[name]
        rows.append(Row(key=name, cells=[label, found, *sizes, duration(float(record["access_s"]))], color="prefill" if rebuilt else "hbm"))
    return rows


TIER_FIELDS: Mapping[str, tuple[str, str]] = {
    "capacity_bytes": ("Capacity", "B"),
    "bytes_per_s": ("Bandwidth to HBM", "B/s"),
    "latency_s": ("Latency", "s"),
    "j_per_byte": ("Energy of a move", "J/bit"),
    "usd_per_gb": ("Price of a GB", "$"),
    "w_per_gb": ("Power of holding a GB", "W"),
}
"""Label and unit of each number of a tier; energy is written per bit, as sources do."""
TIER_COLUMNS: list[Column] = [
    column("tier", "Per accelerator", align="left"), *(column(key, label) for key, (label, _) in TIER_FIELDS.items()),
]  # fmt: skip
_QUANTITY = {
    "capacity_bytes": "capacity", "bytes_per_s": "bandwidth", "latency_s": "latency", "j_per_byte": "energy", "usd_per_gb": "price",
    "w_per_gb": "power",
}  # fmt: skip


def tier_value(tier: Tier, field: str) -> str:
    """A number of a tier as text; blank where nothing is known."""
    value = getattr(tier, field)
    if field == "bytes_per_s" and math.isinf(value):
        return "is there"
    if field == "j_per_byte":
        return format_quantity(value / 8.0, "J/bit")
    return DASH if math.isnan(value) else format_quantity(value, TIER_FIELDS[field][1])


def tier_rows(s: Snapshot) -> list[Row]:
    """The tiers with their sources; the user's own numbers are marked."""
    changed = tier_changes(s.sessions.chosen.tiers)
    rows = []
    for tier in s.sessions.tiers:
        own = changed.get(tier.name, {})
        cells = [tier_value(tier, field) + (" (yours)" if field in own else "") for field in TIER_FIELDS]
        rows.append(Row(key=tier.name, cells=[LABELS[tier.name], *cells], color=""))
    return rows


def sources_of(name: str) -> list[Block]:
    """Blocks of the side panel: each number of a tier with its source and note."""
    if name == "hbm":
        text = "Capacity, bandwidth and energy are the machine's; the price is its rent over the time the other tiers are written off."
        return [Block(kind="text", text=text)]
    rows = [row for row in sourced_rows() if row["tier"] in (name, "all")]
    terms = []
    for row in rows:
        key = next(iter(source_keys(row["source"])))
        made = f"; {row['derivation']}" if row["derivation"] else ""
        terms.append(
            (row["quantity"], f"{row['value']} {row['unit']}", row["note"] + made, f"{row['confidence']}: {sources()[key]['citation']}")
        )
    unknown = [label.lower() for key, (label, _) in TIER_FIELDS.items() if _QUANTITY[key] not in {row["quantity"] for row in rows}]
    blocks = [Block(kind="terms", rows=terms)]
    if unknown:
        blocks.append(
            Block(kind="text", text=f"No source was found for: {', '.join(unknown)}. A blank counts as nothing until you give it.")
        )
    return blocks


def tier_frame(s: Snapshot) -> pd.DataFrame:
    """The tiers' numbers in base units, with sources."""
    cited = {t.name: "; ".join(row["source"] for row in sourced_rows() if row["tier"] == t.name) for t in s.sessions.tiers}
    rows = [{"tier": t.name} | {field: getattr(t, field) for field in TIER_FIELDS} | {"source": cited[t.name]} for t in s.sessions.tiers]
    return pd.DataFrame(rows)


def typed_unit(field: str) -> str:
    """Unit in which a number of a tier is typed."""
    return TIER_FIELDS[field][1]


def from_typed(field: str, value: float) -> float:
    """A typed number in base units of `Tier`."""
    return value * 8.0 if field == "j_per_byte" else value


def example(tier: Tier, field: str) -> str:
    """What the field shows while nothing is typed."""
    value = getattr(tier, field)
    if math.isnan(value):
        return "not stated"
    return format_exact(value / 8.0 if field == "j_per_byte" else value, TIER_FIELDS[field][1])
