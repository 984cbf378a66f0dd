"""A headless Chromium, driven through its DevTools protocol over a pipe: messages are JSON, each ended by a zero byte."""

import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from contextlib import suppress

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--no-first-run",
    "--disable-component-update", "--disable-sync", "--disable-extensions", "--remote-debugging-pipe",
)  # fmt: skip
PATIENCE = 60.0
"""Seconds that an answer may take on a busy machine."""


class Page:
    """A page of the browser, and everything it said and asked for since it was opened."""

    def __init__(self, program: str, profile):
        orders, self._orders = _pipe()
        self._answers, answers = _pipe()
        command = f'exec "$@" 3<&{orders} 4>&{answers}'  # Chromium reads its third descriptor and writes its fourth
        self._process = subprocess.Popen(
            ["bash", "-c", command, "bash", program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(orders, answers), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(orders)
        os.close(answers)
        self._buffer, self._number, self._session = b"", 0, None
        self.said: list[str] = []
        self.requests: list[str] = []

    def start(self) -> None:
        """Make a page and listen to it."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def open(self, path) -> None:
        """Open a file, and wait until it has drawn itself or said why not."""
        self.said.clear()
        self.requests.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        deadline = time.monotonic() + PATIENCE
        while self.js("document.readyState") != "complete" or self.js("location.href") == "about:blank":
            assert time.monotonic() < deadline, "the page did not load"
            time.sleep(0.02)

    def js(self, expression: str):
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def call(self, method: str, **parameters) -> dict:
        """An order of the protocol, and its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._orders, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self._next(deadline)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self._hear(answer)

    def _next(self, deadline: float) -> dict:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, deadline - time.monotonic()))
            chunk = os.read(self._answers, 1 << 20) if ready else b""
            assert chunk, "the browser does not answer"
            self._buffer += chunk
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _hear(self, event: dict) -> None:
        content = event.get("params", {})
        if event["method"] in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
            self.said.append(json.dumps(content))
        elif event["method"] == "Network.requestWillBeSent":
            self.requests.append(content["request"]["url"])

    def close(self) -> None:
        with suppress(AssertionError, OSError):
            self._session = None
            self.call("Browser.close")
        os.close(self._orders)
        os.close(self._answers)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _pipe() -> tuple[int, int]:
    """A pipe whose ends are none of the descriptors that the browser wants for itself."""
    low = os.pipe()
    high = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in low)
    for end in low:
        os.close(end)
    return high


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """One browser for the file's tests."""
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip(f"no browser to open the page in: none of {', '.join(NAMES)} is installed")
    page = Page(program, tmp_path_factory.mktemp("profile"))
    try:
        page.start()
        yield page
    finally:
        page.close()
