"""Joules of each regime, by the level that spends them or by what is moved, per step, per token or per request."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from physics.regimes import REGIMES, regime_arrays
from physics.scenario import Scenario

LEVELS = ("memory", "scale_up", "scale_out", "flop", "idle")
"""Where joules are spent: main memory, links inside a domain, links between domains, arithmetic, idle power."""
CAUSES = ("weights", "kv", "activation", "network", "flop", "idle")
"""What joules are spent on."""
PER = ("step", "token", "request")


def units_of_work(scenario: Scenario, per: str) -> np.ndarray:
    """What the joules of a step are divided by, for each regime [1].

    A step of a group; a token (of the prompt, appended, or generated); a request (its whole prompt, its whole midfill, or all its
    output tokens, each at the scenario's context).
    per: "step", "token" or "request"; ValueError otherwise.
    """
    s = scenario
    if per not in PER:
        raise ValueError(f"per: {per!r} is not one of {', '.join(PER)}")
    tokens = {"prefill": s.prefill_tokens, "midfill": s.new_tokens}
    if per == "step":
        return np.ones(len(REGIMES))
    if per == "token":
        return np.array([s.batch * tokens.get(name, 1) for name in REGIMES], float)
    return np.array([s.batch if name in tokens else s.batch / s.output_tokens for name in REGIMES], float)


def _frame(parts: dict[str, np.ndarray], s: Scenario, per: str) -> pd.DataFrame:
    divisor = units_of_work(s, per)
    frame = pd.DataFrame({name: values / divisor for name, values in parts.items()}, index=pd.Index(REGIMES, name="regime"))
    return frame.assign(total=frame.sum(axis=1, skipna=False))


def energy_by_level(scenario: Scenario, per: str = "step") -> pd.DataFrame:
    """Joules of each regime by the level that spends them; `total` is their sum [J].

    All under the scenario's accounting, as far as the levels have it: `machine.levels` says what each value includes.
    scenario: frozen inputs.
    per: "step", "token" or "request", see `units_of_work`.
    """
    s, levels = scenario, scenario.machine.levels
    now = regime_arrays(s)
    out = levels.get(("scale_out", s.energy_accounting))
    # With scale-out priced at nothing, what is left of the network's joules is scale-up.
    free = levels if out is None else dict(levels) | {("scale_out", s.energy_accounting): replace(out, j_per_byte=0.0)}
    inside = regime_arrays(s.replace(machine=s.machine.replace(levels=free)))["energy_network_j"]
    parts = {
        "memory": now["energy_weights_j"] + now["energy_kv_j"] + now["energy_activation_j"],
        "scale_up": inside,
        "scale_out": now["energy_network_j"] - inside,
        "flop": now["energy_flop_j"],
        "idle": now["energy_idle_j"],
    }
    return _frame(parts, s, per)


def energy_by_cause(scenario: Scenario, per: str = "step") -> pd.DataFrame:
    """Joules of each regime by what they are spent on; `total` is their sum [J].

    scenario: frozen inputs.
    per: "step", "token" or "request", see `units_of_work`.
    """
    now = regime_arrays(scenario)
    return _frame({name: np.asarray(now[f"energy_{name}_j"]) for name in CAUSES}, scenario, per)
