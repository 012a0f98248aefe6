"""The tiers of `data/tiers.csv` for a machine."""

from __future__ import annotations

import math

from physics.catalog import DataError, tier_rows
from physics.machine import Machine
from physics.si import PJ_PER_BIT
from physics.tiers import TIERS, Tier

_TIER_FIELDS = {
    "capacity": ("capacity_bytes", "GB"),
    "bandwidth": ("bytes_per_s", "GB/s"),
    "latency": ("latency_s", "µs"),
    "energy": ("j_per_byte", "pJ/bit"),
    "price": ("usd_per_gb", "USD/GB"),
    "power": ("w_per_gb", "W/GB"),
    "lifetime": ("lifetime_s", "year"),
}
_TIER_UNITS = {"GB": 1e9, "GB/s": 1e9, "µs": 1e-6, "pJ/bit": PJ_PER_BIT, "USD/GB": 1.0, "W/GB": 1.0, "year": 365.25 * 86_400.0}


def load_tiers(machine: Machine) -> tuple[Tier, ...]:
    """Tiers of KV from the top down, per accelerator: HBM from the machine, the others from `data/tiers.csv`; NaN where nothing is known.

    machine: whose memory, rent and scale-out link are used.
    """
    found: dict[str, dict[str, float]] = {name: {} for name in TIERS}
    for row in tier_rows():
        field, unit = _TIER_FIELDS[row["quantity"]]
        if row["unit"] != unit:
            raise DataError(f"tiers.csv: {row['tier']} {row['quantity']} is in {row['unit']!r}, not {unit!r}")
        for name in TIERS if row["tier"] == "all" else (row["tier"],):
            found[name][field] = float(row["value"]) * _TIER_UNITS[unit]
    level = machine.levels.get(("memory", "interface"))
    rent = machine.price_per_hour_usd / 3600.0 * found["hbm"]["lifetime_s"]
    found["hbm"] |= {
        "capacity_bytes": machine.memory_bytes, "bytes_per_s": math.inf, "latency_s": 0.0,
        "j_per_byte": level.j_per_byte if level else math.nan, "usd_per_gb": rent / (machine.memory_bytes / 1e9),
    }  # fmt: skip
    if machine.scale_out_bytes_per_s > 0:
        found["pool"]["bytes_per_s"] = machine.scale_out_bytes_per_s
    return tuple(Tier(name, **values) for name, values in found.items())
