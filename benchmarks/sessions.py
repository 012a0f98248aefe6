"""Many visitors on one server: `python -m benchmarks.sessions`.

Starts `panel serve app` and opens pages without browsers. Prints the time from a slider step to its pictures for one visitor
and for twenty, the memory of a session, and what is left of it when all have gone. Times are the server's: painting is apart.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.visitor import Visitor

ROOT = Path(__file__).resolve().parents[1]
LABEL = "Batch size"
DRAG_STEPS = 15
"""One second of dragging."""
READ_S = 4.0
"""Then the visitor reads the page, on average [s]."""
MIB = 2**20


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def served() -> Iterator[tuple[str, int]]:
    """(address, process) of an app that forgets a closed page after twelve seconds: a page on its way takes its time on a busy machine."""
    port = _free_port()
    options = ["--unused-session-lifetime", "12000", "--check-unused-sessions", "1000"]
    command = [sys.executable, "-m", "panel", "serve", "app", "--port", str(port), *options]
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.2)
        yield f"http://localhost:{port}/app", server.pid
    finally:
        server.kill()
        server.wait(timeout=30)


def memory_bytes(pid: int) -> float:
    """Resident memory of a process, as Linux counts it [B]."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return 1024.0 * next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS"))


def cpu_s(pid: int) -> float:
    """Seconds of processor that a process has used, as Linux counts them: unlike the clock, not the neighbours' affair [s]."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def opened(url: str, count: int) -> list[Visitor]:
    """So many open pages, one after the other."""
    visitors = [Visitor(url) for _ in range(count)]
    for visitor in visitors:
        await visitor.open()
    return visitors


async def dragging(visitors: list[Visitor], rounds: int, reading: bool) -> list[float]:
    """Seconds of every step: all visitors drag for a second, then read or go on at once."""

    async def one(visitor: Visitor, seed: int) -> list[float]:
        rng, took = random.Random(seed), []
        for _ in range(rounds):
            if reading:
                await asyncio.sleep(rng.uniform(0.0, 2 * READ_S))
            took += await visitor.drag(LABEL, DRAG_STEPS)
        return took

    found = await asyncio.gather(*(one(visitor, seed) for seed, visitor in enumerate(visitors)))
    return [value for took in found for value in took]


def _line(what: str, took: list[float], single: float) -> None:
    p50, p95 = np.percentile(took, (50, 95))
    print(f"  {what:<46}{1e3 * p50:8.1f}{1e3 * p95:8.1f}{p95 / single:8.1f} x{len(took):8,}", flush=True)


async def rehearsed(pid: int) -> None:
    """Wait until the server has drawn its pages for the first time and rests."""
    before = -1.0
    while cpu_s(pid) - before > 0.1:
        before = cpu_s(pid)
        await asyncio.sleep(3.0)


async def measured(url: str, pid: int, count: int, rounds: int) -> None:
    """Print everything."""
    await rehearsed(pid)
    started = cpu_s(pid)
    (first,) = await opened(url, 1)
    page_s = cpu_s(pid) - started
    await first.drag(LABEL, 20)
    started = cpu_s(pid)
    single = await first.drag(LABEL, rounds * DRAG_STEPS)
    step_s = (cpu_s(pid) - started) / len(single)
    base, p95 = memory_bytes(pid), float(np.percentile(single, 95))
    print(f"Processor: {page_s:.2f} s for a page, {1e3 * step_s:.1f} ms for a step: {1 / step_s:.0f} steps/s fill one core\n", flush=True)
    print(f"From a slider step to its pictures, ms{'p50':>18}{'p95':>8}{'of one':>10}{'steps':>8}")
    _line("one visitor", single, p95)
    others = await opened(url, count - 1)
    full, everyone = memory_bytes(pid), [first, *others]
    _line(f"one of {count} drags, the others look on", await first.drag(LABEL, rounds * DRAG_STEPS), p95)
    _line(f"{count} visitors: a second of dragging, {READ_S:g} s of reading", await dragging(everyone, rounds, True), p95)
    _line(f"{count} visitors, all dragging without a pause", await dragging(everyone, max(1, rounds // 2), False), p95)
    print(f"\nMemory: {base / MIB:.0f} MiB with one page, {(full - base) / (count - 1) / MIB:.1f} MiB for each further one", flush=True)
    after = [await _left(everyone, pid), *[await _left(await opened(url, count), pid) for _ in range(2)]]
    print(f"All gone: {after[0] / MIB:.0f} MiB; after {count} more: {after[1] / MIB:.0f} MiB; and {count} more: {after[2] / MIB:.0f} MiB")


async def _left(visitors: list[Visitor], pid: int) -> float:
    """Memory once these have left and the server had time to notice [B]."""
    for visitor in visitors:
        await visitor.close()
    await asyncio.sleep(20.0)
    return memory_bytes(pid)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visitors", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=4, help="drags of a second for each visitor")
    options = parser.parse_args()
    with served() as (url, pid):
        asyncio.run(measured(url, pid, options.visitors, options.rounds))


if __name__ == "__main__":
    main()
