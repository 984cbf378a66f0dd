"""The live page in a real browser: it grows while runs train, every view draws, text is text."""

import threading
import time

import pytest

pytest.importorskip("dash")

from werkzeug.serving import make_server

from recollect.serve.live import Live
from recollect.serve.page import make_app
from recollect.store.frames import runs_frame
from recollect.train.events import Measured

pytestmark = pytest.mark.long
EVIL = "<img src=x onerror=alert(1)><b>"


@pytest.fixture(scope="module")
def store(made, tmp_path_factory):
    store = made(tmp_path_factory.mktemp("serve") / "s.sqlite", made.study())
    growing = made.study("growing", mixers=["deltanet"], widths=[16])
    with store.writing() as writer:
        writer.add_study(EVIL, "name: x\n", made.study(seeds=[9]).runs())
        writer.add_failure(made.study(seeds=[9]).runs()[0].id, 1, f"RuntimeError: {EVIL}", f"Traceback {EVIL}")
        writer.add_study(growing.name, growing.to_yaml(), growing.runs())
    return store


@pytest.fixture(scope="module")
def address(store):
    server = make_server("127.0.0.1", 0, make_app(Live([store.path]), "127.0.0.1").server, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def opened(page, address, study="made"):
    page.goto(address)
    page.wait_for_selector("#chart .main-svg")
    page.click("#studies")
    page.locator(".dash-dropdown-option", has_text=study).first.click()
    page.keyboard.press("Escape")
    page.wait_for_function("document.querySelector('#chart .js-plotly-plot').data.length > 0")
    return page


def chart(page, what: str):
    return page.evaluate(f"document.querySelector('#chart .js-plotly-plot').{what}")


@pytest.mark.parametrize(("width", "dark"), [(1400, False), (390, True), (1400, True), (390, False)])
def test_every_view_draws_and_nothing_is_fetched_elsewhere(browser, address, store, width, dark):
    with browser(width, dark) as page:
        opened(page, address)
        assert page.evaluate("document.documentElement.dataset.theme") == ("dark" if dark else "light")
        for k in range(page.locator("#views input").count()):
            page.locator("#views input").nth(k).focus()
            page.keyboard.press("Space")
            page.wait_for_timeout(700)
            assert chart(page, "data.length") > 0
            assert page.locator("#chart .main-svg").first.bounding_box()["height"] > 300
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        shown = page.locator("#found").inner_text()
        assert shown.startswith(f"{len(runs_frame(store, 'made'))} runs")
        assert page.messages == []
        assert all(url.startswith((address, "data:", "blob:")) for url in page.requested)


def test_controls_filter_and_grid(browser, address, store):
    with browser() as page:
        opened(page, address)
        page.fill("#filter", "mamba2 width=32")
        page.wait_for_function("document.querySelector('#found').textContent.startsWith('6 runs')")
        best = runs_frame(store, "made").query("`model.mixer` == 'mamba2' and `model.width` == 32")["accuracy"].max()
        cells = "[...document.querySelectorAll('#runs [col-id=accuracy].ag-cell')]"
        page.wait_for_function(f"{cells}.length === 6 && {cells}.every((cell) => cell.textContent)")
        shown = page.locator("#runs [col-id=accuracy].ag-cell").first.inner_text()
        assert float(shown) == pytest.approx(best, rel=1e-4)
        page.click("#switch")
        page.wait_for_function("document.documentElement.dataset.theme === 'dark'")
        with page.expect_download() as download:
            page.click("#csv")
        assert download.value.suggested_filename == "runs.csv"
        assert page.messages == []


def test_the_address_keeps_what_is_chosen_and_the_table_sorts_all_runs(browser, address, store):
    runs = runs_frame(store, "made")
    with browser() as page:
        opened(page, address)
        page.locator("#views input").nth(2).focus()
        page.keyboard.press("Space")
        page.fill("#filter", "attention")
        page.wait_for_function(
            "location.search.includes('view=scaling') && location.search.includes('filter=attention')"
        )
        link = page.url
        page.locator("#runs .ag-header-cell[col-id='train.seed'] .ag-header-cell-label").click()
        page.wait_for_function(
            "document.querySelector('#runs [row-index=\"0\"] [col-id=\"train.seed\"]')?.textContent === '1'"
        )
        shown = page.locator("#runs [row-index='0'] [col-id=accuracy]").inner_text()
        kept = runs.loc[(runs["model.mixer"] == "attention") & (runs["train.seed"] == 1), "accuracy"]
        assert float(shown) in [pytest.approx(value, rel=1e-4) for value in kept]
        assert page.messages == []
    with browser() as page:
        page.goto(link)
        page.wait_for_function("document.querySelector('#chart .js-plotly-plot')?.data?.length > 0")
        assert page.locator("#views label:has(input:checked)").inner_text() == "Accuracy against size"
        assert page.input_value("#filter") == "attention"
        assert page.locator("#found").inner_text().startswith("18 runs")
        assert "made" in page.locator("#studies").inner_text()
        assert page.messages == []


def test_the_atlas_is_drawn_beside_a_study(browser, address):
    with browser() as page:
        page.goto(f"{address}?study=made&study=atlas.probe+(shipped)")
        page.wait_for_function("document.querySelector('#chart .js-plotly-plot')?.data?.length > 0")
        names = chart(page, "data.map(trace => trace.name)")
        assert any(name.endswith("made") for name in names)
        assert any("rwkv7" in name and name.endswith("(shipped)") for name in names)
        assert "another setting than made" in page.locator("#caption").inner_text()
        assert page.messages == []


def test_curves_grow_without_a_reload(browser, address, store, made):
    runs = made.study("growing", mixers=["deltanet"], widths=[16]).runs()
    with browser() as page, store.writing() as writer:
        page.goto(address)  # the newest study is chosen
        page.wait_for_selector("#views")
        page.locator("#views input").nth(1).focus()
        page.keyboard.press("Space")
        for step in (20, 40, 60):
            points = {run.id: {"step": step, "examples": 8 * step, "accuracy": step / 120} for run in runs}
            writer.add_measured(runs, Measured(step, 120, {}, points=points))
            began = time.monotonic()
            last = "(document.querySelector('#chart .js-plotly-plot')?._fullData || []).flatMap(t => [...(t.x || [])])"
            page.wait_for_function(f"{last}.includes({step})", timeout=20_000)
            if step > 20:
                assert time.monotonic() - began < 5, "seconds after it was measured"
        assert "6 in training" in page.locator("#summary").inner_text()
        assert page.messages == []


def test_evil_text_is_text(browser, address):
    with browser() as page:
        opened(page, address, "<img")
        page.wait_for_selector("#failures summary")
        assert EVIL in page.locator("#failures summary").inner_text()
        assert (
            EVIL in page.locator("#failures pre").inner_text(timeout=5000) or page.locator("#failures pre").count() == 1
        )
        assert page.locator("img[src=x]").count() == 0
        assert page.messages == []
