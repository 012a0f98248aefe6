"""What a user brings: a model's files, own numbers of a machine, a machines.csv; and a server that is started anew."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_server import free_port, served
from config_fixtures import CASES
from playwright.sync_api import Page, expect

import physics
from app.quantities import format_quantity
from app.state import from_query

WAIT_MS = 30_000
START_MS = 120_000
CONFIG = next(iter(CASES.values())).config
EVIL = '<img src=x onerror="window.pwned=1">'
MACHINES = """machine,quantity,value,unit,status,source,confidence,note
Chip <b>9</b>,peak_bf16,1000,TFLOP/s,used,our lab,read,
Chip <b>9</b>,peak_fp8,2000,TFLOP/s,used,our lab,read,
Chip <b>9</b>,memory_capacity,200,GB,used,our lab,read,
Chip <b>9</b>,memory_bandwidth,6,TB/s,used,our lab,read,
Chip <b>9</b>,scale_up_bandwidth,500,GB/s,used,our lab,read,
Chip <b>9</b>,scale_up_domain,64,accelerators,used,our lab,read,
"""


class Brought:
    """A page of the app, and what its console said."""

    def __init__(self, page: Page) -> None:
        self.page, self.said = page, list[str]()
        page.set_default_timeout(WAIT_MS)
        page.on("console", lambda message: self.said.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("dialog", lambda dialog: self.said.append(f"dialog {dialog.message}"))

    def open(self, url: str) -> None:
        self.page.goto(url, timeout=START_MS)
        self.settled()

    def settled(self) -> None:
        expect(self.page.get_by_role("table").first).to_be_visible(timeout=START_MS)
        self.page.wait_for_function("() => Bokeh.documents.length && Bokeh.documents[0].is_idle", timeout=START_MS)

    def choose(self, button: str, *files: Any) -> None:
        with self.page.expect_file_chooser() as chooser:
            self.page.get_by_role("button", name=button, exact=True).click()
        chooser.value.set_files(list(files))

    def says(self, text: str) -> None:
        expect(self.page.get_by_text(text).first).to_be_visible(timeout=WAIT_MS)

    def address_holds(self, part: str) -> None:
        self.page.wait_for_function("part => location.href.includes(part)", arg=part, timeout=WAIT_MS)


@pytest.fixture
def brought(page: Page) -> Iterator[Brought]:
    page.set_viewport_size({"width": 1280, "height": 900})
    view = Brought(page)
    yield view
    assert view.said == []
    assert not page.evaluate("window.pwned || 0")


def file(name: str, content: Any) -> Any:
    text = content if isinstance(content, str) else json.dumps(content)
    return {"name": name, "mimeType": "application/octet-stream", "buffer": text.encode()}


def test_files_of_a_model_and_a_machine(brought: Brought, app_url: str, tmp_path: Path) -> None:
    page = brought.page
    brought.open(app_url)

    # What is no config leaves the state, and says what it is.
    before = page.url
    brought.choose("config.json", file("tokenizer.json", {"added_tokens": []}))
    brought.says("give the config.json of a language model")
    brought.choose("config.json", file("x.json", {"model_type": EVIL}))
    brought.says("onerror")
    large = tmp_path / "model.safetensors"
    with large.open("wb") as handle:
        handle.truncate(100 * 2**20)
    brought.choose("config.json", large)
    brought.says("100 MiB, and at most 80 MiB are read: is this the right file?")
    assert page.url == before

    # A config with markup in its name: selected, explained, compared with its name, never markup.
    model = physics.Model.from_config(CONFIG, name=f"{EVIL}-235B-A22B")
    brought.choose("config.json", file("config.json", CONFIG | {"_name_or_path": f"me/{EVIL}-235B-A22B"}))
    expect(page.get_by_role("combobox", name="Model").or_(page.get_by_text(f"{EVIL}-235B-A22B (your file)")).first).to_be_visible()
    brought.says("its name says 235B")
    brought.says("Recomputed from the config")
    assert page.locator("img[src=x]").count() == 0
    shown = page.get_by_text("total,", exact=False).first.inner_text()
    assert format_quantity(model.n_params, "parameters").split()[0] in shown

    page.get_by_role("button", name="Copy link").click()
    brought.says("it cannot carry your model")

    # A machines.csv with markup in a name.
    page.get_by_text("Your machine", exact=True).click()
    brought.choose("machines.csv", file("machines.csv", MACHINES.replace("our lab", "")))
    brought.says("row 2: no source")
    brought.choose("machines.csv", file("machines.csv", MACHINES))
    brought.says("1 machine")
    brought.says("200 GB, 6.00 TB/s")
    assert page.locator("b", has_text=re.compile("^9$")).count() == 0

    # The address falls back with a notice, field by field.
    page.reload(timeout=START_MS)
    brought.settled()
    brought.says("which a link cannot carry")


def test_own_numbers_are_questioned_kept_in_the_address_and_survive_a_new_server(brought: Brought, tmp_path: Path) -> None:
    """The same address after the server was stopped and started again shows the same state."""
    page, port = brought.page, free_port()
    with served(tmp_path / "first.log", port) as url:
        brought.open(f"{url}?preset=deepseek-v3-h200&batch=48")
        page.get_by_text("Your machine", exact=True).click()
        field = page.get_by_role("textbox", name="Dense BF16 peak")
        field.fill("fast")
        field.press("Enter")
        brought.says("“fast” is not a number")
        field.fill("1979 TFLOP/s")
        field.press("Enter")
        brought.says("data sheets print sparse peaks at twice the dense")
        brought.address_holds("own_machine=")
        assert from_query(page.url.partition("?")[2])[0].scenario().machine.peaks["bf16"] == 1979e12
        address, ttft = page.url, page.locator(".tile", has_text="TTFT").inner_text()
    brought.said.clear()  # the lost connection is said on the console
    with served(tmp_path / "second.log", port):
        page.reload(timeout=START_MS)
        brought.settled()
        brought.said.clear()
        assert page.url == address
        choices, notices = from_query(page.url.partition("?")[2])
        assert not notices
        assert choices.batch == 48
        expect(page.locator(".tile", has_text="TTFT")).to_have_text(ttft.replace("\n", ""), use_inner_text=False, timeout=WAIT_MS)
        assert page.get_by_role("slider", name="Batch size").get_attribute("aria-valuetext") == "48 requests"
        page.get_by_text("Your machine", exact=True).click()
        page.get_by_role("button", name="Back to H200").click()
        page.wait_for_function("() => !location.href.includes('own_machine')", timeout=WAIT_MS)
