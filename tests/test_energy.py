"""Energy: published ratios, closed forms, limits, and the rule that accountings are not mixed silently."""

import ast
import csv
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import physics
from physics import energy
from physics.catalog import energy_rows, load_machine, load_model, measured_energy
from physics.expert_energy import contour_mm, measured_ratio, network_j_per_token
from physics.expert_memory import bank_anchors, built_sram, default_wire_j_per_byte_mm, energy_ratio, with_wire_energy
from physics.joules import CAUSES, LEVELS, PER
from physics.machine import ACCOUNTINGS, EnergyLevel
from physics.si import KIB, MIB, PJ_PER_BIT

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="../shared, the facts this project was built from, is not here")
H200, V3 = load_machine("H200"), load_model("DeepSeek-V3")
S = physics.Scenario(V3, H200, batch=64, gpus_per_stage=16, weight_dtype="fp8")
SIZES = {"8 KB": 8 * KIB, "32 KB": 32 * KIB, "1 MB": MIB}


def _shared(name: str) -> list[dict[str, str]]:
    with (SHARED / name).open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


# ---------------------------------------------------------------- published ratios


@needs_shared
def test_every_ratio_of_the_published_grid_within_its_printed_digit():
    """126 ratios of bank, distance, wire and memory, computed elsewhere from the same sources."""
    rows = _shared("data/energy_ratio_grid.csv")
    assert len(rows) == 126
    for row in rows:
        bank, wire = SIZES[row["sram_bank"].removesuffix(" (7nm)")], float(row["wire_pj_per_bit_mm"])
        level = built_sram(bank, float(row["wire_mm"]), wire * PJ_PER_BIT)
        assert level.j_per_byte / PJ_PER_BIT == pytest.approx(float(row["sram_total_pj_per_bit"]), abs=6e-5)
        memory = {"HBM3E": 3.44, "HBM 5": 5.0 + 25.0 * wire, "measured": 13.11}[
            " ".join(row["hbm_case"].split()[: 1 + ("HBM 5" in row["hbm_case"])])
        ]
        assert memory == pytest.approx(float(row["hbm_pj_per_bit"]), abs=0.006)
        assert memory * PJ_PER_BIT / level.j_per_byte == pytest.approx(float(row["ratio"]), abs=0.051)


@needs_shared
def test_every_published_ratio_from_our_own_energies_within_rounding():
    """Each of the 32 ratios, from the values stored in `data/energy.csv`; one, a vendor's 3 over 0.3, has no row here."""
    stored = [float(row["value"]) for row in energy_rows().values()]
    sums = [19.41, 6.57]  # HBM + L2 + L1, and their data paths alone: sums of three rows
    checked = 0
    for row in _shared("data/energy_ratios.csv"):
        printed = [float(row["hbm_or_dram_value"]), float(row["sram_value"])]
        scale = (
            64.0
            if printed[0] in (250.0, 450.0)
            else 8.0
            if "TDP" in row["numerator"] + row["denominator"] or "W per" in row["case"]
            else 1.0
        )
        near = [min([*stored, *sums], key=lambda value: abs(value - one / scale)) for one in printed]
        if all(abs(value * scale / one - 1.0) < 0.002 for value, one in zip(near, printed, strict=True)):
            checked += 1
            assert near[0] / near[1] == pytest.approx(float(row["ratio"]), abs=0.0501, rel=0.003), row["case"]
    assert checked == 31


