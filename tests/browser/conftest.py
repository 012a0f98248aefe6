"""A real Chromium and a real `panel serve app` for the tests of this folder, all of which get the mark `browser`.

Without a Chromium they are skipped on a person's machine, saying how to get one, and fail where CI=true.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_server import served
from playwright.sync_api import BrowserContext, Page, Playwright, expect

from .settled import WAIT_MS, Opened

HERE = Path(__file__).parent
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

expect.set_options(timeout=WAIT_MS)


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


@pytest.fixture(scope="session")
def app_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of one `panel serve app`, shared by all tests."""
    with served(tmp_path_factory.mktemp("server") / "panel.log") as url:
        yield url


@pytest.fixture
def context(context: BrowserContext) -> BrowserContext:
    """pytest-playwright's context, with our patience."""
    context.set_default_timeout(WAIT_MS)
    return context


@pytest.fixture
def opened(page: Page, app_url: str) -> Iterator[Opened]:
    """The app in a page of its own, whose console stays silent to the end."""
    view = Opened(page, app_url)
    yield view
    view.assert_quiet()
