"""Twenty thousand runs with curves: how long a report takes to make and to open, and the live page to draw.

Where others compute beside the test the clock says little, so that Python is held to its processor time."""

import time

import pytest

from recollect.reporting import report
from recollect.store.store import Store

pytestmark = pytest.mark.long
MIXERS = ["attention", "mamba2", "deltanet", "gla", "hyena", "h3", "rwkv", "based", "retnet", "lstm"]


@pytest.fixture(scope="module")
def store(made, tmp_path_factory) -> Store:
    study = made.study(
        "large", MIXERS, [16, 32, 64, 128, 256], [10 ** (-4 + 0.25 * k) for k in range(16)], range(1, 26)
    )
    store, runs = Store(tmp_path_factory.mktemp("large") / "s.sqlite", create=True), study.runs()
    assert len(runs) == 20_000
    with store.writing() as writer:
        writer.add_study(study.name, study.to_yaml(), runs)
        for k in range(0, len(runs), 2000):
            writer.add_results(made.results(runs[k : k + 2000], 50, tags=False), "cpu")
    return store


def test_a_report_is_made_in_ten_seconds_and_opens_in_five(store, browser, tmp_path):
    began = time.process_time()
    path = report(store, [], tmp_path / "r.html")
    assert time.process_time() - began < 10
    assert path.stat().st_size < 12e6
    with browser() as page:
        began = time.monotonic()
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready=yes]")
        assert time.monotonic() - began < 5
        began = time.monotonic()
        page.fill("#filter", "mamba2 width=32")
        assert page.inner_text("#found").startswith("400 of 20000")
        assert time.monotonic() - began < 0.5
        page.click("#views label:nth-child(2)")
        assert page.evaluate("$('chart').data.length") > 0
        assert page.messages == []


def test_the_live_page_reads_and_draws_in_time(store):
    pytest.importorskip("dash")
    from recollect.serve.live import Live
    from recollect.views import plot
    from recollect.views.filter import matching

    live = Live([store.path])
    live.version()
    frames = live.frames(["large"])  # when the server starts
    began = time.process_time()
    plot("window", live.frames(["large"]))
    assert time.process_time() - began < 2
    began = time.process_time()
    assert matching(frames.runs, "mamba2 width=32").sum() == 400
    assert time.process_time() - began < 0.5