@pytest.mark.parametrize(
    ("accounting", "sram", "expected", "mixed"),
    [
        ("device", physics.SramExperts(bank_bytes=8 * KIB), 29.4, False),
        ("device", physics.SramExperts(), 15.7, False),
        ("interface", physics.SramExperts(), 15.7, True),
        ("interface", physics.SramExperts(bank_bytes=8 * KIB, wire_mm=0.0), 42.7, True),
        ("wires", physics.SramExperts(), 8.7, False),
        ("wires", physics.SramExperts(wire_mm=2.0), 19.6, False),
        ("wires", physics.SramExperts(wire_mm=10.0, wire_j_per_byte_mm=0.1 * PJ_PER_BIT), 6.2, False),
        ("measured", physics.SramExperts(), 12.4, False),
        ("measured", physics.SramExperts(accounting="device", bank_bytes=8 * KIB), 153.6, True),
    ],
)
def test_the_ratios_of_the_design_notes(accounting, sram, expected, mixed):
    result = physics.expert_energy(S.replace(energy_accounting=accounting), sram)
    assert result.ratio.value == pytest.approx(expected, abs=0.06)
    assert result.ratio.is_mixed is mixed


def test_the_published_banks_are_hit_exactly_and_nothing_is_extrapolated():
    published = {8 * KIB: 7.5, 32 * KIB: 8.5, MIB: 14.0}  # pJ per 64 bit, Ten Lessons, Table 2
    for size, pj in published.items():
        assert energy.bank_j_per_byte(size, *bank_anchors()) / PJ_PER_BIT == pytest.approx(pj / 64.0, rel=1e-5)
    assert np.isnan(energy.bank_j_per_byte([4 * KIB, 2 * MIB], *bank_anchors())).all()
    beyond = energy.bank_j_per_byte([4 * KIB, 2 * MIB], *bank_anchors(), extrapolate=True) / PJ_PER_BIT
    assert beyond == pytest.approx([7.5 / 64 * (7.5 / 8.5) ** 0.5, 14 / 64 * (14 / 8.5) ** 0.2], rel=1e-5)


# ---------------------------------------------------------------- accountings


def test_levels_of_different_accounting_are_not_divided_unlabelled():
    memory, bank = H200.levels["memory", "interface"], built_sram(MIB, 0.0, 0.0)
    with pytest.raises(ValueError, match="counted differently"):
        energy_ratio(memory, bank)
    assert energy_ratio(memory, bank, mixed=True).accounting == "mixed: interface over device"
    assert energy_ratio(memory, memory).accounting == "interface"


def test_no_code_divides_two_levels_but_the_one_function_that_labels_it():
    """A division with `j_per_byte` on both sides, anywhere in the product, outside `energy_ratio`."""
    found = []
    for path in [*(ROOT / "physics").rglob("*.py"), *(ROOT / "app").rglob("*.py")]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
            for node in ast.walk(function):
                both = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
                if both and all("j_per_byte" in ast.unparse(side) for side in (node.left, node.right)):
                    found.append(f"{path.name}: {function.name}")
    # advantage_map divides by an array of built banks, and returns the words of energy_ratio beside it.
    assert found == ["expert_memory.py: energy_ratio"] or sorted(found) == [
        "expert_energy.py: advantage_map",
        "expert_memory.py: energy_ratio",
    ]


@pytest.mark.parametrize("accounting", ACCOUNTINGS)
def test_one_choice_switches_all_levels_together(accounting):
    result = physics.expert_energy(S.replace(energy_accounting=accounting))
    assert result.memory.accounting == accounting
    assert result.memory.j_per_byte == pytest.approx(H200.levels["memory", accounting].j_per_byte, rel=1e-12)
    wanted = {"device": "device", "interface": "wires", "wires": "wires", "measured": "measured"}[accounting]
    assert result.sram.accounting == wanted
    defaults = H200.levels["sram", accounting].j_per_byte
    assert result.sram.j_per_byte == pytest.approx(defaults, rel=1e-6)
    assert physics.regimes(S.replace(energy_accounting=accounting)).energy_weights_j["decode_experts"] / 64 == pytest.approx(
        result.memory_j
    )


def test_a_dearer_wire_costs_both_sides_where_both_are_counted():
    dear = with_wire_energy(H200, 0.1 * PJ_PER_BIT)
    assert dear.levels["memory", "wires"].j_per_byte / PJ_PER_BIT == pytest.approx(7.5)
    assert dear.levels["memory", "interface"] == H200.levels["memory", "interface"]
    assert with_wire_energy(load_machine("Groq 3 LPU"), 1e-12) == load_machine("Groq 3 LPU")


