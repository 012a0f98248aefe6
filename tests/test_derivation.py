"""Every cell of the table explains itself: its formula with its own numbers gives the value the kernel gives."""

from __future__ import annotations

import math

import pytest

import physics
from physics.catalog import models
from physics.derive import DERIVED_COLUMNS, derive

SETTINGS: dict[str, dict[str, object]] = {
    "one accelerator": {"batch": 3, "context_tokens": 20_000, "new_tokens": 700, "prompt_tokens": 3000},
    "two domains, tensor parallel, deep": {
        "batch": 48,
        "context_tokens": 9000,
        "new_tokens": 65,
        "prompt_tokens": 2000,
        "gpus_per_stage": 16,
        "pipeline_depth": 4,
        "attention_parallel": "tensor",
        "weight_dtype": "fp8",
        "overlap": False,
    },
    "skewed, sharing experts within a request": {
        "batch": 5,
        "context_tokens": 6000,
        "new_tokens": 40,
        "prompt_tokens": 300,
        "gpus_per_stage": 4,
        "routing": physics.Routing.skewed(sigma=0.7, overlap=0.35),
    },
    "uniform, sharing experts within a request": {
        "batch": 5,
        "context_tokens": 6000,
        "new_tokens": 40,
        "prompt_tokens": 300,
        "routing": physics.Routing.uniform(overlap=0.4),
    },
    "round robin, KV override": {
        "batch": 7,
        "context_tokens": 140_000,
        "new_tokens": 33,
        "prompt_tokens": 500,
        "gpus_per_stage": 8,
        "routing": "round_robin",
        "kv_bytes_per_token": 70_000.0,
    },
    "skewed, tokens of a request overlap": {
        "batch": 5,
        "context_tokens": 9000,
        "new_tokens": 40,
        "prompt_tokens": 900,
        "gpus_per_stage": 8,
        "routing": physics.Routing.skewed(sigma=0.75, overlap=physics.OverlapLaw()),
    },
    "round robin, tokens of a request overlap": {
        "batch": 3,
        "context_tokens": 9000,
        "new_tokens": 7,
        "prompt_tokens": 90,
        "routing": physics.Routing.round_robin(overlap=0.3),
    },
}


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("name", models())
def test_every_cell(name: str, settings: str) -> None:
    machine = physics.load_machine("H200").replace(memory_bytes=1e15, idle_w=75.0)
    s = physics.Scenario(physics.load_model(name), machine, **SETTINGS[settings])
    table = physics.regimes(s)
    for regime in physics.REGIMES:
        for column in DERIVED_COLUMNS:
            shown, explained = table.loc[regime, column], derive(s, regime, column).evaluate()
            assert explained == pytest.approx(shown, rel=1e-9, abs=1e-30, nan_ok=True), (regime, column)


def test_a_number_is_put_in_for_every_symbol() -> None:
    s = physics.Scenario(physics.load_model("DeepSeek-V3"), physics.load_machine("H200"), batch=64, gpus_per_stage=16)
    derivation = derive(s, "decode_attention", "flops")
    (part,) = derivation.parts
    assert part.expression == "R*L1*(n*P + n*(n + 1)/2)*f1"
    assert derivation.with_numbers(part) == "64*61*(1*131 072 + 1*(1 + 1)/2)*278 528"
    assert all(term.source for term in derivation.terms)


def test_a_cell_that_does_not_exist_is_refused() -> None:
    s = physics.Scenario(physics.load_model("DeepSeek-V3"), physics.load_machine("H200"))
    with pytest.raises(KeyError, match="decode_experts"):
        derive(s, "decoding", "flops")


def test_an_unknown_energy_stays_unknown() -> None:
    machine = physics.Machine("bare", {"bf16": 1e15}, 1e15, 1e12)
    s = physics.Scenario(physics.load_model("Llama-3.1-8B"), machine)
    assert math.isnan(derive(s, "midfill", "energy_j").evaluate())
