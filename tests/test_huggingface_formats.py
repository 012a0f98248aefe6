"""Bytes of each tensor class under the quantisation methods checkpoints are published in."""

from __future__ import annotations

import time
from typing import Any

import pytest
from config_fixtures import llama, mla, moe

from physics import Model, UnsupportedModelError, WeightFormats
from physics.formats import WEIGHT_BYTES, compute_format, mixture

V3: dict[str, Any] = {
    "model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61, "intermediate_size": 18432, "vocab_size": 129280,
    "torch_dtype": "bfloat16", **mla(1536, 128), **moe(256, 8, 2048, 1, 3),
}  # fmt: skip
GPT_OSS: dict[str, Any] = {"model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": 36, "torch_dtype": "bfloat16"}
GPT_OSS_20B = {**GPT_OSS, "num_hidden_layers": 24, "num_local_experts": 32}
DENSE = llama(4096, 4, 32, 14336, 128256, 8)
MXFP4 = {
    "quant_method": "mxfp4",
    "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"],
}
INT4 = {"type": "int", "num_bits": 4, "group_size": 32, "strategy": "group"}


def formats(config: dict[str, Any], **quantization: Any) -> WeightFormats:
    return Model.from_config({**config, "quantization_config": quantization}).formats


def refused(config: dict[str, Any], **quantization: Any) -> str:
    with pytest.raises(UnsupportedModelError) as caught:
        formats(config, **quantization)
    return str(caught.value)


@pytest.mark.parametrize(
    ("config", "quantization", "gigabytes", "tolerance", "source"),
    [
        (GPT_OSS, MXFP4, 65.3, 0.005, "arXiv:2508.10925, Table 1: checkpoint of 60.8 GiB"),
        (GPT_OSS_20B, MXFP4, 13.74, 0.005, "arXiv:2508.10925, Table 1: checkpoint of 12.8 GiB"),
        (V3, {"quant_method": "fp8", "weight_block_size": [128, 128]}, 688.6 - 14.0, 0.005, "safetensors index, less one prediction layer"),
        (
            {**V3, **mla(1536, 64), **moe(384, 8, 2048, 1, 1), "vocab_size": 163840},
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"targets": ["Linear"], "weights": INT4}},
                "ignore": ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", "re:.*mlp\\.(gate|up|gate_up|down)_proj.*"],
            },
            594,
            0.005,
            "model page of Kimi-K2-Thinking: 594 GB",
        ),
    ],
    ids=["gpt-oss-120b", "gpt-oss-20b", "DeepSeek-V3", "Kimi-K2-Thinking"],
)
def test_published_sizes(config: dict[str, Any], quantization: dict[str, Any], gigabytes: float, tolerance: float, source: str) -> None:
    model = Model.from_config({**config, "quantization_config": quantization})
    assert model.weight_bytes() == pytest.approx(gigabytes * 1e9, rel=tolerance), source


@pytest.mark.parametrize(
    ("quantization", "expected"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8"),
        ({"quant_method": "fp8", "activation_scheme": "static"}, "fp8_tensor"),
        ({"quant_method": "fbgemm_fp8"}, "fp8_tensor"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "int4_g128"),
        ({"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": True}, "int4_g64"),
        ({"quant_method": "gptq", "bits": 8, "group_size": 128}, "int8"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}, "nvfp4"),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8_tensor"),
        (
            {
                "quant_method": "compressed-tensors",
                "ignore": ["lm_head"],
                "config_groups": {"g": {"weights": {"type": "float", "num_bits": 8}}},
            },
            "fp8_tensor",
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "ignore": ["lm_head"],
                "config_groups": {"g": {"targets": ["Linear"], "weights": {"type": "float", "num_bits": 8, "strategy": "block"}}},
            },
            "fp8",
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "ignore": ["lm_head"],
                "config_groups": {"g": {"format": "mxfp4-pack-quantized", "weights": {"type": "float", "num_bits": 4, "group_size": 32}}},
            },
            "mxfp4",
        ),
    ],
)
def test_methods(quantization: dict[str, Any], expected: str) -> None:
    made = formats(DENSE, **quantization)
    assert (made.attention, made.dense, made.embedding, made.head) == (expected, expected, "bf16", "bf16")


