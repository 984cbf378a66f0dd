"""Chromium, driven by Playwright: pages that remember what they said and what they asked for."""

import shutil
from contextlib import contextmanager

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]  # parallel coordinates need WebGL


@pytest.fixture(scope="session")
def browser():
    """A function that opens a page of a width, light or dark; `page.said` and `page.asked` are lists."""
    playwright = pytest.importorskip("playwright.sync_api")
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip(f"no browser to open the page in: none of {', '.join(NAMES)} is installed")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=program, args=FLAGS)

        @contextmanager
        def open_page(width: int = 1400, dark: bool = False):
            size = {"width": width, "height": 900 if width > 800 else 844}
            context = chromium.new_context(
                viewport=size, color_scheme="dark" if dark else "light", accept_downloads=True
            )
            context.grant_permissions(["clipboard-read", "clipboard-write"])
            page = context.new_page()
            page.said, page.asked = [], []
            page.on("console", lambda message: page.said.append(message.text))
            page.on("pageerror", lambda error: page.said.append(str(error)))
            page.on("request", lambda request: page.asked.append(request.url))
            yield page
            context.close()

        yield open_page
        chromium.close()
