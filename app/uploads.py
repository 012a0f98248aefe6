"""What a user's files become: a model from config.json and its neighbours, machines from machines.csv, and what is said of them.

No GUI here. Every fault is a ValueError with one sentence; nothing is executed, nothing is written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import physics
from app.chosen_parts import YOURS
from app.quantities import format_exact, format_quantity
from physics.huggingface import model_from_config
from physics.huggingface.checks import sizes_in_name
from physics.huggingface.readers import CONFIG_BYTES, INDEX_BYTES, given_name, object_of_bytes
from physics.machine_reader import clean_name
from physics.model import Model

OTHERS = ("tokenizer", "generation_config", "preprocessor_config", "special_tokens", "added_tokens", "vocab", "merges", "chat_template")
"""Neighbours of a config that say nothing of its size; left out where several files are given."""

NAME_TOLERANCE = 0.15
"""A name rounds: 30B-A3B has 3.35e9 active parameters, and some publishers leave the embedding out."""

MOST_MODELS = 40
"""Models and machines a session keeps of the user's files."""

Fact = tuple[str, str, str, str]
"""(symbol, value, meaning, source), as the side panel lists them."""


class ReadModel(NamedTuple):
    """A model from the user's files: itself, the sentence about it, facts beside what its name says, notes, and its config's file name."""

    model: Model
    sentence: str
    facts: tuple[Fact, ...]
    notes: tuple[str, ...]
    file: str


class ReadMachines(NamedTuple):
    """Machines from the user's file by their shown names, the sentence about them, questions about their peaks, and the file's name."""

    machines: dict[str, physics.Machine]
    sentence: str
    questions: tuple[str, ...]
    file: str


# ------------------------------------------------------------------------------------------------------------------ models
def read_model(files: Mapping[str, bytes]) -> ReadModel:
    """The model that files of a checkpoint describe: a config.json, and if given hf_quant_config.json and the safetensors index.

    files: content by name, as uploaded.
    Raises ValueError with one sentence that says which file is wrong, and how to mend it.
    """
    found = _sorted(files)
    if "config" not in found:
        given = ", ".join(sorted(found[kind][0] for kind in found)) or "nothing"
        raise ValueError(f"No config.json among the files ({given}): give the model's config.json too.")
    name, config = found["config"]
    # The path is only text here: a folder that was dropped gives the name of its model.
    called = given_name(PurePosixPath("/") / name)  # type: ignore[arg-type]
    options: dict[str, Any] = {"name": clean_name(called)} if called and called not in ("config", "/") else {}
    quant, index = found.get("quant", ("", None))[1], found.get("index", ("", None))[1]
    model = model_from_config(config, quant_config=quant, safetensors_index=index, **options)
    stated = clean_name(model.name)
    shown = model.replace(name=stated + YOURS)
    return ReadModel(shown, _sentence(shown, stated), _facts(shown, stated), tuple(model.notes), _file_name(name))


def _file_name(path: str) -> str:
    """A file's own name without its folders, of a sane length."""
    return PurePosixPath(path.replace("\\", "/")).name[:100]


def _sorted(files: Mapping[str, bytes]) -> dict[str, tuple[str, dict[str, Any]]]:
    """(name, object) of each kind: config, quant, index."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    wanted = {name: content for name, content in files.items() if len(files) == 1 or not _is_other(name)}
    if len(wanted) > 8:
        raise ValueError(f"{len(wanted)} files were given: give config.json, and if you have them hf_quant_config.json and the index.")
    for name, content in wanted.items():
        label = clean_name(PurePosixPath(name).name)
        limit = INDEX_BYTES if "index" in label.lower() else CONFIG_BYTES
        value = object_of_bytes(content, label, limit)
        kind = _kind(value)
        if kind in found:
            raise ValueError(
                f"Both {clean_name(PurePosixPath(found[kind][0]).name)} and {label} are the {kind} of a model: give one of them."
            )
        found[kind] = (name, value)
    return found


def _is_other(name: str) -> bool:
    return PurePosixPath(name).name.lower().startswith(OTHERS)


def _kind(value: Mapping[str, Any]) -> str:
    if "model_type" in value or "architectures" in value:
        return "config"
    if "weight_map" in value:
        return "index"
    return "quant" if "quantization" in value or "quant_algo" in value else "config"


def _sentence(model: Model, stated: str) -> str:
    total, active = sizes_in_name(stated)
    said = f"{_size(model.n_params)} total{_against(total, model.n_params)}, {_size(model.n_active_params)} active"
    said += _against(active, model.n_active_params)
    kv = format_quantity(model.kv_bytes_per_token(), "B/token")
    return f"**{stated}**: {said}, {kv} of KV, {model.n_layers} layers. A link cannot carry it."


def _size(count: float) -> str:
    return format_quantity(count, "parameters").replace(" parameters", "")


def _against(stated: float, computed: float) -> str:
    """What the name says beside the recomputed number; in bold where the two are more than a rounding apart."""
    if not stated > 0:
        return ""
    said = f"its name says {_size(stated)}"
    return f" ({said})" if abs(computed / stated - 1) <= NAME_TOLERANCE else f" (**but {said}**)"


def _facts(model: Model, stated: str) -> tuple[Fact, ...]:
    total, active = sizes_in_name(stated)
    facts: list[Fact] = [
        ("total", format_exact(model.n_params, "parameters"), _difference("parameters, recomputed", total, model.n_params), ""),
        (
            "active",
            format_exact(model.n_active_params, "parameters"),
            _difference("parameters a token passes", active, model.n_active_params),
            "",
        ),
        ("KV", format_exact(model.kv_bytes_per_token(), "B/token"), "cache in BF16 of one more token", ""),
        ("state", format_quantity(model.state_bytes(), "B"), "recurrent state of a request, whatever its context", ""),
        ("weights", format_quantity(model.weight_bytes(), "B", 4), "as published, block scales included", model.source),
    ]
    formats = sorted({f"{name} {value.upper()}" for name, value in vars(model.formats).items() if name != "router"})
    facts.append(("formats", f"{model.hidden:,} wide, {model.vocab:,} entries", ", ".join(formats), ""))
    context = format_exact(model.max_context, "tokens") if model.max_context else "not stated"
    return (*facts, ("context", context, "longest of the config", ""))


def _difference(what: str, stated: float, computed: float) -> str:
    if not stated > 0 or not math.isfinite(stated):
        return f"{what}; the name states none"
    return f"{what}; the name says {_size(stated)} ({computed / stated - 1:+.1%})"


# ---------------------------------------------------------------------------------------------------------------- machines
def read_machine_file(files: Mapping[str, bytes]) -> ReadMachines:
    """Machines of one uploaded machines.csv, by the names they are shown under; ValueError with one sentence where it is none."""
    if len(files) != 1:
        raise ValueError(f"{len(files)} files were given: give one machines.csv.")
    ((name, content),) = files.items()
    read = physics.read_machines(content, PurePosixPath(name).name)
    machines = {found + YOURS: machine.replace(name=found + YOURS) for found, machine in read.machines.items()}
    listed = ", ".join(list(read.machines)[:6]) + (" and more" if len(read.machines) > 6 else "")
    several = "1 machine" if len(machines) == 1 else f"{len(machines)} machines"
    sentence = f"**{several}** read: {listed}. A link cannot carry {'it' if len(machines) == 1 else 'them'}."
    return ReadMachines(machines, sentence, read.questions, _file_name(name))
