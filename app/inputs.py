"""What a user brings to the sidebar: a model's config.json, a machines.csv, and own numbers for the chosen machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import panel_material_ui as pmui

import physics
from app.chosen_parts import YOURS, chosen_machine
from app.components import Block, Notice
from app.forms import Field, FileDrop, NumberForm
from app.quantities import format_exact, parse_quantity
from app.shell import ShowPanel, group
from app.state import Explorer, Snapshot
from app.uploads import MOST_MODELS, ReadModel, read_machine_file, read_model
from physics.machine_reader import FIELDS, MAX_BYTES, clean_name, machine_questions, numbers_of_text, numbers_text

MIB = 2**20
NAME = "name"
UNIT_OF_FIELD: Mapping[str, str] = {
    "peak_bf16": "FLOP/s", "peak_fp8": "FLOP/s", "peak_fp4": "FLOP/s", "peak_int8": "FLOP/s", "peak_fp16": "FLOP/s",
    "memory_bytes": "B", "memory_bytes_per_s": "B/s", "sram_bytes": "B", "sram_bytes_per_s": "B/s",
    "scale_up_bytes_per_s": "B/s", "scale_up_domain": "GPUs", "scale_out_bytes_per_s": "B/s",
    "tdp_w": "W", "idle_w": "W", "price_per_hour_usd": "$/h",
}  # fmt: skip
"""Numbers of the form, in order, with the unit they are typed in."""

HINTS = {
    "peak": "Dense peak of one accelerator: half of what is printed with sparsity. Empty: it has no such unit.",
    "memory": "Main memory of one accelerator.",
    "sram": "Largest cache or scratchpad on the chip. Empty: not known.",
    "scale": "Link per accelerator and direction. Empty: not known.",
    "tdp": "Design power of one accelerator. Empty: not known.",
    "idle": "Power of one accelerator that does nothing. Empty: not counted.",
    "price": "Rent of one accelerator for an hour. Empty: not known.",
}

Released = Callable[[], None]


class Inputs:
    """The user's files and numbers of one session.

    `drop` belongs under the model select, `machine` is a folded group of the sidebar. `show_panel`, set by the session, opens
    the side panel with what a file held.
    """

    def __init__(self, explorer: Explorer, released: Released) -> None:
        self.explorer, self._released = explorer, released
        self.show_panel: ShowPanel = lambda _title, _blocks: None
        self._shown: tuple[Any, ...] = ()
        self._errors: dict[str, str] = {}
        self._named: dict[Notice, str] = {}
        self.files: dict[str, str] = {}  # by the name of the model or machine that was read from it
        self.drop = FileDrop(
            label="config.json", hint="or drop it, or a model's folder, here", accept=".json", multiple=True, limit_bytes=80 * MIB,
            wanted=["config.json", "hf_quant_config.json", "model.safetensors.index.json"],
        )  # fmt: skip
        self.drop.on_files(self._read_model)
        self.said = Notice(tone="quiet")
        self.form = NumberForm(label="Numbers of your machine")
        self.form.on_typed(self._typed)
        self.question = Notice()
        self.back = pmui.Button(label="Back to its own numbers", size="small", variant="outlined", margin=(6, 0), disabled=True)
        self.back.on_click(lambda _: self._own({}, ""))
        self.machines_drop = FileDrop(
            label="machines.csv", hint="or drop it here", accept=".csv", limit_bytes=MAX_BYTES, wanted=["machines.csv"]
        )  # fmt: skip
        self.machines_drop.on_files(self._read_machines)
        self.machines_said = Notice(tone="quiet")
        self.machine = group("Your machine", self.form, self.question, self.back, self.machines_drop, self.machines_said)
        self.show(explorer.snapshot)
        explorer.watch(self.show)
        explorer.forgetters.append(self._forget)

    # -------------------------------------------------------------------------------------------------------------- models
    def _read_model(self, files: Mapping[str, bytes]) -> None:
        read = read_model(files)
        self._kept(self.explorer.models, read.model.name, read.model)
        self.files[read.model.name] = read.file
        chosen = {"model": read.model.name, "model_file": read.file, "kv_bytes_per_token": None, "weight_dtype": None}
        if not self.explorer.change(**chosen) and not self._shallower(read.model, chosen):
            problem = self.explorer.problem
            self.explorer.change()
            raise ValueError(f"{read.model.name} was read, and is in the list of models; it cannot be shown yet: {problem}")
        self.said.text = read.sentence
        self._released()
        self.show_panel(read.model.name, model_blocks(read))

    def _shallower(self, model: physics.Model, chosen: Mapping[str, Any]) -> bool:
        """Once more with a pipe as deep as the model has layers, its own routing, and its published weights."""
        depth = min(self.explorer.choices.pipeline_depth, model.n_layers)
        return self.explorer.change(**chosen, pipeline_depth=depth, compute_dtype=None, routing="uniform")

    def _kept(self, mapping: dict[str, Any], name: str, value: Any) -> None:
        """Keep it, and let the oldest go that is not in use."""
        mapping.pop(name, None)
        used = (self.explorer.choices.model, self.explorer.choices.machine)
        for old in [other for other in mapping if other not in used][: max(0, len(mapping) + 1 - MOST_MODELS)]:
            del mapping[old]
        mapping[name] = value

    # ------------------------------------------------------------------------------------------------------------ machines
    def _read_machines(self, files: Mapping[str, bytes]) -> None:
        read = read_machine_file(files)
        for name, machine in read.machines.items():
            self._kept(self.explorer.machines, name, machine)
            self.files[name] = read.file
        first = next(iter(read.machines))
        said = [read.sentence, *read.questions[:3]]
        if not self.explorer.change(
            machine=first, machine_file=read.file, own_machine="", own_machine_name="", memory_bytes=None, idle_w=None
        ):
            said.append(f"They are in the list of machines; {first} cannot be shown yet: {self.explorer.problem}.")
        self.explorer.problem = ""
        self.machines_said.text = " ".join(said)
        self.show(self.explorer.snapshot)
        self.explorer.change()
        self._released()

    def _base(self) -> physics.Machine:
        return chosen_machine(self.explorer.choices.machine, self.explorer.machines)

    def _typed(self, key: str, text: str) -> None:
        choices = self.explorer.choices
        numbers, name = numbers_of_text(choices.own_machine), choices.own_machine_name
        try:
            if key == NAME:
                name = clean_name(text) if text.strip() and text.strip() != self._base().name else ""
            else:
                numbers = self._with(numbers, key, text)
        except ValueError as problem:
            self._fail(key, str(problem))
            return
        self._own(numbers, name, key)

    def _with(self, numbers: dict[str, float | None], key: str, text: str) -> dict[str, float | None]:
        """The own numbers with one more; ValueError where the text is none."""
        low, high = FIELDS[key].low, FIELDS[key].high
        value = parse_quantity(text, UNIT_OF_FIELD[key], low, high) if text.strip() else None
        if value is None and key in ("memory_bytes", "memory_bytes_per_s"):
            raise ValueError(f"A machine needs its {FIELDS[key].words}: type a number such as {_text(key, _value(self._base(), key))}.")
        kept = {field: number for field, number in numbers.items() if field != key}
        same = value == _value(self._base(), key) or (value is None and _value(self._base(), key) is None)
        return kept if same else kept | {key: value}

    def _own(self, numbers: Mapping[str, float | None], name: str, key: str = "") -> None:
        """Use own numbers; one typed here prevails over the sliders of capacity and idle power."""
        over: dict[str, Any] = {field: None for field in ("memory_bytes", "idle_w") if field == key or not key}
        self._errors.clear()
        if not self.explorer.change(own_machine=numbers_text(numbers), own_machine_name=name, **over):
            self._fail(key, self.explorer.problem)
            self.explorer.problem = ""
            return
        self.show(self.explorer.snapshot, anew=True)
        self._released()

    def _fail(self, key: str, sentence: str) -> None:
        self._errors = {key: sentence}
        self.show(self.explorer.snapshot, anew=True)

    def _forget(self) -> None:
        """As freshly opened: nothing is said about files or typed numbers."""
        self._errors.clear()
        self.files.clear()
        self._shown = ()
        for drop, said in ((self.drop, self.said), (self.machines_drop, self.machines_said)):
            drop.forget()
            said.text = ""

    # --------------------------------------------------------------------------------------------------------------- state
    def show(self, s: Snapshot, anew: bool = False) -> None:
        """Bring the form to the snapshot; nothing is done while only sliders move. What was said of a file goes with what it held."""
        for said, chosen in ((self.said, s.choices.model), (self.machines_said, s.choices.machine)):
            if self._named.get(said, "").endswith(YOURS) and not chosen.endswith(YOURS):
                said.text = ""
            self._named[said] = chosen
        state = (s.choices.machine, s.choices.own_machine, s.choices.own_machine_name, s.scenario.machine)
        if state == self._shown and not anew:
            return
        if state != self._shown:
            self._errors = {} if not anew else self._errors
        self._shown = state
        numbers, base = numbers_of_text(s.choices.own_machine), self._base()
        own = set(numbers) | ({NAME} if s.choices.own_machine_name else set())
        named = _field(NAME, "Name", s.choices.own_machine_name or base.name, "What your machine is called.", self._errors, own)
        self.form.fields = [named, *(self._number_field(key, s.scenario.machine, own) for key in UNIT_OF_FIELD)]
        self.question.text = " ".join(machine_questions(s.scenario.machine, base)) if numbers else ""
        self.back.param.update(disabled=not own, label=f"Back to {base.name}" if own else "Back to its own numbers")

    def _number_field(self, key: str, machine: physics.Machine, own: set[str]) -> Field:
        words = FIELDS[key].words
        label = f"{words[:1].upper()}{words[1:]}"
        hint = HINTS[key.split("_", maxsplit=1)[0]]
        return _field(key, label, _text(key, _value(machine, key)), hint, self._errors, own)


def _field(key: str, label: str, text: str, hint: str, errors: Mapping[str, str], own: set[str]) -> Field:
    return Field(key=key, label=label, text=text, hint=hint, error=errors.get(key, ""), placeholder="not known", own=key in own)


def _value(machine: physics.Machine, key: str) -> float | None:
    """A number of the form; None where it is not known."""
    value = machine.peaks.get(key.removeprefix("peak_"), math.nan) if key.startswith("peak_") else getattr(machine, key)
    return None if math.isnan(value) or (key == "idle_w" and value == 0.0) else float(value)


def _text(key: str, value: float | None) -> str:
    return "" if value is None else format_exact(value, UNIT_OF_FIELD[key])


def model_blocks(read: ReadModel) -> list[Block]:
    """The side panel about a model that was read: facts beside what its name says, then what was ignored or assumed."""
    blocks = [Block(kind="text", text=read.sentence), Block(kind="heading", text="Recomputed from the config")]
    blocks.append(Block(kind="terms", rows=list(read.facts)))
    notes = [Block(kind="text", text=note.replace("**", "*")) for note in read.notes]
    return blocks + ([Block(kind="heading", text="What to know"), *notes] if notes else [])
