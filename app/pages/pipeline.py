"""Page Pipeline: how deep should the pipe be?"""

from __future__ import annotations

from typing import ClassVar

import pandas as pd
import panel as pn

from app import recipe, sentences
from app.live import LiveView
from app.pages import Context
from app.plots import pipeline
from app.shell import Card, cards, offer_code
from app.state import Snapshot, depth_values


class PipelinePage:
    """Cards of the page, built once; the shell shows them when the tab is opened."""

    name: ClassVar[str] = "Pipeline"
    key: ClassVar[str] = "pipeline"
    question: ClassVar[str] = "How deep should the pipe be?"

    def __init__(self, context: Context) -> None:
        self.explorer, self.live, self._show_panel = context.explorer, context.live, context.show_panel

    def build(self) -> pn.Column:
        """The content of the page."""
        s = self.explorer.snapshot
        pictures = (pipeline.MEMORY, pipeline.LATENCY, pipeline.THROUGHPUT)
        views = [self.live.add(self.name, LiveView(picture, s)) for picture in pictures]
        self.stage = Card(
            "What must one stage hold?", views[0], csv=self._stage_csv, code=self._stage_code, file_stem="stage-memory", span=True
        )
        self.latency = Card("Does depth speed up a token?", views[1], csv=self._speed_csv, code=self._speed_code, file_stem="latency")
        self.throughput = Card("Does depth raise throughput?", views[2], csv=self._speed_csv, code=self._speed_code, file_stem="throughput")
        for card in (self.stage, self.latency, self.throughput):
            offer_code(card, self._show_panel)
        self.live.listen(self.name, self.show)
        self.show(s)
        return cards(self.stage, self.latency, self.throughput)

    def show(self, s: Snapshot) -> None:
        """Sentences of a snapshot."""
        bad = not s.memory.fits
        self.stage.say(f"{sentences.stage(s)} {sentences.fit(s)}", bad)
        self.latency.say(sentences.latency(s), bad)
        self.throughput.say(sentences.throughput(s), bad)

    def _stage_csv(self) -> str:
        s = self.explorer.snapshot
        frame = pd.DataFrame({"pipeline_depth": depth_values(s.scenario)} | pipeline.stage_parts(s))
        return str(frame.drop_duplicates().to_csv(index=False))

    def _speed_csv(self) -> str:
        s = self.explorer.snapshot
        names = {"tpot": "tpot_s", "ttft": "ttft_s", "pipe": "tokens_per_s", "gpu": "tokens_per_s_per_gpu"}
        lines = {names[key]: values for key, (values, _) in pipeline.speed_lines(s).items()}
        return str(pd.DataFrame({"pipeline_depth": depth_values(s.scenario)} | lines).drop_duplicates().to_csv(index=False))

    def _stage_code(self) -> str:
        return recipe.stage_lines(self.explorer.snapshot)

    def _speed_code(self) -> str:
        return recipe.speed_lines(self.explorer.snapshot)
