"""Page Experts: how much of the expert bank does a batch wake up?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import pandas as pd
import panel as pn

from app import expert_bank as b
from app import recipe_experts as recipe
from app import sentences_experts as say
from app.components import Notice
from app.live import LiveView
from app.pages import Context
from app.pages.experts_file import FileCards
from app.picture import Picture
from app.plots import experts, experts_load
from app.quiet import tell
from app.shell import Card, cards, offer_code
from app.state import AXES, Snapshot
from app.widgets import Slider, count_stops
from physics.catalog import glossary


class ExpertsPage:
    """Cards of the page, built once; the shell shows them when the tab is opened."""

    name: ClassVar[str] = "Experts"
    key: ClassVar[str] = "experts"
    question: ClassVar[str] = "How much of the expert bank does a batch wake up?"

    def __init__(self, context: Context) -> None:
        self.context, self.explorer, self.live = context, context.explorer, context.live
        self._quiet = False

    def build(self) -> pn.Column:
        """The content of the page."""
        s = self.explorer.snapshot
        self.slots = self._slots_slider()
        self.cards = {each.key: self._card(each, self.slots if each.key == "loads" else None) for each in CARDS}
        self.file = FileCards(self.context, self.name)
        self.empty = Notice(text="")
        self.grid = pn.Column(cards(*self.cards.values(), *self.file.cards), sizing_mode="stretch_width", margin=0)
        self.live.listen(self.name, self.show)
        self.explorer.forgetters += [self.slots.forget, self.file.forget]
        self.show(s)
        return pn.Column(self.empty, self.grid, sizing_mode="stretch_width", margin=0)

    def _card(self, made: Made, controls: Any) -> Card:
        view, now = self.live.add(self.name, LiveView(made.picture, self.explorer.snapshot)), self.explorer
        if made.key == "traffic":
            view.on_drag("batch", self._dragged, self.context.released)
        card = Card(
            made.title, view, csv=lambda: str(made.frame(now.snapshot).to_csv(index=False)), code=lambda: made.lines(now.snapshot),
            file_stem=made.stem, controls=controls,
        )  # fmt: skip
        offer_code(card, self.context.show_panel)
        return card

    def _slots_slider(self) -> Slider:
        words = glossary()["redundant_slots"]
        slider = Slider(
            label=words["label"], description=words["definition"], unit="slots", scale="linear", stops=[0.0, *count_stops(1, 512)],
            value=0.0, default_note="an eighth",
        )  # fmt: skip
        slider.param.watch(lambda event: self._moved_slots(event.new), "value")
        slider.param.watch(lambda _: None if self._quiet else self.context.released(), "value_throttled")
        return slider

    # ---------------------------------------------------------------------------------------------------------------- live
    def show(self, s: Snapshot) -> None:
        """Sentences of a snapshot, or the one that says why there is nothing to show."""
        has_experts = bool(s.scenario.model.moe_groups)
        self.empty.text = "" if has_experts else say.empty(s)
        if self.grid.visible != has_experts:
            self.grid.visible = has_experts
        if not has_experts:
            return
        for name, card in self.cards.items():
            text = SAID[name](s)
            if card.head.sentence != text:
                card.say(text)
        self.file.show(s)
        self._show_slots(s)

    def _show_slots(self, s: Snapshot) -> None:
        held, gpus = b.bank(s), s.scenario.gpus_per_stage
        most = b.most_redundant(held.n_experts, gpus)
        value, default = float(b.redundant(s)), float(b.default_redundant(held.n_experts, gpus))
        wanted: dict[str, Any] = {
            "value": value,
            "default": default,
            "disabled": gpus == 1,
            "limit": float(most) if most < self.slots.end else None,
        }
        wanted["limit_note"] = "More would put an expert on one GPU twice."
        wanted["limit_label"] = "Hatched: more than fit on different GPUs."
        wanted |= {"value_throttled": value} if self.slots.value != value else {}
        self._quiet = True
        try:
            tell(self.slots, **wanted)
        finally:
            self._quiet = False

    def _moved_slots(self, value: float) -> None:
        if not self._quiet:
            self.explorer.change(redundant_slots=None if value == self.slots.default else int(value))

    def _dragged(self, value: float) -> None:
        low, high, _ = AXES["batch"]
        self.explorer.change(batch=round(min(max(value, low), high)))


# ------------------------------------------------------------------------------------------------------------------- files
def _distinct_frame(s: Snapshot) -> pd.DataFrame:
    return pd.DataFrame({"tokens": b.TOKENS} | b.distinct_curves(s))


def _shared_frame(s: Snapshot) -> pd.DataFrame:
    return pd.DataFrame({"tokens": b.TOKENS} | experts.shared_curves(s))


def _traffic_frame(s: Snapshot) -> pd.DataFrame:
    names = {"experts": "expert", "shared": "shared_weight", "kv": "kv", "balanced": "round_robin_expert"}
    return pd.DataFrame({"batch": b.BATCHES} | {f"{names[name]}_bytes_per_token": values for name, values in b.traffic(s).items()})


def _intensity_frame(s: Snapshot) -> pd.DataFrame:
    return pd.DataFrame({"tokens_on_expert": b.QUEUES, "intensity_flops_per_byte": b.intensity(b.bank(s), b.QUEUES)})


def _sharing_frame(s: Snapshot) -> pd.DataFrame:
    rows = [(name, step.tokens, step.distinct, step.shared, step.uniform) for name, step in b.steps(s).items()]
    return pd.DataFrame(rows, columns=["regime", "tokens", "distinct_experts", "tokens_per_expert", "tokens_per_expert_if_uniform"])


def _load_frame(s: Snapshot) -> pd.DataFrame:
    found = b.spread(s)
    return pd.DataFrame({"rank": range(1, found.before.size + 1), "load_per_token": found.before, "load_per_token_replicas": found.after})


def _straggler_frame(s: Snapshot) -> pd.DataFrame:
    found = b.spread(s)
    return pd.DataFrame({"tokens": b.LOAD_TOKENS} | {f"busiest_over_even_{name}": getattr(found, name) for name in experts_load.LINES})


class Made(NamedTuple):
    """One card: key of its sentence, title, picture, data, the lines that reproduce it, and the stem of its files."""

    key: str
    title: str
    picture: Picture[Snapshot]
    frame: Callable[[Snapshot], pd.DataFrame]
    lines: Callable[[Snapshot], str]
    stem: str


CARDS = (
    Made("distinct", "How much of the bank wakes up?", experts.DISTINCT, _distinct_frame, recipe.distinct_lines, "distinct-experts"),
    Made("shared", "What does one read of an expert serve?", experts.SHARED, _shared_frame, recipe.distinct_lines, "tokens-per-expert"),
    Made("traffic", "When does sharing start to pay?", experts.BYTES, _traffic_frame, recipe.traffic_lines, "bytes-per-token"),
    Made("intensity", "How long must its queue be?", experts.INTENSITY, _intensity_frame, recipe.intensity_lines, "expert-intensity"),
    Made("loads", "Where do tokens pile up?", experts_load.LOADS, _load_frame, recipe.load_lines, "gpu-load"),
    Made("straggler", "Who waits for the busiest GPU?", experts_load.STRAGGLERS, _straggler_frame, recipe.load_lines, "stragglers"),
    Made("sharing", "What does sharing give each regime?", experts.SHARING, _sharing_frame, recipe.sharing_lines, "sharing"),
)
SAID: dict[str, Callable[[Snapshot], str]] = {
    "distinct": say.distinct, "shared": say.shared, "traffic": say.traffic, "intensity": say.intensity, "sharing": say.sharing,
    "loads": say.loads, "straggler": say.straggler,
}  # fmt: skip
