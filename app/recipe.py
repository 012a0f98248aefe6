"""The Python lines that reproduce what is on the screen."""

from __future__ import annotations

from dataclasses import fields

import physics
from app.chosen_parts import YOURS
from app.state import Choices, Snapshot
from physics.machine_reader import clean_name, numbers_of_text

_SCENARIO = {field.name for field in fields(physics.Scenario)}
_DEFAULTS = {field.name: field.default for field in fields(physics.Scenario)}


def routing_words(choices: Choices, routing: physics.Routing | str | None = None) -> str:
    """The expression that makes the routing; the default one is empty.

    routing: the one in force, whose overlap may be the law of the user's own file; None: built from the choices alone.
    """
    overlap = choices.chosen_routing().overlap if routing is None else physics.Routing.of(routing).overlap
    law = "physics.OverlapLaw()" if overlap == physics.OverlapLaw() else f"physics.{overlap!r}"
    within = "" if overlap is None else "overlap=" + (f"{overlap!r}" if isinstance(overlap, float) else law)
    if choices.routing == "loaded":
        which = f", model={choices.routing_file_model!r}" if choices.routing_file_model else ""
        counts = f"physics.read_routing({choices.routing_file!r}{which}).counts"
        return f"physics.Routing.from_counts({', '.join(filter(None, (counts, within)))})"
    if not within and choices.routing in physics.Routing.NAMES:
        return "" if choices.routing == "uniform" else repr(choices.routing)
    laws = {"skewed": ("skewed", f"sigma={choices.routing_sigma!r}"), "zipf": ("skewed", f"zipf={choices.routing_zipf!r}")}
    name, skew = laws.get(choices.routing, (choices.routing, ""))
    return f"physics.Routing.{name}({', '.join(filter(None, (skew, within)))})"


def model_words(choices: Choices) -> str:
    """The expression that makes the model: a row of `data/`, or the user's own config.json."""
    if choices.model.endswith(YOURS):
        return f"physics.Model.from_config({choices.model_file or 'config.json'!r}, name={choices.model.removesuffix(YOURS)!r})"
    return f"physics.load_model({choices.model!r})"


def machine_words(choices: Choices) -> str:
    """The expression that makes the machine: a row of `data/`, one of the user's machines.csv, or either with own numbers."""
    machine = f"physics.load_machine({choices.machine!r})"
    if choices.machine.endswith(YOURS):
        machine = f"physics.read_machines({choices.machine_file or 'machines.csv'!r}).machines[{choices.machine.removesuffix(YOURS)!r}]"
    numbers = [f"{field}={value!r}" for field, value in numbers_of_text(choices.own_machine).items()]
    name = [f"name={clean_name(choices.own_machine_name)!r}"] if choices.own_machine_name else []
    return f"physics.machine_from_numbers({', '.join([machine, *name, *numbers])})" if numbers or name else machine


def _own_files(choices: Choices) -> list[str]:
    """Where files of the user belong, as a comment; a file name cannot end it, for it is quoted."""
    found = {choices.model: choices.model_file or "config.json", choices.machine: choices.machine_file or "machines.csv"}
    names = [repr(file) for name, file in found.items() if name.endswith(YOURS)]
    names += [repr(choices.routing_file)] if choices.routing == "loaded" else []
    return [f"# put {' and '.join(names)} beside these lines"] if names else []


def scenario_lines(choices: Choices, routing: physics.Routing | str | None = None) -> str:
    """Lines that make the scenario of these choices.

    routing: the one in force, see `routing_words`.
    """
    machine = machine_words(choices)
    if choices.memory_bytes is not None:
        machine += f".replace(memory_bytes={choices.memory_bytes!r})"
    if choices.idle_w is not None:
        machine += f".replace(idle_w={choices.idle_w!r})"
    if choices.wire_pj_per_bit_mm is not None:
        machine = f"physics.with_wire_energy({machine}, {choices.sram_experts().wire_j_per_byte_mm!r})"
    lines = [
        "import physics",
        "",
        *_own_files(choices),
        "s = physics.Scenario(",
        f"    model={model_words(choices)},",
        f"    machine={machine},",
    ]
    said = {name: value for name, value in vars(choices).items() if name in _SCENARIO and name not in ("model", "machine", "routing")}
    lines += [f"    {name}={value!r}," for name, value in said.items() if value != _DEFAULTS[name]]
    words = routing_words(choices, routing)
    lines += [f"    routing={words},"] if words else []
    if choices.estimate:
        lines.append(f"    efficiencies=physics.load_efficiencies({choices.machine!r}),")
    return "\n".join([*lines, ")"])


def table_lines(s: Snapshot) -> str:
    """The table of the regimes."""
    return scenario_lines(s.choices, s.scenario.routing) + "\nphysics.regimes(s)"


def crossover_lines(s: Snapshot) -> str:
    """The curves along the chosen axis, and where they cross."""
    low, high = float(s.axis_values[0]), float(s.axis_values[-1])
    axis, quantity = s.choices.axis, s.choices.quantity
    return (
        f"{scenario_lines(s.choices, s.scenario.routing)}\nimport numpy as np\n\n"
        f"curves = physics.sweep(s, {axis}=np.geomspace({low:g}, {high:g}, {len(s.axis_values)}))\n"
        f"physics.find_crossings(s, {axis!r}, {low:g}, {high:g}, quantity={quantity!r})"
    )


def sram_line(s: Snapshot) -> str:
    """The line that builds the SRAM."""
    sram, plain = vars(s.choices.sram_experts()), vars(physics.SramExperts())
    return "sram = physics.SramExperts(" + ", ".join(f"{name}={value!r}" for name, value in sram.items() if value != plain[name]) + ")"


def expert_lines(s: Snapshot) -> str:
    """Experts in main memory and in SRAM over the batch, and where they meet."""
    return (
        f"{scenario_lines(s.choices)}\nimport numpy as np\n\n{sram_line(s)}\n"
        "curves = physics.expert_curves(s, sram, np.geomspace(1, 1e5, 129))\nphysics.expert_energy(s, sram)"
    )


def map_lines(s: Snapshot) -> str:
    """Advantage of SRAM per byte over bank size and distance."""
    return (
        f"{scenario_lines(s.choices)}\nimport numpy as np\n\n{sram_line(s)}\n"
        "ratios, accounting = physics.advantage_map(s, sram, np.geomspace(8192, 2**20, 29), np.geomspace(0.1, 30, 31))"
    )


def level_lines(s: Snapshot) -> str:
    """Joules per token of each regime, by level and by cause."""
    return f"{scenario_lines(s.choices)}\nphysics.energy_by_level(s, 'token')\nphysics.energy_by_cause(s, 'token')"


def stage_lines(s: Snapshot) -> str:
    """The memory of a stage at each depth, and the KV crossover."""
    deepest = min(64, s.scenario.model.n_layers)
    return (
        f"{scenario_lines(s.choices, s.scenario.routing)}\nfor depth in range(1, {deepest + 1}):\n"
        f"    print(depth, physics.stage_memory(s.replace(pipeline_depth=depth)))\n"
        f"memory = physics.stage_memory(s)\n"
        f"memory.weights * s.pipeline_depth / memory.kv  # depth at which KV weighs as much as the weights"
    )


def speed_lines(s: Snapshot) -> str:
    """Latency and throughput at each depth."""
    deepest = min(64, s.scenario.model.n_layers)
    lines = scenario_lines(s.choices, s.scenario.routing)
    return f"{lines}\n[physics.turn(s.replace(pipeline_depth=depth)) for depth in range(1, {deepest + 1})]"
