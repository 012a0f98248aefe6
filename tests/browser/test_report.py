"""The report opened from disk without a network: each slider by mouse and by keyboard, every number against the core."""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

import physics
from app.regimes_table import COLUMNS, table_rows
from app.report import contents, evaluate, write
from app.report.grid import SLIDERS, Grid
from app.state import Choices, Explorer, Snapshot

from .settled import WAIT_MS

ROOT = Path(__file__).resolve().parents[2]
PRESETS = {"hybrid": "kimi-k3-gb300", "dense": "dense-llama", "mixture": "deepseek-v3-h200"}
MB = 1e6
# Every source and line of every figure, as numbers or texts; JSON has no NaN.
SHOWN = """() => {
  const plain = (values) => Array.from(values, (v) => typeof v === "number" && !Number.isFinite(v) ? null : v)
  const found = {}
  for (const [i, wiring] of JSON.parse(document.getElementById("wiring").textContent).entries())
    for (const [key, figure] of Object.entries(wiring.figures)) {
      const doc = Bokeh.documents[0]
      for (const [label, id] of Object.entries(figure.sources)) {
        const data = doc.get_model_by_id(id).data
        for (const name of Object.keys(data)) found[[i, key, label, name].join("|")] = plain(data[name])
      }
      for (const [label, id] of Object.entries(figure.marks))
        found[[i, key, label, "location"].join("|")] = plain([doc.get_model_by_id(id).location])
      const {x_range: x, y_range: y} = doc.get_model_by_id(figure.id)
      found[[i, key, "axes", "limits"].join("|")] = [x.start, x.end, y.start, y.end]
    }
  return found
}"""

STEPS = """async (name) => {
  const input = document.getElementById(`slider-0-${name}`), clock = []
  for (let i = 0; i < 27; i++) {
    const start = performance.now()
    input.value = i % 9
    input.dispatchEvent(new Event("input", {bubbles: true}))
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)))
    clock.push(performance.now() - start)
  }
  return clock
}"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One report of each kind of model, by the command line; its size and time are printed."""
    folder = tmp_path_factory.mktemp("reports")
    made = {}
    for kind, preset in PRESETS.items():
        made[kind] = folder / f"{kind}.html"
        start = time.monotonic()
        words = [sys.executable, "-m", "app", "report", "--preset", preset, "-o", str(made[kind])]
        subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
        size = made[kind].stat().st_size
        sys.stdout.write(f"report of {preset}: {size / MB:.2f} MB in {time.monotonic() - start:.1f} s\n")
        assert size < 5 * MB
    return made


class Opened:
    """A report in the browser, and what its console said."""

    def __init__(self, page: Page, file: Path) -> None:
        self.page, self.said, self.asked = page, [], []
        page.on("console", lambda message: self.said.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url) if not request.url.startswith(("data:", "blob:")) else None)
        page.goto(file.as_uri())
        self.settle()

    def settle(self) -> None:
        self.page.wait_for_selector("html[data-settled=true]", state="attached")

    def slider(self, name: str, state: int = 0) -> Any:
        return self.page.locator(f"#slider-{state}-{name}")

    def place(self, state: int = 0) -> tuple[int, ...]:
        return tuple(int(self.slider(name, state).input_value()) for name in SLIDERS)

    def shown(self) -> dict[str, list[Any]]:
        return dict(self.page.evaluate(SHOWN))


@pytest.fixture
def offline(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1280, "height": 800}, accept_downloads=True)
    context.set_default_timeout(WAIT_MS)
    context.set_offline(True)
    context.route(re.compile("^https?:"), lambda route: route.abort())
    yield context
    context.close()


def grid_of(preset: str) -> Grid:
    return Grid(Explorer(Choices.of_preset(preset)).snapshot)


def agrees(found: list[Any], wanted: Any) -> bool:
    if isinstance(wanted, list):
        return found == wanted
    numbers = np.array([np.nan if value is None else value for value in found], float)
    return bool(np.allclose(numbers, np.asarray(wanted, float), rtol=1e-5, atol=0, equal_nan=True))


