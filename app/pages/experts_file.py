"""The user's own routing on the page Experts: a file of counts or a trace, what it shows, and putting it into the scenario."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

import pandas as pd
import panel as pn
import panel_material_ui as pmui

import physics
from app import expert_bank as b
from app import recipe_experts as recipe
from app import sentences_experts as say
from app.components import Notice
from app.forms import FileDrop
from app.live import LiveView
from app.pages import Context
from app.plots import routing_file
from app.shell import Card, offer_code
from app.state import Snapshot
from physics.readers import MAX_FILE_BYTES, UnreadableFileError

HELP = (
    "A CSV of counts (**layer, expert, assignments**) or a trace, as a CSV (**request, token, layer, expert**) or an .npz with **experts** "
    "[token, layer, choice] and **offsets** of the requests; at most 64 MiB. It is kept for this session only, and never executed."
)
NEARLY_ALL = 0.9
"""A file that names this share of the model's experts is taken to be of that model, the last ones never chosen."""


def read_upload(content: bytes, name: str, model: str, s: Snapshot) -> physics.ObservedRouting:
    """A user's file as an observed routing; UnreadableFileError with one sentence otherwise.

    model: whose rows to take, where the file holds several; empty: there is only one. s: its model tells E and k that counts do not.
    """
    held = b.bank(s)
    seen = physics.read_routing(content, name, model or None, top_k=None)
    few = NEARLY_ALL * held.n_experts <= seen.n_experts < held.n_experts
    same = seen.n_experts == held.n_experts or few
    if same and (few or seen.top_k is None):
        return physics.read_routing(content, name, model or None, held.n_experts, held.top_k)
    if seen.top_k is None:
        raise UnreadableFileError(
            f"{name}: counts of {seen.n_experts} experts, and {s.scenario.model.name} has {held.n_experts}; choose their model first"
        )
    return seen


class FileCards:
    """Cards about the file: popularity with the upload above it, overlap by distance, and the proof within one request."""

    def __init__(self, context: Context, page: str) -> None:
        self.context, self.explorer, self.live, self._page = context, context.explorer, context.live, page
        self._file = self._model = ""
        self.drop = FileDrop(
            label="Routing file", hint="or drop counts (.csv) or a trace (.csv, .npz) here", accept=".csv,.npz", limit_bytes=MAX_FILE_BYTES
        )
        self.drop.on_files(self.load)
        self.which = pmui.TextInput(
            label="Model in the file, where it holds several", size="small", sizing_mode="stretch_width", margin=(4, 0), max_length=100
        )
        self.apply = pmui.Button(label="Use it in the scenario", disabled=True, size="small", margin=(4, 0))
        self.status = Notice(text=HELP, tone="quiet")
        self.apply.on_click(lambda _: self.use())
        controls = pn.Column(self.status, self.drop, self.which, self.apply, sizing_mode="stretch_width", margin=0)
        self.popularity = self._card("How skewed is your own routing?", routing_file.POPULARITY, _popularity_frame, "popularity", controls)
        self.overlap = self._card("Do tokens of one request agree?", routing_file.OVERLAP, _overlap_frame, "overlap", span=False)
        self.proof = self._card(
            "Does the formula hold on your trace?", routing_file.PROOF, _proof_frame, "within-request", lines=recipe.proof_lines
        )
        self.cards = (self.overlap, self.popularity, self.proof)

    def _card(
        self, title: str, picture: Any, frame: Any, stem: str, controls: Any = None, lines: Any = recipe.file_lines, span: bool = True
    ) -> Card:
        view = self.live.add(self._page, LiveView(picture, self.explorer.snapshot))
        card = Card(
            title, view, csv=lambda: str(frame(self.explorer.snapshot).to_csv(index=False)), code=lambda: lines(self.explorer.snapshot),
            file_stem=stem, controls=controls, span=span,
        )  # fmt: skip
        offer_code(card, self.context.show_panel)
        return card

    # -------------------------------------------------------------------------------------------------------------- events
    def load(self, files: Mapping[str, bytes]) -> None:
        """Read a file; ValueError with one sentence where it cannot be, and what was shown before stays."""
        if len(files) != 1:
            raise ValueError(f"{len(files)} files were given: give one file of counts, or one trace.")
        ((name, content),) = files.items()
        called, model = PurePosixPath(name).name[:100], str(self.which.value or "").strip()
        try:
            observed = read_upload(content, called, model, self.explorer.snapshot)
            words = _read_words(observed)
        except MemoryError:
            raise ValueError(f"{called}: too large for the memory of this server; give a part of it.") from None
        self._file, self._model = called, model
        self._say(words)
        self.explorer.observe(observed)
        self.context.released()

    def use(self) -> None:
        """Put what is shown into the scenario, if its model has as many experts."""
        if self.explorer.apply_observed(self._file, self._model):
            self._say(f"{_read_words(self.explorer.observed)} It is the routing of the scenario now.")  # type: ignore[arg-type]
            self.context.released()
        else:
            self._say(self.explorer.problem + ".", bad=True)

    def forget(self) -> None:
        """As freshly opened: no file was given."""
        self._file = self._model = self.which.value = ""
        self.drop.forget()
        self._say(HELP)

    def _say(self, text: str, bad: bool = False) -> None:
        self.status.param.update(text=text, tone="bad" if bad else "quiet")

    def show(self, s: Snapshot) -> None:
        """Sentences of a snapshot; the proof is there when a trace is."""
        self.popularity.say(say.popularity(s))
        self.overlap.say(say.overlap(s))
        has_trace = s.observed is not None and s.observed.chosen is not None
        if has_trace:
            self.proof.say(say.proof(s))
        shown = self.proof.__panel__()
        if shown.visible != has_trace:
            shown.visible = has_trace
        if self.apply.disabled != (s.observed is None):
            self.apply.disabled = s.observed is None


def _read_words(observed: physics.ObservedRouting) -> str:
    """What was read: size, fitted sigma and law."""
    kind = "counts"
    if observed.chosen is not None:
        kind = f"a trace of {len(observed.chosen):,} tokens in {observed.n_requests:,} request{'' if observed.n_requests == 1 else 's'}"
    layers = f"{observed.n_layers} layer{'' if observed.n_layers == 1 else 's'}"
    return (
        f"**{observed.name}**: {kind}, {layers} of {observed.n_experts} experts, {observed.top_k} per token; as skewed as lognormal "
        f"weights with **σ {observed.sigma():.2f}**."
    )


# ------------------------------------------------------------------------------------------------------------------- files
def _popularity_frame(s: Snapshot) -> pd.DataFrame:
    if s.observed is not None:
        return s.observed.popularity()
    lines = routing_file.popularity(s)
    return pd.DataFrame({"rank_frac": [(i + 0.5) / routing_file.RANKS for i in range(routing_file.RANKS)], "load_over_mean": lines["skew"]})


def _overlap_frame(s: Snapshot) -> pd.DataFrame:
    if s.observed is not None and len(s.observed.overlap):
        return s.observed.overlap
    return pd.DataFrame({"distance_tokens": routing_file.DISTANCES} | routing_file.overlap_lines(s)).drop(columns="fitted")


def _proof_frame(s: Snapshot) -> pd.DataFrame:
    return routing_file.within_request(s.observed).dropna() if s.observed is not None else pd.DataFrame()