# ---------------------------------------------------------------- experts in HBM and in SRAM


@pytest.mark.parametrize(("ratio", "batch"), [(15.0, 480.0), (100.0, 3200.0)])
def test_the_crossing_of_the_design_notes(ratio, batch):
    """At 256/8 a ratio of 15 needs a batch of 480, one of 100 a batch of 3,200: kT/D = rho."""
    wire = (5.0 / ratio - 14.0 / 64.0) if ratio == 15.0 else 0.0
    sram = physics.SramExperts(wire_mm=1.0, wire_j_per_byte_mm=wire * PJ_PER_BIT)
    if ratio == 100.0:
        levels = dict(H200.levels) | {("memory", "interface"): EnergyLevel(100.0 * 14.0 / 64.0 * PJ_PER_BIT, "interface", "test")}
        scenario, sram = S.replace(machine=H200.replace(levels=levels)), physics.SramExperts(wire_mm=0.0)
    else:
        scenario = S
    result = physics.expert_energy(scenario, sram)
    assert result.crossing_queue_tokens == pytest.approx(ratio, rel=1e-4)
    assert result.crossing_batch == pytest.approx(batch, rel=1e-4)


@pytest.mark.parametrize("routing", ["uniform", "round_robin", physics.Routing.skewed(sigma=1.1)])
@pytest.mark.parametrize("reread", [0.0, 0.4])
def test_at_the_crossing_the_queue_is_the_closed_form(routing, reread):
    scenario = S.replace(routing=routing)
    result = physics.expert_energy(scenario, physics.SramExperts(reread_frac=reread))
    there = physics.expert_curves(scenario, physics.SramExperts(reread_frac=reread), [result.crossing_batch])
    assert there["queue_tokens"][0] == pytest.approx(result.crossing_queue_tokens, rel=1e-6)
    assert result.crossing_queue_tokens == pytest.approx(result.ratio.value / (1.0 - reread))
    assert there["memory_j"][0] == pytest.approx(there["sram_j"][0], rel=1e-6)
    needed = energy.break_even_ratio(there["queue_tokens"][0], reread)
    assert needed == pytest.approx(result.ratio.value, rel=1e-6)


def test_if_every_token_rereads_they_never_meet():
    result = physics.expert_energy(S, physics.SramExperts(reread_frac=1.0))
    assert math.isinf(result.crossing_queue_tokens)
    assert math.isnan(result.crossing_batch)


def test_joules_of_one_token_by_hand():
    """One token: 8 of 256 experts in 58 layers, 44,040,192 weights each at 1 + 2^-12 B: 20.44 GB; at 40 pJ/B 0.8176 J."""
    alone = physics.expert_curves(S, None, [1])
    size = 8 * 58 * 3 * 7168 * 2048 * (1 + 2**-12)
    assert alone["memory_j"][0] == pytest.approx(size * 40e-12, rel=1e-9)
    assert alone["sram_j"][0] == pytest.approx(size * 0.31875 * 8e-12, rel=1e-5)
    assert alone["queue_tokens"][0] == pytest.approx(1.0)


def test_chips_of_a_published_rack():
    """654 GB of FP8 experts over chips of 500 MB; five racks of 256 and a bit."""
    result = physics.expert_energy(S)
    assert result.expert_bytes == 58 * 256 * 44_040_192 * (1 + 2**-12)
    assert result.chips == math.ceil(result.expert_bytes / 500e6) == 1309
    assert physics.expert_energy(S, physics.SramExperts(chip="Cerebras WSE-3")).chips == 15
    assert physics.expert_energy(S, physics.SramExperts(chip_bytes=1e12)).chips == 1


