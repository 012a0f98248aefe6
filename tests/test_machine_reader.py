"""The user's machines: the catalog's own file comes back, every fault of a row is named, sparse peaks are asked about."""

from __future__ import annotations

import csv
import io
import math
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import physics
from physics import catalog
from physics.machine_reader import FIELDS, QUANTITIES, clean_name, machine_questions, numbers_of_text, numbers_text

DATA = Path(__file__).parents[1] / "data" / "machines.csv"
ROWS: list[dict[str, str]] = list(csv.DictReader(io.StringIO(DATA.read_text(encoding="utf-8"))))
HEAD = "machine,quantity,value,unit,status,source,confidence,note"
CHIP = [
    "Chip,peak_bf16,1000,TFLOP/s,used,our lab,read,",
    "Chip,memory_capacity,100,GB,used,our lab,read,",
    "Chip,memory_bandwidth,5,TB/s,used,our lab,read,",
]


def table(*rows: str, head: str = HEAD) -> bytes:
    return "\n".join([head, *rows]).encode()


def test_the_catalog_reads_itself() -> None:
    """Uploading data/machines.csv gives the machines of the catalog, number by number."""
    known = set(catalog.machines())
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(ROWS[0]))
    writer.writeheader()
    writer.writerows(row for row in ROWS if row["machine"] in known)
    read = physics.read_machines(buffer.getvalue().encode(), "machines.csv").machines
    assert set(read) == known
    for name, machine in read.items():
        own = physics.load_machine(name)
        for field in fields(physics.Machine):
            if field.name in ("aliases", "announced", "source"):
                continue
            one, other = getattr(machine, field.name), getattr(own, field.name)
            assert one == other or (math.isnan(one) and math.isnan(other)), (name, field.name)


def test_a_small_file_in_si_units() -> None:
    chip = physics.read_machines(
        table(*CHIP, "Chip,power_tdp,1.2,kW,used,our lab,read,", "Chip,sram_capacity,64,MiB,used,lab,read,L2")
    ).machines["Chip"]
    assert (chip.peaks["bf16"], chip.memory_bytes, chip.memory_bytes_per_s, chip.tdp_w) == (1e15, 1e11, 5e12, 1200.0)
    assert chip.sram_bytes == 64 * 2**20
    assert math.isnan(chip.scale_up_bytes_per_s)
    assert "our lab" in chip.source


FAULTS = {
    "no source": (table(CHIP[0], CHIP[1], "Chip,memory_bandwidth,5,TB/s,used,,read,"), "row 4: no source"),
    "confidence": (table("Chip,peak_bf16,1,TFLOP/s,used,x,sure,"), "row 2: confidence 'sure' is not one of read, secondary, derived"),
    "status": (table("Chip,peak_bf16,1,TFLOP/s,maybe,x,read,"), "row 2: status 'maybe'"),
    "quantity": (table("Chip,speed,1,TFLOP/s,used,x,read,"), "row 2: quantity 'speed'"),
    "unit of another kind": (table("Chip,memory_bandwidth,1,GB,used,x,read,"), "unit 'GB' of memory_bandwidth is not one of TB/s, GB/s"),
    "negative": (table(*CHIP[1:], "Chip,peak_bf16,-1,TFLOP/s,used,x,read,"), "row 4: value '-1' is not a number from"),
    "infinite": (table(*CHIP[1:], "Chip,peak_bf16,1e999,TFLOP/s,used,x,read,"), "'1e999' is not a number"),
    "words": (table(*CHIP[1:], "Chip,peak_bf16,fast,TFLOP/s,used,x,read,"), "'fast' is not a number"),
    "half an accelerator": (table(*CHIP, "Chip,scale_up_domain,1.5,accelerators,used,x,read,"), "whole number of accelerators"),
    "twice": (table(*CHIP, CHIP[0]), "row 5: a second used value of peak_bf16"),
    "incomplete": (table(CHIP[0]), "lacks memory capacity and memory bandwidth"),
    "no peak": (table(*CHIP[1:]), "lacks a dense peak"),
    "kind": (table(*CHIP, "Chip,memory_kind,core rope,name,used,x,read,"), "memory_kind 'core rope'"),
    "all in conflict": (table(CHIP[0].replace("used", "conflict")), "no row has the status used"),
    "column": (table("Chip,peak_bf16,1,TFLOP/s,used,x", head="machine,quantity,value,unit,status,source"), "no column confidence"),
    "nameless": (table("  ,peak_bf16,1,TFLOP/s,used,x,read,"), "row 2: no machine"),
    "too many": (table(*(f"Chip{i},peak_bf16,1,TFLOP/s,used,x,read," for i in range(300))), "more than 200 machines"),
    "too large": (table("x" * (3 << 20)), "MiB"),
}


