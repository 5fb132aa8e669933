"""Debian's Chromium for tests: opens pages with and without scripts, clicks, judges accessibility with axe-core.

Where it is not installed, tests that need it are skipped, saying so; in CI that is an error. No page of the outside
world can be reached: requests to anything but loopback are refused and make the test fail.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

_FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
]  # fmt: skip
#: How long a page may take on a busy machine (milliseconds): a deadline, never a measure.
_PATIENCE = 60_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser of the module's own: playwright's event loop must not outlive it."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        if os.environ.get("CI") == "true":
            pytest.fail("chromium is not installed")
        pytest.skip("*** chromium is not installed (apt-get install chromium): pages are not opened ***")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=_FLAGS, timeout=_PATIENCE)
        yield started
        started.close()


@contextmanager
def tab(
    browser: Browser, *, scripts: bool = True, dark: bool = False, complaints: list[str] | None = None, **more: Any
) -> Iterator[Page]:
    """A tab with nothing in it; what the page complains of, or asks of the outside, fails the test in the end."""
    complaints = [] if complaints is None else complaints
    options: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}, **more}
    context = browser.new_context(
        java_script_enabled=scripts, color_scheme="dark" if dark else "light", **options
    )
    context.set_default_timeout(_PATIENCE)
    page = context.new_page()
    page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: complaints.append(request.url) if not _is_near(request.url) else None)
    yield page
    context.close()
    assert complaints == []


def _is_near(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme in ("data", "about", "blob") or parts.hostname in ("127.0.0.1", "localhost")


def flaws(page: Page) -> list[str]:
    """What axe-core finds wrong with the accessibility of the page as it is shown, WCAG 2.2 AA and best practices."""
    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {node['target']} {node['failureSummary']}" for one in found for node in one["nodes"]]
