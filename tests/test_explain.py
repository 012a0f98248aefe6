"""The side panel's derivations: what stands in a formula is listed, rounded for the eye, and whole on hover."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from app import explain
from app.state import Choices, Snapshot
from physics.catalog import presets
from physics.derive import DERIVED_COLUMNS
from physics.regimes import REGIMES


def snapshot(preset: str, **changes: object) -> Snapshot:
    choices = replace(Choices.of_preset(preset), **changes)
    return Snapshot(choices, choices.scenario())


@pytest.mark.parametrize("preset", presets())
def test_symbols_listed_are_those_of_the_formulas_and_numbers_are_short(preset: str) -> None:
    s = snapshot(preset)
    for regime in REGIMES:
        for column in DERIVED_COLUMNS:
            _, blocks = explain.cell(s, regime, column)
            formulas = " ".join(block["text"] for block in blocks if block["kind"] == "formula" and not block["text"].startswith("="))
            symbols = set(re.findall(r"[A-Za-z_]\w*", formulas)) - {"min", "max", "floor", "pairs", "chunk_pairs", "chosen"}
            listed = [row[0] for block in blocks if block["kind"] == "terms" for row in block["rows"]]
            assert set(listed) == symbols
            for block in blocks:
                shown = block.get("text", "") if block["kind"] == "formula" else ""
                assert all(len(digits.replace(".", "").lstrip("0")) <= 6 for digits in re.findall(r"[0-9.]+", shown)), shown


def test_rounded_numbers_are_whole_on_hover() -> None:
    _, blocks = explain.cell(snapshot("deepseek-v3-h200"), "decode_experts", "weight_bytes")
    rows = {row[0]: row for block in blocks if block["kind"] == "terms" for row in block["rows"]}
    assert rows["W1"][1] == "44.04M parameters"
    assert rows["W1"][4] == "44,040,192 parameters"
    assert "44 040 192" in next(block["full"] for block in blocks if "full" in block and block["kind"] == "formula")


def test_copies_of_the_attention_weights_are_said_where_they_would_show() -> None:
    """11.41e9 weights of 1.00024 B, 15 of 16 copies not counted: 11.416e9 · 15/16 / 4.8e12 = 2.23 ms of a TPOT of 16.6 ms, 13 %."""
    s = snapshot("deepseek-v3-h200")
    texts = " ".join(block.get("text", "") for block in explain.cell(s, "decode_shared", "roofline_s")[1])
    assert "counted once per stage, as if its 16 GPUs shared them" in texts
    assert "**2.23 ms** more a step, +13 % of TPOT" in texts
    for other, column in (("decode_experts", "roofline_s"), ("decode_shared", "flops")):
        assert "once per stage" not in " ".join(block.get("text", "") for block in explain.cell(s, other, column)[1])
    split = snapshot("deepseek-v3-h200", attention_parallel="tensor")
    assert "once per stage" not in " ".join(block.get("text", "") for block in explain.cell(split, "decode_shared", "roofline_s")[1])
