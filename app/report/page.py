"""The page of a report: its texts, its figures, and what the script needs to bring them to another state."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

import physics
from app import headline, recipe, sentences
from app.chosen_parts import only_here
from app.quantities import format_quantity
from app.regimes_table import table_columns, table_rows
from app.report import MOST_STATES, contents, provenance
from app.report.apart import hurried, start
from app.report.contents import FIGURES, Figure
from app.report.evaluate import PARTS, tables
from app.report.grid import Grid
from app.state import OPENING, Choices, Explorer, Snapshot, from_query
from app.theme import DARK, HUES, LIGHT, Theme
from physics import catalog
from physics.catalog import glossary, presets

STATIC = Path(__file__).resolve().parents[1] / "static"
LETTERS = "ABCD"


def opened(names: Sequence[str], queries: Sequence[str]) -> tuple[list[Snapshot], list[str]]:
    """Snapshots of presets and of URL queries, the opening preset where neither is given, and the notices about bad fields.

    Raises KeyError for an unknown preset.
    """
    chosen = [Choices.of_preset(name) for name in names]
    notices: list[str] = []
    for query in queries:
        choices, problems = from_query(query.partition("?")[2] if "?" in query else query)
        chosen.append(choices)
        notices += problems
    return [Explorer(choices).snapshot for choices in chosen or [Choices.of_preset(OPENING)]], notices


def html(snapshots: Sequence[Snapshot], notices: Sequence[str] = (), command: str = "") -> str:
    """The whole file. The states are computed in processes of their own while this one draws."""
    if not 1 <= len(snapshots) <= MOST_STATES:
        raise ValueError(f"report: {len(snapshots)} states were given; one to {MOST_STATES} stand side by side")
    with hurried():
        return _html(snapshots, notices, command)


def _html(snapshots: Sequence[Snapshot], notices: Sequence[str], command: str) -> str:
    for snapshot in snapshots:
        _ = snapshot.results  # the kernels are loaded before processes part
    working = [[start(packed, snapshot, part) for part in range(PARTS)] for snapshot in snapshots]
    from app.report import drawing  # Panel and HoloViews are loaded while the others work

    groups = drawing.drawings(snapshots)
    wired = [{key: drawing.wiring(made) for key, made in group.items()} for group in groups]
    packs = [[work.result() for work in parts] for parts in working]
    states = [_state(i, snapshot, wired[i], packs[i], len(snapshots)) for i, snapshot in enumerate(snapshots)]
    return str(_template().render(**_variables(snapshots, states, notices, command), **drawing.plots(groups)))


def packed(snapshot: Snapshot, part: int) -> str:
    """One part of the tables of a snapshot's grid, as the text of a script tag."""
    manifest, pack = tables(Grid(snapshot), part)
    return pack.text(manifest)


# -------------------------------------------------------------------------------------------------------------------- texts
def rich(text: str) -> Markup:
    """A sentence with **bold** parts as HTML; everything in it is escaped."""
    parts = (escape(part) for part in text.split("**"))
    return Markup("").join(Markup("<b>{}</b>").format(part) if i % 2 else part for i, part in enumerate(parts))


def _state(i: int, snapshot: Snapshot, wired: Mapping[str, Any], packs: Sequence[str], count: int) -> dict[str, Any]:
    """One state as the template shows it."""
    s, words = snapshot.scenario, glossary()
    grid, said = Grid(snapshot), {figure.key: figure.sentence(snapshot) for figure in contents.shown(snapshot)}
    sliders = [
        {"name": slider.name, "label": words[slider.name]["label"], "hint": words[slider.name]["definition"], "texts": slider.texts,
         "stops": slider.stops, "present": slider.present, "note": slider.note}
        for slider in grid.sliders
    ]  # fmt: skip
    return {
        "index": i, "letter": LETTERS[i] if count > 1 else "", "name": state_name(snapshot), "facts": facts(snapshot), "sliders": sliders,
        "tiles": headline.tiles(snapshot), "tone": "" if snapshot.memory.fits else "bad", "beyond": contents.mark_texts(snapshot)["beyond"],
        "sentences": {key: rich(text) for key, text in said.items()} | {"table": rich(sentences.table(snapshot))},
        "roots": {key: one["id"] for key, one in wired.items()}, "rows": table_rows(snapshot),
        "assumptions": provenance.assumptions(snapshot), "sources": provenance.used_sources(s), "lines": recipe.table_lines(snapshot),
        "packs": packs, "wiring": {"figures": wired, "sliders": sliders},
    }  # fmt: skip


