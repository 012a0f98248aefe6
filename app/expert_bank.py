"""The numbers of the page Experts, each kept by what it depends on, so that a slider recomputes only what it moves.

No GUI library is imported here. A model without routed experts is one expert that every token chooses: its pictures stay drawable,
and the page hides them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache, wraps
from typing import Any, TypeVar

import numpy as np

import physics
from app.state import AXES, Choices, Snapshot
from physics.formats import ACTIVATION_BYTES, OUTPUT_BYTES, WEIGHT_BYTES
from physics.machine import Machine
from physics.model import Model
from physics.sweep import sweep_arrays
from physics.workload import FLOP_CLASSES, formats_in_use

Array = np.ndarray[Any, Any]
T = TypeVar("T")

TOKENS = np.geomspace(1.0, 1e5, 121)
"""Tokens of a step along the curves [token]."""
BATCHES = np.geomspace(1.0, AXES["batch"][1], 97)
"""Batches of the traffic curves [request]."""
QUEUES = np.geomspace(1.0, 1e6, 121)
"""Tokens on one expert along the intensity curve [token]."""
LOAD_TOKENS = np.geomspace(4.0, 1e5, 23)
"""Tokens of a step along the straggler curves [token]."""
PAYS = (0.9, 0.5)
"""Bytes per token, of those of a single request, at which sharing counts as starting to pay, and as halving the traffic."""
STEPS = ("decode_experts", "midfill", "prefill")


def _once(asked: Callable[[Snapshot], T]) -> Callable[[Snapshot], T]:
    """The answer is kept with the snapshot, as its own are: pictures and sentences ask thirty times a step."""
    name = f"bank {asked.__name__}"

    @wraps(asked)
    def kept(s: Snapshot) -> T:
        if name not in s.__dict__:
            s.__dict__[name] = asked(s)
        found: T = s.__dict__[name]
        return found

    return kept


@dataclass(frozen=True)
class Bank:
    """The routed experts of a model's most frequent MoE layer, on its machine.

    n_experts, top_k: E and k. n_layers: layers with this bank. params: parameters of one expert.
    weight_bytes, input_bytes, output_bytes: of one expert, and of one token into and out of it [B].
    ridge: FLOP/B at which the machine's peak for these experts meets its memory roof. arithmetic: the format they compute in.
    """

    n_experts: int
    top_k: int
    n_layers: int
    params: int
    weight_bytes: float
    input_bytes: float
    output_bytes: float
    ridge: float
    arithmetic: str


@_once
def bank(s: Snapshot) -> Bank:
    """The experts of a snapshot; a single one that every token chooses where the model has none."""
    scenario = s.scenario
    return _bank(scenario.model, scenario.machine, scenario.weight_dtype, scenario.compute_dtype, scenario.attention_dtype)


@lru_cache(maxsize=128)
def _bank(model: Model, machine: Machine, weight_dtype: str | None, compute_dtype: str | None, attention_dtype: str | None) -> Bank:
    arithmetic = formats_in_use(model, machine, weight_dtype, compute_dtype, attention_dtype)[FLOP_CLASSES.index("routed")]
    ridge = machine.peaks[arithmetic] / machine.memory_bytes_per_s
    layers: dict[tuple[int, int], int] = {}
    for count, moe in model.moe_groups:
        layers[moe.n_experts, moe.top_k] = layers.get((moe.n_experts, moe.top_k), 0) + count
    if not layers:
        return Bank(1, 1, 0, 1, 1.0, 1.0, 1.0, ridge, arithmetic)
    n_experts, top_k = max(layers, key=lambda key: layers[key])
    moe = next(moe for _, moe in model.moe_groups if (moe.n_experts, moe.top_k) == (n_experts, top_k))
    params, width = moe.expert_params(model.hidden), moe.expert_input_width(model.hidden)
    weight_bytes = params * WEIGHT_BYTES[model.weight_formats(weight_dtype).routed]
    moved = width * ACTIVATION_BYTES[arithmetic], width * OUTPUT_BYTES
    return Bank(n_experts, top_k, layers[n_experts, top_k], params, weight_bytes, *moved, ridge, arithmetic)


# ------------------------------------------------------------------------------------------------------------------ routings
@_once
def routing_of(s: Snapshot) -> physics.Routing:
    """The routing in force."""
    return physics.Routing.of(s.scenario.routing)


@dataclass(frozen=True)
class Laws:
    """The routings whose lines are compared: uniform and round robin always, and these.

    skew: tokens of independent requests. within: tokens of one request. skew_name, within_name: as they are called beside a line.
    supposed: whether the scenario is not skewed, so that the skew is only what it would be; supposed_overlap: likewise its overlap.
    """

    skew: physics.Routing
    within: physics.Routing
    skew_name: str
    within_name: str
    supposed: bool
    supposed_overlap: bool


@_once
def laws(s: Snapshot) -> Laws:
    """The routings compared. A scenario without skew or overlap is compared with the sliders' skew and the measured overlap."""
    routing = routing_of(s)
    supposed, supposed_overlap = routing.kind in physics.Routing.NAMES, routing.overlap is None
    skew = physics.Routing.skewed(sigma=s.choices.routing_sigma) if supposed else replace(routing, overlap=None)
    if supposed_overlap:
        within = replace(skew, overlap=physics.OverlapLaw())
    else:
        within = physics.Routing.uniform(overlap=routing.overlap) if supposed else routing
    name = skew_name(s.choices) if not supposed else f"if skewed σ {s.choices.routing_sigma:g}"
    return Laws(skew, within, name, "if one request" if supposed_overlap else "one request", supposed, supposed_overlap)


