"""What a user brings: a model's files, own numbers of a machine, a machines.csv; and a server that is started anew."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from browser_server import free_port, served
from config_fixtures import CASES
from playwright.sync_api import Page, expect

import physics
from app import headline
from app.quantities import format_quantity
from app.state import Snapshot

from .settled import Opened

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


def file(name: str, content: Any) -> Any:
    text = content if isinstance(content, str) else json.dumps(content)
    return {"name": name, "mimeType": "application/octet-stream", "buffer": text.encode()}


def give(opened: Opened, button: str, *files: Any) -> None:
    """Files chosen after a click on a button."""
    with opened.page.expect_file_chooser() as chooser:
        opened.page.get_by_role("button", name=button, exact=True).click()
    chooser.value.set_files(list(files))


def test_files_of_a_model_and_a_machine(opened: Opened, tmp_path: Path) -> None:
    page = opened.page
    opened.open()

    # What is no config leaves the state, and says what it is.
    before = opened.address()
    give(opened, "config.json", file("tokenizer.json", {"added_tokens": []}))
    opened.awaits("give the config.json of a language model")
    give(opened, "config.json", file("x.json", {"model_type": EVIL}))
    opened.awaits("onerror")
    large = tmp_path / "model.safetensors"
    with large.open("wb") as handle:
        handle.truncate(100 * 2**20)
    give(opened, "config.json", large)
    opened.awaits("100 MiB, and at most 80 MiB are read: is this the right file?")
    assert opened.address() == before

    # A config with markup in its name: selected, explained, compared with its name, never markup.
    model = physics.Model.from_config(CONFIG, name=f"{EVIL}-235B-A22B")
    give(opened, "config.json", file("config.json", CONFIG | {"_name_or_path": f"me/{EVIL}-235B-A22B"}))
    opened.awaits(f"{EVIL}-235B-A22B (your file)")
    opened.awaits("its name says 235B")
    opened.awaits("Recomputed from the config")
    opened.awaits(format_quantity(model.n_params, "parameters").split()[0] + " total, ")
    assert page.locator("img[src=x]").count() == 0

    page.get_by_role("button", name="Copy link").click()
    opened.awaits("it cannot carry your model")

    # A machines.csv with markup in a name.
    page.get_by_text("Your machine", exact=True).click()
    give(opened, "machines.csv", file("machines.csv", MACHINES.replace("our lab", "")))
    opened.awaits("row 2: no source")
    give(opened, "machines.csv", file("machines.csv", MACHINES))
    opened.awaits("1 machine")
    opened.awaits("200 GB, 6.00 TB/s")
    assert page.locator("b", has_text=re.compile("^9$")).count() == 0
    assert not page.evaluate("window.pwned || 0")

    # The address falls back with a notice, field by field.
    page.reload()
    opened.built("regimes")
    opened.awaits("which a link cannot carry")
    assert not page.evaluate("window.pwned || 0")


def shows_own_numbers(opened: Opened, s: Snapshot) -> None:
    """The machine in the address is the one that was typed, and the tile shows its TTFT."""
    assert s.scenario.machine.peaks["bf16"] == 1979e12
    ttft = next(tile for tile in headline.tiles(s) if tile["label"] == "TTFT")
    shown = opened.page.locator(".tile", has_text="TTFT").text_content() or ""
    assert f"{ttft['number']}{ttft['unit']}" in shown


def test_own_numbers_are_questioned_kept_in_the_address_and_survive_a_new_server(page: Page, tmp_path: Path) -> None:
    """The same address after the server was stopped and started again shows the same state."""
    port = free_port()
    with served(tmp_path / "first.log", port) as url:
        opened = Opened(page, url)
        opened.open("preset=deepseek-v3-h200&batch=48")
        page.get_by_text("Your machine", exact=True).click()
        field = page.get_by_role("textbox", name="Dense BF16 peak")
        field.fill("fast")
        field.press("Enter")
        opened.awaits("“fast” is not a number")
        field.fill("1979 TFLOP/s")
        field.press("Enter")
        opened.awaits("data sheets print sparse peaks at twice the dense")
        opened.agreed(shows_own_numbers, batch=48)
        address = opened.address()
        opened.assert_quiet()
    with served(tmp_path / "second.log", port):
        page.reload()
        opened.built("regimes")
        opened.said.clear()  # the lost connection is said on the console
        opened.agreed(shows_own_numbers, batch=48)
        assert opened.address() == address
        expect(opened.slider("Batch size")).to_have_attribute("aria-valuetext", "48 requests")
        page.get_by_text("Your machine", exact=True).click()
        page.get_by_role("button", name="Back to H200").click()
        opened.agreed(own_machine="")
        opened.assert_quiet()
