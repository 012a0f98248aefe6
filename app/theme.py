"""The look of every picture: one meaning per colour, light and dark, tick formats, and what all plots share.

Pictures are always built in the light theme; `recolor` turns a drawn figure into the other theme by replacing each palette
colour in place, so the dark toggle creates no new Bokeh model. Colours that would be too faint on their background are
moved in lightness, never in hue, until lines reach a contrast of 3 and text one of 4.5. No panel is imported here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

import holoviews as hv
from bokeh.core.properties import value
from bokeh.core.property.vectorization import Value
from bokeh.models import ColorMapper, ColumnDataSource, CustomJSTickFormatter, FixedTicker, LogTicker, Model, Text
from bokeh.themes import Theme as BokehTheme

from app.quantities import DASH, Unit, unit_of

# ------------------------------------------------------------------------------------------------------------------ colour
HUES: Final[Mapping[str, str]] = {
    "prefill": "#0072B2",
    "midfill": "#009E73",
    "decode_attention": "#D55E00",
    "decode_experts": "#CC79A7",
    "decode_shared": "#8C8C8C",
    "hbm": "#56B4E9",
    "sram": "#E69F00",
}
"""One meaning each, distinguishable to colour-blind readers (Okabe and Ito 2008, plus a grey)."""

GHOST_ALPHA: Final = 0.35
"""Opacity of pinned ghosts and of trails: the same hue, never another."""

DASHES: Final[Mapping[str, str]] = {
    "compute": "solid",
    "memory": "8 3",
    "network": "2 3",
    "sram": "8 3",
    "guide": "2 4",
}
"""Line style of each resource: resources differ by style and label, never by a colour of their own."""

LINE_CONTRAST: Final = 3.0
TEXT_CONTRAST: Final = 4.5


def _channels(color: str) -> tuple[float, float, float]:
    return int(color[1:3], 16) / 255, int(color[3:5], 16) / 255, int(color[5:7], 16) / 255


def _luminance(color: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in _channels(color)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    """Contrast ratio of two #rrggbb colours, 1 to 21 (WCAG 2.2, relative luminance)."""
    low, high = sorted((_luminance(first), _luminance(second)))
    return (high + 0.05) / (low + 0.05)


def legible(color: str, background: str, minimum: float) -> str:
    """`color`, mixed with black or white (away from `background`) just far enough to reach the contrast `minimum`."""
    target = 0.0 if _luminance(background) > 0.2 else 1.0
    for percent in range(0, 101, 2):
        mixed = [round(255 * (c + (target - c) * percent / 100)) for c in _channels(color)]
        candidate = f"#{mixed[0]:02X}{mixed[1]:02X}{mixed[2]:02X}"
        if contrast(candidate, background) >= minimum:
            return candidate
    raise ValueError(f"no shade of {color} reaches a contrast of {minimum} on {background}")


@dataclass(frozen=True)
class Theme:
    """Colours of one theme: `surface` behind plots, `page` behind cards, `text`, `muted` text, `rule` for faint lines,
    `accent` for what can be used, `warn` for what is wrong.
    """

    name: Literal["light", "dark"]
    page: str
    surface: str
    text: str
    muted: str
    rule: str
    accent: str
    warn: str

    def line(self, meaning: str) -> str:
        """Colour of lines, points and fills of a `HUES` key, or "text" and "muted": contrast at least 3 on the surface."""
        return _shade(self.surface, self._base(meaning), LINE_CONTRAST)

    def ink(self, meaning: str) -> str:
        """Colour of text about a `HUES` key, or "text" and "muted": contrast at least 4.5 on the surface."""
        return _shade(self.surface, self._base(meaning), TEXT_CONTRAST)

    def _base(self, meaning: str) -> str:
        own = {"text": self.text, "muted": self.muted}
        return own[meaning] if meaning in own else HUES[meaning]


@cache
def _shade(surface: str, color: str, minimum: float) -> str:
    return legible(color, surface, minimum)


