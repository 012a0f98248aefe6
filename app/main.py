"""What `panel serve app` runs, once per session: state, sidebar, pages and address put together."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # a bare clone works without an install

import holoviews as hv
import panel as pn
from bokeh.settings import settings

from app.session import Session

hv.extension("bokeh")
hv.renderer("bokeh").webgl = False  # in software WebGL doubles the time of a repaint
# Panel asks models for attributes they may lack; Bokeh would look for similar names each time, a tenth of a slider step.
settings.perform_error_diagnostics = False

Session(pn.state.location).shell.servable()