def test_routed_experts_are_97_percent_of_deepseek_v3():
    assert physics.expert_energy(S).routed_frac == pytest.approx(0.974, abs=6e-4)  # one format for all: the share of parameters
    as_published = physics.expert_energy(S.replace(weight_dtype=None)).routed_frac  # embedding, head and router in BF16
    assert as_published == pytest.approx(0.9717, abs=1e-4)


def test_decode_dominates_a_turn_of_a_thousand_tokens_at_long_context():
    """1,000 new and 1,000 output tokens at 131,072: each decode step scans the context for one token, the midfill for a thousand."""
    now = physics.energy_by_cause(S, "request")
    decode = now.loc[["decode_attention", "decode_experts", "decode_shared"], "total"].sum()
    assert physics.turn(S).decode_energy_frac == pytest.approx(decode / (decode + now.total["midfill"]), abs=0.005)
    assert physics.turn(S).decode_energy_frac > 0.75


# ---------------------------------------------------------------- network, leakage


def test_network_is_nothing_for_one_chip_and_something_for_more():
    assert network_j_per_token(S, 1.0, math.inf) == 0.0
    moved = 58 * 8 * 7168 * 3  # bytes of a token: 8 experts, FP8 in and BF16 out, 58 layers
    for chips in (2, 10, 1309):
        assert network_j_per_token(S, chips, math.inf) == pytest.approx(moved * (1 - 1 / chips) * 160e-12)
    one = physics.expert_curves(S, physics.SramExperts(chip_bytes=1e12), [64])
    assert one["sram_network_j"][0] == one["network_s"][0] == 0.0
    result = physics.expert_energy(S)
    assert 0.0 < result.network_frac < 1.0
    assert result.network_s > 0.0


def test_network_of_main_memory_experts_is_that_of_the_regimes():
    table = physics.regimes(S)
    assert physics.expert_energy(S).memory_network_j == pytest.approx(table.energy_network_j["decode_experts"] / 64)


def test_a_submicrosecond_expert_floods_the_switch():
    """44 MB through 150 TB/s is 0.29 µs; 222.4 touched experts each take and give one message in it."""
    result = physics.expert_energy(S)
    assert result.expert_s == pytest.approx(44_040_192 * (1 + 2**-12) / 150e12)
    assert result.messages_per_s == pytest.approx(2 * 222.44 / result.expert_s, rel=1e-4)
    assert result.switch_bytes_per_s == pytest.approx(222.44 * 7168 * 3 / result.expert_s, rel=1e-4)
    assert result.experts_s == pytest.approx(58 * 64 * 8 / 222.44 * result.expert_s, rel=1e-4)


def test_time_of_links_nobody_states_is_not_made_up():
    result = physics.expert_energy(S, physics.SramExperts(chip="Cerebras WSE-3"))
    assert math.isnan(result.network_s)
    assert result.sram_network_j > 0.0


def test_leakage_is_nothing_unless_stated_and_shrinks_with_the_batch():
    assert physics.expert_energy(S).leakage_j == 0.0
    leaky = physics.SramExperts(leakage_w_per_gb=1.0)
    few, many = physics.expert_curves(S, leaky, [16, 64])["leakage_j"]
    assert few > many > 0.0
    step = physics.regimes(S).roofline_s[["decode_attention", "decode_shared"]].sum()
    here = physics.expert_energy(S, leaky)
    assert here.leakage_j == pytest.approx(654.0684 * (step + here.experts_s + here.network_s) / 64, rel=1e-4)


# ---------------------------------------------------------------- joules by level and cause