@pytest.mark.parametrize(("content", "words"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_named_with_its_row(content: bytes, words: str) -> None:
    with pytest.raises(physics.UnreadableFileError) as caught:
        physics.read_machines(content, "mine.csv")
    said = str(caught.value)
    assert said.startswith("mine.csv")
    assert words in said
    assert len(said) <= 400
    assert "\n" not in said


# --------------------------------------------------------------------------------------------------------------- questions
def test_published_machines_are_not_questioned_but_for_two_that_are_unusual() -> None:
    """Vera Rubin's FP8 is 4.4 times its BF16 and Gaudi 3's is no more than its BF16, as published; all else is in proportion."""
    questioned = {name for name in catalog.machines() if machine_questions(physics.load_machine(name))}
    assert questioned == {"Vera Rubin NVL72", "Gaudi 3"}


def test_the_sparse_peak_of_an_h100_is_questioned() -> None:
    """The data sheet prints 1,979 TFLOP/s BF16 with sparsity; dense is 989."""
    h100 = physics.load_machine("H100")
    (question,) = machine_questions(physics.machine_from_numbers(h100, peak_bf16=1979e12), h100)
    assert "1,979 TFLOP/s" in question
    assert "989 TFLOP/s of H100" in question
    assert question.endswith(".")
    (other,) = machine_questions(physics.machine_from_numbers("H100", peak_fp8=3958e12), h100)
    assert "FP8" in other


def test_usual_ratios_raise_no_question() -> None:
    """FP8 twice BF16, FP4 twice FP8; and an FP4 that was added to a machine without one."""
    base = {"memory_bytes": 2.5e11, "memory_bytes_per_s": 6.5e12}
    assert machine_questions(physics.machine_from_numbers(None, "New", peak_bf16=1.5e15, peak_fp8=3e15, peak_fp4=6e15, **base)) == ()
    assert machine_questions(physics.machine_from_numbers(None, "New", peak_bf16=1.5e15, peak_fp8=6e15, **base))
    assert machine_questions(physics.machine_from_numbers(None, "New", peak_bf16=3e15, peak_fp8=3e15, **base))
    h100 = physics.load_machine("H100")
    assert machine_questions(physics.machine_from_numbers(h100, memory_bytes=9e10), h100) == ()
    assert machine_questions(physics.machine_from_numbers(h100, peak_fp4=3958e12), h100) == ()


def test_a_file_asks_its_question_and_is_read_all_the_same() -> None:
    rows = [row.replace("Chip", "H100").replace("1000", "1979").replace("100,GB", "80,GB").replace("5,TB", "3.35,TB") for row in CHIP]
    read = physics.read_machines(table(*rows))
    assert read.machines["H100"].peaks["bf16"] == 1979e12
    assert len(read.questions) == 1


# ------------------------------------------------------------------------------------------------------------- own numbers
def test_own_numbers_stand_on_a_known_machine() -> None:
    own = physics.machine_from_numbers("h200", memory_bytes=2e11, peak_fp8=None, scale_out_bytes_per_s=None, scale_up_domain=16)
    base = physics.load_machine("H200")
    assert own.name == "H200, own numbers"
    assert own.source.startswith("user; the rest H200")
    assert own.peaks == {"bf16": base.peaks["bf16"], "int8": base.peaks["int8"]}
    assert (own.memory_bytes, own.scale_up_domain, own.memory_bytes_per_s) == (2e11, 16, base.memory_bytes_per_s)
    assert math.isnan(own.scale_out_bytes_per_s)
    assert own.levels == base.levels


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ({"memory_bytes": None}, "needs its memory capacity"),
        ({"memory_bytes": 0}, "memory_bytes: 0 is not a number from"),
        ({"memory_bytes": True}, "True is not a number"),
        ({"memory_bytes": "many"}, "'many' is not a number"),
        ({"peak_bf16": math.nan}, "nan is not a number"),
        ({"peak_bf16": 10**4000}, "an integer of"),
        ({"scale_up_domain": 2.5}, "whole number"),
        ({"colour": 1}, "'colour' is no number of a machine"),
        ({"peak_bf16": None, "peak_fp8": None, "peak_int8": None}, "at least one number format"),
    ],
)
def test_numbers_that_are_none_are_refused(numbers: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        physics.machine_from_numbers("H200", **numbers)


def test_without_a_base_the_memory_is_needed() -> None:
    with pytest.raises(ValueError, match="lacks memory bandwidth"):
        physics.machine_from_numbers(peak_bf16=1e15, memory_bytes=1e11)
    assert physics.machine_from_numbers(peak_bf16=1e15, memory_bytes=1e11, memory_bytes_per_s=1e12).name == "Own machine"


@given(st.dictionaries(st.sampled_from(sorted(FIELDS)), st.none() | st.floats(0, 1)))
def test_own_numbers_survive_their_text(shares: dict[str, float | None]) -> None:
    numbers: dict[str, float | None] = {}
    for field, share in shares.items():
        known = FIELDS[field]
        value = None if share is None else known.low * (known.high / known.low) ** share
        if value is None and field in ("memory_bytes", "memory_bytes_per_s"):
            continue
        numbers[field] = round(value) if field == "scale_up_domain" and value is not None else value
    again = numbers_of_text(numbers_text(numbers))
    assert again == {field: value if value is None else pytest.approx(value, rel=1e-11) for field, value in numbers.items()}


@given(st.text(max_size=300))
def test_any_name_is_made_fit_to_show(name: str) -> None:
    clean = clean_name(name)
    assert 0 < len(clean) <= 80
    assert clean.isprintable()
    assert "**" not in clean
    assert clean[0] not in "=+-@"


def test_units_of_the_catalog_are_all_known_here() -> None:
    for row in ROWS:
        if row["quantity"] in QUANTITIES:
            assert row["unit"] in QUANTITIES[row["quantity"]].units
