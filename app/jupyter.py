"""The app's pictures and sliders in a notebook: `begin()` once, then `show(explorer, picture, …)`.

The parts are those of the app: an Explorer holds the choices, LiveViews draw the pictures, Sliders move them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import holoviews as hv
import panel as pn
from bokeh.document import Document
from bokeh.embed.util import standalone_docs_json_and_render_items

from app.components import Notice
from app.live import LiveView, drawn
from app.picture import Picture
from app.sidebar import slider_stops
from app.state import AXES, Explorer, Snapshot
from app.theme import bokeh_theme
from app.widgets import Slider
from physics.catalog import glossary

MIME = "application/vnd.midfill.pictures+json"
"""Pictures as Bokeh documents, asked for by `python -m app notebooks --html` in place of live ones."""
ASKED = "MIDFILL_PICTURES"


def begin() -> None:
    """Load the notebook's side of Panel and Bokeh; inline, so that it works without a network."""
    hv.extension("bokeh", logo=False, inline=True)
    pn.extension(inline=True)
    hv.renderer("bokeh").webgl = False  # in software WebGL doubles the time of a repaint


class Shown:
    """Pictures of one explorer with sliders above and an answer sentence; the value of a cell.

    explorer: whose choices the sliders move; several cells may share it. sliders: names of `state.AXES`.
    """

    def __init__(
        self, explorer: Explorer, pictures: Sequence[Picture[Snapshot]], sliders: Sequence[str], sentence: Callable[[Snapshot], str] | None
    ) -> None:
        self.explorer, self.pictures, self._sentence = explorer, pictures, sentence
        self.views = [LiveView(picture, explorer.snapshot) for picture in pictures]
        self.sliders = {name: self._slider(name) for name in sliders}
        self.notice = Notice(text="", tone="quiet")
        self.layout = pn.Column(
            pn.Row(*self.sliders.values(), sizing_mode="stretch_width"),
            self.notice,
            *(view.pane for view in self.views),
            sizing_mode="stretch_width",
            max_width=900,
        )
        self._show(explorer.snapshot)
        explorer.watch(self._show)

    def _slider(self, name: str) -> Slider:
        words, now = glossary()[name], self._value(name, self.explorer.snapshot)
        stops = [stop for stop in slider_stops(name) if name != "pipeline_depth" or stop <= self.explorer.snapshot.scenario.model.n_layers]
        slider = Slider(label=words["label"], unit=AXES[name][2], description=words["definition"], stops=stops, value=now)
        slider.param.watch(lambda event: self._moved(name, event.new), "value")
        slider.param.watch(self._let_go, "value_throttled")
        return slider

    def _value(self, name: str, s: Snapshot) -> float:
        return float(s.scenario.kv_token_bytes if name == "kv_bytes_per_token" else getattr(s.scenario, name))

    def _moved(self, name: str, value: float) -> None:
        wanted = value if name == "kv_bytes_per_token" else int(value)
        if value != self._value(name, self.explorer.snapshot) and not self.explorer.change(**{name: wanted}):
            self.notice.param.update(text=self.explorer.problem, tone="bad")

    def _let_go(self, _event: Any) -> None:
        for view in self.views:
            view.refit()

    def _show(self, s: Snapshot) -> None:
        self.notice.param.update(text=self._sentence(s) if self._sentence else "", tone="quiet")
        for view in self.views:
            view.push(s)
        for name, slider in self.sliders.items():
            if slider.value != self._value(name, s):
                slider.commit(self._value(name, s))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        if os.environ.get(ASKED):
            return {MIME: self.documents(), "text/plain": "pictures"}
        return self.layout._repr_mimebundle_(include, exclude)

    def documents(self) -> dict[str, Any]:
        """The pictures as they stand, as Bokeh documents, and the sentence."""
        document, figures = Document(theme=bokeh_theme()), []
        for picture in self.pictures:
            figure = drawn(picture, self.explorer.snapshot).figure
            figure.update(sizing_mode="stretch_width", height=picture.min_height, output_backend="canvas")
            document.add_root(figure)
            figures.append(figure)
        docs, items = standalone_docs_json_and_render_items(figures, suppress_callback_warning=True)
        return {"docs": docs, "items": [item.to_json() for item in items], "sentence": self.notice.text}


def show(
    explorer: Explorer | Snapshot,
    *pictures: Picture[Snapshot],
    sliders: Sequence[str] = (),
    sentence: Callable[[Snapshot], str] | None = None,
) -> Shown:
    """Pictures of the app, for the last line of a cell.

    explorer: moved by `sliders`, names of `state.AXES`; or a snapshot, which stays as it is. sentence: one of `app.sentences`.
    """
    if isinstance(explorer, Snapshot):
        still, explorer = explorer, Explorer(explorer.choices)
        explorer.snapshot = still
    return Shown(explorer, pictures, sliders, sentence)
