"""The data folder: nothing without a source, everything recomputable, published values as independent constants."""

import csv
import time

import pytest

from physics import catalog
from physics.catalog import DATA, DataError, load_machine, load_model, read_rows
from physics.formats import COMPUTE_CHAIN
from physics.machine import ACCOUNTINGS, LEVELS
from physics.scenario import Scenario

SOURCED = ["models.csv", "layers.csv", "machines.csv", "energy.csv", "energy_ratios.csv", "energy_levels.csv", "measured_energy.csv"]
SOURCED += ["tiers.csv", "workloads.csv", "efficiencies.csv", "validation.csv"]
GOOD_ROW = "machine,quantity,value,unit,status,source,confidence,note\nX,peak_bf16,{value},TFLOP/s,used,{source},{confidence},\n"


def _rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def _refusal(tmp_path, **cells: str) -> str:
    path = tmp_path / "machines.csv"
    path.write_text(GOOD_ROW.format(**{"value": "1", "source": "vendor", "confidence": "read"} | cells))
    with pytest.raises(DataError) as caught:
        read_rows(path, known_sources={"vendor"})
    return str(caught.value)


# ---------------------------------------------------------------- sources


@pytest.mark.parametrize("name", SOURCED)
def test_every_row_has_a_known_source_and_a_confidence(name):
    rows = read_rows(DATA / name, known_sources=catalog.sources())
    assert rows
    assert any(column == "source" or column.endswith("_source") for column in rows[0])


def test_a_row_without_source_is_refused_with_file_and_row(tmp_path):
    assert _refusal(tmp_path, source="").startswith("machines.csv, row 2: no source")


def test_a_row_citing_an_unknown_source_is_refused(tmp_path):
    assert "'hearsay' is not a key of sources.csv" in _refusal(tmp_path, source="hearsay:page 3")


@pytest.mark.parametrize("word", ["", "unverified", "from memory"])
def test_a_row_without_a_confidence_word_is_refused(tmp_path, word):
    assert "not one of read, secondary, derived" in _refusal(tmp_path, confidence=word)


def test_a_row_with_a_missing_cell_is_refused(tmp_path):
    path = tmp_path / "energy.csv"
    path.write_text("key,source,confidence\nx,vendor\n")
    with pytest.raises(DataError, match=r"energy.csv, row 2: wrong number of cells"):
        read_rows(path)


def test_every_source_is_cited_and_says_what_it_is():
    cited = {
        key
        for name in SOURCED
        for row in _rows(name)
        for column, cell in row.items()
        if column == "source" or column.endswith("_source")
        for key in catalog.source_keys(cell)
    }
    sources = catalog.sources()
    assert set(sources) == cited
    assert {row["kind"] for row in sources.values()} <= {"paper", "vendor document", "repository", "talk", "web page"}
    assert all(len(row["citation"]) > 15 and "memory)" not in row["citation"] for row in sources.values())


# ---------------------------------------------------------------- models


@pytest.mark.parametrize("name", catalog.models())
def test_recomputed_parameters_are_within_two_percent_of_the_published_total(name):
    model = load_model(name)
    # Kimi-Linear has 49.1e9 by its dimensions; its publisher prints 48B. Every other publisher rounds to the nearest digit.
    tolerance = 0.024 if name == "Kimi-Linear-48B-A3B" else 0.02
    assert model.n_params == pytest.approx(model.published_params, rel=tolerance)
    # Publishers count active parameters with or without embedding and head, and round down or up to one or two digits.
    classes = model.params_by_class()
    low, high = (model.n_active_params - classes["embedding"] - classes["head"]) * 0.9, model.n_active_params * 1.03
    assert low <= model.published_active_params <= high


# Totals of section 7 of the specification, from an independent closed form [1e9].
@pytest.mark.parametrize(
    ("name", "billions"),
    [("Llama-3.1-70B", 70.55), ("Mixtral-8x7B", 46.70), ("Qwen3-235B-A22B", 235.09), ("DeepSeek-V3", 671.03), ("Kimi-K2", 1026.4)],
)
def test_parameters_of_the_specification(name, billions):
    assert load_model(name).n_params / 1e9 == pytest.approx(billions, abs=0.05 if billions > 1000 else 0.006)