def assert_shows(opened: Opened, grid: Grid, limits: bool = True) -> Snapshot:
    """Sources, axes, sentences, tiles and table are those of the core at the stops the sliders stand at."""
    opened.settle()
    choices = grid.at(opened.place())
    s = Snapshot(choices, choices.scenario())
    found = opened.shown()
    wanted = {key[1:]: values for figure in contents.shown(s) for key, values in evaluate.figure_columns(figure, s).items()}
    wrong = [key for key, values in wanted.items() if (limits or key[1] != "axes") and not agrees(found["|".join(("0", *key))], values)]
    assert not wrong, wrong
    frame = physics.regimes(s.scenario)
    for row in table_rows(s):
        for name, text in zip(COLUMNS, row["cells"][1:], strict=True):
            cell = opened.page.locator(f'[data-cell="0|{row["key"]} {name}"]')
            assert cell.text_content() == text
            if name in frame and name != "bound":
                assert float(cell.get_attribute("data-value") or "nan") == pytest.approx(
                    float(frame.loc[row["key"], name]), rel=1e-5, nan_ok=True
                )
    for key, text in _texts(s).items():
        for element in opened.page.locator(f'[data-text="0|{key[1]}"]').all():
            assert element.text_content() == text.replace("**", "")
    return s


def _texts(s: Snapshot) -> dict[tuple[str, ...], str]:
    said = {key: text for figure in contents.shown(s) for key, text in evaluate.sentence_text(figure, s).items()}
    return said | dict(evaluate.tile_texts(s)) | dict(evaluate.table_text(s))


def assert_quiet(opened: Opened) -> None:
    assert not opened.said
    assert all(url.startswith("file://") for url in opened.asked)
    assert len(opened.asked) == 1


@pytest.mark.parametrize("kind", PRESETS)
def test_each_slider_by_keyboard_and_by_mouse_shows_what_the_core_gives(files: dict[str, Path], offline: BrowserContext, kind: str) -> None:
    opened, grid = Opened(offline.new_page(), files[kind]), grid_of(PRESETS[kind])
    assert opened.place() == grid.present
    assert_shows(opened, grid)
    for i, name in enumerate(SLIDERS):
        slider, before = opened.slider(name), opened.place()
        assert int(slider.get_attribute("max") or 0) >= 8
        slider.focus()
        opened.page.keyboard.press("ArrowLeft" if before[i] else "ArrowRight")
        assert opened.place()[i] == before[i] + (-1 if before[i] else 1)
        assert_shows(opened, grid)
        _drag(opened, slider, 0.2 if before[i] > 4 else 0.8)
        assert opened.place()[i] != before[i]
        s = assert_shows(opened, grid)
        text = grid.sliders[i].texts[opened.place()[i]]
        assert opened.page.locator(f"#value-0-{name}").text_content() == text == slider.get_attribute("aria-valuetext")
        value = s.scenario.kv_token_bytes if name == "kv_bytes_per_token" else getattr(s.scenario, name)
        assert value == grid.sliders[i].stops[opened.place()[i]]
    opened.page.keyboard.press("End")
    assert_shows(opened, grid)
    opened.page.get_by_role("button", name="Back to the exported state").click()
    assert opened.place() == grid.present
    assert_shows(opened, grid)
    assert_quiet(opened)


def _drag(opened: Opened, slider: Any, share: float) -> None:
    box, steps = slider.bounding_box(), int(slider.get_attribute("max") or 1)
    mouse, y = opened.page.mouse, box["y"] + box["height"] / 2
    mouse.move(box["x"] + 8 + (box["width"] - 16) * int(slider.input_value()) / steps, y)
    mouse.down()
    for part in (0.1, 0.5, share):
        mouse.move(box["x"] + 8 + (box["width"] - 16) * part, y, steps=3)
    mouse.up()