def state_name(snapshot: Snapshot) -> str:
    """A state in a few words: its preset where it is one, else model and machine."""
    own = {"page", "axis", "quantity"}
    if set(snapshot.choices.changed_from_preset()) <= own:
        return str(presets()[snapshot.choices.preset]["title"])
    return snapshot.title


def facts(snapshot: Snapshot) -> str:
    """Model, machine and load of a state in one line."""
    s = snapshot.scenario
    total, active = (format_quantity(n, "parameters").removesuffix(" parameters") for n in (s.model.n_params, s.model.n_active_params))
    size, rate = format_quantity(s.machine.memory_bytes, "B"), format_quantity(s.machine.memory_bytes_per_s, "B/s")
    load = f"{format_quantity(s.new_tokens, 'tokens')} per midfill, {format_quantity(s.output_tokens, 'tokens')} of output"
    where = f"{s.gpus_per_stage} × {s.machine.name} a stage ({size}, {rate} each)"
    return f"{s.model.name} ({total} parameters, {active} active) on {where}; {load}"


# --------------------------------------------------------------------------------------------------------------------- page
def _variables(snapshots: Sequence[Snapshot], states: Sequence[dict[str, Any]], notices: Iterable[str], command: str) -> dict[str, Any]:
    sections: dict[str, list[Figure]] = {}
    for figure in FIGURES:
        if any(figure.key in state["roots"] for state in states):
            sections.setdefault(figure.page, []).append(figure)
    return {
        "heading": " · ".join(state["name"] for state in states), "states": states, "notices": list(notices), "sections": sections,
        "columns": table_columns(), "left_out": contents.LEFT_OUT,
        "version": physics.__version__, "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": command or _command(snapshots),
        "style": Markup(_colors_css() + (STATIC / "report.css").read_text(encoding="utf-8")),
        "script": Markup((STATIC / "report.js").read_text(encoding="utf-8")),
        "wiring": [state["wiring"] for state in states],
    }  # fmt: skip


def _command(snapshots: Sequence[Snapshot]) -> str:
    """The command line that makes the report again, or why none can."""
    files = dict.fromkeys(part for s in snapshots for part in only_here(s.choices.model, s.choices.machine, s.choices.routing))
    models = dict.fromkeys(s.scenario.model.name for s in snapshots if s.scenario.model.name not in catalog.models())
    if files or models:
        return f"# No command can: {', '.join(files or models)} came from outside data/. Load it in Python and call app.report.write."
    words = [word for snapshot in snapshots for word in ("--state", snapshot.choices.query())]
    return shlex.join(["python", "-m", "app", "report", *words, "-o", "midfill.html"])


def _template() -> Any:
    environment = Environment(
        loader=FileSystemLoader(STATIC), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.policies["json.dumps_kwargs"] = {"sort_keys": False}  # Bokeh names a model where it first appears
    return environment.get_template("report.html")


def _colors_css() -> str:
    """The two themes as CSS variables."""
    return ":root {" + _css(LIGHT) + "}\n@media screen and (prefers-color-scheme: dark) { :root {" + _css(DARK) + "} }\n"


def _css(theme: Theme) -> str:
    named = {name: getattr(theme, name) for name in ("page", "surface", "text", "muted", "rule", "accent", "warn")}
    named |= {meaning: theme.line(meaning) for meaning in HUES}
    return "".join(f"--midfill-{name}:{value};" for name, value in named.items()) + f"color-scheme:{theme.name};"