@pytest.mark.parametrize("accounting", ACCOUNTINGS)
@pytest.mark.parametrize("per", PER)
def test_levels_and_causes_add_up_to_the_total(accounting, per):
    scenario = S.replace(machine=H200.replace(idle_w=100.0), energy_accounting=accounting, pipeline_depth=2)
    levels, causes, table = physics.energy_by_level(scenario, per), physics.energy_by_cause(scenario, per), physics.regimes(scenario)
    assert levels[list(LEVELS)].sum(axis=1).to_numpy() == pytest.approx(levels.total.to_numpy())
    assert levels.total.to_numpy() == pytest.approx(causes.total.to_numpy())
    assert (levels.idle > 0).all()
    assert causes[list(CAUSES)].sum(axis=1).to_numpy() == pytest.approx(causes.total.to_numpy())
    if per == "step":
        assert levels.total.to_numpy() == pytest.approx(table.energy_j.to_numpy())
    if per == "token":
        assert levels.total["midfill"] == pytest.approx(table.energy_j["midfill"] / 64_000)
        assert levels.total["decode_shared"] == pytest.approx(table.energy_j["decode_shared"] / 64)
    if per == "request":
        assert levels.total["prefill"] == pytest.approx(table.energy_j["prefill"] / 64)
        assert levels.total["decode_shared"] == pytest.approx(table.energy_j["decode_shared"] / 64 * 1000)


def test_levels_by_hand():
    """16 H200 in two domains of 8: decode experts send over both kinds of links; on one accelerator over none."""
    table, levels = physics.regimes(S), physics.energy_by_level(S)
    assert levels.memory["decode_experts"] == pytest.approx(table.bytes["decode_experts"] * 40e-12)
    assert levels.scale_up["decode_experts"] > 0
    assert levels.scale_out["decode_experts"] > 0
    inside = physics.energy_by_level(S.replace(gpus_per_stage=8))
    assert (inside.scale_out == 0).all()
    alone = physics.energy_by_level(S.replace(gpus_per_stage=1))
    assert (alone[["scale_up", "scale_out"]] == 0).all().all()


def test_an_unknown_unit_of_work_is_refused():
    with pytest.raises(ValueError, match="per: 'hour' is not one of step, token, request"):
        physics.energy_by_level(S, "hour")


# ---------------------------------------------------------------- scaling and monotonicity

banks = st.floats(8 * KIB, MIB)
distances = st.floats(0.0, 50.0)


@given(banks, banks, distances, distances)
def test_larger_and_farther_never_costs_less(bank, other, near, far):
    wire = default_wire_j_per_byte_mm()
    small, large = sorted((bank, other))
    close, away = sorted((near, far))
    assert built_sram(small, close, wire).j_per_byte <= built_sram(large, away, wire).j_per_byte * (1 + 1e-12)


@given(st.floats(0.1, 1000.0), st.floats(0.0, 0.99))
def test_queue_and_ratio_are_inverse(ratio, reread):
    assert energy.break_even_ratio(energy.break_even_queue_tokens(ratio, reread), reread) == pytest.approx(ratio)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 4096), st.floats(0.0, 1.0), st.floats(0.0, 0.9))
def test_joules_of_main_memory_fall_with_the_batch_and_those_of_sram_do_not(batch, step, reread):
    sram = physics.SramExperts(reread_frac=reread)
    curves = physics.expert_curves(S, sram, [batch, batch * (2.0 + step)])
    assert curves["memory_j"][1] < curves["memory_j"][0]
    assert curves["sram_j"][1] == curves["sram_j"][0]
    assert curves["queue_tokens"][1] > curves["queue_tokens"][0]


@settings(max_examples=25, deadline=None)
@given(st.floats(0.1, 10.0))
def test_joules_scale_with_the_energy_of_a_byte(factor):
    levels = {key: EnergyLevel(level.j_per_byte * factor, level.accounting, level.source) for key, level in H200.levels.items()}
    scaled = physics.energy_by_level(S.replace(machine=H200.replace(levels=levels)))
    plain = physics.energy_by_level(S)
    for name in ("memory", "scale_up", "scale_out"):
        assert scaled[name].to_numpy() == pytest.approx(plain[name].to_numpy() * factor)
    assert scaled.flop.to_numpy() == pytest.approx(plain.flop.to_numpy())