def test_deepseek_v3_has_14848_layer_experts_and_37_55_billion_active():
    model = load_model("DeepSeek-V3")
    assert sum(count * moe.n_experts for count, moe in model.moe_groups) == 58 * 256 == 14_848
    assert model.n_active_params / 1e9 == pytest.approx(37.55, abs=0.005)


KV_BF16 = {
    "DeepSeek-V3": 70_272,  # arXiv:2505.09343, Table 1
    "Qwen2.5-72B": 327_680,  # same table
    "Llama-3.1-405B": 516_096,  # same table
    "Llama-3.1-70B": 327_680,  # Cake, ICML 2025, Table 1, in KiB
    "Llama-3.1-8B": 131_072,  # same table
    "Llama-2-7B": 524_288,  # same table
    "Mixtral-8x7B": 131_072,  # 2 x 32 layers x 8 heads x 128 x 2 B
    "Qwen3-235B-A22B": 192_512,  # 188 KiB, "Bottlenecks", MLSys 2026, Table 3
    "DeepSeek-V3.2": 61 * 1_408,  # 1,408 B a layer, index key included: vLLM article of 2026-04-24
    "GLM-5": 89_856 + 78 * 256,  # Mooncake kvcache_prefix_bench.py, and an index key of 128 elements a layer
    "GLM-5.2": 89_856 + 21 * 256,  # the same, with indexers on 21 of 78 layers
    "Kimi-K3": 24 * 576 * 2,  # 24 latent layers of 512 + 64 elements
}


@pytest.mark.parametrize(("name", "expected"), KV_BF16.items())
def test_cache_bytes_per_token_in_bf16(name, expected):
    assert load_model(name).kv_bytes_per_token("bf16") == expected


def test_cache_bytes_of_other_formats_and_rounded_publications():
    v3, v32 = load_model("DeepSeek-V3"), load_model("DeepSeek-V3.2")
    assert v3.kv_bytes_per_token("fp8") == 35_136
    assert v3.kv_bytes_per_token("fp8_ds_mla") == 61 * 656 == 40_016  # FlashMLA
    assert v32.kv_bytes_per_token("fp8_ds_mla") == 61 * (656 + 132) == 48_068
    # EvicPress: 0.0915 GiB per 1,000 tokens; vLLM article of 2026-04-24: GiB at 2**20 tokens, one digit
    assert load_model("Qwen3-30B-A3B").kv_bytes_per_token() == pytest.approx(0.0915 * 2**30 / 1000, rel=1e-3)
    assert v32.kv_bytes_per_token() * 2**20 / 2**30 == pytest.approx(83.9, abs=0.05)
    assert load_model("DeepSeek-V4-Pro").kv_bytes_per_token() * 2**20 / 2**30 == pytest.approx(9.62, abs=0.005)
    assert load_model("DeepSeek-V4-Pro").kv_bytes_per_token("fp8_ds_mla") == pytest.approx(5_031, abs=0.5)
    assert load_model("DeepSeek-V4-Flash").kv_bytes_per_token("fp8_ds_mla") == pytest.approx(3_514, abs=0.5)


def test_minimax_m3_reproduces_the_published_cache_of_one_gpu_of_eight():
    # InferenceX: 29,952 B per token and GPU: 4 KV heads doubled over 8 GPUs in FP8, index keys in BF16
    model = load_model("MiniMax-M3")
    index_keys = 57 * 128
    assert (model.kv_bytes_per_token("fp8") - index_keys) / 4 == 60 * 2 * 128
    assert 60 * 2 * 128 + 57 * 128 * 2 == 29_952


