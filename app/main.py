"""What `panel serve app` runs, once per session: state, sidebar, pages and address put together."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # a bare clone works without an install

import panel as pn

from app.address import Address
from app.rehearsal import set_up
from app.session import Session

set_up()
Session(Address(pn.state.location.search or "")).shell.servable()
