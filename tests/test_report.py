"""The report's tables are what the app would show at every stop, and its texts cannot become markup."""

from __future__ import annotations

import base64
import gzip
import importlib
import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import holoviews as hv
import numpy as np
import pytest
from bokeh.models import ColumnDataSource
from hypothesis import given
from hypothesis import strategies as st

import physics
from app.live import drawn
from app.picture import prepared
from app.plots import crossover
from app.regimes_table import table_rows
from app.report import add_arguments, command, contents, evaluate, page, provenance, write
from app.report.grid import SLIDERS, Grid, depth_stops, laid_out
from app.report.tables import Pack, column, sentence, texts
from app.state import AXES, QUANTITIES, Choices, Explorer, Snapshot
from app.theme import DARK, dark_colors, recolor
from physics.catalog import presets

ROOT = Path(__file__).resolve().parents[1]
hv.extension("bokeh")


def grid_of(**choices: Any) -> Grid:
    return Grid(Explorer(replace(Choices.of_preset(choices.pop("preset", "deepseek-v3-h200")), **choices)).snapshot)


def fresh(grid: Grid, place: tuple[int, ...]) -> Snapshot:
    """The state as the app would make it: from choices alone, nothing shared, nothing prepared."""
    choices = grid.at(place)
    return Snapshot(choices, choices.scenario())


def all_texts(s: Snapshot) -> dict[tuple[str, ...], str]:
    """Every text of a state but the table's cells."""
    said = {key: text for figure in contents.shown(s) for key, text in evaluate.sentence_text(figure, s).items()}
    return said | dict(evaluate.tile_texts(s)) | dict(evaluate.table_text(s))


