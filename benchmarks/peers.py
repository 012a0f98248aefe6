"""Public planners beside this one, the same points in one run: `python -m benchmarks.peers`.

Installs each from the package index into a throw-away environment, times its decode step in process with its set-up apart, and this
project on the same batches and contexts. They count different things, and the table says what; a planner that does not install is
named and left out. Needs the network.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import physics
from benchmarks.peer_program import PEERS
from benchmarks.regimes import best_s

PROGRAM = Path(__file__).parent / "peer_program.py"
BATCHES = [int(value) for value in np.linspace(1, 64, 64)]
CONTEXTS = [int(value) for value in np.geomspace(1_024, 16_384, 64)]
SHOWN = (32, 8_192)
INSTALL_S, RUN_S = 600, 240
COUNTS = {
    "aiconfigurator-core": "one decode step, from measured kernels, in Rust",
    "llm-analysis": "prefill and decode step: FLOPs, memory, links at stated efficiencies",
    "genz-llm": "one decode step: roofline of every operator, and collectives",
}
OURS = "five regimes: FLOPs, bytes by kind, intensity, bound, what binds, joules"


class Case(NamedTuple):
    """A model on a machine that a peer plans."""

    title: str
    scenario: physics.Scenario
    peers: tuple[str, ...]


def cases() -> list[Case]:
    """Llama-3.1-70B on eight H100 with all three; DeepSeek-V3 on eight H200 with the one that knows it."""
    llama = physics.Scenario(
        physics.load_model("Llama-3.1-70B"), physics.load_machine("H100"), gpus_per_stage=8, attention_parallel="tensor", new_tokens=256
    )
    deepseek = physics.Scenario(physics.load_model("DeepSeek-V3"), physics.load_machine("H200"), gpus_per_stage=8, new_tokens=256)
    plain = tuple(name for name in PEERS if "," not in name)
    return [
        Case("Llama-3.1-70B, 8 H100, BF16", llama, plain),
        Case("DeepSeek-V3, 8 H200", deepseek, ("aiconfigurator-core, DeepSeek-V3",)),
    ]


def installed(package: str, folder: Path) -> Path:
    """Python of a fresh environment with the package; RuntimeError with the installer's last line."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", package]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"not installed within {INSTALL_S} s") from None
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1][:160])
    return python


def peer(name: str, python: Path) -> dict[str, Any]:
    """What a planner took; RuntimeError with its last line where it failed."""
    given = json.dumps({"points": [(batch, context) for batch in BATCHES for context in CONTEXTS], "shown": SHOWN})
    try:
        done = subprocess.run([str(python), str(PROGRAM), name], input=given, capture_output=True, text=True, timeout=RUN_S, check=False)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"no result within {RUN_S} s") from None
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1][:160])
    return dict(json.loads(done.stdout.splitlines()[-1]))


def ours(scenario: physics.Scenario) -> dict[str, Any]:
    """What this project takes for the same points: a grid, one call, and the bound of the point that is shown."""
    grid_s = best_s(lambda: physics.sweep_arrays(scenario, batch=BATCHES, context_tokens=CONTEXTS), 2.0)
    table = physics.regimes(scenario.replace(batch=SHOWN[0], context_tokens=SHOWN[1]))
    step_s = float(table.loc["decode_attention":, "roofline_s"].sum())
    count, one_s = len(BATCHES) * len(CONTEXTS), best_s(lambda: physics.regimes(scenario))
    return {"version": physics.__version__, "point_s": grid_s / count, "points": count, "one_s": one_s, "step_s": step_s}


def setup_s() -> float:
    """Import and warm-up of this project in a fresh process, kernels compiled before [s]."""
    program = "import time; start = time.perf_counter(); import physics; physics.warm_up(); print(time.perf_counter() - start)"
    return float(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout)


def _row(name: str, found: dict[str, Any], mine: dict[str, Any], counts: str) -> None:
    one_s, title = found.get("one_s", found["point_s"]), f"{name.partition(',')[0]} {found['version']}"
    print(
        f"  {title:28}{found['setup_s']:8.2f} s{found['points']:8d}{found['point_s'] * 1e6:12.2f} µs"
        f"{found['point_s'] / mine['point_s']:11.1f} ×{one_s * 1e6:12.1f} µs{found['step_s'] * 1e3:9.2f} ms  {counts}",
        flush=True,
    )


def report(case: Case, pythons: dict[str, Path | str]) -> None:
    """Print the rows of one model, ours first, and where we do not win."""
    mine = ours(case.scenario) | {"setup_s": setup_s()}
    print(f"{case.title}: batch 1 to 64, context 1k to 16k")
    print(f"  {'':28}{'set-up':>10}{'points':>8}{'per point':>15}{'over ours':>13}{'one call':>15}{'decode step':>12}  counts")
    _row("midfill", mine, mine, OURS)
    for name in case.peers:
        package = PEERS[name][0]
        python = pythons[package]
        try:
            if isinstance(python, str):
                raise RuntimeError(python)
            found = peer(name, python)
        except RuntimeError as problem:
            print(f"  {package:28}left out: {problem}")
            continue
        _row(name, found, mine, COUNTS[package])
        if found["point_s"] < mine["one_s"]:
            few = mine["one_s"] / found["point_s"]
            print(f"  {'':28}we lose one by one: its call is {few:.0f} × faster than ours; a grid of ours wins from {few:.0f} points on")


def main() -> None:
    """Install, measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    packages = list(dict.fromkeys(package for package, _ in PEERS.values()))
    parser.add_argument("--only", action="append", choices=packages, help="only this planner; may be given several times")
    chosen = parser.parse_args().only or packages
    physics.warm_up()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}")
    print("A decode step of ours is a bound; of a planner, its own estimate. Per point: in a grid, or one after the other.")
    with tempfile.TemporaryDirectory() as folder:
        pythons: dict[str, Path | str] = {}
        for package in chosen:
            try:
                pythons[package] = installed(package, Path(folder) / package)
            except RuntimeError as problem:
                pythons[package] = str(problem)
        for case in cases():
            peers = tuple(name for name in case.peers if PEERS[name][0] in chosen)
            if peers:
                report(case._replace(peers=peers), pythons)


if __name__ == "__main__":
    main()