def test_constant_memory_of_a_request():
    # KDA: 96 heads of 128 x 128 in FP32, three convolution tails of three BF16 rows; 69 layers
    assert load_model("Kimi-K3").state_bytes() == 69 * (96 * 128 * 128 * 4 + 3 * 3 * 96 * 128 * 2)
    # Gated DeltaNet: 64 value heads; the convolution covers 2 x 16 x 128 + 64 x 128 channels
    assert load_model("Qwen3.5-397B-A17B").state_bytes() == 45 * (64 * 128 * 128 * 4 + 12_288 * 3 * 2)
    # Mamba-2: 64 heads of 64 x 128; the convolution covers 4,096 + 2 x 8 x 128 channels
    assert load_model("Nemotron-3-Nano").state_bytes() == 23 * (64 * 64 * 128 * 4 + 6_144 * 3 * 2)
    # gpt-oss: 18 sliding layers, 8 KV heads of 64, window 128
    assert load_model("gpt-oss-120b").window_bytes(1e6) == 18 * 2 * 8 * 64 * 2 * 128
    assert load_model("MiMo-V2-Flash").window_bytes(1e6) == 39 * 8 * (192 + 128) * 2 * 128


def test_mimo_saves_about_five_times_by_its_windows():
    # The report says "nearly 6x" for one full layer in about six: 48 of 9 layers is 5.3 with the heads of the full layers.
    model = load_model("MiMo-V2-Flash")
    assert 48 * 4 * (192 + 128) * 2 / model.kv_bytes_per_token() == pytest.approx(5.33, abs=0.01)


def test_published_weight_formats():
    # gpt-oss-120b: 60.8 GiB checkpoint (openai/gpt-oss model card), routed experts in MXFP4
    assert load_model("gpt-oss-120b").weight_bytes() / 2**30 == pytest.approx(60.8, rel=0.02)
    v3 = load_model("DeepSeek-V3").formats
    assert (v3.attention, v3.dense, v3.shared, v3.routed) == ("fp8",) * 4
    assert (v3.embedding, v3.head, v3.router) == ("bf16",) * 3
    assert load_model("Kimi-K2.5").formats.routed == "int4_g32"


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("kimi-k2", "Kimi-K2"), ("moonshotai/Kimi-K2-Instruct", "Kimi-K2"), ("deepseek-ai/deepseek-v3", "DeepSeek-V3"),
        ("meta-llama/Llama-3.1-70B", "Llama-3.1-70B"), (" llama-3.1-70b ", "Llama-3.1-70B"), ("zai-org/GLM-5.2", "GLM-5.2"),
        ("GPT-OSS-120B", "gpt-oss-120b"),
    ],
)  # fmt: skip
def test_models_answer_to_aliases_whatever_the_case(alias, name):
    assert load_model(alias).name == name


def test_unknown_names_list_close_matches():
    with pytest.raises(KeyError, match=r"did you mean.*DeepSeek-V3"):
        load_model("DeepSeek-V9")
    with pytest.raises(KeyError, match=r"did you mean.*H200"):
        load_machine("H2000")
    with pytest.raises(KeyError, match="no model named 'zzzzzzzz'"):
        load_model("zzzzzzzz")


# ---------------------------------------------------------------- machines


@pytest.mark.parametrize("name", catalog.machines())
def test_every_complete_machine_loads_with_all_its_levels(name):
    machine = load_machine(name)
    assert machine.memory_bytes > 1e8
    assert machine.memory_bytes_per_s > 1e10
    assert set(machine.levels) == {(level, accounting) for level in LEVELS for accounting in ACCOUNTINGS}
    assert set(machine.peaks) <= set(machine.flop_j)
    assert set(machine.peaks) <= set(COMPUTE_CHAIN) | {"tf32"}


def test_incomplete_machines_say_what_is_missing():
    incomplete = set(catalog.machines(complete_only=False)) - set(catalog.machines())
    assert {"Cerebras WSE-3", "Apple M4 Max", "TPU 8i"} <= incomplete
    for name in incomplete:
        with pytest.raises(ValueError, match="no usable source gives"):
            load_machine(name)
    with pytest.raises(ValueError, match=r"Cerebras WSE-3.*dense peak"):
        load_machine("WSE-3")


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("h200", "H200"),
        ("B200", "B200"),
        ("gb300", "GB300"),
        ("Vera Rubin", "Vera Rubin NVL72"),
        ("H100 SXM", "H100"),
        ("Ironwood", "TPU7x"),
    ],
)
def test_machines_answer_to_aliases(alias, name):
    assert load_machine(alias).name == name