def skew_name(choices: Choices) -> str:
    """The skew of these choices in two words."""
    return {"skewed": f"skewed σ {choices.routing_sigma:g}", "zipf": f"Zipf {choices.routing_zipf:g}", "loaded": "your file"}.get(
        choices.routing, f"σ {choices.routing_sigma:g}"
    )


def key(s: Snapshot) -> tuple[Any, ...]:
    """All that lines over tokens hang on: a slider that moves none of it moves no such line."""
    scenario, choices = s.scenario, s.choices
    skew = choices.routing, choices.routing_sigma, choices.routing_zipf
    pinned = None if s.pinned is None else key(s.pinned)
    return bank(s), routing_of(s), scenario.batch, scenario.new_tokens, scenario.prefill_tokens, *skew, pinned


LINES = ("round_robin", "uniform", "skew", "within")


def distinct_curves(s: Snapshot) -> dict[str, Array]:
    """Distinct experts of one layer along TOKENS by line, and sd, the standard deviation of the skewed line [expert]."""
    held, compared = bank(s), laws(s)
    return {
        "round_robin": _distinct(physics.Routing.round_robin(), held.n_experts, held.top_k, False),
        "uniform": _distinct(physics.Routing.uniform(), held.n_experts, held.top_k, False),
        "skew": _distinct(compared.skew, held.n_experts, held.top_k, False),
        "within": _distinct(compared.within, held.n_experts, held.top_k, True),
        "sd": _sd(compared.skew, held.n_experts, held.top_k),
    }


@lru_cache(maxsize=256)
def _distinct(routing: physics.Routing, n_experts: int, top_k: int, one_request: bool) -> Array:
    requests, tokens = (1.0, TOKENS) if one_request else (TOKENS, 1.0)
    return np.asarray(routing.distinct_experts(n_experts, top_k, requests, tokens), float)


@lru_cache(maxsize=64)
def _sd(routing: physics.Routing, n_experts: int, top_k: int) -> Array:
    return np.asarray(routing.distinct_experts_sd(n_experts, top_k, TOKENS, 1.0), float)


def distinct_at(routing: physics.Routing, held: Bank, requests: float, tokens: float) -> float:
    """Distinct experts of one layer for R requests of m tokens each [expert]."""
    return float(routing.distinct_experts(held.n_experts, held.top_k, float(requests), float(tokens)))


# --------------------------------------------------------------------------------------------------------------------- steps
@dataclass(frozen=True)
class Step:
    """What one regime does to the bank: tokens in the step, distinct experts, and tokens per touched expert; uniform: if independent."""

    tokens: float
    distinct: float
    shared: float
    uniform: float


@_once
def steps(s: Snapshot) -> dict[str, Step]:
    """Sharing in a decode step, a midfill and a prefill of the scenario."""
    return _steps(bank(s), routing_of(s), s.scenario.batch, s.scenario.new_tokens, s.scenario.prefill_tokens)


@lru_cache(maxsize=64)
def _steps(held: Bank, routing: physics.Routing, batch: int, new_tokens: int, prompt_tokens: int) -> dict[str, Step]:
    found = {}
    for name, each in zip(STEPS, (1, new_tokens, prompt_tokens), strict=True):
        tokens = float(batch * each)
        distinct = distinct_at(routing, held, batch, each)
        alone = distinct_at(physics.Routing.uniform(), held, tokens, 1)
        found[name] = Step(tokens, distinct, held.top_k * tokens / distinct, held.top_k * tokens / alone)
    return found


