"""The slider of this app: logarithmic stops under the hand, any value in the text field, and it says when a drag ends.

`value` follows every step of a drag; `value_throttled` follows on release, on Enter and after the last arrow key, for what
should happen once (re-fitting axes, the URL). Typed text is read by `app.quantities.parse_quantity`; text that cannot be read
is answered by one sentence under the field, which shows the value in force again. Everything it needs is in `app/static`: no outside host.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import param

from app.quantities import format_exact, format_quantity, parse_quantity
from app.quiet import QuietComponent

_STATIC = Path(__file__).parent / "static"
_CSS = (_STATIC / "slider.css").read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------------------------------------- stops
def _within(values: Iterable[float], start: float, end: float, extra: Iterable[float] = ()) -> list[float]:
    return sorted({float(v) for v in (*values, start, end, *extra) if start <= v <= end})


def count_stops(start: float, end: float, extra: Iterable[float] = ()) -> list[float]:
    """Whole numbers as people choose batches and depths: 1, 2, 3, 4, 6, 8, 12, 16, 24, …

    >>> count_stops(1, 16)
    [1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0]
    """
    octaves = range(math.floor(math.log2(start)), math.ceil(math.log2(end)) + 1)
    return _within((v for n in octaves for v in (2**n, 1.5 * 2**n) if v == int(v)), start, end, extra)


def binary_stops(start: float, end: float, per_octave: int = 8, extra: Iterable[float] = ()) -> list[float]:
    """Whole fractions of powers of two (131,072; 147,456; 163,840; …), for context lengths; `start` is at least `per_octave`.

    >>> binary_stops(1024, 2048, 4)
    [1024.0, 1280.0, 1536.0, 1792.0, 2048.0]
    """
    octaves = range(math.floor(math.log2(start)), math.ceil(math.log2(end)) + 1)
    parts = (2.0**n * (1 + i / per_octave) for n in octaves for i in range(per_octave))
    return _within((v for v in parts if v.is_integer()), start, end, extra)


def decimal_stops(start: float, end: float, mantissas: Sequence[float] | None = None, extra: Iterable[float] = ()) -> list[float]:
    """Round decimal numbers: two significant digits unless `mantissas` (between 1 and 10) are given.

    >>> decimal_stops(1, 100, (1, 2, 5))
    [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]
    """
    chosen = mantissas or [i / 10 for i in (*range(10, 30, 1), *range(30, 60, 2), *range(60, 100, 5))]
    decades = range(math.floor(math.log10(start)), math.ceil(math.log10(end)) + 1)
    return _within((float(f"{m:.6g}e{d}") for d in decades for m in chosen), start, end, extra)


def linear_stops(start: float, end: float, step: float) -> list[float]:
    """Equal steps, for quantities within one decade or including zero."""
    return _within((float(f"{start + i * step:.12g}") for i in range(int((end - start) / step + 1e-9) + 1)), start, end)


# ------------------------------------------------------------------------------------------------------------------ slider
class Slider(QuietComponent):
    """A slider over `stops` with a text field that takes any value between the ends.

    >>> slider = Slider(label="Batch size", unit="requests", stops=count_stops(1, 4096), value=8)
    >>> slider.read("64")
    True
    >>> slider.value, slider.value_throttled, slider.error
    (64.0, 64.0, '')
    >>> slider.read("many")
    False
    >>> slider.error
    '“many” is not a number: type a value from 1 request to 4,096 requests.'
    """

    value = param.Number(doc="Present value in base units; follows every step of a drag.")
    value_throttled = param.Number(doc="Value at the end of the last drag, key press or typing.")
    default = param.Number(allow_None=True, doc="Where double-click and the reset button lead; the first value unless given.")
    label = param.String(doc="Name of the quantity, also for screen readers.")
    unit = param.String(doc="Unit as in app.quantities, e.g. 'tokens', 'B/token'.")
    description = param.String(doc="What the quantity means, from the glossary; shown on hover of the question mark.")
    stops = param.List(item_type=float, doc="Values the handle and the arrow keys stop at, ascending.")
    scale = param.Selector(default="log", objects=["log", "linear"], doc="How values map to positions.")
    marks = param.List(doc="(value, text) pairs written under the track.")
    limit = param.Number(allow_None=True, default=None, doc="Values above it are marked on the track.")
    limit_label = param.String(doc="What the marked part of the track means; shown under it and in the help.")
    limit_note = param.String(doc="The sentence shown while the value is above the limit.")
    default_note = param.String(doc="Short note beside the name while the value is the default, e.g. 'from the model'.")
    disabled = param.Boolean(doc="Whether the slider can be moved.")
    start = param.Number(doc="Smallest value: the first stop.")
    end = param.Number(doc="Largest value: the last stop.")
    stop_texts = param.List(doc="Text of each stop.")
    text = param.String(doc="Text of a value that is not a stop.")
    error = param.String(doc="The sentence about text that could not be read; empty when all is well.")

    _esm = (_STATIC / "slider.js").read_text(encoding="utf-8")
    _stylesheets: ClassVar[list[str]] = [_CSS]
    _busy__ignore: ClassVar[list[str]] = ["value", "value_throttled"]  # nobody is shown Panel's busy flag
    _debounce = 8  # [ms]; Panel's 50 ms is most of the way from hand to picture, 8 still merges what piles up meanwhile

    def __init__(self, **params: Any) -> None:
        params.setdefault("sizing_mode", "stretch_width")
        params["stops"] = [float(stop) for stop in params["stops"]]
        params["start"], params["end"] = params["stops"][0], params["stops"][-1]
        params["value"] = float(params.get("value", params["start"]))
        params.setdefault("value_throttled", params["value"])
        params.setdefault("default", params["value"])
        super().__init__(**params)
        self._restop()
        self._show_value()
        self.param.watch(self._restop, ["stops", "unit"])
        self.param.watch(self._show_value, ["value", "unit"])

    def _restop(self, *_: Any) -> None:
        texts = [format_exact(stop, self.unit) for stop in self.stops]
        self.param.update(start=self.stops[0], end=self.stops[-1], stop_texts=texts)

    def _show_value(self, *_: Any) -> None:
        if self.value not in self.stops:
            self.text = format_exact(self.value, self.unit)

    def commit(self, value: float) -> None:
        """Set the value from Python, as if it had been dragged there and released."""
        self.param.update(value=float(value), value_throttled=float(value), error="")

    def reset(self) -> None:
        """Back to `default`."""
        if self.default is not None:
            self.commit(self.default)

    def forget(self) -> None:
        """Take back the sentence about text that could not be read."""
        self.error = ""

    def read(self, text: str) -> bool:
        """Take typed text; False, with the reason in `error`, if it cannot be read."""
        try:
            value = parse_quantity(text, self.unit, self.start, self.end)
        except ValueError as problem:
            self.error = str(problem)
            return False
        self.commit(value)
        return True

    def _handle_msg(self, data: Any) -> None:
        if not isinstance(data, dict):
            return
        if data.get("reset"):
            self.reset()
        elif data.get("released"):
            self.param.trigger("value_throttled")
        elif isinstance(data.get("typed"), str):
            self.read(data["typed"][:200])
            self._send_msg({"answered": True})

    def _process_events(self, events: dict[str, Any]) -> None:
        """Values from the browser, where they are in range: what comes over the wire is checked like anything typed."""
        kept = {name: value for name, value in events.items() if name not in ("value", "value_throttled") or self._valid(value)}
        super()._process_events(kept)

    def _valid(self, value: Any) -> bool:
        return isinstance(value, int | float) and math.isfinite(value) and self.start <= value <= self.end

    @property
    def shown(self) -> str:
        """The value in three significant digits with its unit, for sentences."""
        return format_quantity(self.value, self.unit)
