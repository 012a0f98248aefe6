"""Controls of the Sessions page: the trace, the timeline, what waiting is weighed in, the policy, and the tiers' numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import panel as pn
import panel_material_ui as pmui

from app.components import Notice
from app.forms import FileDrop
from app.pages.sessions_tables import TIER_FIELDS, example, from_typed, typed_unit
from app.quantities import parse_quantity
from app.sessions import COMPACTIONS, CONVERSATIONS, POLICIES, SessionChoices, tier_changes, tier_text
from app.shell import Card, helped
from app.state import Explorer, Snapshot
from app.widgets import Slider, decimal_stops, linear_stops
from physics.catalog import glossary
from physics.readers import MAX_FILE_BYTES
from physics.tiers import LABELS, TIERS
from physics.trace_readers import read_trace

HELP = (
    "Load a trace of your own: a **CSV** with time, input, cached and output tokens by conversation and turn, or **JSON lines** with "
    "block hashes (timestamp, input_length, output_length, hash_ids); .gz is read too. It stays in this session."
)
SLIDERS: dict[str, tuple[str, list[float], str]] = {
    "conversations_per_h": ("an hour", decimal_stops(0.1, 1e4, (1, 1.5, 2, 3, 4, 6, 8)), "log"),
    "prefix_limit_tokens": (
        "tokens",
        [0.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16_384.0, 32_768.0, 65_536.0, 131_072.0],
        "linear",
    ),
    "large_limit_tokens": ("tokens", decimal_stops(10, 1e5, (1, 2, 3, 5, 7)), "log"),
    "ttl_s": (
        "s",
        [1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 21_600.0, 86_400.0, 604_800.0],
        "log",
    ),
    "stall_frac": ("%", linear_stops(0.0, 1.0, 0.05), "linear"),
}
"""Unit, stops and scale of each slider of the page."""
MEASURE_NAMES = {"dollars": "usd", "joules": "joules"}
_ROW = {"display": "grid", "grid-template-columns": "repeat(auto-fill, minmax(240px, 1fr))", "gap": "2px 18px", "align-items": "end"}
BLANK = ""


class Controls:
    """The widgets of the page and what they do to the explorer."""

    def __init__(self, explorer: Explorer, released: Callable[[], None]) -> None:
        self.explorer, self._released, self._quiet = explorer, released, False
        self._words = glossary()
        self.sliders = {name: self._slider(name) for name in SLIDERS}
        self.selects = {
            "policy": self._select("policy", POLICIES),
            "compaction": self._select("compaction", COMPACTIONS),
            "conversation": self._select("conversation", CONVERSATIONS),
        }
        self.selects["waiting_measure"] = self._select("waiting_measure", {key: name for name, key in MEASURE_NAMES.items()})
        self.summary = self._text("summary_tokens", "not counted")
        self.summary.param.watch(lambda event: self._typed_summary(event.new), "value")
        self.trace = self._trace_controls()
        controls = self.selects | {"summary_tokens": self.summary}
        shown = {name: helped(control, self._words[name]["definition"]) for name, control in controls.items()}
        self.timeline = _row(shown["compaction"], shown["summary_tokens"], narrow=True)
        self.turns = _row(shown["conversation"], narrow=True)
        self.map = _row(shown["waiting_measure"], self.sliders["stall_frac"])
        self.replay = _row(shown["policy"], self.sliders["ttl_s"])
        self.tier_card = self._tier_card()
        explorer.forgetters.append(self.start_anew)

    # ------------------------------------------------------------------------------------------------------------ widgets
    def _slider(self, name: str) -> Slider:
        unit, stops, scale = SLIDERS[name]
        words = self._words[name]
        slider = Slider(label=words["label"], unit=unit, description=words["definition"], stops=stops, value=stops[0], scale=scale)
        slider.param.watch(lambda event: self._moved(name, event.new), "value")
        slider.param.watch(lambda _: None if self._quiet else self._released(), "value_throttled")
        return slider

    def _select(self, name: str, options: dict[str, str]) -> Any:
        words = self._words[name]
        select = pmui.Select(
            label=words["label"], options={word: key for key, word in options.items()}, size="small", sizing_mode="stretch_width",
            margin=(6, 0),
        )  # fmt: skip
        select.param.watch(lambda event: self._change(**{name: event.new}), "value")
        return select

    def _text(self, name: str, placeholder: str) -> Any:
        words = self._words[name]
        return pmui.TextInput(
            label=words["label"], placeholder=placeholder, size="small", sizing_mode="stretch_width", margin=(6, 0), max_length=40
        )  # fmt: skip

    def _trace_controls(self) -> pn.Column:
        self.drop = FileDrop(
            label="Trace", hint="or drop a .csv or .jsonl, plain or .gz, here", accept=".csv,.jsonl,.json,.gz", limit_bytes=MAX_FILE_BYTES
        )
        self.drop.on_files(self.load)
        self.back = pmui.Button(label="Back to the synthetic workload", size="small", margin=(6, 0), disabled=True)
        self.back.on_click(lambda _: self.forget())
        self.status = Notice(text=HELP, tone="quiet")
        sliders = [self.sliders[name] for name in ("conversations_per_h", "prefix_limit_tokens", "large_limit_tokens")]
        return pn.Column(self.status, _row(self.drop, self.back), _row(*sliders), sizing_mode="stretch_width", margin=0)

    def _tier_card(self) -> Card:
        self.tier = pmui.Select(
            label="Tier", options={LABELS[n]: n for n in TIERS}, value="pool", size="small", sizing_mode="stretch_width", margin=(6, 0)
        )
        fields = {label: key for key, (label, _) in TIER_FIELDS.items()}
        self.field = pmui.Select(
            label="Number", options=fields, value="capacity_bytes", size="small", sizing_mode="stretch_width", margin=(6, 0)
        )
        self.amount = pmui.TextInput(
            label="Yours; empty for the default", size="small", sizing_mode="stretch_width", margin=(6, 0), max_length=40
        )
        self.tier_status = Notice(text="", tone="quiet")
        for widget in (self.tier, self.field):
            widget.param.watch(lambda _: self._show_amount(self.explorer.snapshot), "value")
        self.amount.param.watch(lambda event: self._typed_amount(str(event.new or "")), "value")
        content = pn.Column(_row(self.tier, self.field, self.amount), self.tier_status, sizing_mode="stretch_width", margin=0)
        return Card("Your own numbers of a tier", content, file_stem="tier", span=True)

    # ------------------------------------------------------------------------------------------------------------- events
    def _moved(self, name: str, value: float) -> None:
        if not self._quiet:
            self.explorer.change(**{name: value})

    def _change(self, **changes: Any) -> None:
        if self._quiet or all(getattr(self.explorer.choices, name) == value for name, value in changes.items()):
            return
        self.explorer.change(**changes)
        self._released()

    def _typed_summary(self, text: str) -> None:
        if self._quiet:
            return
        try:
            self._change(summary_tokens=parse_quantity(text, "tokens", 1, 1e6) if text.strip() else None)
            self.summary.param.update(error_state=False)
        except ValueError as problem:
            self.summary.param.update(error_state=True)
            self.explorer.problem = str(problem)
            self._released()

    def _typed_amount(self, text: str) -> None:
        if self._quiet:
            return
        changes, name, field = tier_changes(self.explorer.choices.tiers), str(self.tier.value), str(self.field.value)
        changes.setdefault(name, {}).pop(field, None)
        try:
            if text.strip():
                changes[name][field] = from_typed(field, parse_quantity(text, typed_unit(field), 0.0, 1e30))
            words = tier_text(changes)
            tier_changes(words)
        except ValueError as problem:
            self.tier_status.param.update(text=str(problem), tone="bad")
            return
        self.tier_status.param.update(text="", tone="quiet")
        self._change(tiers=words)

    def load(self, files: Mapping[str, bytes]) -> None:
        """Read a trace; what is wrong with it is a ValueError of one sentence, and what was shown before stays."""
        name, content = next(iter(files.items()))
        try:
            trace = read_trace(content, name[:100])
        except MemoryError:
            raise ValueError(f"{name[:100]}: too large for the memory of this server; give a part of it.") from None
        except ValueError as problem:
            raise ValueError(f"{problem}.") from None
        self.explorer.load_trace(trace)
        self.status.text = f"**{trace.name}** is read: {len(trace):,} requests."
        self._released()

    def forget(self) -> None:
        """Back to the synthetic workload."""
        self.explorer.load_trace(None)
        self.status.text, self.drop.problem = HELP, ""
        self._released()

    def start_anew(self) -> None:
        """As freshly opened: no trace was given, nothing was typed."""
        self._quiet = True
        for slider in self.sliders.values():
            slider.forget()
        self.drop.forget()
        self.status.text = HELP
        self.summary.param.update(value=BLANK, error_state=False)
        self.tier_status.param.update(text="", tone="quiet")
        self.tier.value, self.field.value, self.amount.value = "pool", "capacity_bytes", BLANK
        self._quiet = False

    # -------------------------------------------------------------------------------------------------------------- state
    def show(self, s: Snapshot) -> None:
        """Bring the widgets to the snapshot, without sending anything back."""
        self._quiet = True
        try:
            self._show(s)
        finally:
            self._quiet = False

    def _show(self, s: Snapshot) -> None:
        chosen = s.sessions.chosen
        base = SessionChoices()
        for name, slider in self.sliders.items():
            value = float(getattr(chosen, name))
            if slider.value != value or slider.default != getattr(base, name):
                slider.param.update(value=value, value_throttled=value, default=float(getattr(base, name)), error="")
        for name, select in self.selects.items():
            if select.value != getattr(chosen, name):
                select.value = getattr(chosen, name)
        disabled = {"conversations_per_h": not s.sessions.trace.relative, "ttl_s": chosen.policy != "ttl"}
        for name, off in disabled.items():
            if self.sliders[name].disabled != off:
                self.sliders[name].disabled = off
        summary = f"{chosen.summary_tokens:,.0f}" if chosen.summary_tokens else BLANK
        if self.summary.value != summary:
            self.summary.value = summary
        if self.back.disabled == bool(chosen.trace_file):
            self.back.disabled = not chosen.trace_file
        self._show_amount(s)

    def _show_amount(self, s: Snapshot) -> None:
        """The chosen number of a tier: the user's as text, the default as a hint."""
        quiet, self._quiet = self._quiet, True
        name, field = str(self.tier.value), str(self.field.value)
        own = tier_changes(s.sessions.chosen.tiers).get(name, {})
        tier = next(t for t in s.sessions.tiers if t.name == name)
        text = example(tier, field) if field in own else BLANK
        fixed = name == "hbm" and field in ("capacity_bytes", "bytes_per_s", "latency_s")
        hint = "the machine's" if fixed else example(tier, field)
        if (self.amount.value, self.amount.placeholder, self.amount.disabled) != (text, hint, fixed):
            self.amount.param.update(value=text, placeholder=hint, disabled=fixed)
        self._quiet = quiet


def _row(*widgets: Any, narrow: bool = False) -> pn.Column:
    styles = _ROW | ({"grid-template-columns": "repeat(auto-fill, minmax(150px, 1fr))"} if narrow else {})
    return pn.Column(*widgets, styles=styles, sizing_mode="stretch_width", margin=(2, 0, 6, 0))
