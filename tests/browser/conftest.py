"""Chromium, and what it visits."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

# The tests' shared helpers lie under the root.
sys.path.insert(0, str(Path(__file__).parents[2]))

from tests import live_worker as live
from tests.browser.chromium import NoChromium, chromium

STEP_MS = 10_000
"""How long a page may take to do what a step waits for."""


def pytest_configure(config: pytest.Config) -> None:
    """Let these tests use the Worker."""
    live.use(config)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium. It ends with its module: while it runs, no other test can have an event loop."""
    try:
        program = chromium()
    except NoChromium as error:
        pytest.fail(str(error), pytrace=False)
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    with sync_playwright() as playwright:
        # Chromium's sandbox refuses to be root's.
        options = ["--no-sandbox"] if root else []
        started = playwright.chromium.launch(executable_path=program, headless=True, args=options)
        yield started
        started.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser without cookies or anything else remembered."""
    opened = browser.new_context(locale="en-GB")
    opened.set_default_timeout(STEP_MS)
    yield opened
    opened.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    """A tab."""
    return context.new_page()
