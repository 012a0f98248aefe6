"""The Python lines that reproduce the pictures of the page Experts."""

from __future__ import annotations

import physics
from app import expert_bank as b
from app.recipe import routing_words, scenario_lines
from app.state import Snapshot


def _scenario(s: Snapshot) -> str:
    return scenario_lines(s.choices, b.routing_of(s))


def _words(s: Snapshot, routing: physics.Routing) -> str:
    """An expression for one of the routings compared."""
    law = "physics.OverlapLaw()" if routing.overlap == physics.OverlapLaw() else f"physics.{routing.overlap!r}"
    overlap = "" if routing.overlap is None else f"overlap={routing.overlap!r}" if isinstance(routing.overlap, float) else f"overlap={law}"
    if routing.kind == "counts":
        return routing_words(s.choices, routing)
    skew = {"sigma": routing.sigma, "zipf": routing.zipf}
    parts = [f"{name}={value!r}" for name, value in skew.items() if value is not None]
    return f"physics.Routing.{routing.kind}({', '.join(filter(None, (*parts, overlap)))})"


def distinct_lines(s: Snapshot) -> str:
    """The four lines of distinct experts, and the tokens per touched expert."""
    held, compared = b.bank(s), b.laws(s)
    return (
        f"import numpy as np\n\nimport physics\n\nE, k = {held.n_experts}, {held.top_k}\n"
        f"tokens = np.geomspace(1, {b.TOKENS[-1]:g}, {b.TOKENS.size})\n"
        f"skewed = {_words(s, compared.skew)}\n"
        f"request = {_words(s, compared.within)}\n"
        "distinct = {\n"
        '    "round robin": physics.expected_distinct_experts(E, k, tokens, "round_robin"),\n'
        '    "uniform": physics.expected_distinct_experts(E, k, tokens),\n'
        '    "skewed": skewed.distinct_experts(E, k, tokens, 1),\n'
        '    "one request": request.distinct_experts(E, k, 1, tokens),\n'
        "}\n"
        "sd = skewed.distinct_experts_sd(E, k, tokens, 1)\n"
        "per_expert = {name: k * tokens / values for name, values in distinct.items()}  # tokens per touched expert"
    )


def traffic_lines(s: Snapshot) -> str:
    """Bytes per token of a decode step against the batch."""
    return (
        f"{_scenario(s)}\nimport numpy as np\n\n"
        f'df = physics.sweep(s, columns=["weight_bytes", "kv_bytes"], batch=np.geomspace(1, {b.BATCHES[-1]:g}, {b.BATCHES.size}))\n'
        'df["weight_bytes_per_token"], df["kv_bytes_per_token"] = df.weight_bytes / df.batch, df.kv_bytes / df.batch'
    )


def intensity_lines(s: Snapshot) -> str:
    """One expert's intensity and its two flattenings."""
    held = b.bank(s)
    return (
        "import numpy as np\n\nimport physics\n\n"
        f"W, B_W, B_A, B_O = {held.params}, {held.weight_bytes!r}, {held.input_bytes!r}, {held.output_bytes!r}\n"
        f"ridge = {held.ridge!r}  # {held.arithmetic} on {s.scenario.machine.name}\n"
        "intensity = physics.expert_intensity(np.geomspace(1, 1e6, 121), W, B_W, B_A, B_O)\n"
        "at_ridge = physics.tokens_at_ridge(ridge, W, B_W, B_A, B_O)  # infinite where the ridge is never reached\n"
        "at_half = physics.tokens_at_half_ceiling(B_W, B_A, B_O)"
    )


def sharing_lines(s: Snapshot) -> str:
    """Tokens per touched expert in decode, midfill and prefill."""
    held = b.bank(s)
    return (
        f"{_scenario(s)}\n\nfor name, tokens in (('decode', 1), ('midfill', s.new_tokens), ('prefill', s.prefill_tokens)):\n"
        f"    distinct = s.routing.distinct_experts({held.n_experts}, {held.top_k}, s.batch, tokens)\n"
        f"    print(name, distinct, {held.top_k} * s.batch * tokens / distinct)"
    )


def load_lines(s: Snapshot) -> str:
    """The busiest GPU before and after replicas."""
    held, gpus = b.bank(s), s.scenario.gpus_per_stage
    skew = b.laws(s).skew
    order = "" if skew.numbers else f"\npi = pi[np.random.default_rng(0).permutation({held.n_experts})]  # experts in an arbitrary order"
    return (
        "import numpy as np\n\nimport physics\n\n"
        f"routing = {_words(s, skew)}\n"
        f"layers = routing.inclusion({held.n_experts}, {held.top_k})\n"
        f"pi = layers[np.argsort((layers**2).sum(axis=1))[len(layers) // 2]]  # the layer of middling skew{order}\n"
        f"before = physics.contiguous_placement({held.n_experts}, {gpus})\n"
        f"after = physics.replicated_placement(pi, {gpus}, {held.n_experts + b.redundant(s)})\n"
        "for placement in (before, after):\n"
        f"    print(physics.expected_max_tokens(pi, placement, {s.scenario.batch}), "
        f"physics.expected_max_distinct_experts(pi, placement, {s.scenario.batch}))"
    )


def file_lines(s: Snapshot) -> str:
    """Reading the user's file."""
    file = s.observed.name if s.observed is not None else "routing.csv"
    return (
        f"import physics\n\nobserved = physics.read_routing({file!r})\n"
        "observed.popularity(), observed.skew(), observed.overlap, observed.law\n"
        "observed.routing()  # to put into physics.Scenario(routing=...)"
    )


def proof_lines(s: Snapshot) -> str:
    """Windows of one request, measured against each form."""
    file = s.observed.name if s.observed is not None else "trace.npz"
    return f"import physics\n\nphysics.read_routing({file!r}).within_request()"
