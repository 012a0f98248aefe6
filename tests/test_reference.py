"""All rows of the independent closed form, and the table a reader can check by hand."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import pytest

import physics
from physics.attention import causal_pairs
from physics.regimes import DECODE

SHARED = Path(__file__).resolve().parents[2] / "shared"
CLOSED_FORM = SHARED / "reference" / "closed_form.csv"
NAMES = {"Llama-2-7b": "Llama-2-7B"}
BIG = 1e15  # memory of an imaginary accelerator, so that every case fits one


def machine() -> physics.Machine:
    """A machine on which everything fits: FLOPs and bytes do not depend on it."""
    return physics.load_machine("H200").replace(memory_bytes=BIG)


def scenario(model: str, **fields: object) -> physics.Scenario:
    return physics.Scenario(physics.load_model(model), machine(), weight_dtype="bf16", **fields)


def closed_form_cases() -> dict[tuple[str, str, int, int, int], dict[str, str]]:
    cases: dict[tuple[str, str, int, int, int], dict[str, str]] = defaultdict(dict)
    if not CLOSED_FORM.exists():
        return cases
    with CLOSED_FORM.open() as file:
        for row in csv.DictReader(file):
            key = (row["model"], row["phase"], int(row["requests"] or 0), int(row["new_tokens"] or 0), int(row["context"] or 0))
            cases[key][row["quantity"]] = row["value"]
    return cases


CASES = closed_form_cases()


def computed(model: str, phase: str, requests: int, new: int, context: int) -> dict[str, float]:
    """Our side of a closed-form case, under its names."""
    if phase == "prefill":
        s = scenario(model, batch=requests, prompt_tokens=new, context_tokens=new)
        lines = physics.regimes(s).loc[["prefill"]]
    elif phase == "midfill":
        s = scenario(model, batch=requests, new_tokens=new, context_tokens=context)
        lines = physics.regimes(s).loc[["midfill"]]
    else:
        s = scenario(model, batch=requests, context_tokens=context)
        lines = physics.regimes(s).loc[list(DECODE)]
    total = lines.sum(numeric_only=True)
    moe = s.model.moe_groups
    tokens = requests * new
    result = {
        "flops": total.flops,
        "bytes": total.weight_bytes + total.kv_bytes,
        "weight_bytes": total.weight_bytes,
        "kv_read_bytes": total.kv_read_bytes,
        "kv_write_bytes": total.kv_write_bytes,
        "arithmetic_intensity": total.flops / (total.weight_bytes + total.kv_bytes),
    }
    result |= dict.fromkeys(("routed_expert_bytes_uniform", "routed_expert_bytes_min_kT", "routed_expert_bytes_all"), 0.0)
    if moe:
        count, bank = moe[0]
        expert_bytes = count * bank.expert_params(s.model.hidden) * 2.0
        args = (bank.n_experts, bank.top_k, tokens)
        result["distinct_experts"] = float(physics.expected_distinct_experts(*args))
        result["routed_expert_bytes_uniform"] = expert_bytes * result["distinct_experts"]
        result["routed_expert_bytes_min_kT"] = expert_bytes * float(physics.expected_distinct_experts(*args, routing="round_robin"))
        result["routed_expert_bytes_all"] = expert_bytes * bank.n_experts
    result["attn_core_flops"] = total.core_flops
    result |= attention_forms(s.model, requests, new, 0 if phase == "prefill" else context)
    return result


def attention_forms(model: physics.Model, requests: int, new: int, prefix: int) -> dict[str, float]:
    """FLOPs of all attention in either form of latent attention, projections included."""
    ((layers, scan),) = {(sum(n for n, _ in model.scans()), scan) for _, scan in model.scans()}
    if not scan.up_projection_flops:
        return {}
    pairs = causal_pairs(new, prefix)
    projections = 2.0 * new * model.params_by_class()["attention"]
    return {
        "attn_flops_absorbed": requests * (layers * pairs * scan.flops_per_pair + projections),
        "attn_flops_expanded": requests
        * (layers * (pairs * scan.expanded_flops_per_pair + prefix * scan.up_projection_flops) + projections),
    }


@pytest.mark.skipif(not CASES, reason="../shared/reference/closed_form.csv is not there")
@pytest.mark.parametrize("case", [case for case in CASES if case[1] != "static"], ids=lambda c: "-".join(map(str, c)))
def test_closed_form_within_a_thousandth(case: tuple[str, str, int, int, int]) -> None:
    model, phase, requests, new, context = case
    ours = computed(NAMES.get(model, model), phase, requests, new, context)
    for name, text in CASES[case].items():
        if name in ours:
            assert ours[name] == pytest.approx(float(text), rel=1e-3, abs=0.0 if float(text) else 1e-9), name


@pytest.mark.skipif(not CASES, reason="../shared/reference/closed_form.csv is not there")
@pytest.mark.parametrize("case", [case for case in CASES if case[1] == "static"], ids=lambda c: c[0])
def test_closed_form_parameters(case: tuple[str, str, int, int, int]) -> None:
    model = physics.load_model(NAMES.get(case[0], case[0]))
    parts = model.params_by_class()
    ours = {
        "params_attn": parts["attention"],
        "params_routed": parts["routed"],
        "params_shared_router": parts["shared"] + parts["router"],
        "params_dense": parts["dense"],
        "params_emb": parts["embedding"] + parts["head"],
        "params_total": model.n_params,
        "params_active": model.n_active_params,
        "kv_bytes_per_token": model.kv_bytes_per_token("bf16"),
    }
    for name, text in CASES[case].items():
        assert ours[name] == float(text), name


def test_every_closed_form_quantity_is_compared() -> None:
    if not CASES:
        pytest.skip("../shared/reference/closed_form.csv is not there")
    compared = 0
    for case, rows in CASES.items():
        ours = rows if case[1] == "static" else computed(NAMES.get(case[0], case[0]), *case[1:])
        compared += sum(name in ours or name == "attn_form" for name in rows)
    assert compared == 992


@pytest.mark.skipif(not CASES, reason="../shared/reference/closed_form.csv is not there")
def test_the_cheaper_form_of_latent_attention_is_taken() -> None:
    for case, rows in CASES.items():
        if rows.get("attn_form") in ("absorbed", "expanded") and "attn_flops_absorbed" in rows:
            cheaper = min(("absorbed", "expanded"), key=lambda form: float(rows[f"attn_flops_{form}"]))
            assert rows["attn_form"] == cheaper, case


# Section 7 of the design: what a reader can do by hand. FLOPs, models in this order.
ORDER = ("Llama-3.1-70B", "Mixtral-8x7B", "Qwen3-235B", "DeepSeek-V3", "Kimi-K2")


@pytest.mark.parametrize(("model", "flops"), list(zip(ORDER, (5.827e14, 1.078e14, 1.974e14, 3.344e14, 2.709e14), strict=True)))
def test_prefill_of_4096(model: str, flops: float) -> None:
    assert physics.regimes(scenario(model, context_tokens=4096)).flops["prefill"] == pytest.approx(flops, rel=1e-3)


@pytest.mark.parametrize(("model", "flops"), list(zip(ORDER, (1.497e11, 2.765e10, 5.575e10, 1.429e11, 9.818e10), strict=True)))
def test_decode_of_one_request_at_4096(model: str, flops: float) -> None:
    assert physics.regimes(scenario(model, context_tokens=4096)).loc[list(DECODE)].flops.sum() == pytest.approx(flops, rel=1e-3)


@pytest.mark.parametrize(("model", "size"), list(zip(ORDER, (2.249e11, 1.275e11, 5.121e11, 1.187e12, 1.541e12), strict=True)))
def test_decode_of_64_requests_at_4096_bytes(model: str, size: float) -> None:
    step = physics.regimes(scenario(model, context_tokens=4096, batch=64)).loc[list(DECODE)].sum(numeric_only=True)
    assert step.weight_bytes + step.kv_bytes == pytest.approx(size, rel=1e-3)


@pytest.mark.parametrize(("model", "flops"), list(zip(ORDER, (2.464e14, 4.817e13, 2.286e14, 6.408e14, 3.334e14), strict=True)))
def test_midfill_of_512_on_131072(model: str, flops: float) -> None:
    assert physics.regimes(scenario(model, new_tokens=512)).flops["midfill"] == pytest.approx(flops, rel=1e-3)


@pytest.mark.parametrize(("model", "billions"), list(zip(ORDER, (70.55, 46.70, 235.09, 671.03, 1026.4), strict=True)))
def test_parameters(model: str, billions: float) -> None:
    assert physics.load_model(model).n_params / 1e9 == pytest.approx(billions, rel=1e-4)


@pytest.mark.parametrize(
    ("model", "dtype", "size"),
    [
        ("DeepSeek-V3", "bf16", 70_272),
        ("Llama-3.1-405B", "bf16", 516_096),
        ("Qwen2.5-72B", "bf16", 327_680),
        ("Mixtral-8x7B", "bf16", 131_072),
        ("Qwen3-235B", "bf16", 192_512),
        ("DeepSeek-V3", "fp8", 35_136),
        ("DeepSeek-V3", "fp8_ds_mla", 40_016),
        ("DeepSeek-V3.2", "bf16", 85_888),
    ],
)
def test_kv_bytes_per_token(model: str, dtype: str, size: int) -> None:
    assert physics.load_model(model).kv_bytes_per_token(dtype) == size


def test_coincidence_by_hand() -> None:
    assert physics.expected_distinct_experts(256, 8, 128) == pytest.approx(251.60, abs=5e-3)
    assert physics.distinct_experts_sd(256, 8, 128) == pytest.approx(2.00, abs=5e-3)
    assert 128 * 8 / physics.expected_distinct_experts(256, 8, 128) == pytest.approx(4.07, abs=5e-3)
    assert physics.expected_distinct_experts(256, 8, [8, 32, 64]) == pytest.approx([57.42, 163.31, 222.44], abs=5e-3)
    assert physics.shared_expert_probability(256, 8) == pytest.approx(0.22709, abs=5e-6)
    assert physics.expected_distinct_experts(896, 16, 32) == pytest.approx(392.6, abs=0.05)
    assert 32 * 16 / physics.expected_distinct_experts(896, 16, 32) == pytest.approx(1.304, abs=5e-4)


def test_layer_experts_of_deepseek_v3() -> None:
    assert sum(count * moe.n_experts for count, moe in physics.load_model("DeepSeek-V3").moe_groups) == 14_848


def test_pipeline_and_forms_by_hand() -> None:
    assert physics.kv_crossover_depth(671e9, 70_272, 2e6) == pytest.approx(4.774, abs=5e-4)
    assert physics.midfill_absorb_crossover(physics.load_model("DeepSeek-V3")) == pytest.approx(170.67, abs=5e-3)


def test_two_flattenings_of_an_expert() -> None:
    expert = dict(expert_params=44_040_192, weight_bytes=44_040_192, activation_bytes_per_token=7168, output_bytes_per_token=14_336)
    assert physics.tokens_at_ridge(591.0, **expert) == pytest.approx(345, abs=0.5)
    expert.pop("expert_params")
    assert physics.tokens_at_half_ceiling(**expert) == 2048


def test_mla_decode_sits_near_242_whatever_the_batch() -> None:
    for batch in (1, 64, 512):
        assert physics.regimes(scenario("DeepSeek-V3", batch=batch)).intensity_flops_per_byte["decode_attention"] == pytest.approx(
            242, abs=0.5
        )


def test_the_opening_crossing() -> None:
    s = scenario("DeepSeek-V3", batch=64, gpus_per_stage=16).replace(weight_dtype="fp8")
    found = physics.find_crossings(s, "context_tokens", 1e3, 1e6, "bytes", ("decode_attention", "decode_experts"))
    assert found.x.item() == pytest.approx(126_000, rel=0.01)
    memory = physics.stage_memory(s)
    assert memory.weights / 1e9 == pytest.approx(671, abs=0.5)
    assert memory.kv / 1e9 == pytest.approx(590, abs=0.6)