def test_a_head_is_quantised_only_where_the_method_says_so() -> None:
    weights = {"weights": {"type": "int", "num_bits": 8}}
    assert formats(DENSE, quant_method="compressed-tensors", config_groups={"g": weights}).head == "int8"
    assert formats(DENSE, quant_method="gptq", bits=4, group_size=128, lm_head=True).head == "int4_g128"
    named = {"lm_head": {"quant_algo": "NVFP4"}, "model.layers.0.mlp.up_proj": {"quant_algo": "FP8"}}
    assert formats(DENSE, quant_method="modelopt", quant_algo="MIXED_PRECISION", quantized_layers=named).head == "nvfp4"


def test_a_class_in_several_formats_is_a_mixture_by_parameters() -> None:
    """DeepSeek-V3.1-NVFP4: output projections quantised, the other attention matrices in BF16; 3 dense layers all quantised."""
    excluded = [
        f"model.layers.{i}.self_attn.{name}" for i in range(61) for name in ("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj")
    ]
    quant = {"quantization": {"quant_algo": "NVFP4", "group_size": 16, "exclude_modules": ["lm_head", "model.layers.61*", *excluded]}}
    model = Model.from_config(V3, quant_config=quant)
    output, rest = 16384 * 7168, 7168 * 1536 + 1536 * 24576 + 7168 * 576 + 512 * 32768
    assert model.weight_bytes_by_class()["attention"] == pytest.approx(61 * (output * 0.5625 + rest * 2), rel=1e-4)
    assert (model.formats.dense, model.formats.shared, model.formats.routed, model.formats.router) == ("nvfp4", "nvfp4", "nvfp4", "bf16")
    assert compute_format(model.formats.attention) == "fp4"


def test_ignored_layers_count_by_their_share() -> None:
    made = formats(DENSE, quant_method="modelopt", quant_algo="FP8", ignore=["model.layers.0*", "model.layers.1.mlp*"])
    assert WEIGHT_BYTES[made.dense] == pytest.approx((2 + 2 + 1 + 1) / 4, abs=1e-4)
    assert WEIGHT_BYTES[made.attention] == pytest.approx((2 + 1 + 1 + 1) / 4, abs=1e-4)


def test_fp8_experts_made_nvfp4_leave_the_rest_in_fp8() -> None:
    """nvidia/DeepSeek-V4-Flash-NVFP4: what ModelOpt ignores stays as the FP8 method left it."""
    config = {"model_type": "deepseek_v4", "hidden_size": 4096, "num_hidden_layers": 43, "expert_dtype": "fp4", "torch_dtype": "bfloat16"}
    base = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    plain = formats(config, **base)
    assert (plain.attention, plain.shared, plain.routed) == ("fp8", "fp8", "mxfp4")
    layers = {f"layers.{i}.ffn.experts": {"quant_algo": "NVFP4", "group_size": 16} for i in range(43)}
    over = {"ignore": ["*.attn.*", "*.ffn.shared_experts.*", "head"], "quant_algo": "MIXED_PRECISION", "quantized_layers": layers}
    made = formats(config, **base, **over)
    assert (made.attention, made.shared, made.routed, made.head) == ("fp8", "fp8", "nvfp4", "bf16")


@pytest.mark.parametrize(
    ("ignore", "routed", "shared"),
    [
        (["re:.*mlp.experts.*"], "bf16", "fp8_tensor"),
        (["*.shared_experts*"], "fp8_tensor", "bf16"),
        (["shared_experts"], "fp8_tensor", "bf16"),
        (["model.language_model.layers.3.mlp.gate"], "fp8_tensor", "fp8_tensor"),
    ],
)
def test_ways_of_naming_modules(ignore: list[str], routed: str, shared: str) -> None:
    made = formats(V3, quant_method="compressed-tensors", config_groups={"g": {"weights": {"type": "float", "num_bits": 8}}}, ignore=ignore)
    assert (made.routed, made.shared, made.router) == (routed, shared, "bf16")