class Read:
    """The tables as the page's script reads them, a second time in Python."""

    def __init__(self, text: str) -> None:
        whole = gzip.decompress(base64.b64decode(text))
        self.start = 8 + int(whole[:8])
        self.manifest, self.bytes = json.loads(whole[8 : self.start]), whole[self.start :]

    def array(self, reference: list[Any]) -> np.ndarray:
        kind, offset, length = reference
        size = int(kind[1])
        planes = np.frombuffer(self.bytes, np.uint8, length * size, offset).reshape(size, length)
        return np.ascontiguousarray(planes.T).view({"f": "<f", "u": "<u"}[kind[0]] + str(size)).ravel()

    def at(self, table: dict[str, Any], place: tuple[int, ...]) -> Any:
        row = 0
        for slider, length in zip(table["over"], table["lengths"], strict=True):
            row = row * length + place[slider]
        if table["index"]:
            row = int(self.array(table["index"])[row])
        if not table["rows"]:
            return [table["words"][row]]
        values = self.array(table["rows"])[row * table["width"] : (row + 1) * table["width"]]
        return [table["words"][code] for code in values] if "words" in table else values

    def said(self, table: dict[str, Any], place: tuple[int, ...]) -> str:
        parts = self.at(table["pattern"], place)[0].split("**")
        return "**".join(part if i % 2 == 0 else self.at(table["bold"][i // 2], place)[0] for i, part in enumerate(parts))


# ----------------------------------------------------------------------------------------------------------------------- stops
@pytest.mark.parametrize("key", presets())
def test_every_preset_has_nine_stops_of_each_slider_and_the_present_values_among_them(key: str) -> None:
    grid = grid_of(preset=key)
    s = grid.scenario
    now = (s.context_tokens, s.batch, s.kv_token_bytes, s.pipeline_depth)
    for slider, value in zip(grid.sliders, now, strict=True):
        assert len(slider.stops) >= 9
        assert list(slider.stops) == sorted(set(slider.stops))
        assert slider.stops[slider.present] == value
    assert grid.at(grid.present).scenario() == s


@given(st.integers(1, 200), st.data())
def test_depths_end_at_the_deepest_and_hold_the_present_one(deepest: int, data: st.DataObject) -> None:
    present = data.draw(st.integers(1, deepest))
    stops = depth_stops(deepest, present)
    assert {1.0, float(present), float(deepest)} <= set(stops)
    assert len(stops) == min(deepest, max(9, len({1, present, deepest})))


@given(st.lists(st.floats(1.0, 1e9), min_size=1, max_size=3, unique=True))
def test_wanted_stops_are_kept_and_there_are_nine(wanted: list[float]) -> None:
    stops = laid_out([2.0**n for n in range(9)], wanted)
    assert set(wanted) <= set(stops)
    assert len(stops) == 9


def test_a_model_without_growing_cache_has_one_kv_stop() -> None:
    snapshot = Explorer(Choices.of_preset("deepseek-v3-h200")).snapshot
    model, hybrid = snapshot.scenario.model, physics.load_model("Kimi-K3")
    attention = next(group.attention for group in hybrid.groups if isinstance(group.attention, physics.LinearAttention))
    linear = replace(model, name="linear only", groups=(replace(model.groups[0], attention=attention, count=61),))
    grid = Grid(replace(snapshot, scenario=snapshot.scenario.replace(model=linear)))
    assert [len(slider.stops) for slider in grid.sliders] == [9, 9, 1, 9]
    assert "keeps no cache that grows" in grid.sliders[2].note
    assert grid.snapshot((0, 0, 0, 3)).scenario.kv_bytes_per_token is None


# ------------------------------------------------------------------------------------------------------- equal to the app's own
def same(one: Any, other: Any) -> bool:
    if isinstance(one, list | str):
        return bool(one == other)
    return bool(np.allclose(one, other, rtol=1e-6, atol=0, equal_nan=True))


def held(made: evaluate.Named) -> dict[tuple[str, ...], Any]:
    """What a job gives as the page holds it."""
    return {key: value if key[0] == "text" else prepared(value if np.ndim(value) else [value]) for key, value in made.items()}


def assert_jobs_hold(grid: Grid, rng: np.random.Generator, states: int) -> None:
    """What a job gives for the state it is evaluated at is what the app gives for every state that is shown it."""
    todo = list(evaluate.jobs(grid))
    by_key: dict[Any, tuple[int, ...]] = {}
    for place in grid.places(SLIDERS):
        for n, job in enumerate(todo):
            by_key.setdefault((n, *_key(grid, job, place)), _walked(grid, job, place))
    for place in rng.permutation(list(grid.places(SLIDERS)))[:states]:
        at = tuple(int(i) for i in place)
        for n, job in enumerate(todo):
            shown, wanted = (held(job.make(s)) for s in (grid.snapshot(by_key[(n, *_key(grid, job, at))]), fresh(grid, at)))
            assert shown.keys() == wanted.keys()
            wrong = [key for key in wanted if not same(shown[key], wanted[key])]
            assert not wrong, f"{grid.choices.preset} {at}: {wrong}; `over` of this figure in app/report/contents.py leaves out a slider"


def _walked(grid: Grid, job: evaluate.Job, place: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(at if name in job.walked else here for name, at, here in zip(SLIDERS, place, grid.present, strict=True))


def _key(grid: Grid, job: evaluate.Job, place: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(at for name, at in zip(SLIDERS, place, strict=True) if name in job.over), job.extra(grid, place)


@pytest.mark.parametrize("key", presets())
def test_each_picture_and_sentence_follows_no_slider_it_does_not_name(key: str) -> None:
    assert_jobs_hold(grid_of(preset=key), np.random.default_rng(5), 12)


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("quantity", QUANTITIES)
def test_the_crossover_holds_for_every_axis_and_quantity(axis: str, quantity: str) -> None:
    grid = grid_of(axis=axis, quantity=quantity, pipeline_depth=2)
    figure = next(figure for figure in contents.FIGURES if figure.key == "crossover")
    assert figure.picture is crossover.PICTURE
    rng = np.random.default_rng(1)
    for _ in range(4):
        place = tuple(int(rng.integers(n)) for n in grid.shape)
        rest = tuple(at if name in figure.over(grid.choices) else here for name, at, here in zip(SLIDERS, place, grid.present, strict=True))
        shown, wanted = (evaluate.figure_columns(figure, s) for s in (grid.snapshot(rest), fresh(grid, place)))
        moving = figure.moving(grid.choices)
        assert all(same(shown[name], wanted[name]) for name in wanted if name[2] not in moving)


@pytest.fixture(scope="module")
def small() -> Grid:
    """A grid of 2 × 2 × 2 × 3 states, so that all of them can be compared."""
    grid = grid_of(preset="kimi-k3-gb300")
    chosen = [sorted({slider.present, *picked}) for slider, picked in zip(grid.sliders, ((8,), (8,), (2,), (0, 8)), strict=True)]
    sliders = [
        replace(slider, stops=tuple(slider.stops[i] for i in kept), present=kept.index(slider.present))
        for slider, kept in zip(grid.sliders, chosen, strict=True)
    ]
    grid.sliders, grid.shape = tuple(sliders), tuple(len(slider.stops) for slider in sliders)
    grid.present = tuple(slider.present for slider in sliders)
    return grid


def test_every_table_of_every_state_reads_back_as_the_app_shows_it(small: Grid) -> None:
    parts = []
    for part in range(evaluate.PARTS):
        manifest, pack = evaluate.tables(small, part)
        parts.append(Read(pack.text(manifest)))
    counted = 0
    for place in small.places(SLIDERS):
        s = fresh(small, place)
        wanted = {key: values for figure in contents.shown(s) for key, values in evaluate.figure_columns(figure, s).items()}
        for read in parts:
            for key, tables in read.manifest["figures"].items():
                for table in tables:
                    assert same(read.at(table, place), wanted.pop(("figure", key, table["element"], table["column"]))), (
                        place,
                        key,
                        table["element"],
                    )
                    counted += 1
        assert not wanted
    assert counted > 2000


def test_every_text_of_every_state_reads_back_as_the_app_says_it(small: Grid) -> None:
    reads = [Read(pack.text(manifest)) for manifest, pack in (evaluate.tables(small, part) for part in range(evaluate.PARTS))]
    for place in small.places(SLIDERS):
        s = fresh(small, place)
        wanted = {key[1]: text for key, text in all_texts(s).items()}
        assert {key: read.said(table, place) for read in reads for key, table in read.manifest["texts"].items()} == wanted
        cells = {
            f"{row['key']} {name}": text for row in table_rows(s) for name, text in zip(contents.COLUMNS, row["cells"][1:], strict=True)
        }
        frame = physics.regimes(s.scenario)
        for read in reads:
            for key, cell in read.manifest["cells"].items():
                assert read.at(cell["text"], place) == [cells[key]]
                regime, name = key.split(" ")
                if name != "bound":
                    number = float(read.at(cell["number"], place)[0])
                    assert number == pytest.approx(frame.loc[regime, name], rel=1e-6, nan_ok=True)


def test_every_picture_of_the_app_that_follows_the_sliders_is_in_the_report() -> None:
    from app import plots
    from app.picture import Picture

    shown = {id(figure.picture) for figure in contents.FIGURES}
    left_out = {f"{module}.{name}" for part in contents.LEFT_OUT for module, names in part.pictures.items() for name in names}
    missing = []
    for path in Path(plots.__file__).parent.glob("[a-z]*.py"):
        names = vars(importlib.import_module(f"app.plots.{path.stem}")).items()
        pictures = {name for name, value in names if isinstance(value, Picture) and id(value) not in shown}
        missing += [name for name in (f"{path.stem}.{picture}" for picture in pictures) if name not in left_out]
    assert not missing, "add them to app/report/contents.py: FIGURES, or LEFT_OUT"


def test_an_element_left_out_as_empty_is_empty(small: Grid) -> None:
    for place in small.places(SLIDERS):
        s = fresh(small, place)
        for figure in contents.shown(s):
            for label, columns in figure.picture.columns(s).items():
                if label.partition(" ")[0] in contents.empty(s):
                    assert np.isnan(np.asarray(columns["y"], float)).all(), (figure.key, label)


# ------------------------------------------------------------------------------------------------------------------- encoding
@given(st.lists(st.lists(st.sampled_from([0.0, 1.5, math.nan, 1e30]), min_size=2, max_size=2), min_size=12, max_size=12))
def test_numbers_survive_packing(rows: list[list[float]]) -> None:
    pack = Pack()
    values = np.array(rows, np.float32)
    table = column(pack, values, np.arange(12).reshape(3, 1, 2, 2))
    read = Read(pack.text({"t": table}))
    for i, place in enumerate(np.ndindex(3, 1, 2, 2)):
        np.testing.assert_array_equal(read.at(read.manifest["t"], place), values[i])


@given(st.lists(st.text(max_size=4), min_size=8, max_size=8))
def test_texts_survive_packing(said: list[str]) -> None:
    pack = Pack()
    places = np.arange(8).reshape(2, 2, 2, 1)
    one, two = texts(pack, [[text] for text in said], places), texts(pack, [[text, "x"] for text in said], places)
    read = Read(pack.text({"one": one, "two": two}))
    for i, place in enumerate(np.ndindex(2, 2, 2, 1)):
        assert read.at(read.manifest["one"], place) == [said[i]]
        assert read.at(read.manifest["two"], place) == [said[i], "x"]


def test_sliders_that_move_nothing_are_left_out() -> None:
    pack = Pack()
    rows = np.array([[1.0], [2.0]], np.float32)
    table = column(pack, rows, np.broadcast_to(np.array([0, 1]).reshape(1, 2, 1, 1), (9, 2, 9, 9)))
    assert table["over"] == [1]
    assert table["index"] is None
    said = sentence(pack, ["**1** stage", "**2** stages"], np.zeros((9, 9, 9, 9), int))
    assert said["pattern"]["words"] == ["**** stage"]
    assert said["pattern"]["over"] == said["bold"][0]["over"] == []


# ------------------------------------------------------------------------------------------------------------------- the page
@pytest.mark.parametrize("figure", contents.FIGURES, ids=lambda figure: figure.key)
def test_the_dark_colours_of_the_page_are_those_of_the_app(figure: contents.Figure) -> None:
    made = drawn(figure.picture, Explorer().snapshot).figure
    wanted = {(model.id, name): dark for model, name, _, dark in dark_colors(made)}
    before = painted(made)
    recolor(made, DARK)
    changed = {key: value for key, value in painted(made).items() if value != before[key]}
    assert changed == wanted
    assert len(changed) > 10


def painted(figure: Any) -> dict[tuple[str, str], Any]:
    models = list(figure.references())
    found = {(model.id, name): getattr(model, name) for model in models for name in model.properties() if name.endswith("color")}
    columns = [(source, name) for source in models if isinstance(source, ColumnDataSource) for name in source.data]
    return found | {(source.id, name): list(source.data[name]) for source, name in columns if name.endswith("color")}


HOSTILE = "<script>alert(1)</script>\"'&</style>**bold**"


def test_a_hostile_model_name_is_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "start", lambda *_: type("Nothing", (), {"result": lambda self: "AAAA"})())
    explorer = Explorer(Choices.of_preset("deepseek-v3-h200"))
    explorer.models[HOSTILE] = replace(physics.load_model("DeepSeek-V3"), name=HOSTILE)
    assert explorer.change(model=HOSTILE)
    written = write(tmp_path / "out.html", explorer.snapshot, notices=[HOSTILE]).read_text(encoding="utf-8")
    assert "<script>alert" not in written
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in written
    title = re.search(r"<title>(.*?)</title>", written, re.DOTALL)
    assert title
    assert "&lt;script&gt;" in title[1]


def test_bold_is_the_only_markup_of_a_sentence() -> None:
    assert str(page.rich("a **<b>** & c")) == "a <b>&lt;b&gt;</b> &amp; c"


def test_sources_name_every_number_of_model_machine_and_energy() -> None:
    s = Choices.of_preset("deepseek-v3-h200").scenario()
    rows = provenance.used_sources(s)
    assert all(row.citation and row.confidence for row in rows)
    what = " ".join(row.what for row in rows)
    for words in (
        "width, vocabulary",
        "58 × mla + moe",
        "peak fp8",
        "memory bandwidth",
        "memory capacity",
        "scale-up",
        "HBM",
        "FLOP in FP8",
    ):
        assert words.lower() in what.lower()
    changed = provenance.used_sources(s.replace(machine=s.machine.replace(memory_bytes=1e12)))
    assert [row.citation for row in changed if "published: 141 GB" in row.value] == [provenance.GIVEN]


def test_a_model_of_the_users_own_says_so() -> None:
    s = Choices.of_preset("deepseek-v3-h200").scenario()
    own = s.replace(model=replace(s.model, name="mine"), machine=replace(s.machine, name="rig"))
    assert [row.citation for row in provenance.used_sources(own)[:2]] == [provenance.GIVEN, provenance.GIVEN]


def test_one_to_four_states() -> None:
    snapshot = Explorer().snapshot
    for count in (0, 5):
        with pytest.raises(ValueError, match="one to 4 stand side by side"):
            page.html([snapshot] * count)


# ----------------------------------------------------------------------------------------------------------------- the command
def report(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "app", "report", *words], cwd=ROOT, capture_output=True, text=True, check=False)


def test_unknown_preset_and_unwritable_file_are_one_sentence(tmp_path: Path) -> None:
    ended = report("--preset", "nonsense", "-o", str(tmp_path / "out.html"))
    assert ended.returncode == 2
    assert ended.stderr.startswith("report: preset 'nonsense' is not one of deepseek-v3-h200, ")
    assert ended.stderr.count("\n") == 1
    ended = report("-o", str(tmp_path / "no" / "out.html"))
    assert ended.returncode == 2
    assert "cannot be written" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_bad_fields_of_a_state_are_noticed_and_the_sound_ones_kept() -> None:
    (snapshot,), notices = page.opened([], ["?preset=dense-llama&batch=7&model=%3Cscript%3E&context_tokens=-3"])
    assert (snapshot.scenario.batch, snapshot.scenario.model.name) == (7, "Llama-3.1-70B")
    assert len(notices) == 2
    assert all(re.fullmatch(r"The link's .* is used instead\.", notice) for notice in notices)


def test_a_whole_address_is_a_state_too() -> None:
    (snapshot,), notices = page.opened([], ["http://localhost:5006/app?preset=dense-llama&batch=7"])
    assert (snapshot.scenario.batch, notices) == (7, [])


def test_the_command_in_the_report_is_the_one_given() -> None:
    import argparse

    parser = argparse.ArgumentParser()
    add_arguments(parser)
    given_words = ["--state", "?preset=dense-llama&batch=7", "-o", "a b.html"]
    assert command(parser.parse_args(given_words)) == "python -m app report --state '?preset=dense-llama&batch=7' -o 'a b.html'"