# ------------------------------------------------------------------------------------------------------------------- traffic
# Weights hang on neither context nor placement; KV per token hangs on no batch.
_ONE: Mapping[str, Any] = {
    "batch": 1, "context_tokens": 1, "new_tokens": 1, "prompt_tokens": 1, "pipeline_depth": 1, "gpus_per_stage": 1,
    "kv_bytes_per_token": None,
}  # fmt: skip
_REST = tuple(field.name for field in fields(physics.Scenario) if field.name not in _ONE)


def traffic(s: Snapshot) -> dict[str, Array]:
    """Bytes per token of a decode step along BATCHES: experts, shared weights, KV, and experts if dealt round robin [B/token]."""
    rest = {name: getattr(s.scenario, name) for name in _REST}
    kv = float(s.results["kv_bytes"][physics.REGIMES.index("decode_attention")]) / s.scenario.batch
    balanced = _weights_per_token(**rest | {"routing": physics.Routing.round_robin()})["experts"]
    return _weights_per_token(**rest) | {"kv": np.full(BATCHES.size, kv), "balanced": balanced}


@lru_cache(maxsize=32)
def _weights_per_token(**rest: Any) -> dict[str, Array]:
    swept = sweep_arrays(physics.Scenario(**rest, **_ONE), columns="weight_bytes", batch=BATCHES)
    weights = np.asarray(swept["weight_bytes"]) / BATCHES[:, None]
    index = {name: i for i, name in enumerate(physics.REGIMES)}
    return {"experts": weights[:, index["decode_experts"]], "shared": weights[:, index["decode_shared"]]}


def pays_from(s: Snapshot) -> tuple[float, float]:
    """Batches at which experts' bytes per token fall to each of PAYS of those of one request; infinite where they never do."""
    held, plain = bank(s), replace(routing_of(s), overlap=None)
    return _pays(plain, held.n_experts, held.top_k)


@lru_cache(maxsize=128)
def _pays(routing: physics.Routing, n_experts: int, top_k: int) -> tuple[float, float]:
    found = []
    for share in PAYS:
        low, high = 0.0, float(np.log(1e9))
        for _ in range(4):  # the share falls with the batch: bracketed ever closer, 200 batches at a time
            logs = np.linspace(low, high, 201)
            batches = np.exp(logs)
            left = np.asarray(routing.distinct_experts(n_experts, top_k, batches, 1.0)) > share * top_k * batches
            last = int(np.flatnonzero(left)[-1]) if left.any() else 0
            low, high = float(logs[last]), float(logs[min(last + 1, 200)])
        found.append(float(np.exp(0.5 * (low + high))))
    return found[0], found[1]


# ----------------------------------------------------------------------------------------------------------------- intensity
def intensity(held: Bank, tokens: Any) -> Any:
    """Intensity of one expert with that many tokens on it [FLOP/B]."""
    return physics.expert_intensity(tokens, held.params, held.weight_bytes, held.input_bytes, held.output_bytes)


def flattenings(held: Bank) -> tuple[float, float]:
    """Tokens on one expert at the ridge of the machine (infinite where it is never reached), and at half of the expert's ceiling."""
    moved = held.input_bytes, held.output_bytes
    ridge = float(physics.tokens_at_ridge(held.ridge, held.params, held.weight_bytes, *moved))
    return ridge, float(physics.tokens_at_half_ceiling(held.weight_bytes, *moved))


def ceiling(held: Bank) -> float:
    """Intensity of an expert with an endless queue [FLOP/B]."""
    return 2.0 * held.params / (held.input_bytes + held.output_bytes)


# ---------------------------------------------------------------------------------------------------------------------- load
@dataclass(frozen=True)
class Spread:
    """How the experts of a layer lie on the GPUs of a stage, before and after replicas; the skew is the one compared.

    before, after: probability that a token is sent to each GPU, summed over its experts, the fullest first [1].
    tokens, replicated: busiest GPU over an even share along LOAD_TOKENS, in tokens. equal: the same for experts all alike.
    experts, experts_replicated: likewise in distinct experts to read, over an even share without replicas.
    """

    n_slots: int
    before: Array
    after: Array
    tokens: Array
    replicated: Array
    equal: Array
    experts: Array
    experts_replicated: Array


def most_redundant(n_experts: int, n_gpus: int) -> int:
    """Redundant slots above which an expert would lie on one GPU twice."""
    return n_experts * (n_gpus - 1)


