"""config.json files of real checkpoints against the data folder, and against what their makers publish."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from config_fixtures import CASES, Case, llama, mla, moe
from config_fixtures_special import SPECIAL

import physics
from physics import Model, UnsupportedModelError

CONFIGS = Path(__file__).resolve().parents[2] / "shared" / "configs"
needs_configs = pytest.mark.skipif(not CONFIGS.is_dir(), reason="../shared/configs (real config.json files) is not here")

TWINS = {
    "MiniMaxAI--MiniMax-M3": "MiniMax-M3",
    "Qwen--Qwen3-235B-A22B": "Qwen3-235B-A22B",
    "Qwen--Qwen3-30B-A3B-FP8": "Qwen3-30B-A3B",
    "Qwen--Qwen3.5-397B-A17B": "Qwen3.5-397B-A17B",
    "XiaomiMiMo--MiMo-V2-Flash": "MiMo-V2-Flash",
    "deepseek-ai--DeepSeek-V3.2": "DeepSeek-V3.2",
    "deepseek-ai--DeepSeek-V3": "DeepSeek-V3",
    "deepseek-ai--DeepSeek-V4-Pro": "DeepSeek-V4-Pro",
    "google--gemma-4-26B-A4B": "gemma-4-26B-A4B",
    "meta-llama--Llama-4-Scout-17B-16E-Instruct": "Llama-4-Scout-17B-16E",
    "meta-llama--Meta-Llama-3.1-70B": "Llama-3.1-70B",
    "mistralai--Mixtral-8x7B-v0.1": "Mixtral-8x7B",
    "moonshotai--Kimi-K2-Instruct": "Kimi-K2",
    "moonshotai--Kimi-K3": "Kimi-K3",
    "nvidia--DeepSeek-V3.1-NVFP4": "DeepSeek-V3",
    "nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-FP8": "Nemotron-3-Super-120B-A12B",
    "openai--gpt-oss-120b": "gpt-oss-120b",
    "zai-org--GLM-5.2-FP8": "GLM-5.2",
}
OTHER_FORMATS = {"Qwen--Qwen3-30B-A3B-FP8", "nvidia--DeepSeek-V3.1-NVFP4", "zai-org--GLM-5.2-FP8"}
"""Quantised variants of a checkpoint that the data folder has in another format."""


def layer_counts(model: Model) -> Counter[Any]:
    counts: Counter[Any] = Counter()
    for group in model.groups:
        counts[group.attention, group.ffn] += group.count
    return counts


@needs_configs
def test_every_shared_config_has_its_twin_named_here() -> None:
    assert {path.stem for path in CONFIGS.glob("*.json")} == set(TWINS)


@needs_configs
@pytest.mark.parametrize("stem", sorted(TWINS))
def test_shared_config_equals_the_model_of_the_data_folder(stem: str) -> None:
    read, known = Model.from_config(CONFIGS / f"{stem}.json"), physics.load_model(TWINS[stem])
    assert layer_counts(read) == layer_counts(known)
    assert (read.hidden, read.vocab, read.tied_embeddings, read.max_context) == (
        known.hidden,
        known.vocab,
        known.tied_embeddings,
        known.max_context,
    )
    assert read.params_by_class() == known.params_by_class()
    assert read.kv_bytes_per_token() == known.kv_bytes_per_token()
    assert read.state_bytes() == known.state_bytes()
    if stem not in OTHER_FORMATS:
        held = [name for name, count in known.params_by_class().items() if count]
        assert {name: getattr(read.formats, name) for name in held} == {name: getattr(known.formats, name) for name in held}


@pytest.mark.parametrize("name", sorted({**CASES, **SPECIAL}))
def test_published_totals(name: str) -> None:
    case: Case = {**CASES, **SPECIAL}[name]
    model = Model.from_config(case.config, name=name)
    assert model.n_params == pytest.approx(case.total * 1e9, rel=case.tolerance), case.source
    if case.kv is not None:
        assert model.kv_bytes_per_token() == case.kv, case.source
    if case.active is not None:
        # Makers count active parameters with or without embedding and head, and round to whole billions.
        bare = model.n_active_params - (1 if model.tied_embeddings else 2) * model.vocab * model.hidden
        assert bare / 1e9 <= case.active * 1.08, case.source
        assert case.active * 0.97 <= model.n_active_params / 1e9, case.source


# ---------------------------------------------------------------- traps that public tools fall into


def v3(**more: Any) -> dict[str, Any]:
    sizes = {"hidden_size": 7168, "num_hidden_layers": 61, "intermediate_size": 18432, "vocab_size": 129280, "torch_dtype": "bfloat16"}
    return {
        "architectures": ["DeepseekV3ForCausalLM"],
        "model_type": "deepseek_v3",
        **sizes,
        **mla(1536, 128),
        **moe(256, 8, 2048, 1, 3),
        **more,
    }


def refused(config: Any, **options: Any) -> str:
    with pytest.raises(UnsupportedModelError) as caught:
        Model.from_config(config, **options)
    message = str(caught.value)
    assert message
    assert "\n" not in message
    assert len(message) < 1200
    return message


def test_head_dim_is_read_and_never_derived_from_a_fraction() -> None:
    explicit = Model.from_config(llama(5120, 2, 32, 14336, 32000, 8, head_dim=128))
    assert explicit.groups[0].attention == physics.GroupedQueryAttention(32, 8, 128, 128)
    derived = Model.from_config(llama(4096, 2, 32, 11008, 32000, 8))
    assert derived.groups[0].attention == physics.GroupedQueryAttention(32, 8, 128, 128)
    assert "head_dim" in refused(llama(5120, 2, 96, 14336, 32000, 8))


def test_latent_attention_keeps_one_latent_whatever_the_heads() -> None:
    assert Model.from_config(v3()).kv_bytes_per_token() == 61 * 576 * 2
    wide = Model.from_config(v3(num_attention_heads=64, num_key_value_heads=64))
    assert wide.kv_bytes_per_token() == 61 * 576 * 2


def test_prediction_layers_are_no_part_of_a_step() -> None:
    model = Model.from_config(v3(num_nextn_predict_layers=1))
    assert model.n_layers == 61
    assert any("num_nextn_predict_layers" in note for note in model.notes)


@pytest.mark.parametrize("field", ["n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts"])
def test_experts_under_any_name(field: str) -> None:
    config = v3()
    config[field] = config.pop("n_routed_experts")
    assert Model.from_config(config).n_params == Model.from_config(v3()).n_params


def test_two_names_of_one_quantity_must_agree() -> None:
    assert Model.from_config(v3(num_local_experts=256)).n_params == Model.from_config(v3()).n_params
    assert "num_local_experts" in refused(v3(num_local_experts=128))


@pytest.mark.parametrize(
    ("change", "dense"),
    [
        ({"first_k_dense_replace": 1}, 1),
        ({"moe_layer_freq": [0] * 5 + [1] * 56, "first_k_dense_replace": 5}, 5),
        ({"moe_layer_freq": 2}, 32),
    ],
)
def test_dense_layers_by_every_way_of_saying_it(change: dict[str, Any], dense: int) -> None:
    model = Model.from_config(v3(**change))
    assert sum(group.count for group in model.groups if isinstance(group.ffn, physics.DenseFFN)) == dense


def test_ways_that_disagree_about_dense_layers_are_refused() -> None:
    assert "first_k_dense_replace" in refused(v3(moe_layer_freq=[0] * 5 + [1] * 56))


def qwen3_moe(**more: Any) -> dict[str, Any]:
    config = llama(2048, 8, 32, 6144, 151936, 4, head_dim=128, model_type="qwen3_moe")
    return {**config, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768, **more}


@pytest.mark.parametrize(
    ("change", "sparse"), [({}, 8), ({"decoder_sparse_step": 2}, 4), ({"mlp_only_layers": [0, 7]}, 6), ({"mlp_only_layers": None}, 8)]
)
def test_qwen_patterns_of_experts(change: dict[str, Any], sparse: int) -> None:
    assert sum(count for count, _ in Model.from_config(qwen3_moe(**change)).moe_groups) == sparse


def test_windows_follow_the_flag_of_qwen_and_the_null_of_mistral() -> None:
    off = llama(4096, 8, 32, 11008, 32000, 8, model_type="qwen2", sliding_window=4096, max_window_layers=4, use_sliding_window=False)
    assert Model.from_config(off).kv_bytes_per_token() == 8 * 2 * 8 * 128 * 2
    on = Model.from_config({**off, "use_sliding_window": True})
    assert on.kv_bytes_per_token() == 4 * 2 * 8 * 128 * 2  # the upper four slide
    assert Model.from_config(llama(4096, 2, 32, 11008, 32000, 8, model_type="mistral")).kv_bytes_per_token() == 0  # class default 4096
    assert "sliding_window" in refused(llama(4096, 2, 32, 11008, 32000, 8, sliding_window=4096))  # Llama has none


def test_llama4_chunks_follow_rotary_layers() -> None:
    text = llama(
        5120, 8, 40, 8192, 202048, 8, model_type="llama4_text", head_dim=128, num_local_experts=16, num_experts_per_tok=1,
        intermediate_size_mlp=16384, interleave_moe_layer_step=2, attention_chunk_size=8192,
    )  # fmt: skip
    model = Model.from_config({"model_type": "llama4", "text_config": text})
    chunked = sum(g.count for g in model.groups if isinstance(g.attention, physics.GroupedQueryAttention) and g.attention.chunked)
    assert (chunked, model.n_layers) == (6, 8)
    assert [count for count, _ in model.moe_groups] == [2, 2]  # layers 1, 5 chunked; 3, 7 full
    assert model.moe_groups[0][1].shared_width == 8192


def test_shared_indexers_by_list_pattern_and_frequency() -> None:
    glm = {
        **v3(model_type="glm_moe_dsa", architectures=["GlmMoeDsaForCausalLM"], num_hidden_layers=8),
        "index_topk": 2048, "index_head_dim": 128, "index_n_heads": 32,
    }  # fmt: skip
    owners = {"F": "full", "S": "shared"}
    for change in (
        {"indexer_types": [owners[c] for c in "FFFSSSFS"]},
        {"index_topk_pattern": "FFFSSSFS"},
        {"index_topk_freq": 4, "index_skip_topk_offset": 3},
    ):
        model = Model.from_config({**glm, **change})
        own = sum(g.count for g in model.groups if isinstance(g.attention, physics.LatentAttention) and g.attention.index_heads)
        assert own == 4
    assert Model.from_config(glm).kv_bytes_per_token() == 8 * (576 + 128) * 2
    assert "indexer_types" in refused({**glm, "indexer_types": ["shared"] * 8})


def test_tied_embeddings_in_text_part_wrapper_and_class() -> None:
    plain = llama(2048, 2, 16, 5632, 151936, 16)
    assert not Model.from_config(plain).tied_embeddings
    assert Model.from_config({**plain, "tie_word_embeddings": True}).tied_embeddings
    assert Model.from_config({**plain, "model_type": "gemma"}).tied_embeddings  # class default
    wrapped = {"model_type": "qwen3_vl", "text_config": {**plain, "model_type": "qwen3_vl_text"}, "tie_word_embeddings": True}
    assert Model.from_config(wrapped).tied_embeddings


def test_latent_experts_work_at_their_own_width() -> None:
    config = {
        "model_type": "nemotron_h", "hidden_size": 4096, "hybrid_override_pattern": "ME*E", "vocab_size": 131072, "n_routed_experts": 512,
        "num_experts_per_tok": 22, "moe_intermediate_size": 2688, "moe_latent_size": 1024, "moe_shared_expert_intermediate_size": 5376,
        "n_shared_experts": 1, "num_attention_heads": 32, "num_key_value_heads": 2, "dtype": "bfloat16",
    }  # fmt: skip
    model = Model.from_config(config)
    ffn = model.moe_groups[0][1]
    assert (ffn.expert_params(4096), ffn.shared_params(4096)) == (2 * 1024 * 2688, 2 * 4096 * 5376 + 2 * 4096 * 1024)
    assert [(group.count, group.attention is None, group.ffn is None) for group in model.groups] == [
        (1, False, True),
        (2, True, False),
        (1, False, True),
    ]
    assert "num_hidden_layers" in refused({**config, "num_hidden_layers": 5})


# ---------------------------------------------------------------- strictness


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_kv_shared_layers", 4),
        ("sparse_block_size", 64),
        ("altup_num_inputs", 4),
        ("draft_vocab_size", 32000),
        ("per_layer_config", {"1": {}}),
    ],
)
def test_unknown_structure_is_refused_by_name_and_architecture(field: str, value: Any) -> None:
    message = refused({**v3(), field: value})
    assert field in message
    assert "DeepseekV3ForCausalLM" in message


def test_unknown_structure_that_is_off_is_ignored_and_other_unknowns_are_noted() -> None:
    model = Model.from_config(v3(num_kv_shared_layers=0, altup_num_inputs=None, colour="green", rope_theta=10000, attention_dropout=0.1))
    assert [note for note in model.notes if "colour" in note]
    assert not [note for note in model.notes if "rope_theta" in note or "altup" in note]


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "jamba", "architectures": ["JambaForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 32},
        {"model_type": "bert", "architectures": ["BertForMaskedLM"], "hidden_size": 768, "num_hidden_layers": 12},
        {"model_type": "vit", "hidden_size": 768, "num_hidden_layers": 12},
        {"model_type": "llama", "architectures": ["LlamaForSequenceClassification"], "hidden_size": 4096, "num_hidden_layers": 32},
        {"model_type": "llama", "architectures": ["LlamaForCausalLMEagle3"], "hidden_size": 4096, "num_hidden_layers": 1},
        {"model_type": "llama", "architectures": ["DeciLMForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 1},
        {"model_type": "t5", "is_encoder_decoder": True},
        {"peft_type": "LORA", "base_model_name_or_path": "x"},
        {"_class_name": "FluxPipeline", "_diffusers_version": "0.30"},
        {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": "x"},
        {"image_processor_type": "Qwen2VLImageProcessor"},
        {"metadata": {"total_size": 1}, "weight_map": {}},
        {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8"}},
        {"model_type": "llama"},
        {},
    ],
)
def test_configs_of_another_kind_are_refused_by_a_sentence(config: dict[str, Any]) -> None:
    refused(config)


def test_name_against_recomputed_sizes() -> None:
    def notes(name: str) -> list[str]:
        return [note for note in Model.from_config(qwen3_moe(num_hidden_layers=48), name=name).notes if "name says" in note]

    assert not notes("Qwen3-30B-A3.3B")
    assert ["+12%" in note for note in notes("Qwen3-30B-A3B")] == [True]
    assert len(notes("Qwen3-235B-A22B")) == 2
    assert not notes("Mixtral-8x7B")  # neither total nor active
    assert "active" in notes("Llama-4-Scout-17B-16E")[0]


def test_index_is_compared_in_a_note() -> None:
    index = {"metadata": {"total_size": 688_586_727_753}, "weight_map": {}}  # DeepSeek-V3, with one prediction layer
    model = Model.from_config(v3(quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128]}), safetensors_index=index)
    assert any("688.6 GB" in note and "-2.2%" in note for note in model.notes)
    assert "metadata" in refused(v3(), safetensors_index={"weight_map": {}})


def test_folder_brings_its_quantisation_and_index(tmp_path: Path) -> None:
    folder = tmp_path / "Some-Model-671B"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(v3()))
    quant = {"producer": {}, "quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head"], "kv_cache_quant_algo": "FP8"}}
    (folder / "hf_quant_config.json").write_text(json.dumps(quant))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 4e11}}))
    model = Model.from_config(folder)
    assert (model.name, model.formats.routed, model.kv_dtype) == ("Some-Model-671B", "nvfp4", "fp8")
    assert any("400 GB" in note for note in model.notes)
    assert Model.from_config(folder / "config.json").formats.routed == "bf16"
    assert Model.from_config(str(folder / "config.json")).name == "Some-Model-671B"


def test_a_read_model_runs_a_scenario() -> None:
    model = Model.from_config(v3(), quant_config={"quantization": {"quant_algo": "NVFP4", "exclude_modules": ["*self_attn.q_b_proj"]}})
    assert model.formats.attention.startswith("mix:nvfp4")
    frame = physics.regimes(physics.Scenario(model, physics.load_machine("B200"), gpus_per_stage=8))
    assert (frame["roofline_s"] > 0).all()
    assert math.isfinite(frame["energy_j"].sum())
