"""The app for `benchmarks.live`, served with a watch on it, as it is or with every picture as a plain DynamicMap.

`python -m benchmarks.live_server live|plain PORT FILE`; FILE gets one line for each slider step: milliseconds of its thread.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import holoviews as hv
import panel as pn
from panel.command import main as panel_command

from app.live import LiveView
from app.live_pages import LivePages
from app.state import Explorer

ROOT = Path(__file__).resolve().parents[1]
Shown = hv.streams.Stream.define("Shown", snapshot=None)


def figure_name(page: str, number: int) -> str:
    """Tag by which the browser finds a picture's figure."""
    return f"{page} {number}"


def name_figures() -> None:
    """Let every picture's figure carry its page and number as a tag."""
    plain_add = LivePages.add

    def add(self: Any, page: str, view: Any) -> Any:
        if isinstance(view, LiveView):
            name = figure_name(page, sum(isinstance(other, LiveView) for other in self._views.get(page, [])))
            view.bench_name = name  # type: ignore[attr-defined]
            view.on_drawn(lambda figure: figure.update(tags=[name]))
        return plain_add(self, page, view)

    LivePages.add = add  # type: ignore[method-assign]


def time_steps(file: Path) -> None:
    """Append the time of every slider step: scenario, numbers, pictures, sentences and table, until all is handed to Bokeh."""
    plain_change, lines = Explorer.change, file.open("a", buffering=1, encoding="ascii")

    def change(self: Any, **changes: Any) -> bool:
        start = time.thread_time()
        done = plain_change(self, **changes)
        lines.write(f"{1e3 * (time.thread_time() - start):.3f}\n")
        return done

    Explorer.change = change  # type: ignore[method-assign]


def use_dynamic_maps() -> None:
    """The pattern of the HoloViews guides: a DynamicMap over a stream that builds the picture anew from each snapshot."""

    def pane(self: Any) -> Any:
        if self._pane is None:
            self.bench_stream = Shown(snapshot=self._snapshot)
            on_figure = lambda plot, _: plot.state.update(tags=[self.bench_name])  # noqa: E731

            def built(snapshot: Any) -> Any:
                return self.picture.build(snapshot).opts(hooks=[on_figure])

            shown = hv.DynamicMap(built, streams=[self.bench_stream])
            self._pane = pn.pane.HoloViews(
                shown, linked_axes=False, sizing_mode="stretch_width", min_height=self.picture.min_height, margin=0
            )
        return self._pane

    def push(self: Any, snapshot: Any) -> int:
        self._snapshot = snapshot
        if self._pane is not None:
            self.bench_stream.event(snapshot=snapshot)
        return 1

    LiveView.pane = property(pane)  # type: ignore[method-assign,assignment]
    LiveView.push = push  # type: ignore[method-assign]


def main(pattern: str, port: str, file: str) -> None:
    """Serve until terminated."""
    name_figures()
    time_steps(Path(file))
    if pattern == "plain":
        use_dynamic_maps()
    sys.argv = ["panel", "serve", str(ROOT / "app"), "--port", port]
    panel_command()


if __name__ == "__main__":
    main(*sys.argv[1:])