LIGHT: Final = Theme(
    "light", page="#F4F5F7", surface="#FFFFFF", text="#1C1F24", muted="#5B626D", rule="#DADDE2", accent="#1F5FA8", warn="#B3261E"
)
DARK: Final = Theme(
    "dark", page="#14171B", surface="#1C2026", text="#E7E9EC", muted="#A2A9B4", rule="#363C45", accent="#7FB4F0", warn="#FF8A80"
)
THEMES: Final[Mapping[str, Theme]] = {"light": LIGHT, "dark": DARK}
MEANINGS: Final = (*HUES, "text", "muted")


def theme_of(dark: bool) -> Theme:
    """The dark theme or the light one."""
    return DARK if dark else LIGHT


def line(meaning: str) -> str:
    """Light-theme colour of a line, point or fill; `recolor` makes it dark. Use it in every build function."""
    return LIGHT.line(meaning)


def ink(meaning: str) -> str:
    """Light-theme colour of text in plots; `recolor` makes it dark."""
    return LIGHT.ink(meaning)


_LINE_PROPERTIES = ("line_color", "fill_color", "hatch_color", "color", "border_line_color", "background_fill_color")


@cache
def _swaps(target: str) -> tuple[dict[str, str], dict[str, str]]:
    """(lines, texts): colour in any theme → colour of the same meaning in `target`."""
    goal = THEMES[target]
    lines = {theme.line(m).upper(): goal.line(m) for theme in THEMES.values() for m in MEANINGS}
    texts = {theme.ink(m).upper(): goal.ink(m) for theme in THEMES.values() for m in MEANINGS}
    lines |= {theme.rule.upper(): goal.rule for theme in THEMES.values()}
    lines |= {theme.surface.upper(): goal.surface for theme in THEMES.values()}
    return lines, texts


def _swap(model: Model, name: str, table: Mapping[str, str]) -> None:
    shown = _plain(getattr(model, name, None))
    if isinstance(shown, str) and shown.upper() in table and shown.upper() != table[shown.upper()].upper():
        setattr(model, name, table[shown.upper()])


def _plain(given: Any) -> Any:
    """The colour itself: a copied figure holds it as a constant `Value`."""
    return given.value if isinstance(given, Value) else given


SHADES: Final = "shades "
"""Start of the name of a colour mapper whose palette is `shades` of the meaning that follows, so that `recolor` finds it."""


@cache
def shades(meaning: str, theme: Theme = LIGHT, count: int = 128) -> list[str]:
    """From almost the surface to a strong tint of a `HUES` key, opaque, with text legible on all of it."""
    hue, ground = _channels(HUES[meaning]), _channels(theme.surface)
    parts = [0.03 + 0.62 * i / (count - 1) for i in range(count)]
    mixed = [[round(255 * (g + (h - g) * part)) for h, g in zip(hue, ground, strict=True)] for part in parts]
    return [f"#{r:02X}{g:02X}{b:02X}" for r, g, b in mixed]


def recolor(figure: Model, theme: Theme) -> None:
    """Give every palette colour in a Bokeh figure the shade of `theme`, in place; axes, grid and background too."""
    lines, texts = _swaps(theme.name)
    for model in figure.references():
        for name in model.properties() & _COLOR_NAMES:
            _swap(model, name, texts if "text_" in name else lines)
        if isinstance(model, ColorMapper) and (model.name or "").startswith(SHADES):
            model.palette = shades(model.name.removeprefix(SHADES), theme)
        if isinstance(model, ColumnDataSource):
            for name in _color_columns(model):
                model.data[name] = _swapped(model.data[name], name, theme.name)
    paint_frame(figure, theme)


def _color_columns(source: ColumnDataSource) -> list[str]:
    """Columns with a colour for each point or text, as `app.plots.marks` makes them."""
    return [name for name in source.data if name.endswith("color")]


def _swapped(colors: Iterable[str], name: str, target: str) -> list[str]:
    lines, texts = _swaps(target)
    table = texts if "text_" in name else lines
    return [table.get(color.upper(), color) for color in colors]


