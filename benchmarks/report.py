"""What an offline report costs: `python -m benchmarks.report`. Seconds of the clock and of processor, size, and where they go."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from app.report.apart import hurried

PRESETS = {"mixture": "deepseek-v3-h200", "hybrid": "kimi-k3-gb300", "dense": "dense-llama"}
LIMIT_S, LIMIT_MB = 10.0, 5.0


def exported(preset: str) -> tuple[float, float, float]:
    """Clock and processor seconds of the command, all its processes together, and the megabytes it writes [s, s, MB]."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.html"
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run([sys.executable, "-m", "app", "report", "--preset", preset, "-o", str(file)], check=True, stdout=subprocess.DEVNULL)
        clock_s, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        return clock_s, cpu_s, file.stat().st_size / 1e6


class Phases:
    """Processor seconds of one phase after the other, in this process."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def run(self, name: str, work: Callable[[], Any]) -> Any:
        """Do the work and note what it took [s]."""
        start = time.process_time()
        result = work()
        self.seconds[name] = time.process_time() - start
        return result


def phases(preset: str) -> dict[str, float]:
    """Processor seconds of the phases of a report, one after the other in a fresh process; the tables run beside the rest [s]."""
    done = Phases()
    done.run("imports", lambda: __import__("app.report.page"))
    from app.report import evaluate, page

    (snapshot,), _ = page.opened([preset], [])
    done.run("first kernels", lambda: snapshot.results)
    for part in range(evaluate.PARTS):
        done.run(f"tables {part + 1}", partial(page.packed, snapshot, part))
    done.run("imports to draw", lambda: __import__("app.report.drawing"))
    from app.report import drawing

    groups = done.run("drawing", lambda: drawing.drawings([snapshot]))
    done.run("wiring", lambda: [drawing.wiring(made) for made in groups[0].values()])
    done.run("document", lambda: drawing.plots(groups))
    return done.seconds


def main() -> None:
    """Print one line per preset, and the share of each phase; with the word `phases` and a preset only the latter."""
    if sys.argv[1:2] == ["phases"]:
        with hurried():
            seconds = phases(sys.argv[2])
        whole = sum(seconds.values())
        print("    " + ", ".join(f"{name} {100 * part / whole:.0f} %" for name, part in seconds.items() if part > 0.005 * whole), end="")
        print(f" of {whole:.1f} s in one process")
        return
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; to reach: {LIMIT_S:.0f} s, {LIMIT_MB:.0f} MB")
    for kind, preset in PRESETS.items():
        clock_s, cpu_s, size_mb = exported(preset)
        print(f"{kind:8} {preset:18} {clock_s:5.1f} s, {cpu_s:5.1f} s of processor, {size_mb:.2f} MB", flush=True)
        subprocess.run([sys.executable, "-m", "benchmarks.report", "phases", preset], check=True)


if __name__ == "__main__":
    main()
