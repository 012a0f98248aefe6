"""The page Sessions as a person uses it: opened on the synthetic workload, a trace dropped, sliders moved, a bad file refused."""

from __future__ import annotations

import re

import numpy as np
from playwright.sync_api import expect

from app import sentences_sessions as say
from app.state import Snapshot
from physics.trace_readers import read_trace

from .test_app import WAIT_MS, Opened, opened  # noqa: F401

BARS = """() => [...Bokeh.documents[0]._all_models.values()]
  .filter(m => m.type == 'GlyphRenderer' && m.name == 'bar midfill').map(m => Array.from(m.data_source.data.right))[0]"""
WIDE = "document.documentElement.scrollWidth <= innerWidth"


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


def says(page: Opened, text: str) -> None:
    expect(page.page.get_by_text(text.replace("**", "")).first).to_be_visible(timeout=WAIT_MS)


def test_sessions_with_a_trace_of_ones_own(opened: Opened) -> None:  # noqa: F811
    page = opened.page
    page.goto(opened.url + "?page=sessions")
    expect(page.get_by_text("How much of it is midfill?")).to_be_visible(timeout=90_000)
    page.wait_for_function("() => Bokeh.documents.length && Bokeh.documents[0].is_idle", timeout=60_000)
    expect(page.get_by_text("synthetic coding agents").first).to_be_visible()
    assert page.evaluate(WIDE)

    files = page.locator("input[type=file][accept*='.jsonl']")
    files.set_input_files({"name": "bad.csv", "mimeType": "text/csv", "buffer": b"a,b\n1,2\n"})
    expect(page.get_by_text("bad.csv: it needs time")).to_be_visible(timeout=WAIT_MS)
    files.set_input_files({"name": "mine.csv", "mimeType": "text/csv", "buffer": trace_text()})
    expect(page.get_by_text("mine.csv is read: 400 requests.")).to_be_visible(timeout=WAIT_MS)
    page.wait_for_function("() => location.href.includes('trace_file=mine.csv')", timeout=WAIT_MS)

    trace = read_trace(trace_text(), "mine.csv")
    choices = opened.choices()
    s = Snapshot(choices, choices.scenario(), trace=trace)
    for sentence in (say.mix, say.density, say.where, say.replay, say.working_set):
        says(opened, sentence(s))
    shares = s.sessions.shares
    np.testing.assert_allclose(page.evaluate(BARS)[0], shares.requests["prefill"] + shares.requests["midfill"], rtol=1e-5)

    page.get_by_role("combobox", name=re.compile("How KV waits")).click()
    page.get_by_text("time to live", exact=True).last.click()
    page.wait_for_function("() => location.href.includes('policy=ttl')", timeout=WAIT_MS)
    opened.press("Time to live", "ArrowLeft", 4)
    opened.press("Batch size", "ArrowRight", 2)
    choices = opened.choices()
    assert (choices.policy, choices.ttl_s) == ("ttl", 20.0)
    s = Snapshot(choices, choices.scenario(), trace=trace)
    says(opened, say.replay(s))
    says(opened, say.mix(s))
    page.get_by_role("button", name="Back to the synthetic workload").click()
    expect(page.get_by_text("synthetic coding agents").first).to_be_visible(timeout=WAIT_MS)
    assert not opened.foreign