def default_redundant(n_experts: int, n_gpus: int) -> int:
    """An eighth more slots than experts, filled up to equally many per GPU: 288 for 256 experts on 16 or 72 GPUs."""
    slots = -(-(n_experts + n_experts // 8) // n_gpus) * n_gpus
    return min(slots - n_experts, most_redundant(n_experts, n_gpus))


def redundant(s: Snapshot) -> int:
    """Redundant slots in force: those chosen, as far as GPUs can take them."""
    held, gpus, chosen = bank(s), s.scenario.gpus_per_stage, s.choices.redundant_slots
    return default_redundant(held.n_experts, gpus) if chosen is None else min(chosen, most_redundant(held.n_experts, gpus))


def spread(s: Snapshot) -> Spread:
    """Load over the GPUs of a stage."""
    held = bank(s)
    return _spread(laws(s).skew, held.n_experts, held.top_k, s.scenario.gpus_per_stage, held.n_experts + redundant(s))


@lru_cache(maxsize=32)
def layer_inclusion(routing: physics.Routing, n_experts: int, top_k: int) -> Array:
    """Inclusion probabilities of the layer of middling skew; experts of a synthetic law stand in an arbitrary, fixed order."""
    rows = routing.inclusion(n_experts, top_k)
    by_skew = np.argsort((rows**2).sum(axis=1))
    row = rows[by_skew[len(rows) // 2]]
    return np.asarray(row if routing.numbers else row[np.random.default_rng(0).permutation(n_experts)])


@lru_cache(maxsize=64)
def _placed(routing: physics.Routing, n_experts: int, top_k: int, n_gpus: int, n_slots: int) -> tuple[Array, tuple[physics.Placement, ...]]:
    """Inclusion of the layer shown, and where its experts lie: in order, and with replicas."""
    chances = layer_inclusion(routing, n_experts, top_k)
    plain = physics.contiguous_placement(n_experts, n_gpus)
    return chances, (plain, physics.replicated_placement(chances, n_gpus, n_slots))


@lru_cache(maxsize=32)
def _spread(routing: physics.Routing, n_experts: int, top_k: int, n_gpus: int, n_slots: int) -> Spread:
    chances, places = _placed(routing, n_experts, top_k, n_gpus, n_slots)
    loads = [np.sort(_gpu_load(place, chances))[::-1] for place in places]
    even_tokens = top_k * LOAD_TOKENS / n_gpus
    touched = np.asarray(routing.distinct_experts(n_experts, top_k, LOAD_TOKENS, 1.0)) / n_gpus
    tokens = [np.asarray(physics.expected_max_tokens(chances, place, LOAD_TOKENS)) / even_tokens for place in places]
    reads = [np.asarray(physics.expected_max_distinct_experts(chances, place, LOAD_TOKENS)) / touched for place in places]
    equal = _equal(n_experts, top_k, n_gpus)
    return Spread(n_slots, loads[0], loads[1], tokens[0], tokens[1], equal, reads[0], reads[1])


@lru_cache(maxsize=64)
def _equal(n_experts: int, top_k: int, n_gpus: int) -> Array:
    chances, place = np.full(n_experts, top_k / n_experts), physics.contiguous_placement(n_experts, n_gpus)
    return np.asarray(physics.expected_max_tokens(chances, place, LOAD_TOKENS)) / (top_k * LOAD_TOKENS / n_gpus)


def _gpu_load(place: physics.Placement, chances: Array) -> Array:
    return np.asarray(np.bincount(np.array(place.gpu_of_slot), place.slot_inclusion(chances), place.n_gpus))


@lru_cache(maxsize=64)
def _stragglers_at(
    routing: physics.Routing, n_experts: int, top_k: int, n_gpus: int, n_slots: int, tokens: float
) -> tuple[float, float, float, float, float]:
    chances, places = _placed(routing, n_experts, top_k, n_gpus, n_slots)
    equal = np.full(n_experts, top_k / n_experts)
    most = [float(physics.expected_max_tokens(chances, place, tokens)) for place in places]
    reads = [float(physics.expected_max_distinct_experts(chances, place, tokens)) for place in places]
    return most[0], most[1], float(physics.expected_max_tokens(equal, places[0], tokens)), reads[0], reads[1]


@dataclass(frozen=True)
class Stragglers:
    """The busiest GPU at one number of tokens: tokens before and after replicas and if experts were equal; experts to read likewise.

    even: tokens of an even share.
    """

    before: float
    after: float
    equal: float
    reads_before: float
    reads_after: float
    even: float


def stragglers(s: Snapshot, tokens: float) -> Stragglers:
    """The busiest GPU of a stage when a step brings that many independent tokens."""
    held, gpus = bank(s), s.scenario.gpus_per_stage
    found = _stragglers_at(laws(s).skew, held.n_experts, held.top_k, gpus, held.n_experts + redundant(s), float(tokens))
    return Stragglers(*found, held.top_k * tokens / gpus)