def test_ridges_of_the_specification():
    h200 = load_machine("H200")
    assert h200.ridge_flops_per_byte("bf16") == pytest.approx(206, abs=0.1)
    assert h200.ridge_flops_per_byte("fp8") == pytest.approx(412.3, abs=0.1)
    assert load_machine("H800").ridge_flops_per_byte("fp8") == pytest.approx(591, abs=0.3)


@pytest.mark.parametrize("name", catalog.machines())
def test_peaks_are_dense(name):
    # Matrix units double their rate when the width halves. A sparse number among dense ones shows as a ratio of four;
    # Gaudi 3 has equal rates, Blackwell Ultra FP4 three and a bit, Rubin FP8 4.4 (its tensor core is built for it).
    peaks = load_machine(name).peaks
    if {"bf16", "fp8"} <= set(peaks) and name != "Vera Rubin NVL72":
        assert 0.99 <= peaks["fp8"] / peaks["bf16"] <= 2.01
    if {"fp8", "fp4"} <= set(peaks):
        assert 1.99 <= peaks["fp4"] / peaks["fp8"] <= 3.2


def test_racks_add_up_to_the_printed_dense_totals():
    # GB200 NVL72: 720 PFLOP/s FP4 dense; GB300 NVL72: 1,080; 360 PFLOP/s FP8 and 576 TB/s both. Vera Rubin: 2,520 and 1,580 TB/s.
    gb200, gb300, rubin = load_machine("GB200"), load_machine("GB300"), load_machine("Vera Rubin NVL72")
    assert 72 * gb200.peaks["fp4"] == pytest.approx(720e15)
    assert 72 * gb300.peaks["fp4"] == pytest.approx(1_080e15)
    assert 72 * gb200.peaks["fp8"] == 72 * gb300.peaks["fp8"] == pytest.approx(360e15)
    assert 72 * gb200.memory_bytes_per_s == pytest.approx(576e12)
    assert 72 * rubin.peaks["fp4"] == pytest.approx(2_520e15)
    assert 72 * rubin.memory_bytes_per_s == pytest.approx(1_580e12, rel=0.005)
    assert 72 * 2 * rubin.scale_up_bytes_per_s == pytest.approx(260e12, rel=0.005)


def test_one_used_value_a_quantity_and_conflicts_are_kept():
    rows = _rows("machines.csv")
    used = [(row["machine"], row["quantity"]) for row in rows if row["status"] == "used"]
    assert len(used) == len(set(used))
    conflicts = {(row["machine"], row["quantity"]) for row in rows if row["status"] == "conflict"}
    assert ("B200", "memory_bandwidth") in conflicts
    assert conflicts <= set(used)


# ---------------------------------------------------------------- energy


def _expression(terms: str) -> float:
    """Sum of `factor*key` terms over energy.csv, in the units printed there."""
    total = 0.0
    for term in terms.replace(" ", "").split("+"):
        factor, _, key = term.rpartition("*")
        total += (float(factor) if factor else 1.0) * float(catalog.energy_rows()[key]["value"])
    return total


@pytest.mark.parametrize("row", _rows("energy_ratios.csv"), ids=lambda row: row["key"])
def test_ratios_recompute_within_their_printed_digits(row):
    printed = float(row["ratio"])
    step = 10.0 ** -len(row["ratio"].partition(".")[2])
    assert _expression(row["numerator"]) / _expression(row["denominator"]) == pytest.approx(printed, abs=0.6 * step + 0.002 * printed)


@pytest.mark.parametrize("row", _rows("energy_levels.csv"), ids=lambda row: f"{row['level']}-{row['memory_kind']}-{row['asked']}")
def test_levels_recompute_from_published_energies(row):
    assert float(row["value"]) == pytest.approx(_expression(row["derivation"]), rel=1e-5)
    cited = set(catalog.source_keys(row["source"]))
    keys = [term.rpartition("*")[2] for term in row["derivation"].replace(" ", "").split("+")]
    assert cited == {key for name in keys for key in catalog.source_keys(catalog.energy_rows()[name]["source"])}
    assert row["accounting"] == row["asked"] or row["label"]


