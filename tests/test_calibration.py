"""Calibration: fits on synthetic data of known truth, left-out groups that are really left out, bounds that hold, files that reproduce."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import physics
from app import calibrate
from physics import catalog
from physics.calibrated import calibration_table, load_efficiencies
from physics.calibration import FILES, collector, kernel_rows
from physics.calibration.fit import bootstrap, fit, left_out_errors
from physics.calibration.forms import EXPERTS, SERVING, STACKS
from physics.calibration.kernel_fits import POOLED, KernelFits
from physics.calibration.published import published
from physics.calibration.serving_rows import reasons, with_kernels
from physics.calibration.serving_study import kernels_without
from physics.regimes import part_seconds

MEASURED = Path(__file__).parents[2] / "shared" / "measured"
needs_files = pytest.mark.skipif(not MEASURED.is_dir(), reason="../shared/measured is absent")
TRUTH = {"compute_frac": 0.4, "memory_frac": 0.8, "pad_tokens": 20.0, "layer_floor_s": 30e-6}


def synthetic(groups: int = 6, rows: int = 300, noise: float = 0.08, seed: int = 3) -> pd.DataFrame:
    """Expert kernels of known efficiencies: times over six decades, with lognormal noise."""
    random = np.random.default_rng(seed)
    compute, memory = 10 ** random.uniform(-6, -2, groups * rows), 10 ** random.uniform(-6, -2, groups * rows)
    token = compute / 10 ** random.uniform(0, 3, groups * rows)
    padded = (compute + TRUTH["pad_tokens"] * token) / TRUTH["compute_frac"]
    seconds = np.maximum(padded, memory / TRUTH["memory_frac"]) + TRUTH["layer_floor_s"]
    frame = pd.DataFrame({"core_compute_s": compute, "core_memory_s": memory, "token_s": token, "bound_s": np.maximum(compute, memory)})
    return frame.assign(
        group=np.repeat([f"g{i}" for i in range(groups)], rows), measured_s=seconds * np.exp(noise * random.normal(size=seconds.size))
    )


# ---------------------------------------------------------------- fits


def test_known_efficiencies_come_back_within_their_interval() -> None:
    frame = synthetic()
    found, interval = fit(EXPERTS, frame), bootstrap(EXPERTS, frame, "group", draws=20)
    for name, truth in TRUTH.items():
        assert found[name] == pytest.approx(truth, rel=0.05)
        low, high = interval[name]
        assert low * 0.97 <= truth <= high * 1.03
        assert low < high


def test_one_bad_row_in_ten_moves_a_fit_by_less_than_a_tenth() -> None:
    frame = synthetic(seed=5)
    bad = np.random.default_rng(1).random(len(frame)) < 0.10
    frame.loc[bad, "measured_s"] *= 10.0
    for name, value in fit(EXPERTS, frame).items():
        assert value == pytest.approx(TRUTH[name], rel=0.10)


def test_fits_repeat_exactly() -> None:
    frame = synthetic(groups=3, rows=80)
    assert fit(EXPERTS, frame) == fit(EXPERTS, frame)
    assert bootstrap(EXPERTS, frame, "group", draws=3) == bootstrap(EXPERTS, frame, "group", draws=3)


def test_what_data_cannot_tell_stays_at_its_start() -> None:
    frame = synthetic(groups=1, rows=100)
    frame = frame.assign(core_compute_s=1e-12, token_s=0.0, measured_s=frame["core_memory_s"] / 0.8 + 30e-6)
    found = fit(EXPERTS, frame)
    assert found["compute_frac"] == pytest.approx(0.5, rel=0.02)
    assert found["memory_frac"] == pytest.approx(0.8, rel=0.01)


def test_the_left_out_group_is_never_seen() -> None:
    """One group is ten times slower: its error is log 10 exactly where no row of it was fitted."""
    frame = synthetic(noise=0.0)
    slow = frame["group"] == "g2"
    frame.loc[slow, "measured_s"] *= 10.0
    errors, baseline = left_out_errors(EXPERTS, frame, "group", "group")
    assert errors[slow].median() == pytest.approx(np.log(10.0), abs=0.01)
    assert errors[slow].std() < 0.03  # a fit that had seen the slow rows would bend towards them
    assert baseline[slow].abs().median() > errors[~slow].abs().median()


def test_predictions_of_a_group_do_not_depend_on_its_measurements() -> None:
    frame = synthetic(groups=4, rows=100)
    changed = frame.copy()
    mine = frame["group"] == "g1"
    changed.loc[mine, "measured_s"] *= np.random.default_rng(0).uniform(0.2, 5.0, int(mine.sum()))
    predicted = [one["measured_s"] / np.exp(left_out_errors(EXPERTS, one, "group", "group")[0]) for one in (frame, changed)]
    np.testing.assert_allclose(predicted[0][mine], predicted[1][mine], rtol=1e-9)
    assert not np.allclose(predicted[0][~mine], predicted[1][~mine], rtol=1e-6)


def test_a_single_group_has_no_left_out_error() -> None:
    errors, baseline = left_out_errors(EXPERTS, synthetic(groups=1), "group", "group")
    assert errors.isna().all()
    assert baseline.isna().all()


def kernels() -> pd.DataFrame:
    """Kernel rows of two families, with what `KernelFits` reads."""
    parts = []
    for family, machine, factor in (("Hopper", "H200", 1.0), ("Blackwell", "GB300", 0.5)):
        part = synthetic(groups=2, rows=60, noise=0.0).assign(
            regime="experts", format="fp8", family=family, machine=machine, dataset="kernels"
        )
        parts.append(part.assign(model=part["group"], group=machine + part["group"], measured_s=part["measured_s"] / factor))
    return pd.concat(parts, ignore_index=True)


def test_serving_left_out_keeps_kernels_of_the_model_and_machine_out_too() -> None:
    rows = kernels()
    mla = rows.iloc[:4].assign(regime="MLA decode", model=["1 heads", "2 heads", "64 heads", "128 heads"])
    both = pd.concat([rows, mla], ignore_index=True)
    assert set(kernels_without(both, "model", "DeepSeek-V3")["regime"]) == {"experts"}
    assert set(kernels_without(both, "machine", "H200")["machine"]) == {"GB300"}
    assert set(kernels_without(both, "family", "Blackwell")["family"]) == {"Hopper"}


def test_an_unmeasured_machine_is_spoken_for_by_all_machines() -> None:
    fits = KernelFits.of(kernels(), ("experts",))
    assert fits.scope("H800", "experts", "fp8") == ("Hopper", "experts", "fp8")
    assert fits.scope("MI300X", "experts", "fp8") == (POOLED, "experts", "fp8")
    assert fits.scope("H800", "experts", "nvfp4") == ("Hopper", "experts", "")
    hopper, blackwell = (fits.values[fits.scope(name, "experts", "fp8")] for name in ("H200", "B200"))  # type: ignore[index]
    assert blackwell["memory_frac"] == pytest.approx(hopper["memory_frac"] / 2, rel=0.05)


# ---------------------------------------------------------------- routing as the benchmark runs it


def test_balanced_routing_with_group_limit_wakes_half_of_the_experts() -> None:
    # Each of 8 groups of 32 holds one asked expert, all groups tie, the first 4 win: 4 asked and 4 lowest-numbered ones per token.
    assert collector.measured_load(64, 256, 8, 1, "balanced", (8, 4)) == (128.0, 512.0)
    assert collector.measured_load(64, 256, 8, 2, "balanced", (8, 4)) == (128.0, 512.0)  # all of it on the first rank of two
    assert collector.measured_load(64, 256, 8, 1, "balanced") == (256.0, 512.0)
    assert collector.measured_load(64, 256, 8, 8, "balanced") == (32.0, 64.0)


@pytest.mark.parametrize(("tokens", "experts", "top_k"), [(1, 256, 8), (16, 256, 8), (32, 256, 8), (200, 128, 4)])
def test_balanced_routing_without_limit_is_round_robin(tokens: int, experts: int, top_k: int) -> None:
    load = collector.measured_load(tokens, experts, top_k, 1, "balanced")
    assert load == (min(tokens * top_k, experts), tokens * top_k)


def test_power_law_loads_add_up_and_the_heaviest_rank_comes_first() -> None:
    loads = collector.power_law_loads(np.random.default_rng(2), 1000, 256, 8, 8, 1.2)
    assert loads.sum() == 8000
    assert (loads >= 0).all()
    by_rank = loads.reshape(8, -1).sum(axis=1)
    assert by_rank[0] == by_rank.max()


def test_an_expert_asked_for_twice_by_a_token_gives_way_to_the_lowest_idle_one() -> None:
    assert sorted(collector.chosen(np.array([[5, 5, 7]]), 8, 3, None)[0].tolist()) == [0, 5, 7]


def test_bf16_keeps_eight_significant_bits() -> None:
    assert collector.bf16(np.array([1.0, 255.0, 257.0, 511.0, 1.0 + 2.0**-9])).tolist() == [1.0, 255.0, 256.0, 512.0, 1.0]


# ---------------------------------------------------------------- measured files


@needs_files
def test_no_balanced_expert_row_beats_the_bound_once_its_routing_is_followed() -> None:
    frame = pd.read_csv(MEASURED / "expert_kernels.csv.gz").query("distribution == 'balanced'")
    # By hand: 64 balanced tokens of DeepSeek-V3 in FP8 on an H200 took 1.389 ms; all 256 experts of 44.04 MB need 2.35 ms.
    row = frame.query("system == 'h200_sxm' and num_tokens == 64 and hidden_size == 7168 and inter_size == 2048 and num_experts == 256")
    row = row[(row["moe_dtype"] == "fp8_block") & (row["moe_ep_size"] == 1) & (row["moe_tp_size"] == 1)]
    assert row["latency_ms"].item() / 1e3 < 256 * 44_040_192 / 4.8e12 == pytest.approx(2.349e-3, rel=1e-3)
    rows = kernel_rows.expert_rows(frame)
    assert (rows["measured_s"] >= rows["bound_s"]).all()
    assert len(rows) == len(frame)


@needs_files
def test_mla_decode_work_by_hand() -> None:
    frame = pd.read_csv(MEASURED / "mla_kernels.csv.gz")
    one = frame.query(
        "system == 'h200_sxm' and op_name == 'mla_generation_module' and num_heads == 128 and batch_size == 64 and step == 8192"
    )
    one = one[(one["kv_cache_dtype"] == "bfloat16") & (one["gemm_type"] == "bfloat16")]
    row = kernel_rows.mla_rows(one.reset_index(drop=True)).iloc[0]
    assert row["core_compute_s"] == pytest.approx(64 * 8193 * 2 * 128 * (2 * 512 + 64) / 989e12, rel=1e-6)
    assert row["core_memory_s"] == pytest.approx(64 * 8193 * 576 * 2 / 4.8e12, rel=1e-6)


@needs_files
def test_repeated_and_relabelled_serving_runs_are_left_out() -> None:
    frame = pd.read_csv(MEASURED / "serving_runs.csv.gz")
    why = reasons(frame)
    kept = frame[why == ""]
    assert not kept.duplicated(["model_path", "system", "isl", "osl", "concurrency", "ttft_ms", "tpot_ms"]).any()
    assert (kept["mode"] == "agg").all()
    assert len(kept) > 1900


@needs_files
@pytest.mark.slow
def test_running_the_command_again_reproduces_the_files(tmp_path: Path) -> None:
    for name in ("efficiencies", *(f"calibration_{part}" for part in ("errors", "findings", "coverage", "points"))):
        (tmp_path / f"{name}.csv").write_bytes((catalog.DATA / f"{name}.csv").read_bytes())
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert calibrate.run(argparse.Namespace(measured=MEASURED, output=tmp_path, date=None)) == 0
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_missing_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert calibrate.run(argparse.Namespace(measured=tmp_path, output=tmp_path, date=None)) == 2
    assert f"{FILES[0]}.csv.gz" in capsys.readouterr().err


# ---------------------------------------------------------------- tables


def test_every_finding_beats_its_bound_and_is_counted() -> None:
    findings = pd.DataFrame(calibration_table("calibration_findings"))
    assert (findings["measured_s"].astype(float) < findings["bound_s"].astype(float)).all()
    assert (findings["reason"].str.len() > 20).all()
    counted = pd.DataFrame(calibration_table("calibration_coverage")).query("outcome == 'faster than the bound'")
    late = findings["regime"] == "TTFT"
    assert dict(zip(counted["file"], counted["rows"].astype(int), strict=True)) == findings[~late].groupby("dataset").size().to_dict()


def test_no_estimate_of_a_point_is_under_its_bound() -> None:
    points = pd.DataFrame(calibration_table("calibration_points")).replace("", "nan")
    estimate, bound = points["estimate_s"].astype(float), points["bound_s"].astype(float)
    assert (estimate.isna() | (estimate >= bound * 0.999)).all()
    assert len(points) <= 2000


def test_fitted_values_lie_in_their_interval_and_name_their_rows() -> None:
    for row in calibration_table("efficiencies"):
        assert float(row["low"]) <= float(row["value"]) <= float(row["high"])
        assert "rows)" in row["source_rows"]
        assert len(row["date"]) == 10
        if row["parameter"].endswith("_frac"):
            assert 0.0 < float(row["value"]) <= 1.0


def test_published_results_map_and_none_beats_its_bound() -> None:
    table = published()
    assert len(table) == len(calibration_table("validation"))
    assert (table["bound_s"] <= table["estimate_low_s"]).all()
    assert (table["estimate_low_s"] <= table["estimate_s"]).all()
    assert (table["measured_s"] > table["bound_s"]).all()


# ---------------------------------------------------------------- estimates of scenarios


@pytest.mark.parametrize("machine", catalog.machines())
def test_every_machine_has_calibrated_efficiencies_above_its_bound(machine: str) -> None:
    scenario = physics.Scenario(
        physics.load_model("Llama-3.1-8B"),
        physics.load_machine(machine).replace(memory_bytes=1e13),
        8192,
        batch=4,
        compute_dtype=next(iter(physics.load_machine(machine).peaks)),
        efficiencies=load_efficiencies(machine),
    )
    table = physics.regimes(scenario).drop(index="decode_experts")  # a dense model has no routed experts
    assert (table["estimate_low_s"] >= table["roofline_s"] * (1 - 1e-12)).all()
    assert (table["estimate_low_s"] <= table["estimate_s"]).all()
    assert (table["estimate_s"] <= table["estimate_high_s"]).all()


def test_an_unmeasured_family_says_so_and_has_the_wider_interval() -> None:
    known, unknown = load_efficiencies("H200"), load_efficiencies("MI300X")
    assert "never measured" in unknown.basis
    assert "never measured" not in known.basis
    for (_, low, high), (_, low_known, high_known) in zip(unknown.spread, known.spread, strict=True):
        assert low <= low_known
        assert high >= high_known


def scenario_with(efficiencies: physics.Efficiencies) -> physics.Scenario:
    model, machine = physics.load_model("DeepSeek-V3"), physics.load_machine("H200")
    return physics.Scenario(model, machine, batch=64, gpus_per_stage=16, efficiencies=efficiencies)


def test_parts_add_up_as_written_down() -> None:
    rest = physics.PartEfficiency("rest", memory_frac=0.5, network_frac=0.25, layer_floor_s=1e-5, collective_floor_s=2e-6)
    experts = physics.PartEfficiency("experts", compute_frac=0.4, memory_frac=0.8, network_frac=0.5, pad_tokens=10.0)
    spread = (("decode_experts", 0.5, 2.0),)
    given = physics.Efficiencies(parts=(physics.PartEfficiency("attention"), experts, rest), step_s=1e-3, spread=spread)
    s = scenario_with(given)
    table, decode = physics.regimes(s), part_seconds(s)[2]
    compute, memory, network, token = decode[1]
    line = max((compute + 10.0 * token) / 0.4, memory / 0.8) + network / 0.5
    assert table.loc["decode_experts", "estimate_s"] == pytest.approx(line, rel=1e-9)
    assert table.loc["decode_experts", "estimate_high_s"] == pytest.approx(2.0 * line, rel=1e-9)
    compute, memory, network, _ = decode[2]
    shared = max(compute, memory / 0.5) + network / 0.25 + 61 * 1.2e-5 + 1e-3
    assert table.loc["decode_shared", "estimate_s"] == pytest.approx(shared, rel=1e-9)


def test_efficiencies_of_one_give_the_bound_back() -> None:
    table = physics.regimes(scenario_with(physics.Efficiencies()))
    np.testing.assert_allclose(table["estimate_s"], table["roofline_s"], rtol=1e-12)


def test_sweep_estimates_equal_those_of_single_scenarios() -> None:
    s, names = scenario_with(load_efficiencies("H200")), ["estimate_low_s", "estimate_s", "estimate_high_s"]
    swept = physics.sweep_arrays(s, columns=names, batch=[1, 64, 512], gpus_per_stage=[8, 16])
    for i, batch in enumerate((1, 64, 512)):
        for j, gpus in enumerate((8, 16)):
            alone = physics.regimes(s.replace(batch=batch, gpus_per_stage=gpus))
            for name in names:
                np.testing.assert_allclose(swept[name][i, j], alone[name], rtol=1e-12)


def test_a_part_nothing_is_stated_for_is_refused() -> None:
    with pytest.raises(ValueError, match=r"efficiencies\.parts: none is for experts"):
        physics.regimes(scenario_with(physics.Efficiencies(parts=(physics.PartEfficiency("attention"),))))
    with pytest.raises(ValueError, match=r"efficiencies\.parts"):
        physics.PartEfficiency("kitchen")
    with pytest.raises(ValueError, match=r"efficiencies\.spread"):
        physics.Efficiencies(spread=(("prefill", 1.2, 2.0),))


def test_serving_form_by_hand() -> None:
    values = {p.name: p.start for p in SERVING.parameters}
    row = {
        f"{phase}_{part}": 0.0 for phase in ("decode", "prefill") for part in ("rest_compute_s", "rest_memory_s", "network_s", "kernels_s")
    }
    frame = pd.DataFrame([row | {"concurrency": 5.0, "output_tokens": 100.0, "layers": 10.0, "is_split": False, "stack": 0, "is_ttft": late}
                          for late in (False, True)])  # fmt: skip
    decode, prefill = 10 * 4e-5 + 1.5e-3, 10 * 1e-4 + 1.5e-3
    tpot, ttft = SERVING.seconds(values, frame)
    assert tpot == pytest.approx(decode + 4 / 100 * prefill)
    assert ttft == pytest.approx(prefill * (1 + 0.1 * 4) + 0.1)
    assert STACKS[0] == "sglang"


def test_kernels_of_a_step_are_the_longer_of_arithmetic_and_traffic() -> None:
    names = [
        f"{phase}_{part}_{kind}"
        for phase in ("decode", "prefill")
        for part in ("attention", "experts")
        for kind in ("compute_s", "memory_s", "token_s")
    ]
    frame = pd.DataFrame([dict.fromkeys(names, 1.0) | {"machine": "H200", "format": "fp8"}])
    rows = with_kernels(frame, lambda *_: {"compute_frac": 0.5, "memory_frac": 0.25, "pad_tokens": 3.0})
    assert rows["decode_kernels_s"].item() == pytest.approx(8.0 + 8.0)  # (1 + 3) / 0.5 in both parts
