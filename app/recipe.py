"""The Python lines that reproduce what is on the screen."""

from __future__ import annotations

from dataclasses import fields

import physics
from app.state import Choices, Snapshot

_SCENARIO = {field.name for field in fields(physics.Scenario)}
_DEFAULTS = {field.name: field.default for field in fields(physics.Scenario)}


def scenario_lines(choices: Choices) -> str:
    """Lines that make the scenario of these choices."""
    machine = f"physics.load_machine({choices.machine!r})"
    if choices.memory_bytes is not None:
        machine += f".replace(memory_bytes={choices.memory_bytes!r})"
    lines = ["import physics", "", "s = physics.Scenario(", f"    model=physics.load_model({choices.model!r}),", f"    machine={machine},"]
    said = {name: value for name, value in vars(choices).items() if name in _SCENARIO and name not in ("model", "machine")}
    lines += [f"    {name}={value!r}," for name, value in said.items() if value not in (_DEFAULTS[name], "uniform")]
    return "\n".join([*lines, ")"])


def table_lines(s: Snapshot) -> str:
    """The table of the regimes."""
    return scenario_lines(s.choices) + "\nphysics.regimes(s)"


def crossover_lines(s: Snapshot) -> str:
    """The curves along the chosen axis, and where they cross."""
    low, high = float(s.axis_values[0]), float(s.axis_values[-1])
    axis, quantity = s.choices.axis, s.choices.quantity
    return (
        f"{scenario_lines(s.choices)}\nimport numpy as np\n\n"
        f"curves = physics.sweep(s, {axis}=np.geomspace({low:g}, {high:g}, {len(s.axis_values)}))\n"
        f"physics.find_crossings(s, {axis!r}, {low:g}, {high:g}, quantity={quantity!r})"
    )


def stage_lines(s: Snapshot) -> str:
    """The memory of a stage at each depth, and the KV crossover."""
    deepest = min(64, s.scenario.model.n_layers)
    return (
        f"{scenario_lines(s.choices)}\nfor depth in range(1, {deepest + 1}):\n"
        f"    print(depth, physics.stage_memory(s.replace(pipeline_depth=depth)))\n"
        f"memory = physics.stage_memory(s)\n"
        f"memory.weights * s.pipeline_depth / memory.kv  # depth at which KV weighs as much as the weights"
    )


def speed_lines(s: Snapshot) -> str:
    """Latency and throughput at each depth."""
    deepest = min(64, s.scenario.model.n_layers)
    return f"{scenario_lines(s.choices)}\n[physics.turn(s.replace(pipeline_depth=depth)) for depth in range(1, {deepest + 1})]"
