"""What is written reads back, what is typed is understood or refused in one sentence, and nothing else ever happens."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.quantities import _UNITS, DASH, format_exact, format_quantity, parse_quantity, split_quantity

UNITS = sorted(_UNITS)
VALUES = st.floats(1e-14, 1e18)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (70_272, "B/token", "70.3 kB/token"),
        (131_072, "tokens", "131k tokens"),
        (1, "tokens", "1 token"),
        (2e6, "tokens", "2M tokens"),
        (4.8e12, "B/s", "4.80 TB/s"),
        (1979e12, "FLOP/s", "1,980 TFLOP/s"),
        (3.9e-12, "J/bit", "3.90 pJ/bit"),
        (12.3e-6, "s", "12.3 µs"),
        (999.7e3, "B", "1.00 MB"),  # rounding carries into the next prefix
        (671e9, "parameters", "671B parameters"),
        (0.85, "%", "85.0 %"),
        (1.3, "×", "1.30×"),
        (0.28, "$/M tokens", "$0.280/M tokens"),
        (-5e3, "B", "−5.00 kB"),
        (0, "s", "0 s"),
        (math.nan, "s", DASH),
        (math.inf, "tokens", DASH),
        (None, "B", DASH),
    ],
)
def test_written_as_a_person_would(value, unit, text):
    assert format_quantity(value, unit) == text


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("128k", "tokens", 128_000),
        ("128K tokens", "tokens", 128_000),
        ("1.5M", "tokens", 1.5e6),
        ("1.5m", "tokens", 1.5e6),
        ("2e6", "tokens", 2e6),
        ("131,072", "tokens", 131_072),
        ("131 072 tokens", "tokens", 131_072),
        ("1 token", "tokens", 1),
        ("70 kB", "B/token", 70_000),
        ("64GiB", "B", 64 * 2**30),
        ("400 Gbit/s", "B/s", 50e9),
        ("85%", "%", 0.85),
        ("$3.2", "$/h", 3.2),
        ("10 us", "s", 10e-6),
        ("10 ms", "s", 0.01),
        (".5", "", 0.5),
        ("−3", "", -3),
        ("671B", "parameters", 671e9),
    ],
)
def test_read_as_it_was_meant(text, unit, value):
    assert parse_quantity(text, unit) == pytest.approx(value, rel=1e-14)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Nothing was typed"),
        ("plenty", "is not a number"),
        ("12 parsecs", "is not understood after the number"),
        ("1,5", "is not understood"),
        ("2.5", "is not a whole number of tokens"),
        ("0", "is too small"),
        ("9M", "is too large"),
        ("1e999", "is not a finite number"),
        ("nan", "is not a number"),
        ("-inf", "is not a number"),
    ],
)
def test_refused_with_one_sentence_that_says_how_to_mend_it(text, reason):
    with pytest.raises(ValueError, match=reason) as refused:
        parse_quantity(text, "tokens", 1, 2_097_152)
    assert str(refused.value).endswith(": type a value from 1 token to 2,097,152 tokens.")


def test_bits_are_never_taken_for_bytes():
    with pytest.raises(ValueError, match="means bits"):
        parse_quantity("400 Gb/s", "B/s")


NUMBER_LIKE = st.from_regex(r"[-+−]?[0-9., _]{0,12}(e[0-9]{1,4})? ?[a-zA-Zµ/$%]{0,6}", fullmatch=True)


@given(st.text(max_size=40) | NUMBER_LIKE, st.sampled_from(UNITS))
@example("9" * 5000, "tokens")
@example("１２", "tokens")
@example("\ud800", "B")
def test_any_text_gives_a_number_in_range_or_a_sentence(text, unit):
    value, sentence = 1.0, ""
    try:
        value = parse_quantity(text, unit, 1e-9, 1e15)
    except ValueError as refused:
        sentence = str(refused)
    assert 1e-9 <= value <= 1e15
    assert "\n" not in sentence
    assert len(sentence) < 250


@given(VALUES, st.sampled_from(UNITS))
def test_three_digits_read_back_within_half_a_unit_of_the_last(value, unit):
    if _UNITS[unit].whole:
        value = float(max(1, round(value)))
    assert parse_quantity(format_quantity(value, unit), unit) == pytest.approx(value, rel=0.00501)


@given(VALUES, st.sampled_from(UNITS))
def test_every_digit_reads_back_unchanged(value, unit):
    if _UNITS[unit].whole:
        value = float(max(1, round(min(value, 1e14))))
    assert parse_quantity(format_exact(value, unit), unit) == pytest.approx(value, rel=1e-15)


def test_tiles_set_number_and_unit_apart():
    assert split_quantity(0.393, "s") == ("393", "ms")
    assert split_quantity(7630, "tokens/s") == ("7.63k", "tokens/s")
    assert split_quantity(math.nan, "s") == (DASH, "")
