"""Pictures under a moving slider, in a headless Chromium: `python -m benchmarks.live`.

Drags one slider of each page for four seconds at 60 events a second, all pictures in view, and prints the time from an event to the
moment the last picture has painted it or a later one; what the server needs for an update; what comes over the wire; how long the
page still moves after the release; whether the lag grows; and Bokeh models before and after. Then the same page, slider and pictures
with every picture as a plain DynamicMap (`benchmarks.live_server`), in turn, and the ratio. Needs the `test` extra and a Chromium.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import holoviews as hv
import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.live_probes import DRAGS, Drag, probes

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = (Path(__file__).parent / "live.js").read_text(encoding="utf-8")
PRESET = "?preset=deepseek-v3-h200"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
ARGUMENTS += ["--disable-component-update", "--disable-sync"]
WIDTH, HEIGHT = 1280, 2600
"""The height is enough for every picture of a page; pictures out of view wait until the slider is released."""
QUIET_MS = {"live": 1_500, "plain": 8_000}
"""Longer than a page is quiet while it is opened: between its first pictures and those that come when the browser asks for them."""
PATIENCE_MS = 60_000


class Server:
    """One serving process of a pattern, and what its slider steps took."""

    def __init__(self, pattern: str, folder: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        self.url, self.steps = f"http://localhost:{port}/app", Path(folder) / f"{pattern}.txt"
        self.steps.touch()
        command = [sys.executable, "-m", "benchmarks.live_server", pattern, str(port), str(self.steps)]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def wait(self) -> None:
        """Until it answers; kernels may have to be compiled first."""
        for _ in range(600):
            with contextlib.suppress(OSError), urllib.request.urlopen(self.url, timeout=60):
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.3)
        raise RuntimeError(f"the server of {self.steps.stem!r} did not answer; try `panel serve app`")

    def step_ms(self, since: int = 0) -> list[float]:
        """Thread time of each slider step after the first `since` [ms]."""
        return [float(line) for line in self.steps.read_text(encoding="ascii").split()[since:]]

    def cpu_ms(self) -> float:
        """Time of all threads so far, sending and event loop included [ms]."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        return 1e3 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def serving(*patterns: str) -> Iterator[list[Server]]:
    """A server of each pattern."""
    with tempfile.TemporaryDirectory() as folder:
        servers: list[Server] = []
        try:
            for pattern in patterns:
                servers.append(Server(pattern, folder))
                servers[-1].wait()
            yield servers
        finally:
            for server in servers:
                server.process.terminate()
                server.process.wait(timeout=30)


