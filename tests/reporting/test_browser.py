"""The report in a real browser: its numbers, every control, keyboard only, both widths, light and dark."""

import pytest

from recollect.reporting import report
from recollect.store.frames import curves_frame, runs_frame, slices_frame
from recollect.views import VIEWS
from recollect.views.base import Frames, prepared

pytestmark = pytest.mark.long
EVIL = "</script><script>document.title='broken'</script><b>&amp;"


@pytest.fixture(scope="module")
def store(made, tmp_path_factory):
    store = made(
        tmp_path_factory.mktemp("report") / "s.sqlite", made.study(), made.study("other", mixers=["gla"], seeds=[3])
    )
    with store.writing() as writer:
        writer.add_study(EVIL, f"name: x # {EVIL}\n", made.study().runs()[:4])
        writer.add_failure(made.study(seeds=[9]).runs()[0].id, 1, f"RuntimeError: {EVIL}", f"Traceback {EVIL}")
    return store


@pytest.fixture(scope="module")
def page_file(store, tmp_path_factory):
    return report(store, [], tmp_path_factory.mktemp("page") / "r.html")


def opened(page, path, link=""):
    page.goto(path.resolve().as_uri() + (f"#{link}" if link else ""))
    page.wait_for_selector("html[data-ready=yes]")
    page.evaluate("new Promise((done) => setTimeout(done))")  # another link in the same page: its event comes first
    return page


def lines(page) -> dict:
    """The lines that the chart shows, by name."""
    return page.evaluate(
        "Object.fromEntries($('chart').data.filter(t => t.hovertemplate && t.customdata).map(t => [t.name, [t.x, t.y]]))"
    )


@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_every_view_opens_alone_without_a_word(browser, page_file, width, dark):
    with browser(width, dark) as page:
        for name in VIEWS:
            if name != "mixing":  # no weights were kept
                opened(page, page_file, f"view={name}&study=made")
                assert page.evaluate("$('chart').data.length") > 0, name
                assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing sticks out"
        assert page.messages == []
        assert {url.split("#")[0] for url in page.requested} == {page_file.resolve().as_uri()}
        assert page.evaluate("document.documentElement.dataset.theme") == ("dark" if dark else "light")
        bottom = page.evaluate("$('csv').getBoundingClientRect().bottom")
        assert width == 390 or bottom <= 900, "chart, key and buttons are on the first screen"


@pytest.mark.parametrize(("name", "asked"), [
    ("window", {}), ("window", {"y": "final.loss", "lines": "model.mixer"}), ("scaling", {"x": "state_size"}), ("best_rate", {}),
    ("scaling", {"x": "model.width", "rate": "all", "lines": "train.lr", "top": "3"}), ("curves", {}),
    ("curves", {"y": "test_loss", "x": "examples", "rate": "0.01", "lines": "model"}), ("tags", {}),
])  # fmt: skip
def test_the_pages_lines_are_those_of_the_view(browser, page_file, store, name, asked):
    frames = Frames(prepared(runs_frame(store, "made")), curves_frame(store, "made"), slices_frame(store, "made"))
    view = VIEWS.find(name)()
    table = view.table(frames, view.chosen(frames, asked))
    link = "&".join(["study=made", f"view={name}", *(f"{key}={value}" for key, value in asked.items())])
    with browser() as page:
        found = lines(opened(page, page_file, link))
    assert list(found) == list(dict.fromkeys(table["line"]))
    for line, (x, y) in found.items():
        own = table.loc[table["line"] == line]
        assert x == pytest.approx(own["x"].tolist(), rel=1e-12)
        assert y == pytest.approx(own["mean"].tolist(), rel=1e-12)