def test_unquantised_dtype_is_the_base() -> None:
    assert Model.from_config({**DENSE, "torch_dtype": "float32"}).formats == WeightFormats.uniform("fp32")
    assert Model.from_config({**DENSE, "torch_dtype": "float16"}).formats.dense == "fp16"
    with pytest.raises(UnsupportedModelError, match="torch_dtype"):
        Model.from_config({**DENSE, "torch_dtype": "int3"})
    without = {name: value for name, value in DENSE.items() if name != "torch_dtype"}
    assert any("no dtype" in note for note in Model.from_config(without).notes)


def test_a_name_that_promises_a_format_without_quantisation_gets_a_note() -> None:
    assert any("NVFP4" in note for note in Model.from_config(V3, name="DeepSeek-V3.1-NVFP4").notes)


@pytest.mark.parametrize(
    "quantization",
    [
        {"quant_method": "aqlm"},
        {"quant_method": "fp8", "weight_block_size": [64, 3]},
        {"quant_method": "fp8", "weight_block_size": [[128], 128]},
        {"quant_method": "fp8", "weight_block_size": {"a": 1}},
        {"quant_method": "fp8", "modules_to_not_convert": "lm_head"},
        {"quant_method": "fp8", "modules_to_not_convert": [1]},
        {"quant_method": "gptq", "bits": 3},
        {"quant_method": "gptq", "bits": True},
        {"quant_method": "gptq", "bits": 4, "group_size": 7},
        {"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {"x": {}}},
        {"quant_method": "gptq", "bits": 4, "group_size": 128, "modules_in_block_to_quantize": [["self_attn.q_proj"]]},
        {"quant_method": "compressed-tensors", "format": "marlin-24", "config_groups": {"g": {"weights": INT4}}},
        {
            "quant_method": "compressed-tensors",
            "config_groups": {"g": {"weights": INT4}},
            "sparsity_config": {"format": "sparse-24-bitmask"},
        },
        {"quant_method": "modelopt", "quant_algo": "W1A1"},
        {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"},
        {"quant_method": "compressed-tensors", "config_groups": []},
        {"quant_method": "compressed-tensors", "config_groups": {}},
        {"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"type": "float", "num_bits": 5}}}},
        {"quant_method": "bitsandbytes"},
        {"quant_method": None, "x": 1},
    ],
)
def test_what_is_not_understood_is_refused(quantization: dict[str, Any]) -> None:
    assert "quantization_config" in refused(DENSE, **quantization)


@pytest.mark.parametrize("expression", ["re:(a+)+$", "re:(.*)*x", "re:(a|a)*b", "re:.*.*.*.*.*x", "re:" + "a" * 300, "re:((", "*" * 30])
def test_expressions_that_could_run_for_ever_are_refused(expression: str) -> None:
    start = time.process_time()
    assert "quantization_config" in refused(DENSE, quant_method="fp8", modules_to_not_convert=[expression])
    assert time.process_time() - start < 1.0


def test_long_lists_are_read_in_bounded_time() -> None:
    names = [f"model.layers.{i % 900}.mlp.experts.{i}.w1" for i in range(100_000)]
    start = time.process_time()
    formats({**V3, "num_hidden_layers": 1000}, quant_method="fp8", weight_block_size=[128, 128], modules_to_not_convert=names)
    assert time.process_time() - start < 10.0


def test_mixtures_by_name() -> None:
    assert mixture({"fp8": 1000, "bf16": 4}) == "fp8"
    name = mixture({"bf16": 1, "nvfp4": 3})
    assert name == "mix:nvfp4=0.7500,bf16=0.2500"
    assert WEIGHT_BYTES[name] == pytest.approx(0.75 * 0.5625 + 0.25 * 2)
    assert WeightFormats(attention=name).attention == name
    for wrong in ("mix:", "mix:nvfp4", "mix:nvfp9=0.5", "mix:nvfp4=x", "mix:nvfp4=-1", "mix:mix:fp8=1=1"):
        with pytest.raises(ValueError, match="weight format"):
            WeightFormats(attention=wrong)