@dataclass
class Measured:
    """What one drag gave: times from event to paint in the order of the events [ms], and totals."""

    lag_ms: np.ndarray
    server_ms: list[float]
    cpu_ms: float
    browser_ms: float
    pictures: int
    updates: int
    wire_bytes: float
    settle_ms: float
    seconds: float
    models: tuple[int, int]

    @property
    def growth_ms(self) -> float:
        """Median lag of the last third of the drag less that of the first."""
        third = max(self.lag_ms.size // 3, 1)
        return float(np.median(self.lag_ms[-third:]) - np.median(self.lag_ms[:third]))


def lags(result: dict[str, Any]) -> np.ndarray:
    """Time from each event until the last picture shows it or a later one; until nobody looked any more, if none did [ms].

    >>> lags({"sent": [[0, 0], [10, 1]], "painted": [[[30, 0], [45, 1]], [[50, 1]]], "end": 900})
    array([50., 40.])
    """
    found = []
    for moment, event in result["sent"]:
        first = [min((time for time, shown in paints if shown >= event), default=result["end"]) for paints in result["painted"]]
        found.append(max(first) - moment)
    return np.array(found, float)


def open_page(browser: Browser, url: str, height: int, quiet_ms: int = QUIET_MS["live"]) -> tuple[Page, dict[str, Any]]:
    """A new visitor's page, and its first paint."""
    page = browser.new_context(viewport={"width": WIDTH, "height": height}).new_page()
    page.add_init_script(SCRIPT)
    loaded: list[float] = []
    session = page.context.new_cdp_session(page)
    session.on("Network.loadingFinished", lambda event: loaded.append(event["encodedDataLength"]))
    session.send("Network.enable")
    page.goto(url)
    first = page.evaluate("quiet => bench.opened(quiet)", quiet_ms)
    session.detach()
    return page, first | {"loaded_bytes": sum(loaded)}


def browser_cpu_ms(browser: Browser) -> float:
    """Time of all processes of the browser so far [ms]."""
    session = browser.new_browser_cdp_session()
    found = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    return 1e3 * sum(float(process["cpuTime"]) for process in found)


def dragged(browser: Browser, server: Server, drag: Drag, found: list[dict[str, Any]], hz: float, height: int) -> Measured:
    """Open the page, drag once to warm up and once to measure."""
    url = f"{server.url}{PRESET}&page={drag.page.lower()}{drag.query}"
    page, _ = open_page(browser, url, height, QUIET_MS[server.steps.stem])
    inputs = {"label": drag.label, "values": drag.values, "probes": found, "hz": hz, "patience_ms": PATIENCE_MS}
    # The probes know values by number, so a drag over fewer values has fewer numbers.
    page.evaluate("inputs => bench.drag(inputs)", inputs | _every(inputs, 24))
    steps, cpu_ms, browser_ms = len(server.step_ms()), server.cpu_ms(), browser_cpu_ms(browser)
    result = page.evaluate("inputs => bench.drag(inputs)", inputs if server.steps.stem == "live" else inputs | _every(inputs, 4))
    server_ms, cpu_ms, browser_ms = server.step_ms(steps), server.cpu_ms() - cpu_ms, browser_cpu_ms(browser) - browser_ms
    page.context.close()
    lag, seconds = lags(result), (result["last_paint"] - result["sent"][0][0]) / 1e3
    settle_ms, models = result["last_paint"] - result["released"], (result["models_before"], result["models_after"])
    pictures, size = len(result["painted"]), result["bytes"]
    return Measured(lag, server_ms, cpu_ms, browser_ms, pictures, len(server_ms), size, settle_ms, seconds, models)


def _every(inputs: dict[str, Any], nth: int) -> dict[str, Any]:
    """The same drag over every nth value."""
    fewer = [probe | {"values": probe["values"][::nth]} for probe in inputs["probes"]]
    return {"values": inputs["values"][::nth], "probes": fewer}


def _line(name: str, m: Measured) -> str:
    p50, p95 = np.percentile(m.lag_ms, [50, 95])
    s50, s95 = np.percentile(m.server_ms, [50, 95])
    rate, kilobytes, server_ms, browser_ms = (n / m.updates for n in (m.updates**2 / m.seconds, m.wire_bytes / 1e3, m.cpu_ms, m.browser_ms))
    return (
        f"{name:16}{p50:8.0f}{p95:8.0f} ms{s50:8.1f}{s95:7.1f}{server_ms:8.1f}{browser_ms:8.1f} ms{rate:7.1f}/s{kilobytes:8.1f} kB"
        f"{m.settle_ms:8.0f} ms{m.growth_ms:+8.0f} ms{m.models[0]:8d} → {m.models[1]}"
    )


HEADING = (
    f"{'':16}{'event to paint':>17}{'CPU per update: step, server, browser':>39}{'updates':>9}"
    f"{'size':>11}{'settle':>11}{'lag grows':>11}   models\n{'':16}{'p50':>8}{'p95':>8}   {'p50':>8}{'p95':>7}{'all':>8}{'all':>8}"
)


def report_drags(browser: Browser, servers: list[Server], pages: list[str], hz: float, height: int) -> None:
    """Drag each page with each server in turn, and print."""
    print(f"Drag over {len(DRAGS[0].values)} values, a quarter of them for DynamicMaps, {hz:.0f} a second, {WIDTH} × {height}\n{HEADING}")
    for drag in (each for each in DRAGS if each.page in pages):
        found, left_out = probes(drag)
        both = [dragged(browser, server, drag, found, hz, height) for server in servers]
        for server, measured in zip(servers, both, strict=True):
            print(_line(f"{drag.page}, {server.steps.stem}", measured))
        ratios = [np.percentile(one.lag_ms, 95) / np.percentile(both[0].lag_ms, 95) for one in both[1:]]
        told = f"{both[0].pictures} pictures timed" + (f", {', '.join(left_out)} do not follow or are hidden" if left_out else "")
        print(f"{'':22}{told}" + "".join(f"; p95 of the DynamicMaps is {ratio:.1f} × as long" for ratio in ratios), flush=True)


def report_openings(browser: Browser, server: Server, pages: list[str], times: int, height: int) -> None:
    """First paint of new visitors, and what they load."""
    print(f"First paint of a visitor, until every picture in the window is there, median of {times}: with an empty cache, and again")
    for drag in (each for each in DRAGS if each.page in pages):
        url, seen, again = f"{server.url}{PRESET}&page={drag.page.lower()}", [], []
        for _ in range(times):
            page, first = open_page(browser, url, height)
            seen.append(first)
            page.goto(url)
            again.append(page.evaluate("quiet => bench.opened(quiet)", QUIET_MS["live"]))
            page.context.close()
        empty_s, warm_s = (float(np.median([one["ms"] for one in some])) / 1e3 for some in (seen, again))
        last, all_s = seen[-1], float(np.median([one["all_ms"] for one in again])) / 1e3
        print(
            f"{drag.page:22}{empty_s:6.2f} s, {warm_s:.2f} s; {last['figures']} pictures in the window, {last['all_figures']} drawn after "
            f"{all_s:.2f} s, {last['loaded_bytes'] / 1e6:.2f} MB of files, {last['bytes'] / 1e3:.0f} kB of session",
            flush=True,
        )


def _chromium() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live", description=__doc__)
    names = [drag.page for drag in DRAGS]
    parser.add_argument("--page", action="append", choices=names, help="only this page; may be given several times")
    parser.add_argument("--hz", type=float, default=60.0, help="slider events a second")
    parser.add_argument("--openings", type=int, default=3, help="how often each page is opened; 0 leaves it out")
    parser.add_argument("--height", type=int, default=HEIGHT, help="of the window; by default all pictures are in view")
    parser.add_argument("--without-plain", action="store_true", help="leave out the plain DynamicMaps, which take a minute a page")
    arguments = parser.parse_args()
    hv.extension("bokeh")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; Chromium paints in software")
    pages, patterns = arguments.page or names, ["live"] if arguments.without_plain else ["live", "plain"]
    with serving(*patterns) as servers, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=_chromium(), args=ARGUMENTS)
        if arguments.openings:
            open_page(browser, servers[0].url, arguments.height)[0].context.close()
            report_openings(browser, servers[0], pages, arguments.openings, arguments.height)
        report_drags(browser, servers, pages, arguments.hz, arguments.height)
        browser.close()


if __name__ == "__main__":
    main()