def dark_colors(figure: Model) -> list[tuple[Model, str, Any, Any]]:
    """(model, property, light, dark colour) of everything that `recolor` would change in a figure drawn in the light theme.

    Of a source the property is a column of its data, and the colours are lists.
    """
    lines, texts = _swaps(DARK.name)
    found: list[tuple[Model, str, Any, Any]] = []
    for model in figure.references():
        if isinstance(model, ColumnDataSource):
            columns = [(name, list(model.data[name]), _swapped(model.data[name], name, DARK.name)) for name in _color_columns(model)]
            found += [(model, name, light, dark) for name, light, dark in columns if light != dark]
        kind: Any = type(model)
        for name in _colors_of(kind):
            value = _plain(getattr(model, name, None))
            if isinstance(value, str):
                goal = (texts if "text_" in name else lines).get(value.upper(), value)
                found += [(model, name, value, goal)] if goal.upper() != value.upper() else []
    return found


@cache
def _colors_of(kind: Any) -> tuple[str, ...]:
    return tuple(sorted(name for name in kind.properties() if name.endswith("color")))


_COLOR_NAMES = {p + n for p in ("", "hover_", "selection_", "nonselection_") for n in (*_LINE_PROPERTIES, "text_color")}


def paint_frame(figure: Any, theme: Theme) -> None:
    """Background, axes, grid and title of a figure in the colours of `theme`."""
    figure.update(background_fill_color=theme.surface, border_fill_color=theme.surface, outline_line_color=None)
    for axis in (*figure.xaxis, *figure.yaxis):
        axis.update(
            axis_line_color=theme.rule, major_tick_line_color=theme.rule, minor_tick_line_color=None,
            major_label_text_color=theme.muted, axis_label_text_color=theme.muted,
        )  # fmt: skip
    for grid in (*figure.xgrid, *figure.ygrid):
        grid.update(grid_line_color=theme.rule, grid_line_alpha=0.6, minor_grid_line_color=None)


# ------------------------------------------------------------------------------------------------------------------- ticks
_TICK_JS = """
if (!isFinite(tick)) return dash
if (tick == 0) return "0"
const v = tick / scale
let step = steps[steps.length - 1]
for (const s of steps) { if (Math.abs(v) >= s[0] * 0.9999995) { step = s; break } }
const number = Number((v / step[0]).toPrecision(3))
const size = Math.abs(number)
const text = size && (size < 1e-3 || size >= 1e6) ? number.toExponential() : String(number).replace(/^(-?\\d+)(\\d{3})$/, "$1,$2")
return (lead + text + (symbol ? "\\u2009" + step[1] + symbol : step[1])).replace("-", "\\u2212")
"""


def tick_formatter(unit: str) -> CustomJSTickFormatter:
    """Ticks with the prefix a person would use, made in the browser: 1k, 10k, 100k for counts; 1 ms, 10 ms; 10 GB; 2 TB/s.

    Counts and plain numbers leave the unit to the axis title; symbols carry it, because their prefix changes along the axis.
    """
    form = unit_of(unit)
    symbol = "" if form.word or form.lead or len(form.prefixes) == 1 else form.symbol
    return _formatter(form, [[factor, prefix] for factor, prefix in form.steps], symbol)


def fixed_tick_formatter(unit: str, prefix: str) -> CustomJSTickFormatter:
    """Ticks as plain numbers in one prefixed unit (axis title "GB", ticks 0, 100, 200), for linear axes."""
    form = unit_of(unit)
    return _formatter(form, [[form.multipliers[prefix], ""]], "")


def _formatter(form: Unit, steps: list[list[float | str]], symbol: str) -> CustomJSTickFormatter:
    return CustomJSTickFormatter(
        code=_TICK_JS, args={"steps": steps, "symbol": symbol, "scale": form.scale, "dash": DASH, "lead": form.lead[:1] and "$"}
    )


