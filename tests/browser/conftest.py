"""A real Chromium and a real `panel serve app` for the tests of this folder, all of which get the mark `browser`.

Without a Chromium they are skipped on a person's machine, saying how to get one, and fail where CI=true.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Playwright

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NAMES = ("chromium", "chromium-browser", "google-chrome")
# A closed network answers every background request of Chromium with an error; --no-sandbox because CI is root.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def chromium_path(playwright: Playwright) -> str:
    """Debian's Chromium, or the one that `playwright install chromium` brought."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found:
        return found
    if Path(playwright.chromium.executable_path).exists():
        return playwright.chromium.executable_path
    sentence = "no Chromium: `apt-get install chromium`, or `.venv/bin/playwright install chromium`"
    if os.environ.get("CI"):
        pytest.fail(sentence)
    pytest.skip(sentence)


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any], chromium_path: str) -> dict[str, Any]:
    return {**browser_type_launch_args, "executable_path": chromium_path, "args": ARGUMENTS}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_served(url: str, server: subprocess.Popen[bytes], log: Path, seconds: float = 90.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=30):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.2)
    raise RuntimeError(f"`panel serve app` did not answer; its log:\n{log.read_text()}")


@pytest.fixture(scope="session")
def app_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of one `panel serve app`, shared by all tests, served as the README says."""
    port = _free_port()
    url = f"http://localhost:{port}/app"
    log = tmp_path_factory.mktemp("server") / "panel.log"
    with log.open("wb") as stream:
        command = [sys.executable, "-m", "panel", "serve", "app", "--port", str(port)]
        server = subprocess.Popen(command, cwd=ROOT, stdout=stream, stderr=subprocess.STDOUT)
        try:
            _wait_until_served(url, server, log)
            yield url
        finally:
            server.terminate()
            server.wait(timeout=20)
