"""`panel serve app` in a process of its own, for tests that need a real server."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_served(url: str, server: subprocess.Popen[bytes], log: Path, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=30):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.2)
    raise RuntimeError(f"`panel serve app` did not answer; its log:\n{log.read_text()}")


@contextmanager
def served(log: Path, port: int | None = None) -> Iterator[str]:
    """Address of a `panel serve app`, served as the README says, until the block ends."""
    port = port or free_port()
    url = f"http://localhost:{port}/app"
    with log.open("wb") as stream:
        command = [sys.executable, "-m", "panel", "serve", "app", "--port", str(port)]
        server = subprocess.Popen(command, cwd=ROOT, stdout=stream, stderr=subprocess.STDOUT)
        try:
            _wait_until_served(url, server, log)
            yield url
        finally:
            server.terminate()
            server.wait(timeout=60)