def test_every_control_is_used_once(browser, page_file, store):
    with browser() as page:
        opened(page, page_file)
        for label in page.locator("#views label").all():
            label.click()
            for select in page.locator("#choices fieldset:enabled label:not([hidden]) select").all():
                first = select.input_value()
                for value in [*select.evaluate("s => [...s.options].map(o => o.value)"), first]:
                    select.select_option(value)
        page.locator("#views label").first.click()
        page.click("#studies summary")
        page.locator("#study-list input").nth(1).check()
        assert any(" · other" in name for name in lines(page)), "two studies in one chart"
        before = len(lines(page))
        page.locator("#key button").first.click()
        assert len(lines(page)) == before - 1
        page.locator("#key button").first.click()
        page.fill("#filter", "gla accuracy>0.5")
        frame = runs_frame(store, "other")
        fits = ((frame["model.mixer"] == "gla") & (frame["accuracy"] > 0.5)).sum()
        assert page.inner_text("#found").startswith(f"{fits} of ")
        page.fill("#filter", "")
        page.select_option("fieldset:enabled select[name=top]", "3")
        assert len(lines(page)) == 3
        page.click("#theme")
        for what, kind in (("svg", "svg"), ("png", "png"), ("csv", "csv"), ("runs-csv", "csv")):
            with page.expect_download() as download:
                page.click(f"#{what}")
            assert download.value.suggested_filename.endswith(kind)
        page.click("#link")
        kept = page.evaluate("navigator.clipboard.readText()")
        shown = lines(page)
        page.goto("about:blank")
        page.goto(kept)
        page.wait_for_selector("html[data-ready=yes]")
        assert lines(page) == shown, "the link keeps the view"
        page.locator(".copy").first.click()
        assert page.evaluate("navigator.clipboard.readText()") == page.locator(".copy").first.inner_text()
        assert page.messages == []


def test_tables_sort_by_the_stores_numbers(browser, page_file, store):
    with browser() as page:
        opened(page, page_file, "study=made&sort=-accuracy")
        heads = page.locator("#runs-head th").all_inner_texts()
        column = [head.split(" ")[0] for head in heads].index("accuracy") + 1
        page.click("#more")
        titles = page.locator(f"#runs-body td:nth-child({column})").evaluate_all(
            "all => all.map(td => Number(td.title))"
        )
        assert titles == sorted(runs_frame(store, "made")["accuracy"], reverse=True)
        page.locator("#configurations th button", has_text="accuracy").first.click()
        values = page.locator("#configurations tr:not([hidden]) td:nth-child(3)").evaluate_all(
            "all => all.map(td => Number(td.dataset.value))"
        )
        assert values == sorted(values, reverse=True)
        assert page.messages == []


def test_the_keyboard_alone_is_enough(browser, page_file, store):
    with browser() as page:
        opened(page, page_file, "study=made")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        reached = set()
        for _ in range(60):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.id || document.activeElement.name"))
            if page.evaluate("document.activeElement.id") == "chart":
                break
        assert {"theme", "view", "y", "lines", "top", "filter", "chart"} <= reached
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        frame = runs_frame(store, "made")
        own = frame[(frame["configuration"] == frame["configuration"][0]) & (frame["train.lr"] == 0.01)]["accuracy"]
        spoken = page.inner_text("#spoken")
        assert spoken.startswith(f"line {frame['configuration'][0]}, learning rate 0.01, mean ")
        assert float(spoken.split("mean ")[1].split(",")[0]) == pytest.approx(own.mean(), rel=1e-3)
        page.wait_for_function("document.querySelectorAll('.hoverlayer .hovertext').length === 1")
        page.focus("#views input:checked")
        page.keyboard.press("ArrowRight")
        assert page.evaluate("S.view") == "curves"
        opened(page, page_file, "study=made&view=heatmap")
        page.focus("#chart")
        page.keyboard.press("ArrowRight")
        assert page.inner_text("#spoken").startswith(f"configuration {frame['configuration'][0]}, learning rate 0.001")
        page.wait_for_function("document.querySelectorAll('.hoverlayer .hovertext').length === 1")
        assert page.messages == []


def test_evil_text_is_text(browser, page_file):
    with browser() as page:
        opened(page, page_file)
        page.click("#studies summary")
        page.locator("#study-list input").nth(2).check()
        page.locator("#study-list input").nth(0).uncheck()
        assert EVIL in page.inner_text("main")
        assert page.title() == "3 studies of s.sqlite"
        assert page.locator("script").count() == 3
        assert page.locator("main b").count() == 0
        assert page.messages == []
