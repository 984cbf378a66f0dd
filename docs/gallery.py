"""Makes the pictures of docs/explore.md from real runs: `python docs/gallery.py STORE`. The store has the studies that `main`
trains where it has not got them, in a quarter of an hour on two cores. Needs Chromium and the extras `serve` and `test`."""

import logging
import shutil
import sys
import tempfile
import threading
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from werkzeug.serving import make_server

from recollect import Study
from recollect.reporting import report
from recollect.serve.live import Live
from recollect.serve.page import make_app

PICTURES = Path(__file__).parent / "pictures"
WIDE, NARROW = (1400, 900), (390, 844)
REPORT = {
    "report": ("view=window", WIDE, "light"), "report-curves": ("view=curves", WIDE, "dark"),
    "report-size": ("view=scaling&x=state_size&study=widths", WIDE, "light"), "report-phone": ("view=window", NARROW, "light"),
}  # fmt: skip
"""Pictures of the report: what is chosen, the size of the window, and the theme."""
ATTENTION = {"kind": "attention", "conv": "k"}
TASK = {"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32}
TRAIN = {"steps": 800, "batch": 32, "eval_every": 80, "eval_rows": 128, "test_rows": 512, "slices": "always"}
STUDIES = [
    Study(name="mixers", task=TASK, model={"mixer": [ATTENTION, "mamba2", "deltanet", "gla"], "width": 32, "layers": 1},
          train={**TRAIN, "lr": [3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1], "seed": [1, 2, 3]}),
    Study(name="widths", task=TASK, model={"mixer": [ATTENTION, "deltanet", "hyena"], "width": [16, 32, 64], "layers": 1},
          train={**TRAIN, "lr": [1e-3, 3e-3, 1e-2, 3e-2, 1e-1], "seed": [1, 2]}),
]  # fmt: skip


def main(store: Path) -> None:
    """Write every picture."""
    for study in STUDIES:
        study.run(store=store, device="cpu", keep_weights=True)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        flags = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        page = report(store, [], Path(folder) / "report.html")
        for name, (link, size, theme) in REPORT.items():
            take(browser, f"{page.as_uri()}#{link}", "html[data-ready=yes]", size, theme, name)
        server = make_server("127.0.0.1", 0, make_app(Live([store]), "127.0.0.1").server, threaded=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        take(browser, f"http://127.0.0.1:{server.server_port}/", "#chart .main-svg", WIDE, "light", "serve")
        server.shutdown()
        browser.close()


def take(browser: Browser, address: str, ready: str, size: tuple[int, int], theme: str, name: str) -> None:
    """One picture of a page, once it is ready."""
    dark = "dark" if theme == "dark" else "light"
    tab = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme=dark)
    tab.goto(address)
    tab.wait_for_selector(ready)
    tab.wait_for_timeout(2000)
    tab.screenshot(path=PICTURES / f"{name}.png")
    tab.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