# ---------------------------------------------------------------- map, refusals, measured rows


def test_the_map_agrees_with_the_single_ratio_and_its_contours():
    sizes, distances = np.array([8 * KIB, 64 * KIB, MIB]), np.array([0.5, 2.0, 10.0])
    ratios, words = physics.advantage_map(S, physics.SramExperts(), sizes, distances)
    assert words == "mixed: interface over wires"
    for row, distance in enumerate(distances):
        for column, size in enumerate(sizes):
            one = physics.expert_energy(S, physics.SramExperts(bank_bytes=size, wire_mm=distance)).ratio.value
            assert ratios[row, column] == pytest.approx(one)
    at = contour_mm(S, physics.SramExperts(), 12.0, sizes)
    for size, distance in zip(sizes, at, strict=True):
        assert physics.expert_energy(S, physics.SramExperts(bank_bytes=size, wire_mm=float(distance))).ratio.value == pytest.approx(12.0)
    assert np.isnan(contour_mm(S, physics.SramExperts(), 100.0, sizes)).all()  # 100x is nowhere among 7 nm banks at 5 pJ/bit
    assert measured_ratio(S).value == pytest.approx(12.4, abs=0.05)


def test_under_device_accounting_distance_does_not_count():
    ratios, words = physics.advantage_map(S.replace(energy_accounting="device"), physics.SramExperts(), [MIB], [0.5, 20.0])
    assert words == "device"
    assert ratios[0] == ratios[1]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("bank_bytes", 4096.0), ("bank_bytes", 4 * MIB), ("bank_bytes", math.nan), ("wire_mm", -1.0), ("wire_j_per_byte_mm", -1e-12),
        ("chip", "TI-84"), ("chip_bytes", 0.0), ("reread_frac", 1.5), ("leakage_w_per_gb", math.inf), ("accounting", "vibes"),
    ],
)  # fmt: skip
def test_nonsense_is_refused_naming_the_field(field, value):
    with pytest.raises(ValueError, match=f"{'sram_' if field in ('chip', 'accounting') else ''}{field}: "):
        physics.SramExperts(**{field: value})


def test_a_dense_model_has_no_experts_to_move():
    dense = physics.Scenario(load_model("Llama-3.1-70B"), H200, gpus_per_stage=8)
    with pytest.raises(ValueError, match="no routed experts"):
        physics.expert_energy(dense)
    assert np.isnan(physics.expert_curves(dense, None, [1, 2])["memory_j"]).all()


def test_measured_rows_that_are_derived_can_be_recomputed():
    rows = measured_energy()
    assert float(rows["llama3_70b_h100_byte"]["value"]) == pytest.approx(239.9 / (0.322 * 3.35e12) / PJ_PER_BIT, abs=0.005)
    per_gpu = 22_282 / 8
    for key, watts in (("deepseek_h100_ep72", 700.0), ("deepseek_h100_ep72_all_in", 1370.0)):
        assert float(rows[key]["value"]) == pytest.approx(watts / per_gpu, abs=5e-5)
    assert float(rows["deepseek_gb200_ep8"]["value"]) == pytest.approx(1200.0 / 10_100.0, abs=5e-5)
    assert {row["kind"] for row in rows.values()} == {"measured", "speed_and_power"}


@needs_shared
def test_measured_speeds_are_those_of_the_shared_table():
    wanted = ("sgl-h100-dec", "vllm-gb200-dec")
    speeds = {row["id"]: float(row["value"]) for row in _shared("measured/published.csv") if row["id"] in wanted}
    assert speeds == {"sgl-h100-dec": 22_282.0, "vllm-gb200-dec": 10_100.0}
    power = {row["system"]: float(row["kw"]) * 1e3 for row in _shared("data/system_power.csv")}
    assert power["H100 average power in decode (per GPU)"] == float(measured_energy()["llama3_70b_h100_decode"]["value"])
    assert power["H100 all-in per GPU"] == pytest.approx(1370.0)
