"""Midfill's core: computation and data movement of LLM inference in four regimes, from first principles.

Numbers only. Base SI units, no prefixes. Bounds are bounds: nothing here is an estimate unless it says so.
"""

from __future__ import annotations

from collections.abc import Callable

from physics._numba import compiling_note
from physics.attention import absorb_crossover_tokens
from physics.calibrated import load_efficiencies
from physics.catalog import load_machine, load_model, presets
from physics.coincidence import OverlapLaw
from physics.conversation import Compaction, load_compaction, payback, timeline
from physics.crossings import crossings, find_crossings
from physics.efficiency import Efficiencies, PartEfficiency
from physics.expert_energy import ExpertEnergy, advantage_map, expert_curves, expert_energy
from physics.expert_memory import EnergyRatio, SramExperts, energy_ratio, sram_chips, with_wire_energy
from physics.experts import distinct_experts_sd, expert_intensity, shared_expert_probability, tokens_at_half_ceiling, tokens_at_ridge
from physics.fanout import groups_per_token, queue_probabilities, shared_expert_probability_skewed, tokens_per_touched_expert
from physics.formats import WeightFormats
from physics.inclusion import SIGMA_PRESETS, inclusion_probabilities
from physics.joules import energy_by_cause, energy_by_level
from physics.layers import (
    CompressedAttention,
    DenseFFN,
    GroupedQueryAttention,
    LatentAttention,
    LayerGroup,
    MoEFFN,
    UnsupportedModelError,
)
from physics.machine import EnergyLevel, Machine
from physics.machine_reader import machine_from_numbers, read_machines
from physics.memory import StageMemory, stage_memory
from physics.model import Model
from physics.observed import ObservedRouting
from physics.pipeline import kv_crossover_depth
from physics.readers import UnreadableFileError, read_routing
from physics.recurrent import LinearAttention
from physics.regimes import REGIMES, regimes
from physics.replay import Replay, hit_curve, replay_by_capacity, replay_by_idle
from physics.request_costs import regime_mix, replay_costs, request_costs
from physics.routing import Routing, expected_distinct_experts
from physics.sampling import sampled_distinct, sampled_experts, sampled_groups_per_token
from physics.scenario import Scenario
from physics.stragglers import (
    Placement,
    balanced_placement,
    contiguous_placement,
    expected_max_distinct_experts,
    expected_max_tokens,
    hottest_expert_tokens,
    replicated_placement,
)
from physics.sweep import SweepCancelledError, sweep, sweep_arrays
from physics.synthetic import fitted_workload, load_workload, synthetic_trace
from physics.tier_catalog import load_tiers
from physics.tiers import Tier, break_even_idle_s, least_loading_bytes_per_s
from physics.trace_readers import read_trace
from physics.traces import Trace
from physics.turn import Turn, turn
from physics.waiting import best_limits, reuse, waiting_costs

__version__ = "0.1.0"

__all__ = [
    "REGIMES",
    "SIGMA_PRESETS",
    "Compaction",
    "CompressedAttention",
    "DenseFFN",
    "Efficiencies",
    "EnergyLevel",
    "EnergyRatio",
    "ExpertEnergy",
    "GroupedQueryAttention",
    "LatentAttention",
    "LayerGroup",
    "LinearAttention",
    "Machine",
    "MoEFFN",
    "Model",
    "ObservedRouting",
    "OverlapLaw",
    "PartEfficiency",
    "Placement",
    "Replay",
    "Routing",
    "Scenario",
    "SramExperts",
    "StageMemory",
    "SweepCancelledError",
    "Tier",
    "Trace",
    "Turn",
    "UnreadableFileError",
    "UnsupportedModelError",
    "WeightFormats",
    "advantage_map",
    "balanced_placement",
    "best_limits",
    "break_even_idle_s",
    "contiguous_placement",
    "crossings",
    "distinct_experts_sd",
    "energy_by_cause",
    "energy_by_level",
    "energy_ratio",
    "expected_distinct_experts",
    "expected_max_distinct_experts",
    "expected_max_tokens",
    "expert_curves",
    "expert_energy",
    "expert_intensity",
    "find_crossings",
    "fitted_workload",
    "groups_per_token",
    "hit_curve",
    "hottest_expert_tokens",
    "inclusion_probabilities",
    "kv_crossover_depth",
    "least_loading_bytes_per_s",
    "load_compaction",
    "load_efficiencies",
    "load_machine",
    "load_model",
    "load_tiers",
    "load_workload",
    "machine_from_numbers",
    "midfill_absorb_crossover",
    "payback",
    "presets",
    "queue_probabilities",
    "read_machines",
    "read_routing",
    "read_trace",
    "regime_mix",
    "regimes",
    "replay_by_capacity",
    "replay_by_idle",
    "replay_costs",
    "replicated_placement",
    "request_costs",
    "reuse",
    "sampled_distinct",
    "sampled_experts",
    "sampled_groups_per_token",
    "shared_expert_probability",
    "shared_expert_probability_skewed",
    "sram_chips",
    "stage_memory",
    "sweep",
    "sweep_arrays",
    "synthetic_trace",
    "timeline",
    "tokens_at_half_ceiling",
    "tokens_at_ridge",
    "tokens_per_touched_expert",
    "turn",
    "waiting_costs",
    "warm_up",
    "with_wire_energy",
]


def midfill_absorb_crossover(model: Model) -> float:
    """New tokens above which a midfill expands the latents instead of absorbing them; NaN without dense MLA [token].

    c(d_n + d_v) / ((2c + r) - (d_n + r + d_v)) at a long prefix. DeepSeek-V3: 170.67.
    model: any model; the first dense latent-attention group speaks for it.
    """
    for group in model.groups:
        attention = group.attention
        if isinstance(attention, LatentAttention) and not attention.chosen_tokens:
            return float(absorb_crossover_tokens(attention.kv_rank, attention.d_nope, attention.d_rope, attention.d_v))
    return float("nan")


def warm_up(say: Callable[[str], object] | None = None) -> None:
    """Compile, or load from the cache, every kernel a first click needs.

    say: called with one sentence where kernels must be compiled: how long it takes, and where they are kept.
    """
    note = compiling_note()
    if say is not None and note:
        say(note)
    scenario = Scenario(load_model("DeepSeek-V3"), load_machine("H200"), gpus_per_stage=16)
    regimes(scenario)
    sweep_arrays(scenario, batch=[1, 2])
    regimes(scenario.replace(routing=Routing.skewed(sigma=0.7)))
    skewed = scenario.replace(routing=Routing.skewed(sigma=0.7, overlap=OverlapLaw()))
    sweep_arrays(skewed, batch=range(1, 1101))
    placement = replicated_placement([0.5, 0.5], 2, 2)
    expected_max_tokens([0.5, 0.5], placement, [1, 100])
    expected_max_distinct_experts([0.5, 0.5], placement, 100)
    trace = synthetic_trace(load_workload(), 2).started(60.0)
    request_costs(scenario, trace, replay_by_idle(trace, [10.0]))
    hit_curve(trace, [1e6])
