"""What a user feels and what it costs: TTFT, TPOT, throughput, joules and money of one agent turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from physics.regimes import DECODE, REGIMES, regime_arrays
from physics.scenario import Scenario

_MID = REGIMES.index("midfill")
_DECODE = [REGIMES.index(name) for name in DECODE]


@dataclass(frozen=True)
class Turn:
    """One turn of every request of a group: a midfill, then `output_tokens` decode steps. Bounds, not estimates.

    ttft_s: seconds of the midfill [s].
    tpot_s: seconds of a decode step at the scenario's context [s].
    turn_s: midfill and all output tokens, at the mean context of the decode [s].
    tokens_per_s_per_user: 1 / tpot [token/s].
    tokens_per_s_per_gpu: decode throughput of a full pipe over its accelerators [token/s].
    midfill_j, decode_j: joules of one request's midfill and of its whole decode [J].
    j_per_token: joules of one output token in decode [J/token].
    usd_per_mtok: rent of the accelerators per million output tokens in decode; NaN without a price [USD].
    decode_energy_frac: share of decode in the joules of the turn [1].
    """

    ttft_s: float
    tpot_s: float
    turn_s: float
    tokens_per_s_per_user: float
    tokens_per_s_per_gpu: float
    midfill_j: float
    decode_j: float
    j_per_token: float
    usd_per_mtok: float
    decode_energy_frac: float


def turn(scenario: Scenario) -> Turn:
    """Seconds, throughput, joules and rent of one turn; NaN where the scenario does not fit its memory.

    A full pipe finishes one group per slowest stage, so P groups are P times the throughput of one: tokens per second
    and accelerator are batch / (tpot * G), hops apart.
    scenario: frozen inputs, validated; `turn_s` is NaN where the context grown by the turn no longer fits.
    """
    later = scenario.replace(context_tokens=mean_context_tokens(scenario))
    return turn_of(scenario, regime_arrays(scenario), regime_arrays(later))


def mean_context_tokens(scenario: Scenario) -> int:
    """Context of the mean decode step of a turn: the midfill appended, half of the output written [token].

    scenario: frozen inputs, validated.
    """
    return scenario.context_tokens + scenario.new_tokens + (scenario.output_tokens - 1) // 2


def turn_of(scenario: Scenario, now: Mapping[str, np.ndarray], later: Mapping[str, np.ndarray]) -> Turn:
    """The turn from results that are there already, for example of a sweep.

    scenario: frozen inputs, validated.
    now: columns of `regimes`, one value per regime, at least roofline_s and energy_j [s, J].
    later: the same at `mean_context_tokens` [s, J].
    """
    s = scenario
    tpot, ttft = float(now["roofline_s"][_DECODE].sum()), float(now["roofline_s"][_MID])
    per_gpu = s.batch / (tpot * s.gpus_per_stage)
    midfill_j = float(now["energy_j"][_MID]) / s.batch
    decode_j = float(later["energy_j"][_DECODE].sum()) * s.output_tokens / s.batch
    return Turn(
        ttft_s=ttft,
        tpot_s=tpot,
        turn_s=ttft + s.output_tokens * float(later["roofline_s"][_DECODE].sum()),
        tokens_per_s_per_user=1.0 / tpot,
        tokens_per_s_per_gpu=per_gpu,
        midfill_j=midfill_j,
        decode_j=decode_j,
        j_per_token=float(now["energy_j"][_DECODE].sum()) / s.batch,
        usd_per_mtok=s.machine.price_per_hour_usd / 3600.0 / per_gpu * 1e6,
        decode_energy_frac=decode_j / (decode_j + midfill_j),
    )