def axis_title(name: str, unit: str = "", prefix: str = "") -> str:
    """Axis title with its unit: ("Stage memory", "B", "G") → "Stage memory, GB"; ("Context", "tokens") → "Context, tokens"."""
    symbol = prefix + unit_of(unit).symbol
    return f"{name}, {symbol}" if symbol else name


def spoken_title(name: str, unit: str) -> str:
    """Axis title for ticks of `tick_formatter`, which write symbols themselves: only a counted thing is named beside the axis."""
    return axis_title(name, unit) if unit_of(unit).word else name


# ------------------------------------------------------------------------------------------------------------------- plots
FONT: Final = "Roboto, system-ui, 'Segoe UI', Arial, sans-serif"


@cache
def bokeh_theme() -> BokehTheme:
    """Fonts and sizes of every plot; colours are set by `paint_frame`, because they change while the plot lives."""
    axis = {
        "major_label_text_font": FONT, "major_label_text_font_size": "11px", "axis_label_text_font": FONT,
        "axis_label_text_font_size": "12px",
        "axis_label_text_font_style": "normal", "axis_label_standoff": 6, "major_tick_in": 0, "major_tick_out": 4, "minor_tick_out": 0,
    }  # fmt: skip
    figure = {"toolbar_inner": True, "stylesheets": [_NO_EDGE]}
    rest = {"Grid": {"minor_grid_line_color": None}, "Title": {"text_font": FONT}, "Toolbar": {"stylesheets": [_BAR]}}
    return BokehTheme(json={"attrs": {"Plot": figure, "Axis": axis, **rest}})


# BokehJS leaves the outermost pixel row in the old colour when the border colour changes.
_NO_EDGE = ":host { clip-path: inset(2px 1px 1px 1px); }"
# A picture's tools stand on a bar across its top, white in the dark theme too unless told.
_BAR = ":host { background-color: var(--midfill-surface, white) !important; }"
_SIZES = {"xlabel": "12px", "ylabel": "12px", "xticks": "11px", "yticks": "11px", "labels": "12px"}


def decade_axis(axis: Any) -> None:
    """On a log axis: a tick and a grid line at each decade, minor ticks without lines."""
    if isinstance(axis.ticker, LogTicker):
        axis.ticker.update(num_minor_ticks=0, mantissas=[1], desired_num_ticks=7)


def _frame(plot: Any, _element: Any) -> None:
    """HoloViews hook of the whole overlay: quiet tools, no outline, tabular figures, light colours."""
    figure = plot.state
    figure.toolbar.update(logo=None, autohide=True, active_scroll=None)
    figure.update(min_border_right=26, min_border_top=8)  # half of the last tick's "100,000"; HoloViews sets its own
    bokeh_theme().apply_to_model(figure)
    for model in figure.references():
        bokeh_theme().apply_to_model(model)
        if isinstance(model, Text):
            model.text_font = value(FONT)
    for axis in (*figure.xaxis, *figure.yaxis):
        decade_axis(axis)
    paint_frame(figure, LIGHT)


def shared_options(min_height: int = 300, hooks: Iterable[Any] = (), **more: Any) -> Any:
    """Options of every plot's overlay, `overlay.opts(shared_options(...))`: no legend, few tools, responsive width.

    `min_height` [px]; `more` are further overlay options such as xlim, ylim, logx, logy, xlabel, xformatter.
    """
    return hv.opts.Overlay(
        show_legend=False, responsive=True, min_height=min_height, fontsize=_SIZES, show_grid=True, toolbar="above",
        default_tools=["pan", "box_zoom", "wheel_zoom", "reset"], active_tools=[], hooks=[_frame, *hooks], **more,
    )  # fmt: skip


def log_limits(low: float, high: float) -> tuple[float, float]:
    """The whole decades around [low, high], for a log axis that stays put while a slider moves inside it."""
    from math import ceil, floor, log10

    return 10.0 ** floor(log10(low)), 10.0 ** ceil(log10(high))


def fixed_ticks(values: Iterable[float]) -> FixedTicker:
    """A tick at each of these values and nowhere else."""
    return FixedTicker(ticks=list(values))
