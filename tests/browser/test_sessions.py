"""The page Sessions as a person uses it: opened on the synthetic workload, a trace dropped, sliders moved, a bad file refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from app import sentences_sessions as say
from app.state import Snapshot
from physics.trace_readers import read_trace

from .settled import Opened


def trace_text(turns: int = 40) -> bytes:
    """Ten conversations that append 300 tokens a turn, and every tenth turn 9,000."""
    rows = ["conversation,turn,time_s,input_tokens,cached_tokens,output_tokens"]
    for talk in range(10):
        context = 20_000
        for turn in range(turns):
            added = 9000 if turn % 10 == 5 else 300
            rows.append(f"c{talk},{turn},{talk * 97 + turn * 40},{context + added},{context if turn else 0},200")
            context += added
    return "\n".join(rows).encode()


def read_by(name: str) -> Callable[[Opened, Snapshot], None]:
    """A look at the page for the requests of that file."""
    trace = read_trace(trace_text(), name)

    def shows(opened: Opened, s: Snapshot) -> None:
        s = replace(s, trace=trace)
        for sentence in (say.mix, say.density, say.where, say.replay, say.working_set):
            opened.says(sentence(s))
        shares = s.sessions.shares
        np.testing.assert_allclose(
            opened.source("bar midfill")["right"][0], (shares.requests["prefill"] + shares.requests["midfill"]), rtol=1e-5
        )

    return shows


def test_sessions_with_a_trace_of_ones_own(opened: Opened) -> None:
    opened.open("page=sessions")
    opened.awaits("synthetic coding agents")
    opened.fits_width()

    files = opened.page.locator("input[type=file][accept*='.jsonl']")
    files.set_input_files({"name": "bad.csv", "mimeType": "text/csv", "buffer": b"a,b\n1,2\n"})
    opened.awaits("bad.csv: it needs time")
    files.set_input_files({"name": "mine.csv", "mimeType": "text/csv", "buffer": trace_text()})
    opened.awaits("mine.csv is read: 400 requests.")
    shows = read_by("mine.csv")
    opened.agreed(shows, trace_file="mine.csv")

    opened.choose("How KV waits", "time to live")
    opened.press("Time to live", "ArrowLeft", 4)
    opened.press("Batch size", "ArrowRight", 2)
    opened.agreed(shows, policy="ttl", ttl_s=20.0, batch=128)
    opened.page.get_by_role("button", name="Back to the synthetic workload").click()
    opened.awaits("synthetic coding agents")