def test_energy_rows_use_one_accounting_word_and_unclear_ones_are_not_used():
    words = {*ACCOUNTINGS, "provisioned", "per_mm", "unclear"}
    for row in _rows("energy.csv"):
        assert row["accounting"] in words
        assert (row["accounting"] == "unclear") == (row["status"] == "conflict")


def test_the_claimed_ratios_by_accounting():
    levels = load_machine("H200").levels
    ratio = {name: levels["memory", name].j_per_byte / levels["sram", name].j_per_byte for name in ACCOUNTINGS}
    assert ratio["interface"] == pytest.approx(15.7, abs=0.05)  # the default, "about 15"
    assert ratio["device"] == pytest.approx(15.7, abs=0.05)  # HBM3E device against a bare 1 MB bank: 16
    assert 6 <= ratio["wires"] <= 9
    assert 12 <= ratio["measured"] <= 13
    assert levels["memory", "interface"].j_per_byte == pytest.approx(40e-12)
    assert load_machine("A100").levels["memory", "measured"].j_per_byte == pytest.approx(19.41 * 8e-12)


# ---------------------------------------------------------------- glossary, presets, speed


def test_the_glossary_defines_what_the_contract_names():
    glossary = catalog.glossary()
    needed = set(Scenario.__dataclass_fields__) | {
        "prefill", "midfill", "decode_attention", "decode_experts", "decode_shared",
        "flops", "bytes", "weight_bytes", "kv_bytes", "activation_bytes", "intensity_flops_per_byte", "roofline_s", "bound", "fits",
        "energy_j",
    }  # fmt: skip
    assert needed <= set(glossary)
    for row in glossary.values():
        assert row["definition"].endswith(".")
        assert row["label"]
        assert row["kind"] in {"input", "bound", "estimate", "measured", "derived", "term"}
        assert row["unit"] or row["display"] == "text"


def test_presets_open_with_deepseek_v3_on_h200():
    key, preset = next(iter(catalog.presets().items()))
    assert key == "deepseek-v3-h200"
    assert (preset["model"], preset["machine"], preset["gpus_per_stage"], preset["batch"]) == ("DeepSeek-V3", "H200", 16, 64)
    assert (preset["context_tokens"], preset["new_tokens"], preset["weight_dtype"], preset["pipeline_depth"]) == (131_072, 1000, "fp8", 1)
    # 671 + 590 GB of 2,256, by hand
    assert load_machine("H200").memory_bytes * 16 == pytest.approx(2_256e9)
    assert load_model("DeepSeek-V3").weight_bytes("fp8") == pytest.approx(671e9, rel=2e-3)
    assert pytest.approx(590e9, rel=2e-3) == 64 * 131_072 * 70_272


@pytest.mark.parametrize("key", catalog.presets())
def test_presets_fit_the_memory_and_are_valid_scenarios(key):
    preset = catalog.presets()[key]
    assert preset.pop("question").endswith("?")
    assert preset.pop("title")
    model, machine = load_model(preset.pop("model")), load_machine(preset.pop("machine"))
    scenario = Scenario(model=model, machine=machine, **preset)
    per_token = preset.get("kv_bytes_per_token") or model.kv_bytes_per_token(preset["kv_dtype"])
    request = preset["context_tokens"] * per_token + model.window_bytes(preset["context_tokens"]) + model.state_bytes()
    cache = preset["batch"] * request * (2 if preset.get("double_buffered") else 1)
    weights = model.weight_bytes(preset.get("weight_dtype")) / preset["pipeline_depth"]
    assert weights + cache < preset["gpus_per_stage"] * machine.memory_bytes
    assert scenario.context_tokens + scenario.new_tokens + scenario.output_tokens <= model.max_context
    assert preset["pipeline_depth"] <= model.n_layers


def test_at_least_eight_presets():
    assert len(catalog.presets()) >= 8


def test_reading_the_whole_folder_takes_a_fraction_of_a_second():
    # Ten times the time measured on a busy two-core machine.
    start = time.process_time()
    for name in SOURCED:
        read_rows(DATA / name, known_sources=catalog.sources())
    assert time.process_time() - start < 0.5
