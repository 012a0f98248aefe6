"""The slider: sensible stops, typed values, and nothing from the wire that was not offered."""

import math

import pytest
from bokeh.document import Document
from hypothesis import given
from hypothesis import strategies as st

from app.widgets import Slider, binary_stops, count_stops, decimal_stops, linear_stops


def slider(**params):
    return Slider(**{"label": "Batch size", "unit": "requests", "stops": count_stops(1, 4096), "value": 8} | params)


@given(st.integers(1, 100), st.integers(101, 10_000))
def test_stops_are_ascending_within_the_ends_and_hold_them(start, end):
    for stops in (count_stops(start, end), binary_stops(start, end), decimal_stops(start, end), linear_stops(start, end, 1)):
        assert stops == sorted(set(stops))
        assert (stops[0], stops[-1]) == (start, end)


def test_counts_stop_at_whole_numbers_and_contexts_at_the_limits_of_models():
    assert all(stop.is_integer() for stop in count_stops(1, 4096) + binary_stops(1024, 2**21))
    assert {131_072.0, 163_840.0, 1_048_576.0} <= set(binary_stops(1024, 2**21))
    assert 70_272.0 in decimal_stops(1e3, 1e6, extra=[70_272])


def test_typed_value_need_not_be_a_stop():
    widget = slider()
    assert widget.read("100")
    assert (widget.value, widget.value_throttled, widget.text) == (100, 100, "100 requests")


@pytest.mark.parametrize("text", ["", "many", "0", "5000", "2.5", "8 GB", "nan"])
def test_bad_text_gives_a_sentence_and_leaves_the_value(text):
    widget = slider()
    assert not widget.read(text)
    assert widget.error.endswith("type a value from 1 request to 4,096 requests.")
    assert (widget.value, widget.value_throttled) == (8, 8)
    assert widget.read("9")
    assert widget.error == ""


def test_reset_leads_to_the_default():
    widget = slider(default=32)
    widget._handle_msg({"reset": True})
    assert (widget.value, widget.value_throttled) == (32, 32)


def test_a_drag_moves_the_value_and_its_end_the_throttled_one():
    widget = slider()
    seen = []
    widget.param.watch(lambda event: seen.append((event.name, event.new)), ["value", "value_throttled"])
    for value in (12.0, 16.0):
        widget._process_events({"value": value})
    widget._process_events({"value_throttled": 16.0})
    assert seen == [("value", 12), ("value", 16), ("value_throttled", 16)]


@pytest.mark.parametrize("value", [math.nan, math.inf, -1, 0, 1e9, "8", None, [8]])
def test_what_comes_over_the_wire_is_checked(value):
    widget = slider()
    widget._process_events({"value": value, "value_throttled": value})
    assert (widget.value, widget.value_throttled) == (8, 8)


@pytest.mark.parametrize("message", [None, "reset", 3, {"typed": 5}, {"typed": None}, {}, {"typed": "9" * 100_000}])
def test_strange_messages_change_nothing(message):
    widget = slider()
    widget._handle_msg(message)
    assert widget.value == 8


def test_other_stops_bring_other_ends_and_texts():
    widget = slider(unit="tokens", stops=[1024.0, 2048.0], value=1024)
    widget.stops = [1024.0, 131072.0]
    assert (widget.end, widget.stop_texts) == (131072, ["1,024 tokens", "131,072 tokens"])


def test_it_renders_without_an_outside_host():
    model = slider().get_root(Document())
    assert "http" not in model.esm
    assert not any("http" in sheet for sheet in model.stylesheets if isinstance(sheet, str))


def test_refused_text_leaves_the_field_and_its_sentence_stays():
    slider, sent = Slider(label="Batch size", unit="requests", stops=count_stops(1, 4096), value=8), []
    slider._send_msg = sent.append
    slider._handle_msg({"typed": "many"})
    assert sent == [{"answered": True}]  # the field shows 8 requests again, whatever was typed
    assert (slider.value, slider.error) == (8, "“many” is not a number: type a value from 1 request to 4,096 requests.")
    slider.forget()
    assert slider.error == ""