def test_random_states_equal_the_core(files: dict[str, Path], offline: BrowserContext) -> None:
    opened, grid = Opened(offline.new_page(), files["mixture"]), grid_of(PRESETS["mixture"])
    rng = np.random.default_rng(11)
    for _ in range(8):
        for name, slider in zip(SLIDERS, grid.sliders, strict=True):
            opened.slider(name).fill(str(rng.integers(len(slider.stops))))
        assert_shows(opened, grid)
    assert_quiet(opened)


def test_a_slider_event_repaints_within_50_ms(files: dict[str, Path], offline: BrowserContext) -> None:
    """Asserted is the work of the page's thread, which other processes on the machine do not lengthen; the clock is printed."""
    opened = Opened(offline.new_page(), files["mixture"])
    session = offline.new_cdp_session(opened.page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    for name in SLIDERS:
        before = _thread_s(session)
        clock = opened.page.evaluate(STEPS, name)
        work = 1000.0 * (_thread_s(session) - before) / len(clock)
        sys.stdout.write(f"{name}: {work:.0f} ms of work a step, painted {statistics.median(clock):.0f} ms after the event (median)\n")
        assert work < 50.0, name


def _thread_s(session: Any) -> float:
    return next(float(metric["value"]) for metric in session.send("Performance.getMetrics")["metrics"] if metric["name"] == "TaskDuration")


def test_the_axes_stay_while_the_hand_moves_and_a_zoom_survives(files: dict[str, Path], offline: BrowserContext) -> None:
    opened = Opened(offline.new_page(), files["mixture"])
    axes = [key for key in opened.shown() if key.endswith("axes|limits")]
    before = {key: opened.shown()[key] for key in axes}
    moved = """stop => { const input = document.getElementById("slider-0-context_tokens")
      input.value = stop; input.dispatchEvent(new Event("input", {bubbles: true})) }"""
    opened.page.evaluate(moved, 1)
    assert {key: opened.shown()[key] for key in axes} == before
    opened.settle()
    assert {key: opened.shown()[key] for key in axes} == before
    opened.page.evaluate("document.getElementById('slider-0-context_tokens').dispatchEvent(new Event('change'))")
    after = opened.shown()
    assert any(after[key] != before[key] for key in axes)
    opened.page.evaluate("""() => { const id = JSON.parse(document.getElementById("wiring").textContent)[0].figures.stage.id
      Bokeh.documents[0].get_model_by_id(id).y_range.end = 7e11 }""")
    opened.slider("context_tokens").focus()
    opened.page.keyboard.press("Home")
    opened.settle()
    assert opened.shown()["0|stage|axes|limits"][3] == 7e11
    opened.page.get_by_role("button", name="Back to the exported state").click()
    opened.settle()
    assert opened.shown()["0|stage|axes|limits"][3] == pytest.approx(before["0|stage|axes|limits"][3])


def test_the_csv_holds_the_present_state(files: dict[str, Path], offline: BrowserContext, tmp_path: Path) -> None:
    opened, grid = Opened(offline.new_page(), files["mixture"]), grid_of(PRESETS["mixture"])
    opened.slider("batch").fill("2")
    opened.settle()
    with opened.page.expect_download() as download:
        opened.page.get_by_role("button", name="CSV").click()
    download.value.save_as(tmp_path / "regimes.csv")
    lines = [line.split(",") for line in (tmp_path / "regimes.csv").read_text().splitlines()]
    midfill = dict(zip(lines[0], next(line for line in lines if line[0] == "midfill"), strict=True))
    frame = physics.regimes(grid.at(opened.place()).scenario())
    assert float(midfill["batch"]) == grid.sliders[1].stops[2]
    assert float(midfill["kv_bytes"]) == pytest.approx(float(frame.loc["midfill", "kv_bytes"]), rel=1e-6)
    assert len(lines) == 6


def test_dark_print_and_narrow(files: dict[str, Path], offline: BrowserContext) -> None:
    page = offline.new_page()
    page.emulate_media(color_scheme="dark")
    opened = Opened(page, files["dense"])
    colour = """() => { const {id} = JSON.parse(document.getElementById("wiring").textContent)[0].figures.stage
      return Bokeh.documents[0].get_model_by_id(id).background_fill_color }"""
    assert page.evaluate(colour) == "#1C2026"
    page.emulate_media(color_scheme="light")
    page.wait_for_function(f"({colour})() == '#FFFFFF'")
    page.set_viewport_size({"width": 768, "height": 1024})
    page.wait_for_function("document.documentElement.scrollWidth <= 768")  # pictures follow the window a little later
    opened.slider("context_tokens").fill("1")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    images = page.locator("img.print")
    assert images.count() == len([figure for figure in contents.FIGURES if figure.page in ("Regimes", "Pipeline")])
    assert all(str(image.get_attribute("src")).startswith("data:image/png") for image in images.all())
    page.emulate_media(media="print")
    expect(page.locator("#value-0-context_tokens")).to_be_visible()
    expect(page.locator("#slider-0-context_tokens")).to_be_hidden()
    assert_quiet(opened)


def test_states_side_by_side_move_together_or_alone(offline: BrowserContext, tmp_path: Path) -> None:
    base = Explorer(Choices.of_preset("deepseek-v3-h200"))
    other = Explorer(replace(base.choices, machine="B200", batch=32))
    file = write(tmp_path / "two.html", base.snapshot, other.snapshot)
    sys.stdout.write(f"two states: {file.stat().st_size / MB:.2f} MB\n")
    assert file.stat().st_size < 5 * MB
    opened = Opened(offline.new_page(), file)
    grids = [Grid(explorer.snapshot) for explorer in (base, other)]
    opened.slider("context_tokens").fill("1")
    assert [grid.sliders[0].stops[opened.place(i)[0]] for i, grid in enumerate(grids)] == [grids[0].sliders[0].stops[1]] * 2
    opened.page.get_by_label("Move all states together").uncheck()
    opened.slider("context_tokens").fill("3")
    assert (opened.place(0)[0], opened.place(1)[0]) == (3, 1)
    opened.settle()
    found = opened.shown()
    for i, grid in enumerate(grids):
        choices = grid.at(opened.place(i))
        s = Snapshot(choices, choices.scenario())
        wanted = {key[1:]: values for figure in contents.shown(s) for key, values in evaluate.figure_columns(figure, s).items()}
        assert all(agrees(found["|".join((str(i), *key))], values) for key, values in wanted.items() if key[1] != "axes")
    for figure in contents.FIGURES:
        assert found[f"0|{figure.key}|axes|limits"] == found[f"1|{figure.key}|axes|limits"], "compared pictures share their axes"
    assert_quiet(opened)


def test_a_hostile_model_name_is_shown_as_text(offline: BrowserContext, tmp_path: Path) -> None:
    name = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>\'&'
    explorer = Explorer(Choices.of_preset("dense-llama"))
    explorer.models[name] = replace(physics.load_model("Llama-3.1-70B"), name=name)
    assert explorer.change(model=name), explorer.problem
    opened = Opened(offline.new_page(), write(tmp_path / "hostile.html", explorer.snapshot, notices=[name]))
    assert name in str(opened.page.locator("h1").text_content())
    opened.slider("batch").fill("0")
    opened.settle()
    assert opened.page.evaluate("window.hacked") is None
    assert_quiet(opened)


def test_the_export_button_saves_the_present_state(app_url: str, browser: Browser, tmp_path: Path) -> None:
    context = browser.new_context(accept_downloads=True, viewport={"width": 1280, "height": 800})
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    page.goto(f"{app_url}?preset=dense-llama&batch=16")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()
        expect(page.get_by_text("Exporting …")).to_be_visible()
    file = tmp_path / "exported.html"
    download.value.save_as(file)
    expect(page.get_by_text(re.compile(r"Report saved, \d\.\d MB"))).to_be_visible()
    context.set_offline(True)
    opened = Opened(context.new_page(), file)
    grid = Grid(Explorer(replace(Choices.of_preset("dense-llama"), batch=16)).snapshot)
    assert opened.place() == grid.present
    assert_shows(opened, grid)
    assert_quiet(opened)
    context.close()
